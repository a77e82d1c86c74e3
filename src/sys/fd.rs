//! Descriptors: pipes, reading and writing without blocking, and what is known of them.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use super::{check, check_size, retry};

/// A pipe whose two ends close on exec: (read end, write end).
///
/// # Errors
/// `EMFILE` and `ENFILE`.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = io::pipe()?;
    Ok((reader.into(), writer.into()))
}

/// Makes reads and writes on this open file description answer `EAGAIN` in place of blocking.
pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: F_GETFL takes no argument and the descriptor is open.
    let flags = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: F_SETFL takes an integer and the descriptor is open.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) })?;
    Ok(())
}

/// Lets no more than this wait in a TCP socket to be read, and offers the peer as much.
#[cfg(target_os = "linux")]
pub(crate) fn bound_receive_queue(fd: BorrowedFd<'_>, size: u32) -> io::Result<()> {
    let set = |level, name| {
        let length = libc::socklen_t::try_from(size_of_val(&size)).unwrap_or(4);
        let value = (&raw const size).cast();
        // SAFETY: the pointer and the length are those of one integer.
        check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, value, length) })
    };
    set(libc::SOL_SOCKET, libc::SO_RCVBUF)?;
    // Some kernels keep to the window that they began with, once a size is set.
    set(libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP).map(drop)
}

/// Left to the system.
#[cfg(not(target_os = "linux"))]
pub(crate) fn bound_receive_queue(_fd: BorrowedFd<'_>, _size: u32) -> io::Result<()> {
    Ok(())
}

/// Reads what is there into the spare capacity of `buffer`, `limit` bytes at most, and answers
/// the count; 0 is the end. Spare capacity is never cleared first: on the hot path that would
/// be one more pass over every byte of output.
pub(crate) fn read_into(
    fd: BorrowedFd<'_>,
    buffer: &mut Vec<u8>,
    limit: usize,
) -> io::Result<usize> {
    // SAFETY: read(2) writes to so many bytes at most, and answers how many it has.
    retry(|| unsafe {
        fill_spare(buffer, limit, |start, size| libc::read(fd.as_raw_fd(), start, size))
    })
}

/// The same from a socket, without another try where it is interrupted; `is_now`: what is there already.
pub(crate) fn receive_into(
    socket: BorrowedFd<'_>,
    buffer: &mut Vec<u8>,
    limit: usize,
    is_now: bool,
) -> io::Result<usize> {
    let how = if is_now { libc::MSG_DONTWAIT } else { 0 };
    // SAFETY: as above, recv(2).
    unsafe {
        fill_spare(buffer, limit, |start, size| libc::recv(socket.as_raw_fd(), start, size, how))
    }
}

/// The same from a place in a file.
pub(crate) fn read_at_into(
    fd: BorrowedFd<'_>,
    buffer: &mut Vec<u8>,
    limit: usize,
    position: i64,
) -> io::Result<usize> {
    // SAFETY: as above, pread(2).
    retry(|| unsafe {
        fill_spare(buffer, limit, |start, size| libc::pread(fd.as_raw_fd(), start, size, position))
    })
}

/// Has a call fill the spare capacity, or `limit` bytes of it.
///
/// # Safety
/// The call writes to no more than the bytes that it is given, and answers how many of them, from the
/// first on, it has written.
unsafe fn fill_spare(
    buffer: &mut Vec<u8>,
    limit: usize,
    call: impl FnOnce(*mut libc::c_void, usize) -> libc::ssize_t,
) -> io::Result<usize> {
    let spare = buffer.spare_capacity_mut();
    let size = spare.len().min(limit);
    let count = check_size(call(spare.as_mut_ptr().cast(), size))?;
    // SAFETY: the call has initialised `count` bytes, at most `size`, of the spare capacity.
    unsafe { buffer.set_len(buffer.len() + count) };
    Ok(count)
}

/// Writes what fits.
pub(crate) fn write(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    retry(|| {
        // SAFETY: the slice is valid for reads of its length, and the descriptor is open.
        check_size(unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) })
    })
}

/// Writes what fits, one slice after the other.
pub(crate) fn write_slices(fd: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    retry(|| Ok(rustix::io::writev(fd, slices)?))
}

