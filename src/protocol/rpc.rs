//! The JSON-RPC 2.0 envelope: reading messages, and writing them into buffers.

use std::borrow::Cow;
use std::io::Write;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::whereabouts;
use crate::error::{Epochs, Error, ErrorKind, StartStep};

/// One message as it came.
#[derive(Debug)]
pub(crate) enum Message<'a> {
    /// Wants an answer.
    Request { id: &'a RawValue, method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// Wants none.
    Notification { method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// An answer. The id is `None` where it answers a message whose id could not be read.
    Response { id: Option<&'a RawValue>, outcome: Outcome<'a> },
}

/// What an answer says.
#[derive(Debug)]
pub(crate) enum Outcome<'a> {
    Result(&'a RawValue),
    Error(Error),
}

/// A message that is none: the error, and the id to answer it to where there is one.
#[derive(Debug)]
pub(crate) struct Invalid<'a> {
    pub(crate) id: Option<&'a RawValue>,
    pub(crate) error: Error,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// `null` is a value here, and not the absence of one.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// An id is kept for as long as its request is in flight, and is part of the answer.
const LONGEST_ID: usize = 1024;
/// A message that quotes what came is cut at so many bytes.
const LONGEST_MESSAGE: usize = 2000;

/// Reads one message.
pub(crate) fn parse(text: &str) -> Result<Message<'_>, Invalid<'_>> {
    let version = |version: &str| version == "\"2.0\"";
    parse_version(text, version)
}

/// Reads one message that need not say its version, and may say any.
pub(crate) fn parse_unversioned(text: &str) -> Result<Message<'_>, Invalid<'_>> {
    parse_version(text, |_| true)
}

fn parse_version(text: &str, is_right: impl Fn(&str) -> bool) -> Result<Message<'_>, Invalid<'_>> {
    let invalid = |message: &str| Error::new(ErrorKind::InvalidRequest, message);
    let unanswerable = |error| Invalid { id: None, error };
    let start = text.trim_start_matches([' ', '\t', '\r', '\n']);
    if !start.starts_with('{') {
        // The whole text decides: a cut-off batch is malformed, a whole one is refused.
        return Err(unanswerable(match serde_json::from_str::<IgnoredAny>(text) {
            Err(error) => malformed(&error),
            Ok(_) if start.starts_with('[') => invalid("batches are not supported"),
            Ok(_) => invalid("a message is a JSON object"),
        }));
    }
    let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|error| {
        unanswerable(match error.classify() {
            serde_json::error::Category::Data => invalid(&error.to_string()),
            _ => malformed(&error),
        })
    })?;
    let id = match envelope.id {
        Some(id) if !matches!(id.get().as_bytes(), [b'"' | b'-' | b'0'..=b'9', ..]) => {
            // An answer to a message whose id could not be read carries null.
            if envelope.method.is_some() || id.get() != "null" {
                return Err(unanswerable(invalid("an id is a string or a number")));
            }
            None
        }
        id => id,
    };
    if id.is_some_and(|id| id.get().len() > LONGEST_ID) {
        return Err(unanswerable(invalid("an id has at most 1024 bytes")));
    }
    let refuse = |message| Err(Invalid { id, error: invalid(message) });
    if envelope.jsonrpc.is_some_and(|version| !is_right(version.get())) {
        return refuse("jsonrpc must be \"2.0\"");
    }
    let params = envelope.params;
    match (envelope.method, envelope.result, envelope.error) {
        (Some(method), ..) => match (serde_json::from_str::<Cow<'_, str>>(method.get()), id) {
            (Ok(_), Some(id)) => Ok(Message::Request { id, method: text_of(method), params }),
            (Ok(_), None) => Ok(Message::Notification { method: text_of(method), params }),
            (Err(_), _) => refuse("method must be a string"),
        },
        (None, _, Some(error)) => {
            Ok(Message::Response { id, outcome: Outcome::Error(error_of(error)) })
        }
        (None, Some(result), None) => {
            Ok(Message::Response { id, outcome: Outcome::Result(result) })
        }
        (None, None, None) => refuse("a request needs a method"),
    }
}

fn malformed(error: &serde_json::Error) -> Error {
    Error::new(ErrorKind::Parse, format!("not JSON: {error}"))
}

/// A JSON string, borrowed where nothing in it is escaped.
fn text_of(raw: &RawValue) -> Cow<'_, str> {
    let inside = raw.get().strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match inside {
        Some(text) if !text.contains('\\') => Cow::Borrowed(text),
        _ => Cow::Owned(serde_json::from_str(raw.get()).unwrap_or_default()),
    }
}

/// Reads the params of a method; the error names the member that is wrong.
pub(crate) fn params<'de, P: Deserialize<'de>>(raw: Option<&'de RawValue>) -> Result<P, Error> {
    let text = raw.map_or("{}", RawValue::get);
    if !text.starts_with('{') {
        return Err(Error::params("params must be an object"));
    }
    read(text)
}

/// Reads an object; the error names the member that is wrong.
pub(crate) fn read<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| wrong_member(text, &error))
}

