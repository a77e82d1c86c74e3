//! Starting a program.
//!
//! The hazard first: between the clone and the exec, the child runs in the parent's memory with
//! the parent's signal handlers. So all signals are blocked around it, the child puts every
//! handler back to its default before it unblocks them, and it calls nothing that allocates or
//! locks. In return a spawn costs the same however large the server has grown, and a failure
//! comes back as a value in shared memory, with the step at which it happened.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;

use super::host::DescriptorLimit;
use super::limit::{self, UnusedLimit};

/// What to start, and in which surroundings.
pub(crate) struct Spawn<'a> {
    /// Paths to try in turn, as execvp(3) walks PATH.
    pub(crate) programs: &'a [CString],
    /// The arguments, the program's own name first.
    pub(crate) arguments: &'a [&'a CStr],
    /// The whole environment, `NAME=value` each.
    pub(crate) environment: &'a [&'a CStr],
    /// Where it starts.
    pub(crate) directory: &'a CStr,
    /// What becomes descriptors 0, 1 and 2.
    pub(crate) standard: [BorrowedFd<'a>; 3],
    /// Whether descriptor 0 becomes its controlling terminal.
    pub(crate) terminal: bool,
    /// The limit on open descriptors to give back to it, where the server has raised its own.
    pub(crate) descriptor_limit: Option<DescriptorLimit>,
    /// What is written to its `oom_score_adj`, so that the kernel takes it before the server.
    pub(crate) oom_score: &'a [u8],
    /// What its descendants are known by, unless this system has nothing of the kind.
    pub(crate) mark: Option<UnusedLimit>,
    /// The control group it is put into, if that can be done. (Elsewhere there are none.)
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "there are none"))]
    pub(crate) cgroup: Option<BorrowedFd<'a>>,
}

/// A program that has been started: the leader of a session and process group of its own.
#[derive(Debug)]
pub(crate) struct Spawned {
    /// Its process id, which is its group's and session's id too.
    pub(crate) pid: i32,
    /// Becomes readable when it exits; `None` where the kernel has no such thing.
    pub(crate) pidfd: Option<OwnedFd>,
}

/// The step at which a start failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Making the process.
    Clone,
    /// Its session, terminal or descriptors.
    Prepare,
    /// Entering the directory.
    Directory,
    /// The exec itself.
    Exec,
}

/// Why a start failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) step: Step,
    pub(crate) errno: i32,
}

impl Failure {
    fn last(step: Step) -> Self {
        Self { step, errno: super::errno::of(&io::Error::last_os_error()) }
    }
}

/// Starts the program and answers once it runs (that is, after the exec has succeeded).
pub(crate) fn spawn(spawn: &Spawn<'_>) -> Result<Spawned, Failure> {
    let arguments = pointers(spawn.arguments);
    let environment = pointers(spawn.environment);
    #[cfg(fuzzing)]
    let spawn = &Spawn { programs: &[c"/bin/true".to_owned()], ..*spawn };
    let plan = Plan {
        programs: spawn.programs,
        arguments: &arguments,
        environment: &environment,
        directory: spawn.directory,
        standard: spawn.standard.map(|fd| fd.as_raw_fd()),
        terminal: spawn.terminal,
        descriptor_limit: spawn.descriptor_limit.as_ref(),
        oom_score: spawn.oom_score,
        mark: spawn.mark,
        #[cfg(target_os = "linux")]
        cgroup: spawn.cgroup,
    };
    let blocked = super::signal::BlockAll::new();
    let result = start(&plan);
    drop(blocked);
    result
}

fn pointers(strings: &[&CStr]) -> Vec<*const libc::c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

/// All that the child needs, prepared so that it has nothing left to allocate.
struct Plan<'a> {
    programs: &'a [CString],
    arguments: &'a [*const libc::c_char],
    environment: &'a [*const libc::c_char],
    directory: &'a CStr,
    standard: [RawFd; 3],
    terminal: bool,
    descriptor_limit: Option<&'a DescriptorLimit>,
    oom_score: &'a [u8],
    mark: Option<UnusedLimit>,
    #[cfg(target_os = "linux")]
    cgroup: Option<BorrowedFd<'a>>,
}

