//! What the log says, and what it must never say.

use serde_json::{Value, json};

use crate::support::{DEADLINE, Server, Setup, TOKEN, http};

#[test]
fn no_token_is_in_the_log() {
    for level in ["info", "debug", "trace"] {
        let server = Setup::new().args(["--log-level", level]).listen();
        let right = format!("/exec?token={TOKEN}&x=1");
        assert_eq!(http::upgrade_status(server.address, &right, &[]), 101);
        for target in ["/exec?token=wrong-s3cret", "/exec?token=wrong-s3cret&token=more"] {
            assert_eq!(http::upgrade_status(server.address, target, &[]), 401);
        }
        let header = "Authorization: Bearer wrong-s3cret";
        assert_eq!(http::upgrade_status(server.address, "/exec", &[header]), 401);
        http::get(server.address, &format!("/nope?token={TOKEN}"));
        http::talk(server.address, format!("BREW /exec?token={TOKEN} HTTP/1.1\r\n\r\n"));
        http::talk(server.address, format!("GET /exec?token={TOKEN} NOPE/1.1\r\n\r\n"));
        server.connect().sh("echo hi");
        let log = ended(server);
        assert!(!log.contains(TOKEN), "{log}");
        assert!(!log.contains("s3cret"), "{log}");
    }
}

/// The whole log of a server that has been stopped.
fn ended(mut server: Server) -> String {
    server.signal(libc::SIGTERM);
    assert!(server.wait(DEADLINE).success());
    server.log.to_end(DEADLINE)
}

#[test]
fn the_first_line_says_where_the_server_listens() {
    let server = Server::start();
    let line = server.log.first_line(DEADLINE).unwrap();
    assert!(line.contains(&format!("ws://{}/exec", server.address)), "{line}");
    assert!(!line.contains('?'), "{line}");
}

#[test]
fn with_log_format_json_every_line_is_an_object() {
    let server = Setup::new().args(["--log-format", "json", "--log-level", "debug"]).listen();
    server.connect().sh("echo hi");
    let log = ended(server);
    for line in log.lines() {
        let value: Value = serde_json::from_str(line).unwrap_or(json!(null));
        assert!(value.is_object(), "{line}");
    }
}

#[test]
fn a_refused_upgrade_is_in_the_log() {
    let server = Server::start();
    assert_eq!(http::upgrade_status(server.address, "/exec", &[]), 401);
    let log = ended(server);
    assert!(log.contains("401"), "{log}");
}
