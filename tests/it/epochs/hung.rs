//! Old hosts whose file systems hang.

use std::time::{Duration, Instant};

use serde_json::json;

use super::assert_fenced;
use crate::fs::hung::{Hung, assert_hanging, hang};
use crate::fs::inject::{await_held, injected, lacks_strace};
use crate::support::{Setup, TempDir, Victim};

fn takes_over_at_once(test: &str, kind: &str) {
    let Some(hung) = Hung::mount(test, kind) else { return };
    let server = hung.setup().listen();
    let mut old = server.connect_of(1);
    let _woken = hung.woken_first();
    let victim = Victim::new();
    victim.spawn(&mut old);
    // They hang before they change anything.
    let mut ids = hang(&mut old, &hung, "f");
    ids.push(old.request("fs/remove", &json!({"path": hung.inside("d"), "recursive": true})));
    assert_hanging(&mut old, &ids);
    let since = Instant::now();
    server.connect_of(2).ping();
    let took = since.elapsed();
    assert!(took < Duration::from_millis(1500), "they were waited for: {took:?}");
    assert_eq!(victim.count(), 0);
    for id in &ids {
        super::assert_stale(&old.answer(id).unwrap_err(), 1, 2);
    }
    assert_fenced(&mut old);
}

#[test]
fn what_hangs_in_a_stopped_file_system_and_changes_nothing_is_not_waited_for() {
    takes_over_at_once("what_hangs_in_a_stopped_file_system_is_not_waited_for", "stopped");
}

#[test]
fn what_hangs_in_a_silent_file_system_and_changes_nothing_is_not_waited_for() {
    takes_over_at_once("what_hangs_in_a_silent_file_system_is_not_waited_for", "silent");
}

/// A rename that hangs for longer than anybody waits: it may still land, so nobody is answered.
#[test]
fn where_a_change_hangs_for_a_minute_the_new_host_is_told_to_come_again_and_never_answered() {
    if lacks_strace("where_a_change_hangs_for_a_minute_the_new_host_is_told_to_come_again") {
        return;
    }
    let renames = "rename,renameat,renameat2";
    let server = injected(Setup::new(), renames, "delay_enter=64000000:when=1").listen();
    let dir = TempDir::new();
    let file = dir.write("f", "old");
    let mut old = server.connect_of(1);
    old.request("fs/writeFile", &json!({"path": file, "dataBase64": "bmV3"}));
    await_held(server.pid());
    let mut new = server.connect_of(2);
    let mut later = server.connect();
    let (ping, epoch) =
        (new.request("ping", &json!({})), later.request("initialize", &json!({"epoch": 2})));
    for (peer, id) in [(&mut new, ping), (&mut later, epoch)] {
        let closing = peer.closed(Duration::from_secs(75));
        assert_eq!(closing.code, Some(1013), "{closing:?}");
        assert!(closing.reason.contains("older host"), "{closing:?}");
        assert!(!peer.has_answer(&id));
    }
    assert!(server.log.text().contains("do not end"), "{}", server.log.text());
    server.connect().ping();
    // When it has come to its end, everything is as ever.
    server.connect_of(2).ping();
    assert_eq!(std::fs::read(&file).unwrap(), b"new");
}
