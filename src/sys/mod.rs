//! The system calls: the only module with `unsafe` and the only one that names `libc`.
//!
//! Everything here is a thin, safe function over one call (or one short sequence that belongs
//! together, such as a spawn). Policy — what to do with a status, when to kill — lives above.
#![allow(unsafe_code, reason = "this is the one module that may call into libc")]

pub(crate) mod child;
#[cfg(target_os = "linux")]
mod clone;
pub(crate) mod environment;
pub(crate) mod errno;
pub(crate) mod fd;
#[cfg(target_os = "linux")]
pub(crate) mod guard;
pub(crate) mod handle;
pub(crate) mod host;
pub(crate) mod limit;
pub(crate) mod memory;
pub(crate) mod poll;
pub(crate) mod pty;
pub(crate) mod secret;
pub(crate) mod signal;
pub(crate) mod spawn;

use std::io;

/// The result of a call that answers -1 and sets errno.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The same for calls that answer a byte count.
fn check_size(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Repeats a call that a signal interrupted.
pub(crate) fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Appends so many zeros. (`Vec::resize` does that byte by byte in a build that is to be small.)
pub(crate) fn extend_with_zeros(buffer: &mut Vec<u8>, count: usize) {
    buffer.reserve(count);
    let length = buffer.len();
    // SAFETY: the capacity is `length + count` at the least, and the bytes are initialised here.
    unsafe {
        buffer.as_mut_ptr().add(length).write_bytes(0, count);
        buffer.set_len(length + count);
    }
}
