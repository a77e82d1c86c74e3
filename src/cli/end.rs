//! How a command ends: the one place where that becomes an exit code.

use std::process::ExitCode;

use super::arguments::{USAGE, say_error};
#[cfg(feature = "host")]
use super::prompt;
use crate::error::Error;
use crate::sys::signal;

/// It could not be done: there is no such file, the disk is full, nobody listens there.
const REFUSED: u8 = 1;

/// An end, and what whoever has called sees of it.
pub(super) enum End {
    /// With this exit code.
    Code(u8),
    /// By this signal: a shell that has been interrupted too then stops its script. Had `ta` only
    /// exited with 128 more than it, the script would go on with its next line.
    Signal(i32),
    /// An option or a file that it names is not as it must be: 2.
    Usage(Error),
    /// The environment cannot be reached, or is no more: 125. What could not be run there: 126 and
    /// 127.
    Failed(Error),
    /// What was asked for at the far end is not to be had, or is over: 1.
    Refused(Error),
}

impl End {
    /// The command line is wrong.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(Error::params(message))
    }

    /// It cannot be done.
    pub(super) fn refused(message: impl Into<String>) -> Self {
        Self::Refused(Error::params(message))
    }

    /// Whether there is no use in trying anything else.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Signal(_))
    }

    /// Says what there is to say, on one line, and answers the exit code. It does not come back
    /// where that is a signal.
    pub(super) fn say(&self) -> u8 {
        // Somebody may still be asked for a password, which nobody waits for any more.
        #[cfg(feature = "host")]
        prompt::leave_terminal();
        match self {
            Self::Code(code) => *code,
            Self::Signal(signal) => signal::die_of(*signal),
            Self::Usage(error) => {
                say_error(error.message());
                USAGE
            }
            Self::Failed(error) => {
                super::say_failure(error);
                super::code(error)
            }
            Self::Refused(error) => {
                super::say_failure(error);
                REFUSED
            }
        }
    }

    /// The same for the end of the program.
    pub(super) fn exit(self) -> ExitCode {
        ExitCode::from(self.say())
    }
}
