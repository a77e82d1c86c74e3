//! The epoch in `initialize`.

use serde_json::json;

use super::{assert_fenced, assert_stale, epoch_of};
use crate::support::{Server, Setup, TempDir, Victim, over_both};

#[test]
fn initialize_brings_an_epoch_and_answers_it() {
    over_both(|peer| {
        assert_eq!(epoch_of(peer), json!(null));
        for _ in 0..2 {
            let result = peer.ok("initialize", &json!({"clientName": "x", "epoch": 12}));
            assert_eq!(result["epoch"], json!(12));
        }
        assert_eq!(epoch_of(peer), json!(12));
    });
}

#[test]
fn another_epoch_than_the_connection_has_is_refused() {
    over_both(|peer| {
        peer.ok("initialize", &json!({"epoch": 12}));
        for other in [11, 13] {
            let error = peer.error("initialize", &json!({"epoch": other}));
            assert_eq!(error.code, -32_602);
            error.assert_names("epoch");
        }
        assert_eq!(epoch_of(peer), json!(12));
    });
    let server = Server::start();
    let mut peer = server.connect_of(5);
    assert_eq!(peer.error("initialize", &json!({"epoch": 6})).code, -32_602);
    assert_eq!(peer.ok("initialize", &json!({"epoch": 5}))["epoch"], json!(5));
    // The larger one has fenced nobody.
    let mut same = server.connect_of(5);
    same.ping();
    peer.ping();
}

#[test]
fn what_is_no_epoch_is_refused_by_name() {
    over_both(|peer| {
        for bad in
            [json!(-1), json!(1.5), json!("1"), json!(true), json!(9_007_199_254_740_992_u64)]
        {
            let error = peer.error("initialize", &json!({"epoch": bad}));
            assert_eq!(error.code, -32_602, "{bad}");
            assert!(error.message.starts_with("epoch: "), "{bad}: {error:?}");
        }
        assert_eq!(peer.ok("initialize", &json!({"epoch": null}))["epoch"], json!(null));
        assert_eq!(peer.ok("initialize", &json!({"epoch": 0}))["epoch"], json!(0));
    });
}

#[test]
fn an_epoch_in_initialize_fences_as_one_in_the_url_does() {
    let server = Server::start();
    let (mut old, mut new) = (server.connect(), server.connect());
    let (victim, own) = (Victim::new(), Victim::new());
    victim.spawn(&mut old);
    own.spawn(&mut new);
    old.ok("initialize", &json!({"epoch": 1}));
    victim.assert_alive();
    let id = old.request("process/exec", &json!({"processId": "p", "command": "sleep 60"}));
    old.ping();
    assert_eq!(new.ok("initialize", &json!({"epoch": 2}))["epoch"], json!(2));
    assert_eq!(victim.count(), 0, "it runs on");
    own.assert_alive();
    assert_stale(&old.answer(&id).unwrap_err(), 1, 2);
    assert_fenced(&mut old);
    new.ping();
}

#[test]
fn a_stale_epoch_in_initialize_is_answered_and_ends_what_the_connection_has_started() {
    let server = Server::start();
    let mut new = server.connect_of(5);
    let (mut old, victim) = (server.connect(), Victim::new());
    victim.spawn(&mut old);
    let id = old.request("process/exec", &json!({"processId": "p", "command": "sleep 60"}));
    old.ping();
    assert_stale(&old.error("initialize", &json!({"epoch": 4})), 4, 5);
    assert_stale(&old.answer(&id).unwrap_err(), 4, 5);
    assert_fenced(&mut old);
    victim.await_gone();
    new.ping();
}

/// There is no close code to read.
#[test]
fn over_stdio_a_stale_host_hears_that_from_each_of_its_calls() {
    let dir = TempDir::new();
    let file = dir.write("epoch", "50\n");
    let mut peer = Setup::new().args(["--epoch-file", file.to_str().unwrap()]).stdio();
    let victim = Victim::new();
    victim.spawn(&mut peer);
    let id = peer.request("process/exec", &json!({"processId": "p", "command": "sleep 60"}));
    let write = |name: &str| json!({"path": dir.join(name), "dataBase64": "eA=="});
    peer.ok("fs/writeFile", &write("before"));
    assert_stale(&peer.error("initialize", &json!({"epoch": 49})), 49, 50);
    assert_stale(&peer.answer(&id).unwrap_err(), 49, 50);
    victim.await_gone_within(std::time::Duration::ZERO);
    for epoch in [json!(49), json!(51), json!(null)] {
        assert_stale(&peer.error("initialize", &json!({"epoch": epoch})), 49, 50);
    }
    assert_stale(&peer.error("ping", &json!({})), 49, 50);
    assert_stale(&peer.error("no/such", &json!({})), 49, 50);
    assert_stale(&peer.error("fs/writeFile", &write("after")), 49, 50);
    assert_stale(
        &peer.error("process/spawn", &json!({"processId": "q", "command": "true"})),
        49,
        50,
    );
    assert!(!dir.join("after").exists());
    peer.hang_up();
    let status = peer.pipes().wait(crate::support::DEADLINE).expect("it ends");
    assert_eq!(status.code(), Some(0));
}
