//! The guardian's own life: it waits for signals and for children to end, and does nothing else.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::News;
use super::sweep::{self, Whose};
use crate::descendants;
use crate::supervision::Notify;
use crate::sys::child::Status;
use crate::sys::guard::{self, Reaped};
use crate::sys::signal::{self, Arrival, Signals};

/// How long what is below this process may take to be gone.
const SWEEP: Duration = Duration::from_secs(4);
/// How long what is not below it may take.
const ELSEWHERE: Duration = Duration::from_millis(400);
/// How long after a stop was asked for both must be over: a process that hangs in the kernel must not
/// keep the service from being stopped within 5 s.
const ORDERLY: Duration = Duration::from_millis(4600);
/// What either may take at the least, however long the server itself has taken.
const LEAST: Duration = Duration::from_millis(200);
/// What asks for a stop.
const STOPS: [i32; 3] = [signal::TERM, signal::INT, signal::HUP];

/// The process that was started, while the server runs as its child.
pub(crate) struct Guard {
    pub(super) server: i32,
    /// All that can be waited for and that whoever started it did not ignore.
    pub(super) signals: Signals,
    pub(super) notify: Notify,
    /// Which of its children are the server's.
    pub(super) whose: Whose,
}

impl Guard {
    /// Stands guard until the server has ended, and answers what the server answered. Where a
    /// signal ended the server, this process dies of the same.
    pub(crate) fn run(self) -> ExitCode {
        // A descriptor that both have would stay open when the server closes it: the peer would
        // not see the end of stdout, nor the port be free. Stderr alone is kept, to have a way to
        // say what is wrong.
        guard::close_all_but_stderr();
        guard::set_name(c"ta-guardian");
        let (status, asked) = self.wait();
        let end = asked.map(|asked| asked + ORDERLY);
        let within = |most: Duration, reserve: Duration| {
            let now = Instant::now();
            let end = end.and_then(|end| end.checked_sub(reserve)).unwrap_or(now + most);
            end.clamp(now + LEAST, now + most)
        };
        // What is below PID 1 ends with it, by the kernel's own hand.
        if guard::pid() != 1 && !sweep::sweep(&self.signals, self.whose, within(SWEEP, ELSEWHERE)) {
            crate::cli::say_error("some processes of the server cannot be ended, and live on");
        }
        // What has been handed to others than this process, in another namespace for instance.
        let left = within(ELSEWHERE, Duration::ZERO).saturating_duration_since(Instant::now());
        descendants::end_all(left);
        match status {
            Status::Exited(code) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
            Status::Signaled(signal) => {
                guard::forbid_core_dump();
                signal::die_of(signal)
            }
        }
    }

    /// Answers how the server has ended, and when it was first asked to.
    fn wait(&self) -> (Status, Option<Instant>) {
        let mut asked = None;
        loop {
            match self.signals.next() {
                Ok(arrival) if arrival.signal == signal::CHLD => {
                    if let Some(status) = self.reap() {
                        self.tell_last();
                        return (status, asked);
                    }
                }
                Ok(arrival) => {
                    let is_news = matches!(self.news(&arrival), Some(News::Stopping));
                    if is_news || STOPS.contains(&arrival.signal) {
                        asked.get_or_insert_with(Instant::now);
                    }
                    self.pass_on(&arrival);
                }
                Err(_) => std::thread::yield_now(),
            }
        }
    }

    /// Reaps whoever has ended: orphans, which nobody else would, and the server.
    fn reap(&self) -> Option<Status> {
        let mut status = None;
        // SIGCHLD is one signal however many have ended.
        while let Reaped::One(pid, how) = guard::reap_any() {
            if pid == self.server {
                status = Some(how);
            }
        }
        status
    }

    fn pass_on(&self, arrival: &Arrival) {
        if let Some(news) = self.news(arrival) {
            self.notify.send(news.text());
        } else {
            // The server is not reaped yet, so that the number is its own.
            let _ = guard::queue(self.server, arrival.signal, arrival.sender);
            // One that somebody has suspended (it runs as the same user as what it starts) would
            // not hear it.
            if STOPS.contains(&arrival.signal) {
                guard::signal_child(self.server, signal::CONT);
            }
        }
    }

    fn news(&self, arrival: &Arrival) -> Option<News> {
        let is_server = arrival.sender == self.server && arrival.signal == super::news_signal();
        arrival.value.filter(|_| is_server).and_then(News::of_value)
    }

    /// What the server has said just before its end is still to be told.
    fn tell_last(&self) {
        while let Ok(Some(arrival)) = self.signals.next_within(Duration::ZERO) {
            if let Some(news) = self.news(&arrival) {
                self.notify.send(news.text());
            }
        }
    }
}
