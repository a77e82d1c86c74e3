//! The end of a server whose requests hang.

use std::time::{Duration, Instant};

use serde_json::json;

use super::content;
use super::hung::{Hung, all_else_works, assert_hanging, hang};
use crate::support::{DEADLINE, Victim, describe, eventually};

#[test]
fn the_server_ends_on_sigterm_though_requests_hang() {
    const NAME: &str = "the_server_ends_on_sigterm_though_requests_hang";
    let Some(hung) = Hung::mount(NAME, "stopped") else { return };
    let mut server = hung.setup().listen();
    let mut peer = server.connect();
    let _woken = hung.woken_first();
    let ids = hang(&mut peer, &hung, "f");
    assert_hanging(&mut peer, &ids);
    let victim = Victim::new();
    victim.spawn(&mut peer);
    let since = Instant::now();
    server.signal(libc::SIGTERM);
    let status = server.wait(DEADLINE);
    assert_eq!(status.code(), Some(0), "{}", describe(status));
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    victim.await_gone();
}

/// No process ends while one of its threads waits like this, not even by SIGKILL. All else does.
#[test]
fn on_sigterm_all_is_ended_though_requests_cannot_even_be_killed() {
    const NAME: &str = "on_sigterm_all_is_ended_though_requests_cannot_even_be_killed";
    let Some(hung) = Hung::mount(NAME, "silent") else { return };
    let mut server = hung.setup().listen();
    let mut peer = server.connect();
    let _woken = hung.woken_first();
    let ids = hang(&mut peer, &hung, "f");
    assert_hanging(&mut peer, &ids);
    let victim = Victim::new();
    victim.spawn(&mut peer);
    let since = Instant::now();
    server.signal(libc::SIGTERM);
    assert_eq!(peer.closed(Duration::from_secs(5)).code, Some(1001));
    victim.await_gone();
    eventually(Duration::from_secs(5), "the port is free", || {
        std::net::TcpListener::bind(server.address).is_ok()
    });
    assert!(since.elapsed() < Duration::from_secs(8), "{:?}", since.elapsed());
    hung.end();
    let status = server.wait(Duration::from_secs(5));
    assert_eq!(status.code(), Some(0), "{}", describe(status));
}

#[test]
fn the_server_ends_with_its_stdin_though_requests_hang() {
    const NAME: &str = "the_server_ends_with_its_stdin_though_requests_hang";
    let Some(hung) = Hung::mount(NAME, "stopped") else { return };
    let mut peer = hung.setup().stdio();
    let _woken = hung.woken_first();
    let ids = hang(&mut peer, &hung, "f");
    assert_hanging(&mut peer, &ids);
    all_else_works(&mut peer, &hung.dir, "same");
    let last = peer.request("fs/writeFile", &content(hung.dir.join("last"), "written"));
    let since = Instant::now();
    peer.hang_up();
    peer.closed(Duration::from_secs(15));
    assert!(peer.has_answer(&last), "a write elsewhere is not answered");
    let status = peer.pipes().wait(Duration::from_secs(15)).expect("the server ends");
    assert_eq!(status.code(), Some(0), "{}", describe(status));
    assert!(since.elapsed() < Duration::from_secs(15), "{:?}", since.elapsed());
    assert_eq!(std::fs::read(hung.dir.join("last")).unwrap(), b"written");
    for id in ids.iter().filter(|id| peer.has_answer(id)).cloned().collect::<Vec<_>>() {
        assert!(peer.answer(&id).is_err());
    }
}

#[test]
fn at_the_end_of_stdin_all_else_is_answered_though_requests_cannot_even_be_killed() {
    const NAME: &str =
        "at_the_end_of_stdin_all_else_is_answered_though_requests_cannot_even_be_killed";
    let Some(hung) = Hung::mount(NAME, "silent") else { return };
    let mut peer = hung.setup().stdio();
    let _woken = hung.woken_first();
    let ids = hang(&mut peer, &hung, "f");
    assert_hanging(&mut peer, &ids);
    let last = peer.request("fs/writeFile", &content(hung.dir.join("last"), "written"));
    let victim = Victim::new();
    victim.spawn(&mut peer);
    peer.hang_up();
    assert_eq!(peer.answer_within(&last, Duration::from_secs(15)).unwrap()["size"], json!(7));
    victim.await_gone_within(Duration::from_secs(15));
    hung.end();
    let status = peer.pipes().wait(Duration::from_secs(15)).expect("the server ends");
    assert_eq!(status.code(), Some(0), "{}", describe(status));
}
