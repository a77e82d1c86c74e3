//! `ta exec-server`

mod check;

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::{IpAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use argh::{ArgsInfo, FromArgs};

use super::arguments::{USAGE, say, say_error};
use super::far_side;
use super::life::Life;
use super::token::{self, VARIABLE as TOKEN};
use crate::descendants;
use crate::environment::{Machine, MachineOptions};
use crate::error::{Error, Result};
use crate::fs;
use crate::guardian::{self, Guardian, News, Side};
use crate::log::{self, Format, Level};
use crate::metrics;
use crate::server::{Config, Epochs, Server, Sessions, serve_stdio};
use crate::supervision::Supervision;
use crate::sys;
use crate::sys::poll::Waker;
use crate::sys::signal::{self, Signals};
use crate::transport::http::{Access, Dialect, Token};

/// How long what is left of anything may take to be gone at the end.
const SWEEP: Duration = Duration::from_millis(500);

/// How long removing files that are half written may take at the end.
const ABANDON: Duration = Duration::from_secs(1);

/// Serve this machine as an execution environment, over WebSocket or stdin/stdout.
///
/// The token comes from the environment variable TA_EXEC_TOKEN or from --token-file. Without one
/// the server listens on loopback addresses only.
#[derive(FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "exec-server",
    help_triggers("-h", "--help"),
    note = "SIGTERM, SIGINT and SIGHUP end it and all that it has started, in order; a second one \
            does so at once. Under systemd it tells when it is ready (Type=notify), and serves the \
            sockets that it is passed (LISTEN_FDS) in place of --host and --port.",
    error_code(1, "it cannot do its work; the address is in use, for instance"),
    error_code(2, "an option, the token, --cwd or a passed socket is not as it must be")
)]
pub(super) struct ExecServer {
    /// address or name to listen on (127.0.0.1)
    #[argh(option, default = "\"127.0.0.1\".to_owned()")]
    host: String,
    /// port to listen on; 0 takes a free one (4200)
    #[argh(option, default = "4200", from_str_fn(port))]
    port: u16,
    /// directory that relative paths are relative to (the current one)
    #[argh(option)]
    cwd: Option<PathBuf>,
    /// speak on stdin and stdout with one peer, and listen nowhere
    #[argh(switch)]
    stdio: bool,
    /// what is spoken on stdin and stdout: exec, or codex, as Codex's exec-server does (exec)
    #[argh(option, default = "Dialect::ExecRpc", from_str_fn(dialect))]
    dialect: Dialect,
    /// do not speak Codex's dialect at ws://HOST:PORT/ as well
    #[argh(switch)]
    no_codex: bool,
    /// seconds for which what a Codex client has started goes on without a connection (80)
    #[argh(option, default = "80")]
    codex_resume: u32,
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
    /// off, error, warn, info or debug (info; with --stdio warn, since stderr is somebody else's)
    #[argh(option)]
    log_level: Option<Level>,
    /// text or json (text)
    #[argh(option, default = "Format::Text")]
    log_format: Format,
    /// log the commands of processes too, which may hold secrets
    #[argh(switch)]
    log_commands: bool,
    /// tell what would be used, or what is wrong, and exit
    #[argh(switch)]
    check: bool,
    /// print what --check tells as JSON
    #[argh(switch)]
    json: bool,
    /// print the URL on stdout too
    #[argh(switch)]
    print_url: bool,
    /// take on the environment that this file holds
    #[argh(option, hidden_help)]
    environment: Option<PathBuf>,
    /// print this on stdout and stderr, on a line of its own, before anything else
    #[argh(option, hidden_help)]
    announce: Option<String>,
}

fn dialect(text: &str) -> Result<Dialect, String> {
    match text {
        "exec" => Ok(Dialect::ExecRpc),
        "codex" => Ok(Dialect::Codex),
        _ => Err("a dialect is exec or codex".to_owned()),
    }
}

fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| "a port is a whole number from 0 to 65535".to_owned())
}

