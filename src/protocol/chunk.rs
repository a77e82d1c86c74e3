//! Chunks of output, of stdin and of connections, written and read by hand: the hot path of the protocol.

use serde_json::value::RawValue;

use super::bytes::encode_onto;
use super::rpc::{write, write_json};
use super::{ConnectionId, ProcessId, method};

/// Notifications with chunks of one process's output or of one connection's data, written by
/// hand: with serde one 64 KiB chunk costs several times as much, most of it for a string that is
/// copied again.
pub(crate) struct ChunkTemplate {
    /// The member that names the process or the connection, and its value in JSON.
    member: &'static str,
    id: String,
}

impl ChunkTemplate {
    /// For the output of the process of this id.
    pub(crate) fn of_process(id: &str) -> Self {
        Self { member: PROCESS_ID, id: quoted(id) }
    }

    /// For the data of the connection of this id.
    pub(crate) fn of_connection(id: &str) -> Self {
        Self { member: CONNECTION_ID, id: quoted(id) }
    }

    /// Appends the notification of one chunk of output.
    pub(crate) fn write_output(&self, buffer: &mut Vec<u8>, method: &str, seq: u64, chunk: &[u8]) {
        self.start(buffer, method);
        write(buffer, format_args!(",\"seq\":{seq}"));
        write_chunk(buffer, chunk);
        buffer.extend_from_slice(b"}}");
    }

    /// Appends the notification of one chunk of data.
    pub(crate) fn write_data(&self, buffer: &mut Vec<u8>, chunk: &[u8]) {
        self.start(buffer, method::DATA);
        write_chunk(buffer, chunk);
        buffer.extend_from_slice(b"}}");
    }

    fn start(&self, buffer: &mut Vec<u8>, method: &str) {
        let Self { member, id } = self;
        write(buffer, format_args!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":"));
        write(buffer, format_args!("{{\"{member}\":{id}"));
    }
}

const PROCESS_ID: &str = "processId";
const CONNECTION_ID: &str = "connectionId";

fn quoted(id: &str) -> String {
    let mut quoted = Vec::new();
    write_json(&mut quoted, &id);
    String::from_utf8(quoted).unwrap_or_default()
}

fn write_chunk(buffer: &mut Vec<u8>, chunk: &[u8]) {
    write(buffer, format_args!(",\"chunk\":\""));
    encode_onto(chunk, buffer);
    buffer.push(b'"');
}

/// A notification with a chunk, as [`ChunkTemplate`] writes it.
pub(crate) struct Chunk<'a> {
    pub(crate) method: &'a str,
    /// The process's or the connection's.
    pub(crate) id: &'a str,
    pub(crate) chunk: &'a str,
}

/// Reads a notification with a chunk in exactly the form that this server writes, several times
/// faster than JSON is read. `None` for everything else.
pub(crate) fn parse_chunk(text: &str) -> Option<Chunk<'_>> {
    let rest = text.strip_prefix("{\"jsonrpc\":\"2.0\",\"method\":\"")?;
    let (method, rest) = rest.split_once('"')?;
    let (member, is_output) = match method {
        method::OUTPUT | method::STDERR => (PROCESS_ID, true),
        method::DATA => (CONNECTION_ID, false),
        _ => return None,
    };
    let rest = rest.strip_prefix(",\"params\":{\"")?.strip_prefix(member)?;
    let (id, rest) = rest.strip_prefix("\":\"")?.split_once('"')?;
    if id.contains('\\') {
        return None;
    }
    let rest = match is_output {
        true => {
            let rest = rest.strip_prefix(",\"seq\":")?;
            rest.trim_start_matches(|digit: char| digit.is_ascii_digit())
        }
        false => rest,
    };
    // (The end of data has another member behind the chunk, and so another form.)
    let chunk = rest.strip_prefix(",\"chunk\":\"")?.strip_suffix("\"}}")?;
    Some(Chunk { method, id, chunk })
}

/// A request to write a chunk, as [`write_stdin`] and [`write_net`] write it.
pub(crate) struct Write<'a> {
    /// The request's.
    pub(crate) id: &'a RawValue,
    pub(crate) method: &'a str,
    /// The process's or the connection's.
    pub(crate) target: &'a str,
    pub(crate) chunk: &'a str,
    pub(crate) eof: bool,
}

/// Reads a request to write a chunk in exactly the form that this client writes. `None` for
/// everything else: the same in another form, what is wrong with it, is JSON's business.
pub(crate) fn parse_write(text: &str) -> Option<Write<'_>> {
    let rest = text.strip_prefix("{\"jsonrpc\":\"2.0\",\"id\":")?;
    let (id, rest) = rest.split_once(',')?;
    if id.is_empty() || id.len() > 19 || !id.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (method, rest) = rest.strip_prefix("\"method\":\"")?.split_once('"')?;
    let member = match method {
        method::WRITE => PROCESS_ID,
        method::NET_WRITE => CONNECTION_ID,
        _ => return None,
    };
    let rest = rest.strip_prefix(",\"params\":{\"")?.strip_prefix(member)?;
    let (target, rest) = rest.strip_prefix("\":\"")?.split_once('"')?;
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
    if !(1..=128).contains(&target.len()) || !target.bytes().all(is_plain) {
        return None;
    }
    let (rest, eof) = match rest.strip_prefix(",\"eof\":true") {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    let chunk = rest.strip_prefix(",\"chunk\":\"")?.strip_suffix("\"}}")?;
    // 01 and the like are no numbers.
    let id = serde_json::from_str(id).ok()?;
    Some(Write { id, method, target, chunk, eof })
}

