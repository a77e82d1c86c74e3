//! What can go wrong, for both sides of the wire.

use std::fmt;
use std::io;

use crate::sys;

/// The result of everything here that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure: what kind it is (to act on) and a sentence for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    step: Option<StartStep>,
    size: Option<u64>,
    epochs: Option<Epochs>,
    message: String,
}

/// What a fenced connection is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epochs {
    /// The caller's own.
    pub own: u64,
    /// The server's, which is newer.
    pub current: u64,
}

/// What a process could not do on its way to run a program: one errno, such as `ENOENT`, means
/// different things at each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartStep {
    /// Enter the directory that it was to start in.
    Cwd,
    /// Become the program.
    Exec,
}

/// What a caller can do something about. Each kind has one form on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A message is not JSON.
    Parse,
    /// A message is JSON, but no request.
    InvalidRequest,
    /// There is no such method.
    MethodNotFound,
    /// A member of the params is missing, of the wrong type or out of range.
    InvalidParams,
    /// The server failed; nothing the caller did.
    Internal,
    /// The operating system said no; the errno.
    Os(i32),
    /// The id is in use.
    DuplicateId,
    /// No live process has this id.
    UnknownProcess,
    /// No live connection has this id.
    UnknownConnection,
    /// The machine has no shell.
    NoShell,
    /// The path leads to something that cannot be read or written like a file.
    NotAFile,
    /// The answer would be longer than a message may be; [`Error::size`] is the file's.
    TooLarge,
    /// The file has another version than was asked for.
    Conflict,
    /// More than 16 MiB wait for a process's stdin, or for the far end of a connection.
    StdinFull,
    /// A configured limit is reached.
    Limit,
    /// Another host with a newer epoch has taken over; [`Error::epochs`] are both, where the server
    /// has told them.
    StaleEpoch,
    /// This environment cannot do that. Only a caller in the same program has this.
    Unsupported,
    /// The server cannot be reached. Only a client has this.
    Unreachable,
    /// The server refused the connection (a wrong token, an origin, no such path). Only a client
    /// has this.
    Refused,
    /// The connection was lost while the call was in flight: it may have had its effect or not.
    /// Only a client has this.
    ConnectionLost,
    /// The answer did not come in time. Only a client has this.
    TimedOut,
    /// A kind that this version does not know: the number and `data.code` as they came.
    Other(i64, Option<String>),
}

/// The number of errors that JSON-RPC has no number for.
const SERVER_ERROR: i64 = -32_000;

/// The code of a fenced connection's errors, and the reason of its close frame.
pub(crate) const STALE_EPOCH: &str = "CELL_TA_EXEC_STALE_EPOCH";

/// The one table between kinds and the wire: number, and `data.code` where there is one.
const WIRE: &[(ErrorKind, i64, Option<&str>)] = &[
    (ErrorKind::Parse, -32_700, None),
    (ErrorKind::InvalidRequest, -32_600, None),
    (ErrorKind::MethodNotFound, -32_601, None),
    (ErrorKind::InvalidParams, -32_602, None),
    (ErrorKind::Internal, -32_603, None),
    (ErrorKind::DuplicateId, SERVER_ERROR, Some("CELL_TA_EXEC_DUPLICATE_ID")),
    (ErrorKind::UnknownProcess, SERVER_ERROR, Some("CELL_TA_EXEC_UNKNOWN_PROCESS")),
    (ErrorKind::UnknownConnection, SERVER_ERROR, Some("CELL_TA_EXEC_UNKNOWN_CONNECTION")),
    (ErrorKind::NotAFile, SERVER_ERROR, Some("CELL_TA_EXEC_NOT_A_FILE")),
    (ErrorKind::TooLarge, SERVER_ERROR, Some("CELL_TA_EXEC_TOO_LARGE")),
    (ErrorKind::Conflict, SERVER_ERROR, Some("CELL_TA_EXEC_CONFLICT")),
    (ErrorKind::NoShell, SERVER_ERROR, Some("CELL_TA_EXEC_NO_SHELL")),
    (ErrorKind::StdinFull, SERVER_ERROR, Some("CELL_TA_EXEC_STDIN_FULL")),
    (ErrorKind::Limit, SERVER_ERROR, Some("CELL_TA_EXEC_LIMIT")),
    (ErrorKind::StaleEpoch, SERVER_ERROR, Some(STALE_EPOCH)),
];

