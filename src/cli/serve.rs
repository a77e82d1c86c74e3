//! `ta serve`: an agent's tools on an environment, as an MCP server.

use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};

use super::arguments::say_error;
use super::end::End;
use super::place::{self, Place, Variables};
use super::thread::{spawn, watch};
use super::{lost_thread, token};
use crate::client::{ExecClient, host_epoch};
use crate::environment::{ExecEnvironment, RemoteExecEnvironment};
use crate::error::{Error, Result};
use crate::mcp::http::Http;
use crate::mcp::stdio::Stdio;
use crate::mcp::{Config, Server, Upstreams};
use crate::sys;
use crate::sys::signal::{self, Signals};
use crate::threads;
use crate::tools::{Tool, Tools};
use crate::transport::http::Token;

/// The variable that the token of `--listen` comes in.
const TOKEN: &str = "TA_SERVE_TOKEN";
/// News on its way to the main thread.
const NEWS: usize = 8;
/// How long calls have to be done when there is nobody to ask any more: enough for those that are
/// about to be, and short for an agent that waits for this program to end.
const FINISHING: Duration = Duration::from_millis(300);
/// How long answers may take to be written at the end.
const WRITING: Duration = Duration::from_millis(200);

place::command! {
    /// Give an agent its tools (read, bash, edit, write, ls, find, grep) and its stdio MCP servers on
    /// an environment, as an MCP server.
    #[argh(
        name = "serve",
        example = "{command_name} --exec ws://box:4200/exec",
        example = "{command_name} --via 'docker exec -i NAME /ta exec-server --stdio' --mcp-config .mcp.json",
        example = "{command_name} --exec ws://box:4200/exec --listen 127.0.0.1:4300",
        note = "An agent starts this as the command of an MCP server and speaks with it on stdin and
stdout; with --listen it comes by HTTP, to /mcp. docs/agents.md has the lines for some agents.

It is a host: its epoch is when it was started, unless --epoch names another, so an older
one on the same environment ends. All that was started there ends with it.

The token of --listen is in the environment variable TA_SERVE_TOKEN; without one only
loopback addresses are listened on. A request with an Origin is refused.

Of --mcp-config the stdio servers run on the environment, with the environment's variables
and those of their env; their tools are offered as SERVER__TOOL. One that fails is said on
stderr and left out; it is not started again.",
        error_code(2, "an option, the token or the config is not as it must be"),
        error_code(125, "the environment cannot be reached, or the address cannot be listened on")
    )]
    struct Serve {
        /// file with the stdio MCP servers to run on the environment ({"mcpServers": …})
        #[argh(option)]
        mcp_config: Option<String>,
        /// serve by HTTP at this address, as 127.0.0.1:4300, in place of stdin and stdout; port 0
        /// takes a free one
        #[argh(option)]
        listen: Option<String>,
        /// the tools to offer, as read,bash (all of read,bash,edit,write,ls,find,grep)
        #[argh(option)]
        tools: Option<String>,
    }
}

impl Serve {
    /// Serves to the end of stdin, or a signal.
    pub(super) fn run(mut self) -> ExitCode {
        // Before any thread is there: all of this is the whole process's.
        let variables = Variables::take();
        let secret = sys::secret::take(TOKEN);
        let signals = Signals::block(&[signal::INT, signal::QUIT, signal::TERM, signal::HUP]);
        let place = self.place_options().place(variables);
        let plan = place.and_then(|place| self.plan(place, secret)).map_err(End::Usage);
        let end = plan.and_then(|plan| serve(plan, signals));
        end.unwrap_or_else(|end| end).exit()
    }

    fn plan(self, place: Place, secret: Option<OsString>) -> Result<Plan> {
        let config = match &self.mcp_config {
            None => Config::default(),
            Some(file) => {
                let what = || format!("cannot read the config {file}");
                let text =
                    std::fs::read_to_string(file).map_err(|error| Error::io(&error, what()))?;
                let wrong = |error: Error| Error::params(format!("{file}: {}", error.message()));
                Config::parse(&text).map_err(wrong)?
            }
        };
        let listen =
            self.listen.as_deref().map(|address| Listen::of(address, secret)).transpose()?;
        let tools = self.tools.as_deref().map_or_else(|| Ok(Tool::ALL.to_vec()), named)?;
        Ok(Plan { place, config, listen, tools })
    }
}

/// The tools of a list of names.
fn named(list: &str) -> Result<Vec<Tool>> {
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    let tool = |name: &str| {
        Tool::by_name(name).ok_or_else(|| {
            let all = Tool::ALL.map(Tool::name).join(", ");
            Error::params(format!("--tools: {name:?} is none of {all}"))
        })
    };
    names.map(tool).collect()
}

struct Plan {
    place: Place,
    config: Config,
    listen: Option<Listen>,
    tools: Vec<Tool>,
}

/// Where to listen, and who may come.
struct Listen {
    address: SocketAddr,
    token: Option<Token>,
}

