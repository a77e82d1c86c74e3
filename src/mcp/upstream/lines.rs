//! Lines of a stream, none of them longer than can be held.

use std::io::Read;

/// The longest line that is taken; of a longer one the rest is passed over.
const LONGEST: usize = 64 * 1024 * 1024;
const READ: usize = 64 * 1024;

/// Hands on each line, without its end, until there are no more.
pub(super) fn each(mut from: impl Read, mut take: impl FnMut(&[u8])) {
    let mut line = Vec::new();
    let mut buffer = vec![0; READ];
    let mut is_too_long = false;
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        for piece in buffer[..count].split_inclusive(|byte| *byte == b'\n') {
            let content = piece.strip_suffix(b"\n").unwrap_or(piece);
            is_too_long |= line.len() + content.len() > LONGEST;
            if is_too_long {
                line = Vec::new();
            } else {
                line.extend_from_slice(content);
            }
            if content.len() < piece.len() {
                if !is_too_long {
                    take(line.strip_suffix(b"\r").unwrap_or(&line));
                }
                line.clear();
                is_too_long = false;
            }
        }
    }
    if !line.is_empty() {
        take(&line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_wherever_they_are_cut() {
        struct Drip<'a>(&'a [u8]);
        impl Read for Drip<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                let (first, rest) = self.0.split_at(self.0.len().min(2));
                buffer[..first.len()].copy_from_slice(first);
                self.0 = rest;
                Ok(first.len())
            }
        }
        let mut lines = Vec::new();
        each(Drip(b"one\r\n\nthree\nlast"), |line| {
            lines.push(String::from_utf8(line.to_vec()).unwrap());
        });
        assert_eq!(lines, ["one", "", "three", "last"]);
    }
}
