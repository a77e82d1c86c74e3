//! `ta healthcheck`: what `curl -f` would be used for, in an image that has none.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use argh::{ArgsInfo, FromArgs};
use crossbeam_channel::bounded;

use super::end::End;
use super::thread;
use crate::error::{Error, Result};

/// Of an answer no more than this is read: its first line is what counts.
const MOST: usize = 4096;

/// Ask a server whether it is healthy, and exit with 0 if it is.
///
/// No token is needed. Without URL it is the server on this machine, at its usual port.
#[derive(FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "healthcheck",
    help_triggers("-h", "--help"),
    example = "{command_name}",
    example = "{command_name} --timeout 2 ws://127.0.0.1:4217/exec",
    error_code(1, "it is not healthy, or cannot be reached"),
    error_code(2, "the URL or an option is not as it must be")
)]
pub(super) struct Healthcheck {
    /// seconds that it may take (5)
    #[argh(option, default = "5")]
    timeout: u32,
    /// what a host connects to (ws://HOST:PORT/exec), or the http:// of it
    /// (http://127.0.0.1:4200/healthz)
    #[argh(positional, default = "\"http://127.0.0.1:4200/healthz\".to_owned()")]
    url: String,
}

impl Healthcheck {
    /// Asks, and says on one line why not.
    pub(super) fn run(self) -> ExitCode {
        self.end().map_or_else(|end| end, |()| End::Code(0)).exit()
    }

    fn end(&self) -> Result<(), End> {
        if self.timeout == 0 {
            return Err(End::usage("--timeout must be at least 1"));
        }
        let target = Target::of_url(&self.url).map_err(End::usage)?;
        let name = target.to_string();
        let limit = Duration::from_secs(self.timeout.into());
        let deadline = Instant::now() + limit;
        let (tell, told) = bounded(1);
        // On a thread of its own: looking up a name takes as long as it takes.
        thread::spawn("connect", move || {
            let _ = tell.send(target.ask(deadline));
        })
        .map_err(End::Failed)?;
        let late = || format!("{name} has not answered within {} s", limit.as_secs());
        match told.recv_deadline(deadline) {
            Ok(Ok(200)) => Ok(()),
            Ok(Ok(status)) => Err(End::refused(format!("{name} has answered {status}"))),
            Ok(Err(error)) if is_late(&error) => Err(End::refused(late())),
            Ok(Err(error)) => Err(End::Refused(Error::io(&error, format!("cannot ask {name}")))),
            Err(_) => Err(End::refused(late())),
        }
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

/// Whom to ask for what.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    /// Without the brackets of an IPv6 address.
    host: String,
    port: u16,
    path: String,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}{}", self.authority(), self.path)
    }
}

