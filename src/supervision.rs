//! What a supervisor such as systemd says to a service in its environment, and what it wants to
//! hear: sockets that are open already (sd_listen_fds(3)), readiness and the end (sd_notify(3)).

use std::ffi::{OsStr, OsString};
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::sys;

/// The first descriptor that is passed.
const FIRST: i32 = 3;
/// How long a supervisor that does not read may hold up who tells it something.
const PATIENCE: Duration = Duration::from_secs(1);

/// All that came from the supervisor. None of it is for children.
pub(crate) struct Supervision {
    /// Where news goes.
    pub(crate) notify: Notify,
    /// `LISTEN_FDS`, if it was meant for this process.
    sockets: Option<OsString>,
}

impl Supervision {
    /// Takes it out of the environment. Call it before the first thread is started, and in the
    /// process that the supervisor has started.
    pub(crate) fn take() -> Self {
        let take = sys::secret::take;
        let is_own = take("LISTEN_PID")
            .is_some_and(|pid| pid.to_str().and_then(|pid| pid.parse().ok()) == Some(own_pid()));
        let sockets = take("LISTEN_FDS").filter(|_| is_own);
        let notify = Notify { socket: take("NOTIFY_SOCKET") };
        for other in ["LISTEN_FDNAMES", "LISTEN_PIDFDID", "WATCHDOG_USEC", "WATCHDOG_PID"] {
            take(other);
        }
        Self { notify, sockets }
    }

    /// The sockets that were passed, none if there are none. Call it before anything is opened:
    /// the numbers must be the supervisor's.
    ///
    /// # Errors
    /// One that is no listening TCP socket; the message names its number.
    pub(crate) fn sockets(&self) -> Result<Vec<TcpListener>> {
        let Some(count) = &self.sockets else { return Ok(Vec::new()) };
        let wrong = || Error::params(format!("LISTEN_FDS is {count:?}, which is no number"));
        let count: u16 = count.to_str().and_then(|count| count.parse().ok()).ok_or_else(wrong)?;
        (FIRST..FIRST + i32::from(count)).map(socket).collect()
    }
}

fn own_pid() -> u32 {
    std::process::id()
}

fn socket(number: i32) -> Result<TcpListener> {
    let wrong = |why: &dyn std::fmt::Display| {
        Error::params(format!("descriptor {number}, passed by LISTEN_FDS: {why}"))
    };
    let socket = sys::fd::inherited(number).map_err(|error| wrong(&error))?;
    match is_listening_stream(socket.as_fd()) {
        Ok(true) => {}
        Ok(false) => return Err(wrong(&"not a listening TCP socket")),
        Err(error) => return Err(wrong(&error)),
    }
    let listener = TcpListener::from(socket);
    // Of another family, such as a Unix socket's, std makes no address.
    listener.local_addr().map_err(|_| wrong(&"not a TCP socket"))?;
    Ok(listener)
}

fn is_listening_stream(socket: BorrowedFd<'_>) -> io::Result<bool> {
    use rustix::net::{SocketType, sockopt};
    // (Others have no supervisor that passes sockets in this way, and tell less of them.)
    #[cfg(target_os = "linux")]
    if !sockopt::socket_acceptconn(socket)? {
        return Ok(false);
    }
    Ok(sockopt::socket_type(socket)? == SocketType::STREAM)
}

/// Where news goes, if anybody wants it.
#[derive(Default)]
pub(crate) struct Notify {
    socket: Option<OsString>,
}

impl Notify {
    /// Sends one line. Nobody is harmed where it does not arrive.
    pub(crate) fn send(&self, news: &str) {
        if let Some(socket) = &self.socket {
            let _ = send(socket, news.as_bytes());
        }
    }
}

fn send(address: &OsStr, news: &[u8]) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(PATIENCE))?;
    match address.as_bytes() {
        #[cfg(target_os = "linux")]
        [b'@', name @ ..] => {
            use std::os::linux::net::SocketAddrExt as _;
            let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
            sys::retry(|| socket.send_to_addr(news, &address))?;
        }
        [b'/', ..] => {
            sys::retry(|| socket.send_to(news, address))?;
        }
        // (There are VSOCK addresses too, for a machine's own init.)
        _ => {}
    }
    Ok(())
}
