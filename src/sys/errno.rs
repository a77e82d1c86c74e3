//! Names of errno values, as the protocol carries them, and what they mean.

use std::io;

macro_rules! names {
    ($($name:ident $words:literal)*) => {
        /// The symbol of an errno value (`"ENOENT"`), or `"EUNKNOWN"`.
        pub(crate) fn name(errno: i32) -> &'static str {
            match errno {
                $(libc::$name => stringify!($name),)*
                _ => "EUNKNOWN",
            }
        }

        /// The sentence for one of these.
        fn words(errno: i32) -> Option<&'static str> {
            match errno {
                $(libc::$name => Some($words),)*
                _ => None,
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
    EPERM "operation not permitted"
    ENOENT "no such file or directory"
    ESRCH "no such process"
    EINTR "interrupted system call"
    EIO "input/output error"
    ENXIO "no such device or address"
    E2BIG "argument list too long"
    ENOEXEC "exec format error"
    EBADF "bad file descriptor"
    ECHILD "no child processes"
    EAGAIN "resource temporarily unavailable"
    ENOMEM "cannot allocate memory"
    EACCES "permission denied"
    EFAULT "bad address"
    EBUSY "device or resource busy"
    EEXIST "file exists"
    EXDEV "invalid cross-device link"
    ENODEV "no such device"
    ENOTDIR "not a directory"
    EISDIR "is a directory"
    EINVAL "invalid argument"
    ENFILE "too many open files in system"
    EMFILE "too many open files"
    ENOTTY "inappropriate ioctl for device"
    ETXTBSY "text file busy"
    EFBIG "file too large"
    ENOSPC "no space left on device"
    ESPIPE "illegal seek"
    EROFS "read-only file system"
    EMLINK "too many links"
    EPIPE "broken pipe"
    EDOM "numerical argument out of domain"
    ERANGE "numerical result out of range"
    EDEADLK "resource deadlock avoided"
    ENAMETOOLONG "file name too long"
    ENOLCK "no locks available"
    ENOSYS "function not implemented"
    ENOTEMPTY "directory not empty"
    ELOOP "too many levels of symbolic links"
    EPROTO "protocol error"
    EOVERFLOW "value too large for defined data type"
    EILSEQ "invalid or incomplete multibyte or wide character"
    EUSERS "too many users"
    ENOTSOCK "socket operation on non-socket"
    EDESTADDRREQ "destination address required"
    EMSGSIZE "message too long"
    EPROTOTYPE "protocol wrong type for socket"
    ENOPROTOOPT "protocol not available"
    EPROTONOSUPPORT "protocol not supported"
    EOPNOTSUPP "operation not supported"
    EAFNOSUPPORT "address family not supported by protocol"
    EADDRINUSE "address already in use"
    EADDRNOTAVAIL "cannot assign requested address"
    ENETDOWN "network is down"
    ENETUNREACH "network is unreachable"
    ENETRESET "network dropped connection on reset"
    ECONNABORTED "software caused connection abort"
    ECONNRESET "connection reset by peer"
    ENOBUFS "no buffer space available"
    EISCONN "transport endpoint is already connected"
    ENOTCONN "transport endpoint is not connected"
    ETIMEDOUT "connection timed out"
    ECONNREFUSED "connection refused"
    EHOSTDOWN "host is down"
    EHOSTUNREACH "no route to host"
    EALREADY "operation already in progress"
    EINPROGRESS "operation now in progress"
    ESTALE "stale file handle"
    EDQUOT "disk quota exceeded"
    ECANCELED "operation canceled"
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
/// That makes no sense there.
pub(crate) const EINVAL: i32 = libc::EINVAL;
/// A link leads to itself, or is not to be followed.
pub(crate) const ELOOP: i32 = libc::ELOOP;
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

/// The sentence for an errno, as glibc has it whichever libc is in the binary, in lower case as messages
/// have it: `no such file or directory`.
pub(crate) fn message(errno: i32) -> String {
    words(errno).map_or_else(|| format!("error {errno} of the system's"), str::to_owned)
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
    fn messages_are_sentences_in_lower_case() {
        assert_eq!(super::message(libc::ENOENT), "no such file or directory");
        assert_eq!(super::message(4000), "error 4000 of the system's");
    }
}
