//! WebSocket (RFC 6455): reading by tungstenite, frame headers by hand.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Instant;

use tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tungstenite::{Error as WsError, Message, Utf8Bytes, WebSocket};

use super::ahead::Ahead;
use super::outbox::HEADROOM;
use super::stream::Room;
use super::{
    End, Event, FENCED, Outbox, Patience, Silence, Source, Stream, TurnSource, Verdict, Wait, Watch,
};
use crate::sys::{self, host};

/// What the library is to read at a time; [`Ahead`] reads more. Idle connections keep this much each.
const READ_BUFFER: usize = 4 * 1024;

/// How the connection is read.
pub(crate) fn config(max_message_bytes: usize) -> WebSocketConfig {
    // A host sends one frame a message, so both limits are the same.
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(0)
        .max_message_size(Some(max_message_bytes))
        .max_frame_size(Some(max_message_bytes))
}

/// The stream as tungstenite sees it: it reads from the socket, and what it wants to write
/// (pongs, the answer to a close) goes through the writer thread, which alone owns the sending
/// side once there is one.
pub(crate) struct Halves {
    stream: Stream,
    /// `None` during a client's handshake.
    outbox: Option<Outbox>,
    silence: Silence,
    /// A client pings also while it hears something: it is the server that has to hear it.
    pings_always: bool,
    /// The end of a client's handshake.
    deadline: Option<Instant>,
    ahead: Ahead,
    /// How long a read may take.
    wait: Wait,
}

impl Halves {
    /// The server's, whose handshake is over.
    pub(crate) fn new(stream: Stream, outbox: Outbox, patience: Patience) -> io::Result<Self> {
        stream.socket().set_read_timeout(Some(patience.ping))?;
        let silence = Silence::new(patience);
        Ok(Self {
            stream,
            outbox: Some(outbox),
            silence,
            pings_always: false,
            deadline: None,
            ahead: Ahead::default(),
            wait: Wait::Forever,
        })
    }

    /// A client's, before its handshake.
    pub(crate) fn connecting(stream: Stream, patience: Patience, deadline: Instant) -> Self {
        Self {
            stream,
            outbox: None,
            silence: Silence::new(patience),
            pings_always: true,
            deadline: Some(deadline),
            ahead: Ahead::default(),
            wait: Wait::Forever,
        }
    }

    /// During the handshake: all of it has one deadline, however slowly the answer drips.
    fn mind_deadline(&self) -> io::Result<()> {
        let Some(deadline) = self.deadline else { return Ok(()) };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            // What a read that waits for too long answers, too.
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.stream.socket().set_read_timeout(Some(left))
    }

    /// During the handshake: waits until the whole head of the answer has come. (The library takes one
    /// that comes in many small pieces, as over a slow line, for an attack.)
    #[inline(never)] // its buffer is no part of every other read
    fn fill_head(&mut self) -> io::Result<()> {
        const LONGEST: usize = 16 * 1024;
        let mut piece = [0; 4096];
        let is_whole = |head: &[u8]| head.windows(4).any(|four| four == b"\r\n\r\n");
        while self.ahead.waiting().len() < LONGEST && !is_whole(self.ahead.waiting()) {
            self.mind_deadline()?;
            // (The kernel does not take up a read with a timeout again, whatever has interrupted it: a
            // stop and its end, or SIGCHLD for a child of another thread.)
            let read = || {
                let read = self.stream.read(Room::All(&mut piece), Wait::Forever);
                if self.stream.owes_a_write() {
                    self.stream.flush()?;
                }
                read
            };
            match sys::retry(read)? {
                0 => break,
                count => self.ahead.add(&piece[..count]),
            }
        }
        Ok(())
    }

    /// The handshake is over: from now on the writer thread writes.
    pub(crate) fn connected(&mut self, outbox: Outbox) -> io::Result<()> {
        self.stream.socket().set_read_timeout(Some(self.silence.patience.ping))?;
        self.silence = Silence::new(self.silence.patience);
        self.outbox = Some(outbox);
        self.deadline = None;
        Ok(())
    }

    fn ping(&self) {
        if let Some(outbox) = &self.outbox {
            outbox.ping();
        }
    }

    fn throttle(&self) -> bool {
        self.outbox.as_ref().is_none_or(|outbox| outbox.throttle(self.silence.patience.timeout))
    }
}

