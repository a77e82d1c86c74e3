//! Processes: what is told about them, and in what order.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::codex::peer::Peer;
use crate::support::{DEADLINE, Server, Setup, Victim, base64, best_of_three, procfs, unbase64};

#[test]
fn a_process_is_told_from_its_output_to_its_end() {
    let server = Server::start();
    let mut peer = Peer::connect(&server);
    let mut params = Peer::params("p", &["/bin/sh", "-c", "echo $A; pwd; echo err >&2; exit 3"]);
    params["env"] = json!({"A": "a value", "PATH": "/usr/bin:/bin"});
    params["cwd"] = json!("file:///usr/../tmp");
    let result = peer.ok("process/start", &params);
    assert_eq!(result, json!({"processId": "p", "sandboxType": "none"}));
    let seen = peer.closed("p");
    assert_eq!((seen.out(), seen.text("stderr")), ("a value\n/tmp\n".into(), "err\n".into()));
    assert_eq!((seen.code(), &seen.exited.unwrap()["sandboxDenied"]), (3, &json!(false)));
}

#[test]
fn a_million_bytes_come_whole_and_in_order() {
    let server = Server::start();
    let mut peer = Peer::connect(&server);
    let seen = peer.sh("p", "seq 1 200000; seq 1 20000 >&2");
    let lines = |last: u32| (1..=last).map(|n| format!("{n}\n")).collect::<String>();
    assert!(seen.out() == lines(200_000) && seen.text("stderr") == lines(20_000));
    assert!(seen.longest_chunk() <= 64 * 1024, "{}", seen.longest_chunk());
}

/// Each of many that run at once, and the bytes of each in its own order.
#[test]
fn many_processes_at_once_are_told_apart() {
    let server = Server::start();
    let mut peer = Peer::connect(&server);
    for number in 0..50 {
        let line = format!("for n in 1 2 3 4 5; do echo {number} $n; done; exit {number}");
        peer.start(&number.to_string(), &["/bin/sh", "-c", &line]);
    }
    for number in 0..50 {
        let seen = peer.closed(&number.to_string());
        let lines: String = (1..=5).map(|n| format!("{number} {n}\n")).collect();
        assert_eq!((seen.out(), seen.code()), (lines, number));
    }
}

#[test]
fn a_terminal_echoes_and_its_interrupt_ends_what_runs_there() {
    let server = Server::start();
    let mut peer = Peer::connect(&server);
    let victim = Victim::new();
    let line = format!("stty size; read a; echo got $a; exec {}", victim.command());
    let mut params = Peer::params("p", &["/bin/sh", "-c", &line]);
    params["tty"] = json!(true);
    peer.start_with(&params);
    peer.until("p", "24 80\r\n");
    assert_eq!(peer.write("p", "hello\n", "1"), "accepted");
    peer.until("p", "hello\r\ngot hello\r\n");
    victim.await_alive();
    assert_eq!(peer.write("p", "\u{3}", "2"), "accepted");
    assert!(peer.closed("p").text("pty").ends_with("^C"));
    victim.await_gone();
}

/// A client that does not know whether its write arrived sends it again by the same name.
#[test]
fn a_write_by_the_same_name_is_written_once() {
    let server = Server::start();
    let mut peer = Peer::connect(&server);
    let mut params = Peer::params("p", &["/bin/cat"]);
    params["pipeStdin"] = json!(true);
    peer.start_with(&params);
    for (text, id) in [("one ", "1"), ("one ", "1"), ("two ", "2"), ("one ", "1"), ("end\n", "3")] {
        assert_eq!(peer.write("p", text, id), "accepted");
    }
    peer.until("p", "end\n");
    assert_eq!(peer.seen("p").out(), "one two end\n");
    assert_eq!(peer.write("none", "x", "1"), "unknownProcess");
    assert!(peer.terminate("p"));
    assert_eq!(peer.closed("p").code(), 137);
}