impl Listen {
    fn of(address: &str, secret: Option<OsString>) -> Result<Self> {
        let wrong = || Error::params(format!("--listen: {address:?} is no HOST:PORT"));
        let found = address.to_socket_addrs().map_err(|_| wrong())?.next().ok_or_else(wrong)?;
        let token = secret.map(|value| token::of_named_variable(TOKEN, value)).transpose()?;
        if token.is_none() && !found.ip().to_canonical().is_loopback() {
            return Err(Error::params(format!(
                "refusing to listen on {address} without a token: set {TOKEN}"
            )));
        }
        Ok(Self { address: found, token: token.map(Token::new) })
    }
}

enum News {
    Signal(i32),
    /// The agent has gone.
    Ended,
}

fn serve(plan: Plan, signals: Signals) -> Result<End, End> {
    let (sender, news) = bounded(NEWS);
    let told = sender.clone();
    watch(signals, move |signal| drop(told.send(News::Signal(signal)))).map_err(End::Failed)?;
    let (client, environment) = match reach(plan.place, &news)? {
        Ok(reached) => reached,
        Err(end) => return Ok(end),
    };
    for name in &plan.config.others {
        say_error(&format!("the MCP server {name:?} has no command, and is left out"));
    }
    // What is told of other tools is told once there is somebody to tell.
    let agent: Arc<OnceLock<Stdio>> = Arc::default();
    let told = Arc::clone(&agent);
    let on_change: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
        if let Some(agent) = told.get() {
            agent.tools_have_changed();
        }
    });
    let report: Arc<dyn Fn(&str) + Send + Sync> = Arc::new(say_error);
    let upstreams = if plan.config.is_empty() {
        Upstreams::none()
    } else {
        Upstreams::start(plan.config, &environment, &report, &on_change)
    };
    let server = Arc::new(Server::new(Tools::new(environment), plan.tools, upstreams));
    match plan.listen {
        None => {
            let ended = move || drop(sender.try_send(News::Ended));
            let stdio = Stdio::start(&server, ended).map_err(End::Failed)?;
            let stdio = agent.get_or_init(|| stdio);
            let signal = wait(&news);
            hurry_on_second(news);
            if signal.is_none() {
                finish(stdio);
            }
            stdio.session().end();
            stdio.finish(WRITING);
        }
        Some(listen) => {
            let http = Http::bind(listen.address, &server, listen.token).map_err(End::Failed)?;
            let address = http.address();
            let address =
                address.map_err(|error| End::Failed(Error::io(&error, "cannot listen")))?;
            say_error(&format!("listening on http://{address}/mcp"));
            let accepting = Arc::clone(&http);
            spawn("accept", move || accepting.run()).map_err(End::Failed)?;
            wait(&news);
            hurry_on_second(news);
            http.end();
        }
    }
    server.upstreams().end();
    client.close();
    Ok(End::Code(0))
}

type Reached = (ExecClient, Arc<dyn ExecEnvironment>);

/// Reaches the environment; the inner error is how it ends where a signal comes first.
fn reach(place: Place, news: &Receiver<News>) -> Result<Result<Reached, End>, End> {
    let (sender, reached) = bounded(1);
    let connect = move || -> Result<Reached> {
        let client = place.guarded(Some(host_epoch()))?;
        let environment = RemoteExecEnvironment::new(client.clone())?;
        Ok((client, Arc::new(environment)))
    };
    spawn("connect", move || drop(sender.send(connect()))).map_err(End::Failed)?;
    crossbeam_channel::select! {
        recv(reached) -> reached => match reached {
            Ok(reached) => reached.map(Ok).map_err(End::Failed),
            Err(_) => Err(End::Failed(lost_thread())),
        },
        recv(news) -> told => match told {
            Ok(News::Signal(signal)) => Ok(Err(End::Signal(signal))),
            _ => Err(End::Failed(lost_thread())),
        },
    }
}

/// Waits until the agent has gone, or a signal.
fn wait(news: &Receiver<News>) -> Option<i32> {
    match news.recv() {
        Ok(News::Signal(signal)) => Some(signal),
        Ok(News::Ended) | Err(_) => None,
    }
}

/// Whoever sends another signal does not want to wait. What runs on the environment ends with the
/// connection, which ends with this program.
fn hurry_on_second(news: Receiver<News>) {
    // Without a thread the end takes as long as it takes.
    let _ = threads::run(move || {
        while let Ok(told) = news.recv() {
            if let News::Signal(_) = told {
                std::process::exit(0);
            }
        }
    });
}

/// What was asked before stdin ended, and is about to be done, is answered.
fn finish(stdio: &Stdio) {
    const GLANCE: Duration = Duration::from_millis(10);
    let deadline = Instant::now() + FINISHING;
    while stdio.session().is_busy() && Instant::now() < deadline {
        std::thread::sleep(GLANCE);
    }
}
