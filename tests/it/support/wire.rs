//! One message each way, over a WebSocket or over the pipes of a stdio child. Nothing is read
//! unless a test asks for it, so that a host that does not read is one that does not call.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsFd as _;
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus};
use std::time::{Duration, Instant};

use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Error, Message, WebSocket};

use super::frames::{FIN, TEXT, masked};
use super::{DEADLINE, server, sys};

pub(crate) enum Wire {
    WebSocket(Box<WebSocket<TcpStream>>),
    Stdio(Box<Pipes>),
}

pub(crate) struct Pipes {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    unread: Vec<u8>,
    /// How far `unread` is known to hold no line feed.
    scanned: usize,
}

pub(crate) enum Event {
    Text(String),
    Closed(Closing),
    /// Nothing came in time.
    Silence,
}

/// How the server ended the connection. stdio has neither code nor reason.
#[derive(Clone, Debug, Default)]
pub(crate) struct Closing {
    pub(crate) code: Option<u16>,
    pub(crate) reason: String,
}

impl Wire {
    pub(crate) fn websocket(stream: TcpStream, unread: Vec<u8>) -> Self {
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        let socket = WebSocket::from_partially_read(stream, unread, Role::Client, Some(config));
        Self::WebSocket(Box::new(socket))
    }

    pub(crate) fn stdio(mut child: Child) -> Self {
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        sys::set_nonblocking(&stdin);
        sys::set_nonblocking(&stdout);
        let (stdin, stdout) = (Some(stdin), Some(stdout));
        Self::Stdio(Box::new(Pipes { child, stdin, stdout, unread: Vec::new(), scanned: 0 }))
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::WebSocket(_) => "websocket",
            Self::Stdio(_) => "stdio",
        }
    }

    pub(crate) fn send(&mut self, text: &str) -> io::Result<()> {
        match self {
            Self::WebSocket(socket) => socket.send(Message::text(text)).map_err(io_error),
            Self::Stdio(pipes) => {
                let mut line = Vec::with_capacity(text.len() + 1);
                line.extend_from_slice(text.as_bytes());
                line.push(b'\n');
                pipes.write(&line, DEADLINE)
            }
        }
    }

    /// Sends without reading, until the far end has taken nothing for so long; whether the message
    /// went out whole. After `false` nothing more can be sent.
    pub(crate) fn try_send_unread(&mut self, text: &str, patience: Duration) -> bool {
        match self {
            Self::WebSocket(socket) => {
                let mut stream = socket.get_ref();
                stream.set_write_timeout(Some(patience)).unwrap();
                let sent = stream.write_all(&masked(FIN | TEXT, text.as_bytes()));
                stream.set_write_timeout(Some(DEADLINE)).unwrap();
                sent.is_ok()
            }
            Self::Stdio(pipes) => pipes.write(format!("{text}\n").as_bytes(), patience).is_ok(),
        }
    }

    pub(crate) fn receive(&mut self, until: Instant) -> Event {
        match self {
            Self::WebSocket(socket) => receive_frame(socket, until),
            Self::Stdio(pipes) => pipes.receive(until),
        }
    }

    pub(crate) fn pipes(&mut self) -> &mut Pipes {
        match self {
            Self::Stdio(pipes) => pipes,
            Self::WebSocket(_) => panic!("not a stdio peer"),
        }
    }

    pub(crate) fn socket(&mut self) -> &mut WebSocket<TcpStream> {
        match self {
            Self::WebSocket(socket) => socket,
            Self::Stdio(_) => panic!("not a WebSocket peer"),
        }
    }

    /// Ends the connection as the transport has it: FIN, or the end of stdin.
    pub(crate) fn hang_up(&mut self) {
        match self {
            Self::WebSocket(socket) => {
                let _ = socket.get_ref().shutdown(std::net::Shutdown::Both);
            }
            Self::Stdio(pipes) => pipes.stdin = None,
        }
    }
}

fn receive_frame(socket: &mut WebSocket<TcpStream>, until: Instant) -> Event {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = left.max(Duration::from_millis(1));
        socket.get_ref().set_read_timeout(Some(timeout)).unwrap();
        match socket.read() {
            Ok(Message::Text(text)) => return Event::Text(text.as_str().to_owned()),
            Ok(Message::Close(frame)) => {
                let _ = socket.flush();
                let closing = frame.map(|frame| Closing {
                    code: Some(frame.code.into()),
                    reason: frame.reason.as_str().to_owned(),
                });
                return Event::Closed(closing.unwrap_or_default());
            }
            Ok(Message::Binary(bytes)) => panic!("a binary frame of {} bytes", bytes.len()),
            Ok(_) if left.is_zero() => return Event::Silence,
            Ok(_) => (),
            Err(Error::Io(error)) if is_timeout(&error) => {
                if left <= timeout {
                    return Event::Silence;
                }
            }
            // (The kernel does not take up a read with a timeout again, whatever has interrupted it,
            // such as SIGCHLD for a child of another test's thread.)
            Err(Error::Io(error)) if error.kind() == ErrorKind::Interrupted => (),
            Err(_) => return Event::Closed(Closing::default()),
        }
    }
}

impl Pipes {
    /// The process that was started, which guards the one that serves.
    pub(crate) fn guardian(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn write(&mut self, mut bytes: &[u8], limit: Duration) -> io::Result<()> {
        let end = Instant::now() + limit;
        let stdin = self.stdin.as_mut().ok_or(ErrorKind::BrokenPipe)?;
        while !bytes.is_empty() {
            match stdin.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(ErrorKind::TimedOut.into());
                    }
                    sys::writable(stdin.as_fd(), left);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(crate) fn close_stdout(&mut self) {
        self.stdout = None;
    }

    pub(crate) fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        server::wait(&mut self.child, limit)
    }

    fn receive(&mut self, until: Instant) -> Event {
        let mut chunk = vec![0; 64 * 1024];
        loop {
            if let Some(line) = self.take_line() {
                return Event::Text(line);
            }
            let Some(stdout) = self.stdout.as_mut() else {
                return Event::Closed(Closing::default());
            };
            match stdout.read(&mut chunk) {
                Ok(0) => {
                    let left = String::from_utf8_lossy(&self.unread);
                    assert!(left.is_empty(), "stdout ends within a line: {left:.200}");
                    return Event::Closed(Closing::default());
                }
                Ok(count) => self.unread.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Event::Silence;
                    }
                    sys::readable(stdout.as_fd(), left);
                }
                Err(error) => panic!("cannot read the server's stdout: {error}"),
            }
        }
    }

    fn take_line(&mut self) -> Option<String> {
        let found = self.unread[self.scanned..].iter().position(|byte| *byte == b'\n');
        let Some(found) = found else {
            self.scanned = self.unread.len();
            return None;
        };
        let end = self.scanned + found;
        let line = self.unread[..end].to_vec();
        self.unread.drain(..=end);
        self.scanned = 0;
        Some(String::from_utf8(line).expect("stdout carries UTF-8"))
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        self.stdin = None;
        self.stdout = None;
        if self.wait(Duration::from_secs(3)).is_none() {
            server::stop(&mut self.child);
        }
    }
}

fn io_error(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        other => io::Error::new(ErrorKind::BrokenPipe, other.to_string()),
    }
}

pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
