//! What a forwarded connection is like.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener};
use std::time::Duration;

use super::{Forward, connect, echo, round_trip};
use crate::run::Running;
use crate::support::{ClosedPort, DEADLINE, Server, Setup, eventually, procfs, ta};

/// A far end of the test's own.
fn far() -> (TcpListener, String) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let spec = format!("0:127.0.0.1:{}", listener.local_addr().unwrap().port());
    (listener, spec)
}

fn accept(listener: &TcpListener) -> std::net::TcpStream {
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

#[test]
fn each_half_ends_by_itself_in_either_order() {
    let server = Server::start();
    let (listener, spec) = far();
    let forward = Forward::start(&server, &[&spec]);
    for near_first in [true, false] {
        let (near, far) = (forward.connect(), accept(&listener));
        let (mut first, mut second) = if near_first { (near, far) } else { (far, near) };
        let mut all = String::new();
        first.write_all(b"question").unwrap();
        first.shutdown(Shutdown::Write).unwrap();
        second.read_to_string(&mut all).unwrap();
        assert_eq!(all, "question");
        std::thread::sleep(Duration::from_millis(50));
        second.write_all(b"answer").unwrap();
        second.shutdown(Shutdown::Write).unwrap();
        all.clear();
        first.read_to_string(&mut all).unwrap();
        assert_eq!(all, "answer");
    }
    assert_eq!(forward.running.stderr.text().lines().count(), 1, "nothing to complain of");
}

#[test]
fn a_reset_far_end_is_a_reset_here_and_a_lost_near_end_is_the_end_there() {
    let server = Server::start();
    let (listener, spec) = far();
    let forward = Forward::start(&server, &[&spec]);
    let reset = |stream: std::net::TcpStream| {
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    };
    let (mut near, far) = (forward.connect(), accept(&listener));
    reset(far);
    let error = near.read(&mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let (near, mut far) = (forward.connect(), accept(&listener));
    reset(near);
    let ended = far.read(&mut [0; 8]);
    assert!(matches!(ended, Ok(0)) || ended.is_err_and(|e| e.kind() == ErrorKind::ConnectionReset));
}

#[test]
fn a_refusal_resets_the_connection_and_is_told() {
    let server = Server::start();
    let closed = ClosedPort::new();
    let forward = Forward::start(&server, &[&format!("0:127.0.0.1:{}", closed.port)]);
    for _ in 0..2 {
        let error = forward.connect().read(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    let told = || forward.running.stderr.text().matches("connection refused").count();
    eventually(DEADLINE, "both are told", || told() == 2);
}

#[test]
fn three_hundred_at_once_are_independent() {
    let server = Server::start();
    let forward = Forward::start(&server, &[&format!("0:127.0.0.1:{}", echo("127.0.0.1"))]);
    // One that sends all it can and reads nothing.
    let mut stalled = forward.connect();
    stalled.set_nonblocking(true).unwrap();
    let full = || matches!(stalled.write(&[7; 65536]), Err(e) if e.kind() == ErrorKind::WouldBlock);
    eventually(DEADLINE, "it is stalled", {
        let mut full = full;
        let mut times = 0;
        move || {
            times = if full() { times + 1 } else { 0 };
            times > 40
        }
    });
    let mut all: Vec<_> = (0..300).map(|_| forward.connect()).collect();
    for (number, stream) in all.iter_mut().enumerate() {
        stream.write_all(format!("{number:05}").as_bytes()).unwrap();
    }
    for (number, stream) in all.iter_mut().enumerate().rev() {
        let mut back = [0; 5];
        stream.read_exact(&mut back).unwrap();
        assert_eq!(back, format!("{number:05}").as_bytes());
    }
    round_trip(forward.connect(), &vec![b'x'; 3_000_000]);
}

#[test]
fn a_thousand_connections_leave_nothing_behind() {
    let server = Server::start();
    let forward = Forward::start(&server, &[&format!("0:127.0.0.1:{}", echo("127.0.0.1"))]);
    round_trip(forward.connect(), b"first");
    let count = || procfs::settled(forward.running.pid());
    let before = count();
    for _ in 0..1000 {
        round_trip(forward.connect(), b"hello");
    }
    let after = count();
    assert!(after.0 <= before.0 && after.1 <= before.1, "{before:?} {after:?}");
}

#[test]
fn a_server_that_comes_back_is_found_again() {
    let mut server = Server::start();
    let port = server.address.port();
    let echo = echo("127.0.0.1");
    let forward = Forward::start(&server, &[&format!("0:127.0.0.1:{echo}")]);
    let mut open = forward.connect();
    open.write_all(b"x").unwrap();
    open.read_exact(&mut [0]).unwrap();
    server.signal(libc::SIGTERM);
    server.wait(DEADLINE);
    assert!(!matches!(open.read(&mut [0]), Ok(1..)), "what was open has ended");
    forward.running.stderr.wait_for("the next connection makes a new one");
    // While there is none, a connection is no end of data.
    let _again = Setup::new().port(port).listen();
    round_trip(connect(&forward.at[0]), b"again");
}

#[test]
fn this_machine_and_a_command_are_environments_too() {
    let echo = echo("127.0.0.1");
    let via = format!("'{}' exec-server --stdio", crate::support::binary().display());
    for options in [&[][..], &["--via", &via]] {
        let spec = format!("0:127.0.0.1:{echo}");
        let running = Running::start(ta(&[&["forward"], options, &[&spec]].concat()));
        running.stderr.wait_for(&format!("to 127.0.0.1:{echo}"));
        let text = running.stderr.text();
        let at = text.split("forwarding ").nth(1).unwrap().split(' ').next().unwrap();
        round_trip(connect(at), &vec![b'x'; 1_000_000]);
    }
}