impl Read for Halves {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.deadline.is_some() {
            self.fill_head()?;
        }
        let Self { stream, outbox, silence, ahead, wait, .. } = self;
        if matches!(wait, Wait::Not) && ahead.waiting().is_empty() && !stream.holds_more() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // As long as a blocking read takes anyway there is no need to look before it.
        let wait = match *wait {
            Wait::Until(deadline) if deadline >= Instant::now() + silence.patience.ping => {
                Wait::Forever
            }
            wait => wait,
        };
        let mut was_read = 0;
        let count = ahead.read(buffer, |room| {
            let read = stream.read(room, wait);
            if stream.owes_a_write()
                && let Some(outbox) = outbox
            {
                outbox.raw(Vec::new());
            }
            was_read = *read.as_ref().unwrap_or(&0);
            read
        })?;
        if was_read > 0 {
            silence.heard();
            if let Some(outbox) = outbox {
                outbox.traffic().receive(was_read);
            }
            if self.pings_always && self.silence.ping_is_due(self.silence.heard) {
                self.ping();
            }
        }
        Ok(count)
    }
}

impl Write for Halves {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.outbox {
            Some(outbox) => {
                outbox.raw(bytes.to_vec());
                Ok(bytes.len())
            }
            None => self.stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The receiving side of a WebSocket, server's or client's.
pub(crate) struct WsSource {
    socket: WebSocket<Halves>,
    text: Utf8Bytes,
    is_client: bool,
}

impl WsSource {
    /// Takes over after the handshake; `read` is what came behind it.
    pub(crate) fn new(halves: Halves, read: Vec<u8>, role: Role, config: WebSocketConfig) -> Self {
        let socket = WebSocket::from_partially_read(halves, read, role, Some(config));
        Self { socket, text: Utf8Bytes::default(), is_client: role == Role::Client }
    }

    /// Takes over from a client's handshake, whose object may already hold the first frames.
    pub(crate) fn after_handshake(socket: WebSocket<Halves>) -> Self {
        Self { socket, text: Utf8Bytes::default(), is_client: true }
    }

    /// What to do when nothing has come for a while.
    fn idle(&mut self) -> Option<End> {
        let halves = self.socket.get_mut();
        match halves.silence.judge(Instant::now()) {
            Verdict::GiveUp => Some(End::Silent),
            Verdict::Ping => {
                halves.ping();
                None
            }
            Verdict::Wait => None,
        }
    }

    fn fail(error: WsError) -> End {
        match error {
            WsError::ConnectionClosed | WsError::AlreadyClosed => End::Closed,
            WsError::Capacity(_) => End::Offence(1009, "the message is too long"),
            WsError::Utf8(_) => End::Offence(1007, "a text frame must be UTF-8"),
            WsError::Protocol(tungstenite::error::ProtocolError::ResetWithoutClosingHandshake) => {
                End::Lost("the stream ended without a close frame".to_owned())
            }
            WsError::Protocol(_) => End::Offence(1002, "the frame breaks the WebSocket protocol"),
            error => End::Lost(error.to_string()),
        }
    }
}

impl Source for WsSource {
    fn next(&mut self) -> Event<'_> {
        // (Whoever waits for ever gets something.)
        self.next_within(Wait::Forever).unwrap_or(Event::End(End::Closed))
    }
}

impl TurnSource for WsSource {
    fn next_within(&mut self, wait: Wait) -> Option<Event<'_>> {
        // A long message is not kept while nothing comes.
        self.text = Utf8Bytes::default();
        self.socket.get_mut().wait = wait;
        let end = loop {
            match self.socket.read() {
                Ok(Message::Text(text)) => {
                    self.text = text;
                    return Some(Event::Message(&self.text));
                }
                Ok(Message::Binary(_)) => break End::Offence(1003, "messages are text frames"),
                Ok(Message::Close(frame)) => {
                    // Sends the answer; after that there is nothing to say.
                    let _ = self.socket.flush();
                    break match frame {
                        Some(frame) if self.is_client => closed_for(&frame),
                        _ => End::Closed,
                    };
                }
                Ok(Message::Ping(_)) => {
                    if !self.socket.get_ref().throttle() {
                        break End::Silent;
                    }
                }
                Ok(Message::Pong(_) | Message::Frame(_)) => {}
                Err(WsError::Io(error))
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) =>
                {
                    // (Who has not looked has not found the peer silent.)
                    if matches!(wait, Wait::Not) {
                        return None;
                    }
                    if let Some(end) = self.idle() {
                        break end;
                    }
                    if wait.is_over() {
                        return None;
                    }
                }
                // A program may be interrupted more often than its peer is to be pinged.
                Err(WsError::Io(error)) if error.kind() == io::ErrorKind::Interrupted => {
                    if let Some(end) = self.idle() {
                        break end;
                    }
                }
                Err(error) => break Self::fail(error),
            }
        };
        Some(Event::End(end))
    }

    fn expects_more(&self) -> bool {
        self.socket.get_ref().ahead.expects_more()
    }

    fn watch(&self) -> Watch {
        let halves = self.socket.get_ref();
        let from = Arc::clone(halves.stream.socket());
        Watch { from, stop: None, every: halves.silence.patience.ping / 2 }
    }
}

