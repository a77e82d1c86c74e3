//! WebSocket frames (RFC 6455) as they come, and the messages that they make.
//!
//! A message is given where it has been read to. The bytes that are moved are those that came together
//! with the end of the one before it, and fragments.

use std::io::{self, Cursor};
use std::ops::Range;

use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Control, Data, OpCode};

use super::frame::{CONTROL_MOST, apply_mask};
use crate::buffers;
use crate::transport::outbox::HEADROOM;

/// What is read at a time where no more is expected. Idle connections keep this much each.
const READ: usize = 4 * 1024;
/// What is read at a time of something longer. (More at a time holds up who sends: the kernel takes nothing
/// in while it gives something out.)
const PIECE: usize = 64 * 1024;
/// How many bytes of a frame that is not whole are unmasked at a time: whole blocks of the mask's.
const BLOCK: usize = 16;

/// How many frames may come without a message before that is told.
const MOST_NOISE: usize = 10_000;

/// What has been read of a stream.
pub(crate) struct Incoming {
    /// `read[taken..]` has not been looked at yet, but for the header of the frame there.
    read: Vec<u8>,
    taken: usize,
    /// How much of that frame's payload has been unmasked.
    unmasked: usize,
    /// Of a message in fragments, those that have come.
    fragments: Option<Vec<u8>>,
    payload: Payload,
    /// How many frames have come since the last message.
    noise: usize,
    expects_more: bool,
    /// The most bytes of one message.
    most: usize,
    is_masked: bool,
}

/// Where the payload is that was given last.
enum Payload {
    Read(Range<usize>),
    Fragments(Vec<u8>),
}

/// What has come. Its payload is [`Incoming::payload`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// A message; whether it is UTF-8 has not been looked at.
    Text,
    Ping,
    Pong,
    Close,
    /// A great many frames and no message: pings, fragments with nothing in them.
    Noise,
}

/// Why there will be no more, or not now.
#[derive(Debug)]
pub(super) enum Fault {
    /// Nothing is lost by it.
    Io(io::Error),
    /// The stream has ended.
    Ended,
    /// The peer broke a rule: the close code and reason to tell it.
    Offence(u16, &'static str),
}

const BROKEN: Fault = Fault::Offence(1002, "the frame breaks the WebSocket protocol");
const TOO_LONG: Fault = Fault::Offence(1009, "the message is too long");

impl Incoming {
    /// `read` is what has come already; `is_masked` whether what the peer sends has to be.
    pub(super) fn new(read: Vec<u8>, is_masked: bool, most: usize) -> Self {
        Self {
            read,
            taken: 0,
            unmasked: 0,
            fragments: None,
            payload: Payload::Read(0..0),
            noise: 0,
            expects_more: false,
            most,
            is_masked,
        }
    }

    /// The payload of what has come last.
    pub(super) fn payload(&self) -> &[u8] {
        match &self.payload {
            Payload::Read(range) => &self.read[range.clone()],
            Payload::Fragments(whole) => whole,
        }
    }

    /// What comes next; reads as often as it takes. `read` adds so many bytes at most to what the buffer
    /// holds, which has room for them.
    ///
    /// # Errors
    /// After [`Fault::Io`] it can be called again.
    pub(super) fn next(
        &mut self,
        mut read: impl FnMut(&mut Vec<u8>, usize) -> io::Result<usize>,
    ) -> Result<Came, Fault> {
        loop {
            match self.look()? {
                Found::Whole(came) => return Ok(came),
                Found::Part(size) => self.fill(size, &mut read)?,
            }
        }
    }

    /// The same of what has been read already; `None` if that is not whole.
    pub(super) fn held(&mut self) -> Result<Option<Came>, Fault> {
        Ok(match self.look()? {
            Found::Whole(came) => Some(came),
            Found::Part(_) => None,
        })
    }

    fn look(&mut self) -> Result<Found<Came>, Fault> {
        // What has been given is not kept while nothing comes.
        self.payload = Payload::Read(0..0);
        loop {
            if self.noise > MOST_NOISE {
                self.noise = 0;
                return Ok(Found::Whole(Came::Noise));
            }
            let (header, payload) = match self.frame()? {
                Found::Part(size) => return Ok(Found::Part(size)),
                Found::Whole(frame) => frame,
            };
            let came = self.take(&header, payload);
            self.noise = if came == Some(Came::Text) { 0 } else { self.noise + 1 };
            if let Some(came) = came {
                return Ok(Found::Whole(came));
            }
        }
    }

