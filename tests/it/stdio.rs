//! What is particular to a stdio child: lines, and the end of stdin.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{DEADLINE, Peer, Setup, Victim, base64, describe, lacks, over_both, procfs};

const PING: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// What has been killed may take a moment to be taken down by the kernel.
const SWEEP: Duration = Duration::from_millis(300);

#[track_caller]
fn write(peer: &mut Peer, bytes: &[u8]) {
    peer.pipes().write(bytes, DEADLINE).unwrap();
}

#[track_caller]
fn assert_exits_with_0(peer: &mut Peer, limit: Duration) {
    let status = peer.pipes().wait(limit);
    let status = status.unwrap_or_else(|| panic!("the server still runs after {limit:?}"));
    assert_eq!(status.code(), Some(0), "{}", describe(status));
}

#[test]
fn a_line_may_end_in_crlf_and_empty_lines_are_skipped() {
    let mut peer = Setup::new().stdio();
    write(&mut peer, b"\n\r\n\n\n");
    write(&mut peer, &[PING, b"\r\n"].concat());
    assert_eq!(peer.reply().outcome.unwrap(), json!({}));
    write(&mut peer, b"\r\n\n");
    peer.assert_quiet();
}

#[test]
fn two_messages_in_one_write_and_one_in_many_are_read() {
    let mut peer = Setup::new().stdio();
    write(&mut peer, &[PING, b"\n", PING, b"\n", &PING[..10]].concat());
    peer.reply();
    peer.reply();
    for byte in &PING[10..] {
        write(&mut peer, &[*byte]);
    }
    write(&mut peer, b"\n");
    peer.reply();
    peer.assert_quiet();
}

