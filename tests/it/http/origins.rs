//! A web page must never reach the machine.

use crate::support::{Server, Setup, http};

const ORIGINS: [&str; 6] = [
    "https://x",
    "null",
    "http://localhost",
    "http://127.0.0.1:4200",
    "",
    "chrome-extension://abc",
];

#[test]
fn an_upgrade_with_an_origin_is_403_with_and_without_a_token() {
    let server = Server::start();
    let open = Setup::new().without_token().listen();
    let bearer = server.authorization().unwrap();
    for origin in ORIGINS {
        for name in ["Origin", "origin"] {
            let header = format!("{name}: {origin}");
            let status = |headers: &[&str]| http::upgrade_status(server.address, "/exec", headers);
            assert_eq!(status(&[&bearer, &header]), 403, "{header}");
            assert_eq!(status(&[&header]), 403, "{header}");
            assert_eq!(http::upgrade_status(open.address, "/exec", &[&header]), 403, "{header}");
        }
    }
}

#[test]
fn an_allowed_origin_is_admitted_and_no_other() {
    let args = ["--allow-origin", "https://good.example", "--allow-origin", "http://a:81"];
    let server = Setup::new().args(args).listen();
    let bearer = server.authorization().unwrap();
    let status = |origin: &str| {
        let header = format!("Origin: {origin}");
        http::upgrade_status(server.address, "/exec", &[&bearer, &header])
    };
    for origin in ["https://good.example", "http://a:81"] {
        assert_eq!(status(origin), 101, "{origin}");
    }
    for origin in [
        "http://good.example",
        "https://good.example:444",
        "https://good.example.evil",
        "https://evil/https://good.example",
        "https://good.exampl",
        "null",
        "",
    ] {
        assert_eq!(status(origin), 403, "{origin}");
    }
    let two = ["Origin: https://good.example", "Origin: https://evil"];
    let both = http::upgrade_status(server.address, "/exec", &[&bearer, two[0], two[1]]);
    assert!((400..500).contains(&both), "two origins: {both}");
}

#[test]
fn an_allowed_origin_still_needs_the_token() {
    let server = Setup::new().args(["--allow-origin", "https://good.example"]).listen();
    let origin = "Origin: https://good.example";
    assert_eq!(http::upgrade_status(server.address, "/exec", &[origin]), 401);
}

#[test]
fn healthz_has_no_state_for_a_page_to_read() {
    let server = Server::start();
    let request = "GET /healthz HTTP/1.1\r\nHost: x\r\nOrigin: https://x\r\n\r\n";
    let answer = http::talk(server.address, request);
    assert_eq!(answer.header("access-control-allow-origin"), None);
}