impl Target {
    /// A WebSocket's own path gives way to that of the health of the same server.
    fn of_url(url: &str) -> Result<Self, String> {
        // (A query may hold a token, and is nobody's business here.)
        let shown = url.split(['?', '#']).next().unwrap_or_default();
        let (scheme, rest) = shown.split_once("://").ok_or_else(|| {
            format!("{shown:?} is no URL: http://HOST:PORT or ws://HOST:PORT/exec")
        })?;
        let is_socket = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "ws" => true,
            "https" | "wss" => {
                return Err(format!("{shown}: no TLS is spoken here; ask the server itself"));
            }
            _ => return Err(format!("{shown}: the URL must begin with http:// or ws://")),
        };
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let (host, port) = split(authority)
            .ok_or_else(|| format!("{shown}: {authority:?} is no HOST or HOST:PORT"))?;
        let wrong = |byte: u8| !byte.is_ascii_graphic();
        if path.bytes().any(wrong) || host.bytes().any(|byte| wrong(byte) || byte == b'@') {
            return Err(format!("{shown:?}: a URL is plain ASCII, without a user"));
        }
        let path = match path.strip_suffix("/exec") {
            Some(before) if is_socket => format!("{before}/healthz"),
            _ if path == "/" => "/healthz".to_owned(),
            _ => path.to_owned(),
        };
        Ok(Self { host: host.to_owned(), port, path })
    }

    fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        // Without /etc/hosts the resolver does not know it.
        if self.host.eq_ignore_ascii_case("localhost") {
            let both = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
            return Ok(both.map(|address| (address, self.port).into()).to_vec());
        }
        Ok((self.host.as_str(), self.port).to_socket_addrs()?.collect())
    }

    /// The status of the answer.
    fn ask(&self, deadline: Instant) -> io::Result<u16> {
        let mut last = io::Error::other("the name has no address");
        for address in self.addresses()? {
            match TcpStream::connect_timeout(&address, left(deadline)?) {
                Ok(stream) => return self.ask_over(&stream, deadline),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn ask_over(&self, mut stream: &TcpStream, deadline: Instant) -> io::Result<u16> {
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: ta/{}\r\nConnection: close\r\n\r\n",
            self.path,
            self.authority(),
            env!("CARGO_PKG_VERSION")
        );
        stream.set_write_timeout(Some(left(deadline)?))?;
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        let mut chunk = [0; 512];
        while answer.len() < MOST && !answer.contains(&b'\n') {
            stream.set_read_timeout(Some(left(deadline)?))?;
            match stream.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => answer.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        status(&answer).ok_or_else(|| io::Error::other("what has answered speaks no HTTP"))
    }
}

/// The time that is left.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// `HTTP/1.1 200 OK`
fn status(answer: &[u8]) -> Option<u16> {
    let rest = answer.strip_prefix(b"HTTP/1.")?;
    let digits = rest.get(2..5).filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// A host, and a port, which is 80 where none is given.
fn split(authority: &str) -> Option<(&str, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<Ipv6Addr>().ok()?;
            (host, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let is_number = |port: &&str| port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.map_or(Some(80), |port| Some(port).filter(is_number)?.parse().ok())?;
    (!host.is_empty()).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_tells_whom_to_ask() {
        for (url, expected) in [
            ("http://127.0.0.1:4200/healthz", "http://127.0.0.1:4200/healthz"),
            ("http://box", "http://box:80/healthz"),
            ("http://box:1/", "http://box:1/healthz"),
            ("http://box/other?x", "http://box:80/other"),
            ("WS://box:4200/exec?token=s3cret&epoch=1", "http://box:4200/healthz"),
            ("ws://[::1]:4200/exec", "http://[::1]:4200/healthz"),
            ("ws://[::1]", "http://[::1]:80/healthz"),
            ("ws://proxy/box/exec", "http://proxy:80/box/healthz"),
        ] {
            assert_eq!(Target::of_url(url).unwrap().to_string(), expected, "{url}");
        }
        for url in [
            "",
            "box",
            "box:4200",
            "http://",
            "http://:80",
            "http://box:x",
            "http://box:+1",
            "http://box:70000",
            "http://[::1",
            "http://[box]:1",
            "http://::1:80",
            "ftp://box",
            "wss://box/exec",
            "https://box",
            "http://u:p@box",
            "http://u@box",
            "http://box/a b",
        ] {
            assert!(Target::of_url(url).is_err(), "{url}");
        }
        let message = Target::of_url("wss://box/exec?token=s3cret").unwrap_err();
        assert!(!message.contains("s3cret"), "{message}");
    }

    #[test]
    fn the_status_is_that_of_the_first_line() {
        assert_eq!(status(b"HTTP/1.1 200 OK\r\n"), Some(200));
        assert_eq!(status(b"HTTP/1.0 503"), Some(503));
        for other in [&b"SSH-2.0-OpenSSH\r\n"[..], b"", b"HTTP/1.1 2", b"HTTP/1.1 +20"] {
            assert_eq!(status(other), None);
        }
    }
}
