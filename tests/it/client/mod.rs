//! The host's side: what a client does when the way to its server, or the server, fails.

mod consumers;
mod epochs;
mod faults;
mod pings;
mod reconnect;
mod stdio;
mod turns;
mod wire;

use std::time::{Duration, Instant};

use ta_exec::client::{ClientOptions, ExecClient};
use ta_exec::environment::{Process, ProcessEvent, ProcessExit};
use ta_exec::protocol::SpawnParams;
use ta_exec::{Error, ErrorKind};

use crate::support::proxy::Proxy;
use crate::support::{DEADLINE, Server, TOKEN};

/// A server, and a client that reaches it through a proxy.
struct Host {
    client: ExecClient,
    proxy: Proxy,
    server: Server,
}

impl Host {
    fn new(options: ClientOptions) -> Self {
        let server = Server::start();
        let proxy = Proxy::to(server.address);
        let client = options.websocket(&proxy.url(), Some(TOKEN)).unwrap();
        Self { client, proxy, server }
    }

    /// Cuts the connection, and waits until the client knows.
    #[track_caller]
    fn lose_connection(&self) {
        lose_connection(&self.client, &self.proxy);
    }
}

#[track_caller]
fn lose_connection(client: &ExecClient, proxy: &Proxy) {
    let mut process = client.spawn(&SpawnParams::new("sleep").arg("60")).unwrap();
    proxy.cut();
    let error = process.next(Some(Instant::now() + DEADLINE)).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::ConnectionLost, "{error}");
}

/// Gives up soon on a server that is silent, and on one that does not come back.
fn impatient() -> ClientOptions {
    ClientOptions::new()
        .reconnect_within(Duration::from_secs(3))
        .peer_timeout(Duration::from_millis(1500))
}

/// The output of a process, and how it ended.
#[track_caller]
pub(crate) fn finish(process: &mut Process) -> Result<(Vec<u8>, ProcessExit), Error> {
    let mut output = Vec::new();
    loop {
        match process.next(Some(Instant::now() + DEADLINE))?.expect("an event in time") {
            ProcessEvent::Output(_, bytes) => output.extend_from_slice(bytes),
            ProcessEvent::Exit(exit) => return Ok((output, exit)),
        }
    }
}

#[track_caller]
pub(crate) fn within<T>(limit: Duration, what: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = what();
    assert!(start.elapsed() < limit, "took {:?}", start.elapsed());
    done
}