impl StartStep {
    /// Its name on the wire, `data.step`.
    #[must_use]
    pub fn wire(self) -> &'static str {
        match self {
            Self::Cwd => "cwd",
            Self::Exec => "exec",
        }
    }

    /// The step that came over the wire; `None` for one that this version does not know.
    #[must_use]
    pub fn from_wire(name: &str) -> Option<Self> {
        [Self::Cwd, Self::Exec].into_iter().find(|step| step.wire() == name)
    }
}

impl ErrorKind {
    /// The number on the wire, and `data.code`.
    #[must_use]
    pub fn wire(&self) -> (i64, Option<&str>) {
        match self {
            Self::Os(errno) => (SERVER_ERROR, Some(sys::errno::name(*errno))),
            Self::Other(number, code) => (*number, code.as_deref()),
            Self::Unsupported
            | Self::Unreachable
            | Self::Refused
            | Self::ConnectionLost
            | Self::TimedOut => (SERVER_ERROR, None),
            known => WIRE
                .iter()
                .find(|(kind, ..)| kind == known)
                .map_or((SERVER_ERROR, None), |(_, number, code)| (*number, *code)),
        }
    }

    /// The kind that came over the wire.
    #[must_use]
    pub fn from_wire(number: i64, code: Option<&str>) -> Self {
        if let Some(errno) = code.and_then(sys::errno::number) {
            return Self::Os(errno);
        }
        WIRE.iter()
            .find(|(_, known_number, known_code)| match code {
                Some(_) => *known_code == code,
                None => known_code.is_none() && *known_number == number,
            })
            .map_or_else(|| Self::Other(number, code.map(str::to_owned)), |(kind, ..)| kind.clone())
    }
}

impl Error {
    /// A failure of that kind. The message is lower case, without a full stop, and names the
    /// thing and the reason.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, step: None, size: None, epochs: None, message: message.into() }
    }

    /// The same failure, at this step of a start.
    pub(crate) fn at(self, step: Option<StartStep>) -> Self {
        Self { step, ..self }
    }

    /// The same failure, about a file of this size.
    pub(crate) fn of_size(self, size: Option<u64>) -> Self {
        Self { size, ..self }
    }

    /// The same failure, with the epochs that it is about.
    pub(crate) fn of_epochs(self, epochs: Option<Epochs>) -> Self {
        Self { epochs, ..self }
    }

    /// A host with a newer epoch has taken over.
    pub(crate) fn stale(own: u64, current: u64) -> Self {
        let message = format!(
            "another host has taken over this environment: its epoch {current} is newer than {own}"
        );
        Self::new(ErrorKind::StaleEpoch, message).of_epochs(Some(Epochs { own, current }))
    }

    /// What the operating system refused: `what` names the attempt and the thing.
    pub(crate) fn os(errno: i32, what: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Os(errno), format!("{what}: {}", sys::errno::message(errno)))
    }

    /// The same from an I/O error.
    pub(crate) fn io(error: &io::Error, what: impl fmt::Display) -> Self {
        let errno = sys::errno::of(error);
        match error.raw_os_error() {
            Some(_) => Self::os(errno, what),
            // A resolver, for instance, has a sentence and no errno.
            None => Self::new(ErrorKind::Os(errno), format!("{what}: {error}")),
        }
    }

    /// A fault in the params of a request.
    pub(crate) fn params(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidParams, message)
    }

    /// What kind it is.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// Where a start failed, if that is what failed and the step is one to know.
    #[must_use]
    pub fn step(&self) -> Option<StartStep> {
        self.step
    }

    /// The size in bytes of the file that is `TooLarge`.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// The epochs that a `StaleEpoch` is about, where the server has told them.
    #[must_use]
    pub fn epochs(&self) -> Option<Epochs> {
        self.epochs
    }

    /// The sentence for a person.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_comes_back_from_the_wire_as_it_went() {
        for (kind, ..) in WIRE {
            let (number, code) = kind.wire();
            assert_eq!(&ErrorKind::from_wire(number, code), kind);
        }
        let missing = ErrorKind::Os(2);
        assert_eq!(missing.wire(), (SERVER_ERROR, Some("ENOENT")));
        assert_eq!(ErrorKind::from_wire(SERVER_ERROR, Some("ENOENT")), missing);
    }

    #[test]
    fn an_unknown_code_is_kept() {
        let kind = ErrorKind::from_wire(SERVER_ERROR, Some("CELL_TA_EXEC_FUTURE"));
        assert_eq!(kind.wire(), (SERVER_ERROR, Some("CELL_TA_EXEC_FUTURE")));
    }
}
