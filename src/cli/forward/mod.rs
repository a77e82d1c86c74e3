//! `ta forward`: ports and sockets here that lead to ports and sockets there.
//!
//! A thread accepts at each place that is listened on; each connection has two threads of its own
//! ([`relay`]). The main thread waits for a signal, or for the news that there will be no environment
//! any more. When the connection to the environment is lost, what was forwarded by it ends, and the
//! next one makes a new one.

mod listener;
mod relay;
mod spec;
mod stdio;

use std::fmt;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::arguments::say_error;
use super::end::End;
use super::place::{self, Place, Variables};
use super::thread::{spawn, watch};
use crate::client::ExecClient;
use crate::error::{Error, ErrorKind, Result};
use crate::sys::signal::{self, Signals};
use crate::sys::{self, errno};
use listener::{Listener, SocketFile};
use spec::{From, Spec, To};

/// News for the main thread: signals, and one last word of a thread.
const NEWS: usize = 8;
/// How long to wait where no more can be accepted for now.
const PAUSE: Duration = Duration::from_millis(250);

place::command! {
    /// Forward ports and sockets to where the environment is.
    #[argh(
        name = "forward",
        usage = "[OPTIONS] [BIND:]PORT:HOST:PORT...\n       {command_name} [OPTIONS] -:HOST:PORT",
        example = "{command_name} --exec ws://box:4200/exec 8000:localhost:80",
        example = "{command_name} 0:db:5432 /tmp/docker.sock:/run/docker.sock",
        example = "{command_name} '*:8080:[::1]:80'",
        example = "ssh -o ProxyCommand='{command_name} -:%h:%p' user@host",
        note = "A connection to PORT on this machine is made to HOST:PORT by the
environment, which looks the name up. The forms are those of ssh -L:

  PORT:HOST:PORT        listens on 127.0.0.1; PORT 0 is a free one
  BIND:PORT:HOST:PORT   on that address or name; empty or * is all of them
  SOCKET:HOST:PORT      on a Unix socket, for this user alone; one that a dead
                        process has left is replaced
  ...:SOCKET            leads to a Unix socket there
  -:HOST:PORT           stdin and stdout are the connection, for ssh's
                        ProxyCommand and the like

An IPv6 address is written [::1]. What has a / in it is a socket.

Where it listens is told on stderr, a line each. When the environment is lost,
its connections end, and the next one makes a new way there. SIGINT and SIGTERM
end it, and so does a newer host. The token comes from TA_EXEC_TOKEN, from
--token-file, or from the URL.",
        error_code(1, "-: the far end has refused or reset the connection"),
        error_code(2, "an option or a forward is not as it must be"),
        error_code(125, "it cannot listen, the environment cannot be reached or is lost (-:), or a newer host has it")
    )]
    struct Forward {
        #[argh(positional, arg_name = "forward")]
        forwards: Vec<String>,
    }
}

/// What the main thread is told.
enum News {
    Signal(i32),
    /// It is over.
    End(End),
}

/// What all connections share.
struct Shared {
    client: ExecClient,
    news: Sender<News>,
    /// The loss of the environment has been told, and it has not been reached since.
    lost: AtomicBool,
    /// The end of the connection to the environment that stands now will be told.
    watched: Arc<AtomicBool>,
}

impl Forward {
    /// Forwards until it is told to end.
    pub(super) fn run(self) -> ExitCode {
        // Before any thread is there: all of this is the whole process's.
        let variables = Variables::take();
        let signals = Signals::block(&[signal::INT, signal::QUIT, signal::TERM, signal::HUP]);
        self.end(variables, signals).unwrap_or_else(|end| end).exit()
    }

    fn end(mut self, variables: Variables, signals: Signals) -> Result<End, End> {
        let specs = specs(&self.forwards).map_err(|why| End::Usage(Error::params(why)))?;
        let place = self.place_options().place(variables).map_err(End::Usage)?;
        sys::host::raise_descriptor_limit();
        let mut bound: Vec<(Vec<Listener>, To)> = Vec::new();
        let mut files: Vec<SocketFile> = Vec::new();
        for spec in &specs {
            let (listeners, file) = listener::listen(&spec.from).map_err(End::Failed)?;
            bound.push((listeners, spec.to.clone()));
            files.extend(file);
        }
        let (sender, news) = bounded(NEWS);
        let told = sender.clone();
        let tell = move |signal| drop(told.send(News::Signal(signal)));
        watch(signals, tell).map_err(End::Failed)?;
        let shared = Arc::new(Shared {
            client: connect(place, &sender, &news)?,
            news: sender,
            lost: AtomicBool::new(false),
            watched: Arc::default(),
        });
        match specs.as_slice() {
            [Spec { from: From::Stdio, to }] => stdio::start(&shared, to.clone())?,
            _ => {
                shared.watch();
                bound.into_iter().try_for_each(|(listeners, to)| serve(&shared, listeners, &to))?;
            }
        }
        let end = next(&news);
        // The files first: saying goodbye may take a moment.
        drop(files);
        shared.client.close();
        Ok(end)
    }
}

