//! Long base64 strings, taken out of a message before it is read as JSON: reading passes over
//! every byte twice, and decoding alone tells as well what belongs to the string.

use super::bytes::decode_onto;
use super::{Base64, NetWriteParams, WriteFileParams, WriteParams};
use crate::buffers;

/// Members whose value may be long.
const MEMBERS: [&str; 2] = ["\"dataBase64\":\"", "\"chunk\":\""];
/// Where such a member begins at the latest, and what a message has at least for this to pay.
const EARLY: usize = 8 * 1024;

/// Params that a long string may be a member of.
pub(crate) trait Carries {
    /// Puts in what was lifted out of the message, if that is where it stood.
    fn put_back(&mut self, lifted: Vec<u8>);
}

impl Carries for WriteFileParams {
    fn put_back(&mut self, lifted: Vec<u8>) {
        self.data_base64.0 = lifted;
    }
}

impl Carries for WriteParams {
    fn put_back(&mut self, lifted: Vec<u8>) {
        self.chunk = self.chunk.as_ref().map(|_| Base64(lifted));
    }
}

impl Carries for NetWriteParams {
    fn put_back(&mut self, lifted: Vec<u8>) {
        self.chunk = self.chunk.as_ref().map(|_| Base64(lifted));
    }
}

/// A message without its long string.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Lifted {
    /// The message, with an empty string in its place.
    pub(crate) rest: String,
    /// What the string stood for.
    pub(crate) bytes: Vec<u8>,
}

/// Takes the string out of a message, if it has exactly one such member. What is left means the
/// same: within a JSON string the quotes of a member's name would be escaped, so what looks like
/// one is one.
pub(crate) fn lift(text: &str) -> Option<Lifted> {
    if text.len() < EARLY {
        return None;
    }
    let (start, member) = MEMBERS.iter().find_map(|member| {
        // A character has at most four bytes, so one of these is between two.
        let early = (0..4).find_map(|less| text.get(..EARLY - less))?;
        Some((early.find(member)? + member.len(), member))
    })?;
    let (before, content) = text.split_at_checked(start)?;
    // Most have it last.
    let last = content.strip_suffix("\"}}");
    let mut bytes = buffers::take_for(content.len() / 4 * 3 + 3);
    let decoded = last.filter(|content| decode_onto(content, &mut bytes)).or_else(|| {
        let content = content.get(..content.find('"')?)?;
        decode_onto(content, &mut bytes).then_some(content)
    })?;
    let after = content.get(decoded.len()..)?;
    // Escapes could hide a second member of that name.
    let name = member.strip_suffix(":\"")?;
    if before.contains("\\u") || after.contains("\\u") || after.contains(name) {
        return None;
    }
    let is_only_one = before.matches(name).count() == 1;
    is_only_one.then(|| Lifted { rest: format!("{before}{after}"), bytes })
}

#[cfg(test)]
mod tests {
    use super::super::bytes::encode_onto;
    use super::*;

    fn message(before: &str, after: &str) -> (String, Vec<u8>) {
        let bytes: Vec<u8> = (0..30_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        let mut text = before.as_bytes().to_vec();
        encode_onto(&bytes, &mut text);
        text.extend_from_slice(after.as_bytes());
        (String::from_utf8(text).unwrap(), bytes)
    }

    #[test]
    fn a_long_string_is_lifted_wherever_it_stands() {
        for (before, after) in [
            ("{\"params\":{\"path\":\"ä\",\"dataBase64\":\"", "\"}}"),
            ("{\"params\":{\"dataBase64\":\"", "\",\"path\":\"x\"},\"id\":1}"),
            ("{\"params\":{\"chunk\":\"", "\",\"eof\":true}}"),
            ("{\"params\":{\"path\":\"say \\\"chunk\\\":\\\"\",\"chunk\":\"", "\"}}"),
        ] {
            let (text, bytes) = message(before, after);
            assert_eq!(lift(&text), Some(Lifted { rest: format!("{before}{after}"), bytes }));
        }
    }

    #[test]
    fn what_is_not_certain_is_left_alone() {
        for (before, after) in [
            // Twice: the reader says what is wrong with that.
            ("{\"params\":{\"chunk\":\"AA==\",\"chunk\":\"", "\"}}"),
            ("{\"params\":{\"chunk\":\"", "\",\"chunk\":\"AA==\"}}"),
            ("{\"params\":{\"\\u0063hunk\":\"AA==\",\"chunk\":\"", "\"}}"),
            ("{\"params\":{\"path\":\"", "\"}}"),
            ("{\"params\":{\"chunk\":\"*", "\"}}"),
            ("{\"params\":{\"chunk\":\"", "\\n\"}}"),
            ("{\"params\":{\"chunk\":\"", ""),
        ] {
            let (text, _) = message(before, after);
            assert_eq!(lift(&text), None, "{before}…{after}");
        }
        assert_eq!(lift("{\"params\":{\"chunk\":\"AAAA\"}}"), None, "short");
    }
}
