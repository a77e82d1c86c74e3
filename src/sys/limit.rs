//! The limit on file locks, which no kernel since Linux 2.4.24 looks at. Children inherit it,
//! through exec, setsid and a cleared environment, and it can be read of other processes: so its
//! two numbers can carry a mark.

use std::io;

/// What a limit is where nobody has set it.
pub(crate) const UNLIMITED: u64 = u64::MAX;

/// The two numbers. Whoever is not privileged can only lower the hard one, and the soft one is at
/// most that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct UnusedLimit {
    pub(crate) soft: u64,
    pub(crate) hard: u64,
}

/// Those of a process; 0 is this one.
///
/// # Errors
/// `ESRCH`; `EPERM` for the processes of other users, and for set-user-ID programs.
#[cfg(target_os = "linux")]
pub(crate) fn of(pid: i32) -> io::Result<UnusedLimit> {
    let mut limit = UnusedLimit { soft: 0, hard: 0 };
    // SAFETY: the kernel stores one struct of two 64-bit numbers, and is given no new one.
    check(unsafe {
        libc::syscall(
            libc::SYS_prlimit64,
            pid,
            libc::RLIMIT_LOCKS,
            std::ptr::null::<UnusedLimit>(),
            &raw mut limit,
        )
    })?;
    Ok(limit)
}

/// Sets this process's own. Async-signal-safe.
///
/// # Errors
/// `EPERM` where the hard one would be raised, or where a sandbox knows no such limit.
#[cfg(target_os = "linux")]
pub(crate) fn set(limit: UnusedLimit) -> io::Result<()> {
    // SAFETY: the kernel reads one struct of two 64-bit numbers, and stores none.
    check(unsafe {
        libc::syscall(
            libc::SYS_prlimit64,
            0,
            libc::RLIMIT_LOCKS,
            &raw const limit,
            std::ptr::null_mut::<UnusedLimit>(),
        )
    })
}

#[cfg(target_os = "linux")]
fn check(result: libc::c_long) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// There is no such limit.
#[cfg(not(target_os = "linux"))]
pub(crate) fn of(_pid: i32) -> io::Result<UnusedLimit> {
    Err(io::ErrorKind::Unsupported.into())
}

/// There is no such limit.
#[cfg(not(target_os = "linux"))]
pub(crate) fn set(_limit: UnusedLimit) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
