//! Which environment a command means: `--exec URL`, `--via 'COMMAND ARGS…'`, `--ssh HOST`, or this
//! machine.
//!
//! The options that say so stand in [`command!`] alone, which all commands are declared by, and in
//! [`Options`], which it fills.

mod runner;
#[cfg(feature = "host")]
mod ssh;
mod words;

pub(super) use runner::Runner;
#[cfg(feature = "host")]
pub(super) use ssh::host as ssh_host;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use super::{arguments, say_error, token};
use crate::client::{ClientOptions, ExecClient, Opened};
use crate::environment::{ExecEnvironment, LocalExecEnvironment, RemoteExecEnvironment};
use crate::error::{Error, Result};
use crate::protocol::MAX_EPOCH;
#[cfg(feature = "host")]
use crate::ssh::SshHost;
use crate::sys;

/// The variable that the URL comes in.
pub(super) const URL: &str = "TA_EXEC_URL";

/// Declares a command that reaches an environment: the options that say which one come before its
/// own. (The parser has no way to share options between commands.)
macro_rules! command {
    ($(#[$($about:tt)*])* struct $name:ident { $($own:tt)* }) => {
        #[derive(argh::FromArgs, argh::ArgsInfo)]
        #[argh(subcommand, help_triggers("-h", "--help"))]
        $(#[$($about)*])*
        pub(in crate::cli) struct $name {
            /// the server, ws://HOST:PORT/exec or wss://HOST/exec (else TA_EXEC_URL; without either,
            /// this machine)
            #[argh(option)]
            exec: Option<String>,
            /// reach the environment by a command that speaks the protocol on stdin and stdout,
            /// such as 'docker exec -i NAME /ta exec-server --stdio'
            #[argh(option)]
            via: Option<String>,
            #[cfg(feature = "host")]
            /// reach a host by ssh, as ~/.ssh/config has it; a server is placed there first
            #[argh(option)]
            ssh: Option<String>,
            #[cfg(feature = "host")]
            /// with --ssh, read this configuration and nothing of the system's, as ssh -F does
            #[argh(option)]
            ssh_config: Option<String>,
            #[cfg(feature = "host")]
            /// with --ssh, look here first for what is placed there: ta-server-TARGET, ta-TARGET
            /// (else TA_SERVER_DIR)
            #[argh(option)]
            server_dir: Option<String>,
            /// be a host of this epoch, which fences those of smaller ones (without one, nobody is
            /// fenced)
            #[argh(option, from_str_fn(crate::cli::place::epoch))]
            epoch: Option<u64>,
            /// file that holds the token (without it TA_EXEC_TOKEN counts, unless the URL has a
            /// ?token=)
            #[argh(option)]
            token_file: Option<String>,
            /// file of the authorities, in PEM, that are trusted for wss:// in place of this machine's
            #[argh(option)]
            ca_file: Option<String>,
            $($own)*
        }

        impl $name {
            /// Which environment is meant.
            fn place_options(&mut self) -> $crate::cli::place::Options {
                $crate::cli::place::Options {
                    exec: self.exec.take(),
                    via: self.via.take(),
                    #[cfg(feature = "host")]
                    ssh: self.ssh.take(),
                    #[cfg(feature = "host")]
                    ssh_config: self.ssh_config.take(),
                    #[cfg(feature = "host")]
                    server_dir: self.server_dir.take(),
                    epoch: self.epoch,
                    token_file: self.token_file.take(),
                    ca_file: self.ca_file.take(),
                }
            }
        }
    };
}
pub(super) use command;

/// What the options of a command say.
pub(super) struct Options {
    pub(super) exec: Option<String>,
    pub(super) via: Option<String>,
    #[cfg(feature = "host")]
    pub(super) ssh: Option<String>,
    #[cfg(feature = "host")]
    pub(super) ssh_config: Option<String>,
    #[cfg(feature = "host")]
    pub(super) server_dir: Option<String>,
    pub(super) epoch: Option<u64>,
    pub(super) token_file: Option<String>,
    pub(super) ca_file: Option<String>,
}

/// The value of `--epoch`.
pub(super) fn epoch(text: &str) -> Result<u64, String> {
    let epoch = text.parse().ok().filter(|epoch| *epoch <= MAX_EPOCH);
    epoch.ok_or_else(|| format!("an epoch is a whole number from 0 to {MAX_EPOCH}"))
}

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
pub(super) struct Place {
    way: Way,
    epoch: Option<u64>,
    ca_file: Option<PathBuf>,
}

enum Way {
    /// A server, and the token if the URL has none.
    Server { url: String, token: Option<String> },
    /// A program whose stdin and stdout speak the protocol.
    Via(Vec<String>),
    /// A host that is reached by ssh.
    #[cfg(feature = "host")]
    Ssh(SshHost),
    /// This machine.
    Here,
}

impl Options {
    /// The place that is meant: what the options say, and where they say nothing, the environment.
    ///
    /// # Errors
    /// Two ways are given, or one that is none; the token is given twice, for no server, or cannot be
    /// read.
    pub(super) fn place(self, variables: Variables) -> Result<Place> {
        self.placed(PathBuf::from, variables)
    }

    /// The same of a command whose arguments may be any bytes.
    ///
    /// # Errors
    /// The same; what is no path is no text.
    pub(super) fn place_of_carried(self, variables: Variables) -> Result<Place> {
        let texts = [
            ("--exec", &self.exec),
            ("--via", &self.via),
            #[cfg(feature = "host")]
            ("--ssh", &self.ssh),
        ];
        for (option, value) in texts {
            if value.as_deref().is_some_and(|value| !arguments::is_text(value)) {
                return Err(Error::params(format!("{option} is not UTF-8")));
            }
        }
        self.placed(|text| arguments::path(&text), variables)
    }

    #[cfg(not(feature = "host"))]
    fn ssh_way(&mut self, _path: &impl Fn(String) -> PathBuf) -> Result<Option<Way>> {
        Ok(None)
    }

    fn placed(mut self, path: impl Fn(String) -> PathBuf, variables: Variables) -> Result<Place> {
        let ssh = self.ssh_way(&path)?;
        let token_file = self.token_file.map(&path);
        let ca_file = self.ca_file.map(&path);
        let way = match (self.exec, self.via, ssh) {
            (Some(_), Some(_), _) => {
                return Err(Error::params("--exec and --via are both given"));
            }
            (Some(_), _, Some(_)) => {
                return Err(Error::params("--exec and --ssh are both given"));
            }
            (_, Some(_), Some(_)) => return Err(Error::params("--via and --ssh are both given")),
            (None, None, Some(ssh)) => ssh,
            (None, Some(via), None) => Way::via(&via)?,
            (Some(url), None, None) => Way::Server { url, token: None },
            (None, None, None) => match variables.url.map(OsString::into_string) {
                Some(Ok(url)) => Way::Server { url, token: None },
                Some(Err(_)) => return Err(Error::params(format!("{URL} is not UTF-8"))),
                None => Way::Here,
            },
        };
        let way = way.with_token(token_file, variables.token)?;
        if ca_file.is_some() && !matches!(way, Way::Server { .. }) {
            return Err(Error::params("--ca-file is given, and no server (--exec)"));
        }
        Ok(Place { way, epoch: self.epoch, ca_file })
    }
}

impl Way {
    fn via(line: &str) -> Result<Self> {
        let words = words::split(line).map_err(|why| Error::params(format!("--via: {why}")))?;
        if words.is_empty() {
            return Err(Error::params("--via: the command has no words"));
        }
        Ok(Self::Via(words))
    }

    /// The token is that of the option, or of the URL, or of the variable.
    fn with_token(self, file: Option<PathBuf>, variable: Option<OsString>) -> Result<Self> {
        let Self::Server { url, .. } = self else {
            return match file {
                Some(_) => Err(Error::params("--token-file is given, and no server (--exec)")),
                None => Ok(self),
            };
        };
        let query = url.split_once('?').map_or("", |(_, query)| query);
        let has_token = query.split('&').any(|pair| pair.starts_with("token="));
        let token = match (has_token, file, variable) {
            (true, Some(_), _) => {
                return Err(Error::params("the URL has a token, and --token-file is given too"));
            }
            (true, None, _) => None,
            (false, Some(file), _) => {
                let token = String::from_utf8(token::of_file(&file)?);
                Some(token.map_err(|_| {
                    Error::params(format!("the token file {} is not UTF-8", file.display()))
                })?)
            }
            (false, None, Some(value)) => Some(token::of_variable(value)?),
            (false, None, None) => None,
        };
        Ok(Self::Server { url, token })
    }
}

impl Place {
    /// The epoch that this host has there.
    pub(super) fn epoch(&self) -> Option<u64> {
        self.epoch
    }

    /// Whether it is this machine, with no server in between.
    pub(super) fn is_here(&self) -> bool {
        matches!(self.way, Way::Here)
    }

    fn options(&self) -> ClientOptions {
        let warn = |text: &str| say_error(&format!("warning: {text}"));
        let options = ClientOptions::new().epoch(self.epoch).on_warning(warn);
        match &self.ca_file {
            Some(file) => options.ca_file(file),
            None => options,
        }
    }

    /// What runs commands there.
    ///
    /// # Errors
    /// It cannot be reached, or does not let us in.
    pub(super) fn runner(self) -> Result<Box<dyn Runner>> {
        #[cfg(feature = "host")]
        if self.is_here() {
            return Ok(Box::new(LocalExecEnvironment::new(None)?));
        }
        // The server-only build serves itself: that code is in it anyhow.
        Ok(Box::new(self.client()?))
    }

    /// The environment.
    ///
    /// # Errors
    /// It cannot be reached, or does not let us in.
    pub(super) fn environment(self) -> Result<Box<dyn ExecEnvironment>> {
        if self.is_here() {
            return Ok(Box::new(LocalExecEnvironment::new(None)?));
        }
        Ok(Box::new(RemoteExecEnvironment::unasked(self.client()?)))
    }

    /// A client of it, which is a host of this epoch unless the options name another. This machine is
    /// served by a child, whose guardian ends what it has started, also when this program is killed.
    ///
    /// # Errors
    /// It cannot be reached, or does not let us in.
    pub(super) fn guarded(mut self, epoch: Option<u64>) -> Result<ExecClient> {
        self.epoch = self.epoch.or(epoch);
        if self.is_here() {
            return self.options().stdio(&own_server()?);
        }
        self.client()
    }

    /// A client of it, also where it is this machine.
    ///
    /// # Errors
    /// It cannot be reached, or does not let us in.
    pub(super) fn client(self) -> Result<ExecClient> {
        let options = self.options();
        match self.way {
            Way::Server { url, token } => options.websocket(&url, token.as_deref()),
            Way::Via(words) => options.stdio(&words),
            #[cfg(feature = "host")]
            Way::Ssh(host) => options.ssh(host),
            Way::Here => options.in_memory(&LocalExecEnvironment::new(None)?),
        }
    }

    /// The way to it for somebody who speaks the protocol themselves. This machine is served by a
    /// child then, whose guardian ends what it has started.
    ///
    /// # Errors
    /// It cannot be reached, or does not let us in.
    pub(super) fn open(self) -> Result<Opened> {
        let options = self.options();
        match self.way {
            Way::Server { url, token } => options.open_websocket(&url, token.as_deref()),
            Way::Via(words) => options.open_stdio(&words),
            #[cfg(feature = "host")]
            Way::Ssh(host) => options.open_ssh(host),
            Way::Here => options.open_stdio(&own_server()?),
        }
    }
}

/// The command that serves this machine on a pipe.
fn own_server() -> Result<[OsString; 3]> {
    Ok([own_program()?.into_os_string(), "exec-server".into(), "--stdio".into()])
}

/// Where this program is. /proc tells; without it, what it was called by, if that is a path.
fn own_program() -> Result<PathBuf> {
    let called = || std::env::args_os().next().map(PathBuf::from).filter(|path| path.is_absolute());
    std::env::current_exe()
        .or_else(|error| called().ok_or(error))
        .map_err(|error| Error::io(&error, "cannot find ta itself"))
}

/// What a person reads of it; never a query, which may hold the token.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.way {
            Way::Server { url, .. } => {
                f.write_str(url.split(['?', '#']).next().unwrap_or_default())
            }
            Way::Via(words) => f.write_str(&words.join(" ")),
            #[cfg(feature = "host")]
            Way::Ssh(host) => write!(f, "{host} by ssh"),
            Way::Here => f.write_str("this machine"),
        }
    }
}
