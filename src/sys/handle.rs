//! A hold on any process: what is done through it is done to that process, whoever has its number
//! by then.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
#[cfg(target_os = "linux")]
use std::sync::LazyLock;
use std::time::Duration;

use super::check;
#[cfg(target_os = "linux")]
use super::poll::{Interest, wait_for};

/// Whether a process can be signalled through a descriptor of it. A sandbox may refuse that by an
/// errno that also means that a process is another user's, so it is tried on this one.
#[cfg(target_os = "linux")]
pub(crate) fn can_signal() -> bool {
    static CAN: LazyLock<bool> = LazyLock::new(|| {
        let own = i32::try_from(std::process::id()).map_err(io::Error::other).and_then(open);
        own.is_ok_and(|own| super::child::signal_through(own.as_raw_fd(), 0, 0).is_ok())
    });
    *CAN
}

/// There are no such descriptors.
#[cfg(not(target_os = "linux"))]
pub(crate) fn can_signal() -> bool {
    false
}

#[cfg(target_os = "linux")]
fn open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: two integers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let Ok(fd @ 0..) = i32::try_from(fd) else { return Err(io::Error::last_os_error()) };
    // SAFETY: the call made this descriptor and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A process that had this number when it was opened.
#[derive(Debug)]
pub(crate) struct Handle {
    pid: i32,
    /// `None` where the kernel (before 5.3) or a sandbox has no such thing, or there is none left:
    /// then only the number is there, and a moment between looking and acting.
    #[cfg(target_os = "linux")]
    fd: Option<OwnedFd>,
}

impl Handle {
    /// Takes hold of a process.
    ///
    /// # Errors
    /// `ESRCH` where there is none.
    #[cfg(target_os = "linux")]
    pub(crate) fn open(pid: i32) -> io::Result<Self> {
        if !can_signal() {
            return Ok(Self { pid, fd: None });
        }
        match open(pid) {
            Ok(fd) => Ok(Self { pid, fd: Some(fd) }),
            // What has used up all descriptors is ended all the same, and gives them back.
            Err(error) if matches!(super::errno::of(&error), libc::EMFILE | libc::ENFILE) => {
                Ok(Self { pid, fd: None })
            }
            Err(error) => Err(error),
        }
    }

    /// Takes hold of a process, as far as a number is one.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn open(pid: i32) -> io::Result<Self> {
        Ok(Self { pid })
    }

    /// Its number.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// `ESRCH` where it has gone, `EPERM`.
    pub(crate) fn signal(&self, signal: i32) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if let Some(fd) = &self.fd {
            return super::child::signal_through(fd.as_raw_fd(), signal, 0);
        }
        // SAFETY: two integers; the number is positive, so it is one process.
        check(unsafe { libc::kill(self.pid, signal) }).map(drop)
    }

    /// Waits until it has exited (whether or not it has been reaped), `timeout` at most; answers
    /// whether it has.
    #[cfg(target_os = "linux")]
    pub(crate) fn wait_exit(&self, timeout: Duration) -> bool {
        let Some(fd) = &self.fd else { return self.wait_exit_by_number(timeout) };
        matches!(wait_for(fd.as_fd(), Interest::Read, Some(timeout)), Ok(Some(_)))
    }

    /// Waits until it has exited, `timeout` at most; answers whether it has.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn wait_exit(&self, timeout: Duration) -> bool {
        self.wait_exit_by_number(timeout)
    }

    /// Whether it has exited, all its threads have, and that is certain.
    pub(crate) fn has_surely_exited(&self) -> bool {
        #[cfg(target_os = "linux")]
        let is_certain = self.fd.is_some();
        #[cfg(not(target_os = "linux"))]
        let is_certain = false;
        is_certain && self.wait_exit(Duration::ZERO)
    }

    /// (/proc tells a zombie from one that runs. Without either nobody can, and it counts as one
    /// that runs.)
    fn wait_exit_by_number(&self, timeout: Duration) -> bool {
        let has_exited = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid));
            let state = stat.ok().and_then(|stat| stat.rsplit_once(") ")?.1.chars().next());
            // SAFETY: two integers; signal 0 only asks.
            let is_gone = || unsafe { libc::kill(self.pid, 0) } != 0;
            state.map_or_else(is_gone, |state| matches!(state, 'Z' | 'X'))
        };
        if !has_exited() {
            std::thread::sleep(timeout.min(Duration::from_millis(5)));
        }
        has_exited()
    }
}