/// Asks for a larger pipe, so that writer and reader take fewer turns. Best effort: an
/// unprivileged user may be over the system's limit for pipes.
#[cfg(target_os = "linux")]
pub(crate) fn grow_pipe(fd: BorrowedFd<'_>, bytes: libc::c_int) {
    // SAFETY: F_SETPIPE_SZ takes an integer and the descriptor is open.
    unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETPIPE_SZ, bytes) };
}

/// Only Linux lets a program choose.
#[cfg(not(target_os = "linux"))]
pub(crate) fn grow_pipe(_fd: BorrowedFd<'_>, _bytes: libc::c_int) {}

/// A descriptor of our own on the process's stdin (0), stdout (1) or stderr (2).
pub(crate) fn duplicate_standard(number: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: F_DUPFD_CLOEXEC takes an integer; a closed `number` answers EBADF.
    let fd = check(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: the call made this descriptor and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Closes the process's own stdout: whoever reads from it sees the end although the process may
/// not be able to exit yet.
pub(crate) fn close_standard_output() {
    // SAFETY: nothing in this process refers to the descriptor by a value of its own; whoever
    // prints to it from now on gets EBADF.
    unsafe { libc::close(1) };
}

/// A descriptor that this process was started with, from now on the caller's own and closed on
/// exec. Call it once for each number, before anything is opened.
///
/// # Errors
/// `EBADF` if it is not open.
pub(crate) fn inherited(number: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: F_SETFD takes an integer; a closed `number` answers EBADF.
    check(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: it is open, and by the rule above nothing in this process has made it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// How many descriptors are kept for those that must go on when others have run out. A start takes
/// nine for a moment, and is let in just before the reserve begins.
fn reserve(limit: u64) -> u64 {
    if limit >= 1024 { 64 } else { (limit / 8).max(16).min(limit / 2) }
}

/// How near to its limit on descriptors the process is. They are given out lowest first, so that
/// the number of the next one tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Supply {
    /// There are enough.
    Enough,
    /// The first half of the reserve is being used.
    Low,
    /// The second half is, or there is none left.
    Out,
}

/// What a descriptor just made tells of the supply.
pub(crate) fn supply_at(fd: BorrowedFd<'_>) -> Supply {
    supply(fd.as_raw_fd(), super::host::descriptor_limit())
}

/// The supply now.
pub(crate) fn supply_now() -> Supply {
    match duplicate_lowest() {
        Ok(fd) => supply_at(fd.as_fd()),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
            Supply::Out
        }
        Err(_) => Supply::Enough,
    }
}

fn duplicate_lowest() -> io::Result<OwnedFd> {
    // SAFETY: F_DUPFD_CLOEXEC takes an integer; without a stderr it answers EBADF.
    let fd = check(unsafe { libc::fcntl(2, libc::F_DUPFD_CLOEXEC, 0) })?;
    // SAFETY: the call made this descriptor and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn supply(next: RawFd, limit: u64) -> Supply {
    let left = limit.saturating_sub(u64::try_from(next).unwrap_or(0));
    let reserve = reserve(limit);
    match left {
        left if left > reserve => Supply::Enough,
        left if left > reserve / 2 => Supply::Low,
        _ => Supply::Out,
    }
}

/// Marks every inherited descriptor above 2 close-on-exec; a supervisor's listening sockets and
/// lock files must not end up in the children.
pub(crate) fn close_inherited_on_exec() {
    #[cfg(target_os = "linux")]
    {
        const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;
        // SAFETY: close_range with this flag only sets flags on descriptors.
        let result = unsafe {
            libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, CLOSE_RANGE_CLOEXEC)
        };
        if result == 0 {
            return;
        }
    }
    let limit = i32::try_from(super::host::descriptor_limit()).unwrap_or(i32::MAX).min(65_536);
    for fd in 3..limit {
        // SAFETY: F_SETFD on a descriptor that is not open answers EBADF and does nothing.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_64_are_kept_or_fewer_where_there_are_few() {
        assert_eq!(supply(959, 1024), Supply::Enough);
        assert_eq!(supply(960, 1024), Supply::Low);
        assert_eq!(supply(992, 1024), Supply::Out);
        assert_eq!(supply(47, 64), Supply::Enough);
        assert_eq!(supply(48, 64), Supply::Low);
        assert_eq!(supply(56, 64), Supply::Out);
        assert_eq!(supply(447, 512), Supply::Enough);
        assert_eq!(supply(448, 512), Supply::Low);
        assert_eq!(supply(4, 10), Supply::Enough);
    }
}
