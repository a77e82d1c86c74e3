//! The few system calls that std has no words for.
#![expect(
    unsafe_code,
    reason = "signals, SO_LINGER, listen, sysconf and poll with a deadline are not in std"
)]

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

pub(crate) fn signal(pid: u32, signal: i32) -> io::Result<()> {
    let pid = libc::pid_t::try_from(pid).unwrap();
    assert!(pid > 1, "refusing to signal {pid}");
    // SAFETY: kill takes two integers and touches no memory of ours.
    checked(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// Makes closing the socket send RST instead of FIN.
pub(crate) fn reset_on_close(stream: &TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let size = libc::socklen_t::try_from(size_of_val(&linger)).unwrap();
    let value = std::ptr::from_ref(&linger).cast();
    // SAFETY: value points at a linger of that size which outlives the call.
    let result = unsafe {
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, value, size)
    };
    checked(result).unwrap();
}

/// Leaves a listener room for so few connections that nobody has accepted.
pub(crate) fn set_backlog(listener: &impl AsFd, backlog: i32) {
    // SAFETY: listen takes integers; the descriptor is borrowed for the call.
    checked(unsafe { libc::listen(listener.as_fd().as_raw_fd(), backlog) }).unwrap();
}

pub(crate) fn readable(fd: BorrowedFd<'_>, timeout: Duration) -> bool {
    poll(fd, libc::POLLIN, timeout)
}

pub(crate) fn writable(fd: BorrowedFd<'_>, timeout: Duration) -> bool {
    poll(fd, libc::POLLOUT, timeout)
}

fn poll(fd: BorrowedFd<'_>, events: i16, timeout: Duration) -> bool {
    let mut entry = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
    let millis = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX).max(1);
    // SAFETY: one pollfd, and the count says one.
    let ready = unsafe { libc::poll(&raw mut entry, 1, millis) };
    ready > 0
}

/// The test's own end of a pipe: a full pipe must not hang the test.
pub(crate) fn set_nonblocking(fd: &impl AsFd) {
    let raw = fd.as_fd().as_raw_fd();
    // SAFETY: fcntl with integers on a descriptor that is borrowed for the call.
    let flags = checked(unsafe { libc::fcntl(raw, libc::F_GETFL) }).unwrap();
    // SAFETY: as above.
    checked(unsafe { libc::fcntl(raw, libc::F_SETFL, flags | libc::O_NONBLOCK) }).unwrap();
}

/// The program will be started with this signal ignored, as some parents leave it.
pub(crate) fn ignore_in_child(command: &mut Command, signal: i32) {
    let ignore = move || {
        // SAFETY: signal takes integers, and may be called between fork and exec.
        let before = unsafe { libc::signal(signal, libc::SIG_IGN) };
        if before == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: the closure makes one async-signal-safe call and allocates nothing.
    unsafe { command.pre_exec(ignore) };
}

/// The unit of the times in /proc/PID/stat.
pub(crate) fn ticks_per_second() -> u64 {
    // SAFETY: sysconf takes an integer and touches no memory of ours.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).unwrap()
}

pub(crate) fn is_root() -> bool {
    // SAFETY: geteuid cannot fail and takes nothing.
    unsafe { libc::geteuid() == 0 }
}

fn checked(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