/// Why an object cannot be read, and which member of it that is.
fn wrong_member(text: &str, error: &serde_json::Error) -> Error {
    let message = error.to_string();
    let reason = message.split(" at line ").next().unwrap_or_default();
    let missing = reason.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
    // A value that was read and then refused is told where the parser went on to: for the last
    // member behind the end of all, where else only a missing one is told.
    let last = if missing.is_some() { text.len() } else { text.len().saturating_sub(1) };
    let at = whereabouts::offset(text, error.line(), error.column()).min(last);
    let path = whereabouts::path(text, at);
    Error::params(match (path.as_str(), missing) {
        ("", Some(member)) => format!("{member}: missing"),
        ("", None) => for_people(reason),
        (path, Some(member)) => format!("{path}.{member}: missing"),
        (path, None) => format!("{path}: {}", for_people(reason)),
    })
}

/// serde's words for what it wanted, in those of the protocol.
fn for_people(reason: &str) -> String {
    const WORDS: &[(&str, &str)] = &[
        ("a nonzero u64", "an integer of at least 1"),
        ("a nonzero u16", "an integer from 1 to 65535"),
        ("expected u64", "expected an integer of at least 0"),
        ("expected u32", "expected an integer from 0 to 4095"),
        ("expected i64", "expected an integer"),
        ("expected a map", "expected an object"),
        ("a sequence", "an array"),
        ("invalid type: sequence", "invalid type: array"),
        ("invalid type: map", "invalid type: object"),
    ];
    WORDS.iter().fold(reason.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// Reads a result.
pub(crate) fn result<R: DeserializeOwned>(raw: &RawValue) -> Result<R, Error> {
    serde_json::from_str(raw.get()).map_err(|error| {
        Error::new(ErrorKind::Internal, format!("cannot read the server's answer: {error}"))
    })
}

#[derive(Serialize, Deserialize)]
struct WireError<'a> {
    code: i64,
    #[serde(borrow)]
    message: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    data: Option<WireData<'a>>,
}

#[derive(Serialize, Deserialize)]
struct WireData<'a> {
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    code: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    step: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    epoch: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    current: Option<u64>,
}

/// Reads an error object.
pub(crate) fn error_of(raw: &RawValue) -> Error {
    match serde_json::from_str::<WireError<'_>>(raw.get()) {
        Ok(error) => {
            let code = error.data.as_ref().and_then(|data| data.code.as_deref());
            let step = error.data.as_ref().and_then(|data| data.step.as_deref());
            Error::new(ErrorKind::from_wire(error.code, code), error.message)
                .at(step.and_then(StartStep::from_wire))
                .of_size(error.data.as_ref().and_then(|data| data.size))
                .of_epochs(
                    error
                        .data
                        .and_then(|data| Some(Epochs { own: data.epoch?, current: data.current? })),
                )
        }
        Err(_) => Error::new(ErrorKind::Other(0, None), raw.get()),
    }
}

/// Appends `{"jsonrpc":"2.0","id":ID,"result":RESULT}`.
pub(crate) fn write_result(buffer: &mut Vec<u8>, id: &RawValue, result: &impl Serialize) {
    begin_result(buffer, id);
    write_json(buffer, result);
    end_result(buffer);
}

/// Appends what comes before a result.
pub(crate) fn begin_result(buffer: &mut Vec<u8>, id: &RawValue) {
    write(buffer, format_args!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":", id.get()));
}

/// Appends what comes after a result.
pub(crate) fn end_result(buffer: &mut Vec<u8>) {
    buffer.push(b'}');
}

/// Appends `{"jsonrpc":"2.0","id":ID,"error":ERROR}`; no id is `null`.
pub(crate) fn write_error(buffer: &mut Vec<u8>, id: Option<&RawValue>, error: &Error) {
    let id = id.map_or("null", RawValue::get);
    write(buffer, format_args!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":"));
    write_error_object(buffer, error);
    buffer.push(b'}');
}

/// Appends the error object alone.
pub(crate) fn write_error_object(buffer: &mut Vec<u8>, error: &Error) {
    let (code, name) = error.kind().wire();
    let step = error.step().map(|step| Cow::Borrowed(step.wire()));
    let size = error.size();
    let (epoch, current) = error.epochs().map(|epochs| (epochs.own, epochs.current)).unzip();
    let data =
        name.map(|name| WireData { code: Some(Cow::Borrowed(name)), step, size, epoch, current });
    let message = Cow::Borrowed(cut(error.message()));
    write_json(buffer, &WireError { code, message, data });
}

fn cut(message: &str) -> &str {
    match message.char_indices().find(|(start, _)| *start >= LONGEST_MESSAGE) {
        Some((end, _)) => &message[..end],
        None => message,
    }
}

/// Appends `{"jsonrpc":"2.0","id":ID,"method":METHOD,"params":PARAMS}`.
pub(crate) fn write_request(buffer: &mut Vec<u8>, id: u64, method: &str, params: &impl Serialize) {
    write(buffer, format_args!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\","));
    write(buffer, format_args!("\"params\":"));
    write_json(buffer, params);
    buffer.push(b'}');
}

