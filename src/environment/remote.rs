//! Another machine, over a client.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::{Answer, ExecEnvironment, Process};
use crate::client::{ExecClient, RemoteConnection};
use crate::error::{Error, Result};
use crate::protocol::{
    ConnectParams, CopyParams, EnvDelta, ExecParams, FindParams, FindResult, GrepParams,
    GrepResult, InitializeResult, MkdirParams, PathParams, ProcessId, ReadFileParams,
    ReadFileResult, ReaddirResult, RealpathResult, RemoveParams, RenameParams, SpawnParams,
    StatParams, StatResult, WriteFileParams, WriteFileResult,
};

/// An environment at the far end of a connection. Clones share it.
#[derive(Clone)]
pub struct RemoteExecEnvironment {
    client: ExecClient,
    /// What it has said of itself, once it was asked, and its directory.
    about: Arc<OnceLock<(InitializeResult, PathBuf)>>,
}

impl RemoteExecEnvironment {
    /// The one that this client leads to.
    ///
    /// # Errors
    /// Those of [`ExecClient::initialize`].
    pub fn new(client: ExecClient) -> Result<Self> {
        let environment = Self::unasked(client);
        environment.known()?;
        Ok(environment)
    }

    /// The same, which is asked what it is when that is needed.
    pub(crate) fn unasked(client: ExecClient) -> Self {
        Self { client, about: Arc::default() }
    }

    fn known(&self) -> Result<&(InitializeResult, PathBuf)> {
        if let Some(known) = self.about.get() {
            return Ok(known);
        }
        let about = self.client.initialize()?;
        let cwd = PathBuf::from(&about.cwd);
        Ok(self.about.get_or_init(|| (about, cwd)))
    }

    /// The client.
    #[must_use]
    pub fn client(&self) -> &ExecClient {
        &self.client
    }

    /// What to change in the environment's own variables, given those that a caller wants for its
    /// command and those that this host has itself: what the caller has added or changed. What is
    /// the host's and no more than passed on (its PATH, its HOME, its API keys) does not leave the
    /// host, nor is anything removed there: the environment has a PATH and a HOME of its own.
    ///
    /// ```
    /// use ta_exec::environment::RemoteExecEnvironment;
    ///
    /// let own = [("PATH", "/usr/bin"), ("API_KEY", "secret"), ("LANG", "C")];
    /// let wanted = [("PATH", "/usr/bin"), ("API_KEY", "secret"), ("LANG", "C.UTF-8"), ("CI", "1")];
    /// let delta = RemoteExecEnvironment::delta(wanted, own)?;
    /// assert_eq!(delta.iter().collect::<Vec<_>>(), [("CI", Some("1")), ("LANG", Some("C.UTF-8"))]);
    /// # Ok::<(), ta_exec::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidParams` for a variable that cannot be one: its name is empty or holds `=` or NUL, its value NUL.
    pub fn delta<'a>(
        wanted: impl IntoIterator<Item = (&'a str, &'a str)>,
        own: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<EnvDelta> {
        let own: BTreeMap<&str, &str> = own.into_iter().collect();
        let wanted: BTreeMap<&str, &str> = wanted.into_iter().collect();
        let mut delta = EnvDelta::new();
        for (name, value) in wanted {
            if own.get(name) != Some(&value) {
                let inserted = delta.insert(name.to_owned(), Some(value.to_owned()));
                inserted.map_err(Error::params)?;
            }
        }
        Ok(delta)
    }
}

impl ExecEnvironment for RemoteExecEnvironment {
    fn cwd(&self) -> &Path {
        // Known since it was made, but for the commands, which do not ask.
        self.known().map_or(Path::new(""), |(_, cwd)| cwd)
    }

    fn local(&self) -> bool {
        false
    }

    fn about(&self) -> Result<InitializeResult> {
        self.known().map(|(about, _)| about.clone())
    }

    fn exec(&self, params: &ExecParams) -> Result<Process> {
        self.client.exec(params)
    }

