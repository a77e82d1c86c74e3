//! Where the dialect is, and who gets in.

use crate::codex::peer::Peer;
use crate::support::{Server, Setup, TOKEN, http};

#[test]
fn it_is_at_the_root_beside_exec() {
    let server = Server::start();
    let bearer = server.authorization().unwrap();
    for (target, status) in [("/", 101), ("/exec", 101), ("/codex", 404), ("//", 404)] {
        assert_eq!(http::upgrade_status(server.address, target, &[&bearer]), status, "{target}");
    }
    let status = http::get(server.address, "/").status;
    assert!((400..500).contains(&status), "{status}");
    assert_eq!(http::get(server.address, "/readyz").status, 200);
}

#[test]
fn turned_off_it_is_nowhere() {
    let server = Setup::new().args(["--no-codex"]).listen();
    let bearer = server.authorization().unwrap();
    assert_eq!(http::upgrade_status(server.address, "/", &[&bearer]), 404);
    assert_eq!(http::get(server.address, "/").status, 404);
    assert_eq!(http::get(server.address, "/readyz").status, 404);
    server.connect().ping();
}

#[test]
fn without_the_right_token_nobody_gets_in() {
    let server = Server::start();
    for header in [
        "Authorization: Bearer wrong".to_owned(),
        format!("Authorization: Basic {TOKEN}"),
        format!("Cookie: token={TOKEN}"),
    ] {
        assert_eq!(http::upgrade_status(server.address, "/", &[&header]), 401, "{header}");
    }
    assert_eq!(http::upgrade_status(server.address, "/", &[]), 401);
    let right = format!("authorization: bearer {TOKEN}");
    assert_eq!(http::upgrade_status(server.address, "/", &[&right]), 101);
    let open = Setup::new().without_token().listen();
    assert_eq!(http::upgrade_status(open.address, "/", &[]), 101);
}

#[test]
fn a_web_page_does_not_get_in() {
    let server = Server::start();
    let bearer = server.authorization().unwrap();
    for origin in ["https://x", "null", "http://127.0.0.1", ""] {
        let header = format!("Origin: {origin}");
        assert_eq!(http::upgrade_status(server.address, "/", &[&bearer, &header]), 403, "{origin}");
    }
    let allowed = Setup::new().args(["--allow-origin", "https://good.example"]).listen();
    let header = "Origin: https://good.example";
    assert_eq!(http::upgrade_status(allowed.address, "/", &[&bearer, header]), 101);
}

#[test]
fn its_connections_count_as_others_do() {
    let server = Setup::new().args(["--max-connections", "2"]).listen();
    let (_one, _other) = (Peer::connect(&server), server.connect());
    let bearer = server.authorization().unwrap();
    for target in ["/", "/exec"] {
        let status = http::upgrade_status(server.address, target, &[&bearer]);
        assert_eq!(status, 503, "{target}");
    }
}
