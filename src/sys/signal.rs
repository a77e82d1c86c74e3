//! Signals: their names, masks, and waiting for them on a thread.

use std::io;
use std::mem::MaybeUninit;
#[cfg(target_os = "linux")]
use std::time::Duration;

use super::check;

/// Ends a process, and cannot be caught.
pub(crate) const KILL: i32 = libc::SIGKILL;
/// Asks a process to end.
pub(crate) const TERM: i32 = libc::SIGTERM;
/// The terminal's interrupt character.
pub(crate) const INT: i32 = libc::SIGINT;
/// The terminal has gone.
pub(crate) const HUP: i32 = libc::SIGHUP;
/// The terminal's quit character.
pub(crate) const QUIT: i32 = libc::SIGQUIT;
/// The terminal's window has another size.
pub(crate) const WINCH: i32 = libc::SIGWINCH;
/// A write to a pipe that nobody reads.
pub(crate) const PIPE: i32 = libc::SIGPIPE;
/// The terminal's suspend character.
pub(crate) const TSTP: i32 = libc::SIGTSTP;
/// Stops a process, and cannot be caught.
pub(crate) const STOP: i32 = libc::SIGSTOP;
/// A stopped process goes on.
pub(crate) const CONT: i32 = libc::SIGCONT;
/// A child has ended.
#[cfg(target_os = "linux")]
pub(crate) const CHLD: i32 = libc::SIGCHLD;

/// The highest signal number. Linux has 64, with the real-time signals.
const HIGHEST: i32 = if cfg!(target_os = "linux") { 64 } else { 31 };

macro_rules! names {
    ($($name:ident)*) => {
        const NAMES: &[(i32, &str)] = &[$((libc::$name, stringify!($name)),)*];
    };
}

names! {
    SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGBUS SIGFPE SIGKILL SIGUSR1 SIGSEGV SIGUSR2
    SIGPIPE SIGALRM SIGTERM SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGXCPU
    SIGXFSZ SIGVTALRM SIGPROF SIGWINCH SIGIO SIGSYS
}

/// The name of a signal: `"SIGKILL"`, `"SIG40"` for one that has none.
pub(crate) fn name(number: i32) -> String {
    NAMES
        .iter()
        .find(|(known, _)| *known == number)
        .map_or_else(|| format!("SIG{number}"), |(_, name)| (*name).to_owned())
}

/// The number of a signal named with or without `SIG`, in any case.
pub(crate) fn by_name(name: &str) -> Option<i32> {
    let upper = name.to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    NAMES
        .iter()
        .find(|(_, known)| known.strip_prefix("SIG") == Some(bare))
        .map(|(number, _)| *number)
        .or_else(|| bare.parse().ok().and_then(by_number))
}

/// The number itself, if there is such a signal. 0 sends nothing and asks whether anybody is
/// there.
pub(crate) fn by_number(number: i64) -> Option<i32> {
    i32::try_from(number).ok().filter(|number| (0..=HIGHEST).contains(number))
}

/// Lets children be waited for. Whoever started us may have had SIGCHLD ignored, and then the
/// kernel reaps them itself and their exit codes are lost.
pub(crate) fn wait_for_children() {
    set_default(libc::SIGCHLD);
}

