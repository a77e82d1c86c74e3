//! The bridge: whole messages from one side to the other, unchanged, at the pace of whoever takes
//! them.
//!
//! It knows of the protocol what it takes to end well: how many answers are due. When stdin has ended,
//! these are waited for before the far side is told goodbye. A reader of stdout that has gone is not
//! waited for.

use std::cell::Cell;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use super::room::Room;
use crate::cli::end::End;
use crate::cli::thread::spawn;
use crate::client::{Carrier, Known, Opened, loss, speaks};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::rpc::{self, Message};
use crate::sys::poll::{Interest, Waker, wait_for};
use crate::sys::signal;
use crate::sys::{self, fd};
use crate::transport::stdio::LineSource;
use crate::transport::{Event, Framing, Outbox, Patience, Source, message};

/// The longest message that is taken, from either side. The far side may take less.
const MAX_MESSAGE: usize = 256 * 1024 * 1024;
/// How often the far side hears something although nobody has anything to say: it gives up who is
/// silent for 60 s. It may have to be the main thread that says it, because the one that reads from
/// there may have to wait for stdout.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How often it is looked whether somebody still reads the answers that are waited for.
const GLANCE: Duration = Duration::from_millis(100);
/// Signals and one last word of each thread.
pub(super) const NEWS: usize = 8;

pub(super) enum News {
    Signal(i32),
    /// Nothing more will be asked.
    StdinEnded,
    /// The last answer that was due has come.
    Answered,
    FarEnded(Error),
    /// A write to stdout has failed.
    Unread,
}

/// How many answers are due, and whether more can become so.
#[derive(Default)]
struct Due {
    /// An answer may be counted before its question.
    count: AtomicI64,
    asked_all: AtomicBool,
}

impl Due {
    fn asked(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether that was the last one.
    fn answered(&self) -> bool {
        let before = self.count.fetch_sub(1, Ordering::SeqCst);
        before <= 1 && self.asked_all.load(Ordering::SeqCst)
    }

    fn is_over(&self) -> bool {
        self.asked_all.load(Ordering::SeqCst) && self.count.load(Ordering::SeqCst) <= 0
    }
}

/// Passes messages on until one side has ended.
pub(super) fn run(
    (opened, epoch): (Opened, Option<u64>),
    sender: &Sender<News>,
    news: &Receiver<News>,
) -> Result<End, End> {
    let Opened { source, outbox, carrier } = opened;
    let near = near(sender).map_err(End::Failed)?;
    let due = Arc::new(Due::default());
    let up = Up { from: near.source, to: outbox.clone(), back: near.outbox.clone() };
    let (told, counted) = (sender.clone(), Arc::clone(&due));
    spawn("stdin", move || up.run(&told, &counted)).map_err(End::Failed)?;
    let down = Down { to: near.outbox.clone(), carrier: Arc::clone(&carrier), epoch };
    let (told, counted) = (sender.clone(), Arc::clone(&due));
    spawn("output", move || down.run(source, &told, &counted)).map_err(End::Failed)?;
    let mut end = wait(news, &due, &outbox);
    // What has come before an end is shown before it is told.
    if !matches!(end, End::Signal(_)) {
        let cut_short = Cell::new(None);
        near.outbox.drain(Duration::MAX, &|| {
            let end = news.try_iter().find_map(|news| match news {
                News::Signal(signal) => Some(End::Signal(signal)),
                News::Unread => Some(unread()),
                _ => None,
            });
            let is_cut_short = end.is_some();
            cut_short.set(end);
            is_cut_short
        });
        end = cut_short.take().unwrap_or(end);
    }
    carrier.close(&outbox);
    Ok(end)
}

fn wait(news: &Receiver<News>, due: &Due, outbox: &Outbox) -> End {
    let mut keep_alive = Instant::now() + KEEP_ALIVE;
    loop {
        let glance = Instant::now() + GLANCE;
        let asked_all = due.asked_all.load(Ordering::SeqCst);
        match news.recv_deadline(if asked_all { glance.min(keep_alive) } else { keep_alive }) {
            Ok(News::Signal(signal)) => return End::Signal(signal),
            Ok(News::StdinEnded | News::Answered) if due.is_over() => return End::Code(0),
            Ok(News::StdinEnded | News::Answered) => {}
            Ok(News::FarEnded(_)) if due.is_over() => return End::Code(0),
            Ok(News::FarEnded(error)) => return End::Refused(error),
            Ok(News::Unread) => return unread(),
            Err(RecvTimeoutError::Timeout) if asked_all && is_unread() => return unread(),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let message = "ta has a bug: all threads are gone";
                return End::Failed(Error::new(ErrorKind::Internal, message));
            }
        }
        if Instant::now() >= keep_alive {
            keep_alive = Instant::now() + KEEP_ALIVE;
            say_something(outbox);
        }
    }
}

