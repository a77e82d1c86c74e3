//! What has been read of a stream and not been taken yet.
//!
//! tungstenite clears as much memory as it asks for, at each read, and keeps it for as long as the
//! connection stands. So it asks for little; and where a read has brought all that it asked for, the next
//! one reads more than that, into a buffer that is given back when all of it has been taken.

use std::io;

use super::stream::Room;
use crate::buffers;

#[derive(Default)]
pub(super) struct Ahead {
    bytes: Vec<u8>,
    taken: usize,
    expects_more: bool,
}

impl Ahead {
    /// What waits to be taken.
    pub(super) fn waiting(&self) -> &[u8] {
        self.bytes.get(self.taken..).unwrap_or_default()
    }

    /// Adds what has been read by somebody else.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether the last read has brought as much as it could have.
    pub(super) fn expects_more(&self) -> bool {
        self.expects_more
    }

    /// Gives what waits, or reads.
    pub(super) fn read(
        &mut self,
        buffer: &mut [u8],
        mut read: impl FnMut(Room<'_>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if self.waiting().is_empty() {
            if !self.expects_more {
                let count = read(Room::All(buffer))?;
                self.expects_more = count == buffer.len();
                return Ok(count);
            }
            let mut bytes = buffers::take();
            let result = read(Room::Behind(&mut bytes));
            self.expects_more = !bytes.is_empty() && bytes.len() == bytes.capacity();
            if bytes.is_empty() {
                buffers::give(bytes);
                return result;
            }
            (self.bytes, self.taken) = (bytes, 0);
        }
        let waiting = self.waiting();
        let count = waiting.len().min(buffer.len());
        buffer[..count].copy_from_slice(&waiting[..count]);
        self.taken += count;
        if self.waiting().is_empty() {
            self.taken = 0;
            buffers::give(std::mem::take(&mut self.bytes));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads as many of the bytes as there is room for.
    fn put(bytes: &[u8], room: Room<'_>) -> usize {
        match room {
            Room::All(slice) => {
                let count = slice.len().min(bytes.len());
                slice[..count].copy_from_slice(&bytes[..count]);
                count
            }
            Room::Behind(vec) => {
                let count = (vec.capacity() - vec.len()).min(bytes.len());
                vec.extend_from_slice(&bytes[..count]);
                count
            }
        }
    }

    /// However much a read asks for, and brings.
    #[test]
    fn what_is_read_is_what_has_come() {
        let sent: Vec<u8> =
            (0..1_000_000_u32).map(|place| (place ^ (place >> 8)).to_le_bytes()[0]).collect();
        for most in [1, 7, 4096, 100_000, usize::MAX] {
            let (mut ahead, mut left, mut came) = (Ahead::default(), &sent[..], Vec::new());
            ahead.add(&left[..10]);
            left = &left[10..];
            for size in [1, 4096, 100, 5000].into_iter().cycle() {
                let mut buffer = vec![0; size];
                let count = ahead.read(&mut buffer, |room| {
                    let count = put(&left[..most.min(left.len())], room);
                    left = &left[count..];
                    Ok(count)
                });
                let count = count.unwrap();
                came.extend_from_slice(&buffer[..count]);
                if count == 0 {
                    break;
                }
            }
            assert!(came == sent, "{most} at most: {} bytes", came.len());
        }
    }

    #[test]
    fn an_error_loses_nothing() {
        let mut ahead = Ahead::default();
        let mut buffer = [0; 4];
        let block = |_: Room<'_>| Err(io::ErrorKind::WouldBlock.into());
        assert_eq!(ahead.read(&mut buffer, |room| Ok(put(&[7; 9], room))).unwrap(), 4);
        assert!(ahead.read(&mut buffer, block).is_err());
        assert_eq!(ahead.read(&mut buffer, |room| Ok(put(&[8; 3], room))).unwrap(), 3);
        assert_eq!(buffer, [8, 8, 8, 7]);
        assert!(ahead.waiting().is_empty() && ahead.bytes.capacity() == 0);
    }
}