/// A file that grows beyond the limit on file sizes is an error (`EFBIG`) and no signal.
pub(crate) fn ignore_file_size_limit() {
    // SAFETY: SIG_IGN is a valid disposition.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// A write to a pipe that nobody reads is an error and no signal, as in every program whose `main`
/// is Rust's; a fuzzer's is not.
#[cfg(fuzzing)]
pub(crate) fn ignore_broken_pipes() {
    // SAFETY: SIG_IGN is a valid disposition.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// All signals are blocked on this thread while this lives.
pub(crate) struct BlockAll {
    before: libc::sigset_t,
}

impl BlockAll {
    /// Blocks them.
    pub(crate) fn new() -> Self {
        let mut all = MaybeUninit::uninit();
        // SAFETY: sigfillset initialises the set.
        let all = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            all.assume_init()
        };
        Self { before: set_mask(libc::SIG_SETMASK, &all) }
    }

    /// Leaves the mask as it is from now on.
    #[cfg(target_os = "linux")]
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for BlockAll {
    fn drop(&mut self) {
        set_mask(libc::SIG_SETMASK, &self.before);
    }
}

/// Unblocks all signals on this thread. Async-signal-safe.
pub(super) fn unblock_all() {
    set_mask(libc::SIG_SETMASK, &set_of(&[]));
}

fn set_mask(how: libc::c_int, set: &libc::sigset_t) -> libc::sigset_t {
    let mut before = set_of(&[]);
    // SAFETY: both point to initialised sets.
    unsafe { libc::pthread_sigmask(how, &raw const *set, &raw mut before) };
    before
}

fn set_of(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set; sigaddset changes an initialised one.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}

/// Puts every signal back to its default, ignored ones too. Async-signal-safe.
pub(super) fn default_all() {
    for signal in 1..=HIGHEST {
        set_default(signal);
    }
}

/// The kernel's own call: the C library's refuses the numbers it keeps for itself, and takes a
/// lock for SIGABRT.
#[cfg(target_os = "linux")]
fn set_default(signal: i32) {
    // All zeros is SIG_DFL, no flags, an empty mask, on every architecture.
    let action = [0_u64; 8];
    // SAFETY: the kernel reads at most the size of its sigaction, which is less than this; the
    // mask has 8 bytes. SIGKILL and SIGSTOP answer EINVAL.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            action.as_ptr(),
            std::ptr::null_mut::<libc::c_void>(),
            8_usize,
        )
    };
}

