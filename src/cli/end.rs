//! How a command ends that is not `ta run`.

use std::process::ExitCode;

use super::arguments::{USAGE, say_error};
use crate::error::Error;
use crate::sys::signal;

/// An end, and what whoever has called sees of it.
pub(super) enum End {
    /// With this exit code.
    Code(u8),
    /// By this signal: a shell that has been interrupted too then stops its script.
    Signal(i32),
    /// An option or a file that it names is not as it must be: 2.
    Usage(Error),
    /// The environment cannot be reached, or is no more: 125.
    Failed(Error),
    /// What was asked for at the far end is not to be had, or is over: 1.
    Refused(Error),
}

impl End {
    /// Says what there is to say, on one line, and answers the exit code.
    pub(super) fn exit(self) -> ExitCode {
        match self {
            Self::Code(code) => ExitCode::from(code),
            Self::Signal(signal) => signal::die_of(signal),
            Self::Usage(error) => {
                say_error(error.message());
                ExitCode::from(USAGE)
            }
            Self::Failed(error) => {
                super::say_failure(&error);
                ExitCode::from(super::FAILED)
            }
            Self::Refused(error) => {
                super::say_failure(&error);
                ExitCode::FAILURE
            }
        }
    }
}