#[test]
fn what_nobody_gave_a_stdin_reads_nothing_and_takes_nothing() {
    let server = Server::start();
    let mut peer = Peer::connect(&server);
    assert_eq!(peer.sh("p", "cat; echo end").out(), "end\n");
    let victim = Victim::new();
    peer.start("q", &["sleep", victim.argument()]);
    victim.await_alive();
    assert_eq!(peer.write("q", "x", "1"), "stdinClosed");
    assert!(peer.terminate("q"));
    victim.await_gone();
}

/// Its whole group gets it.
#[test]
fn an_interrupt_is_a_sigint() {
    let server = Server::start();
    let mut peer = Peer::connect(&server);
    let line = "trap 'echo got it; exit 9' INT; echo ready; while :; do sleep 0.05; done";
    peer.start("p", &["/bin/sh", "-c", line]);
    peer.until("p", "ready\n");
    let interrupt = json!({"processId": "p", "signal": "interrupt"});
    assert_eq!(peer.ok("process/signal", &interrupt), json!({}));
    let seen = peer.closed("p");
    assert_eq!((seen.out().as_str(), seen.code()), ("ready\ngot it\n", 9));
    assert_eq!(peer.ok("process/signal", &interrupt), json!({}));
}

/// No trap is asked, and nothing that left the group is spared.
#[test]
fn terminate_ends_all_of_a_process_at_once() {
    let server = Server::start();
    let mut peer = Peer::connect(&server);
    let victims = [Victim::new(), Victim::new(), Victim::new()];
    let [own, group, session] = victims.each_ref().map(Victim::command);
    let line = format!("trap '' TERM INT HUP; {group} & setsid {session} & exec {own}");
    peer.start("p", &["/bin/sh", "-c", &line]);
    victims.iter().for_each(|victim| _ = victim.await_alive());
    assert!(peer.terminate("p"));
    let seen = peer.closed("p");
    assert_eq!(seen.code(), 137);
    victims.iter().for_each(Victim::await_gone);
    assert!(!peer.terminate("p"));
    assert!(!peer.terminate("none"));
}

#[test]
fn a_read_tells_again_what_was_told() {
    let server = Server::start();
    let mut peer = Peer::connect(&server);
    let seen = peer.sh("p", "echo one; sleep 0.1; echo two; exit 3");
    let all = peer.ok("process/read", &json!({"processId": "p"}));
    assert_eq!(all["exited"], true);
    assert_eq!(all["exitCode"], 3);
    assert_eq!(all["closed"], true);
    assert_eq!(all["nextSeq"], seen.last.unwrap() + 1);
    assert_eq!(text(&all["chunks"]), "one\ntwo\n");
    let first = all["chunks"][0]["seq"].as_u64().unwrap();
    let rest = peer.ok("process/read", &json!({"processId": "p", "afterSeq": first}));
    let kept: Vec<_> = all["chunks"].as_array().unwrap()[1..].to_vec();
    assert_eq!(rest["chunks"], json!(kept));
    let one = peer.ok("process/read", &json!({"processId": "p", "maxBytes": 1}));
    assert_eq!(one["chunks"].as_array().unwrap().len(), 1, "{one}");
    assert_eq!(one["nextSeq"], first + 1);
}

fn text(chunks: &Value) -> String {
    let chunks = chunks.as_array().unwrap().iter();
    let bytes = chunks.flat_map(|chunk| unbase64(chunk["chunk"].as_str().unwrap()));
    String::from_utf8(bytes.collect()).unwrap()
}

/// The server of Codex answers one request after the other.
#[test]
fn a_read_that_waits_holds_up_nothing() {
    let server = Server::start();
    let mut peer = Peer::connect(&server);
    let victim = Victim::new();
    peer.start("p", &["sleep", victim.argument()]);
    let start = Instant::now();
    let read = json!({"processId": "p", "afterSeq": 0, "waitMs": 20_000});
    let waiting = peer.request("process/read", &read);
    best_of_three(Duration::from_millis(500), "a request beside it", || {
        let start = Instant::now();
        peer.ok("environment/status", &json!({}));
        start.elapsed()
    });
    assert_eq!(peer.sh("q", "echo beside").out(), "beside\n");
    assert!(peer.terminate("p"));
    let answer = peer.answer(waiting).unwrap();
    assert_eq!(answer["exited"], true, "{answer}");
    assert!(start.elapsed() < DEADLINE);
    // Its time runs out as well.
    peer.start("r", &["sleep", victim.argument()]);
    let read = json!({"processId": "r", "waitMs": 50});
    assert_eq!(peer.ok("process/read", &read)["exited"], false);
    assert!(peer.terminate("r"));
}

