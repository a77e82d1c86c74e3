//! Children and process groups: seeing an exit, reaping, signalling.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;

use super::{check, retry};

/// How a process ended, as wait(2) said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Signaled(i32),
}

/// The child's status if it has exited, leaving it to be reaped: until [`reap`], neither its
/// process id nor its group's can belong to anybody else.
pub(crate) fn exited(pid: i32) -> io::Result<Option<Status>> {
    peek(pid, libc::WNOHANG)
}

/// Waits for the child's exit and leaves it to be reaped.
pub(crate) fn wait_exit(pid: i32) -> io::Result<Option<Status>> {
    peek(pid, 0)
}

fn peek(pid: i32, options: libc::c_int) -> io::Result<Option<Status>> {
    let id = libc::id_t::try_from(pid).map_err(|_| io::ErrorKind::InvalidInput)?;
    retry(|| {
        // SAFETY: siginfo_t is plain data for which all zeros is valid.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: waitid stores one siginfo_t.
        check(unsafe {
            libc::waitid(libc::P_PID, id, &raw mut info, options | libc::WEXITED | libc::WNOWAIT)
        })?;
        // SAFETY: waitid fills in the fields of a SIGCHLD, or leaves the zeros.
        let (seen, status) = unsafe { (info.si_pid(), info.si_status()) };
        Ok((seen != 0).then_some(if info.si_code == libc::CLD_EXITED {
            Status::Exited(status)
        } else {
            Status::Signaled(status)
        }))
    })
}

/// Takes an exited child (or one that is about to exit) off the process table.
pub(crate) fn reap(pid: i32) {
    let mut status = 0;
    // SAFETY: waitpid stores one int. A pid that is no child of ours answers ECHILD.
    let _ = retry(|| check(unsafe { libc::waitpid(pid, &raw mut status, 0) }));
}

/// A process group that one of our children leads or has led.
#[derive(Debug)]
pub(crate) struct Group {
    id: i32,
    /// The leader's pidfd. It stands for the group beyond the leader's reaping, whatever
    /// process may get the number later.
    leader: Option<OwnedFd>,
}

impl Group {
    /// The group of a child just started.
    pub(crate) fn new(id: i32, leader: Option<OwnedFd>) -> Self {
        Self { id, leader }
    }

    /// The leader's pidfd.
    pub(crate) fn leader(&self) -> Option<&OwnedFd> {
        self.leader.as_ref()
    }

    /// Sends a signal to every member. `false` if there is none left.
    pub(crate) fn signal(&self, signal: i32) -> bool {
        #[cfg(target_os = "linux")]
        if let Some(leader) = &self.leader {
            // Since Linux 6.9; older kernels answer EINVAL.
            const PIDFD_SIGNAL_PROCESS_GROUP: libc::c_uint = 1 << 2;
            // SAFETY: an open descriptor, a number, no siginfo, and flags.
            let sent = check_syscall(unsafe {
                libc::syscall(
                    libc::SYS_pidfd_send_signal,
                    leader.as_raw_fd(),
                    signal,
                    std::ptr::null::<libc::siginfo_t>(),
                    PIDFD_SIGNAL_PROCESS_GROUP,
                )
            });
            match sent {
                Ok(()) => return true,
                Err(libc::ESRCH) => return false,
                Err(libc::EPERM) => return true,
                Err(_) => {}
            }
        }
        // SAFETY: a negative pid names a group; no memory is involved. EPERM means that there
        // are members, and that none may be signalled (a set-user-ID program).
        match check(unsafe { libc::kill(-self.id, signal) }) {
            Ok(_) => true,
            Err(error) => error.raw_os_error() == Some(libc::EPERM),
        }
    }

    /// Whether the group has members, unreaped ones included.
    pub(crate) fn is_alive(&self) -> bool {
        self.signal(0)
    }
}

#[cfg(target_os = "linux")]
fn check_syscall(result: libc::c_long) -> Result<(), i32> {
    if result == 0 { Ok(()) } else { Err(super::errno::of(&io::Error::last_os_error())) }
}
