//! Epochs: a newer host takes the server over, and from its first answer on nothing of an older
//! one runs, and no write of it lands.

mod arrival;
mod ends;
mod file;
mod file_refused;
mod files;
mod hung;
mod initialize;
mod processes;
mod race;
mod required;
mod run;

use serde_json::json;

use crate::support::{DEADLINE, Peer, RpcError};

const STALE: &str = "CELL_TA_EXEC_STALE_EPOCH";

/// An error that says that the caller's epoch is this one, and the server's that one.
#[track_caller]
fn assert_stale(error: &RpcError, own: u64, current: u64) {
    assert_eq!((error.code, error.data_code()), (-32_000, STALE), "{error:?}");
    assert_eq!(error.data["epoch"], json!(own), "{error:?}");
    assert_eq!(error.data["current"], json!(current), "{error:?}");
    error.assert_names("another host");
}

/// The close frame of a fenced connection.
#[track_caller]
fn assert_fenced(peer: &mut Peer) {
    let closing = peer.closed(DEADLINE);
    assert_eq!((closing.code, closing.reason.as_str()), (Some(4409), STALE), "{closing:?}");
}

/// The epoch that a connection has by its own account.
#[track_caller]
fn epoch_of(peer: &mut Peer) -> serde_json::Value {
    peer.ok("initialize", &json!({}))["epoch"].clone()
}
