//! WebSocket frames by hand, for the ones a library would not send.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::http::Upgraded;
use super::{DEADLINE, Server};

pub(crate) const FIN: u8 = 0x80;
pub(crate) const CONTINUATION: u8 = 0x0;
pub(crate) const TEXT: u8 = 0x1;
pub(crate) const BINARY: u8 = 0x2;
pub(crate) const CLOSE: u8 = 0x8;
pub(crate) const PING: u8 = 0x9;
pub(crate) const PONG: u8 = 0xA;

const MASK: [u8; 4] = [0x11, 0x22, 0x33, 0x44];

pub(crate) struct Frames {
    pub(crate) stream: TcpStream,
    unread: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) opcode: u8,
    pub(crate) payload: Vec<u8>,
}

impl Frames {
    pub(crate) fn connect(server: &Server) -> Self {
        Self::new(server.upgrade())
    }

    pub(crate) fn new((stream, unread): Upgraded) -> Self {
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        Self { stream, unread }
    }

    pub(crate) fn send(&mut self, first_byte: u8, payload: &[u8]) {
        self.stream.write_all(&masked(first_byte, payload)).unwrap();
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.send(FIN | TEXT, text.as_bytes());
    }

    /// The next frame; `None` once the server has closed.
    #[track_caller]
    pub(crate) fn next(&mut self) -> Option<Frame> {
        let end = Instant::now() + DEADLINE;
        let mut chunk = [0; 4096];
        loop {
            if let Some(frame) = self.parse() {
                return Some(frame);
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "neither a frame nor an end within {DEADLINE:?}");
            self.stream.set_read_timeout(Some(left)).unwrap();
            match self.stream.read(&mut chunk) {
                Ok(count @ 1..) => self.unread.extend_from_slice(&chunk[..count]),
                Err(error) if super::wire::is_timeout(&error) => (),
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Ok(_) | Err(_) => return None,
            }
        }
    }

    /// The next frame that is not a ping of the server's.
    #[track_caller]
    pub(crate) fn message(&mut self) -> Frame {
        loop {
            let frame = self.next().expect("a frame, but the server has closed");
            if frame.opcode != PING {
                return frame;
            }
        }
    }

    /// Reads to the end; the code of the close frame on the way, if there was one.
    #[track_caller]
    pub(crate) fn close_code(&mut self) -> Option<u16> {
        let mut code = None;
        while let Some(frame) = self.next() {
            if frame.opcode == CLOSE && code.is_none() {
                code = frame.payload.first_chunk().map(|bytes| u16::from_be_bytes(*bytes));
            }
        }
        code
    }

    fn parse(&mut self) -> Option<Frame> {
        let bytes = &self.unread;
        let (first, second) = (*bytes.first()?, *bytes.get(1)?);
        assert_eq!(second & 0x80, 0, "a server does not mask");
        let (length, head) = match second {
            126 => (u64::from(u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?)), 4),
            127 => (u64::from_be_bytes(*bytes.get(2..)?.first_chunk()?), 10),
            short => (u64::from(short), 2),
        };
        let end = head + usize::try_from(length).unwrap();
        let payload = bytes.get(head..end)?.to_vec();
        self.unread.drain(..end);
        Some(Frame { opcode: first & 0x0F, payload })
    }
}

/// A client's frame.
pub(crate) fn masked(first_byte: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = head(first_byte, 0x80, u64::try_from(payload.len()).unwrap());
    bytes.extend_from_slice(&MASK);
    bytes.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

pub(crate) fn unmasked(first_byte: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = head(first_byte, 0, u64::try_from(payload.len()).unwrap());
    bytes.extend_from_slice(payload);
    bytes
}

/// The head of a client's frame that announces this many bytes, mask included.
pub(crate) fn announcing(first_byte: u8, length: u64) -> Vec<u8> {
    let mut bytes = head(first_byte, 0x80, length);
    bytes.extend_from_slice(&MASK);
    bytes
}

fn head(first_byte: u8, mask_bit: u8, length: u64) -> Vec<u8> {
    let mut bytes = vec![first_byte];
    if let Some(short) = u8::try_from(length).ok().filter(|length| *length < 126) {
        bytes.push(mask_bit | short);
    } else if let Ok(medium) = u16::try_from(length) {
        bytes.push(mask_bit | 126);
        bytes.extend_from_slice(&medium.to_be_bytes());
    } else {
        bytes.push(mask_bit | 127);
        bytes.extend_from_slice(&length.to_be_bytes());
    }
    bytes
}

/// Writes the same bytes again and again until `total` are out or the far end takes no more for
/// half a second; returns how many it took.
pub(crate) fn flood(stream: &mut TcpStream, bytes: &[u8], total: usize) -> usize {
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let block = bytes.repeat((64 * 1024 / bytes.len()).max(1));
    let mut sent = 0;
    while sent < total {
        match stream.write(&block[sent % block.len()..]) {
            Ok(count @ 1..) => sent += count,
            Ok(_) | Err(_) => break,
        }
    }
    sent
}