fn specs(texts: &[String]) -> std::result::Result<Vec<Spec>, String> {
    let specs: Vec<Spec> = texts.iter().map(|text| Spec::parse(text)).collect::<Result<_, _>>()?;
    if specs.is_empty() {
        return Err("no forward: ta forward [OPTIONS] [BIND:]PORT:HOST:PORT...".to_owned());
    }
    if specs.len() > 1 && specs.iter().any(|spec| spec.from == From::Stdio) {
        return Err("stdin and stdout can be one connection, and nothing beside it".to_owned());
    }
    Ok(specs)
}

/// Reaches the environment, and hears from it whether this host may use it, before anybody is told
/// where to connect. A signal meanwhile ends it at once.
fn connect(place: Place, sender: &Sender<News>, news: &Receiver<News>) -> Result<ExecClient, End> {
    let (connected, client) = bounded(1);
    let sender = sender.clone();
    let reach = || place.client().and_then(|client| client.ping().map(|()| client));
    let connect = move || match reach() {
        Ok(client) => drop(connected.send(client)),
        Err(error) => drop(sender.send(News::End(End::Failed(error)))),
    };
    spawn("connect", connect).map_err(End::Failed)?;
    crossbeam_channel::select! {
        recv(client) -> client => client.map_err(|_| next(news)),
        recv(news) -> told => Err(end_of(told.ok())),
    }
}

fn next(news: &Receiver<News>) -> End {
    end_of(news.recv().ok())
}

fn end_of(news: Option<News>) -> End {
    match news {
        Some(News::Signal(signal)) => End::Signal(signal),
        Some(News::End(end)) => end,
        None => End::Failed(Error::new(ErrorKind::Internal, "ta has a bug: all threads are gone")),
    }
}

/// Starts to accept.
fn serve(shared: &Arc<Shared>, listeners: Vec<Listener>, to: &To) -> Result<(), End> {
    for listener in listeners {
        say_error(&format!("forwarding {} to {to}", listener.name));
        let (shared, to) = (Arc::clone(shared), to.clone());
        spawn("accept", move || accept(&shared, &listener, &to)).map_err(End::Failed)?;
    }
    Ok(())
}

fn accept(shared: &Arc<Shared>, listener: &Listener, to: &To) {
    let mut is_failing = false;
    let tell = |error: &dyn fmt::Display, is_failing: &mut bool| {
        if !std::mem::replace(is_failing, true) {
            say_error(&format!("cannot take connections on {}: {error}", listener.name));
        }
        thread::sleep(PAUSE);
    };
    loop {
        let local = match listener.accept() {
            Ok(local) => local,
            // It had left before it was accepted.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(error) => {
                tell(&errno::message(errno::of(&error)), &mut is_failing);
                continue;
            }
        };
        let (shared, to, name) = (Arc::clone(shared), to.clone(), listener.name.clone());
        let forward = move || {
            let ended = relay::forward(local, &shared.client, &to, || shared.reached());
            if let Err(error) = ended {
                shared.ended(&error, &name, &to);
            }
        };
        // (Without a thread it is closed by being dropped.)
        match spawn("forward", forward) {
            Ok(()) => is_failing = false,
            Err(error) => tell(&error, &mut is_failing),
        }
    }
}

impl Shared {
    fn reached(&self) {
        self.lost.store(false, Ordering::Relaxed);
        self.watch();
    }

    /// Sees to it that a newer host is known of at once, and not when somebody connects the next
    /// time: until then whoever has started this would take it for one that works.
    fn watch(&self) {
        if self.watched.swap(true, Ordering::Relaxed) {
            return;
        }
        let (news, watched) = (self.news.clone(), Arc::clone(&self.watched));
        let tell = move |error: Error| {
            // The next connection makes a new way, which is watched then.
            watched.store(false, Ordering::Relaxed);
            if *error.kind() == ErrorKind::StaleEpoch {
                let _ = news.try_send(News::End(End::Failed(error)));
            }
        };
        if let Err(error) = self.client.when_lost(tell)
            && *error.kind() == ErrorKind::StaleEpoch
        {
            let _ = self.news.try_send(News::End(End::Failed(error)));
        }
    }

    /// Tells why a connection has ended; the loss of the environment once.
    fn ended(&self, error: &Error, name: &str, to: &To) {
        match error.kind() {
            ErrorKind::StaleEpoch => {
                let _ = self.news.try_send(News::End(End::Failed(error.clone())));
            }
            ErrorKind::ConnectionLost => {
                if !self.lost.swap(true, Ordering::Relaxed) {
                    let message = error.message();
                    say_error(&format!("{message}; the next connection makes a new one"));
                }
            }
            _ => say_error(&format!("{name} to {to}: {}", error.message())),
        }
    }
}
