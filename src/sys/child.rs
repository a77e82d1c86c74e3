//! Children and process groups: seeing an exit, reaping, signalling.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
#[cfg(target_os = "linux")]
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::poll::Interest;
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
    /// The number may be somebody else's, and is not used.
    is_retired: AtomicBool,
}

impl Group {
    /// The group of a child just started.
    pub(crate) fn new(id: i32, leader: Option<OwnedFd>) -> Self {
        Self { id, leader, is_retired: AtomicBool::new(false) }
    }

    /// Its number, which is its leader's.
    pub(crate) fn id(&self) -> i32 {
        self.id
    }

    /// The leader's pidfd.
    pub(crate) fn leader(&self) -> Option<&OwnedFd> {
        self.leader.as_ref()
    }

    /// The leader is about to be reaped: from now on the group is signalled through its pidfd (as
    /// Linux 6.9 can) or not at all, never by its number.
    pub(crate) fn retire_number(&self) {
        self.is_retired.store(true, Ordering::Release);
    }

    /// Sends a signal to every member. `false` if there is none left.
    pub(crate) fn signal(&self, signal: i32) -> bool {
        #[cfg(target_os = "linux")]
        if let Some(leader) = self.leader.as_ref().filter(|_| super::handle::can_signal()) {
            // Since Linux 6.9; older kernels answer EINVAL.
            const PIDFD_SIGNAL_PROCESS_GROUP: libc::c_uint = 1 << 2;
            let sent = signal_through(leader.as_raw_fd(), signal, PIDFD_SIGNAL_PROCESS_GROUP);
            match sent.map_err(|error| super::errno::of(&error)) {
                Ok(()) | Err(libc::EPERM) => return true,
                Err(libc::ESRCH) => return false,
                Err(_) => {}
            }
        }
        if self.is_retired.load(Ordering::Acquire) {
            return false;
        }
        // SAFETY: a negative pid names a group; no memory is involved. EPERM means that there
        // are members, and that none may be signalled (a set-user-ID program).
        match check(unsafe { libc::kill(-self.id, signal) }) {
            Ok(_) => true,
            Err(error) => error.raw_os_error() == Some(libc::EPERM),
        }
    }

    /// Stops the leader itself. `false` if it has gone.
    pub(crate) fn stop_leader(&self) -> bool {
        #[cfg(target_os = "linux")]
        if let Some(leader) = self.leader.as_ref().filter(|_| super::handle::can_signal()) {
            return signal_through(leader.as_raw_fd(), libc::SIGSTOP, 0).is_ok();
        }
        // SAFETY: two integers. Until it is reaped the number is the leader's.
        !self.is_retired.load(Ordering::Acquire)
            && check(unsafe { libc::kill(self.id, libc::SIGSTOP) }).is_ok()
    }

    /// Whether the leader has not exited.
    pub(crate) fn leader_is_alive(&self) -> bool {
        match &self.leader {
            Some(leader) => matches!(
                super::poll::wait_for(leader.as_fd(), Interest::Read, Some(Duration::ZERO)),
                Ok(None)
            ),
            None => matches!(exited(self.id), Ok(None)),
        }
    }

    /// Whether the group has members, unreaped ones included.
    pub(crate) fn is_alive(&self) -> bool {
        self.signal(0)
    }
}

/// Whether a process may be sent signals.
pub(crate) fn may_signal(pid: i32) -> bool {
    // SAFETY: two integers; signal 0 only asks.
    check(unsafe { libc::kill(pid, 0) }).is_ok()
}

/// Sends a signal through a pidfd.
#[cfg(target_os = "linux")]
pub(super) fn signal_through(fd: RawFd, signal: i32, flags: libc::c_uint) -> io::Result<()> {
    let no_info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: a number that the kernel checks, a number, no siginfo, and flags.
    let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, no_info, flags) };
    if sent == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A program to start by the standard library's means. Signals that wait for a thread of this program
/// are not blocked in it.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> std::process::Command {
    use std::os::unix::process::CommandExt;
    let mut command = std::process::Command::new(program);
    let unblock = || {
        super::signal::unblock_all();
        Ok(())
    };
    // SAFETY: the closure makes a system call alone, which is async-signal-safe.
    unsafe { command.pre_exec(unblock) };
    command
}

/// Has the program that is started lead a session of its own: no terminal is its own, so it asks
/// nothing there, and what is typed here does not interrupt it.
pub(crate) fn detach(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: takes nothing and touches no memory.
    let lead = || check(unsafe { libc::setsid() }).map(drop);
    // SAFETY: the closure makes a system call alone, which is async-signal-safe.
    unsafe { command.pre_exec(lead) };
}

/// The same, and it is ended with the thread that starts it, which is to wait for it. (What it forks
/// is not.)
#[cfg(target_os = "linux")]
pub(crate) fn detach_on_leash(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    detach(command);
    // SAFETY: the closure makes one system call and touches no memory.
    unsafe {
        command.pre_exec(|| check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM)).map(drop))
    };
}

/// Nothing else ties a child to its parent.
#[cfg(not(target_os = "linux"))]
pub(crate) fn detach_on_leash(command: &mut std::process::Command) {
    detach(command);
}