/// What a server says when it closes.
fn closed_for(frame: &CloseFrame) -> End {
    match (u16::from(frame.code), frame.reason.as_str()) {
        (FENCED, _) => End::Fenced,
        (1000, _) | (_, "") => End::Closed,
        (code, reason) => End::Lost(format!("the server closed it: {reason} ({code})")),
    }
}

/// Writes the header of a text frame into the room before a message, and masks the message
/// where there is a mask. Answers where the frame starts.
pub(super) fn write_header(buffer: &mut [u8], mask: Option<[u8; 4]>) -> usize {
    const TEXT: u8 = 0x81;
    let length = buffer.len() - HEADROOM;
    let masked = if mask.is_some() { 0x80 } else { 0 };
    let mut header = [0_u8; HEADROOM];
    header[0] = TEXT;
    let size = match length {
        0..=125 => {
            header[1] = masked | u8::try_from(length).unwrap_or(125);
            2
        }
        126..=0xffff => {
            header[1] = masked | 126;
            header[2..4].copy_from_slice(&u16::try_from(length).unwrap_or(0).to_be_bytes());
            4
        }
        _ => {
            header[1] = masked | 127;
            header[2..10].copy_from_slice(&(length as u64).to_be_bytes());
            10
        }
    };
    let size = match mask {
        None => size,
        Some(mask) => {
            header[size..size + 4].copy_from_slice(&mask);
            apply_mask(&mut buffer[HEADROOM..], mask);
            size + 4
        }
    };
    buffer[HEADROOM - size..HEADROOM].copy_from_slice(&header[..size]);
    HEADROOM - size
}

fn apply_mask(payload: &mut [u8], mask: [u8; 4]) {
    let [a, b, c, d] = mask;
    // (As whole numbers: a small build does arrays and iterators byte by byte, at a tenth of the rate.)
    let wide = u128::from_ne_bytes([a, b, c, d, a, b, c, d, a, b, c, d, a, b, c, d]);
    let (blocks, rest) = payload.as_chunks_mut::<16>();
    for block in blocks {
        *block = (u128::from_ne_bytes(*block) ^ wide).to_ne_bytes();
    }
    rest.iter_mut().zip(mask.into_iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
}

/// A mask that a peer cannot foresee. (Its purpose is that no web page can make a client send
/// chosen bytes through a proxy; no page has a hand in these.)
pub(super) fn new_mask() -> [u8; 4] {
    let [a, b, c, d, ..] = host::random_number().to_ne_bytes();
    [a, b, c, d]
}

/// A close frame, as a server sends it.
pub(crate) fn close_frame(code: u16, reason: &str) -> Vec<u8> {
    let reason = &reason.as_bytes()[..reason.len().min(123)];
    let mut frame = vec![0x88, u8::try_from(2 + reason.len()).unwrap_or(2)];
    frame.extend_from_slice(&code.to_be_bytes());
    frame.extend_from_slice(reason);
    frame
}

/// A close frame, as a client sends it.
pub(crate) fn client_close_frame(code: u16) -> Vec<u8> {
    let mask = new_mask();
    let [high, low] = code.to_be_bytes();
    let mut frame = vec![0x88, 0x82];
    frame.extend_from_slice(&mask);
    frame.extend_from_slice(&[high ^ mask[0], low ^ mask[1]]);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    /// tungstenite reads what was written by hand, at each length where the header changes.
    #[test]
    fn frames_written_by_hand_are_what_the_library_reads() {
        for length in [0, 1, 7, 8, 9, 125, 126, 127, 65_535, 65_536, 100_003] {
            for (mask, role) in [(None, Role::Client), (Some([1, 2, 3, 4]), Role::Server)] {
                let text = "x".repeat(length);
                let mut buffer = super::super::message(Vec::new());
                buffer.extend_from_slice(text.as_bytes());
                let start = write_header(&mut buffer, mask);
                let stream = io::Cursor::new(buffer[start..].to_vec());
                let mut socket = WebSocket::from_raw_socket(stream, role, None);
                assert_eq!(socket.read().unwrap().into_text().unwrap().as_str(), text);
            }
        }
    }
}
