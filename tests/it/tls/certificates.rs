//! Whose certificate is believed, and what is said of one that is not.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::authority::{Authority, Certificate};
use super::front::{Front, Kind};
use super::{assert_failed, assert_says, command, run};
use crate::support::proxy::{Act, Fault, Proxy, Way};
use crate::support::{Server, TOKEN, TempDir, lacks, ta};

/// A server behind stunnel.
fn behind(certificate: &Certificate) -> (Server, Front) {
    let server = Server::start();
    let front = Front::start(Kind::Stunnel, server.address, certificate);
    (server, front)
}

#[test]
fn a_certificate_is_believed_that_an_authority_of_the_file_has_signed() {
    if Kind::Stunnel
        .is_missing("a_certificate_is_believed_that_an_authority_of_the_file_has_signed")
    {
        return;
    }
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (_server, front) = behind(&authority.certify("DNS:localhost,IP:127.0.0.1"));
    assert_says(&run(&front.url(), authority.file(), &["echo", "hello"]), "hello\n");
    let by_address = front.url().replace("localhost", "127.0.0.1");
    assert_says(&run(&by_address, authority.file(), &["echo", "hello"]), "hello\n");
    let done = run(&front.url(), stranger.file(), &["true"]);
    let (old, new) = (Authority::of_name("same"), Authority::of_name("same"));
    let (_server, front_of_old) = behind(&old.certify("DNS:localhost"));
    let other = run(&front_of_old.url(), new.file(), &["true"]);
    assert_failed(&other, &["another authority than the one of that name"]);
    assert_failed(&done, &["signed by nobody who is trusted here", "--ca-file", "wss://localhost"]);
}

/// Where OpenSSL's are: the file, or the directory, that its variables name.
#[test]
fn the_authorities_of_the_machine_are_those_of_openssl() {
    if Kind::Stunnel.is_missing("the_authorities_of_the_machine_are_those_of_openssl") {
        return;
    }
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (_server, front) = behind(&authority.certify("DNS:localhost"));
    let dir = TempDir::new();
    std::fs::copy(authority.file(), dir.join("one.pem")).unwrap();
    let with = |name: &str, value: &Path| {
        let mut command = ta(&["run", "--exec", &front.url(), "echo", "hello"]);
        command.env("TA_EXEC_TOKEN", TOKEN).env_remove("SSL_CERT_FILE").env_remove("SSL_CERT_DIR");
        command.env(name, value).output().unwrap()
    };
    assert_says(&with("SSL_CERT_FILE", authority.file()), "hello\n");
    assert_says(&with("SSL_CERT_DIR", dir.path()), "hello\n");
    assert_failed(&with("SSL_CERT_FILE", stranger.file()), &["signed by nobody who is trusted"]);
    // As in an image that has nothing but `ta`.
    let none = with("SSL_CERT_FILE", &dir.join("missing"));
    assert_failed(&none, &["no certificate authorities", "--ca-file FILE"]);
}

#[test]
fn what_is_wrong_with_a_certificate_is_told() {
    if Kind::Stunnel.is_missing("what_is_wrong_with_a_certificate_is_told") {
        return;
    }
    let authority = Authority::new();
    let names = "DNS:localhost";
    let past = authority.certify_between(names, "20200101000000Z", "20200201000000Z");
    let (_server, front) = behind(&past);
    assert_failed(&run(&front.url(), authority.file(), &["true"]), &["has expired", "clock"]);
    let future = authority.certify_between(names, "20900101000000Z", "21000101000000Z");
    let (_server, front) = behind(&future);
    assert_failed(&run(&front.url(), authority.file(), &["true"]), &["is not valid yet"]);
    let other = authority.certify("DNS:box.example.com,DNS:other.example.com");
    let (_server, front) = behind(&other);
    let done = run(&front.url(), authority.file(), &["true"]);
    assert_failed(&done, &["is not for localhost, but for box.example.com, other.example.com"]);
    let (_server, front) = behind(&authority.own());
    assert_failed(
        &run(&front.url(), authority.file(), &["true"]),
        &["is an authority's", "CA:FALSE"],
    );
}

