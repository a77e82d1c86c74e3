//! stdin and stdout as the near end, as a ProxyCommand of ssh's has it.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener};
use std::process::Stdio;

use crate::run::Running;
use crate::support::{ClosedPort, Server, ta, ta_to};

fn start(server: &Server, port: u16) -> Running {
    let mut command = ta_to(server, &["forward", &format!("-:127.0.0.1:{port}")]);
    command.stdin(Stdio::piped());
    Running::start(command)
}

#[test]
fn bytes_pass_both_ways_and_each_half_ends_by_itself() {
    let server = Server::start();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();

    let mut running = start(&server, port);
    let (mut far, _) = listener.accept().unwrap();
    running.write(b"question");
    running.stdin = None;
    let mut all = String::new();
    far.read_to_string(&mut all).unwrap();
    assert_eq!(all, "question");
    far.write_all(b"answer").unwrap();
    drop(far);
    let done = running.finish();
    assert_eq!((done.code, done.text().as_str(), done.stderr.as_str()), (0, "answer", ""));

    let mut running = start(&server, port);
    let (mut far, _) = listener.accept().unwrap();
    far.write_all(b"first").unwrap();
    far.shutdown(Shutdown::Write).unwrap();
    assert_eq!(running.stdout.to_end(), b"first", "stdout has ended, stdin has not");
    assert!(running.is_running());
    running.write(b"second");
    running.stdin = None;
    all.clear();
    far.read_to_string(&mut all).unwrap();
    assert_eq!(all, "second");
    assert_eq!(running.wait(), 0);
}

#[test]
fn a_far_end_that_refuses_is_1_and_an_environment_that_is_lost_125() {
    let mut server = Server::start();
    let closed = ClosedPort::new();
    start(&server, closed.port).finish().assert_failed(1, "connection refused");
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let running = start(&server, listener.local_addr().unwrap().port());
    let _far = listener.accept().unwrap();
    server.signal(libc::SIGTERM);
    server.wait(crate::support::DEADLINE);
    running.finish().assert_failed(125, "the connection was lost");
    let url = format!("ws://127.0.0.1:{}/exec", closed.port);
    let done = Running::start(ta(&["forward", "-:h:1", "--exec", &url])).finish();
    done.assert_failed(125, "cannot reach");
}

#[test]
fn it_adds_no_delay() {
    let server = Server::start();
    let mut running = start(&server, super::echo("127.0.0.1"));
    let each = |round_trip: &mut dyn FnMut(usize)| {
        let start = std::time::Instant::now();
        (1..=200).for_each(round_trip);
        start.elapsed() / 200
    };
    let over_pipes = each(&mut |count| {
        running.write(format!("{count:04}").as_bytes());
        running.stdout.wait_for(&format!("{count:04}"));
    });
    let forward =
        super::Forward::start(&server, &[&format!("0:127.0.0.1:{}", super::echo("127.0.0.1"))]);
    let mut stream = forward.connect();
    let over_tcp = each(&mut |_| {
        stream.write_all(b"ping").unwrap();
        stream.read_exact(&mut [0; 4]).unwrap();
    });
    // Nagle with delayed acknowledgements would make it 40 ms.
    let limit = std::time::Duration::from_millis(10);
    assert!(over_pipes < limit && over_tcp < limit, "{over_pipes:?} {over_tcp:?}");
}
