//! The content of files on its way, written by hand: as values, `fs/readFile`'s result and
//! `fs/writeFile`'s request would take their size in memory once or twice more.

use super::bytes::encode_onto;
use super::rpc::{write, write_json};
use super::{Base64, WriteFileParams, method};

/// Appends the request of a write.
pub(crate) fn write_request(buffer: &mut Vec<u8>, id: u64, params: &WriteFileParams) {
    // All but the content, to be put at the end.
    let others = WriteFileParams {
        path: params.path.clone(),
        data_base64: Base64::default(),
        if_version: params.if_version.clone(),
        ..*params
    };
    super::rpc::write_request(buffer, id, method::WRITE_FILE, &others);
    // `"}}` is put back behind the content, which is the last member.
    buffer.truncate(buffer.len().saturating_sub(3));
    encode_onto(&params.data_base64.0, buffer);
    buffer.extend_from_slice(b"\"}}");
}

/// Begins the result of a read.
pub(crate) fn begin(buffer: &mut Vec<u8>) {
    buffer.extend_from_slice(b"{\"dataBase64\":\"");
}

/// Adds bytes: a multiple of 3, but for the last ones.
pub(crate) fn add(buffer: &mut Vec<u8>, bytes: &[u8]) {
    encode_onto(bytes, buffer);
}

/// Ends it.
pub(crate) fn end(buffer: &mut Vec<u8>, size: u64, eof: bool, version: &str) {
    write(buffer, format_args!("\",\"size\":{size},\"eof\":{eof},\"version\":"));
    write_json(buffer, &version);
    buffer.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::super::ReadFileResult;
    use super::*;

    #[test]
    fn a_write_reads_back() {
        use super::super::WirePath;
        use super::super::rpc::{Message, params, parse};
        let path = WirePath::try_from(std::path::PathBuf::from("a\"b")).unwrap();
        let mut written = WriteFileParams::new(path, b"\x00\xff".to_vec());
        written.sync = Some(true);
        written.if_version = Some("v".to_owned());
        let mut buffer = Vec::new();
        write_request(&mut buffer, 7, &written);
        let text = std::str::from_utf8(&buffer).unwrap();
        let Ok(Message::Request { id, method, params: raw }) = parse(text) else {
            panic!("{text}")
        };
        assert_eq!((id.get(), &*method), ("7", method::WRITE_FILE));
        assert_eq!(params::<WriteFileParams>(raw).unwrap(), written);
    }

    #[test]
    fn a_result_is_what_the_type_says() {
        let mut buffer = Vec::new();
        begin(&mut buffer);
        add(&mut buffer, b"\x00\xff\x01");
        add(&mut buffer, b"\x02");
        end(&mut buffer, 4, true, "v\"1");
        let read: ReadFileResult = serde_json::from_slice(&buffer).unwrap();
        let data_base64 = Base64(vec![0, 0xff, 1, 2]);
        let expected =
            ReadFileResult { data_base64, size: 4, eof: true, version: "v\"1".to_owned() };
        assert_eq!(read, expected);
    }
}
