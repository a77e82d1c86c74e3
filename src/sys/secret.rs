//! Taking a secret out of the environment, also out of what /proc/PID/environ shows.

use std::ffi::{CStr, CString, OsString};
use std::os::unix::ffi::OsStringExt;

/// Takes a variable: answers its value, removes it from the environment and overwrites the
/// bytes it came in, which the kernel shows to whoever may read /proc/PID/environ.
///
/// Call it before the first thread is started: the environment of a C program has no lock.
pub(crate) fn take(name: &str) -> Option<OsString> {
    let name = CString::new(name).ok()?;
    // SAFETY: single-threaded by the rule above. getenv answers NULL or a NUL-terminated
    // string in this process's own writable memory, and its length is measured before it is
    // overwritten.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        if value.is_null() {
            return None;
        }
        let copy = CStr::from_ptr(value).to_bytes().to_vec();
        for offset in 0..copy.len() {
            value.add(offset).write_volatile(0);
        }
        libc::unsetenv(name.as_ptr());
        Some(OsString::from_vec(copy))
    }
}

/// Overwrites a secret that this process has no use for.
#[cfg(target_os = "linux")]
pub(crate) fn wipe(secret: OsString) {
    let mut bytes = secret.into_vec();
    for byte in &mut bytes {
        // SAFETY: a reference to one byte of our own. (A plain write to what is freed next would
        // be left out.)
        unsafe { std::ptr::from_mut(byte).write_volatile(0) };
    }
}
