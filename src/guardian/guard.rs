//! The guardian's own life: it waits for signals and for children to end, and does nothing else.

use std::process::ExitCode;
use std::time::Duration;

use super::News;
use super::sweep::{self, Whose};
use crate::descendants;
use crate::supervision::Notify;
use crate::sys::child::Status;
use crate::sys::guard::{self, Reaped};
use crate::sys::signal::{self, Arrival, Signals};

/// How long what is not below this process may take to be gone.
const ELSEWHERE: Duration = Duration::from_millis(500);

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
        let status = self.wait();
        // What is below PID 1 ends with it, by the kernel's own hand.
        if guard::pid() != 1 && !sweep::sweep(&self.signals, self.whose) {
            crate::cli::say_error("some processes of the server cannot be ended, and live on");
        }
        // What has been handed to others than this process, in another namespace for instance.
        descendants::end_all(ELSEWHERE);
        match status {
            Status::Exited(code) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
            Status::Signaled(signal) => {
                guard::forbid_core_dump();
                signal::die_of(signal)
            }
        }
    }

    fn wait(&self) -> Status {
        loop {
            match self.signals.next() {
                Ok(arrival) if arrival.signal == signal::CHLD => {
                    if let Some(status) = self.reap() {
                        self.tell_last();
                        return status;
                    }
                }
                Ok(arrival) => self.pass_on(&arrival),
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
            if [signal::TERM, signal::INT, signal::HUP].contains(&arrival.signal) {
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
