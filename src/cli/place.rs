//! Which environment a command means: `--exec URL`, `--via 'COMMAND ARGS…'`, or this machine.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use super::token;
use crate::client::{ClientOptions, ExecClient, Opened};
use crate::environment::{ExecEnvironment, LocalExecEnvironment, RemoteExecEnvironment};
use crate::error::{Error, Result};
use crate::sys;

/// The variable that the URL comes in.
pub(super) const URL: &str = "TA_EXEC_URL";

/// What came in the environment. It is taken out of it before the first thread is started, so that
/// no command gets it.
pub(super) struct Variables {
    url: Option<OsString>,
    token: Option<OsString>,
}

impl Variables {
    pub(super) fn take() -> Self {
        Self { url: sys::secret::take(URL), token: sys::secret::take(token::VARIABLE) }
    }
}

/// An environment that can be had.
pub(super) enum Place {
    /// A server, and the token if the URL has none.
    Server { url: String, token: Option<String> },
    /// A program whose stdin and stdout speak the protocol.
    Via(Vec<String>),
    /// This machine.
    Here,
}

impl Place {
    /// What the options say, and where they say nothing, the environment.
    ///
    /// # Errors
    /// Two ways are given, or one that is none; the token is given twice, or cannot be read.
    pub(super) fn new(
        url: Option<String>,
        via: Option<&str>,
        token_file: Option<&Path>,
        variables: Variables,
    ) -> Result<Self> {
        if let Some(via) = via {
            if url.is_some() {
                return Err(Error::params("--exec and --via are both given"));
            }
            let words = words(via).map_err(|why| Error::params(format!("--via: {why}")))?;
            return if words.is_empty() {
                Err(Error::params("--via: the command has no words"))
            } else {
                Ok(Self::Via(words))
            };
        }
        let url = match (url, variables.url.map(OsString::into_string)) {
            (Some(url), _) | (None, Some(Ok(url))) => url,
            (None, Some(Err(_))) => return Err(Error::params(format!("{URL} is not UTF-8"))),
            (None, None) if token_file.is_some() => {
                return Err(Error::params("--token-file is given, and no server (--exec)"));
            }
            (None, None) => return Ok(Self::Here),
        };
        let query = url.split_once('?').map_or("", |(_, query)| query);
        let has_token = query.split('&').any(|pair| pair.starts_with("token="));
        let token = match (has_token, token_file, variables.token) {
            (true, Some(_), _) => {
                return Err(Error::params("the URL has a token, and --token-file is given too"));
            }
            (true, None, _) => None,
            (false, Some(file), _) => {
                let token = String::from_utf8(token::of_file(file)?);
                Some(token.map_err(|_| {
                    Error::params(format!("the token file {} is not UTF-8", file.display()))
                })?)
            }
            (false, None, Some(value)) => Some(token::of_variable(value)?),
            (false, None, None) => None,
        };
        Ok(Self::Server { url, token })
    }

    /// The environment.
    ///
    /// # Errors
    /// It cannot be reached, or does not let us in.
    pub(super) fn environment(self, epoch: Option<u64>) -> Result<Box<dyn ExecEnvironment>> {
        match self {
            Self::Here => Ok(Box::new(LocalExecEnvironment::new(None)?)),
            other => Ok(Box::new(RemoteExecEnvironment::unasked(other.client(epoch)?))),
        }
    }

    /// A client of it, also where it is this machine.
    ///
    /// # Errors
    /// It cannot be reached, or does not let us in.
    pub(super) fn client(self, epoch: Option<u64>) -> Result<ExecClient> {
        let options = ClientOptions::new().epoch(epoch);
        match self {
            Self::Server { url, token } => options.websocket(&url, token.as_deref()),
            Self::Via(words) => options.stdio(&words),
            Self::Here => options.in_memory(&LocalExecEnvironment::new(None)?),
        }
    }

    /// The way to it for somebody who speaks the protocol themselves. This machine is served by a
    /// child then, whose guardian ends what it has started.
    ///
    /// # Errors
    /// It cannot be reached, or does not let us in.
    pub(super) fn open(self, epoch: Option<u64>) -> Result<Opened> {
        let options = ClientOptions::new().epoch(epoch);
        match self {
            Self::Server { url, token } => options.open_websocket(&url, token.as_deref()),
            Self::Via(words) => options.open_stdio(&words),
            Self::Here => {
                let program = std::env::current_exe();
                let program =
                    program.map_err(|error| Error::io(&error, "cannot find ta itself"))?;
                let words = ["exec-server", "--stdio", "--log-level", "warn"].map(OsString::from);
                options.open_stdio(&[&[program.into_os_string()], &words[..]].concat())
            }
        }
    }
}

/// What a person reads of it; never a query, which may hold the token.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server { url, .. } => {
                f.write_str(url.split(['?', '#']).next().unwrap_or_default())
            }
            Self::Via(words) => f.write_str(&words.join(" ")),
            Self::Here => f.write_str("this machine"),
        }
    }
}

/// The words of a command line, as a shell reads them that knows quotes and backslashes and nothing
/// else.
fn words(line: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), closing) if open == closing => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => {
                let next = characters.next().ok_or("a backslash ends the command")?;
                let is_literal = quote.is_some() && !matches!(next, '"' | '\\' | '$' | '`');
                let word = word.get_or_insert_default();
                if is_literal {
                    word.push('\\');
                }
                word.push(next);
            }
            (None, blank) if blank.is_ascii_whitespace() => words.extend(word.take()),
            (_, other) => word.get_or_insert_default().push(other),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed");
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        for (line, expected) in [
            ("docker exec -i c /ta", vec!["docker", "exec", "-i", "c", "/ta"]),
            ("  a  'b c'\"d e\"f  ", vec!["a", "b cd ef"]),
            (r#"a\ b "c\"d\e" '\' ''"#, vec!["a b", "c\"d\\e", "\\", ""]),
            ("", vec![]),
        ] {
            assert_eq!(words(line).unwrap(), expected, "{line}");
        }
        assert!(words("a 'b").is_err() && words("a\\").is_err());
    }
}
