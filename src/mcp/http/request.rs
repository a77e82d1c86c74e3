//! What an agent sends.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use super::PATIENCE;
use super::reply::Reply;
use crate::error::{Error, ErrorKind};
use crate::protocol::rpc;
use crate::transport::http::Head;

/// The longest body that is taken.
const MAX_BODY: usize = 64 * 1024 * 1024;

/// A request without its body.
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    headers: Vec<(String, Vec<u8>)>,
    /// What came behind the head.
    rest: Vec<u8>,
}

impl Request {
    pub(super) fn parse(head: Head) -> Result<Self, Reply> {
        let mut headers = [httparse::EMPTY_HEADER; 128];
        let mut request = httparse::Request::new(&mut headers);
        let parsed = request.parse(&head.bytes);
        let (Ok(httparse::Status::Complete(_)), Some(method), Some(target)) =
            (parsed, request.method, request.path)
        else {
            return Err(Reply::text(400, "this is not an HTTP request"));
        };
        let path = target.split_once('?').map_or(target, |(path, _)| path);
        let (method, path) = (method.to_owned(), path.to_owned());
        let own = |header: &httparse::Header<'_>| (header.name.to_owned(), header.value.to_vec());
        let headers = request.headers.iter().map(own).collect();
        Ok(Self { method, path, headers, rest: head.rest })
    }

    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let named = self.headers.iter().filter(|(given, _)| given.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_slice())
    }

    pub(super) fn one(&self, name: &str) -> Option<&str> {
        let value = self.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name));
        std::str::from_utf8(&value?.1).ok().map(str::trim)
    }

    pub(super) fn accepts_events(&self) -> bool {
        self.one("Accept").is_some_and(|types| types.contains("text/event-stream"))
    }

    /// Reads the body; the inner error is what to answer in its place.
    pub(super) fn body(&self, mut socket: &TcpStream) -> io::Result<Result<String, Reply>> {
        let length = self.one("Content-Length").and_then(|length| length.parse::<usize>().ok());
        let Some(length) = length else {
            return Ok(Err(Reply::text(411, "a Content-Length is needed")));
        };
        if length > MAX_BODY {
            return Ok(Err(Reply::text(413, "the message is longer than 64 MiB")));
        }
        if self.one("Expect").is_some_and(|it| it.eq_ignore_ascii_case("100-continue")) {
            socket.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let deadline = Instant::now() + PATIENCE;
        let mut body = self.rest.clone();
        let mut chunk = vec![0; 64 * 1024];
        while body.len() < length {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            socket.set_read_timeout(Some(left))?;
            match socket.read(&mut chunk) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => body.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        body.truncate(length);
        Ok(String::from_utf8(body).map_err(|_| {
            let mut message = Vec::new();
            let error = Error::new(ErrorKind::Parse, "the message is not UTF-8");
            rpc::write_error(&mut message, None, &error);
            Reply::json(400, message)
        }))
    }
}
