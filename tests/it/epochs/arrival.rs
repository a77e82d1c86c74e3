//! Who comes with which epoch, and who is fenced by whom.

use serde_json::json;

use super::{assert_fenced, assert_stale, epoch_of};
use crate::support::frames::{FIN, Frames, TEXT, masked};
use crate::support::{DEADLINE, Peer, Server, Setup, TempDir, Victim, http, over_both};

#[test]
fn equal_epochs_share_the_server() {
    let server = Server::start();
    let (mut one, mut other) = (server.connect_of(7), server.connect_of(7));
    let victim = Victim::new();
    victim.spawn(&mut one);
    for peer in [&mut one, &mut other] {
        assert_eq!(epoch_of(peer), json!(7));
    }
    drop(other);
    let mut third = server.connect_of(7);
    third.ping();
    one.ping();
    victim.assert_alive();
}

#[test]
fn a_larger_epoch_fences_every_smaller_one() {
    let server = Server::start();
    let mut old = [server.connect_of(3), server.connect_of(3), server.connect_of(4)];
    // (The third has fenced the first two.)
    old.iter_mut().take(2).for_each(assert_fenced);
    old[2].ping();
    let mut new = server.connect_of(9_007_199_254_740_991);
    new.ping();
    assert_fenced(&mut old[2]);
    assert_eq!(epoch_of(&mut new), json!(9_007_199_254_740_991_u64));
}

#[test]
fn a_connection_without_an_epoch_fences_nobody_and_is_not_fenced() {
    let server = Server::start();
    let (mut plain, victim) = (server.connect(), Victim::new());
    victim.spawn(&mut plain);
    let mut old = server.connect_of(1);
    let theirs = Victim::new();
    theirs.spawn(&mut old);
    server.connect().ping();
    old.ping();
    theirs.assert_alive();
    let running = plain.start_exec(json!({"command": "sleep 0.3; echo whole"}));
    server.connect_of(2).ping();
    assert_fenced(&mut old);
    victim.assert_alive();
    assert_eq!(plain.finish(&running).text(), "whole\n");
    assert_eq!(epoch_of(&mut plain), json!(null));
}

#[test]
fn a_stale_host_is_let_in_and_closed_at_once_and_nothing_it_sent_is_done() {
    let server = Server::start();
    let dir = TempDir::new();
    let mut new = server.connect_of(5);
    new.ping();
    for _ in 0..5 {
        // In one go with the upgrade, so that it is there before the server can close.
        let file = dir.join("f");
        let call = format!(
            r#"{{"id":1,"method":"process/exec","params":{{"processId":"p","command":"echo > {}"}}}}"#,
            file.display()
        );
        let headers: Vec<_> = server.authorization().into_iter().collect();
        let mut request = http::upgrade_request("/exec?epoch=4", &headers).into_bytes();
        request.extend_from_slice(&masked(FIN | TEXT, call.as_bytes()));
        let mut stream = http::connect(server.address);
        std::io::Write::write_all(&mut stream, &request).unwrap();
        let bytes = http::read_to_end(&mut stream, DEADLINE).expect("it is closed");
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.starts_with("HTTP/1.1 101 "), "{text}");
        // The close frame, and no answer.
        let (_, frames) = text.split_once("\r\n\r\n").unwrap();
        assert!(frames.ends_with(super::STALE) && !frames.contains("jsonrpc"), "{frames:?}");
        assert!(!file.exists());
    }
    assert_fenced(&mut server.connect_of(0));
    new.ping();
    assert_eq!(epoch_of(&mut new), json!(5));
}

#[test]
fn an_epoch_that_is_none_is_400_and_only_for_who_may_connect() {
    let server = Server::start();
    let bearer = server.authorization().unwrap();
    let status = |query: &str, headers: &[&str]| {
        http::upgrade_status(server.address, &format!("/exec?{query}"), headers)
    };
    for bad in ["-1", "1.5", "1e3", "x", "", "9007199254740992", "0x10", "1&epoch=2"] {
        let query = format!("epoch={bad}");
        assert_eq!(status(&query, &[&bearer]), 400, "{bad}");
        assert_eq!(status(&query, &[]), 401, "{bad}");
        assert_eq!(status(&query, &[&bearer, "Origin: http://x"]), 403, "{bad}");
    }
    for good in ["0", "9007199254740991", "9007199254740991&epoch=9007199254740991"] {
        assert_eq!(status(&format!("epoch={good}"), &[&bearer]), 101, "{good}");
    }
}