#[cfg(target_os = "linux")]
fn start(plan: &Plan<'_>) -> Result<Spawned, Failure> {
    use std::mem::MaybeUninit;

    // Each of its pages is touched (the compiler probes a frame of this size) and stays with the thread.
    const STACK: usize = 16 * 1024;

    struct Shared<'a> {
        plan: &'a Plan<'a>,
        failure: Option<Failure>,
    }

    extern "C" fn child(shared: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the pointer is the `Shared` on the parent's stack, and the parent is
        // suspended (CLONE_VFORK) until this child has exec'd or exited.
        let shared = unsafe { &mut *shared.cast::<Shared<'_>>() };
        shared.failure = Some(become_program(shared.plan));
        // SAFETY: _exit runs no handlers of the parent's.
        unsafe { libc::_exit(127) }
    }

    #[repr(align(16))]
    struct Stack(MaybeUninit<[u8; STACK]>);
    let mut stack = Stack(MaybeUninit::uninit());
    // SAFETY: one past the end of the array; the child's stack grows down from there.
    let top = unsafe { stack.0.as_mut_ptr().cast::<u8>().add(STACK) };

    let mut shared = Shared { plan, failure: None };
    let argument = (&raw mut shared).cast();
    // SAFETY: the stack is large enough for `child` and, as `shared`, a local of this function.
    let made = unsafe { super::clone::clone(child, top, STACK, argument, plan.cgroup) };
    let (pid, pidfd) =
        made.map_err(|error| Failure { step: Step::Clone, errno: super::errno::of(&error) })?;
    // The child wrote through the pointer given to clone, which the compiler cannot see.
    // SAFETY: `shared` is a live local and the child is done with it.
    let failure = unsafe { ptr::read_volatile(&raw const shared.failure) };
    match failure {
        None => Ok(Spawned { pid, pidfd }),
        Some(failure) => {
            super::child::reap(pid);
            Err(failure)
        }
    }
}

/// Where there is no clone with shared memory, the failure comes through a pipe that the exec
/// closes.
#[cfg(not(target_os = "linux"))]
fn start(plan: &Plan<'_>) -> Result<Spawned, Failure> {
    use std::os::fd::AsFd;

    let clone_failed = |_| Failure::last(Step::Clone);
    let (reader, writer) = super::fd::pipe().map_err(clone_failed)?;
    // SAFETY: the child calls only async-signal-safe functions before it execs or exits.
    let pid = super::check(unsafe { libc::fork() }).map_err(clone_failed)?;
    if pid == 0 {
        let failure = become_program(plan);
        let step = match failure.step {
            Step::Clone | Step::Prepare => 0_u8,
            Step::Directory => 1,
            Step::Exec => 2,
        };
        let errno = failure.errno.to_ne_bytes();
        let _ = super::fd::write(writer.as_fd(), &[step, errno[0], errno[1], errno[2], errno[3]]);
        // SAFETY: _exit runs no handlers of the parent's.
        unsafe { libc::_exit(127) }
    }
    drop(writer);
    let mut told = Vec::with_capacity(5);
    let _ = super::fd::read_into(reader.as_fd(), &mut told, 5);
    let [step, errno @ ..] = told.as_slice() else { return Ok(Spawned { pid, pidfd: None }) };
    let step = [Step::Prepare, Step::Directory, Step::Exec][usize::from(*step).min(2)];
    let errno = errno.try_into().map_or(super::errno::FALLBACK, i32::from_ne_bytes);
    super::child::reap(pid);
    Err(Failure { step, errno })
}

/// Runs in the child; comes back only on failure.
fn become_program(plan: &Plan<'_>) -> Failure {
    match prepare(plan) {
        Ok(()) => exec(plan),
        Err(failure) => failure,
    }
}