impl ExecServer {
    /// Serves until a signal or, over stdin, the end of it.
    pub(super) fn run(self) -> ExitCode {
        // Before any thread is there: all of this is the whole process's.
        let token = sys::secret::take(TOKEN);
        if let Some(Err(error)) = self.environment.as_deref().map(far_side::take_on) {
            say_error(error.message());
            return ExitCode::from(USAGE);
        }
        let mut supervision = Supervision::take();
        if self.dialect == Dialect::Codex && (!self.stdio || self.require_epoch) {
            let without = if self.stdio { "with --require-epoch" } else { "without --stdio" };
            say_error(&format!("--dialect codex is given {without}"));
            return ExitCode::from(USAGE);
        }
        if self.json && !self.check {
            say_error("--json is given without --check");
            return ExitCode::from(USAGE);
        }
        if self.check {
            return self.run_check(token, &supervision);
        }
        let signals = Signals::block(&[
            signal::TERM,
            signal::INT,
            signal::HUP,
            #[cfg(target_os = "linux")]
            guardian::gone_signal(),
        ]);
        signal::wait_for_children();
        descendants::prepare();
        match guardian::fork(std::mem::take(&mut supervision.notify)) {
            Ok(Side::Server(guardian)) => self.run_server(token, &supervision, signals, guardian),
            #[cfg(target_os = "linux")]
            Ok(Side::Guard(guard)) => {
                if let Some(token) = token {
                    sys::secret::wipe(token);
                }
                guard.run()
            }
            Err(error) => {
                say_error(Error::io(&error, "cannot start the server's guardian").message());
                ExitCode::FAILURE
            }
        }
    }

