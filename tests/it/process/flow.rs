//! `window` and `process/ack`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Peer, Running, Victim, best_of_three, over_both, procfs};

fn acknowledge(peer: &mut Peer, process: &str, bytes: u64) {
    peer.notify("process/ack", &json!({"processId": process, "bytes": bytes}));
}

/// Waits for exactly so many bytes, and shows that no more come.
#[track_caller]
fn await_held_back_at(peer: &mut Peer, process: &str, bytes: usize) {
    let limit = crate::support::DEADLINE;
    let arrived = format!("{bytes} bytes");
    let owned = process.to_owned();
    peer.wait_until(limit, &arrived, |peer| peer.received(&owned) >= bytes);
    peer.pump(Duration::from_millis(200));
    assert_eq!(peer.received(process), bytes, "more than the window admits");
}

fn start(peer: &mut Peer, command: &str, window: u64) -> Running {
    peer.start_exec(json!({"command": command, "window": window}))
}

#[test]
fn no_more_than_the_window_is_sent_until_it_is_acknowledged() {
    over_both(|peer| {
        let running = start(peer, "seq 1 200000", 1000);
        let process = &running.process;
        await_held_back_at(peer, process, 1000);
        acknowledge(peer, process, 1);
        await_held_back_at(peer, process, 1001);
        acknowledge(peer, process, 500);
        acknowledge(peer, process, 499);
        await_held_back_at(peer, process, 2000);
        assert!(!peer.has_answer(&running.id));
        peer.capture(process).acknowledge = true;
        acknowledge(peer, process, 1000);
        let done = peer.finish(&running);
        let expected: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
        assert!(done.stdout == expected.as_bytes(), "the output differs");
        done.assert_success();
    });
}

#[test]
fn a_spawned_program_has_a_window_too() {
    over_both(|peer| {
        let params = json!({"command": "seq", "args": ["1", "3000"], "window": 1000});
        let process = peer.spawn(params);
        await_held_back_at(peer, &process, 1000);
        peer.capture(&process).acknowledge = true;
        acknowledge(peer, &process, 1000);
        let done = peer.exit(&process);
        assert!(done.text().ends_with("\n3000\n"));
        assert!(!done.is("outputHeld"));
    });
}

#[test]
fn the_child_is_stopped_and_not_its_output_collected() {
    over_both(|peer| {
        let params = json!({"command": "yes", "window": 1000});
        let (process, pid) = peer.spawn_with_pid(params);
        procfs::await_stalled(&[pid]);
        await_held_back_at(peer, &process, 1000);
        peer.kill(&process);
        peer.exit(&process);
    });
}

#[test]
fn one_window_covers_both_streams() {
    over_both(|peer| {
        let command = "head -c 3000 /dev/zero >&2; head -c 3000 /dev/zero";
        let running = start(peer, command, 1000);
        await_held_back_at(peer, &running.process, 1000);
        peer.capture(&running.process).acknowledge = true;
        acknowledge(peer, &running.process, 1000);
        let done = peer.finish(&running);
        assert_eq!((done.stdout.len(), done.stderr.len()), (3000, 3000));
    });
}

#[test]
fn more_than_is_owed_gives_no_credit() {
    over_both(|peer| {
        let running = start(peer, "yes", 1000);
        let process = &running.process;
        await_held_back_at(peer, process, 1000);
        acknowledge(peer, process, 1_000_000);
        peer.pump(Duration::from_millis(300));
        let received = peer.received(process);
        // Whether such an acknowledgement counts for what is owed or for nothing is left open.
        assert!(received == 1000 || received == 2000, "{received} bytes");
        acknowledge(peer, process, u64::MAX);
        peer.pump(Duration::from_millis(300));
        assert!(peer.received(process) <= 3000, "{} bytes", peer.received(process));
        peer.kill(process);
        peer.finish(&running);
    });
}

/// The 100 ms and 2 s of a held output do not run while the window holds output back.
#[test]
fn a_natural_end_waits_for_the_acknowledgements() {
    over_both(|peer| {
        let running = start(peer, "seq 1 1000; exit 3", 1000);
        await_held_back_at(peer, &running.process, 1000);
        peer.pump(Duration::from_millis(2_300));
        assert!(!peer.has_answer(&running.id), "answered with output still held back");
        assert_eq!(peer.received(&running.process), 1000);
        peer.capture(&running.process).acknowledge = true;
        acknowledge(peer, &running.process, 1000);
        let done = peer.finish(&running);
        assert_eq!((done.stdout.len(), done.code()), (3893, Some(3)));
        assert!(!done.is("outputHeld"));
    });
}

#[test]
fn the_end_of_output_is_seen_with_a_closed_window() {
    over_both(|peer| {
        // The data and the hang-up may be seen in one wait or in two: try often.
        for _ in 0..40 {
            let params =
                json!({"command": "head", "args": ["-c", "1000", "/dev/zero"], "window": 1000});
            assert_eq!(peer.run(params).stdout.len(), 1000);
        }
        // Exactly the window, and less than it: nothing is held back, so nothing is waited for.
        for bytes in [1000, 10] {
            let command = format!("head -c {bytes} /dev/zero; exit 4");
            let running = start(peer, &command, 1000);
            let done = peer.finish(&running);
            assert_eq!((done.stdout.len(), done.code()), (bytes, Some(4)));
            assert!(!done.is("outputHeld"));
        }
    });
}

