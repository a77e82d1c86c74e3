//! What a guardian asks of the kernel: to be handed orphans, to fork, to reap, and to signal
//! nobody but its own descendants.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;

use super::child::Status;
use super::{check, retry};

unsafe extern "C" {
    fn sigqueue(pid: libc::pid_t, signal: libc::c_int, value: libc::sigval) -> libc::c_int;
}

/// Which side of a fork this is.
pub(crate) enum Forked {
    /// The process that was there before; the other's pid.
    Parent(i32),
    /// The new process.
    Child,
}

/// Makes a second process of this one. Call it before the first thread is started: only the
/// calling one would be in the new process, and a lock that another held would stay locked.
pub(crate) fn fork() -> io::Result<Forked> {
    // SAFETY: this process has one thread by the rule above, so the child may go on as it likes.
    let pid = check(unsafe { libc::fork() })?;
    Ok(if pid == 0 { Forked::Child } else { Forked::Parent(pid) })
}

/// This process's id.
pub(crate) fn pid() -> i32 {
    // SAFETY: getpid takes nothing and cannot fail.
    unsafe { libc::getpid() }
}

/// The id of this process's parent; 0 if that is in another PID namespace.
pub(crate) fn parent() -> i32 {
    // SAFETY: getppid takes nothing and cannot fail.
    unsafe { libc::getppid() }
}

/// From now on descendants whose parents have died are this process's children.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    // SAFETY: the option takes one integer.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) }).map(drop)
}

/// What ps(1) shows this process as.
pub(crate) fn set_name(name: &CStr) {
    // SAFETY: the option takes a NUL-terminated string.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Has the kernel send `signal` to this process when its parent dies, also if it has died already.
pub(crate) fn follow(parent_pid: i32, signal: i32) {
    // SAFETY: the option takes one integer.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) };
    // It may have died between the fork and that, and then nothing would ever tell.
    if parent() != parent_pid {
        super::signal::to_self(signal);
    }
}

/// This process will leave no core file, whatever signal it dies of.
pub(crate) fn forbid_core_dump() {
    // SAFETY: the option takes one integer.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
}

/// Closes every descriptor but stderr, for a process that shares them with another and uses none.
pub(crate) fn close_all_but_stderr() {
    // SAFETY: the one caller owns no descriptor by a value; whoever uses one by its number from
    // now on gets EBADF.
    let closed = unsafe {
        libc::close(0);
        libc::close(1);
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0)
    };
    if closed == 0 {
        return;
    }
    let limit = i32::try_from(super::host::descriptor_limit()).unwrap_or(i32::MAX).min(65_536);
    for fd in 3..limit {
        // SAFETY: as above; one that is not open answers EBADF.
        unsafe { libc::close(fd) };
    }
}

/// Queues a signal with a number beside it, which its receiver can tell from a plain kill.
pub(crate) fn queue(pid: i32, signal: i32, value: i32) -> io::Result<()> {
    let value = usize::try_from(value).unwrap_or(0);
    let value = libc::sigval { sival_ptr: std::ptr::without_provenance_mut(value) };
    // SAFETY: integers, and a pointer that nobody follows.
    check(unsafe { sigqueue(pid, signal, value) }).map(drop)
}

/// What [`reap_any`] found.
pub(crate) enum Reaped {
    /// This child had ended, and is no more.
    One(i32, Status),
    /// There are children, and all of them live.
    None,
    /// There are no children.
    Childless,
}

/// Takes one child that has ended off the process table. Whoever calls it is the only one in this
/// process who waits for children.
pub(crate) fn reap_any() -> Reaped {
    let mut status = 0;
    let reaped = retry(|| {
        // SAFETY: waitpid stores one int.
        check(unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::__WALL) })
    });
    match reaped {
        Ok(0) => Reaped::None,
        Ok(pid) if libc::WIFSIGNALED(status) => {
            Reaped::One(pid, Status::Signaled(libc::WTERMSIG(status)))
        }
        Ok(pid) => Reaped::One(pid, Status::Exited(libc::WEXITSTATUS(status))),
        Err(_) => Reaped::Childless,
    }
}

/// Whether this process has children, unreaped ones included.
pub(crate) fn has_children() -> bool {
    look(libc::P_ALL, 0)
}

/// Whether that is a child of this process (unreaped ones included): the way to find them where
/// there is no /proc.
pub(crate) fn is_child(pid: i32) -> bool {
    libc::id_t::try_from(pid).is_ok_and(|id| look(libc::P_PID, id))
}

fn look(kind: libc::idtype_t, id: libc::id_t) -> bool {
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: waitid stores one siginfo_t, and with these options changes nothing.
    check(unsafe { libc::waitid(kind, id, info.as_mut_ptr(), options) }).is_ok()
}

/// Signals a child of this process, and answers whether that was allowed. Nobody but this process
/// reaps it, so that the number is its own.
pub(crate) fn signal_child(pid: i32, signal: i32) -> bool {
    // SAFETY: kill takes two integers.
    check(unsafe { libc::kill(pid, signal) }).is_ok()
}