    fn run_server(
        &self,
        token: Option<OsString>,
        supervision: &Supervision,
        signals: Signals,
        guardian: Guardian,
    ) -> ExitCode {
        // Before anything is opened: it takes descriptors by their numbers.
        let sockets = if self.stdio { Ok(Vec::new()) } else { supervision.sockets() };
        signal::ignore_file_size_limit();
        sys::fd::close_inherited_on_exec();
        let descriptor_limit = sys::host::raise_descriptor_limit();
        // Before anything that may take its time, such as reading a file.
        let life = match Life::watch(signals, guardian) {
            Ok(life) => life,
            Err(error) => {
                say_error(failed(&error).message());
                return ExitCode::FAILURE;
            }
        };
        let prepared = sockets.and_then(|sockets| {
            let config = self.config(self.access(token, &sockets)?)?;
            let options = MachineOptions {
                cwd: self.cwd.clone(),
                shell: self.shell.clone(),
                descriptor_limit,
            };
            Ok((sockets, config, Machine::new(options)?))
        });
        let (sockets, config, environment) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                say_error(error.message());
                return ExitCode::from(USAGE);
            }
        };
        let usual = if self.stdio { Level::Warn } else { Level::Info };
        log::start(self.log_level.unwrap_or(usual), self.log_format);
        if self.log_commands {
            log::show_commands();
        }
        let served = if self.stdio {
            // Its peer does not know where noise ends, and the protocol and the log begin.
            if let Some(text) = &self.announce {
                let line = format!("\n{text}\n");
                let _ = io::stderr().write_all(line.as_bytes());
                say(&line);
            }
            serve_standard(config, environment, &life)
        } else {
            self.listen(sockets, config, environment, &life)
        };
        descendants::end_all(SWEEP);
        fs::abandon_staged(ABANDON);
        match served {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                say_error(error.message());
                ExitCode::FAILURE
            }
        }
    }

    fn listen(
        &self,
        sockets: Vec<TcpListener>,
        config: Config,
        environment: Machine,
        life: &Life,
    ) -> Result<()> {
        metrics::begin();
        let stop = Arc::new(Waker::new().map_err(|error| failed(&error))?);
        let server = if sockets.is_empty() {
            Server::bind(&self.host, self.port, config, environment)?
        } else {
            Server::new(sockets, config, environment).map_err(|error| failed(&error))?
        };
        let addresses = server.addresses().map_err(|error| failed(&error))?;
        let stopper = server.stopper(&stop);
        life.on_signal(move || stopper.stop());
        for address in addresses {
            let url = format!("ws://{address}/exec");
            log::listening(&url);
            if self.print_url {
                say(&format!("{url}\n"));
            }
        }
        warn_of_shortcomings(&life.guardian);
        life.guardian.tell(News::Ready);
        server.run(&stop);
        Ok(())
    }

    fn check_numbers(&self) -> Result<()> {
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
        Ok(())
    }

    /// Whether Codex's dialect is spoken. (Whoever speaks it gives no epoch.)
    fn speaks_codex(&self) -> bool {
        match self.stdio {
            true => self.dialect == Dialect::Codex,
            false => !self.no_codex && !self.require_epoch,
        }
    }

    fn config(&self, access: Access) -> Result<Config> {
        self.check_numbers()?;
        let patience = if self.stdio { 0 } else { self.codex_resume };
        let sessions = || Sessions::new(Duration::from_secs(patience.into()), self.max_connections);
        Ok(Config {
            codex: self.speaks_codex().then(sessions),
            access,
            peer_timeout: Duration::from_secs(self.peer_timeout.into()),
            max_message_bytes: self.max_message_bytes,
            max_processes: self.max_processes,
            max_connections: self.max_connections,
            epochs: Arc::new(Epochs::new(self.epoch_file.as_deref(), self.require_epoch)?),
        })
    }

    fn access(&self, variable: Option<OsString>, sockets: &[TcpListener]) -> Result<Access> {
        let token = match (&self.token_file, variable) {
            (Some(_), Some(_)) => {
                return Err(Error::params(format!("{TOKEN} and --token-file are both given")));
            }
            (Some(file), None) => Some(Token::new(token::of_file(file)?)),
            (None, Some(value)) => Some(Token::new(token::of_variable(value)?)),
            (None, None) => None,
        };
        if token.is_none()
            && !self.no_auth
            && !self.stdio
            && let Some(exposed) = self.exposed(sockets)
        {
            return Err(Error::params(format!(
                "refusing to listen on {exposed} without a token: set {TOKEN}, or give \
                 --token-file, or --no-auth if everybody who reaches it may run commands"
            )));
        }
        let (origins, codex) = (self.allow_origin.clone(), self.speaks_codex());
        Ok(Access { token, origins, codex })
    }

    /// An address that others than this machine can reach.
    fn exposed(&self, sockets: &[TcpListener]) -> Option<String> {
        if sockets.is_empty() {
            return Some(self.host.clone()).filter(|host| !is_loopback(host));
        }
        let mut addresses = sockets.iter().map(TcpListener::local_addr);
        addresses.find_map(|address| match address {
            Ok(address) if is_loopback_address(address.ip()) => None,
            Ok(address) => Some(address.to_string()),
            Err(error) => Some(format!("a socket without an address ({error})")),
        })
    }
}

fn failed(error: &io::Error) -> Error {
    Error::io(error, "cannot start the server")
}

/// After the line that says where the server listens, which is the first of all.
fn warn_of_shortcomings(guardian: &Guardian) {
    for why in descendants::shortcomings().into_iter().chain(guardian.shortcoming()) {
        log::warn("not all is followed", &[("why", &why)]);
    }
}

fn serve_standard(config: Config, environment: Machine, life: &Life) -> Result<()> {
    let stop = Arc::new(Waker::new().map_err(|error| failed(&error))?);
    let waker = Arc::clone(&stop);
    life.on_signal(move || waker.wake());
    warn_of_shortcomings(&life.guardian);
    life.guardian.tell(News::Ready);
    let served = serve_stdio(config, environment, &stop);
    life.guardian.tell(News::Stopping);
    served
}

fn is_loopback(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(is_loopback_address)
}

fn is_loopback_address(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}
