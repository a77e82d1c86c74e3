//! What is known of this machine and this process.

use std::ffi::{CStr, OsStr, OsString};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::check;

/// The machine's name, or an empty string.
pub(crate) fn hostname() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: the buffer is valid for writes of its length less one, so a NUL always follows.
    let result = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
    if result == 0 { name.to_string_lossy().into_owned() } else { String::new() }
}

/// Makes files that nobody else may open. Call it while there is one thread: the umask is the whole
/// process's.
pub(crate) fn for_this_user_alone<T>(make: impl FnOnce() -> T) -> T {
    // SAFETY: umask takes an integer and touches no memory.
    let before = unsafe { libc::umask(0o177) };
    let made = make();
    // SAFETY: as above.
    unsafe { libc::umask(before) };
    made
}

/// The number of the calling thread, which is of the same row as those of processes.
#[cfg(target_os = "linux")]
pub(crate) fn thread_id() -> Option<i32> {
    // SAFETY: takes nothing and touches no memory.
    i32::try_from(unsafe { libc::syscall(libc::SYS_gettid) }).ok()
}

/// Threads have no such numbers.
#[cfg(not(target_os = "linux"))]
pub(crate) fn thread_id() -> Option<i32> {
    None
}

/// The number of this user.
pub(crate) fn user_id() -> u32 {
    // SAFETY: takes nothing and touches no memory.
    unsafe { libc::getuid() }
}

/// The name and the home directory that the user database has for this user.
pub(crate) fn account() -> Option<(OsString, OsString)> {
    let mut buffer = vec![0; 16 * 1024];
    // SAFETY: a passwd is integers and pointers, for which all zeros are a value.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    // SAFETY: all pointers are valid for the call, and the length is the buffer's.
    let result = unsafe {
        libc::getpwuid_r(
            user_id(),
            &raw mut entry,
            buffer.as_mut_ptr(),
            buffer.len(),
            &raw mut found,
        )
    };
    if result != 0 || found.is_null() {
        return None;
    }
    // SAFETY: the call has answered an entry, whose strings are NUL-terminated and in the buffer.
    let (name, home) = unsafe { (CStr::from_ptr(entry.pw_name), CStr::from_ptr(entry.pw_dir)) };
    let owned = |text: &CStr| OsStr::from_bytes(text.to_bytes()).to_owned();
    Some((owned(name), owned(home)))
}

/// A number that nobody can foresee: std seeds its hashers from the kernel.
pub(crate) fn random_number() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// When this process started, in milliseconds since 1970; the same whenever it is asked. Where the
/// system does not tell, it is when this was asked first.
pub(crate) fn start_time_ms() -> u64 {
    static START: OnceLock<u64> = OnceLock::new();
    *START.get_or_init(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let start = now.saturating_sub(age().unwrap_or_default());
        u64::try_from(start.as_millis()).unwrap_or(u64::MAX)
    })
}

/// For how long this process has run.
#[cfg(target_os = "linux")]
fn age() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The 22nd field; the second may hold spaces.
    let ticks: u64 = stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()?;
    // SAFETY: asks for one number.
    let per_second = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok()?;
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call stores one timespec.
    check(unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now) }).ok()?;
    let since_boot = Duration::new(now.tv_sec.try_into().ok()?, now.tv_nsec.try_into().ok()?);
    let start = Duration::from_millis(ticks.checked_mul(1000)?.checked_div(per_second)?);
    since_boot.checked_sub(start)
}

/// Nobody tells.
#[cfg(not(target_os = "linux"))]
fn age() -> Option<Duration> {
    None
}

/// A limit on open descriptors, as it was before the server raised its own.
#[derive(Clone, Copy)]
pub(crate) struct DescriptorLimit(pub(super) libc::rlimit);

/// How many descriptors this process may have open.
pub(crate) fn descriptor_limit() -> u64 {
    #[allow(clippy::useless_conversion, reason = "rlim_t is not u64 everywhere")]
    current_limit().map_or(1024, |limit| limit.rlim_cur.into())
}

fn current_limit() -> Option<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: getrlimit stores one rlimit.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }).ok()?;
    Some(limit)
}

/// The limits on open descriptors, the soft and the hard one.
pub(crate) fn descriptor_limits() -> Option<(u64, u64)> {
    limits(libc::RLIMIT_NOFILE)
}

/// How many processes this user may have; `None` where there is no limit.
pub(crate) fn process_limit() -> Option<u64> {
    limits(libc::RLIMIT_NPROC).map(|(soft, _)| soft).filter(|soft| *soft != u64::MAX)
}

#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

#[allow(clippy::useless_conversion, reason = "rlim_t is not u64 everywhere")]
fn limits(resource: Resource) -> Option<(u64, u64)> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: getrlimit stores one rlimit.
    check(unsafe { libc::getrlimit(resource, &raw mut limit) }).ok()?;
    #[allow(clippy::useless_conversion, reason = "rlim_t is not u64 everywhere")]
    // (Some systems have another number for none.)
    let number =
        |limit: libc::rlim_t| if limit == libc::RLIM_INFINITY { u64::MAX } else { limit.into() };
    Some((number(limit.rlim_cur), number(limit.rlim_max)))
}

/// Raises the soft limit on open descriptors to the hard one and answers the old limit, which
/// the children get back: programs that use select(2) rely on it.
pub(crate) fn raise_descriptor_limit() -> Option<DescriptorLimit> {
    let before = current_limit()?;
    let raised = libc::rlimit { rlim_cur: before.rlim_max, rlim_max: before.rlim_max };
    // SAFETY: setrlimit reads one rlimit.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) }).ok()?;
    Some(DescriptorLimit(before))
}