/// An empty line is skipped by whoever reads lines, and shows that somebody is there.
fn say_something(outbox: &Outbox) {
    if outbox.is_stdio() { outbox.control(message(Vec::new())) } else { outbox.ping() }
}

/// Whether nobody reads stdout any more.
fn is_unread() -> bool {
    let Ok(stdout) = fd::duplicate_standard(1) else { return true };
    matches!(wait_for(stdout.as_fd(), Interest::HangUp, Some(Duration::ZERO)), Ok(Some(_)))
}

fn unread() -> End {
    if is_unread() {
        return End::Signal(signal::PIPE);
    }
    End::Failed(Error::new(ErrorKind::Os(sys::errno::EIO), "cannot write to stdout"))
}

/// stdin and stdout.
struct Near {
    source: LineSource,
    outbox: Outbox,
}

fn near(news: &Sender<News>) -> Result<Near> {
    let failed = |error: std::io::Error| Error::io(&error, "cannot speak on stdin and stdout");
    let stdin = fd::duplicate_standard(0).map_err(failed)?;
    let stdout = Box::new(File::from(fd::duplicate_standard(1).map_err(failed)?));
    let news = news.clone();
    let on_failure = move || drop(news.try_send(News::Unread));
    let (outbox, _writer) =
        Outbox::start(stdout, Framing::Lines, on_failure, || false).map_err(failed)?;
    // Whoever is there may be silent for as long as they like.
    let patience = Patience::never(KEEP_ALIVE);
    let stop = Arc::new(Waker::new().map_err(failed)?);
    Ok(Near { source: LineSource::new(stdin, stop, patience, MAX_MESSAGE), outbox })
}

/// From stdin to the far side.
struct Up {
    from: LineSource,
    to: Outbox,
    /// Where what cannot be passed on is answered, as a server on a pipe would.
    back: Outbox,
}

impl Up {
    fn run(mut self, news: &Sender<News>, due: &Due) {
        let room = Arc::default();
        loop {
            match self.from.next() {
                Event::Message(text) => {
                    // After it is on its way: a long one takes a while to read.
                    pass(&self.to, &room, text);
                    if is_question(text) {
                        due.asked();
                    }
                }
                Event::TooLong => {
                    let message = format!("the message is longer than {MAX_MESSAGE} bytes");
                    refuse(&self.back, &Error::new(ErrorKind::InvalidRequest, message));
                }
                Event::NotText(why) => {
                    refuse(&self.back, &Error::new(ErrorKind::Parse, format!("not UTF-8: {why}")));
                }
                Event::End(_) => break,
            }
        }
        due.asked_all.store(true, Ordering::SeqCst);
        let _ = news.send(News::StdinEnded);
    }
}

/// Whether it will be answered: a request, and whatever is no message at all.
fn is_question(text: &str) -> bool {
    !matches!(rpc::parse(text), Ok(Message::Notification { .. } | Message::Response { .. }))
}

fn refuse(to: &Outbox, error: &Error) {
    let mut buffer = message(Vec::with_capacity(256));
    rpc::write_error(&mut buffer, None, error);
    to.bulk(buffer, Box::new(()));
}

/// Sends a copy as soon as there is room for it.
fn pass(to: &Outbox, room: &Arc<Room>, text: &str) {
    let share = room.take(text.len());
    let mut buffer = message(Vec::with_capacity(text.len() + 32));
    buffer.extend_from_slice(text.as_bytes());
    to.bulk(buffer, Box::new(share));
}

/// From the far side to stdout.
struct Down {
    to: Outbox,
    carrier: Arc<dyn Carrier>,
    epoch: Option<u64>,
}

impl Down {
    fn run(self, mut source: Box<dyn Source + Send>, news: &Sender<News>, due: &Due) {
        let room = Arc::default();
        let mut has_spoken = false;
        let end = loop {
            let event = source.next();
            if let Event::Message(text) = &event {
                has_spoken = has_spoken || speaks(text);
            }
            match event {
                Event::Message(text) if text.contains('\n') => {
                    // White space, between two tokens; on a pipe it would end the message.
                    pass(&self.to, &room, &text.replace(['\n', '\r'], " "));
                    note(text, news, due);
                }
                Event::Message(text) => {
                    pass(&self.to, &room, text);
                    note(text, news, due);
                }
                Event::TooLong | Event::NotText(_) => {}
                Event::End(end) => break end,
            }
        };
        let why = self.carrier.explain(&end);
        let error = loss(&end, Known { why, epoch: self.epoch, has_spoken });
        let _ = news.send(News::FarEnded(error));
    }
}

/// Counts it if it is an answer.
fn note(text: &str, news: &Sender<News>, due: &Due) {
    // What comes most often.
    if text.starts_with(r#"{"jsonrpc":"2.0","method":"#) {
        return;
    }
    if matches!(rpc::parse(text), Ok(Message::Response { .. })) && due.answered() {
        let _ = news.send(News::Answered);
    }
}
