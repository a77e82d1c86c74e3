//! WebSocket (RFC 6455): the receiving side of a connection. A client's handshake is tungstenite's, and
//! so are the headers of the frames that come.

mod frame;
mod handshake;
mod incoming;

pub(super) use frame::{Control, control, new_mask, write_header};
pub(crate) use handshake::Handshake;

use std::io;
use std::sync::Arc;
use std::time::Instant;

use tungstenite::protocol::frame::coding::CloseCode;

use self::incoming::{Came, Fault, Incoming};
use super::{
    End, Event, FENCED, Outbox, Patience, Silence, Source, Stream, TurnSource, Verdict, Wait, Watch,
};

/// The receiving side of a WebSocket, server's or client's. What is to be said to the peer (pongs, the
/// answer to a close) goes through the outbox, to the one who writes.
pub(crate) struct WsSource {
    incoming: Incoming,
    line: Line,
}

/// What messages are read from.
struct Line {
    stream: Stream,
    outbox: Outbox,
    silence: Silence,
    is_client: bool,
}

impl WsSource {
    /// The server's, whose handshake is over; `read` is what came behind it.
    pub(crate) fn of_server(
        stream: Stream,
        read: Vec<u8>,
        outbox: Outbox,
        patience: Patience,
        max_message_bytes: usize,
    ) -> io::Result<Self> {
        let line = Line::new(stream, outbox, patience, false)?;
        Ok(Self { incoming: Incoming::new(read, true, max_message_bytes), line })
    }

    /// The client's, after its handshake.
    pub(crate) fn of_client(
        handshake: Handshake,
        outbox: Outbox,
        patience: Patience,
        max_message_bytes: usize,
    ) -> io::Result<Self> {
        let (stream, read) = handshake.into_rest();
        let line = Line::new(stream, outbox, patience, true)?;
        Ok(Self { incoming: Incoming::new(read, false, max_message_bytes), line })
    }

    /// Answers a close frame, and says what it means.
    fn closed(&self) -> End {
        let payload = self.incoming.payload();
        let (code, reason) = match payload {
            [] => (None, ""),
            [high, low, reason @ ..] => match std::str::from_utf8(reason) {
                Ok(reason) => (Some(u16::from_be_bytes([*high, *low])), reason),
                Err(_) => return NOT_TEXT,
            },
            [_] => return End::Offence(1002, "a close frame has a code of two bytes"),
        };
        let is_fine = code.is_none_or(|code| CloseCode::from(code).is_allowed());
        self.line.outbox.answer_close(if is_fine { payload } else { &BAD_CODE });
        match code {
            Some(code) if self.line.is_client && is_fine => closed_for(code, reason),
            Some(code) if self.line.is_client => {
                End::Lost(format!("the server closed it with the code {code}, which says nothing"))
            }
            _ => End::Closed,
        }
    }
}

const NOT_TEXT: End = End::Offence(1007, "a text frame must be UTF-8");
const BAD_CODE: [u8; 2] = 1002_u16.to_be_bytes();

/// What a server says when it closes.
fn closed_for(code: u16, reason: &str) -> End {
    match (code, reason) {
        (FENCED, _) => End::Fenced,
        (1000, _) | (_, "") => End::Closed,
        _ => End::Lost(format!("the server closed it: {reason} ({code})")),
    }
}

impl Line {
    fn new(
        stream: Stream,
        outbox: Outbox,
        patience: Patience,
        is_client: bool,
    ) -> io::Result<Self> {
        stream.socket().set_read_timeout(Some(patience.ping))?;
        Ok(Self { stream, outbox, silence: Silence::new(patience), is_client })
    }

    /// Reads so many bytes at most into what the buffer has room for, and waits for so long.
    fn read(&mut self, buffer: &mut Vec<u8>, most: usize, wait: Wait) -> io::Result<usize> {
        // As long as a blocking read takes anyway there is no need to look before it.
        let wait = match wait {
            Wait::Until(deadline) if deadline >= Instant::now() + self.silence.patience.ping => {
                Wait::Forever
            }
            wait => wait,
        };
        let read = self.stream.read(buffer, most, wait);
        if self.stream.owes_a_write() {
            self.outbox.raw(Vec::new());
        }
        let count = read?;
        if count > 0 {
            self.silence.heard();
            self.outbox.traffic().receive(count);
            // A client pings also while it hears something: it is the server that has to hear it.
            if self.is_client && self.silence.ping_is_due(self.silence.heard) {
                self.outbox.ping();
            }
        }
        Ok(count)
    }

    /// A server waits while its peer does not read its answers. A client must not wait here: others may
    /// be about to write what this one's caller does not know of. Where hundreds of requests wait to be
    /// written, the server hears that it lives by these.
    fn answer_ping(&self, payload: &[u8]) -> Option<End> {
        if self.is_client {
            if !self.outbox.is_crowded() {
                self.outbox.pong(payload);
            }
            return None;
        }
        self.outbox.pong(payload);
        let has_read = self.outbox.throttle(self.silence.patience.timeout);
        (!has_read).then(End::does_not_read)
    }

    /// What to do when nothing has come for a while.
    fn idle(&mut self) -> Option<End> {
        match self.silence.judge(Instant::now()) {
            Verdict::GiveUp => Some(End::Silent),
            Verdict::Ping => {
                self.outbox.ping();
                None
            }
            Verdict::Wait => None,
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
        let end = loop {
            let Self { incoming, line } = self;
            // (Who has not looked at the stream has not found the peer silent, nor that no more is to come.)
            let came = match wait {
                Wait::Not if !line.stream.holds_more() => incoming.held().transpose()?,
                _ => incoming.next(|buffer, most| line.read(buffer, most, wait)),
            };
            match came {
                Ok(Came::Text) => {
                    let text = std::str::from_utf8(self.incoming.payload());
                    return Some(text.map_or(Event::End(NOT_TEXT), Event::Message));
                }
                Ok(Came::Ping) => {
                    if let Some(end) = line.answer_ping(incoming.payload()) {
                        break end;
                    }
                }
                Ok(Came::Pong) => {}
                // A caller may have had enough of waiting, though the stream is never empty.
                Ok(Came::Noise) if line.is_client => return None,
                Ok(Came::Noise) => {}
                Ok(Came::Close) => break self.closed(),
                Err(Fault::Offence(code, reason)) => break End::Offence(code, reason),
                Err(Fault::Ended) => {
                    break End::Lost("the stream ended without a close frame".to_owned());
                }
                Err(Fault::Io(error)) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                        if matches!(wait, Wait::Not) {
                            return None;
                        }
                        if let Some(end) = line.idle() {
                            break end;
                        }
                        if wait.is_over() {
                            return None;
                        }
                    }
                    // A program may be interrupted more often than its peer is to be pinged.
                    io::ErrorKind::Interrupted => {
                        if let Some(end) = line.idle() {
                            break end;
                        }
                    }
                    _ => break End::Lost(error.to_string()),
                },
            }
        };
        Some(Event::End(end))
    }

    fn watch(&self) -> Watch {
        let from = Arc::clone(self.line.stream.socket());
        Watch { from, stop: None, every: self.line.silence.patience.ping / 2 }
    }
}
