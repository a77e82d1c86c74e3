//! Through nginx.

use std::time::{Duration, Instant};

use ta_exec::ErrorKind;
use ta_exec::protocol::SpawnParams;

use super::authority::Authority;
use super::front::{Front, Kind};
use super::{assert_failed, assert_says, client, command, options, run};
use crate::client::{finish, within};
use crate::support::proxy::Proxy;
use crate::support::{DEADLINE, Server, Setup, TOKEN, TempDir, eventually, ta};

const KIND: Kind = Kind::Nginx;

struct Site {
    authority: Authority,
    server: Server,
    front: Front,
}

impl Site {
    fn new() -> Self {
        Self::with(Setup::new(), &[])
    }

    fn with(setup: Setup, changes: &[(&str, &str)]) -> Self {
        let (authority, server) = (Authority::new(), setup.listen());
        let certificate = authority.certify("DNS:localhost");
        let front = Front::start_with(KIND, server.address, &certificate, changes);
        Self { authority, server, front }
    }
}

#[test]
fn commands_and_files_go_through_nginx() {
    if KIND.is_missing("commands_and_files_go_through_nginx") {
        return;
    }
    let Site { authority, server: _server, front } = Site::new();
    let (url, ca) = (front.url(), authority.file());
    let done = run(&url, ca, &["sh", "-c", "echo hello; exit 3"]);
    assert_eq!((done.status.code(), done.stdout.as_slice()), (Some(3), &b"hello\n"[..]));
    let dir = TempDir::new();
    let content = vec![b'x'; 3_000_000];
    let near = dir.write("near", &content);
    let far = format!(":{}", dir.join("far").display());
    let copy = |args: &[&str]| command("cp", &url, ca, args).output().unwrap();
    assert_says(&copy(&[near.to_str().unwrap(), &far]), "");
    let back = dir.join("back");
    assert_says(&copy(&[&far, back.to_str().unwrap()]), "");
    assert_eq!(std::fs::read(back).unwrap(), content);
}

/// In the header, which nginx passes on, and in the query; the configuration's log has neither.
#[test]
fn the_token_is_passed_on_and_written_down_nowhere() {
    if KIND.is_missing("the_token_is_passed_on_and_written_down_nowhere") {
        return;
    }
    let Site { authority, server, front } = Site::new();
    let ca = authority.file().to_str().unwrap();
    assert_says(&run(&front.url(), authority.file(), &["echo", "hello"]), "hello\n");
    let in_query = format!("{}?token={TOKEN}", front.url());
    let mut command = ta(&["run", "--exec", &in_query, "--ca-file", ca, "echo", "hello"]);
    assert_says(&command.output().unwrap(), "hello\n");
    let mut wrong = ta(&["run", "--exec", &front.url(), "--ca-file", ca, "true"]);
    let wrong = wrong.env("TA_EXEC_TOKEN", "wrong-horse").output().unwrap();
    assert_failed(&wrong, &["401", "the token is missing or wrong"]);
    let log = || std::fs::read_to_string(front.file("access")).unwrap();
    eventually(DEADLINE, "three lines in nginx's log", || log().lines().count() >= 3);
    for written in [log(), front.said(), server.log.text()] {
        assert!(!written.contains(TOKEN), "{written}");
    }
}

#[test]
fn only_what_is_served_is_passed_on() {
    if KIND.is_missing("only_what_is_served_is_passed_on") {
        return;
    }
    let Site { authority, server: _server, front } = Site::new();
    for path in ["/metrics", "/elsewhere", "/exec/"] {
        let url = front.url().replace("/exec", path);
        assert_failed(&run(&url, authority.file(), &["true"]), &["404"]);
    }
}

#[test]
fn a_server_that_is_down_behind_nginx_is_told_of() {
    if KIND.is_missing("a_server_that_is_down_behind_nginx_is_told_of") {
        return;
    }
    let Site { authority, server, front } = Site::new();
    drop(server);
    let done = run(&front.url(), authority.file(), &["true"]);
    assert_failed(&done, &["502", "what stands before the server does not reach it"]);
    // It may be back in a moment.
    let error = options(&authority).websocket(&front.url(), Some(TOKEN)).err().unwrap();
    assert_eq!(*error.kind(), ErrorKind::Unreachable, "{error}");
}

/// nginx gives up a connection on which nothing has come for `proxy_read_timeout`. The pings of either
/// end alone see to it that this does not happen.
#[test]
fn pings_of_either_end_outlast_the_time_outs_of_nginx() {
    if KIND.is_missing("pings_of_either_end_outlast_the_time_outs_of_nginx") {
        return;
    }
    // A ping comes four times in the one time, and hardly ever in the other.
    let (often, seldom) = (4, 60);
    for (here, there) in [(often, seldom), (seldom, often)] {
        let setup = Setup::new().args(["--peer-timeout", &there.to_string()]);
        let short = [("proxy_read_timeout 60s", "proxy_read_timeout 3s")];
        let site = Site::with(setup, &short);
        let options = options(&site.authority).peer_timeout(Duration::from_secs(here));
        let client = options.websocket(&site.front.url(), Some(TOKEN)).unwrap();
        let mut process = client.spawn(&SpawnParams::new("sleep").arg("60")).unwrap();
        let event = process.next(Some(Instant::now() + Duration::from_secs(8))).unwrap();
        assert!(event.is_none(), "{here} {there}: {event:?}");
        assert!(process.control().kill("KILL", None).unwrap());
        finish(&mut process).unwrap();
    }
    // Without pings in time the connection ends: the times above are real.
    let setup = Setup::new().args(["--peer-timeout", "60"]);
    let site = Site::with(setup, &[("proxy_read_timeout 60s", "proxy_read_timeout 1s")]);
    let client = client(&site.front.url(), &site.authority);
    let mut process = client.spawn(&SpawnParams::new("sleep").arg("60")).unwrap();
    let error = within(DEADLINE, || finish(&mut process)).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::ConnectionLost, "{error}");
}

/// A new configuration takes no connection away; a new nginx does, and the next call finds it.
#[test]
fn a_reload_of_nginx_is_not_noticed_and_a_restart_is_got_over() {
    if KIND.is_missing("a_reload_of_nginx_is_not_noticed_and_a_restart_is_got_over") {
        return;
    }
    let Site { authority, server, front } = Site::new();
    let proxy = Proxy::to(front.address);
    let url = format!("wss://localhost:{}/exec", proxy.address.port());
    let client = client(&url, &authority);
    let mut process = client.spawn(&SpawnParams::new("sleep").arg("60")).unwrap();
    front.reload();
    for _ in 0..3 {
        assert_says(&run(&front.url(), authority.file(), &["echo", "hello"]), "hello\n");
    }
    client.ping().unwrap();
    assert_eq!(proxy.count(), 1);
    let certificate = authority.certify("DNS:localhost");
    let next = Front::start(KIND, server.address, &certificate);
    proxy.lead_to(next.address);
    drop(front);
    let error = within(DEADLINE, || finish(&mut process)).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::ConnectionLost, "{error}");
    client.ping().unwrap();
    assert_eq!(proxy.count(), 2);
}
