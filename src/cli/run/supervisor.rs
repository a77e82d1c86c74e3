//! What happens to a command while it runs, decided in one place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, at, bounded, never, select};

use super::streams::{self, Fed, Outcome, Outputs};
use super::terminal::{self, Terminal};
use super::{GRACE, Plan, Started};
use crate::cli::end::End;
use crate::cli::lost_thread;
use crate::cli::place::Runner;
use crate::cli::thread::{spawn, watch};
use crate::client::{Answer, ProcessControl, ProcessExit};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::KillResult;
use crate::sys::signal::{self, Signals};

/// News on its way to the main thread. It takes each at once; a flood of signals waits in the
/// kernel, where it is one of each.
const NEWS: usize = 8;
/// How long a command that has been killed may take to be over, once nobody takes its output
/// any more. It covers a slow connection's way there and back.
const PATIENCE: Duration = Duration::from_secs(1);
/// The exit code after a timeout, as that of timeout(1).
const TIMED_OUT: u8 = 124;

/// What the main thread is told.
enum News {
    Signal(i32),
    StdinFailed(Error),
    /// Our stdin has ended, and nobody can read our stdout any more.
    Deserted,
}

/// Starts the command and sees it to its end. `signals` are those that end or stop `ta`,
/// `resizes` those of the terminal's window.
///
/// # Errors
/// The command cannot be started, or nothing be done for it.
pub(super) fn run(plan: Plan, signals: Signals, resizes: Option<Signals>) -> Result<End> {
    let (sender, news) = bounded(NEWS);
    let told: Sender<News> = sender.clone();
    watch(signals, move |signal| drop(told.send(News::Signal(signal))))?;
    let timeout = plan.timeout;
    let (window, stdin) = (plan.window, plan.stdin);
    let Started { environment, process, served } = match connect(plan, &news)? {
        Ok(started) => started,
        Err(signal) => return Ok(End::Signal(signal)),
    };
    let control = process.control();
    // Before a byte of output is shown or a key is read.
    let terminal = window.map(|_| Terminal::take_over()).transpose()?;
    if let (Some(resizes), Some(window)) = (resizes, window) {
        let control = control.clone();
        spawn("window", move || terminal::follow_window(&resizes, &control, window))?;
    }
    if stdin {
        let to = control.stdin();
        spawn("stdin", move || {
            let news = match streams::feed(to) {
                Ok(Fed::All) if streams::await_unread() => News::Deserted,
                Ok(_) => return,
                Err(error) => News::StdinFailed(error),
            };
            let _ = sender.send(news);
        })?;
    } else if !served {
        // Nobody waits for the answer: a command that is over already has no stdin to close.
        let _ = control.begin_write(&[], true);
    }
    let outputs = Outputs::standard()?;
    let written = outputs.written();
    let (sender, over) = bounded(1);
    spawn("output", move || drop(sender.send(outputs.pass_on(process))))?;
    let supervisor = Supervisor {
        environment: Some(environment),
        control,
        terminal,
        news,
        over,
        served,
        ending: Ending::Natural,
        interrupts: 0,
        time_is_up: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
        give_up: None,
        leave: None,
        written,
        seen: 0,
    };
    Ok(supervisor.run())
}

/// Starts the command; a signal before it has started ends `ta` at once, and the command with
/// the connection; that is the inner error.
fn connect(plan: Plan, news: &Receiver<News>) -> Result<Result<Started, i32>> {
    let (sender, started) = bounded(1);
    spawn("connect", move || drop(sender.send(plan.start())))?;
    loop {
        select! {
            recv(started) -> started => return started.map_err(|_| lost_thread())?.map(Ok),
            recv(news) -> news => match news {
                Ok(News::Signal(signal::TSTP)) => signal::to_self(signal::STOP),
                Ok(News::Signal(signal::CONT)) => {}
                Ok(News::Signal(signal)) => return Ok(Err(signal)),
                Ok(News::StdinFailed(error)) => return Err(error),
                // (It comes of a command that has been started.)
                Ok(News::Deserted) => {}
                Err(_) => return Err(lost_thread()),
            }
        }
    }
}

/// Why the command is to end.
enum Ending {
    /// By itself.
    Natural,
    /// Its time is up. Where it is `ta` that says so, the answer tells whether it still ran.
    TimedOut(Option<Answer<KillResult>>),
    /// `ta` was asked to end by this signal.
    Signal(i32),
}

struct Supervisor {
    /// Until the end.
    environment: Option<Box<dyn Runner>>,
    control: ProcessControl,
    terminal: Option<Terminal>,
    news: Receiver<News>,
    over: Receiver<Outcome>,
    /// The server watches over the command's time.
    served: bool,
    ending: Ending,
    /// How often the user has asked the command to stop.
    interrupts: u32,
    time_is_up: Option<Instant>,
    /// When the command's end is not waited for any longer, unless output has been taken.
    give_up: Option<Instant>,
    /// When a command that nobody talks to any more is ended.
    leave: Option<Instant>,
    written: Arc<AtomicU64>,
    /// What `written` was when that was last decided.
    seen: u64,
}