    fn spawn(&self, params: &SpawnParams) -> Result<Process> {
        self.client.spawn(params)
    }

    fn read_file(&self, params: &ReadFileParams) -> Result<ReadFileResult> {
        self.client.read_file(params)
    }

    fn write_file(&self, params: &WriteFileParams) -> Result<WriteFileResult> {
        self.client.write_file(params)
    }

    fn begin_read_file(&self, params: &ReadFileParams) -> Result<Answer<ReadFileResult>> {
        self.client.begin_read_file(params)
    }

    fn begin_write_file(&self, params: &WriteFileParams) -> Result<Answer<WriteFileResult>> {
        self.client.begin_write_file(params)
    }

    fn stat(&self, params: &StatParams) -> Result<StatResult> {
        self.client.stat(params)
    }

    fn readdir(&self, params: &PathParams) -> Result<ReaddirResult> {
        self.client.readdir(params)
    }

    fn mkdir(&self, params: &MkdirParams) -> Result<()> {
        self.client.mkdir(params)
    }

    fn remove(&self, params: &RemoveParams) -> Result<()> {
        self.client.remove(params)
    }

    fn rename(&self, params: &RenameParams) -> Result<()> {
        self.client.rename(params)
    }

    fn copy(&self, params: &CopyParams) -> Result<()> {
        self.client.copy(params)
    }

    fn realpath(&self, params: &PathParams) -> Result<RealpathResult> {
        self.client.realpath(params)
    }

    fn find(&self, params: &FindParams) -> Result<FindResult> {
        self.client.find(params)
    }

    fn grep(&self, params: &GrepParams) -> Result<GrepResult> {
        self.client.grep(params)
    }

    fn end_search(&self, id: &ProcessId) -> Result<bool> {
        self.client.end_search(id)
    }

    fn connect(&self, params: &ConnectParams) -> Result<RemoteConnection> {
        self.client.connect(params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Variables<'a> = &'a [(&'a str, &'a str)];

    fn delta(wanted: Variables<'_>, own: Variables<'_>) -> Result<Vec<(String, String)>> {
        let delta = RemoteExecEnvironment::delta(wanted.iter().copied(), own.iter().copied())?;
        let set = |(name, value): (&str, Option<&str>)| {
            (name.to_owned(), value.expect("nothing is removed").to_owned())
        };
        Ok(delta.iter().map(set).collect())
    }

    #[test]
    fn only_what_is_new_or_changed_is_sent() {
        let own = [("KEY", "secret"), ("A", "1"), ("EMPTY", ""), ("GONE", "x")];
        for (wanted, expected) in [
            (&[][..], &[][..]),
            (&[("KEY", "secret"), ("A", "1"), ("EMPTY", "")], &[]),
            (&[("KEY", "secret"), ("A", "2")], &[("A", "2")]),
            (&[("EMPTY", "not any more"), ("A", "")], &[("A", ""), ("EMPTY", "not any more")]),
            (&[("a", "1"), ("KEY ", "secret")], &[("KEY ", "secret"), ("a", "1")]),
            (&[("NEW", "")], &[("NEW", "")]),
            // The last word counts, as it does in an environment that is put together.
            (&[("B", "1"), ("B", "2")], &[("B", "2")]),
            (&[("A", "2"), ("A", "1")], &[]),
        ] {
            let expected: Vec<_> = expected
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect();
            assert_eq!(delta(wanted, &own).unwrap(), expected, "{wanted:?}");
        }
    }

    #[test]
    fn what_can_be_no_variable_is_told_unless_it_is_the_host_s_own() {
        for wrong in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "x\0")] {
            let error = delta(&[wrong], &[]).unwrap_err();
            assert_eq!(*error.kind(), crate::ErrorKind::InvalidParams, "{error}");
            assert_eq!(delta(&[wrong], &[wrong]).unwrap(), []);
        }
    }
}
