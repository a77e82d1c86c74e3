//! The environment of the whole process.

use std::ffi::OsString;

/// Puts these variables in the place of all that there are.
///
/// Call it before the first thread is started: the environment of a C program has no lock.
pub(crate) fn replace(variables: Vec<(OsString, OsString)>) {
    for (name, _) in std::env::vars_os() {
        // SAFETY: single-threaded by the rule above.
        unsafe { std::env::remove_var(name) };
    }
    for (name, value) in variables {
        // SAFETY: as above; the caller's names are not empty and hold neither `=` nor NUL.
        unsafe { std::env::set_var(name, value) };
    }
}
