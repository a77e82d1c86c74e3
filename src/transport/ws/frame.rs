//! WebSocket frames (RFC 6455) as they are written, and the mask of either direction.

use crate::sys::host;
use crate::transport::message;
use crate::transport::outbox::HEADROOM;

/// The first byte of a frame that is a whole message: FIN and the opcode.
const TEXT: u8 = 0x81;
const IS_MASKED: u8 = 0x80;
/// What the frame of a control message may carry.
pub(super) const CONTROL_MOST: usize = 125;

/// A frame of the protocol's own.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(in crate::transport) enum Control {
    Close = 0x88,
    Ping = 0x89,
    Pong = 0x8a,
}

/// Writes the header of a text frame into the room before a message, and masks the message
/// where there is a mask. Answers where the frame starts.
pub(in crate::transport) fn write_header(buffer: &mut [u8], mask: Option<[u8; 4]>) -> usize {
    complete(buffer, TEXT, mask)
}

/// The same for a frame that begins with `first`.
fn complete(buffer: &mut [u8], first: u8, mask: Option<[u8; 4]>) -> usize {
    let length = buffer.len() - HEADROOM;
    let masked = if mask.is_some() { IS_MASKED } else { 0 };
    let mut header = [0_u8; HEADROOM];
    header[0] = first;
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

/// A whole control frame; of the payload, what it may carry.
pub(in crate::transport) fn control(
    what: Control,
    payload: &[u8],
    mask: Option<[u8; 4]>,
) -> Vec<u8> {
    let mut frame = message(Vec::new());
    frame.extend_from_slice(&payload[..payload.len().min(CONTROL_MOST)]);
    let start = complete(&mut frame, what as u8, mask);
    frame.split_off(start)
}

/// Puts a mask on, or takes it off; it begins with the first byte.
pub(super) fn apply_mask(payload: &mut [u8], mask: [u8; 4]) {
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
pub(in crate::transport) fn new_mask() -> [u8; 4] {
    let [a, b, c, d, ..] = host::random_number().to_ne_bytes();
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use tungstenite::protocol::Role;
    use tungstenite::{Message, WebSocket};

    use super::*;

    fn read_by_the_library(frame: &[u8], role: Role) -> Message {
        let stream = Cursor::new(frame.to_vec());
        WebSocket::from_raw_socket(stream, role, None).read().unwrap()
    }

    const SIDES: [(Option<[u8; 4]>, Role); 2] =
        [(None, Role::Client), (Some([1, 2, 3, 4]), Role::Server)];

    /// tungstenite reads what was written by hand, at each length where the header changes.
    #[test]
    fn frames_written_by_hand_are_what_the_library_reads() {
        for length in [0, 1, 7, 8, 9, 125, 126, 127, 65_535, 65_536, 100_003] {
            for (mask, role) in SIDES {
                let text = "x".repeat(length);
                let mut buffer = message(Vec::new());
                buffer.extend_from_slice(text.as_bytes());
                let start = write_header(&mut buffer, mask);
                let message = read_by_the_library(&buffer[start..], role);
                assert_eq!(message.into_text().unwrap().as_str(), text);
            }
        }
    }

    #[test]
    fn control_frames_too_and_none_is_too_long() {
        for (mask, role) in SIDES {
            for length in [0, 1, 5, 125, 200] {
                let payload = vec![7; length];
                let read = |what| read_by_the_library(&control(what, &payload, mask), role);
                let carried = payload[..length.min(125)].to_vec();
                assert_eq!(read(Control::Ping), Message::Ping(carried.clone().into()));
                assert_eq!(read(Control::Pong), Message::Pong(carried.into()));
            }
            let close = read_by_the_library(&control(Control::Close, b"\x03\xe9bye", mask), role);
            let Message::Close(Some(close)) = close else { panic!("{close:?}") };
            assert_eq!((u16::from(close.code), close.reason.as_str()), (1001, "bye"));
        }
    }
}