#[test]
fn of_much_output_the_last_is_kept_for_a_read_and_the_server_stays_small() {
    let server = Server::start();
    let mut peer = Peer::connect(&server);
    peer.sh("warm", "head -c 50000000 /dev/zero");
    let before = procfs::resident_kib(server.pid());
    for number in 0..5 {
        let name = format!("p{number}");
        assert_eq!(peer.sh(&name, "head -c 20000000 /dev/zero; echo end").out().len(), 20_000_004);
        let read = peer.ok("process/read", &json!({"processId": name}));
        let kept: usize = read["chunks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|chunk| unbase64(chunk["chunk"].as_str().unwrap()).len())
            .sum();
        assert!((1..=1 << 20).contains(&kept), "{kept} bytes are kept");
        assert!(text_ends(&read["chunks"], b"end\n"));
    }
    let grown = procfs::resident_kib(server.pid()).saturating_sub(before);
    assert!(grown < 16 * 1024, "{grown} KiB more");
}

fn text_ends(chunks: &Value, end: &[u8]) -> bool {
    let last = chunks.as_array().unwrap().last().unwrap();
    unbase64(last["chunk"].as_str().unwrap()).ends_with(end)
}

/// A client that does not read holds up the writer, and then gets all of it.
#[test]
fn a_client_that_does_not_read_loses_nothing() {
    let server = Server::start();
    let mut peer = Peer::connect(&server);
    peer.start("p", &["/bin/sh", "-c", "exec head -c 30000000 /dev/zero"]);
    let busy = || procfs::children(server.pid());
    procfs::await_stalled(&busy());
    assert!(procfs::resident_kib(server.pid()) < 64 * 1024);
    let seen = peer.closed("p");
    assert_eq!((seen.bytes("stdout").len(), seen.code()), (30_000_000, 0));
}

#[test]
fn a_sandbox_is_refused_and_nothing_runs() {
    let dir = crate::support::TempDir::new();
    let made = dir.join("made");
    let file = format!("file://{}", made.display());
    let sandbox = json!({
        "permissions": {
            "type": "managed", "network": "restricted",
            "file_system": {"type": "restricted", "entries": []},
        },
        "cwd": "file:///", "workspaceRoots": ["file:///"], "useLegacyLandlock": false,
        "windowsSandboxLevel": "disabled", "windowsSandboxProxySettingsMode": "reconcile",
    });
    let mut params = Peer::params("p", &["touch", made.to_str().unwrap()]);
    params["sandbox"] = sandbox.clone();
    let write = json!({"path": file, "dataBase64": base64("x"), "sandbox": sandbox});
    let make = json!({"path": file, "recursive": true, "sandbox": sandbox});
    for mut peer in [Peer::connect(&Server::start()), Peer::stdio(Setup::new())] {
        for (method, params) in
            [("process/start", &params), ("fs/writeFile", &write), ("fs/createDirectory", &make)]
        {
            let (code, message) = peer.error(method, params);
            assert_eq!(code, -32600, "{method}: {message}");
            let told = message.contains("sandbox")
                && message.contains("--dangerously-bypass-approvals-and-sandbox");
            assert!(told, "{method}: {message}");
        }
        assert!(!made.exists());
        params["sandbox"] = Value::Null;
        peer.start_with(&params);
        assert_eq!(peer.closed("p").code(), 0);
        assert!(made.exists());
        std::fs::remove_file(&made).unwrap();
        params["sandbox"] = sandbox.clone();
    }
}