#[test]
fn a_line_that_is_not_utf8_is_a_parse_error() {
    let mut peer = Setup::new().stdio();
    let bad_id = [br#"{"jsonrpc":"2.0","id":"X","method":"ping"}"#.as_slice(), b"\n"].concat();
    let bad_id: Vec<u8> = bad_id.into_iter().map(|b| if b == b'X' { 0xFF } else { b }).collect();
    for line in [&b"\xff\n"[..], b"\xe2\x82\n", b"{\"a\":\"\xc0\x80\"}\r\n", &bad_id] {
        write(&mut peer, line);
        let reply = peer.reply();
        assert_eq!(reply.id, "null");
        assert_eq!(reply.outcome.unwrap_err().code, -32700, "{line:?}");
        peer.assert_quiet();
    }
}

#[test]
fn a_line_over_the_limit_is_discarded_and_never_held_in_memory() {
    let mut peer = Setup::new().args(["--max-message-bytes", "1000000"]).stdio();
    let pid = peer.server_pid();
    let before = procfs::resident_kib(pid);
    let block = vec![b'x'; 1 << 20];
    for _ in 0..64 {
        write(&mut peer, &block);
    }
    let during = procfs::resident_kib(pid);
    assert!(during < before + 16 * 1024, "from {before} to {during} KiB");
    write(&mut peer, b"\n");
    let reply = peer.reply();
    assert_eq!(reply.id, "null");
    assert_eq!(reply.outcome.unwrap_err().code, -32600);
    peer.assert_quiet();
    // The same when it is over only just, in a write of its own, twice in a row.
    for _ in 0..2 {
        write(&mut peer, &[&block[..1_000_001], b"\n"].concat());
        assert_eq!(peer.reply().outcome.unwrap_err().code, -32600);
    }
    peer.assert_quiet();
}

#[test]
fn the_end_of_stdin_ends_all_processes_and_exits_with_0() {
    let mut peer = Setup::new().stdio();
    let victims = [Victim::new(), Victim::new(), Victim::new()];
    victims[0].spawn(&mut peer);
    peer.start_exec(json!({"command": format!("{} & wait", victims[1].command())}));
    peer.exec(json!({"command": format!("{} & echo left behind", victims[2].command())}));
    for victim in &victims {
        victim.await_alive();
    }
    peer.hang_up();
    assert_exits_with_0(&mut peer, Duration::from_secs(3));
    for victim in &victims {
        victim.await_gone_within(SWEEP);
    }
}

#[test]
fn the_end_of_stdin_with_nothing_running_exits_with_0_at_once() {
    let mut peer = Setup::new().stdio();
    peer.hang_up();
    assert_exits_with_0(&mut peer, Duration::from_secs(2));
}

#[test]
fn a_request_before_the_end_of_stdin_is_answered() {
    let mut peer = Setup::new().stdio();
    let id = peer.request("ping", &json!({}));
    peer.hang_up();
    peer.closed(DEADLINE);
    assert!(peer.has_answer(&id));
    assert_exits_with_0(&mut peer, Duration::from_secs(2));
}

#[test]
fn the_end_of_stdin_is_seen_while_the_host_does_not_read() {
    let mut peer = Setup::new().stdio();
    let victim = Victim::new();
    let command = format!("{} & exec yes", victim.command());
    let (_, yes) = peer.spawn_with_pid(json!({"command": "sh", "args": ["-c", command]}));
    victim.await_alive();
    // The server takes no more output once the pipe to the host is full.
    procfs::await_stalled(&[yes]);
    peer.hang_up();
    assert_exits_with_0(&mut peer, Duration::from_secs(5));
    victim.await_gone();
}

#[test]
fn a_host_that_closes_its_end_of_stdout_ends_the_connection() {
    let mut peer = Setup::new().stdio();
    let victim = Victim::new();
    peer.start_exec(json!({"command": format!("{} & yes", victim.command())}));
    victim.await_alive();
    peer.pipes().close_stdout();
    victim.await_gone();
    assert!(peer.pipes().wait(Duration::from_secs(3)).is_some(), "the server still runs");
}

#[test]
fn stdout_carries_only_protocol_and_stderr_the_log() {
    let mut peer = Setup::new().args(["--log-level", "debug"]).stdio();
    peer.sh("echo out; echo err >&2").assert_success();
    peer.error("process/spawn", &json!({"processId": "x", "command": "/nope"}));
    peer.send("{");
    peer.reply();
    peer.hang_up();
    // Every line is checked as it is received; one that is no message fails the test.
    peer.closed(DEADLINE);
    assert_exits_with_0(&mut peer, Duration::from_secs(2));
}

#[test]
fn a_stdio_server_needs_no_token_and_takes_no_port() {
    let mut peer = Setup::new().without_token().stdio();
    peer.ping();
    let pid = peer.server_pid();
    let listening = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().any(|entry| {
        let target = std::fs::read_link(entry.unwrap().path()).unwrap_or_default();
        target.to_string_lossy().starts_with("socket:")
    });
    assert!(!listening, "a stdio server has a socket");
}

/// A child that makes an inherited stdin non-blocking makes the server's own end non-blocking: the
/// server then read EAGAIN and gave up.
#[test]
fn a_child_that_makes_its_descriptors_non_blocking_does_not_disturb_the_server() {
    let script = "import fcntl, os
for fd in 0, 1, 2:
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_NONBLOCK)
try:
    print(os.read(0, 10))
except BlockingIOError:
    print('would block')
";
    if lacks("a_child_that_makes_its_descriptors_non_blocking", "python3") {
        return;
    }
    over_both(|peer| {
        let spawned = json!({"command": "python3", "args": ["-c", script]});
        let spawned = peer.spawn(spawned);
        let execed = peer.exec(json!({"command": "exec python3 -c \"$S\"", "env": {"S": script}}));
        assert_eq!(execed.text(), "b''\n", "stdin is /dev/null");
        let fed = json!({"command": "exec python3 -c \"$S\"", "env": {"S": script},
            "stdin": base64("fed")});
        peer.exec(fed).assert_success();
        assert_eq!(peer.exit(&spawned).text(), "would block\n");
        let since = Instant::now();
        for _ in 0..20 {
            peer.ping();
        }
        let big = peer.exec(json!({"command": "head -c 3000000 /dev/zero"}));
        assert_eq!(big.stdout.len(), 3_000_000);
        assert!(since.elapsed() < DEADLINE);
    });
}
