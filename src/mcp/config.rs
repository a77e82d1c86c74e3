//! Which stdio servers run on the environment: the file of `--mcp-config`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::Result;
use crate::protocol::{EnvDelta, rpc};

/// The servers, by name.
#[derive(Debug, Default)]
pub(crate) struct Config {
    pub(super) servers: Vec<(String, Entry)>,
    /// Names of servers that are no command, and cannot run there.
    pub(crate) others: Vec<String>,
}

/// How one is started.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) command: String,
    pub(super) args: Vec<String>,
    pub(super) env: Option<EnvDelta>,
    pub(super) cwd: Option<String>,
}

/// As it is written; what else an agent has there is not looked at.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    mcp_servers: BTreeMap<String, WrittenEntry>,
}

#[derive(Deserialize)]
struct WrittenEntry {
    command: Option<String>,
    args: Option<Vec<String>>,
    env: Option<EnvDelta>,
    cwd: Option<String>,
    #[serde(default)]
    disabled: bool,
}

impl Config {
    /// Reads the usual form, `{"mcpServers": {NAME: {"command", "args", "env", "cwd"}}}`.
    ///
    /// # Errors
    /// It is none; the message names the member.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let written: Written = rpc::read(text)?;
        let mut config = Self::default();
        for (name, entry) in written.mcp_servers {
            match entry.command {
                _ if entry.disabled => {}
                None => config.others.push(name),
                Some(command) => {
                    let args = entry.args.unwrap_or_default();
                    let entry = Entry { command, args, env: entry.env, cwd: entry.cwd };
                    config.servers.push((name, entry));
                }
            }
        }
        Ok(config)
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_form_is_read() {
        let config = Config::parse(
            r#"{"mcpServers": {
                "b": {"command": "node", "args": ["x.js"], "env": {"A": "1"}, "cwd": "sub", "type": "stdio"},
                "a": {"command": "a"},
                "web": {"type": "http", "url": "http://x/mcp"},
                "off": {"command": "c", "disabled": true}
            }, "theme": "dark"}"#,
        )
        .unwrap();
        let names: Vec<_> = config.servers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(config.others, ["web"]);
        let (_, b) = &config.servers[1];
        assert_eq!((b.command.as_str(), b.cwd.as_deref()), ("node", Some("sub")));
        assert_eq!(b.env.as_ref().unwrap().iter().next(), Some(("A", Some("1"))));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("{}", "mcpServers"),
            (r#"{"mcpServers": {"a": {"command": 1}}}"#, "a.command"),
            (
                r#"{"mcpServers": {"a": {"command": "x", "env": {"A=B": "1"}}}}"#,
                r#"mcpServers.a: the variable name "A=B""#,
            ),
            ("nonsense", "expected"),
        ] {
            let error = Config::parse(text).unwrap_err();
            assert!(error.message().contains(part), "{text}: {error}");
        }
    }
}
