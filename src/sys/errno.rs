//! Names of errno values, as the protocol carries them.

use std::io;

macro_rules! names {
    ($($name:ident)*) => {
        /// The symbol of an errno value (`"ENOENT"`), or `"EUNKNOWN"`.
        pub(crate) fn name(errno: i32) -> &'static str {
            match errno {
                $(libc::$name => stringify!($name),)*
                _ => "EUNKNOWN",
            }
        }

        /// The errno value of a symbol.
        pub(crate) fn number(name: &str) -> Option<i32> {
            match name {
                $(stringify!($name) => Some(libc::$name),)*
                _ => None,
            }
        }
    };
}

names! {
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT
    EBUSY EEXIST EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC
    ESPIPE EROFS EMLINK EPIPE EDOM ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP
    EPROTO EOVERFLOW EILSEQ EUSERS ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE ENOPROTOOPT
    EPROTONOSUPPORT EOPNOTSUPP EAFNOSUPPORT EADDRINUSE EADDRNOTAVAIL ENETDOWN ENETUNREACH
    ENETRESET ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN ETIMEDOUT ECONNREFUSED EHOSTDOWN
    EHOSTUNREACH EALREADY EINPROGRESS ESTALE EDQUOT ECANCELED
}

/// `EIO` for an error that has no errno of its own.
pub(crate) const FALLBACK: i32 = libc::EIO;
/// A device failed; a terminal has gone.
pub(crate) const EIO: i32 = libc::EIO;
/// The far end of a pipe has gone.
pub(crate) const EPIPE: i32 = libc::EPIPE;
/// Given up by this side.
pub(crate) const ECONNABORTED: i32 = libc::ECONNABORTED;
/// No answer in time.
pub(crate) const ETIMEDOUT: i32 = libc::ETIMEDOUT;
/// It may not be opened or changed so.
pub(crate) const EACCES: i32 = libc::EACCES;
/// Not permitted.
pub(crate) const EPERM: i32 = libc::EPERM;
/// No such file or directory.
pub(crate) const ENOENT: i32 = libc::ENOENT;
/// Something exists already.
pub(crate) const EEXIST: i32 = libc::EEXIST;
/// Not a directory.
pub(crate) const ENOTDIR: i32 = libc::ENOTDIR;
/// A path or a name is too long.
pub(crate) const ENAMETOOLONG: i32 = libc::ENAMETOOLONG;
/// A directory, where a file was meant.
pub(crate) const EISDIR: i32 = libc::EISDIR;
/// Ended before it was done.
pub(crate) const ECANCELED: i32 = libc::ECANCELED;
/// No descriptor is left.
pub(crate) const EMFILE: i32 = libc::EMFILE;
/// Not a terminal.
pub(crate) const ENOTTY: i32 = libc::ENOTTY;

/// The errno of an I/O error.
pub(crate) fn of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(match error.kind() {
        io::ErrorKind::TimedOut => libc::ETIMEDOUT,
        io::ErrorKind::InvalidInput => libc::EINVAL,
        io::ErrorKind::NotFound => libc::ENOENT,
        _ => FALLBACK,
    })
}

/// The system's sentence for an errno, in lower case as messages have it:
/// `no such file or directory`.
///
/// musl has words of its own for some; those that people know are told whichever libc is in the binary.
pub(crate) fn message(errno: i32) -> String {
    match errno {
        libc::ENOTTY => return "inappropriate ioctl for device".to_owned(),
        libc::ELOOP => return "too many levels of symbolic links".to_owned(),
        libc::ENAMETOOLONG => return "file name too long".to_owned(),
        libc::EBUSY => return "device or resource busy".to_owned(),
        libc::EMFILE => return "too many open files".to_owned(),
        libc::EXDEV => return "invalid cross-device link".to_owned(),
        libc::EDQUOT => return "disk quota exceeded".to_owned(),
        libc::EIO => return "input/output error".to_owned(),
        _ => {}
    }
    let text = io::Error::from_raw_os_error(errno).to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    // "I/O error" and the like keep their capitals.
    let second_is_lower = text.chars().nth(1).is_some_and(char::is_lowercase);
    match chars.next() {
        Some(first) if second_is_lower => first.to_lowercase().chain(chars).collect(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_and_numbers_are_each_others_inverse() {
        for errno in 1..134 {
            let name = super::name(errno);
            if name != "EUNKNOWN" {
                assert_eq!(super::number(name), Some(errno), "{name}");
            }
        }
    }

    #[test]
    fn messages_are_lower_case_unless_they_start_with_an_acronym() {
        assert_eq!(super::message(libc::ENOENT), "no such file or directory");
        let io_error = super::message(libc::EIO);
        assert!(io_error.starts_with("I/O") || io_error.starts_with("input/output"), "{io_error}");
    }
}
