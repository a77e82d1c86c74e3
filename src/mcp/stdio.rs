//! An agent on stdin and stdout: a message a line.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::value::RawValue;

use super::server::{Peer, Server, Session, notification};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::rpc;
use crate::sys::fd;
use crate::sys::poll::Waker;
use crate::threads;
use crate::transport::stdio::LineSource;
use crate::transport::{Event, Framing, Outbox, Patience, Source, message};

/// The longest message that is taken.
const MAX_MESSAGE: usize = 64 * 1024 * 1024;
/// Notifications that may wait to be written; who reads slowly hears less of progress.
const MOST_TOLD: usize = 8;
/// (An agent may be silent for as long as it likes; nothing is done then.)
const QUIET: Duration = Duration::from_secs(3600);

/// The agent that has started this program.
pub(crate) struct Stdio {
    session: Arc<Session>,
    outbox: Outbox,
    peer: Arc<dyn Peer>,
}

impl Stdio {
    /// Takes messages from a thread of its own. `on_end` is called when there are no more, or when
    /// nobody reads the answers.
    ///
    /// # Errors
    /// No descriptors or threads are left.
    pub(crate) fn start(
        server: &Arc<Server>,
        on_end: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self> {
        let failed = |error: io::Error| Error::io(&error, "cannot speak on stdin and stdout");
        let on_end = Arc::new(on_end);
        let stdin = fd::duplicate_standard(0).map_err(failed)?;
        let stdout = Box::new(File::from(fd::duplicate_standard(1).map_err(failed)?));
        let unread = Arc::clone(&on_end);
        let (outbox, _writer) =
            Outbox::start(stdout, Framing::Lines, move || unread(), || false).map_err(failed)?;
        let stop = Arc::new(Waker::new().map_err(failed)?);
        let source = LineSource::new(stdin, stop, Patience::never(QUIET), MAX_MESSAGE);
        let peer: Arc<dyn Peer> = Arc::new(Lines { outbox: outbox.clone(), told: Arc::default() });
        let session = Session::new(server);
        let stdio = Self { session: Arc::clone(&session), outbox, peer: Arc::clone(&peer) };
        threads::run(move || {
            read(source, &session, &peer);
            on_end();
        })
        .map_err(failed)?;
        Ok(stdio)
    }

    /// The tools have become others.
    pub(crate) fn tools_have_changed(&self) {
        let params = serde_json::json!({});
        self.peer.tell(notification("notifications/tools/list_changed", &params));
    }

    /// What the agent has under way.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Writes what is left to be written, as long as somebody takes it.
    pub(crate) fn finish(&self, patience: Duration) {
        self.outbox.drain(patience, &|| false);
    }
}

fn read(mut source: LineSource, session: &Arc<Session>, peer: &Arc<dyn Peer>) {
    loop {
        match source.next() {
            Event::Message(text) if text.trim_start().starts_with('[') => {
                // The revision of March 2025 has batches; each message is answered by itself.
                match serde_json::from_str::<Vec<&RawValue>>(text) {
                    Ok(all) if !all.is_empty() => {
                        all.iter().for_each(|one| session.take(one.get(), peer));
                    }
                    _ => session.take(text, peer),
                }
            }
            Event::Message(text) => session.take(text, peer),
            Event::TooLong => {
                let text = format!("the message is longer than {MAX_MESSAGE} bytes");
                refuse(&**peer, &Error::new(ErrorKind::InvalidRequest, text));
            }
            Event::NotText(why) => {
                refuse(&**peer, &Error::new(ErrorKind::Parse, format!("not UTF-8: {why}")));
            }
            Event::End(_) => return,
        }
    }
}

fn refuse(peer: &dyn Peer, error: &Error) {
    let mut message = Vec::new();
    rpc::write_error(&mut message, None, error);
    peer.answer(message);
}

struct Lines {
    outbox: Outbox,
    told: Arc<AtomicUsize>,
}

/// A notification on its way.
struct Telling(Arc<AtomicUsize>);

impl Drop for Telling {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Lines {
    fn send(&self, text: &[u8], share: Box<dyn Send>) {
        let mut line = message(Vec::with_capacity(text.len() + 32));
        line.extend_from_slice(text);
        self.outbox.bulk(line, share);
    }
}

impl Peer for Lines {
    fn answer(&self, message: Vec<u8>) {
        self.send(&message, Box::new(()));
    }

    fn tell(&self, message: Vec<u8>) {
        if self.told.fetch_add(1, Ordering::Relaxed) >= MOST_TOLD {
            self.told.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        self.send(&message, Box::new(Telling(Arc::clone(&self.told))));
    }
}