    /// Looks at the frame whose turn it is, and unmasks what there is of it.
    fn frame(&mut self) -> Result<Found<(FrameHeader, Range<usize>)>, Fault> {
        let mut rest = Cursor::new(&self.read[self.taken..]);
        let header = FrameHeader::parse(&mut rest).map_err(|_| BROKEN)?;
        let Some((header, length)) = header else { return Ok(Found::Part(HEADROOM)) };
        let start = self.taken + usize::try_from(rest.position()).unwrap_or(0);
        let length = self.judge(&header, length)?;
        let come = self.read.len() - start;
        let is_whole = come >= length;
        if let Some(mask) = header.mask {
            let until = if is_whole { length } else { come / BLOCK * BLOCK };
            apply_mask(&mut self.read[start + self.unmasked..start + until], mask);
            self.unmasked = until;
        }
        if !is_whole {
            return Ok(Found::Part(start - self.taken + length));
        }
        self.unmasked = 0;
        self.taken = start + length;
        Ok(Found::Whole((header, start..start + length)))
    }

    /// Whether the frame may come here and now, by its header; answers its length.
    fn judge(&self, header: &FrameHeader, length: u64) -> Result<usize, Fault> {
        let before = self.fragments.as_ref().map_or(0, Vec::len);
        let length = usize::try_from(length).ok().filter(|length| *length <= self.most);
        let length = length.ok_or(TOO_LONG)?;
        if header.rsv1 || header.rsv2 || header.rsv3 || header.mask.is_some() != self.is_masked {
            return Err(BROKEN);
        }
        match header.opcode {
            OpCode::Control(_) if !header.is_final || length > CONTROL_MOST => Err(BROKEN),
            OpCode::Control(Control::Reserved(_)) | OpCode::Data(Data::Reserved(_)) => Err(BROKEN),
            OpCode::Control(_) => Ok(length),
            OpCode::Data(Data::Continue) if self.fragments.is_none() => Err(BROKEN),
            OpCode::Data(Data::Text | Data::Binary) if self.fragments.is_some() => Err(BROKEN),
            OpCode::Data(Data::Binary) => Err(Fault::Offence(1003, "messages are text frames")),
            OpCode::Data(_) if length > self.most - before => Err(TOO_LONG),
            OpCode::Data(_) => Ok(length),
        }
    }

    /// Takes a whole frame; answers what it completes.
    fn take(&mut self, header: &FrameHeader, payload: Range<usize>) -> Option<Came> {
        let came = match header.opcode {
            OpCode::Control(Control::Ping) => Came::Ping,
            OpCode::Control(Control::Pong) => Came::Pong,
            OpCode::Control(_) => Came::Close,
            OpCode::Data(_) if header.is_final && self.fragments.is_none() => Came::Text,
            OpCode::Data(_) => {
                let fragments = self.fragments.get_or_insert_default();
                fragments.extend_from_slice(&self.read[payload]);
                if !header.is_final {
                    return None;
                }
                self.payload = Payload::Fragments(self.fragments.take().unwrap_or_default());
                return Some(Came::Text);
            }
        };
        self.payload = Payload::Read(payload);
        Some(came)
    }

    /// Reads, to where there is room for a frame of that size.
    fn fill(
        &mut self,
        size: usize,
        read: &mut impl FnMut(&mut Vec<u8>, usize) -> io::Result<usize>,
    ) -> Result<(), Fault> {
        self.read.drain(..self.taken);
        self.taken = 0;
        let is_bulk = self.expects_more || size > READ;
        let wanted = if is_bulk { size.max(buffers::CAPACITY) } else { READ };
        let has = self.read.capacity();
        // (Moving little out of what is huge is worth it.)
        let is_too_large = has > 2 * wanted && (self.read.is_empty() || has > buffers::LARGE);
        if has < wanted || is_too_large {
            let mut buffer =
                if is_bulk { buffers::take_for(wanted) } else { Vec::with_capacity(READ) };
            buffer.extend_from_slice(&self.read);
            buffers::give(std::mem::replace(&mut self.read, buffer));
        }
        let room = (self.read.capacity() - self.read.len()).min(PIECE);
        let read = read(&mut self.read, room);
        // What has brought nothing leaves no large buffer behind, either.
        self.expects_more = read.as_ref().is_ok_and(|count| *count == room);
        let count = read.map_err(Fault::Io)?;
        if count == 0 { Err(Fault::Ended) } else { Ok(()) }
    }
}

/// What has been read of what comes next.
enum Found<T> {
    /// How many bytes the frame has that is not whole, header and all, or at least as many.
    Part(usize),
    Whole(T),
}

#[cfg(test)]
mod tests {
    use tungstenite::protocol::{Role, WebSocketConfig};
    use tungstenite::{Error as WsError, Message, WebSocket};

