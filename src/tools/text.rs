//! Bytes that come in pieces, as text.

/// Decodes UTF-8 whose characters may be split between pieces. What is none becomes U+FFFD.
#[derive(Default)]
pub(super) struct Decoder {
    /// The beginning of a character: three bytes at most.
    held: Vec<u8>,
}

impl Decoder {
    /// The text of what has come whole.
    pub(super) fn push(&mut self, bytes: &[u8], text: &mut String) {
        let joined;
        let bytes = if self.held.is_empty() {
            bytes
        } else {
            joined = [&self.held, bytes].concat();
            &joined
        };
        let end = bytes.len() - unfinished(bytes);
        text.push_str(&String::from_utf8_lossy(&bytes[..end]));
        self.held = bytes[end..].to_vec();
    }
}

/// How many bytes at the end are the beginning of a character.
fn unfinished(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    let needs = match last.first() {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => return 0,
    };
    if last.len() < needs && bytes.ends_with(last) { last.len() } else { 0 }
}

/// A name as it is shown: on one line.
pub(super) fn one_line(name: &str) -> String {
    let mut shown = String::with_capacity(name.len());
    for character in name.chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_whole_wherever_they_are_split() {
        let bytes = "a\u{e9}\u{20ac}\u{1f600}z".as_bytes();
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let (mut decoder, mut text) = (Decoder::default(), String::new());
                decoder.push(&bytes[..first], &mut text);
                decoder.push(&bytes[first..second], &mut text);
                decoder.push(&bytes[second..], &mut text);
                assert_eq!(text.as_bytes(), bytes, "{first} {second}");
            }
        }
    }

    #[test]
    fn what_is_no_text_is_replaced_and_not_held_back() {
        let (mut decoder, mut text) = (Decoder::default(), String::new());
        decoder.push(b"a\xff\x80", &mut text);
        assert_eq!(text, "a\u{fffd}\u{fffd}");
        decoder.push(b"\xe2\x82", &mut text);
        decoder.push(b"b", &mut text);
        assert_eq!(text, "a\u{fffd}\u{fffd}\u{fffd}b");
    }

    #[test]
    fn a_name_stays_on_its_line() {
        assert_eq!(one_line("a b\n\u{e9}\t"), "a b\\n\u{e9}\\t");
    }
}
