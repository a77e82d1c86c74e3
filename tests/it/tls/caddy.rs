//! Through Caddy.

use ta_exec::ErrorKind;
use ta_exec::protocol::SpawnParams;

use super::authority::Authority;
use super::front::{Front, Kind};
use super::{assert_failed, assert_says, client, command, run};
use crate::client::{finish, within};
use crate::support::{DEADLINE, Server, TempDir};

const KIND: Kind = Kind::Caddy;

#[test]
fn commands_and_files_go_through_caddy() {
    if KIND.is_missing("commands_and_files_go_through_caddy") {
        return;
    }
    let (authority, server) = (Authority::new(), Server::start());
    let front = Front::start(KIND, server.address, &authority.certify("DNS:localhost"));
    let (url, ca) = (front.url(), authority.file());
    assert_says(&run(&url, ca, &["echo", "hello"]), "hello\n");
    let dir = TempDir::new();
    let content = vec![b'x'; 3_000_000];
    let near = dir.write("near", &content);
    let far = dir.join("far");
    let to = format!(":{}", far.display());
    let done = command("cp", &url, ca, &[near.to_str().unwrap(), &to]).output().unwrap();
    assert_says(&done, "");
    assert_eq!(std::fs::read(far).unwrap(), content);
    assert_failed(&run(&url.replace("/exec", "/metrics"), ca, &["true"]), &["404"]);
    drop(server);
    assert_failed(&run(&url, ca, &["true"]), &["502", "does not reach it"]);
}

/// This Caddy ends the connections of the configuration that was.
#[test]
fn a_reload_of_caddy_is_got_over() {
    if KIND.is_missing("a_reload_of_caddy_is_got_over") {
        return;
    }
    let (authority, server) = (Authority::new(), Server::start());
    let front = Front::start(KIND, server.address, &authority.certify("DNS:localhost"));
    let client = client(&front.url(), &authority);
    let mut process = client.spawn(&SpawnParams::new("sleep").arg("60")).unwrap();
    front.reload();
    let error = within(DEADLINE, || finish(&mut process)).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::ConnectionLost, "{error}");
    client.ping().unwrap();
}
