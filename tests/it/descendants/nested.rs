//! A server that was started by a server.

use serde_json::{Value, json};

use super::{Escaped, assert_gone, ways};
use crate::support::{Peer, Victim, base64, binary, over_both, unique};

/// Asks the server at the end of these names for something: each is a process of the one before.
#[track_caller]
fn ask(peer: &mut Peer, names: &[&str], method: &str, params: Value) {
    let [method, params] = names.iter().rev().fold([json!(method), params], |inner, name| {
        let [method, params] = inner;
        let message = json!({"jsonrpc": "2.0", "id": unique(), "method": method, "params": params});
        let params = json!({"processId": name, "chunk": base64(format!("{message}\n"))});
        [json!("process/write"), params]
    });
    peer.ok(method.as_str().unwrap(), &params);
}

/// Starts a server below that one.
#[track_caller]
fn serve(peer: &mut Peer, names: &[&str], name: &str) {
    let params = json!({
        "processId": name, "command": binary(), "args": ["exec-server", "--stdio"],
    });
    ask(peer, names, "process/spawn", params);
}

/// Something that stays, something that escapes while its parent lives, and something that has
/// none.
#[track_caller]
fn let_escape(peer: &mut Peer, names: &[&str]) -> (Victim, Victim) {
    let (kept, orphan) = (Victim::new(), Victim::new());
    let command = "setsid sleep $KEPT & (setsid sleep $ORPHAN &); exec sleep $KEPT";
    let env = json!({"KEPT": kept.argument(), "ORPHAN": orphan.argument()});
    let params = json!({"processId": unique(), "command": command, "env": env});
    ask(peer, names, "process/exec", params);
    kept.await_count(2);
    orphan.await_count(1);
    (kept, orphan)
}

#[test]
fn the_end_of_an_outer_connection_takes_all_of_three_levels() {
    over_both(|peer| {
        serve(peer, &[], "one");
        serve(peer, &["one"], "two");
        let all = [let_escape(peer, &["one"]), let_escape(peer, &["one", "two"])];
        peer.hang_up();
        for (kept, orphan) in &all {
            assert_gone(kept, "of an inner server");
            assert_gone(orphan, "an orphan of an inner server");
        }
    });
}

#[test]
fn the_end_of_an_inner_connection_takes_what_is_its_own_alone() {
    over_both(|peer| {
        let outer = Escaped::one(peer, &ways::DAEMON);
        serve(peer, &[], "one");
        serve(peer, &[], "other");
        let (kept, orphan) = let_escape(peer, &["one"]);
        let theirs = let_escape(peer, &["other"]);
        peer.ok("process/write", &json!({"processId": "one", "eof": true}));
        assert_eq!(peer.exit("one").code(), Some(0));
        assert_gone(&kept, "of the inner server");
        assert_gone(&orphan, "an orphan of the inner server");
        outer.assert_alive();
        theirs.0.assert_alive();
        theirs.1.assert_alive();
    });
}

/// The inner server is killed before it can end anything, and its orphans bear its own mark: those
/// may last until the connection ends.
#[test]
fn a_kill_of_an_inner_server_takes_all_that_it_has_started() {
    over_both(|peer| {
        let outer = Escaped::one(peer, &ways::DAEMON);
        serve(peer, &[], "one");
        let (kept, orphan) = let_escape(peer, &["one"]);
        assert!(peer.kill("one"));
        assert_gone(&kept, "of the inner server");
        outer.assert_alive();
        peer.hang_up();
        assert_gone(&orphan, "an orphan of the inner server");
    });
}

#[test]
fn a_kill_of_an_inner_server_takes_its_orphans_too() {
    over_both(|peer| {
        serve(peer, &[], "one");
        let (_, orphan) = let_escape(peer, &["one"]);
        assert!(peer.kill("one"));
        assert_gone(&orphan, "an orphan of the inner server");
    });
}

#[test]
fn a_kill_in_an_inner_server_takes_what_has_escaped_there_alone() {
    over_both(|peer| {
        let outer = Escaped::one(peer, &ways::DAEMON);
        serve(peer, &[], "one");
        let stays = let_escape(peer, &["one"]);
        let victim = Victim::new();
        let params = json!({
            "processId": "killed", "command": "(setsid sleep $N &); exec sleep $N",
            "env": {"N": victim.argument()},
        });
        ask(peer, &["one"], "process/exec", params);
        victim.await_count(2);
        ask(peer, &["one"], "process/kill", json!({"processId": "killed"}));
        assert_gone(&victim, "killed");
        outer.assert_alive();
        stays.0.assert_alive();
        stays.1.assert_alive();
    });
}
