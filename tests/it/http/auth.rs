//! Who may upgrade.

use crate::support::{Peer, Server, Setup, TOKEN, TempDir, http, over_both};

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

#[test]
fn an_upgrade_without_the_right_token_is_401() {
    let server = Server::start();
    let wrong = [
        bearer("wrong"),
        bearer(""),
        bearer(&TOKEN[..TOKEN.len() - 1]),
        bearer(&format!("{TOKEN}x")),
        bearer(&TOKEN.to_uppercase()),
        format!("Authorization: Basic {TOKEN}"),
        format!("Authorization: {TOKEN}"),
        format!("Authorization: Bearer{TOKEN}"),
        format!("X-Authorization: Bearer {TOKEN}"),
        format!("Cookie: token={TOKEN}"),
    ];
    for header in wrong {
        let answer =
            http::upgrade(server.address, "/exec", std::slice::from_ref(&header)).unwrap_err();
        assert_eq!(answer.status, 401, "{header}");
        let challenge = answer.header("www-authenticate").unwrap_or_default();
        assert!(challenge.starts_with("Bearer"), "{answer:?}");
        assert!(!format!("{answer:?}").contains(TOKEN), "{answer:?}");
    }
    for target in ["/exec", "/exec?token=", "/exec?token=wrong", "/exec?Token=x", "/exec?x=1"] {
        assert_eq!(http::upgrade_status(server.address, target, &[]), 401, "{target}");
    }
    let near = format!("/exec?xtoken={TOKEN}");
    assert_eq!(http::upgrade_status(server.address, &near, &[]), 401, "another name");
    server.connect().ping();
}

#[test]
fn the_token_is_taken_from_the_header_or_the_query() {
    let server = Server::start();
    for header in [
        bearer(TOKEN),
        format!("authorization: bearer {TOKEN}"),
        format!("AUTHORIZATION: BEARER {TOKEN}"),
        format!("Authorization:Bearer {TOKEN}"),
    ] {
        assert_eq!(http::upgrade_status(server.address, "/exec", &[&header]), 101, "{header}");
    }
    for target in [format!("/exec?token={TOKEN}"), format!("/exec?a=b&token={TOKEN}&c=d")] {
        assert_eq!(http::upgrade_status(server.address, &target, &[]), 101, "{target}");
    }
}

#[test]
fn a_token_in_the_query_may_be_percent_encoded() {
    let server = Setup::new().token("a+b/c=&d").listen();
    let target = "/exec?token=a%2Bb%2Fc%3D%26d";
    assert_eq!(http::upgrade_status(server.address, target, &[]), 101);
    assert_eq!(http::upgrade_status(server.address, "/exec", &[&bearer("a+b/c=&d")]), 101);
}

#[test]
fn a_server_without_a_token_admits_anyone_on_loopback() {
    for host in ["127.0.0.1", "127.0.0.2", "localhost"] {
        let server = Setup::new().without_token().host(host).listen();
        assert!(server.address.ip().is_loopback());
        server.connect().ping();
        assert_eq!(http::upgrade_status(server.address, "/exec", &[&bearer("any")]), 101);
    }
}

#[test]
fn a_server_listens_on_ipv6_loopback() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        crate::support::skipped("a_server_listens_on_ipv6_loopback", "no ::1 here");
        return;
    }
    let server = Setup::new().without_token().host("::1").listen();
    server.connect().ping();
}

#[test]
fn a_token_file_loses_its_one_trailing_newline() {
    let dir = TempDir::new();
    for content in ["from-file", "from-file\n"] {
        let file = dir.write("token", content);
        let setup = Setup::new().without_token();
        let server = setup.args(["--token-file", file.to_str().unwrap()]).listen();
        let status = |token| http::upgrade_status(server.address, "/exec", &[&bearer(token)]);
        assert_eq!(status("from-file"), 101, "{content:?}");
        assert_eq!(status("from-fil"), 401);
        assert_eq!(http::upgrade_status(server.address, "/exec", &[]), 401);
    }
}

#[test]
fn the_token_is_in_no_environment_and_no_command_line() {
    over_both(|peer| {
        for command in ["env", "cat /proc/self/environ", "export -p; set"] {
            let done = peer.sh(command);
            done.assert_success();
            assert!(!done.text().contains(TOKEN), "{command}");
            assert!(!done.text().contains("TA_EXEC_TOKEN"), "{command}: {}", done.text());
        }
        assert_token_is_nowhere_in_proc(peer);
    });
}

/// The serving process and all above it up to this test, its guardian among them.
fn assert_token_is_nowhere_in_proc(peer: &mut Peer) {
    use crate::support::procfs::{parent, read_lossy};
    let mut pid = peer.server_pid();
    let mut seen = 0;
    while pid != std::process::id() {
        for file in ["environ", "cmdline"] {
            let path = format!("/proc/{pid}/{file}");
            let text = read_lossy(&path);
            assert!(!text.contains(TOKEN), "the token is in {path}");
            seen += text.len();
        }
        pid = parent(pid).expect("this test is above the server");
    }
    assert!(seen > 0, "/proc was readable");
}

#[test]
fn a_child_of_a_child_cannot_read_the_token_from_the_server() {
    over_both(|peer| {
        let pid = peer.server_pid();
        let done = peer.sh(&format!("tr '\\0' '\\n' </proc/{pid}/environ"));
        assert!(!done.text().contains(TOKEN));
        // The rest of the environment is still there for a person who looks.
        assert!(done.text().contains("PATH="), "{}", done.text());
    });
}
