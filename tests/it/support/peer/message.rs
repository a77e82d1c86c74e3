//! What a message of the server's may look like.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// An answer, its id as it stood in the message.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) id: String,
    pub(crate) outcome: Result<Value, RpcError>,
}

#[derive(Clone, Debug)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Value,
}

impl RpcError {
    /// `data.code`, or "" where there is none.
    pub(crate) fn data_code(&self) -> &str {
        self.data["code"].as_str().unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn assert_names(&self, what: &str) {
        assert!(self.message.contains(what), "the message does not name {what:?}: {self:?}");
    }
}

#[derive(Deserialize)]
pub(super) struct Envelope<'a> {
    #[serde(default)]
    pub(super) jsonrpc: Value,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) id: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) method: Option<String>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) error: Option<&'a RawValue>,
}

/// Tells `null` from a member that is not there.
fn present<'de, D: Deserializer<'de>>(source: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(source).map(Some)
}

pub(super) fn parse(raw: &RawValue) -> Result<Value, String> {
    serde_json::from_str(raw.get()).map_err(|error| error.to_string())
}

pub(super) fn rpc_error(error: &Value) -> Result<RpcError, String> {
    let code = error["code"].as_i64().ok_or("error.code is not an integer")?;
    let message = error["message"].as_str().filter(|text| !text.is_empty());
    let message = message.ok_or("error.message is not a sentence")?.to_owned();
    Ok(RpcError { code, message, data: error["data"].clone() })
}
