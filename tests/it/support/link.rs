//! What arrived about one connection of `net/*`, and the promises of the protocol about it: the
//! answer to `net/connect` before the first notification, chunks of at most 64 KiB, one end of data,
//! nothing after it but `net/closed`, nothing at all after that.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use super::unbase64;

#[derive(Default)]
pub(crate) struct Link {
    pub(crate) data: Vec<u8>,
    /// Bytes that came while `discard` was set.
    pub(crate) discarded: usize,
    /// Counts data instead of keeping it.
    pub(crate) discard: bool,
    pub(crate) acknowledge: bool,
    pub(crate) ended: bool,
    /// The params of `net/closed`.
    pub(crate) closed: Option<Value>,
    pub(crate) awaiting_answer: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Data<'a> {
    #[serde(borrow)]
    pub(crate) connection_id: Cow<'a, str>,
    #[serde(borrow)]
    chunk: Cow<'a, str>,
    #[serde(default)]
    eof: Option<bool>,
}

impl Link {
    pub(crate) fn received(&self) -> usize {
        self.data.len() + self.discarded
    }

    /// Takes a `net/data`; returns the size of its chunk.
    pub(crate) fn data(&mut self, data: &Data<'_>) -> Result<usize, String> {
        self.may_come()?;
        if self.ended {
            return Err("data after their end".into());
        }
        let bytes = unbase64(&data.chunk);
        let ends = data.eof.unwrap_or(false);
        if bytes.len() > 64 * 1024 || (bytes.is_empty() && !ends) {
            return Err(format!("a chunk of {} bytes", bytes.len()));
        }
        self.ended = ends;
        match self.discard {
            true => self.discarded += bytes.len(),
            false => self.data.extend_from_slice(&bytes),
        }
        Ok(bytes.len())
    }

    /// Takes a `net/closed`.
    pub(crate) fn closed(&mut self, params: Value) -> Result<(), String> {
        self.may_come()?;
        let error = &params["error"];
        let is_error = error["code"].is_i64() && error["message"].is_string();
        if params.get("error").is_some() && !is_error {
            return Err("error is no error object".into());
        }
        self.closed = Some(params);
        Ok(())
    }

    fn may_come(&self) -> Result<(), String> {
        match (self.awaiting_answer, &self.closed) {
            (true, _) => Err("a notification before the answer to net/connect".into()),
            (_, Some(_)) => Err("a notification after net/closed".into()),
            _ => Ok(()),
        }
    }
}
