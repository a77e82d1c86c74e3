//! Frames that a well-behaved client never sends, and those that it may.

use std::io::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::frames::{
    BINARY, CLOSE, CONTINUATION, FIN, Frame, Frames, PING, PONG, TEXT, announcing, flood, masked,
    unmasked,
};
use crate::support::{Peer, Server, Setup, Victim, http, procfs};

const PING_REQUEST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// How much a server's memory may grow while it is being mistreated.
const GROWTH_KIB: u64 = 16 * 1024;

#[track_caller]
fn assert_is_the_answer(frame: &Frame) {
    let answer: Value = serde_json::from_slice(&frame.payload).unwrap();
    assert_eq!(answer, json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
}

#[test]
fn a_binary_frame_closes_with_1003() {
    let server = Server::start();
    let mut frames = Frames::connect(&server);
    frames.send(FIN | BINARY, PING_REQUEST.as_bytes());
    assert_eq!(frames.close_code(), Some(1003));
    server.connect().ping();
}

#[test]
fn text_that_is_not_utf8_closes_with_1007() {
    let server = Server::start();
    for bytes in [&b"\xff"[..], b"{\"a\":\"\xe2\x82\"}", b"\xc0\x80", b"\xed\xa0\x80"] {
        let mut frames = Frames::connect(&server);
        frames.send(FIN | TEXT, bytes);
        assert_eq!(frames.close_code(), Some(1007), "{bytes:?}");
    }
    server.connect().ping();
}

#[test]
fn a_character_split_between_two_frames_is_whole() {
    let server = Server::start();
    let mut frames = Frames::connect(&server);
    let text = r#"{"jsonrpc":"2.0","id":"€","method":"ping"}"#.as_bytes();
    let middle = text.iter().position(|byte| *byte == 0xE2).unwrap() + 1;
    frames.send(TEXT, &text[..middle]);
    frames.send(FIN | CONTINUATION, &text[middle..]);
    let answer = String::from_utf8(frames.message().payload).unwrap();
    assert!(answer.contains("\"€\""), "{answer}");
}

#[test]
fn a_message_in_fragments_is_one_message_with_pings_between_them() {
    let server = Server::start();
    let mut frames = Frames::connect(&server);
    let bytes = PING_REQUEST.as_bytes();
    frames.send(TEXT, &bytes[..5]);
    frames.send(FIN | PING, b"between");
    for byte in &bytes[5..] {
        frames.send(CONTINUATION, &[*byte]);
    }
    frames.send(FIN | CONTINUATION, b"");
    let pong = frames.message();
    assert_eq!((pong.opcode, pong.payload.as_slice()), (PONG, &b"between"[..]));
    let answer = frames.message();
    assert_is_the_answer(&answer);
}

#[test]
fn frames_sent_in_one_packet_with_each_other_are_all_read() {
    let server = Server::start();
    let mut frames = Frames::connect(&server);
    let mut packet = Vec::new();
    for _ in 0..100 {
        packet.extend(masked(FIN | TEXT, PING_REQUEST.as_bytes()));
    }
    frames.stream.write_all(&packet).unwrap();
    for _ in 0..100 {
        assert_is_the_answer(&frames.message());
    }
}

#[test]
fn a_ping_is_answered_with_its_payload() {
    let server = Server::start();
    let mut frames = Frames::connect(&server);
    for payload in [&b""[..], b"x", &[7; 125]] {
        frames.send(FIN | PING, payload);
        let pong = frames.message();
        assert_eq!((pong.opcode, pong.payload.as_slice()), (PONG, payload));
    }
    // A pong that nobody asked for is no offence.
    frames.send(FIN | PONG, b"unasked");
    frames.text(PING_REQUEST);
    assert_is_the_answer(&frames.message());
}

#[test]
fn a_close_is_answered_by_a_close() {
    let server = Server::start();
    for (sent, expected) in
        [(&b""[..], None), (&1000_u16.to_be_bytes()[..], Some(1000)), (b"\x03\xe9bye", Some(1001))]
    {
        let mut frames = Frames::connect(&server);
        frames.send(FIN | CLOSE, sent);
        let close = frames.message();
        assert_eq!(close.opcode, CLOSE);
        let code = close.payload.first_chunk().map(|bytes| u16::from_be_bytes(*bytes));
        assert!(code == expected || code == Some(1000), "{sent:?}: {code:?}");
        assert!(frames.next().is_none(), "the server closes the connection");
    }
}

#[test]
fn a_message_that_is_too_large_closes_with_1009() {
    let server = Setup::new().args(["--max-message-bytes", "65536"]).listen();
    let mut frames = Frames::connect(&server);
    let _ = frames.stream.write_all(&masked(FIN | TEXT, &[b' '; 65_537]));
    assert_eq!(frames.close_code(), Some(1009), "in one frame");

    let mut frames = Frames::connect(&server);
    frames.send(TEXT, &[b' '; 30_000]);
    for _ in 0..2 {
        let _ = frames.stream.write_all(&masked(CONTINUATION, &[b' '; 30_000]));
    }
    assert_eq!(frames.close_code(), Some(1009), "in fragments");
    server.connect().ping();
}

#[test]
fn two_to_the_62_announced_bytes_close_with_1009_and_cost_no_memory() {
    let server = Server::start();
    let mut watcher = server.connect();
    let pid = watcher.server_pid();
    let before = procfs::resident_kib(pid);
    let huge = [1 << 62, (1 << 63) - 1, u64::from(u32::MAX), 65 << 20];
    for length in huge {
        let mut frames = Frames::connect(&server);
        frames.stream.write_all(&announcing(FIN | TEXT, length)).unwrap();
        assert_eq!(frames.close_code(), Some(1009), "{length} bytes announced");
    }
    // Within the limit, so it may wait for them; but memory is given for what arrives alone.
    let mut waiting: Vec<_> = (0..8).map(|_| Frames::connect(&server)).collect();
    for frames in &mut waiting {
        frames.stream.write_all(&announcing(FIN | TEXT, 60 << 20)).unwrap();
        frames.stream.write_all(b"    ").unwrap();
    }
    let peak = procfs::peak_kib(pid, Duration::from_millis(300));
    assert!(peak < before + GROWTH_KIB, "from {before} to {peak} KiB");
    watcher.ping();
}

#[test]
fn a_violation_of_the_protocol_closes_the_connection() {
    let server = Server::start();
    let text = PING_REQUEST.as_bytes();
    let violations = [
        ("an unmasked frame", unmasked(FIN | TEXT, text)),
        ("a reserved bit", masked(FIN | 0x40 | TEXT, text)),
        ("a reserved opcode", masked(FIN | 0x3, text)),
        ("a reserved control opcode", masked(FIN | 0xB, b"")),
        ("a fragmented ping", masked(PING, b"x")),
        ("a ping of 126 bytes", masked(FIN | PING, &[0; 126])),
        ("a continuation of nothing", masked(FIN | CONTINUATION, text)),
        ("a length with the top bit set", announcing(FIN | TEXT, 1 << 63)),
        ("a close of one byte", masked(FIN | CLOSE, b"x")),
    ];
    for (what, bytes) in violations {
        let mut frames = Frames::connect(&server);
        frames.stream.write_all(&bytes).unwrap();
        let code = frames.close_code();
        let fine = matches!(code, None | Some(1002) | Some(1009));
        assert!(fine, "{what}: closed with {code:?}");
    }
    server.connect().ping();
}

#[test]
fn a_connection_closed_for_a_bad_frame_leaves_no_process() {
    let server = Server::start();
    let victim = Victim::new();
    let mut frames = Frames::connect(&server);
    let command = victim.command();
    frames.text(&format!(
        r#"{{"id":1,"method":"process/exec","params":{{"processId":"p","command":"{command}"}}}}"#
    ));
    victim.await_alive();
    frames.send(FIN | BINARY, b"x");
    assert_eq!(frames.close_code(), Some(1003));
    victim.await_gone();
}

#[test]
fn a_flood_of_pings_from_a_peer_that_does_not_read_costs_no_memory() {
    flooded(&masked(FIN | PING, &[b'p'; 125]));
}

#[test]
fn a_flood_of_requests_from_a_peer_that_does_not_read_costs_no_memory() {
    flooded(&masked(FIN | TEXT, PING_REQUEST.as_bytes()));
}

#[test]
fn a_flood_of_malformed_messages_costs_no_memory() {
    flooded(&masked(FIN | TEXT, b"{"));
}

fn flooded(frame: &[u8]) {
    let server = Server::start();
    let mut watcher = server.connect();
    let pid = watcher.server_pid();
    let before = procfs::resident_kib(pid);
    let mut frames = Frames::connect(&server);
    flood(&mut frames.stream, frame, 32 << 20);
    let peak = procfs::peak_kib(pid, Duration::from_millis(200));
    assert!(peak < before + GROWTH_KIB, "from {before} to {peak} KiB");
    assert_lives(&server, &mut watcher);
}

fn assert_lives(server: &Server, watcher: &mut Peer) {
    watcher.ping();
    assert_eq!(http::get(server.address, "/healthz").status, 200);
    server.connect().ping();
}
