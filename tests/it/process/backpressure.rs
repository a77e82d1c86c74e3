//! A transport that is full, because the host reads slowly or not at all, and what must not wait
//! for it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{
    DEADLINE, Peer, Server, Setup, Victim, base64, describe, eventually, over_both, procfs,
};

/// The answer of a command whose output is held was made when the lane of the outputs was full,
/// and then never handed over: the host waited for ever.
#[test]
fn held_output_is_answered_beside_processes_that_write_without_end() {
    over_both(|peer| {
        // The more there are, the more often the lane is full at the wrong moment.
        for _ in 0..4 {
            let yes = peer.spawn(json!({"command": "yes"}));
            peer.capture(&yes).discard = true;
        }
        let victim = Victim::new();
        let command = format!("{} & echo hi", victim.command());
        let params = json!({"command": command, "shell": "/bin/sh"});
        let all: Vec<_> = (0..20).map(|_| peer.start_exec(params.clone())).collect();
        for running in &all {
            let done = peer.finish_within(running, Duration::from_secs(5));
            assert!(done.elapsed < Duration::from_secs(5), "{:?}", done.elapsed);
            assert_eq!((done.text().as_str(), done.code()), ("hi\n", Some(0)));
            assert!(done.is("outputHeld"), "{}", done.result);
        }
        victim.await_count(20);
    });
}

/// Sends thousands of commands that end at once, and reads nothing.
#[track_caller]
fn start_and_start(peer: &mut Peer, pid: u32) {
    const MOST_THREADS: usize = 1024 + 50;
    peer.fill_the_transport();
    let assert_few = |sent: usize| {
        let threads = procfs::threads(pid);
        assert!(threads < MOST_THREADS, "{threads} threads after {sent} commands");
    };
    let mut sent = 0;
    while sent < 3000 {
        let params =
            json!({"processId": format!("e{sent}"), "command": "exit 0", "shell": "/bin/sh"});
        let message =
            json!({"jsonrpc": "2.0", "id": sent, "method": "process/exec", "params": params});
        // The server may hear no more from a host that does not read.
        if !peer.wire().try_send_unread(&message.to_string(), Duration::from_millis(1500)) {
            break;
        }
        sent += 1;
        if sent % 50 == 0 {
            assert_few(sent);
        }
    }
    assert!(sent > 256, "only {sent} commands were taken: fewer than answers may wait");
    let (mut last, mut since) = (procfs::threads(pid), Instant::now());
    eventually(DEADLINE, "the server has looked at what it will look at", || {
        assert_few(sent);
        let now = procfs::threads(pid);
        if now != last {
            (last, since) = (now, Instant::now());
        }
        since.elapsed() > Duration::from_millis(500)
    });
}

/// The thread and the descriptors of a command stayed until the host took its answer: they grew with what
/// was sent.
#[test]
fn who_starts_and_starts_and_does_not_read_is_heard_no_more() {
    let server = Server::start();
    let mut watcher = server.connect();
    let pid = watcher.server_pid();
    server.connect().sh("true").assert_success();
    let before = procfs::settled(pid);
    let mut peer = server.connect();
    start_and_start(&mut peer, pid);
    assert_eq!(watcher.sh("echo other").text(), "other\n");
    drop(peer);
    let now = || (procfs::threads(pid), procfs::descriptors(pid));
    let what = format!("threads and descriptors {before:?} again");
    eventually(DEADLINE, &what, || now() == before);
    assert_eq!(procfs::zombies_of(pid), [0_u32; 0]);
}

#[test]
fn over_stdio_too_who_starts_and_starts_and_does_not_read_is_heard_no_more() {
    let mut peer = Setup::new().stdio();
    let pid = peer.server_pid();
    start_and_start(&mut peer, pid);
    let children = procfs::children(pid);
    assert!(!children.is_empty(), "yes is running");
    peer.hang_up();
    let status = peer.pipes().wait(Duration::from_secs(5)).expect("the server ends");
    assert_eq!(status.code(), Some(0), "{}", describe(status));
    eventually(DEADLINE, "its processes are gone", || {
        children.iter().all(|child| procfs::parent(*child) != Some(pid))
    });
}

/// Once the process was over but the host did not take its last word, the SIGKILL that was due
/// never came, and the thread that was to send it did not sleep for a moment.
#[test]
fn the_sigkill_after_the_grace_comes_though_the_last_word_waits_for_the_host() {
    over_both(|peer| {
        let pid = peer.server_pid();
        let writers = peer.fill_the_transport();
        let (leader, member) = (Victim::new(), Victim::new());
        // The member holds no output; the leader has written something before it is replaced.
        let command = format!(
            "(trap '' TERM; exec >/dev/null 2>&1 </dev/null; exec {}) & echo hi; exec {}",
            member.command(),
            leader.command()
        );
        let running = peer.start_exec(json!({"command": command}));
        leader.await_alive();
        member.await_alive();
        let params = json!({"processId": running.process, "signal": "TERM", "graceMs": 500});
        let kill = peer.request("process/kill", &params);
        leader.await_gone();
        member.await_gone_within(Duration::from_secs(3));
        let busy = procfs::busy_within(pid, Duration::from_secs(1));
        assert!(busy < Duration::from_millis(500), "busy for {busy:?} of a second of waiting");
        assert_eq!(peer.answer(&kill).unwrap(), json!({"running": true}));
        let done = peer.finish(&running);
        assert_eq!((done.text().as_str(), done.signal()), ("hi\n", Some("SIGTERM")));
        assert!(done.is("killed"), "{}", done.result);
        for writer in &writers {
            peer.kill(writer);
        }
    });
}

/// 8192 small writes that waited for one child were all the requests that a connection may have in
/// flight: it could not even kill that child any more.
#[test]
fn writes_that_wait_for_one_child_refuse_neither_a_kill_nor_anything_else() {
    const WRITES: usize = 9500;
    over_both(|peer| {
        let victim = Victim::new();
        let process = victim.spawn(peer);
        let params = json!({"processId": process, "chunk": base64("a line of text\n".repeat(10))});
        for n in 0..WRITES {
            peer.request("process/write", &params);
            // The host reads what has come, and does not wait for more.
            if n % 50 == 0 {
                peer.pump(Duration::ZERO);
            }
        }
        peer.ping();
        assert_eq!(peer.sh("echo other").text(), "other\n");
        victim.assert_alive();
        assert!(peer.kill(&process));
        assert_eq!(peer.exit(&process).signal(), Some("SIGKILL"));
        victim.await_gone();
        let (mut written, mut waited, mut refused) = (0, 0, 0);
        for _ in 0..WRITES {
            match peer.reply().outcome {
                Ok(result) => {
                    assert_eq!(result, json!({}));
                    written += 1;
                }
                Err(error) => match (error.code, error.data_code()) {
                    (-32000, "EPIPE") => waited += 1,
                    (-32000, "CELL_TA_EXEC_STDIN_FULL") => refused += 1,
                    _ => panic!("{error:?}"),
                },
            }
        }
        let counts = format!("{written} written, {waited} waited, {refused} refused");
        assert!((1..=1024).contains(&waited), "{counts}");
        // What a pipe holds, and not more, has been written.
        assert!(written <= 64 * 1024 / 150 + 1, "{counts}");
        peer.assert_quiet();
        assert_eq!(
            peer.ok("process/kill", &json!({"processId": process}))["running"],
            Value::Bool(false)
        );
    });
}