impl Supervisor {
    fn run(mut self) -> End {
        let end = loop {
            let due = [self.time_is_up, self.give_up, self.leave].into_iter().flatten().min();
            let due = due.map_or_else(never, at);
            let end = select! {
                recv(self.over) -> outcome => Some(match outcome {
                    Ok(outcome) => self.over(outcome),
                    Err(_) => End::Failed(lost_thread()),
                }),
                recv(self.news) -> news => match news {
                    Ok(News::Signal(signal)) => self.on_signal(signal),
                    Ok(News::StdinFailed(error)) => Some(End::Failed(error)),
                    // Whoever has started us is gone, and would be waited for by a command that
                    // does not heed the end of its stdin. One that does so, or is over anyhow,
                    // has a moment for its own exit code: `ta run -i … | head -1`.
                    Ok(News::Deserted) => {
                        self.leave = Some(Instant::now() + PATIENCE);
                        None
                    }
                    Err(_) => {
                        self.news = never();
                        None
                    }
                },
                recv(due) -> _ => self.on_deadline(Instant::now()),
            };
            if let Some(end) = end {
                break end;
            }
        };
        // The terminal first: saying goodbye may take a moment.
        self.terminal = None;
        self.environment = None;
        end
    }

    fn on_signal(&mut self, signal: i32) -> Option<End> {
        match (signal, &self.terminal) {
            (signal::TSTP, Some(terminal)) => terminal.suspend(),
            (signal::CONT, Some(terminal)) => terminal.resume(),
            (signal::TERM | signal::HUP, _) => return self.terminate(signal),
            (signal::INT | signal::QUIT, _) => return self.interrupt(signal),
            _ => {}
        }
        None
    }

    /// The user wants the command to stop: it is told so first, then killed, then left.
    fn interrupt(&mut self, signal: i32) -> Option<End> {
        self.interrupts += 1;
        match (&self.ending, self.interrupts) {
            (Ending::Signal(signal), _) => return Some(End::Signal(*signal)),
            (_, 1) => self.kill(&signal::name(signal), None),
            (_, 2) => {
                self.kill("SIGKILL", None);
                self.give_up_after(PATIENCE);
            }
            _ => return Some(End::Signal(signal)),
        }
        None
    }

    /// `ta` is to end, and the command before it. Whoever asks twice does not want to wait.
    fn terminate(&mut self, signal: i32) -> Option<End> {
        if matches!(self.ending, Ending::Signal(_)) {
            return Some(End::Signal(signal));
        }
        self.ending = Ending::Signal(signal);
        self.time_is_up = None;
        self.kill("SIGTERM", Some(GRACE));
        self.give_up_after(GRACE + PATIENCE);
        None
    }

    fn kill(&self, signal: &str, grace: Option<Duration>) {
        // If the connection has gone, the output's end says so.
        let _ = self.control.begin_kill(signal, grace);
    }

    fn give_up_after(&mut self, time: Duration) {
        self.seen = self.written.load(Ordering::Relaxed);
        self.give_up = Some(Instant::now() + time);
    }

    fn on_deadline(&mut self, now: Instant) -> Option<End> {
        if self.time_is_up.take_if(|time| *time <= now).is_some() {
            let answer = if self.served {
                None
            } else {
                self.control.begin_kill("SIGTERM", Some(GRACE)).ok()
            };
            self.ending = Ending::TimedOut(answer);
            self.give_up_after(GRACE + PATIENCE);
        }
        if self.leave.take_if(|time| *time <= now).is_some() {
            return Some(self.over(Outcome::Unread));
        }
        self.give_up.take_if(|time| *time <= now)?;
        // Somebody still takes what has arrived: at most a window of it is left.
        if self.written.load(Ordering::Relaxed) != self.seen {
            self.give_up_after(PATIENCE);
            return None;
        }
        Some(match self.ending {
            Ending::Signal(signal) => End::Signal(signal),
            Ending::TimedOut(_) => End::Code(TIMED_OUT),
            Ending::Natural => End::Signal(signal::INT),
        })
    }

    /// What the end of the output means.
    fn over(&self, outcome: Outcome) -> End {
        match (outcome, &self.ending) {
            (Outcome::Unread, _) => End::Signal(signal::PIPE),
            (_, Ending::Signal(signal)) => End::Signal(*signal),
            (Outcome::Failed(error), _) => End::Failed(error),
            (Outcome::Exit(_), Ending::TimedOut(Some(answer))) if still_ran(answer) => {
                End::Code(TIMED_OUT)
            }
            (Outcome::Exit(exit), _) => self.of_exit(&exit),
        }
    }

    fn of_exit(&self, exit: &ProcessExit) -> End {
        let signal = exit.signal.as_deref().and_then(signal::by_name);
        match (exit.exit_code, signal) {
            _ if exit.timed_out => End::Code(TIMED_OUT),
            (Some(code), _) => End::Code((code & 0xff).try_into().unwrap_or(u8::MAX)),
            (None, Some(signal::INT)) if self.interrupts > 0 => End::Signal(signal::INT),
            (None, Some(signal)) => End::Code((128 + signal).try_into().unwrap_or(u8::MAX)),
            (None, None) => {
                let message = "the server cannot tell how the command has ended";
                End::Failed(Error::new(ErrorKind::Internal, message))
            }
        }
    }
}

/// Whether there was something to end when its time was up. The answer came before the end.
fn still_ran(answer: &Answer<KillResult>) -> bool {
    matches!(answer.wait_until(Instant::now()), Ok(Some(KillResult { running: true })))
}
