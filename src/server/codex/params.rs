//! Params of the dialect's methods. What is not known is ignored.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::uri::Uri;
use crate::error::{Error, Result};
use crate::protocol::Base64;
use crate::protocol::lifted::Carries;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Initialize {
    #[serde(rename = "clientName")]
    pub(super) _client_name: String,
    pub(super) resume_session_id: Option<String>,
}

/// What a request may carry that asks for a sandbox.
#[derive(Deserialize)]
pub(super) struct Sandbox {
    permissions: Permissions,
}

#[derive(Deserialize)]
struct Permissions {
    #[serde(rename = "type")]
    kind: String,
}

impl Sandbox {
    /// Whether what it asks for is what is done: nothing.
    fn is_none(&self) -> bool {
        self.permissions.kind == "disabled"
    }
}

/// Refuses what asks for a sandbox: it would not be in one.
pub(super) fn unconfined(sandbox: Option<&Sandbox>) -> Result<()> {
    if sandbox.is_none_or(Sandbox::is_none) {
        return Ok(());
    }
    Err(refused("a sandbox"))
}

fn refused(what: &str) -> Error {
    let message = format!(
        "{what} is asked for, and this server has none: the machine it runs on is the boundary, such as \
         a container. Nothing was done. Where that is what you want, start codex with \
         --dangerously-bypass-approvals-and-sandbox, or with sandbox_mode = \"danger-full-access\""
    );
    Error::new(crate::error::ErrorKind::InvalidRequest, message)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Start {
    pub(super) process_id: String,
    pub(super) argv: Vec<String>,
    pub(super) cwd: Uri,
    pub(super) env: BTreeMap<String, String>,
    pub(super) env_policy: Option<EnvPolicy>,
    pub(super) tty: bool,
    #[serde(default)]
    pub(super) pipe_stdin: bool,
    pub(super) arg0: Option<String>,
    sandbox: Option<Sandbox>,
    #[serde(default)]
    enforce_managed_network: bool,
    managed_network: Option<serde::de::IgnoredAny>,
    network_proxy: Option<serde::de::IgnoredAny>,
}

impl Start {
    /// # Errors
    /// It asks for what would keep it from something, and nothing would.
    pub(super) fn check(&self) -> Result<()> {
        unconfined(self.sandbox.as_ref())?;
        let has_network = self.managed_network.is_some() || self.network_proxy.is_some();
        if has_network || self.enforce_managed_network {
            return Err(refused("a managed network"));
        }
        if self.argv.is_empty() {
            return Err(Error::params("argv must not be empty"));
        }
        Ok(())
    }
}

/// Which of the server's own variables a process gets.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EnvPolicy {
    pub(super) inherit: Inherit,
    pub(super) ignore_default_excludes: bool,
    pub(super) exclude: Vec<String>,
    pub(super) set: BTreeMap<String, String>,
    pub(super) include_only: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Inherit {
    All,
    Core,
    None,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Read {
    pub(super) process_id: String,
    pub(super) after_seq: Option<u64>,
    pub(super) max_bytes: Option<usize>,
    pub(super) wait_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Write {
    pub(super) process_id: String,
    pub(super) chunk: Base64,
    pub(super) write_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Signal {
    pub(super) process_id: String,
    #[serde(rename = "signal")]
    pub(super) _signal: Interrupt,
}

/// The only signal that there is.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Interrupt {
    Interrupt,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Terminate {
    pub(super) process_id: String,
}

/// A path, and what most calls about one may have beside it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Path {
    pub(super) path: Uri,
    pub(super) follow_symlinks: Option<bool>,
    pub(super) recursive: Option<bool>,
    pub(super) force: Option<bool>,
    pub(super) sandbox: Option<Sandbox>,
}

impl Path {
    /// Whether it may lead through a symbolic link at its end.
    pub(super) fn follows(&self) -> bool {
        self.follow_symlinks.unwrap_or(true)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WriteFile {
    pub(super) path: Uri,
    pub(super) data_base64: Base64,
    pub(super) follow_symlinks: Option<bool>,
    pub(super) sandbox: Option<Sandbox>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Copy {
    pub(super) source_path: Uri,
    pub(super) destination_path: Uri,
    pub(super) recursive: bool,
    pub(super) sandbox: Option<Sandbox>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Open {
    pub(super) handle_id: String,
    pub(super) path: Uri,
    #[serde(default)]
    pub(super) mode: Mode,
    pub(super) sandbox: Option<Sandbox>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mode {
    #[default]
    Read,
    Replace,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReadBlock {
    pub(super) handle_id: String,
    pub(super) offset: u64,
    pub(super) len: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WriteBlock {
    pub(super) handle_id: String,
    pub(super) offset: u64,
    pub(super) chunk: Base64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Close {
    pub(super) handle_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Walk {
    pub(super) path: Uri,
    pub(super) options: WalkOptions,
    pub(super) sandbox: Option<Sandbox>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WalkOptions {
    pub(super) max_depth: usize,
    pub(super) max_directories: usize,
    pub(super) max_entries: usize,
    pub(super) follow_directory_symlinks: bool,
}

/// What may ask for a sandbox.
pub(super) trait Confined {
    fn sandbox(&self) -> Option<&Sandbox>;
}

macro_rules! confined {
    ($($params:ident)*) => {
        $(impl Confined for $params {
            fn sandbox(&self) -> Option<&Sandbox> {
                self.sandbox.as_ref()
            }
        })*
    };
}

confined! { Path WriteFile Copy Open Walk }

impl Carries for WriteFile {
    fn put_back(&mut self, lifted: Vec<u8>) {
        self.data_base64.0 = lifted;
    }
}

impl Carries for WriteBlock {
    fn put_back(&mut self, lifted: Vec<u8>) {
        self.chunk.0 = lifted;
    }
}

impl Carries for Write {
    fn put_back(&mut self, lifted: Vec<u8>) {
        self.chunk.0 = lifted;
    }
}
