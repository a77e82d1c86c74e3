//! What the dialect's messages look like: JSON-RPC that does not say its version.

use serde::Serialize;
use serde_json::value::RawValue;

use super::process::Name;
use crate::error::{Error, ErrorKind};
use crate::protocol::encode_onto;
use crate::protocol::rpc::{self, Invalid, Message};
use crate::sys::errno;

/// Reads one message. (An id is a string or an integer of 64 bits: anything else is answered to the
/// id -1, as what cannot be read is.)
pub(super) fn parse(text: &str) -> Result<Message<'_>, Invalid<'_>> {
    let message =
        rpc::parse_unversioned(text).map_err(|invalid| Invalid { id: None, ..invalid })?;
    if let Message::Request { id, .. } = &message
        && !id.get().starts_with('"')
        && id.get().parse::<i64>().is_err()
    {
        let error = Error::new(ErrorKind::InvalidRequest, "an id is a string or an integer");
        return Err(Invalid { id: None, error });
    }
    Ok(message)
}

/// Appends an error that answers this id, or none.
pub(super) fn write_error(buffer: &mut Vec<u8>, id: Option<&RawValue>, error: &Error) {
    #[derive(Serialize)]
    struct Answer<'a> {
        id: &'a RawValue,
        error: Told<'a>,
    }
    #[derive(Serialize)]
    struct Told<'a> {
        code: i64,
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<Data>,
    }
    #[derive(Serialize)]
    struct Data {
        kind: &'static str,
    }
    let nobody = RawValue::from_string("-1".to_owned()).ok();
    let Some(id) = id.or(nobody.as_deref()) else { return };
    let (code, kind) = code_of(error);
    let data = kind.map(|kind| Data { kind });
    rpc::write_json(buffer, &Answer { id, error: Told { code, message: error.message(), data } });
}

/// The number of an error, and the kind in its data where it has one.
fn code_of(error: &Error) -> (i64, Option<&'static str>) {
    let did_not_start = error.step().is_some();
    match error.kind() {
        ErrorKind::Os(errno::ENOENT) if did_not_start => (INTERNAL, Some("spawnNotFound")),
        ErrorKind::Os(errno::EACCES | errno::EPERM) if did_not_start => {
            (INTERNAL, Some("spawnPermissionDenied"))
        }
        ErrorKind::Os(_) if did_not_start => (INTERNAL, Some("spawnFailed")),
        ErrorKind::Os(errno::ENOENT) => (-32_004, None),
        ErrorKind::MethodNotFound => (-32_601, None),
        ErrorKind::InvalidParams => (-32_602, None),
        ErrorKind::Os(errno::EACCES | errno::EPERM | errno::EINVAL)
        | ErrorKind::Parse
        | ErrorKind::InvalidRequest
        | ErrorKind::DuplicateId
        | ErrorKind::UnknownProcess
        | ErrorKind::NotAFile
        | ErrorKind::TooLarge => (-32_600, None),
        _ => (INTERNAL, None),
    }
}

const INTERNAL: i64 = -32_603;

/// Appends the notification of a chunk of output.
pub(super) fn write_output(
    buffer: &mut Vec<u8>,
    process: &Name,
    stream: &'static str,
    seq: u64,
    chunk: &[u8],
) {
    let head = format!(
        "{{\"method\":\"process/output\",\"params\":{{\"processId\":{},\"seq\":{seq},\
         \"stream\":\"{stream}\",\"chunk\":\"",
        process.quoted
    );
    buffer.extend_from_slice(head.as_bytes());
    encode_onto(chunk, buffer);
    buffer.extend_from_slice(b"\"}}");
}

/// Appends a notification.
pub(super) fn write_notification(buffer: &mut Vec<u8>, method: &str, params: &impl Serialize) {
    #[derive(Serialize)]
    struct Notification<'a, P> {
        method: &'a str,
        params: &'a P,
    }
    rpc::write_json(buffer, &Notification { method, params });
}