/// Appends a `process/write` request, by hand like output and for the same reason.
pub(crate) fn write_stdin(
    buffer: &mut Vec<u8>,
    id: u64,
    process_id: &ProcessId,
    chunk: &[u8],
    eof: bool,
) {
    write_request(buffer, id, (method::WRITE, PROCESS_ID, process_id.as_str()), chunk, eof);
}

/// Appends a `net/write` request.
pub(crate) fn write_net(
    buffer: &mut Vec<u8>,
    id: u64,
    connection_id: &ConnectionId,
    chunk: &[u8],
    eof: bool,
) {
    let target = (method::NET_WRITE, CONNECTION_ID, connection_id.as_str());
    write_request(buffer, id, target, chunk, eof);
}

fn write_request(
    buffer: &mut Vec<u8>,
    id: u64,
    (method, member, target): (&str, &str, &str),
    chunk: &[u8],
    eof: bool,
) {
    write(buffer, format_args!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\","));
    write(buffer, format_args!("\"params\":{{\"{member}\":"));
    write_json(buffer, &target);
    if eof {
        write(buffer, format_args!(",\"eof\":true"));
    }
    write_chunk(buffer, chunk);
    buffer.extend_from_slice(b"}}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_notification_reads_back() {
        let mut buffer = Vec::new();
        ChunkTemplate::of_process("a\"b").write_output(
            &mut buffer,
            "process/output",
            7,
            b"\x00\xff",
        );
        let value: serde_json::Value = serde_json::from_slice(&buffer).unwrap();
        assert_eq!(value["params"]["processId"], "a\"b");
        assert_eq!(value["params"]["seq"], 7);
        assert_eq!(value["params"]["chunk"], "AP8=");
        assert!(parse_chunk(std::str::from_utf8(&buffer).unwrap()).is_none(), "an escaped id");
        buffer.clear();
        ChunkTemplate::of_process("p1").write_output(
            &mut buffer,
            "process/stderr",
            12,
            b"\x00\xff",
        );
        let output = parse_chunk(std::str::from_utf8(&buffer).unwrap()).unwrap();
        assert_eq!((output.method, output.id), ("process/stderr", "p1"));
        assert_eq!(output.chunk, "AP8=");
    }

    #[test]
    fn a_data_notification_reads_back() {
        let mut buffer = Vec::new();
        ChunkTemplate::of_connection("c1").write_data(&mut buffer, b"\x00\xff");
        let text = std::str::from_utf8(&buffer).unwrap();
        let data = parse_chunk(text).unwrap();
        assert_eq!((data.method, data.id, data.chunk), ("net/data", "c1", "AP8="));
        let event: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(event["params"]["connectionId"], "c1");
        let ended = text.replace("\"AP8=\"", "\"\",\"eof\":true");
        assert!(parse_chunk(&ended).is_none(), "{ended}");
    }

    #[test]
    fn a_write_to_stdin_reads_back() {
        use super::super::rpc::{Message, params, parse};
        use super::super::{Base64, WriteParams};
        let process_id = ProcessId::try_from("a\"b".to_owned()).unwrap();
        for (bytes, eof) in [(&b"\x00\xff"[..], false), (b"", true)] {
            let mut buffer = Vec::new();
            write_stdin(&mut buffer, 7, &process_id, bytes, eof);
            let text = std::str::from_utf8(&buffer).unwrap();
            let Ok(Message::Request { id, method, params: raw }) = parse(text) else {
                panic!("{text}")
            };
            assert_eq!((id.get(), &*method), ("7", method::WRITE));
            let read: WriteParams = params(raw).unwrap();
            assert_eq!(read.process_id, process_id);
            assert_eq!((read.chunk, read.eof), (Some(Base64(bytes.into())), eof.then_some(true)));
            assert!(parse_write(text).is_none(), "an escaped id");
        }
    }

    #[test]
    fn a_write_in_its_usual_form_is_read_by_hand() {
        let connection_id = ConnectionId::try_from("c7".to_owned()).unwrap();
        for eof in [false, true] {
            let mut buffer = Vec::new();
            write_net(&mut buffer, 12, &connection_id, b"\x00\xff", eof);
            let text = std::str::from_utf8(&buffer).unwrap();
            let write = parse_write(text).unwrap();
            assert_eq!((write.id.get(), write.method), ("12", method::NET_WRITE));
            assert_eq!((write.target, write.chunk, write.eof), ("c7", "AP8=", eof));
            for (from, to) in [
                ("\"id\":12", "\"id\":012"),
                ("\"id\":12", "\"id\":\"12\""),
                ("\"id\":12", "\"id\":-12"),
                ("\"c7\"", "\"\""),
                ("net/write", "net/close"),
                ("AP8=\"", "AP8=\",\"eof\":false"),
                ("\"params\":", "\"params\": "),
            ] {
                let other = text.replace(from, to);
                let chunk = parse_write(&other).map(|write| write.chunk);
                // (Quotes within what is taken for the chunk are no base64.)
                assert!(chunk.is_none_or(|chunk| chunk.contains('"')), "{other}");
            }
        }
    }
}
