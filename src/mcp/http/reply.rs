//! What an agent is answered.

use std::io::{self, Write as _};
use std::net::TcpStream;

/// An answer after which the connection is closed.
pub(super) struct Reply {
    status: u16,
    headers: String,
    body: Vec<u8>,
}

impl Reply {
    pub(super) fn text(status: u16, text: &str) -> Self {
        let body = format!("{text}\n").into_bytes();
        Self { status, headers: String::new(), body }
            .with("Content-Type", "text/plain; charset=utf-8")
    }

    pub(super) fn json(status: u16, body: Vec<u8>) -> Self {
        Self { status, headers: String::new(), body }.with("Content-Type", "application/json")
    }

    pub(super) fn empty(status: u16) -> Self {
        Self { status, headers: String::new(), body: Vec::new() }
    }

    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    pub(super) fn write(&self, mut socket: &TcpStream) -> io::Result<()> {
        let reason = match self.status {
            200 => "OK",
            202 => "Accepted",
            204 => "No Content",
            400 => "Bad Request",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            411 => "Length Required",
            413 => "Content Too Large",
            503 => "Service Unavailable",
            _ => "Internal Server Error",
        };
        // (204 has no length.)
        let length = match self.status {
            204 => String::new(),
            _ => format!("Content-Length: {}\r\n", self.body.len()),
        };
        let head = format!(
            "HTTP/1.1 {} {reason}\r\n{}{length}Connection: close\r\n\r\n",
            self.status, self.headers
        );
        socket.write_all(&[head.as_bytes(), &self.body].concat())
    }
}