    use super::*;

    const MOST: usize = 300_000;

    /// Numbers that look random, and are the same each time.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, end: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(self.0 >> 33).unwrap() % end
        }

        fn one_of<T: Copy>(&mut self, choice: &[T]) -> T {
            choice[self.below(choice.len())]
        }
    }

    /// A stream that gives a little at a time, and says in between that there is nothing.
    struct Drip<'a> {
        left: &'a [u8],
        most: usize,
        is_dry: bool,
    }

    impl Drip<'_> {
        fn give(&mut self, room: usize) -> io::Result<&[u8]> {
            self.is_dry = !self.is_dry;
            if self.is_dry {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let given;
            (given, self.left) = self.left.split_at(room.min(self.most).min(self.left.len()));
            Ok(given)
        }
    }

    impl io::Read for Drip<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let given = self.give(buffer.len())?;
            buffer[..given.len()].copy_from_slice(given);
            Ok(given.len())
        }
    }

    impl io::Write for Drip<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[derive(Clone, Debug, PartialEq, Eq)]
    enum Seen {
        Text(String),
        Ping(Vec<u8>),
        Pong(Vec<u8>),
        Closed,
        NotText,
        Offence(u16),
        Ended,
    }

    fn is_would_block(error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::WouldBlock
    }

    fn seen_by_us(bytes: &[u8], is_masked: bool, most: usize) -> Vec<Seen> {
        let mut drip = Drip { left: bytes, most, is_dry: false };
        let mut incoming = Incoming::new(Vec::new(), is_masked, MOST);
        let mut seen = Vec::new();
        loop {
            let came = incoming.next(|buffer, most| {
                assert!(most > 0 && most <= buffer.capacity() - buffer.len());
                let given = drip.give(most)?;
                buffer.extend_from_slice(given);
                Ok(given.len())
            });
            let payload = incoming.payload();
            seen.push(match came {
                Ok(Came::Text) => match std::str::from_utf8(payload) {
                    Ok(text) => Seen::Text(text.to_owned()),
                    Err(_) => Seen::NotText,
                },
                Ok(Came::Ping) => Seen::Ping(payload.to_vec()),
                Ok(Came::Pong) => Seen::Pong(payload.to_vec()),
                Ok(Came::Close) => Seen::Closed,
                Ok(Came::Noise) => panic!("there are no {MOST_NOISE} frames"),
                Err(Fault::Io(error)) if is_would_block(&error) => continue,
                Err(Fault::Offence(code, _)) => Seen::Offence(code),
                Err(Fault::Ended) => Seen::Ended,
                Err(Fault::Io(error)) => panic!("{error}"),
            });
            if !matches!(seen.last(), Some(Seen::Text(_) | Seen::Ping(_) | Seen::Pong(_))) {
                return seen;
            }
        }
    }

    fn seen_by_the_library(bytes: &[u8], is_masked: bool, most: usize) -> Vec<Seen> {
        let drip = Drip { left: bytes, most, is_dry: false };
        let role = if is_masked { Role::Server } else { Role::Client };
        let limits = WebSocketConfig::default();
        let limits = limits.max_message_size(Some(MOST)).max_frame_size(Some(MOST));
        let mut socket = WebSocket::from_raw_socket(drip, role, Some(limits));
        let mut seen = Vec::new();
        loop {
            use tungstenite::error::ProtocolError;
            seen.push(match socket.read() {
                Ok(Message::Text(text)) => Seen::Text(text.to_string()),
                Ok(Message::Ping(payload)) => Seen::Ping(payload.to_vec()),
                Ok(Message::Pong(payload)) => Seen::Pong(payload.to_vec()),
                Ok(Message::Binary(_)) => Seen::Offence(1003),
                // What a close frame holds is looked at elsewhere.
                Ok(Message::Close(_))
                | Err(WsError::Protocol(ProtocolError::InvalidCloseSequence)) => Seen::Closed,
                Ok(Message::Frame(_)) => panic!("a frame"),
                Err(WsError::Io(error)) if is_would_block(&error) => continue,
                Err(WsError::Utf8(_)) => Seen::NotText,
                Err(WsError::Capacity(_)) => Seen::Offence(1009),
                Err(WsError::Protocol(ProtocolError::ResetWithoutClosingHandshake)) => Seen::Ended,
                Err(_) => Seen::Offence(1002),
            });
            if !matches!(seen.last(), Some(Seen::Text(_) | Seen::Ping(_) | Seen::Pong(_))) {
                return seen;
            }
        }
    }

    /// A frame; where there is a mask, with one.
    fn frame(first: u8, payload: &[u8], mask: Option<[u8; 4]>) -> Vec<u8> {
        let masked = if mask.is_some() { 0x80 } else { 0 };
        let mut frame = vec![first];
        match u16::try_from(payload.len()) {
            Ok(short @ 0..126) => frame.push(masked | short.to_le_bytes()[0]),
            Ok(middle) => {
                frame.push(masked | 126);
                frame.extend(middle.to_be_bytes());
            }
            Err(_) => {
                frame.push(masked | 127);
                frame.extend((payload.len() as u64).to_be_bytes());
            }
        }
        frame.extend(mask.into_iter().flatten());
        let mut mask = mask.unwrap_or_default().into_iter().cycle();
        frame.extend(payload.iter().map(|byte| byte ^ mask.next().unwrap_or(0)));
        frame
    }

    /// What a peer may send, and in half of the cases with a byte that is another, or without its end.
    fn conversation(numbers: &mut Numbers, is_masked: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut is_open = false;
        let mut text = "a€ö𝄞-".bytes().cycle().peekable();
        for _ in 0..numbers.below(12) {
            let mask = is_masked.then(|| [(); 4].map(|()| numbers.below(256).to_le_bytes()[0]));
            let first = match numbers.below(10) {
                0 => 0x89,
                1 => 0x8a,
                2 if numbers.below(10) == 0 => 0x88,
                _ => {
                    let is_final = numbers.below(3) > 0;
                    let opcode = u8::from(!is_open);
                    is_open = !is_final;
                    opcode | if is_final { 0x80 } else { 0 }
                }
            };
            let sizes: &[usize] = if first & 0x08 != 0 {
                &[0, 11, 22, 121]
            } else {
                &[0, 1, 15, 16, 17, 125, 126, 4081, 4082, 4083, 65_535, 65_536, 90_000, 200_000]
            };
            let size = numbers.one_of(sizes);
            let mut payload: Vec<u8> = text.by_ref().take(size).collect();
            // A message ends with a whole character, and its fragments need not.
            while first & 0x88 == 0x80 && text.peek().is_some_and(|byte| byte & 0xc0 == 0x80) {
                payload.extend(text.next());
            }
            bytes.extend(frame(first, &payload, mask));
        }
        if numbers.below(2) == 0 && !bytes.is_empty() {
            let near = numbers.one_of(&[20, usize::MAX]);
            let place = numbers.below(bytes.len().min(near));
            if numbers.below(2) == 0 {
                bytes[place] = numbers.below(256).to_le_bytes()[0];
            } else {
                bytes.truncate(place);
            }
        }
        bytes
    }

    /// However it is cut into pieces. We are told of an offence as soon as the header shows it; the
    /// library waits for the frame, and looks at a fragment's text before the whole has come.
    #[test]
    fn what_comes_is_what_the_library_reads() {
        let mut numbers = Numbers(1);
        let (mut texts, mut offences) = (0, 0);
        for round in 0..400 {
            let is_masked = round % 2 == 0;
            let bytes = conversation(&mut numbers, is_masked);
            let most = numbers.one_of(&[1, 3, 100, 4096, 5000, 1_000_000]);
            // A piece of one byte at a time is for what is short.
            let most = if bytes.len() > 20_000 { most.max(100) } else { most };
            let ours = seen_by_us(&bytes, is_masked, most);
            let theirs = seen_by_the_library(&bytes, is_masked, most);
            texts += ours.iter().filter(|seen| matches!(seen, Seen::Text(_))).count();
            for (place, ours) in ours.iter().enumerate() {
                let theirs = theirs.get(place);
                let is_offence = matches!(ours, Seen::Offence(_) | Seen::NotText);
                offences += usize::from(is_offence);
                let is_same = match theirs {
                    Some(Seen::Ended) => is_offence || *ours == Seen::Ended,
                    Some(Seen::NotText) => !matches!(ours, Seen::Text(_)),
                    theirs => theirs == Some(ours) || *ours == Seen::Offence(1003),
                };
                assert!(is_same, "round {round}, place {place}: {ours:?} and not {theirs:?}");
                if is_offence || theirs == Some(&Seen::NotText) {
                    break;
                }
            }
        }
        assert!(texts > 500 && offences > 30, "{texts} texts, {offences} offences");
    }

    /// A stream of such frames is never empty.
    #[test]
    fn many_frames_without_a_message_are_told_and_the_message_is_not_lost() {
        let pongs = frame(0x8a, b"", None).repeat(MOST_NOISE + 1);
        let fragments = frame(0x00, b"", None).repeat(MOST_NOISE + 1);
        let sent = [pongs, frame(0x01, b"a", None), fragments, frame(0x80, b"b", None)].concat();
        let mut left = &sent[..];
        let mut incoming = Incoming::new(Vec::new(), false, MOST);
        let (mut noise, mut pongs) = (0, 0);
        loop {
            let came = incoming.next(|buffer, most| {
                let (now, later) = left.split_at(most.min(left.len()));
                left = later;
                buffer.extend_from_slice(now);
                Ok(now.len())
            });
            match came.unwrap() {
                Came::Noise => noise += 1,
                Came::Pong => pongs += 1,
                other => break assert_eq!(other, Came::Text),
            }
        }
        assert_eq!((incoming.payload(), noise, pongs), (&b"ab"[..], 2, MOST_NOISE + 1));
    }

    /// Else many short messages would be read by as many short reads.
    #[test]
    fn a_look_at_what_is_held_does_not_forget_that_more_is_to_come() {
        let one = frame(0x81, &[b'x'; 62], None);
        let sent = one.repeat(READ / one.len() * 2);
        let mut incoming = Incoming::new(Vec::new(), false, MOST);
        let (mut left, mut asked_for) = (&sent[..], Vec::new());
        let mut read = |buffer: &mut Vec<u8>, most: usize| {
            asked_for.push(most);
            let (now, later) = left.split_at(most.min(left.len()));
            left = later;
            buffer.extend_from_slice(now);
            Ok(now.len())
        };
        assert_eq!(incoming.next(&mut read).unwrap(), Came::Text);
        while let Some(came) = incoming.held().unwrap() {
            assert_eq!(came, Came::Text);
        }
        assert!(incoming.expects_more);
        assert_eq!(incoming.next(&mut read).unwrap(), Came::Text);
        assert_eq!(asked_for, [READ, PIECE]);
    }

    /// Also where a message fills the buffer to its end, or the next one has hardly begun.
    #[test]
    fn an_idle_connection_keeps_a_small_buffer() {
        for (size, more) in [(200_000, 0), (READ - 4, 0), (PIECE - 10, 0), (4_000_000, 1), (20, 1)]
        {
            let mut sent = frame(0x81, &vec![b'x'; size], None);
            sent.extend(std::iter::repeat_n(0x81, more));
            let mut incoming = Incoming::new(Vec::new(), false, 5_000_000);
            let mut left = &sent[..];
            let mut read = |buffer: &mut Vec<u8>, most: usize| {
                if left.is_empty() {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                let count = most.min(left.len());
                buffer.extend_from_slice(&left[..count]);
                left = &left[count..];
                Ok(count)
            };
            assert_eq!(incoming.next(&mut read).unwrap(), Came::Text);
            assert_eq!(incoming.payload().len(), size);
            // The first of them may still expect something.
            for _ in 0..2 {
                assert!(matches!(incoming.next(&mut read), Err(Fault::Io(_))));
            }
            let is_small = incoming.read.capacity() <= READ;
            assert_eq!((incoming.read.len(), is_small, incoming.expects_more), (more, true, false));
        }
    }
}
