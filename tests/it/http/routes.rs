//! Which path and method gets which answer, and what a request head may be.

use std::io::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{DEADLINE, Server, Setup, http};

#[test]
fn healthz_answers_without_a_token() {
    let server = Server::start();
    let answer = http::get(server.address, "/healthz");
    assert_eq!((answer.status, answer.body.trim_end()), (200, "ok"));
    assert_eq!(http::get(server.address, "/healthz?x=1").status, 200);
}

#[test]
fn healthz_answers_http_1_0_and_odd_header_names() {
    let server = Server::start();
    for request in [
        "GET /healthz HTTP/1.0\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHOST: x\r\nX-Empty:\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n",
    ] {
        assert_eq!(http::talk(server.address, request).status, 200, "{request}");
    }
}

#[test]
fn an_unknown_path_is_404() {
    let server = Server::start();
    for target in ["/x", "/exe", "/exec/", "/execute", "/healthz/x", "/Exec", "//exec", "/readyz/"]
    {
        assert_eq!(http::get(server.address, target).status, 404, "{target}");
    }
    let bearer = server.authorization().unwrap();
    assert_eq!(http::upgrade_status(server.address, "/nope", &[&bearer]), 404);
}

#[test]
fn another_method_is_405() {
    let server = Server::start();
    for method in ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"] {
        for path in ["/healthz", "/exec"] {
            let request =
                format!("{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
            let answer = http::talk(server.address, request);
            assert_eq!(answer.status, 405, "{method} {path}");
            // RFC 9110, section 15.5.6.
            assert!(answer.header("allow").is_some_and(|allow| allow.contains("GET")));
        }
    }
}

#[test]
fn exec_without_an_upgrade_is_426() {
    let server = Server::start();
    let bearer = server.authorization().unwrap();
    for request in [
        "GET /exec HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        format!("GET /exec HTTP/1.1\r\nHost: x\r\n{bearer}\r\n\r\n"),
        format!(
            "GET /exec HTTP/1.1\r\nHost: x\r\n{bearer}\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"
        ),
    ] {
        let answer = http::talk(server.address, &request);
        assert_eq!(answer.status, 426, "{request}");
        // RFC 9110, section 15.5.22.
        let upgrade = answer.header("upgrade").unwrap_or_default();
        assert!(upgrade.eq_ignore_ascii_case("websocket"), "{answer:?}");
    }
}

#[test]
fn a_broken_upgrade_is_refused_and_harms_nobody() {
    let server = Server::start();
    let bearer = server.authorization().unwrap();
    let whole = http::upgrade_request("/exec", &[bearer]);
    for (part, instead) in [
        ("Sec-WebSocket-Version: 13\r\n", ""),
        ("Sec-WebSocket-Version: 13\r\n", "Sec-WebSocket-Version: 7\r\n"),
        ("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", ""),
        ("Connection: Upgrade\r\n", ""),
    ] {
        let broken = whole.replace(part, instead);
        assert_ne!(broken, whole);
        let answer = http::talk(server.address, broken);
        assert!((400..500).contains(&answer.status), "without {part}: {answer:?}");
    }
    server.connect().ping();
}

