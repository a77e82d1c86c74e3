//! The way to a server by WebSocket.

use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::bounded;
use tungstenite::client::IntoClientRequest;
use tungstenite::error::ProtocolError;
use tungstenite::handshake::HandshakeError;
use tungstenite::http::{HeaderValue, Uri, header};

use super::dispatch::Dispatch;
use super::link::{Carrier, Link, Opened};
use super::way::Terms;
use super::{FAREWELL, MAX_MESSAGE};
use crate::error::{Error, ErrorKind, Result};
use crate::sys::errno;
use crate::threads;
use crate::transport::ws::{self, Halves, WsSource};
use crate::transport::{Framing, Outbox, SharedSocket};

/// How long one address may take to answer.
const CONNECT: Duration = Duration::from_secs(10);
/// How long the name may take to be found.
const LOOK_UP: Duration = Duration::from_secs(30);
/// How long the server may take to answer the upgrade.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Connects.
pub(super) fn connect(url: &str, token: Option<&str>, terms: Terms) -> Result<Link> {
    let Opened { source, outbox, carrier } = open(url, token, terms)?;
    let failed = |error| Error::io(&error, "cannot make a thread for the connection");
    Link::start(source, outbox, Arc::new(Dispatch::of_epoch(terms.epoch)), carrier).map_err(failed)
}

/// The same, with nobody at this end yet.
pub(super) fn open(url: &str, token: Option<&str>, terms: Terms) -> Result<Opened> {
    let shown = without_query(url);
    let uri: Uri = url.parse().map_err(|error| {
        Error::params(format!("{shown:?} is no URL (ws://HOST:PORT/exec is): {error}"))
    })?;
    if uri.scheme_str() != Some("ws") {
        return Err(Error::params(format!(
            "{shown:?} must begin with ws:// (there is no TLS yet: go through ssh -L)"
        )));
    }
    let host = uri.host().ok_or_else(|| Error::params(format!("{shown:?} names no host")))?;
    let socket = Arc::new(reach(host, uri.port_u16().unwrap_or(80), shown, terms)?);
    let failed = |error: io::Error| {
        Error::new(ErrorKind::Unreachable, format!("cannot reach {shown}: {error}"))
    };
    socket.set_nodelay(true).map_err(failed)?;
    let mut request = uri
        .clone()
        .into_client_request()
        .map_err(|error| Error::params(format!("{shown:?} cannot be asked for: {error}")))?;
    if let Some(token) = token {
        let value = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| Error::params("the token has characters that no header can carry"))?;
        request.headers_mut().insert(header::AUTHORIZATION, value);
    }
    let halves = Halves::connecting(Arc::clone(&socket), terms.peer, terms.left(HANDSHAKE));
    let config = ws::config(ws::CLIENT_READ_BUFFER, MAX_MESSAGE);
    let (mut stream, _) = tungstenite::client::client_with_config(request, halves, Some(config))
        .map_err(|error| refused(error, shown))?;
    let waken = Arc::clone(&socket);
    let on_failure = move || drop(waken.shutdown(Shutdown::Both));
    let target = Box::new(SharedSocket(Arc::clone(&socket)));
    let (outbox, _writer) =
        Outbox::start(target, Framing::WebSocketClient, on_failure, || false).map_err(failed)?;
    stream.get_mut().connected(outbox.clone()).map_err(failed)?;
    let source = Box::new(WsSource::after_handshake(stream));
    Ok(Opened { source, outbox, carrier: Arc::new(Socket(socket)) })
}

/// The socket that carries the connection.
struct Socket(Arc<TcpStream>);

impl Carrier for Socket {
    fn close(&self, outbox: &Outbox) {
        outbox.last(ws::client_close_frame(1000));
        outbox.flush(FAREWELL);
        // Ends the reading thread too.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// A URL as it may be shown: its query may hold the token.
pub(super) fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

/// Tries each address of the host.
fn reach(host: &str, port: u16, shown: &str, terms: Terms) -> Result<TcpStream> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let unreachable = |why: &dyn std::fmt::Display| {
        let advice = "is the server running there, and is the port right?";
        Error::new(ErrorKind::Unreachable, format!("cannot reach {shown}: {why} ({advice})"))
    };
    let addresses = look_up(bare, port, terms).map_err(|error| unreachable(&error))?;
    let mut last = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, terms.left(CONNECT)) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = Some(error),
        }
    }
    Err(match last {
        Some(error) => unreachable(&errno::message(errno::of(&error))),
        None => unreachable(&"the name has no address"),
    })
}

/// The addresses of a host. The resolver may take as long as it likes: it has a thread of its own.
fn look_up(host: &str, port: u16, terms: Terms) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let (found, addresses) = bounded(1);
    let name = host.to_owned();
    threads::run(move || {
        let addresses = (name.as_str(), port).to_socket_addrs().map(Iterator::collect);
        // Whoever has stopped waiting wants none.
        let _ = found.send(addresses);
    })?;
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "its name was not found in time");
    addresses.recv_timeout(terms.left(LOOK_UP)).map_err(late)?
}

/// Why the upgrade failed, and what to do about it.
fn refused<S: tungstenite::handshake::HandshakeRole>(
    error: HandshakeError<S>,
    shown: &str,
) -> Error {
    let HandshakeError::Failure(error) = error else {
        let message = format!("{shown} did not answer in time");
        return Error::new(ErrorKind::Unreachable, message);
    };
    let broken = |why: &dyn std::fmt::Display| {
        let message = format!("{shown} broke the connection off before it was made: {why}");
        Error::new(ErrorKind::Unreachable, message)
    };
    match error {
        tungstenite::Error::Io(error) => broken(&errno::message(errno::of(&error))),
        tungstenite::Error::Protocol(ProtocolError::HandshakeIncomplete) => {
            broken(&"it ended in the middle of the answer")
        }
        tungstenite::Error::Http(response) => {
            let status = response.status();
            let advice = match status.as_u16() {
                401 => "the token is missing or wrong; set TA_EXEC_TOKEN or give --token-file",
                403 => "this client sends no origin, so something between it and the server does",
                404 => "there is no execution environment at this path; it is usually /exec",
                503 => "it has as many connections as it may have, or cannot write its epoch file",
                502 | 504 => "what stands before the server does not reach it",
                _ => "is this the address of a ta exec-server?",
            };
            let message = format!("{shown} refused the connection: {status} ({advice})");
            // It may be another time.
            let passes = matches!(status.as_u16(), 502..=504);
            Error::new(if passes { ErrorKind::Unreachable } else { ErrorKind::Refused }, message)
        }
        error => {
            let message = format!("{shown} is no execution environment: {error}");
            Error::new(ErrorKind::Refused, message)
        }
    }
}
