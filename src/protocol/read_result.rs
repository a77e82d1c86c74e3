//! The result of `fs/readFile`, written by hand while the file is read: as a value it would take
//! its size in memory twice more.

use super::bytes::encode_onto;
use super::rpc::{write, write_json};

/// Begins it.
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
    use super::super::{Base64, ReadFileResult};
    use super::*;

    #[test]
    fn it_is_what_the_type_says() {
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
