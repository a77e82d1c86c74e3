//! What a server gets to read of a request that came through a proxy.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use super::authority::Authority;
use super::front::{Front, Kind};
use super::{assert_failed, run};
use crate::support::{DEADLINE, TOKEN};

/// Takes one request, and says that there is no room.
fn take_one(listener: &TcpListener) -> String {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    let answer = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
    stream.write_all(answer).unwrap();
    String::from_utf8(head).unwrap()
}

/// The upgrade, the token, and that somebody stands in front.
#[test]
fn a_proxy_passes_on_what_the_server_has_to_know() {
    for kind in [Kind::Nginx, Kind::Caddy] {
        if kind.is_missing("a_proxy_passes_on_what_the_server_has_to_know") {
            return;
        }
        let authority = Authority::new();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let front = Front::start(kind, address, &authority.certify("DNS:localhost"));
        let take = move || take_one(&listener);
        let taking = thread::Builder::new().name("upstream".into()).spawn(take).unwrap();
        let done = run(&front.url(), authority.file(), &["true"]);
        assert_failed(&done, &["503", "as many connections as it may have"]);
        let head = taking.join().unwrap();
        let lower = head.to_ascii_lowercase();
        for expected in [
            "get /exec http/1.1",
            "upgrade: websocket",
            "connection: upgrade",
            "x-forwarded-for: 127.0.0.1",
        ] {
            assert!(lower.lines().any(|line| line == expected), "{kind:?}: {expected}: {head}");
        }
        let token = format!("uthorization: Bearer {TOKEN}");
        assert!(head.contains(&token), "{kind:?}: {head}");
    }
}