#[test]
fn the_spelling_of_the_upgrade_headers_does_not_matter() {
    let server = Server::start();
    let bearer = server.authorization().unwrap();
    let request = http::upgrade_request("/exec", &[bearer])
        .replace("Connection: Upgrade", "connection: keep-alive, upgrade")
        .replace("Upgrade: websocket", "UPGRADE: WebSocket");
    let mut stream = http::connect(server.address);
    stream.write_all(request.as_bytes()).unwrap();
    let mut first = [0; 12];
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    std::io::Read::read_exact(&mut stream, &mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 101");
}

#[test]
fn what_is_no_http_is_answered_400_or_closed() {
    let server = Server::start();
    let request = "\u{16}\u{3}\u{1}\r\n\r\n";
    for bytes in [request.as_bytes(), b"GET\r\n\r\n", b"\xff\xfe\r\n\r\n", b"GET /healthz\r\n\r\n"]
    {
        let mut stream = http::connect(server.address);
        stream.write_all(bytes).unwrap();
        let answer = http::read_to_end(&mut stream, DEADLINE).expect("closed");
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"), "{bytes:?}: {answer:?}");
    }
    server.connect().ping();
}

#[test]
fn a_head_over_16_kib_is_431() {
    let server = Server::start();
    let padded = |length| format!("GET /healthz HTTP/1.1\r\nX: {}\r\n\r\n", "a".repeat(length));
    assert_eq!(http::talk(server.address, padded(15 * 1024)).status, 200);
    assert_eq!(http::talk(server.address, padded(17 * 1024)).status, 431);
    assert_eq!(http::talk(server.address, padded(1024 * 1024)).status, 431);
    let lines = format!("GET /exec HTTP/1.1\r\n{}\r\n", "X: 1\r\n".repeat(4_000));
    assert_eq!(http::talk(server.address, lines).status, 431);
    let target = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(20_000));
    assert_eq!(http::talk(server.address, target).status, 431);
    let endless = "GET /healthz HTTP/1.1\r\nX: ".to_owned() + &"a".repeat(20_000);
    assert_eq!(http::talk(server.address, endless).status, 431, "before the head is complete");
}

#[test]
fn a_head_in_many_small_pieces_is_read() {
    let server = Server::start();
    let mut stream = http::connect(server.address);
    stream.set_nodelay(true).unwrap();
    for byte in b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" {
        stream.write_all(&[*byte]).unwrap();
    }
    let answer = http::read_to_end(&mut stream, DEADLINE).expect("closed");
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{answer:?}");
}

/// Slow on purpose: the limit is 10 s, and a trickle of bytes must not extend it.
#[test]
fn an_incomplete_head_is_dropped_after_10_s() {
    let server = Server::start();
    let since = Instant::now();
    let mut silent = http::connect(server.address);
    let mut half = http::connect(server.address);
    half.write_all(b"GET /healthz HTTP/1.1\r\nHo").unwrap();
    let mut trickling = http::connect(server.address);
    trickling.write_all(b"GET /healthz HTTP/1.1\r\n").unwrap();
    while since.elapsed() < Duration::from_secs(9) {
        let _ = trickling.write_all(b"X: y\r\n");
        // Others are served all the while.
        assert_eq!(http::get(server.address, "/healthz").status, 200);
        thread::sleep(Duration::from_millis(500));
    }
    for (name, stream) in
        [("silent", &mut silent), ("half", &mut half), ("trickling", &mut trickling)]
    {
        let answer = http::read_to_end(stream, Duration::from_secs(5))
            .unwrap_or_else(|| panic!("the {name} one is open after {:?}", since.elapsed()));
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 408"), "{name}: {answer:?}");
        assert!(since.elapsed() > Duration::from_millis(9_500), "{name}: {:?}", since.elapsed());
    }
}

#[test]
fn print_url_puts_the_url_on_stdout() {
    use std::process::{Command, Stdio};
    let mut child = Command::new(crate::support::binary())
        .args(["exec-server", "--port", "0", "--print-url"])
        .env_remove("TA_EXEC_TOKEN")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    crate::support::stop(&mut child);
    let address = line.trim().strip_prefix("ws://127.0.0.1:").and_then(|s| s.strip_suffix("/exec"));
    assert!(address.is_some_and(|port| port.parse::<u16>().is_ok()), "{line:?}");
}

#[test]
fn a_port_in_use_is_refused_with_its_address() {
    let server = Server::start();
    let port = server.address.port().to_string();
    let refusal = Setup::new().args(["--port", &port]).refused();
    assert!(!refusal.status.success());
    assert!(refusal.stderr.contains(&port), "{}", refusal.stderr);
}
