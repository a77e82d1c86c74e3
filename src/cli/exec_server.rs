//! `ta exec-server`

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use argh::FromArgs;

use super::arguments::{USAGE, say, say_error};
use super::token::{self, VARIABLE as TOKEN};
use crate::environment::{LocalExecEnvironment, LocalOptions};
use crate::error::{Error, Result};
use crate::fs;
use crate::log::{self, Format, Level};
use crate::server::{Config, Epochs, Server, serve_stdio, wait_for_none};
use crate::sys;
use crate::sys::poll::Waker;
use crate::sys::signal::{self, Signals};
use crate::transport::http::{Access, Token};

/// How long the processes may take to be gone after a second signal.
const HURRIED: Duration = Duration::from_secs(3);

/// How long removing files that are half written may take at the end.
const ABANDON: Duration = Duration::from_secs(1);

/// Serve this machine as an execution environment, over WebSocket or stdin/stdout.
///
/// The token comes from the environment variable TA_EXEC_TOKEN or from --token-file. Without one
/// the server listens on loopback addresses only.
#[derive(FromArgs)]
#[argh(subcommand, name = "exec-server", help_triggers("-h", "--help"))]
pub(super) struct ExecServer {
    /// address or name to listen on (127.0.0.1)
    #[argh(option, default = "\"127.0.0.1\".to_owned()")]
    host: String,
    /// port to listen on; 0 takes a free one (4200)
    #[argh(option, default = "4200")]
    port: u16,
    /// directory that relative paths are relative to (the current one)
    #[argh(option)]
    cwd: Option<PathBuf>,
    /// speak on stdin and stdout with one peer, and listen nowhere
    #[argh(switch)]
    stdio: bool,
    /// file that holds the token
    #[argh(option)]
    token_file: Option<PathBuf>,
    /// listen without a token on an address that is not loopback
    #[argh(switch)]
    no_auth: bool,
    /// let in connections with this Origin header; may be repeated
    #[argh(option)]
    allow_origin: Vec<String>,
    /// shell for process/exec (bash from PATH, else /bin/sh)
    #[argh(option)]
    shell: Option<String>,
    /// seconds after which a silent peer is given up (60)
    #[argh(option, default = "60")]
    peer_timeout: u32,
    /// longest message that is taken, in bytes (67108864)
    #[argh(option, default = "64 << 20")]
    max_message_bytes: usize,
    /// most processes of one connection (1024)
    #[argh(option, default = "1024")]
    max_processes: usize,
    /// most connections (1024)
    #[argh(option, default = "1024")]
    max_connections: usize,
    /// file that keeps the highest epoch across restarts
    #[argh(option)]
    epoch_file: Option<PathBuf>,
    /// answer only hosts that give an epoch
    #[argh(switch)]
    require_epoch: bool,
    /// off, error, warn, info or debug (info)
    #[argh(option, default = "Level::Info")]
    log_level: Level,
    /// text or json (text)
    #[argh(option, default = "Format::Text")]
    log_format: Format,
    /// print the URL on stdout too
    #[argh(switch)]
    print_url: bool,
}

impl ExecServer {
    /// Serves until a signal or, over stdin, the end of it.
    pub(super) fn run(self) -> ExitCode {
        // Before any thread is there: both are the whole process's.
        let token = sys::secret::take(TOKEN);
        let signals = Signals::block(&[signal::TERM, signal::INT, signal::HUP]);
        signal::wait_for_children();
        signal::ignore_file_size_limit();
        sys::fd::close_inherited_on_exec();
        let descriptor_limit = sys::host::raise_descriptor_limit();
        let prepared = self.access(token).and_then(|access| {
            let config = self.config(access)?;
            let options =
                LocalOptions { cwd: self.cwd.clone(), shell: self.shell.clone(), descriptor_limit };
            Ok((config, LocalExecEnvironment::new(options)?))
        });
        let (config, environment) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                say_error(error.message());
                return ExitCode::from(USAGE);
            }
        };
        log::start(self.log_level, self.log_format);
        let served = self.serve(config, environment, signals);
        fs::abandon_staged(ABANDON);
        match served {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                say_error(error.message());
                ExitCode::FAILURE
            }
        }
    }

    fn serve(
        &self,
        config: Config,
        environment: LocalExecEnvironment,
        signals: Signals,
    ) -> Result<()> {
        let failed = |error: std::io::Error| Error::io(&error, "cannot start the server");
        let stop = Arc::new(Waker::new().map_err(failed)?);
        if self.stdio {
            let waker = Arc::clone(&stop);
            on_signal(signals, move || waker.wake()).map_err(failed)?;
            return serve_stdio(config, environment, &stop);
        }
        let server = Server::bind(&self.host, self.port, config, environment)?;
        let url = format!("ws://{}/exec", server.address().map_err(failed)?);
        let stopper = server.stopper(&stop);
        on_signal(signals, move || stopper.stop()).map_err(failed)?;
        log::listening(&url);
        if self.print_url {
            say(&format!("{url}\n"));
        }
        server.run(&stop);
        Ok(())
    }

    fn config(&self, access: Access) -> Result<Config> {
        let counts = [
            ("--peer-timeout", u64::from(self.peer_timeout)),
            ("--max-processes", self.max_processes as u64),
            ("--max-connections", self.max_connections as u64),
        ];
        if let Some((name, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(Error::params(format!("{name} must be at least 1")));
        }
        if self.max_message_bytes < 1024 {
            return Err(Error::params("--max-message-bytes must be at least 1024"));
        }
        Ok(Config {
            access,
            peer_timeout: Duration::from_secs(self.peer_timeout.into()),
            max_message_bytes: self.max_message_bytes,
            max_processes: self.max_processes,
            max_connections: self.max_connections,
            epochs: Arc::new(Epochs::new(self.epoch_file.as_deref(), self.require_epoch)?),
        })
    }

    fn access(&self, variable: Option<std::ffi::OsString>) -> Result<Access> {
        let token = match (&self.token_file, variable) {
            (Some(_), Some(_)) => {
                return Err(Error::params(format!("{TOKEN} and --token-file are both given")));
            }
            (Some(file), None) => Some(Token::new(token::of_file(file)?)),
            (None, Some(value)) => Some(Token::new(token::of_variable(value)?)),
            (None, None) => None,
        };
        if token.is_none() && !self.no_auth && !self.stdio && !is_loopback(&self.host) {
            return Err(Error::params(format!(
                "refusing to listen on {} without a token: set {TOKEN}, or give --token-file, or \
                 --no-auth if everybody who reaches it may run commands",
                self.host
            )));
        }
        Ok(Access { token, origins: self.allow_origin.clone() })
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare == "localhost"
        || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Calls `stop` at the first signal. At a second one nobody's farewell is waited for any more,
/// only what must not outlive the server; at a third not even that.
fn on_signal(signals: Signals, stop: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let wait = move || {
        let Ok(first) = signals.wait() else { return };
        log::info("stopping", &[("signal", &signal::name(first))]);
        stop();
        if signals.wait().is_ok() {
            let last = thread::Builder::new().name("exit".to_owned()).spawn(|| {
                wait_for_none(HURRIED);
                fs::abandon_staged(ABANDON);
                std::process::exit(0);
            });
            match (last, signals.wait()) {
                (Ok(_), Ok(third)) => signal::die_of(third),
                _ => std::process::exit(1),
            }
        }
    };
    thread::Builder::new().name("signals".to_owned()).stack_size(64 * 1024).spawn(wait)?;
    Ok(())
}