/// Async-signal-safe calls alone, on descriptors and strings of the plan, which the suspended
/// parent keeps alive.
fn prepare(plan: &Plan<'_>) -> Result<(), Failure> {
    let failed = |_: io::Error| Failure::last(Step::Prepare);
    let mut sources = plan.standard;
    for source in &mut sources {
        // A source below 3 would be overwritten by the dup2 of another.
        if *source < 3 {
            // SAFETY: the plan's descriptor is open.
            let moved = unsafe { libc::fcntl(*source, libc::F_DUPFD_CLOEXEC, 3) };
            *source = super::check(moved).map_err(failed)?;
        }
    }
    for (source, target) in sources.into_iter().zip(0..) {
        // SAFETY: the plan's descriptor is open; what `target` was is not used in this process.
        super::check(unsafe { libc::dup2(source, target) }).map_err(failed)?;
    }
    // As early as can be: until then this process holds the pipes of all others that are being
    // started, and none of these can be seen to end.
    close_others();
    // SAFETY: changes this process's own session.
    super::check(unsafe { libc::setsid() }).map_err(failed)?;
    super::signal::default_all();
    if plan.terminal {
        #[allow(
            clippy::useless_conversion,
            reason = "the constant's type is not the same everywhere"
        )]
        // SAFETY: descriptor 0 is a terminal; the call takes an integer.
        super::check(unsafe { libc::ioctl(0, libc::TIOCSCTTY.into(), 0) }).map_err(failed)?;
    }
    if let Some(limit) = plan.descriptor_limit {
        // SAFETY: reads one rlimit. Limits are this process's own, although memory is shared.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit.0) };
    }
    if let Some(mark) = plan.mark {
        // That this works here has been found out before.
        let _ = limit::set(mark);
    }
    raise_oom_score(plan.oom_score);
    // SAFETY: a NUL-terminated string.
    let entered = super::check(unsafe { libc::chdir(plan.directory.as_ptr()) });
    entered.map_err(|_| Failure::last(Step::Directory))?;
    super::signal::unblock_all();
    Ok(())
}

/// Whether a process can be made in a control group.
#[cfg(target_os = "linux")]
pub(crate) fn can_choose_group() -> bool {
    super::clone::has_clone3()
}

/// There are none.
#[cfg(not(target_os = "linux"))]
pub(crate) fn can_choose_group() -> bool {
    false
}

/// Descriptors that a library's user left open to exec. The server's own all close themselves,
/// so that a kernel without this call loses nothing there.
#[cfg(target_os = "linux")]
fn close_others() {
    // SAFETY: the child has a descriptor table of its own and uses none above 2 any more.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}

#[cfg(not(target_os = "linux"))]
fn close_others() {}

/// Best effort: there may be no /proc.
#[cfg(target_os = "linux")]
fn raise_oom_score(score: &[u8]) {
    // SAFETY: async-signal-safe calls on a constant path and a live slice. The kernel applies
    // the value to this process alone although memory is shared, because it is a vfork child.
    unsafe {
        let fd = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if fd >= 0 {
            libc::write(fd, score.as_ptr().cast(), score.len());
            libc::close(fd);
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn raise_oom_score(_score: &[u8]) {}

/// Tries each path as execvp(3) does: one that is not there leads to the next, one that may not
/// be run is remembered.
fn exec(plan: &Plan<'_>) -> Failure {
    let mut errno = libc::ENOENT;
    for program in plan.programs {
        // SAFETY: NUL-terminated strings and NULL-terminated arrays that outlive the call.
        unsafe {
            libc::execve(program.as_ptr(), plan.arguments.as_ptr(), plan.environment.as_ptr())
        };
        let failure = Failure::last(Step::Exec);
        match failure.errno {
            libc::EACCES => errno = libc::EACCES,
            libc::ENOENT | libc::ENOTDIR | libc::ESTALE | libc::ENODEV | libc::ETIMEDOUT
                if plan.programs.len() > 1 => {}
            _ => return failure,
        }
    }
    Failure { step: Step::Exec, errno }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    fn start(programs: &[&str], directory: &CStr) -> Result<Spawned, Failure> {
        let strings = |items: &[&str]| -> Vec<CString> {
            items.iter().map(|item| CString::new(*item).unwrap()).collect()
        };
        let null = std::fs::File::open("/dev/null").unwrap();
        spawn(&Spawn {
            programs: &strings(programs),
            arguments: &[c"program"],
            environment: &[],
            directory,
            standard: [null.as_fd(); 3],
            terminal: false,
            descriptor_limit: None,
            oom_score: b"0",
            mark: None,
            cgroup: None,
        })
    }

    #[test]
    fn a_failure_tells_its_step() {
        assert_eq!(
            start(&["/bin/true"], c"/nope").unwrap_err(),
            Failure { step: Step::Directory, errno: libc::ENOENT }
        );
        assert_eq!(
            start(&["/nope"], c"/").unwrap_err(),
            Failure { step: Step::Exec, errno: libc::ENOENT }
        );
    }

    #[test]
    fn a_path_that_may_not_be_run_is_told_only_if_no_later_one_runs() {
        assert_eq!(start(&["/etc/passwd", "/nope"], c"/").unwrap_err().errno, libc::EACCES);
        let spawned = start(&["/etc/passwd", "/nope", "/bin/true"], c"/").unwrap();
        super::super::child::reap(spawned.pid);
    }
}
