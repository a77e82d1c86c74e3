//! A request on its way from its params to its answer.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::super::responder::Responder;
use crate::error::{Error, Result};
use crate::mailbox::Reply;
use crate::protocol::Base64;
use crate::protocol::lifted::Carries;
use crate::protocol::rpc;

/// A request to be carried out.
pub(in crate::server) struct Ask<'a> {
    pub(in crate::server) params: Option<&'a RawValue>,
    /// What was lifted out of them.
    pub(in crate::server) lifted: Option<Vec<u8>>,
    pub(in crate::server) responder: Responder,
}

/// Reads the params and goes on, or answers what is wrong with them.
pub(in crate::server) fn with<'a, P: Deserialize<'a>>(
    ask: Ask<'a>,
    go_on: impl FnOnce(P, Responder),
) {
    match rpc::params(ask.params) {
        Ok(params) => go_on(params, ask.responder),
        Err(error) => ask.responder.send::<()>(&Err(error)),
    }
}

/// The same where the params carry content.
pub(in crate::server) fn with_content<'a, P: Deserialize<'a> + Carries>(
    mut ask: Ask<'a>,
    go_on: impl FnOnce(P, Responder),
) {
    let lifted = ask.lifted.take();
    with(ask, |mut params: P, responder| {
        if let Some(lifted) = lifted {
            params.put_back(lifted);
        }
        go_on(params, responder);
    });
}

/// What a write carries.
pub(in crate::server) fn bytes_and_eof(
    chunk: Option<Base64>,
    eof: Option<bool>,
) -> Result<(Vec<u8>, bool)> {
    let eof = eof.unwrap_or(false);
    match chunk {
        Some(chunk) => Ok((chunk.0, eof)),
        None if eof => Ok((Vec::new(), eof)),
        None => Err(Error::params("chunk: missing, and eof is not true")),
    }
}

/// An answer made of what an order came to.
pub(in crate::server) fn reply_with<T, R: Serialize>(
    responder: Responder,
    result: impl FnOnce(T) -> R + Send + 'static,
) -> Reply<T> {
    Box::new(move |outcome| responder.send(&outcome.map(result)))
}