#[cfg(not(target_os = "linux"))]
fn set_default(signal: i32) {
    // SAFETY: SIG_DFL is a valid disposition.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Signals that a thread takes one at a time with [`Signals::wait`]; they are blocked in this
/// thread and in those it starts from now on. Call it before the first thread is started. As
/// PID 1 this works too: a blocked signal is kept, although it has no handler.
pub(crate) struct Signals {
    set: libc::sigset_t,
}

impl Signals {
    /// Blocks the signals, leaving out those that whoever started us had ignored (`nohup`, a
    /// shell's background job). SIGTERM is always meant.
    pub(crate) fn block(signals: &[i32]) -> Self {
        let set = set_of(&meant(signals));
        set_mask(libc::SIG_BLOCK, &set);
        Self { set }
    }

    /// Blocks all but those that stop a process or let it go on, or do nothing at all; answers what
    /// to wait with, and what puts the mask back to what it was.
    #[cfg(target_os = "linux")]
    pub(crate) fn take_all() -> (Self, BlockAll) {
        let before = BlockAll::new();
        let left = [TSTP, libc::SIGTTIN, libc::SIGTTOU, CONT, WINCH, libc::SIGURG, KILL, STOP];
        set_mask(libc::SIG_UNBLOCK, &set_of(&left));
        let taken: Vec<i32> = (1..=HIGHEST).filter(|signal| !left.contains(signal)).collect();
        (Self { set: set_of(&meant(&taken)) }, before)
    }

    /// Waits for the next one, and tells who sent it.
    #[cfg(target_os = "linux")]
    pub(crate) fn next(&self) -> io::Result<Arrival> {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        super::retry(|| {
            // SAFETY: an initialised set and one siginfo_t.
            check(unsafe { libc::sigwaitinfo(&raw const self.set, info.as_mut_ptr()) })
        })?;
        // SAFETY: zeros are a valid siginfo_t, and the call has filled it in.
        Ok(Arrival::of(unsafe { info.assume_init_ref() }))
    }

    /// Waits for the next one.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn next(&self) -> io::Result<Arrival> {
        self.wait().map(|signal| Arrival { signal, sender: 0, value: None })
    }

    /// The same, `None` if none comes within `timeout`.
    #[cfg(target_os = "linux")]
    pub(crate) fn next_within(&self, timeout: Duration) -> io::Result<Option<Arrival>> {
        let timeout = libc::timespec {
            tv_sec: i32::try_from(timeout.as_secs()).unwrap_or(i32::MAX).into(),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: an initialised set, one siginfo_t and one timespec.
        let arrived = check(unsafe {
            libc::sigtimedwait(&raw const self.set, info.as_mut_ptr(), &raw const timeout)
        });
        match arrived {
            // SAFETY: zeros are a valid siginfo_t, and the call has filled it in.
            Ok(_) => Ok(Some(Arrival::of(unsafe { info.assume_init_ref() }))),
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits for the next one.
    pub(crate) fn wait(&self) -> io::Result<i32> {
        let mut signal = 0;
        // SAFETY: an initialised set and one int.
        match unsafe { libc::sigwait(&raw const self.set, &raw mut signal) } {
            0 => Ok(signal),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

/// A signal that has come.
pub(crate) struct Arrival {
    /// Which.
    pub(crate) signal: i32,
    /// The process that sent it; 0 if it was the kernel, or one in another PID namespace.
    pub(crate) sender: i32,
    /// The number that came with it, if it was queued.
    pub(crate) value: Option<i32>,
}

#[cfg(target_os = "linux")]
impl Arrival {
    fn of(info: &libc::siginfo_t) -> Self {
        // A timer's or a driver's have other fields there.
        let has_sender = matches!(info.si_code, libc::SI_USER | libc::SI_QUEUE | libc::SI_TKILL);
        // SAFETY: the code says that these are the fields.
        let sender = if has_sender { unsafe { info.si_pid() } } else { 0 };
        let value = (info.si_code == libc::SI_QUEUE).then(|| {
            // SAFETY: the code says that it is there; a number was put in as a pointer.
            let value = unsafe { info.si_value() }.sival_ptr.addr();
            i32::try_from(value & 0xffff_ffff).unwrap_or(0)
        });
        Self { signal: info.si_signo, sender, value }
    }
}

/// The real-time signal of that place among those that programs may use.
#[cfg(target_os = "linux")]
pub(crate) fn real_time(place: i32) -> i32 {
    libc::SIGRTMIN() + place
}

/// Those that whoever started us did not ignore. SIGTERM is always meant, a child's end and a
/// real-time signal too.
fn meant(signals: &[i32]) -> Vec<i32> {
    let always = |signal| signal == TERM || signal == libc::SIGCHLD || signal > libc::SIGSYS;
    signals.iter().copied().filter(|signal| always(*signal) || !is_ignored(*signal)).collect()
}

fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: with no new action, sigaction only stores the present one.
    let result = check(unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) });
    // SAFETY: zeros are a valid sigaction, and the call may have filled it in.
    result.is_ok() && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Sends a signal to this process.
pub(crate) fn to_self(signal: i32) {
    // SAFETY: kill and getpid take integers and touch no memory of ours.
    unsafe { libc::kill(libc::getpid(), signal) };
}

/// Ends this process by a signal, so that whoever waits for it sees that signal.
pub(crate) fn die_of(signal: i32) -> ! {
    set_default(signal);
    set_mask(libc::SIG_UNBLOCK, &set_of(&[signal]));
    // SAFETY: raise involves no memory.
    unsafe { libc::raise(signal) };
    std::process::exit(128 + signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_with_and_without_sig_and_as_numbers() {
        for text in ["SIGKILL", "KILL", "kill", "9", "sigkill"] {
            assert_eq!(by_name(text), Some(KILL), "{text}");
        }
        for text in ["", "SIG", "NOPE", "65", "-1", "SIGSIGKILL"] {
            assert_eq!(by_name(text), None, "{text}");
        }
        assert_eq!(name(KILL), "SIGKILL");
        assert_eq!(name(40), "SIG40");
    }
}
