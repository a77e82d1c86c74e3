//! Long base64 strings, taken out of a message before it is read as JSON: reading passes over
//! every byte twice, and decoding alone tells as well what belongs to the string.
//!
//! What is taken out is the member of one object (`params`, `result`) and of nothing within it: a
//! reader that knows as much of JSON as that takes walks there. What comes before the string has
//! to be short; whatever the reader does not know, it leaves to the one that knows all.

use super::bytes::decode_onto;
use super::rpc::{self, Message};
use super::{Base64, NetWriteParams, WriteFileParams, WriteParams, method};
use crate::buffers;

/// The member's name in `fs/*`.
pub(crate) const DATA: &str = "dataBase64";
/// The member's name elsewhere.
pub(crate) const CHUNK: &str = "chunk";

/// Where the string begins at the latest, and what a message has at least for this to pay.
const EARLY: usize = 8 * 1024;

/// Params that a long string may be a member of.
pub(crate) trait Carries {
    /// Puts in what was lifted out of the message.
    fn put_back(&mut self, lifted: Vec<u8>);
}

impl Carries for WriteFileParams {
    fn put_back(&mut self, lifted: Vec<u8>) {
        self.data_base64.0 = lifted;
    }
}

impl Carries for WriteParams {
    fn put_back(&mut self, lifted: Vec<u8>) {
        self.chunk = Some(Base64(lifted));
    }
}

impl Carries for NetWriteParams {
    fn put_back(&mut self, lifted: Vec<u8>) {
        self.chunk = Some(Base64(lifted));
    }
}

/// A message without its long string.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Lifted {
    /// The member whose string it was.
    pub(crate) member: &'static str,
    /// The message, with an empty string in its place.
    pub(crate) rest: String,
    /// What the string stood for.
    pub(crate) bytes: Vec<u8>,
}

/// Which member of a method's params may be long.
pub(crate) fn member_of(name: &str) -> Option<&'static str> {
    match name {
        method::WRITE_FILE => Some(DATA),
        method::WRITE | method::NET_WRITE => Some(CHUNK),
        _ => None,
    }
}

/// Takes the string out of a request of a method whose params have such a member, as `member_of` tells:
/// the message with an empty string in its place, and what it stood for. (Of another method's params
/// it is whatever that makes of it.)
pub(crate) fn lift_request(
    text: &str,
    member_of: impl Fn(&str) -> Option<&'static str>,
) -> Option<(String, Vec<u8>)> {
    let Lifted { member, rest, bytes } = lift_params(text)?;
    let is_its = match rpc::parse_unversioned(&rest) {
        Ok(Message::Request { method, .. }) => member_of(&method) == Some(member),
        _ => false,
    };
    is_its.then_some((rest, bytes))
}

/// Takes the string out of a request, if there is one to take out.
pub(crate) fn lift_params(text: &str) -> Option<Lifted> {
    lift(text, "params", &[DATA, CHUNK])
}

/// Takes the string out of an answer.
pub(crate) fn lift_result(text: &str) -> Option<Lifted> {
    lift(text, "result", &[DATA])
}

/// Whether a message is long enough to look for one.
pub(crate) fn is_worth(text: &str) -> bool {
    text.len() >= EARLY
}

fn lift(text: &str, object: &str, members: &[&'static str]) -> Option<Lifted> {
    if !is_worth(text) {
        return None;
    }
    // A character has at most four bytes, so one of these is between two.
    let early = (0..4).find_map(|less| text.get(..EARLY - less))?;
    let mut reader = Reader(early);
    reader.enter_member(|name| (name == object).then_some(()))?;
    let member = reader.enter_member(|name| {
        // A short string of that name is not worth it, and the next may not be another one.
        members.iter().find(|member| **member == name).copied()
    })?;
    let opened = reader.0.strip_prefix('"')?;
    let (before, content) = text.split_at_checked(early.len() - opened.len())?;
    // Little comes behind it, as a rule. (If it has ended before that, there is a quote within what is taken
    // for the string, which is no base64.)
    let late = content.len().saturating_sub(EARLY);
    let (string, bytes) = decoded(content, late, text).or_else(|| decoded(content, 0, text))?;
    let after = content.get(string.len()..)?;
    Some(Lifted { member, rest: format!("{before}{after}"), bytes })
}

/// The string up to the first quote from that place on, and what it stands for.
fn decoded<'a>(content: &'a str, from: usize, text: &str) -> Option<(&'a str, Vec<u8>)> {
    let end = from + memchr::memchr(b'"', content.as_bytes().get(from..)?)?;
    let string = content.get(..end)?;
    // Where it is not most of the message, nothing is won.
    if string.len() < text.len() / 2 {
        return None;
    }
    let mut bytes = buffers::take_for(string.len() / 4 * 3 + 3);
    if decode_onto(string, &mut bytes) {
        return Some((string, bytes));
    }
    buffers::give(bytes);
    None
}

/// Reads JSON for as far as it is there. `None` is what it does not know, or the end.
struct Reader<'a>(&'a str);

impl<'a> Reader<'a> {
    /// Enters an object and goes to the value of the first member that `wanted` knows.
    fn enter_member<T>(&mut self, wanted: impl Fn(&str) -> Option<T>) -> Option<T> {
        self.take('{')?;
        loop {
            let name = self.string()?;
            self.take(':')?;
            // (A name with an escape in it may be any; the other reader finds that out.)
            if name.contains('\\') {
                return None;
            }
            self.skip_space();
            if let Some(found) = wanted(name) {
                return Some(found);
            }
            self.skip_value()?;
            self.take(',')?;
        }
    }

