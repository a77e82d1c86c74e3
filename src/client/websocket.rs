//! The way to a server by WebSocket.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tungstenite::client::IntoClientRequest;
use tungstenite::error::ProtocolError;
use tungstenite::handshake::HandshakeError;
use tungstenite::handshake::client::Request;
use tungstenite::http::{HeaderValue, Uri, header};

use super::dispatch::Dispatch;
use super::exposure::Exposure;
use super::link::{Carrier, Link, Opened};
use super::reach::reach;
use super::way::Terms;
use super::{FAREWELL, MAX_MESSAGE};
use crate::error::{Error, ErrorKind, Result};
use crate::sys::errno;
use crate::transport::ws::{Handshake, WsSource};
use crate::transport::{Framing, Outbox, Stream};

/// How long the server may take to answer, TLS included.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A server that is reached by WebSocket.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) url: String,
    /// Where the URL has none.
    pub(super) token: Option<String>,
    /// The authorities that are trusted, in place of the machine's.
    pub(super) ca_file: Option<PathBuf>,
    pub(super) exposure: Exposure,
}

/// Connects.
pub(super) fn connect(server: &Server, url: &str, terms: Terms) -> Result<Link> {
    let Opened { source, outbox, carrier } = open(server, url, terms)?;
    let failed = |error| Error::io(&error, "cannot make a thread for the connection");
    Link::start(source, outbox, Arc::new(Dispatch::of_epoch(terms.epoch)), carrier).map_err(failed)
}

/// The same, with nobody at this end yet. The URL is the server's, with the epoch.
pub(super) fn open(server: &Server, url: &str, terms: Terms) -> Result<Opened> {
    let target = Target::of(url, server)?;
    let (shown, request) = (without_query(url), target.request(server)?);
    let failed = |error: io::Error| {
        Error::new(ErrorKind::Unreachable, format!("cannot reach {shown}: {error}"))
    };
    let socket = Arc::new(reach(target.host(), target.port, shown, terms)?);
    socket.set_nodelay(true).map_err(failed)?;
    if !target.is_secure && target.has_token(server) {
        server.exposure.mind(socket.peer_addr().map_err(failed)?, shown);
    }
    let deadline = Instant::now() + terms.left(HANDSHAKE);
    let stream = target.stream(&socket, server, deadline)?;
    let writing = stream.target();
    let handshake = Handshake::new(stream, deadline);
    let (handshake, _) =
        tungstenite::client(request, handshake).map_err(|error| refused(error, shown))?;
    let handshake = handshake.into_inner();
    let waken = Arc::clone(&socket);
    let on_failure = move || drop(waken.shutdown(Shutdown::Both));
    let (outbox, _writer) =
        Outbox::start(writing, Framing::WebSocketClient, on_failure, || false).map_err(failed)?;
    let source = WsSource::of_client(handshake, outbox.clone(), terms.peer, MAX_MESSAGE);
    let source = Box::new(source.map_err(failed)?);
    Ok(Opened { source, outbox, carrier: Arc::new(Socket(socket)) })
}

/// What a URL names.
struct Target<'a> {
    shown: &'a str,
    uri: Uri,
    port: u16,
    is_secure: bool,
}

impl<'a> Target<'a> {
    fn of(url: &'a str, server: &Server) -> Result<Self> {
        let shown = without_query(url);
        let uri: Uri = url.parse().map_err(|error| {
            Error::params(format!("{shown:?} is no URL (ws://HOST:PORT/exec is): {error}"))
        })?;
        let is_secure = match uri.scheme_str() {
            Some("ws") => false,
            Some("wss") if cfg!(feature = "tls") => true,
            Some("wss") => {
                let message = format!("{shown}: this build has no TLS (go through ssh -L)");
                return Err(Error::params(message));
            }
            _ => {
                let message = format!("{shown:?} must begin with ws:// or wss://");
                return Err(Error::params(message));
            }
        };
        if uri.host().is_none_or(str::is_empty) {
            return Err(Error::params(format!("{shown:?} names no host")));
        }
        if !is_secure && server.ca_file.is_some() {
            return Err(Error::params(format!("a CA file is given, and {shown} is no wss://")));
        }
        let port = match named_port(&uri) {
            None if is_secure => 443,
            None => 80,
            // Whatever listens at another one must not be given the token.
            Some(port) => port.parse().ok().filter(|port| *port != 0).ok_or_else(|| {
                Error::params(format!("{shown:?}: {port:?} is no port (1 to 65535)"))
            })?,
        };
        Ok(Self { shown, uri, port, is_secure })
    }

    /// The host, an address without its brackets.
    fn host(&self) -> &str {
        self.uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
    }

    fn has_token(&self, server: &Server) -> bool {
        let query = self.uri.query().unwrap_or_default();
        server.token.is_some() || query.split('&').any(|pair| pair.starts_with("token="))
    }

    fn request(&self, server: &Server) -> Result<Request> {
        let mut request = self.uri.clone().into_client_request().map_err(|error| {
            Error::params(format!("{:?} cannot be asked for: {error}", self.shown))
        })?;
        if let Some(token) = &server.token {
            let value = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| Error::params("the token has characters that no header can carry"))?;
            request.headers_mut().insert(header::AUTHORIZATION, value);
        }
        Ok(request)
    }

    #[cfg(feature = "tls")]
    fn stream(&self, socket: &Arc<TcpStream>, server: &Server, by: Instant) -> Result<Stream> {
        let socket = Arc::clone(socket);
        if !self.is_secure {
            return Ok(Stream::Plain(socket));
        }
        let ca_file = server.ca_file.as_deref();
        super::trust::secure(socket, self.host(), ca_file, self.shown, by).map(Stream::Tls)
    }

    #[cfg(not(feature = "tls"))]
    #[expect(clippy::unnecessary_wraps, reason = "with TLS it can fail")]
    fn stream(&self, socket: &Arc<TcpStream>, _server: &Server, _by: Instant) -> Result<Stream> {
        Ok(Stream::Plain(Arc::clone(socket)))
    }
}

/// What stands behind the colon after the host, if there is one.
fn named_port(uri: &Uri) -> Option<&str> {
    let authority = uri.authority()?.as_str();
    let (_, place) = authority.rsplit_once('@').unwrap_or(("", authority));
    place.strip_prefix(uri.host()?)?.strip_prefix(':')
}

/// The socket that carries the connection.
struct Socket(Arc<TcpStream>);

impl Carrier for Socket {
    fn close(&self, outbox: &Outbox) {
        outbox.close(1000, "");
        outbox.flush(FAREWELL);
        // Ends the reading thread too.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// A URL as it may be shown: its query may hold the token.
pub(super) fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
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
        tungstenite::Error::Io(error) if error.raw_os_error().is_none() => broken(&error),
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
