//! `--ssh HOST`.

use std::path::PathBuf;

use super::{Options, Way, own_program};
use crate::cli::prompt;
use crate::error::{Error, Result};
use crate::ssh::SshHost;

impl Options {
    /// The way of `--ssh`, if it is given.
    pub(super) fn ssh_way(&mut self, path: &impl Fn(String) -> PathBuf) -> Result<Option<Way>> {
        let (config, servers) =
            (self.ssh_config.take().map(path), self.server_dir.take().map(path));
        match self.ssh.take() {
            Some(name) => Ok(Some(Way::Ssh(host(name, config, servers)?))),
            None if config.is_some() || servers.is_some() => {
                Err(Error::params("--ssh-config or --server-dir is given, and no --ssh"))
            }
            None => Ok(None),
        }
    }
}

/// A host, and this program as the one whose person is asked and whose server is placed.
pub(in crate::cli) fn host(
    name: String,
    config: Option<PathBuf>,
    servers: Option<PathBuf>,
) -> Result<SshHost> {
    let mut host = SshHost::new(name)?.program(own_program()?);
    if let Some(config) = config {
        host = host.config(config);
    }
    if let Some(servers) = servers {
        host = host.server_dir(servers);
    }
    Ok(prompt::asking(host))
}