#[test]
fn a_silent_command_needs_no_acknowledgement() {
    over_both(|peer| {
        let running = start(peer, "exit 5", 1);
        assert_eq!(peer.finish(&running).code(), Some(5));
    });
}

#[test]
fn a_window_of_one_byte_works() {
    over_both(|peer| {
        let running = start(peer, "echo hello", 1);
        peer.capture(&running.process).acknowledge = true;
        assert_eq!(peer.finish(&running).text(), "hello\n");
    });
}

#[test]
fn a_huge_window_is_no_brake() {
    over_both(|peer| {
        let running = start(peer, "seq 1 100000", 9_007_199_254_740_991);
        assert_eq!(peer.finish(&running).stdout.len(), 588_895);
    });
}

/// A kill ends the waiting: what the window has not admitted within 100 ms is dropped.
#[test]
fn after_a_kill_the_closed_window_is_not_waited_for() {
    over_both(|peer| {
        best_of_three(Duration::from_millis(350), "a kill with a closed window", || {
            let running = start(peer, "yes", 1000);
            await_held_back_at(peer, &running.process, 1000);
            let since = std::time::Instant::now();
            assert!(peer.kill(&running.process));
            let done = peer.finish(&running);
            assert_eq!(done.stdout.len(), 1000);
            assert!(done.is("killed"));
            since.elapsed()
        });
    });
}

#[test]
fn after_a_timeout_the_closed_window_is_not_waited_for() {
    over_both(|peer| {
        best_of_three(Duration::from_millis(500 + 250), "a timeout with a closed window", || {
            let params = json!({"command": "yes", "window": 1000, "timeoutMs": 500});
            let done = peer.exec(params);
            assert_eq!(done.stdout.len(), 1000);
            assert!(done.is("timedOut"));
            done.elapsed
        });
    });
}

#[test]
fn a_timeout_also_ends_a_command_that_has_exited_but_is_held_back() {
    over_both(|peer| {
        let params = json!({"command": "seq 1 1000", "window": 1000, "timeoutMs": 600});
        let done = peer.exec(params);
        assert_eq!(done.stdout.len(), 1000);
        assert!(done.is("timedOut"), "{}", done.result);
        assert!(done.elapsed < Duration::from_secs(4), "{:?}", done.elapsed);
    });
}

#[test]
fn a_kill_also_ends_a_command_that_has_exited_but_is_held_back() {
    over_both(|peer| {
        let running = start(peer, "seq 1 1000; exit 3", 1000);
        await_held_back_at(peer, &running.process, 1000);
        assert!(peer.kill(&running.process), "it is not over before its output is");
        let done = peer.finish(&running);
        assert_eq!(done.stdout.len(), 1000);
        assert_eq!((done.code(), done.is("killed")), (Some(3), true), "{}", done.result);
    });
}

#[test]
fn a_closed_window_of_one_process_is_open_for_another() {
    over_both(|peer| {
        let held = start(peer, "yes", 1000);
        await_held_back_at(peer, &held.process, 1000);
        let free = start(peer, "seq 1 1000", 100_000);
        assert_eq!(peer.finish(&free).stdout.len(), 3893);
        assert_eq!(peer.sh("echo hi").text(), "hi\n");
        peer.kill(&held.process);
        peer.finish(&held);
    });
}

#[test]
fn an_acknowledgement_after_the_end_is_met_by_silence() {
    over_both(|peer| {
        let running = start(peer, "echo hi", 1000);
        peer.finish(&running);
        acknowledge(peer, &running.process, 3);
        peer.assert_quiet();
        // Nor does it count for the next process of that id.
        let params = json!({"processId": running.process, "command": "yes", "window": 1000});
        let next = peer.start_exec(params);
        await_held_back_at(peer, &next.process, 1000);
        peer.kill(&next.process);
        peer.finish(&next);
    });
}

/// Without a window the transport is the brake, and it is not to brake answers.
#[test]
fn yes_that_nobody_reads_delays_neither_a_request_nor_a_kill() {
    over_both(|peer| {
        let (process, pid) = peer.spawn_with_pid(json!({"command": "yes"}));
        peer.capture(&process).discard = true;
        procfs::await_stalled(&[pid]);
        let ping = peer.request("ping", &json!({}));
        let kill = peer.request("process/kill", &json!({"processId": process}));
        let since = std::time::Instant::now();
        peer.answer(&ping).unwrap();
        assert_eq!(peer.answer(&kill).unwrap()["running"], Value::Bool(true));
        assert!(since.elapsed() < Duration::from_secs(3), "{:?}", since.elapsed());
        assert_eq!(peer.exit(&process).signal(), Some("SIGKILL"));
        let before = peer.received(&process);
        assert!(before < 64 << 20, "{before} bytes were queued before the answers");
    });
}

#[test]
fn a_host_that_does_not_read_holds_up_no_timeout() {
    over_both(|peer| {
        let victim = Victim::new();
        let command = format!("{} & yes", victim.command());
        let running = peer.start_exec(json!({"command": command, "timeoutMs": 800}));
        peer.capture(&running.process).discard = true;
        victim.await_alive();
        // Still nothing is read: the kill must not wait for that.
        victim.await_gone();
        let done = peer.finish(&running);
        assert!(done.is("timedOut"), "{}", done.result);
    });
}
