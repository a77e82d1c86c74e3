//! Making a process that shares this one's memory until it execs, and suspends the caller until
//! then: what posix_spawn does, with a choice of the control group.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// What runs in the new process; it must not return.
pub(super) type Entry = extern "C" fn(*mut libc::c_void) -> libc::c_int;

const CLONE_PIDFD: libc::c_int = 0x1000;

/// Makes the process. Answers its number and, where the kernel has such a thing, its pidfd.
///
/// # Safety
/// `top` is the upper end, aligned to 16 bytes, of a stack of `size` bytes that is large enough for
/// `entry`. Stack and `argument` outlive the call, which they do if the caller owns them, because it
/// returns when the process has left this memory.
///
/// # Errors
/// Those of clone(2).
pub(super) unsafe fn clone(
    entry: Entry,
    top: *mut u8,
    size: usize,
    argument: *mut libc::c_void,
    cgroup: Option<BorrowedFd<'_>>,
) -> io::Result<(i32, Option<OwnedFd>)> {
    if let Some(cgroup) = cgroup {
        // SAFETY: the caller's promise.
        let made = unsafe { into_cgroup(entry, top, size, argument, cgroup) };
        // Whatever the reason (an old kernel, a sandbox, a group that has gone): the process is
        // made without it, and found by its mark.
        if made.is_ok() {
            return made;
        }
    }
    let mut flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD | CLONE_PIDFD;
    loop {
        let mut pidfd: RawFd = -1;
        // SAFETY: the caller's promise; the kernel stores one descriptor.
        let pid = unsafe { libc::clone(entry, top.cast(), flags, argument, &raw mut pidfd) };
        if pid >= 0 {
            return Ok((pid, owned(pidfd)));
        }
        let error = io::Error::last_os_error();
        // An old kernel does not know the flag, and a sandbox may refuse it; the exit is then seen by
        // a thread that waits.
        let is_about_flag =
            matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS | libc::EPERM));
        if !is_about_flag || flags & CLONE_PIDFD == 0 {
            return Err(error);
        }
        flags &= !CLONE_PIDFD;
    }
}

/// Whether there is a clone3(2), without which no process is made in a control group.
pub(super) fn has_clone3() -> bool {
    // SAFETY: with no arguments at all it makes nothing, and answers EINVAL where it is known.
    let result = unsafe { libc::syscall(libc::SYS_clone3, std::ptr::null::<Arguments>(), 0) };
    result < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
}

fn owned(pidfd: RawFd) -> Option<OwnedFd> {
    // SAFETY: the kernel stored a descriptor that nobody else knows.
    (pidfd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(pidfd) })
}

/// The kernel's `struct clone_args`.
#[repr(C)]
#[derive(Default)]
struct Arguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Makes it in a control group, where it is from its first instruction on.
///
/// # Safety
/// As for [`clone`].
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
unsafe fn into_cgroup(
    entry: Entry,
    top: *mut u8,
    size: usize,
    argument: *mut libc::c_void,
    cgroup: BorrowedFd<'_>,
) -> io::Result<(i32, Option<OwnedFd>)> {
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    let mut pidfd: RawFd = -1;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | CLONE_PIDFD;
    let arguments = Arguments {
        flags: u64::from(flags.unsigned_abs()) | CLONE_INTO_CGROUP,
        pidfd: (&raw mut pidfd).addr() as u64,
        exit_signal: u64::from(libc::SIGCHLD.unsigned_abs()),
        stack: (top.addr() - size) as u64,
        stack_size: size as u64,
        cgroup: u64::from(cgroup.as_raw_fd().unsigned_abs()),
        ..Arguments::default()
    };
    // SAFETY: the caller's promise, and a struct of the size that is told.
    let result = unsafe { clone3(&arguments, entry, argument) };
    match i32::try_from(result) {
        Ok(pid @ 1..) => Ok((pid, owned(pidfd))),
        Ok(errno) => Err(io::Error::from_raw_os_error(-errno)),
        Err(_) => Err(io::ErrorKind::Other.into()),
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn into_cgroup(
    _entry: Entry,
    _top: *mut u8,
    _size: usize,
    _argument: *mut libc::c_void,
    _cgroup: BorrowedFd<'_>,
) -> io::Result<(i32, Option<OwnedFd>)> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The C libraries have no wrapper for this that runs a function on another stack. Answers the
/// child's number, or an errno with its sign turned.
///
/// # Safety
/// As for [`clone`].
#[cfg(target_arch = "x86_64")]
unsafe fn clone3(arguments: &Arguments, entry: Entry, argument: *mut libc::c_void) -> i64 {
    let result;
    // SAFETY: the caller's promise. The child comes back from the system call with all registers
    // but rax as they were, on its own stack, and leaves this code by the call.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r9",
            "call r8",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 => result,
            in("rdi") std::ptr::from_ref(arguments),
            in("rsi") size_of::<Arguments>(),
            in("r8") entry,
            in("r9") argument,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}

/// The same.
///
/// # Safety
/// As for [`clone`].
#[cfg(target_arch = "aarch64")]
unsafe fn clone3(arguments: &Arguments, entry: Entry, argument: *mut libc::c_void) -> i64 {
    let result;
    // SAFETY: as above, with x0.
    unsafe {
        std::arch::asm!(
            "svc #0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x9",
            "blr x10",
            "brk #1",
            "2:",
            inlateout("x0") std::ptr::from_ref(arguments) => result,
            in("x1") size_of::<Arguments>(),
            in("x8") libc::SYS_clone3,
            in("x9") argument,
            in("x10") entry,
        );
    }
    result
}