#[test]
fn a_ca_file_that_is_none_is_named() {
    if lacks("a_ca_file_that_is_none_is_named", "openssl") {
        return;
    }
    let server = Server::start();
    let url = format!("wss://{}/exec", server.address);
    let dir = TempDir::new();
    let missing = dir.join("missing");
    assert_failed(
        &run(&url, &missing, &["true"]),
        &["cannot read the CA file", "missing", "no such file"],
    );
    let empty = dir.write("empty", "");
    assert_failed(
        &run(&url, &empty, &["true"]),
        &["/empty has no certificate", "BEGIN CERTIFICATE"],
    );
    let authority = Authority::new();
    let key = authority.own().key;
    assert_failed(&run(&url, &key, &["true"]), &["ca.key has no certificate"]);
    for (name, inside) in [("base64", "!!!!"), ("der", "aGVsbG8=")] {
        let text = format!("-----BEGIN CERTIFICATE-----\n{inside}\n-----END CERTIFICATE-----\n");
        let garbage = dir.write(name, text);
        assert_failed(&run(&url, &garbage, &["true"]), &["has a certificate that is none", name]);
    }
    let plain = format!("ws://{}/exec", server.address);
    assert_failed(&run(&plain, authority.file(), &["true"]), &["CA file", "no wss://"]);
    let ca = authority.file().to_str().unwrap();
    let here = ta(&["run", "--ca-file", ca, "true"]).output().unwrap();
    assert_failed(&here, &["--ca-file is given, and no server"]);
}

#[test]
fn every_command_takes_the_file() {
    if Kind::Stunnel.is_missing("every_command_takes_the_file") {
        return;
    }
    let authority = Authority::new();
    let (_server, front) = behind(&authority.certify("DNS:localhost"));
    let with = |subcommand: &str, args: &[&str]| {
        let mut command = ta(&subcommand.split(' ').collect::<Vec<_>>());
        command.args(["--exec", &front.url(), "--ca-file", authority.file().to_str().unwrap()]);
        command.args(args).env("TA_EXEC_TOKEN", TOKEN).output().unwrap()
    };
    let dir = TempDir::new();
    let (near, far) = (dir.write("near", "content"), dir.join("far"));
    let far = far.to_str().unwrap();
    assert_says(&with("cp", &[near.to_str().unwrap(), &format!(":{far}")]), "");
    assert_says(&with("fs read", &[far]), "content");
    assert!(with("ping", &["--json"]).status.success());
    // The end of its stdin is there at once.
    assert_says(&with("connect", &[]), "");
}

#[test]
fn what_speaks_no_tls_is_told() {
    if lacks("what_speaks_no_tls_is_told", "openssl") {
        return;
    }
    let authority = Authority::new();
    let server = Server::start();
    let url = format!("wss://{}/exec", server.address);
    assert_failed(&run(&url, authority.file(), &["true"]), &["does it speak TLS there?"]);
    // Something that greets first.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("wss://{}/exec", listener.local_addr().unwrap());
    let greet = move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.write_all(b"220 mail ready\r\n");
        let _ = stream.read_to_end(&mut Vec::new());
    };
    let greeting = thread::Builder::new().name("stranger".into()).spawn(greet).unwrap();
    assert_failed(&run(&url, authority.file(), &["true"]), &["does not speak TLS", "ws://"]);
    greeting.join().unwrap();
}

/// The other way round: `ws://` to a port that wants TLS.
#[test]
fn a_plain_url_to_a_tls_port_fails_soon() {
    for kind in [Kind::Nginx, Kind::Stunnel] {
        if kind.is_missing("a_plain_url_to_a_tls_port_fails_soon") {
            return;
        }
        let authority = Authority::new();
        let server = Server::start();
        let front = Front::start(kind, server.address, &authority.certify("DNS:localhost"));
        let url = front.url().replace("wss://", "ws://");
        let mut command = ta(&["run", "--exec", &url, "true"]);
        let output = command.env("TA_EXEC_TOKEN", TOKEN).output().unwrap();
        assert_failed(&output, &["ws://localhost"]);
    }
}

#[test]
fn a_handshake_that_is_cut_or_stalls_ends_in_time() {
    if Kind::Stunnel.is_missing("a_handshake_that_is_cut_or_stalls_ends_in_time") {
        return;
    }
    let authority = Authority::new();
    let (_server, front) = behind(&authority.certify("DNS:localhost"));
    let proxy = Proxy::to(front.address);
    let url = format!("wss://localhost:{}/exec", proxy.address.port());
    // At the first byte, within the first record, and within the certificate.
    for at in [0, 3, 300] {
        proxy.fault_next(Fault { way: Way::Down, at, act: Act::Cut });
        let done = run(&url, authority.file(), &["true"]);
        assert_failed(&done, &["cannot reach wss://localhost"]);
    }
    proxy.fault_next(Fault { way: Way::Down, at: 300, act: Act::Split });
    assert_says(&run(&url, authority.file(), &["echo", "hello"]), "hello\n");
    proxy.fault_next(Fault { way: Way::Down, at: 300, act: Act::Stall });
    let limit = Duration::from_secs(15);
    let mut stalled = command("run", &url, authority.file(), &["true"]);
    let done = crate::client::within(limit, || stalled.output().unwrap());
    assert_failed(&done, &["did not come to terms over TLS in time"]);
}