/// Appends `{"jsonrpc":"2.0","method":METHOD,"params":PARAMS}`.
pub(crate) fn write_notification(buffer: &mut Vec<u8>, method: &str, params: &impl Serialize) {
    write(buffer, format_args!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":"));
    write_json(buffer, params);
    buffer.push(b'}');
}

pub(super) fn write(buffer: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing into a vector cannot fail.
    let _ = buffer.write_fmt(text);
}

/// The protocol's types have string keys and no failing serializers, so this cannot fail.
pub(crate) fn write_json(buffer: &mut Vec<u8>, value: &impl Serialize) {
    let _ = serde_json::to_writer(buffer, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> (ErrorKind, Option<String>) {
        let invalid = parse(text).unwrap_err();
        (invalid.error.kind().clone(), invalid.id.map(|id| id.get().to_owned()))
    }

    #[test]
    fn an_id_is_kept_as_it_was_written() {
        for id in ["1", "1.0", "\"1\"", "9007199254740993", "-0", "1e400", "\"\\u0041\""] {
            let text = format!("{{\"id\":{id},\"method\":\"ping\"}}");
            let Ok(Message::Request { id: seen, .. }) = parse(&text) else { panic!("{text}") };
            let mut answer = Vec::new();
            write_result(&mut answer, seen, &super::super::Empty {});
            let expected = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}");
            assert_eq!(String::from_utf8(answer).unwrap(), expected);
        }
    }

    #[test]
    fn what_is_not_json_and_what_is_no_request_are_told_apart() {
        let deep = "[".repeat(10_000);
        for text in ["{", "nul", "", " ", "[1", "{\"id\":1,}", &deep] {
            assert_eq!(refused(text), (ErrorKind::Parse, None), "{text}");
        }
        for text in ["[]", "[1]", "1", "null", "\"x\"", "{\"id\":null,\"method\":\"ping\"}"] {
            assert_eq!(refused(text), (ErrorKind::InvalidRequest, None), "{text}");
        }
        for id in ["true", "{}", "[1]", "false"] {
            let text = format!("{{\"id\":{id},\"method\":\"ping\"}}");
            assert_eq!(refused(&text), (ErrorKind::InvalidRequest, None), "{text}");
        }
        let with_id = (ErrorKind::InvalidRequest, Some("7".to_owned()));
        assert_eq!(refused("{\"id\":7}"), with_id);
        assert_eq!(refused("{\"id\":7,\"method\":1}"), with_id);
        assert_eq!(refused("{\"jsonrpc\":\"1.0\",\"id\":7,\"method\":\"ping\"}"), with_id);
    }

    #[test]
    fn a_wrong_member_is_named() {
        use super::super::{ExecParams, SpawnParams};
        let read = |text: &str| {
            let raw: &RawValue = serde_json::from_str(text).unwrap();
            params::<ExecParams>(Some(raw)).unwrap_err().message().to_owned()
        };
        assert_eq!(read("{\"processId\":\"p\"}"), "command: missing");
        assert!(read("{\"processId\":1,\"command\":\"x\"}").starts_with("processId: "));
        let long = "x".repeat(129);
        for refused in [
            format!("{{\"command\":\"x\",\"processId\":\"{long}\"}}"),
            format!("{{\"command\":\"x\",\n \"processId\":\"{long}\"\n}}"),
            format!("{{\"processId\":\"{long}\" , \"command\":\"x\"}}"),
        ] {
            assert!(read(&refused).starts_with("processId: "), "{}", read(&refused));
        }
        let timeout = "{\"processId\":\"p\",\"command\":\"x\",\"timeoutMs\":0}";
        assert!(read(timeout).starts_with("timeoutMs: "), "{}", read(timeout));
        let env = "{\"processId\":\"p\",\"command\":\"x\",\"env\":{\"A=B\":\"\"}}";
        assert!(read(env).starts_with("env: "), "{}", read(env));
        let raw: &RawValue = serde_json::from_str(
            "{\"processId\":\"p\",\"command\":\"x\",\"pty\":{\"cols\":0,\"rows\":1}}",
        )
        .unwrap();
        let error = params::<SpawnParams>(Some(raw)).unwrap_err();
        assert!(error.message().starts_with("pty.cols: "), "{error}");
    }

    #[test]
    fn an_error_keeps_its_step() {
        for step in [Some(StartStep::Cwd), Some(StartStep::Exec), None] {
            let error = Error::new(ErrorKind::Os(2), "no").at(step);
            let mut buffer = Vec::new();
            let id: &RawValue = serde_json::from_str("1").unwrap();
            write_error(&mut buffer, Some(id), &error);
            let text = std::str::from_utf8(&buffer).unwrap();
            let Ok(Message::Response { outcome: Outcome::Error(read), .. }) = parse(text) else {
                panic!("{text}")
            };
            assert_eq!(read, error);
        }
    }
}
