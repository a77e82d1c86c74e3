//! Which host a client is, and the end of one that another has taken over from.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ta_exec::ErrorKind;
use ta_exec::client::{ClientOptions, ExecClient, host_epoch};
use ta_exec::protocol::{ExecParams, SpawnParams};

use super::{Host, finish, impatient};
use crate::support::proxy::{Proxy, after_head};
use crate::support::{DEADLINE, Server, TOKEN, TempDir, Victim, binary, eventually};

fn first_line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(after_head(bytes).0).lines().next().unwrap().to_owned()
}

#[test]
fn all_clients_of_a_program_are_one_host_which_is_as_old_as_the_program() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let age = now.saturating_sub(Duration::from_millis(host_epoch()));
    assert!(age < Duration::from_secs(24 * 3600), "{age:?}");
    let server = Server::start();
    let proxy = Proxy::to(server.address);
    let clients = [(); 2].map(|()| ExecClient::websocket(&proxy.url(), Some(TOKEN)).unwrap());
    for (number, client) in clients.iter().enumerate() {
        assert_eq!(client.initialize().unwrap().epoch, Some(host_epoch()));
        let line = first_line(&proxy.passed(number).up);
        assert_eq!(line, format!("GET /exec?epoch={} HTTP/1.1", host_epoch()));
    }
}

#[test]
fn who_wants_no_epoch_sends_none() {
    let host = Host::new(ClientOptions::new().epoch(None));
    assert_eq!(host.client.initialize().unwrap().epoch, None);
    assert_eq!(first_line(&host.proxy.passed(0).up), "GET /exec HTTP/1.1");
}

#[test]
fn on_a_pipe_the_epoch_is_in_the_first_request() {
    let dir = TempDir::new();
    for epoch in [None, Some(7)] {
        let sent = dir.join(if epoch.is_some() { "some" } else { "none" });
        let line = format!("tee {} | {} exec-server --stdio", sent.display(), binary().display());
        let client = ClientOptions::new().epoch(epoch).stdio(&["sh", "-c", &line]).unwrap();
        client.ping().unwrap();
        let sent = std::fs::read_to_string(sent).unwrap();
        let first = sent.lines().next().unwrap();
        match epoch {
            None => assert!(first.contains("ping") && !sent.contains("epoch"), "{sent}"),
            Some(_) => {
                assert!(first.contains("initialize") && first.contains("\"epoch\":7"), "{sent}");
            }
        }
    }
}

#[test]
fn a_host_that_was_taken_over_from_knows_and_stays_away() {
    let host = Host::new(impatient().epoch(Some(5)));
    let victim = Victim::new();
    let mut process = host.client.exec(&ExecParams::new(victim.command())).unwrap();
    victim.await_alive();
    let newer = ClientOptions::new().epoch(Some(6));
    let newer =
        newer.websocket(&format!("ws://{}/exec", host.server.address), Some(TOKEN)).unwrap();
    newer.ping().unwrap();
    victim.await_gone();
    let error = finish(&mut process).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::StaleEpoch, "{error}");
    eventually(DEADLINE, "its connection has ended", || {
        host.client.spawn(&SpawnParams::new("true")).is_err()
    });
    for _ in 0..5 {
        let error = host.client.ping().unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::StaleEpoch, "{error}");
    }
    assert_eq!(host.proxy.count(), 1);
}

#[test]
fn a_host_that_comes_back_too_late_knows_and_stays_away() {
    let host = Host::new(impatient().epoch(Some(5)));
    host.lose_connection();
    let newer = ClientOptions::new().epoch(Some(6));
    let newer =
        newer.websocket(&format!("ws://{}/exec", host.server.address), Some(TOKEN)).unwrap();
    newer.ping().unwrap();
    for _ in 0..5 {
        let error = host.client.ping().unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::StaleEpoch, "{error}");
    }
    assert_eq!(host.proxy.count(), 2);
    newer.ping().unwrap();
}