    fn skip_space(&mut self) {
        self.0 = self.0.trim_start_matches([' ', '\t', '\r', '\n']);
    }

    fn take(&mut self, wanted: char) -> Option<()> {
        self.skip_space();
        self.0 = self.0.strip_prefix(wanted)?;
        Some(())
    }

    /// A string as it is written, without its quotes.
    fn string(&mut self) -> Option<&'a str> {
        self.take('"')?;
        let bytes = self.0.as_bytes();
        let mut end = 0;
        loop {
            match bytes.get(end)? {
                b'"' => break,
                b'\\' => end += 2,
                _ => end += 1,
            }
        }
        let (string, rest) = self.0.split_at_checked(end)?;
        self.0 = rest.strip_prefix('"')?;
        Some(string)
    }

    /// A value of any kind. (What is no value is found out by the other reader.)
    fn skip_value(&mut self) -> Option<()> {
        let mut depth = 0_u32;
        loop {
            self.skip_space();
            match self.0.chars().next()? {
                '"' => drop(self.string()?),
                '{' | '[' => {
                    depth += 1;
                    self.0 = self.0.get(1..)?;
                    continue;
                }
                '}' | ']' => {
                    depth = depth.checked_sub(1)?;
                    self.0 = self.0.get(1..)?;
                }
                ',' | ':' if depth > 0 => {
                    self.0 = self.0.get(1..)?;
                    continue;
                }
                _ => {
                    let end = self.0.find([',', ':', '}', ']', '{', '[', '"', ' ', '\n'])?;
                    self.0 = self.0.get(end.max(1)..)?;
                }
            }
            if depth == 0 {
                return Some(());
            }
        }
    }
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
        for (before, after, member) in [
            ("{\"params\":{\"path\":\"ä\",\"dataBase64\":\"", "\"}}", DATA),
            ("{\"params\":{\"dataBase64\":\"", "\",\"path\":\"x\"},\"id\":1}", DATA),
            (" {\"id\" : 1 ,\n\"params\": { \"chunk\" : \"", "\" , \"eof\":true}}", CHUNK),
            ("{\"params\":{\"path\":\"say \\\"chunk\\\":\\\"\",\"chunk\":\"", "\"}}", CHUNK),
            ("{\"x\":{\"chunk\":\"AA==\",\"y\":[1,{}]},\"params\":{\"chunk\":\"", "\"}}", CHUNK),
            ("{\"id\":-1.5e3,\"x\":null,\"params\":{\"a\":[\"]\"],\"chunk\":\"", "\"}}", CHUNK),
        ] {
            let (text, bytes) = message(before, after);
            let rest = format!("{before}{after}");
            assert_eq!(lift_params(&text), Some(Lifted { member, rest, bytes }), "{before}");
        }
    }

    #[test]
    fn much_may_come_behind_it() {
        for long in ["x".repeat(EARLY + 7), "AAAA\",\"".repeat(1000) + "y"] {
            let after = format!("\",\"{long}\":1}}}}");
            let before = "{\"params\":{\"chunk\":\"";
            let (text, bytes) = message(before, &after);
            let rest = format!("{before}{after}");
            assert_eq!(lift_params(&text), Some(Lifted { member: CHUNK, rest, bytes }));
        }
    }

    #[test]
    fn what_is_not_the_member_itself_is_left_alone() {
        for (before, after) in [
            // Of something within params, or of no object that counts.
            ("{\"params\":{\"env\":{\"chunk\":\"", "\"}}}"),
            ("{\"params\":{\"x\":[{\"chunk\":\"", "\"}]}}"),
            ("{\"params\":[{\"chunk\":\"", "\"}]}"),
            ("{\"chunk\":\"", "\",\"params\":{}}"),
            ("{\"params\":{\"a\\\"chunk\":\"", "\"}}"),
            ("{\"params\":{\"\\u0063hunk\":\"AA==\",\"chunk\":\"", "\"}}"),
            ("{\"params\":{\"path\":\"", "\"}}"),
            // The first of two.
            ("{\"params\":{\"chunk\":\"AA==\",\"dataBase64\":\"", "\"}}x"),
            ("{\"params\":{\"chunk\":7,\"dataBase64\":\"", "\"}}"),
            ("{\"params\":{\"chunk\":\"*", "\"}}"),
            ("{\"params\":{\"chunk\":\"", "\\n\"}}"),
            ("{\"params\":{\"chunk\":\"", ""),
            ("[{\"params\":{\"chunk\":\"", "\"}}]"),
        ] {
            let (text, bytes) = message(before, after);
            let lifted = lift_params(&text);
            assert!(lifted.is_none_or(|lifted| lifted.bytes != bytes), "{before}…{after}");
        }
        assert_eq!(lift_params("{\"params\":{\"chunk\":\"AAAA\"}}"), None, "short");
    }

    /// Both readers agree about what is where.
    #[test]
    fn what_is_left_is_the_same_message() {
        for (before, after) in [
            ("{\"method\":\"m\",\"params\":{\"x\":{\"y\":[1,\"}\"]},\"chunk\":\"", "\",\"z\":1}}"),
            ("{\"params\":{\"chunk\":\"", "\"},\"id\":\"\\\"params\\\"\"}"),
        ] {
            let (text, _) = message(before, after);
            let mut whole: serde_json::Value = serde_json::from_str(&text).unwrap();
            whole["params"]["chunk"] = "".into();
            let rest = lift_params(&text).unwrap().rest;
            assert_eq!(serde_json::from_str::<serde_json::Value>(&rest).unwrap(), whole);
        }
    }
}
