//! Chunks of output and of stdin, written and read by hand: the hot path of the protocol.

use super::bytes::encode_onto;
use super::rpc::{write, write_json};
use super::{ProcessId, method};

/// Output notifications of one process, written by hand: with serde one 64 KiB chunk costs
/// several times as much, most of it for a string that is copied again.
pub(crate) struct OutputTemplate {
    process_id: String,
}

impl OutputTemplate {
    /// For the process of this id.
    pub(crate) fn new(process_id: &str) -> Self {
        let mut quoted = Vec::new();
        write_json(&mut quoted, &process_id);
        Self { process_id: String::from_utf8(quoted).unwrap_or_default() }
    }

    /// Appends the notification of one chunk.
    pub(crate) fn write(&self, buffer: &mut Vec<u8>, method: &str, seq: u64, chunk: &[u8]) {
        let process_id = &self.process_id;
        write(buffer, format_args!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":"));
        write(buffer, format_args!("{{\"processId\":{process_id},\"seq\":{seq},\"chunk\":\""));
        encode_onto(chunk, buffer);
        buffer.extend_from_slice(b"\"}}");
    }
}

/// An output notification, as [`OutputTemplate`] writes it.
pub(crate) struct Output<'a> {
    pub(crate) method: &'a str,
    pub(crate) process_id: &'a str,
    pub(crate) chunk: &'a str,
}

/// Reads an output notification in exactly the form that this server writes, several times
/// faster than JSON is read. `None` for everything else.
pub(crate) fn parse_output(text: &str) -> Option<Output<'_>> {
    let rest = text.strip_prefix("{\"jsonrpc\":\"2.0\",\"method\":\"")?;
    let (method, rest) = rest.split_once('"')?;
    if !matches!(method, method::OUTPUT | method::STDERR) {
        return None;
    }
    let rest = rest.strip_prefix(",\"params\":{\"processId\":\"")?;
    let (process_id, rest) = rest.split_once('"')?;
    if process_id.contains('\\') {
        return None;
    }
    let rest = rest.strip_prefix(",\"seq\":")?;
    let rest = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let chunk = rest.strip_prefix(",\"chunk\":\"")?.strip_suffix("\"}}")?;
    Some(Output { method, process_id, chunk })
}

/// Appends a `process/write` request, by hand like output and for the same reason.
pub(crate) fn write_stdin(
    buffer: &mut Vec<u8>,
    id: u64,
    process_id: &ProcessId,
    chunk: &[u8],
    eof: bool,
) {
    write(buffer, format_args!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":"));
    write(buffer, format_args!("\"{}\",\"params\":{{\"processId\":", method::WRITE));
    write_json(buffer, process_id);
    if eof {
        write(buffer, format_args!(",\"eof\":true"));
    }
    write(buffer, format_args!(",\"chunk\":\""));
    encode_onto(chunk, buffer);
    buffer.extend_from_slice(b"\"}}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_notification_reads_back() {
        let mut buffer = Vec::new();
        OutputTemplate::new("a\"b").write(&mut buffer, "process/output", 7, b"\x00\xff");
        let value: serde_json::Value = serde_json::from_slice(&buffer).unwrap();
        assert_eq!(value["params"]["processId"], "a\"b");
        assert_eq!(value["params"]["seq"], 7);
        assert_eq!(value["params"]["chunk"], "AP8=");
        assert!(parse_output(std::str::from_utf8(&buffer).unwrap()).is_none(), "an escaped id");
        buffer.clear();
        OutputTemplate::new("p1").write(&mut buffer, "process/stderr", 12, b"\x00\xff");
        let output = parse_output(std::str::from_utf8(&buffer).unwrap()).unwrap();
        assert_eq!((output.method, output.process_id), ("process/stderr", "p1"));
        assert_eq!(output.chunk, "AP8=");
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
        }
    }
}
