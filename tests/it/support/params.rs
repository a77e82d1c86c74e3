//! Params with a mistake in them.

use serde_json::Value;

use super::Peer;

/// That a request with these params is -32602, and that the error names a member.
#[track_caller]
pub(crate) fn wrong(peer: &mut Peer, method: &str, params: &Value, member: &str) {
    let error = peer.error(method, params);
    assert_eq!(error.code, -32602, "{method} {params:.200}: {error:?}");
    assert!(error.message.contains(member), "{method} {params:.200}: no {member} in {error:?}");
}

/// The object with one member changed.
pub(crate) fn with(base: &Value, member: &str, value: Value) -> Value {
    let mut changed = base.clone();
    changed[member] = value;
    changed
}

/// The object with one member left out.
pub(crate) fn without(base: &Value, member: &str) -> Value {
    let mut changed = base.clone();
    changed.as_object_mut().unwrap().remove(member);
    changed
}