#[test]
fn an_upgrade_that_is_refused_raises_nothing() {
    let server = Server::start();
    let mut old = server.connect_of(1);
    assert_eq!(http::upgrade_status(server.address, "/exec?epoch=9", &[]), 401);
    old.ping();
}

#[test]
fn an_older_hosts_connections_do_not_keep_out_the_one_that_is_to_end_them() {
    let server = Setup::new().args(["--max-connections", "2"]).listen();
    let mut old = [server.connect_of(1), server.connect_of(1)];
    let bearer = server.authorization().unwrap();
    for no_newer in ["/exec", "/exec?epoch=0", "/exec?epoch=1"] {
        assert_eq!(http::upgrade_status(server.address, no_newer, &[&bearer]), 503, "{no_newer}");
    }
    old.iter_mut().for_each(Peer::ping);
    // From the first answer on they keep out none of its others either, while they say goodbye.
    let mut new = [server.connect_of(2), server.connect_of(2)];
    new.iter_mut().for_each(|peer| assert_eq!(epoch_of(peer), json!(2)));
    assert_eq!(http::upgrade_status(server.address, "/exec?epoch=2", &[&bearer]), 503);
    for mut peer in old {
        assert_fenced(&mut peer);
    }
}

/// Two hosts that reach one machine by ssh.
#[test]
fn each_stdio_server_has_its_own_epochs() {
    let (mut one, mut other) = (Setup::new().stdio(), Setup::new().stdio());
    let victim = Victim::new();
    for (peer, epoch) in [(&mut one, 1), (&mut other, 2)] {
        assert_eq!(peer.ok("initialize", &json!({"epoch": epoch}))["epoch"], json!(epoch));
    }
    victim.spawn(&mut one);
    other.ping();
    victim.assert_alive();
    one.ping();
}

#[test]
fn it_is_a_feature() {
    over_both(|peer| {
        let features = peer.ok("initialize", &json!({}))["features"].clone();
        assert!(features.as_array().unwrap().contains(&json!("epoch")), "{features}");
    });
}

#[test]
fn a_fenced_host_hears_that_in_every_request_that_is_in_flight() {
    let server = Server::start();
    let mut old = server.connect_of(10);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (link, _) = old.connect_to(json!({"host": "127.0.0.1", "port": port}));
    let victim = Victim::new();
    let sleeper = old.spawn(json!({"command": "sleep", "args": [victim.argument()]}));
    victim.await_alive();
    let full = json!({"processId": sleeper, "chunk": crate::support::base64(vec![0; 1 << 20])});
    let bytes = json!({"connectionId": link, "chunk": crate::support::base64(vec![0; 14 << 20])});
    let mut ids = vec![old.request("process/write", &full), old.request("net/write", &bytes)];
    for n in 0..20 {
        let params = json!({"processId": format!("e{n}"), "command": "sleep 60"});
        ids.push(old.request("process/exec", &params));
    }
    old.ping();
    let mut new = server.connect_of(11);
    new.ping();
    victim.await_gone_within(std::time::Duration::ZERO);
    for id in &ids {
        assert_stale(&old.answer(id).unwrap_err(), 10, 11);
    }
    assert_fenced(&mut old);
}

#[test]
fn frames_that_came_before_the_fence_are_not_carried_out_behind_it() {
    let server = Server::start();
    let dir = TempDir::new();
    for round in 0..10_u64 {
        let mut old = Frames::new(server.upgrade_of(round * 2));
        let file = dir.join(&format!("f{round}"));
        for n in 0..200 {
            let command = format!("echo {n} >> {}", file.display());
            old.text(
                &json!({"id": n, "method": "process/exec",
                "params": {"processId": format!("p{n}"), "command": command}})
                .to_string(),
            );
        }
        server.connect_of(round * 2 + 1).ping();
        let then = std::fs::read(&file).unwrap_or_default();
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert_eq!(std::fs::read(&file).unwrap_or_default(), then, "in round {round}");
        assert_eq!(old.close_code(), Some(4409), "in round {round}");
    }
}
