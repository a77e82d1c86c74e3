//! What `ta run` needs of an environment.

use crate::client::{ExecClient, Process};
#[cfg(feature = "host")]
use crate::environment::{ExecEnvironment, LocalExecEnvironment};
use crate::error::Result;
use crate::protocol::{ExecParams, InitializeResult, SpawnParams};

/// As much of an environment as `ta run` needs. (The whole interface would bring all that a host can
/// do into a build that is to be small.) Dropped, it ends what it has started.
pub(in crate::cli) trait Runner: Send {
    /// What it says of itself.
    fn about(&self) -> Result<InitializeResult>;
    /// Runs a command line in the shell.
    fn exec(&self, params: &ExecParams) -> Result<Process>;
    /// Starts a program.
    fn spawn(&self, params: &SpawnParams) -> Result<Process>;
}

impl Runner for ExecClient {
    fn about(&self) -> Result<InitializeResult> {
        self.initialize()
    }

    fn exec(&self, params: &ExecParams) -> Result<Process> {
        self.exec(params)
    }

    fn spawn(&self, params: &SpawnParams) -> Result<Process> {
        self.spawn(params)
    }
}

#[cfg(feature = "host")]
impl Runner for LocalExecEnvironment {
    fn about(&self) -> Result<InitializeResult> {
        ExecEnvironment::about(self)
    }

    fn exec(&self, params: &ExecParams) -> Result<Process> {
        ExecEnvironment::exec(self, params)
    }

    fn spawn(&self, params: &SpawnParams) -> Result<Process> {
        ExecEnvironment::spawn(self, params)
    }
}
