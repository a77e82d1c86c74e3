//! The guardian: on Linux, the process that was started forks the server before anything else and
//! outlives it. It is handed the orphans of all that the server starts, reaps them, passes
//! signals on, and ends whatever is left when the server has gone, however it went. As PID 1 it
//! is all the init that a container needs.
//!
//! The server is told by the kernel when the guardian dies, and stops.

mod acts;
#[cfg(target_os = "linux")]
mod guard;
#[cfg(target_os = "linux")]
mod sweep;

pub(crate) use acts::Acts;
#[cfg(target_os = "linux")]
pub(crate) use guard::Guard;

use std::io;

use crate::supervision::Notify;
use crate::sys::signal::Arrival;
#[cfg(target_os = "linux")]
use crate::sys::{guard as kernel, signal};

/// Which process this is after the fork.
pub(crate) enum Side {
    /// The one that serves.
    Server(Guardian),
    /// The one that was started.
    #[cfg(target_os = "linux")]
    Guard(Guard),
}

/// The guardian as the server sees it.
pub(crate) struct Guardian {
    /// `None` where there is none.
    pid: Option<i32>,
    /// Where the server tells its news itself, having no guardian.
    notify: Notify,
}

/// What a supervisor is told.
#[derive(Clone, Copy)]
pub(crate) enum News {
    /// It serves.
    Ready = 1,
    /// It has begun to stop.
    Stopping = 2,
}

impl News {
    fn text(self) -> &'static str {
        match self {
            Self::Ready => "READY=1",
            Self::Stopping => "STOPPING=1",
        }
    }

    #[cfg(target_os = "linux")]
    fn of_value(value: i32) -> Option<Self> {
        [Self::Ready, Self::Stopping].into_iter().find(|news| *news as i32 == value)
    }
}

/// What a signal means to the server.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there is no guardian to die"))]
pub(crate) enum Meaning {
    /// Somebody wants it to stop; how often by now.
    Stop(usize),
    /// Its guardian has died.
    Alone,
    /// Nothing.
    Nothing,
}

/// Makes two processes of this one. Call it before the first thread is started and with the
/// server's own signals blocked.
///
/// # Errors
/// There can be no more processes.
#[cfg(target_os = "linux")]
pub(crate) fn fork(notify: Notify) -> io::Result<Side> {
    // An emulator may know no such thing (qemu's user mode does not): what loses its parents is found
    // by its mark alone then, and reaped by init.
    if let Err(error) = kernel::adopt_orphans() {
        crate::cli::say_error(&format!("the server's guardian cannot adopt orphans: {error}"));
    }
    let own = kernel::pid();
    // A shell may have started something and then become this program: `logger & exec ta …`, or
    // `exec ta … 2> >(logger)`. That, and what it orphans, is no concern of the server's.
    let has_strangers = kernel::has_children() && crate::descendants::are_marked();
    let whose = if has_strangers { sweep::Whose::Marked } else { sweep::Whose::All };
    // Before the fork: a child's end that nobody waits for is forgotten.
    let (signals, before) = signal::Signals::take_all();
    match kernel::fork()? {
        kernel::Forked::Parent(server) => {
            before.keep();
            Ok(Side::Guard(Guard { server, signals, notify, whose }))
        }
        kernel::Forked::Child => {
            drop(before);
            kernel::follow(own, gone_signal());
            Ok(Side::Server(Guardian { pid: Some(own), notify: Notify::default() }))
        }
    }
}

/// Elsewhere nothing hands orphans to anybody but init.
#[cfg(not(target_os = "linux"))]
pub(crate) fn fork(notify: Notify) -> io::Result<Side> {
    Ok(Side::Server(Guardian { pid: None, notify }))
}

/// What the kernel sends the server when its guardian has died.
#[cfg(target_os = "linux")]
pub(crate) fn gone_signal() -> i32 {
    signal::real_time(5)
}

/// What the server sends its guardian, with its news as the value.
#[cfg(target_os = "linux")]
fn news_signal() -> i32 {
    signal::real_time(6)
}

impl Guardian {
    /// Whether it lives.
    pub(crate) fn is_there(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.pid == Some(kernel::parent());
        #[cfg(not(target_os = "linux"))]
        return false;
    }

    /// Has the supervisor told. Where the guardian is the process that the supervisor knows, it
    /// is the one to say it.
    pub(crate) fn tell(&self, news: News) {
        match self.pid {
            #[cfg(target_os = "linux")]
            Some(pid) if self.is_there() => {
                let _ = kernel::queue(pid, news_signal(), news as i32);
            }
            Some(_) => {}
            None => self.notify.send(news.text()),
        }
    }

    /// What a signal that has come means.
    pub(crate) fn meaning(&self, arrival: &Arrival, acts: &mut Acts) -> Meaning {
        #[cfg(target_os = "linux")]
        if arrival.signal == gone_signal() {
            // (Anybody may send it.)
            return if self.is_there() { Meaning::Nothing } else { Meaning::Alone };
        }
        match arrival.value {
            Some(original) if Some(arrival.sender) == self.pid => {
                acts.forwarded(arrival.signal, original);
            }
            _ => acts.direct(arrival.signal, arrival.sender),
        }
        Meaning::Stop(acts.count())
    }
}
