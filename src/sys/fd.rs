//! Descriptors: pipes, reading and writing without blocking, and what is known of them.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

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

/// Reads what is there into the spare capacity of `buffer`, `limit` bytes at most, and answers
/// the count; 0 is the end. Spare capacity is never cleared first: on the hot path that would
/// be one more pass over every byte of output.
pub(crate) fn read_into(
    fd: BorrowedFd<'_>,
    buffer: &mut Vec<u8>,
    limit: usize,
) -> io::Result<usize> {
    let spare = buffer.spare_capacity_mut();
    let size = spare.len().min(limit);
    let start = spare.as_mut_ptr();
    let count = retry(|| {
        // SAFETY: `start` is valid for writes of `size` bytes, and the descriptor is open.
        check_size(unsafe { libc::read(fd.as_raw_fd(), start.cast(), size) })
    })?;
    // SAFETY: read(2) has initialised `count` bytes, at most `size`, of the spare capacity.
    unsafe { buffer.set_len(buffer.len() + count) };
    Ok(count)
}

/// The same from a place in a file.
pub(crate) fn read_at_into(
    fd: BorrowedFd<'_>,
    buffer: &mut Vec<u8>,
    limit: usize,
    position: i64,
) -> io::Result<usize> {
    let spare = buffer.spare_capacity_mut();
    let size = spare.len().min(limit);
    let start = spare.as_mut_ptr();
    let count = retry(|| {
        // SAFETY: `start` is valid for writes of `size` bytes, and the descriptor is open.
        check_size(unsafe { libc::pread(fd.as_raw_fd(), start.cast(), size, position) })
    })?;
    // SAFETY: pread(2) has initialised `count` bytes, at most `size`, of the spare capacity.
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
