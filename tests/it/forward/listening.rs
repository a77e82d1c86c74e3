//! Where a forward listens, and where it leads.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};

use super::{Forward, connect, echo, round_trip, spawn};
use crate::run::Running;
use crate::support::proxy::Proxy;
use crate::support::{ClosedPort, DEADLINE, Server, TempDir, eventually, ta, ta_to};

#[test]
fn every_form_leads_where_it_says() {
    let server = Server::start();
    let (four, six) = (echo("127.0.0.1"), echo("::1"));
    let specs = [
        format!("0:localhost:{four}"),
        format!("localhost:0:127.0.0.1:{four}"),
        format!("*:0:127.0.0.1:{four}"),
        format!(":0:127.0.0.1:{four}"),
        format!("[::1]:0:[::1]:{six}"),
    ];
    for spec in &specs {
        let forward = Forward::start(&server, &[spec]);
        for at in &forward.at {
            let at = at.replace("[::]", "127.0.0.1").replace("0.0.0.0", "127.0.0.1");
            round_trip(connect(&at), spec.as_bytes());
        }
        let loopback = ["127.0.0.1:", "[::1]:"].iter().any(|host| forward.at[0].starts_with(host));
        assert_eq!(loopback, !spec.starts_with(['*', ':']), "{spec}: {:?}", forward.at);
    }
    let specs: Vec<&str> = specs.iter().map(String::as_str).collect();
    let all = Forward::start(&server, &specs);
    assert!(all.at.len() >= specs.len(), "{:?}", all.at);
    all.running.signal(libc::SIGTERM);
    assert_eq!(all.running.finish().code, 128 + libc::SIGTERM);
}

#[test]
fn unix_sockets_stand_at_either_end() {
    let server = Server::start();
    let dir = TempDir::new();
    let (near, far) = (dir.join("near"), dir.join("far"));
    let listener = UnixListener::bind(&far).unwrap();
    spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut from = stream.try_clone().unwrap();
            let _ = std::io::copy(&mut from, &mut stream);
        }
    });
    // A dead process has left one.
    drop(UnixListener::bind(&near).unwrap());
    let spec = format!("{}:{}", near.display(), far.display());
    let forward = Forward::start(&server, &[&spec]);
    let metadata = near.symlink_metadata().unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    let mut stream = UnixStream::connect(&near).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(b"hello").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    assert_eq!(all, "hello");

    // A live one is not replaced.
    let second = Running::start(ta_to(&server, &["forward", &spec])).finish();
    second.assert_failed(125, "somebody listens there");
    let to_path = format!("0:{}", far.display());
    round_trip(Forward::start(&server, &[&to_path]).connect(), b"by a port");
    forward.running.signal(libc::SIGINT);
    assert_eq!(forward.running.finish().code, 128 + libc::SIGINT);
    assert!(!near.exists(), "it is removed at the end");

    let file = dir.write("file", "precious");
    let spec = format!("{}:localhost:1", file.display());
    let refused = Running::start(ta_to(&server, &["forward", &spec])).finish();
    refused.assert_failed(125, "is no socket");
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
}

#[test]
fn what_is_wrong_is_one_line_and_2_or_125() {
    let server = Server::start();
    let run =
        |args: &[&str]| Running::start(ta_to(&server, &[&["forward"], args].concat())).finish();
    run(&[]).assert_failed(2, "no forward");
    for spec in ["8000", "x:localhost:80", "0:localhost:0", "0:[::1:80", "-:host", "0:h:99999"] {
        run(&[spec]).assert_failed(2, "is no forward");
    }
    run(&["9999"]).assert_failed(2, "it does not say where to (they are written");
    run(&["9999"]).assert_failed(2, "8000:localhost:80");
    run(&["-:h:1", "0:h:1"]).assert_failed(2, "nothing beside it");
    run(&["--nope"]).assert_failed(2, "nope");
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    run(&[&format!("{port}:h:1")]).assert_failed(125, "cannot listen on 127.0.0.1");
    let closed = ClosedPort::new();
    let url = format!("ws://127.0.0.1:{}/exec", closed.port);
    let unreachable = Running::start(ta(&["forward", "--exec", &url, "0:h:1"])).finish();
    unreachable.assert_failed(125, "cannot reach");
}

/// It went on listening though it could never forward anything again.
#[test]
fn a_newer_host_ends_a_forward_also_while_nobody_is_connected() {
    let server = Server::start();
    let forward = Forward::start(&server, &["--epoch", "5", "0:127.0.0.1:1"]);
    assert_eq!(Running::start(ta_to(&server, &["ping", "--epoch", "9"])).finish().code, 0);
    let done = forward.running.finish();
    assert_eq!(done.code, 125, "{done:?}");
    let last = done.stderr.lines().last().unwrap();
    assert!(last.contains("newer than 5") && last.contains("--epoch"), "{done:?}");
    assert!(std::net::TcpStream::connect(&forward.at[0]).is_err(), "nobody listens any more");
}

#[test]
fn a_newer_host_ends_a_forward_with_its_connections() {
    let server = Server::start();
    let target = format!("0:127.0.0.1:{}", echo("127.0.0.1"));
    let forward = Forward::start(&server, &["--epoch", "5", &target]);
    let mut stream = forward.connect();
    stream.write_all(b"x").unwrap();
    stream.read_exact(&mut [0]).unwrap();
    assert_eq!(Running::start(ta_to(&server, &["ping", "--epoch", "9"])).finish().code, 0);
    let done = forward.running.finish();
    assert_eq!(done.code, 125, "{done:?}");
    assert!(done.stderr.lines().last().unwrap().contains("newer"), "{done:?}");
    assert!(!matches!(stream.read(&mut [0]), Ok(1..)), "its connection is over too");
}

#[test]
fn a_forward_whose_connection_was_lost_hears_of_a_newer_host_from_the_next() {
    let server = Server::start();
    let proxy = Proxy::to(server.address);
    let command = ta_to(&server, &["forward", "--epoch", "5", "--exec", &proxy.url(), "0:[::1]:1"]);
    let running = Running::start(command);
    running.stderr.wait_for(" to [::1]:1\n");
    let at = running.stderr.text();
    let at = at.trim_start_matches("ta: forwarding ").split(' ').next().unwrap();
    proxy.cut();
    eventually(DEADLINE, "the server has seen the loss", || {
        server.log.text().contains("disconnected")
    });
    assert_eq!(Running::start(ta_to(&server, &["ping", "--epoch", "9"])).finish().code, 0);
    let mut stream = connect(at);
    assert!(!matches!(stream.read(&mut [0]), Ok(1..)));
    let done = running.finish();
    assert_eq!(done.code, 125, "{done:?}");
    assert!(done.stderr.lines().last().unwrap().contains("newer than 5"), "{done:?}");
}

#[test]
fn a_forward_of_an_older_host_does_not_begin() {
    let server = Server::start();
    assert_eq!(Running::start(ta_to(&server, &["ping", "--epoch", "9"])).finish().code, 0);
    for spec in ["0:127.0.0.1:1", "-:127.0.0.1:1"] {
        let words = ["forward", "--epoch", "5", spec];
        let done = Running::start(ta_to(&server, &words)).finish();
        done.assert_failed(125, "newer than 5");
    }
}
