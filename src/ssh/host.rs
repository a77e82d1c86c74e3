//! A host that is reached by ssh, and who is asked what ssh asks.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};

/// What ssh wants to know, or has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// What kind of answer it takes.
    pub kind: QuestionKind,
    /// ssh's own words, such as `user@host's password: `.
    pub text: String,
}

/// The kinds of questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuestionKind {
    /// A password, a passphrase, a one-time code: not to be shown while it is typed.
    Secret,
    /// `yes` or `no`; where a host is not known yet, its fingerprint is an answer too.
    YesOrNo,
    /// Nothing is asked: somebody has to touch a key, for instance. The answer is not used.
    Notice,
}

type Ask = dyn Fn(&Question) -> Option<String> + Send + Sync;
type Upload = dyn Fn(u64, u64) + Send + Sync;

/// A host as `ssh` knows it: a name of ~/.ssh/config, `user@host`, `ssh://user@host:port`.
#[derive(Clone)]
pub struct SshHost {
    pub(super) name: String,
    pub(super) config: Option<PathBuf>,
    pub(super) server_dir: Option<PathBuf>,
    pub(super) program: Option<PathBuf>,
    pub(super) ask: Option<Arc<Ask>>,
    pub(super) upload: Option<Arc<Upload>>,
}

impl SshHost {
    /// The host of this name. Nobody is asked anything: where ssh wants to know something, that is an
    /// error.
    ///
    /// # Errors
    /// `InvalidParams` for a name that is empty, or that ssh would take for an option.
    pub fn new(name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        if name.is_empty() || name.starts_with('-') || name.contains(['\0', '\n']) {
            return Err(Error::params(format!("{name:?} is no name of a host")));
        }
        let (config, server_dir, program, ask, upload) = Default::default();
        Ok(Self { name, config, server_dir, program, ask, upload })
    }

    /// Reads this configuration and nothing of the system's, as `ssh -F` does.
    #[must_use]
    pub fn config(self, file: impl Into<PathBuf>) -> Self {
        Self { config: Some(file.into()), ..self }
    }

    /// Looks here first for what is to be placed on the host: `ta-server-TARGET`, `ta-TARGET`.
    #[must_use]
    pub fn server_dir(self, directory: impl Into<PathBuf>) -> Self {
        Self { server_dir: Some(directory.into()), ..self }
    }

    /// A `ta` on this machine: it passes on what ssh asks, and is what is placed on a host that is of
    /// this machine's kind. If nothing is said, that is this program, if it is a `ta`, else the one
    /// beside it, else the one of PATH.
    #[must_use]
    pub fn program(self, ta: impl Into<PathBuf>) -> Self {
        Self { program: Some(ta.into()), ..self }
    }

    /// Who answers what ssh asks. `None` is for whoever does not want to answer: the login ends then.
    #[must_use]
    pub fn asking(self, ask: impl Fn(&Question) -> Option<String> + Send + Sync + 'static) -> Self {
        Self { ask: Some(Arc::new(ask)), ..self }
    }

    /// Who is told how much of the server has been sent: so many bytes, of so many. It is told only
    /// where one has to be placed there.
    #[must_use]
    pub fn on_upload(self, tell: impl Fn(u64, u64) + Send + Sync + 'static) -> Self {
        Self { upload: Some(Arc::new(tell)), ..self }
    }

    /// A `ta` of this machine, if there is one.
    pub(super) fn ta(&self) -> Option<PathBuf> {
        if let Some(program) = &self.program {
            return Some(program.clone());
        }
        let own = std::env::current_exe().ok();
        let is_ta = |path: &Path| path.file_name().is_some_and(|name| name == "ta");
        if let Some(own) = own.as_deref().filter(|own| is_ta(own)) {
            return Some(own.to_owned());
        }
        let beside = own.as_deref().and_then(Path::parent).map(|parent| parent.join("ta"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let others = std::env::split_paths(&path).map(|directory| directory.join("ta"));
        beside.into_iter().chain(others).find(|path| path.is_file())
    }
}

impl fmt::Display for SshHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for SshHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SshHost")
            .field("name", &self.name)
            .field("config", &self.config)
            .field("server_dir", &self.server_dir)
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}
