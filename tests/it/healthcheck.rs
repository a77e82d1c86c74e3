//! `ta healthcheck`, in place of curl.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::support::{ClosedPort, Server, Setup, TOKEN, ta};

/// Its exit code and its one line.
fn check(args: &[&str]) -> (Option<i32>, String) {
    let done = ta(&[&["healthcheck"], args].concat()).output().unwrap();
    assert!(done.stdout.is_empty(), "{done:?}");
    let stderr = String::from_utf8(done.stderr).unwrap();
    assert!(stderr.lines().count() <= 1, "{stderr}");
    (done.status.code(), stderr)
}

const HEALTHY: (Option<i32>, String) = (Some(0), String::new());

#[test]
fn a_server_that_serves_is_healthy_whichever_of_its_urls_is_given() {
    let server = Server::start();
    let port = server.address.port();
    for url in [
        format!("http://127.0.0.1:{port}/healthz"),
        format!("http://127.0.0.1:{port}"),
        format!("ws://127.0.0.1:{port}/exec"),
        format!("ws://localhost:{port}/exec?token={TOKEN}"),
    ] {
        assert_eq!(check(&[&url]), HEALTHY, "{url}");
    }
    let six = Setup::new().host("::1").listen();
    let url = format!("ws://[::1]:{}/exec", six.address.port());
    assert_eq!(check(&[&url]), HEALTHY, "{url}");
    let url = format!("http://localhost:{}", six.address.port());
    assert_eq!(check(&[&url]), HEALTHY, "{url}");
}

#[test]
fn what_is_not_there_or_answers_otherwise_is_not_healthy() {
    let server = Server::start();
    let closed = ClosedPort::new();
    let (code, line) = check(&[&format!("http://127.0.0.1:{}/", closed.port)]);
    assert!(code == Some(1) && line.contains("refused"), "{line}");
    let (code, line) = check(&[&format!("http://{}/nope?token=s3cret", server.address)]);
    assert!(code == Some(1) && line.contains("404") && !line.contains("s3cret"), "{line}");
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    std::thread::scope(|scope| {
        let answer = || {
            let (mut stream, _) = other.accept().unwrap();
            stream.write_all(b"SSH-2.0-OpenSSH_9.6\r\n").unwrap();
            let _ = stream.read(&mut [0; 1024]);
        };
        std::thread::Builder::new().spawn_scoped(scope, answer).unwrap();
        let (code, line) = check(&[&format!("http://127.0.0.1:{port}")]);
        assert!(code == Some(1) && line.contains("speaks no HTTP"), "{line}");
    });
}

#[test]
fn a_server_that_hangs_is_not_waited_for_longer_than_is_said() {
    // It takes connections, as the kernel does for it, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let since = Instant::now();
    let (code, line) = check(&["--timeout", "1", &url]);
    assert!(code == Some(1) && line.contains("within 1 s"), "{line}");
    assert!(since.elapsed() < Duration::from_secs(4), "{:?}", since.elapsed());
}

#[test]
fn what_is_no_such_url_is_told_so() {
    for url in ["box", "wss://box/exec?token=s3cret", "http://u:s3cret@box", "http://box:x"] {
        let (code, line) = check(&[url]);
        assert_eq!(code, Some(2), "{url}: {line}");
    }
    let (code, line) = check(&["wss://box/exec?token=s3cret"]);
    assert!(code == Some(2) && line.contains("TLS") && !line.contains("s3cret"), "{line}");
    assert_eq!(check(&["--timeout", "0"]).0, Some(2));
    assert_eq!(check(&["--timeout", "x"]).0, Some(2));
}
