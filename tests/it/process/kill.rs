//! `process/kill`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{DEADLINE, Server, Victim, eventually, over_both, procfs};

#[test]
fn by_default_it_is_sigkill() {
    over_both(|peer| {
        let victim = Victim::new();
        let running = peer.start_exec(json!({"command": victim.command()}));
        victim.await_alive();
        let params = json!({"processId": running.process});
        assert_eq!(peer.ok("process/kill", &params), json!({"running": true}));
        let done = peer.finish(&running);
        assert_eq!((done.code(), done.signal()), (None, Some("SIGKILL")));
        assert!(done.is("killed") && !done.is("timedOut"), "{done:?}");
        victim.await_gone();
    });
}

#[test]
fn a_signal_is_a_name_with_or_without_sig_or_a_number() {
    over_both(|peer| {
        for (signal, name) in [
            (json!("SIGTERM"), "SIGTERM"),
            (json!("TERM"), "SIGTERM"),
            (json!(15), "SIGTERM"),
            (json!("SIGINT"), "SIGINT"),
            (json!("HUP"), "SIGHUP"),
            (json!(10), "SIGUSR1"),
            (json!(9), "SIGKILL"),
            (json!("KILL"), "SIGKILL"),
            (json!("QUIT"), "SIGQUIT"),
        ] {
            let victim = Victim::new();
            let process = victim.spawn(peer);
            let params = json!({"processId": process, "signal": signal});
            assert_eq!(peer.ok("process/kill", &params), json!({"running": true}));
            let done = peer.exit(&process);
            assert_eq!((done.code(), done.signal()), (None, Some(name)), "{signal}");
        }
    });
}

#[test]
fn killed_is_true_also_when_the_command_ends_by_itself_on_the_signal() {
    over_both(|peer| {
        let script = "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.05; done";
        let running = peer.start_exec(json!({"command": script}));
        peer.await_stdout(&running.process, "ready");
        peer.ok("process/kill", &json!({"processId": running.process, "signal": "TERM"}));
        let done = peer.finish(&running);
        assert_eq!((done.text().as_str(), done.code()), ("ready\nbye\n", Some(7)));
        assert!(done.is("killed"));
    });
}

#[test]
fn the_whole_group_is_signalled() {
    over_both(|peer| {
        let victim = Victim::new();
        let sleep = victim.command();
        for signal in ["TERM", "KILL"] {
            let command = format!("{sleep} & {sleep} & ({sleep}) & sh -c '{sleep}; :' & wait");
            let running = peer.start_exec(json!({"command": command}));
            victim.await_count(4);
            peer.ok("process/kill", &json!({"processId": running.process, "signal": signal}));
            assert!(peer.finish(&running).is("killed"));
            victim.await_gone();
        }
    });
}

#[test]
fn grace_is_followed_by_sigkill_for_who_ignores_sigterm() {
    over_both(|peer| {
        let victim = Victim::new();
        let script = format!("trap '' TERM; {}", victim.command());
        let running = peer.start_exec(json!({"command": script}));
        victim.await_alive();
        let since = Instant::now();
        let params = json!({"processId": running.process, "signal": "TERM", "graceMs": 300});
        assert_eq!(peer.ok("process/kill", &params), json!({"running": true}));
        assert!(since.elapsed() < Duration::from_millis(300), "the answer waits for no grace");
        victim.assert_alive();
        let done = peer.finish(&running);
        assert!(since.elapsed() >= Duration::from_millis(300), "{:?}", since.elapsed());
        assert_eq!((done.code(), done.signal()), (None, Some("SIGKILL")));
        victim.await_gone();
    });
}

/// Signal 0 only asks, but the SIGKILL behind it is real; the end said that nobody had killed it.
#[test]
fn grace_after_signal_0_is_a_delayed_sigkill() {
    over_both(|peer| {
        let victim = Victim::new();
        let running = peer.start_exec(json!({"command": format!("exec {}", victim.command())}));
        victim.await_alive();
        let since = Instant::now();
        let params = json!({"processId": running.process, "signal": 0, "graceMs": 100});
        assert_eq!(peer.ok("process/kill", &params), json!({"running": true}));
        let done = peer.finish(&running);
        assert!(since.elapsed() >= Duration::from_millis(100), "{:?}", since.elapsed());
        assert_eq!((done.code(), done.signal()), (None, Some("SIGKILL")));
        assert!(done.is("killed") && !done.is("timedOut"), "{done:?}");
        victim.await_gone();
    });
}

#[test]
fn grace_is_for_descendants_of_the_group_too() {
    over_both(|peer| {
        let victim = Victim::new();
        // The leader dies of the signal; its child ignores it and holds the output.
        let script = format!("(trap '' TERM; {}) & wait", victim.command());
        let running = peer.start_exec(json!({"command": script}));
        victim.await_alive();
        let params = json!({"processId": running.process, "signal": "TERM", "graceMs": 300});
        peer.ok("process/kill", &params);
        let done = peer.finish(&running);
        assert!(done.is("killed"));
        assert_eq!(done.signal(), Some("SIGTERM"));
        victim.await_gone();
    });
}

#[test]
fn a_command_that_obeys_within_the_grace_is_not_waited_for() {
    over_both(|peer| {
        let victim = Victim::new();
        let process = victim.spawn(peer);
        let since = Instant::now();
        let params = json!({"processId": process, "signal": "SIGTERM", "graceMs": 60_000});
        peer.ok("process/kill", &params);
        assert_eq!(peer.exit(&process).signal(), Some("SIGTERM"));
        assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    });
}

#[test]
fn an_absurd_grace_is_only_long() {
    over_both(|peer| {
        let victim = Victim::new();
        let process = victim.spawn(peer);
        let grace = 9_007_199_254_740_991_u64;
        let params = json!({"processId": process, "signal": "TERM", "graceMs": grace});
        peer.ok("process/kill", &params);
        peer.exit(&process);
        peer.ping();
    });
}

#[test]
fn a_process_that_is_over_or_unknown_is_not_running() {
    over_both(|peer| {
        let not_running = json!({"running": false});
        for params in [
            json!({"processId": "nobody"}),
            json!({"processId": "nobody", "signal": "TERM", "graceMs": 5}),
        ] {
            assert_eq!(peer.ok("process/kill", &params), not_running);
        }
        let process = peer.spawn(json!({"command": "true"}));
        peer.exit(&process);
        assert_eq!(peer.ok("process/kill", &json!({"processId": process})), not_running);
        let running = peer.start_exec(json!({"command": "true"}));
        peer.finish(&running);
        assert_eq!(peer.ok("process/kill", &json!({"processId": running.process})), not_running);
    });
}

#[test]
fn stop_and_continue_are_signals_like_others() {
    over_both(|peer| {
        let victim = Victim::new();
        let (process, pid) =
            peer.spawn_with_pid(json!({"command": "sleep", "args": [victim.argument()]}));
        victim.await_alive();
        let send = |signal: &str| json!({"processId": process, "signal": signal});
        peer.ok("process/kill", &send("STOP"));
        eventually(DEADLINE, "it is stopped", || procfs::state(pid) == "T");
        peer.ok("process/kill", &send("CONT"));
        eventually(DEADLINE, "it goes on", || procfs::state(pid) == "S");
        peer.ok("process/kill", &send("STOP"));
        eventually(DEADLINE, "it is stopped", || procfs::state(pid) == "T");
        assert!(peer.kill(&process));
        assert_eq!(peer.exit(&process).signal(), Some("SIGKILL"));
    });
}

#[test]
fn the_processes_of_another_connection_are_out_of_reach() {
    let server = Server::start();
    let (mut one, mut other) = (server.connect(), server.connect());
    let victim = Victim::new();
    let params = json!({"processId": "mine", "command": victim.command()});
    let running = one.start_exec(params);
    victim.await_alive();
    assert!(!other.kill("mine"));
    let write = json!({"processId": "mine", "chunk": ""});
    let error = other.error("process/write", &write);
    assert_eq!(error.data_code(), "CELL_TA_EXEC_UNKNOWN_PROCESS");
    // The same id is another process there.
    assert_eq!(other.exec(json!({"processId": "mine", "command": "echo hi"})).text(), "hi\n");
    victim.assert_alive();
    assert!(one.kill("mine"));
    assert!(one.finish(&running).is("killed"));
}

#[test]
fn output_written_before_the_kill_arrives_first() {
    over_both(|peer| {
        let victim = Victim::new();
        let script = format!("echo before; seq 1 5000; {}", victim.command());
        let running = peer.start_exec(json!({"command": script}));
        victim.await_alive();
        peer.kill(&running.process);
        let done = peer.finish(&running);
        assert!(done.text().starts_with("before\n"));
        assert!(done.text().ends_with("\n5000\n"));
    });
}

#[test]
fn two_kills_at_once_are_both_answered() {
    over_both(|peer| {
        let victim = Victim::new();
        let process = victim.spawn(peer);
        let params: Value = json!({"processId": process});
        let ids = [(); 10].map(|()| peer.request("process/kill", &params));
        for id in &ids {
            assert!(peer.answer(id).unwrap()["running"].is_boolean());
        }
        assert_eq!(peer.exit(&process).signal(), Some("SIGKILL"));
    });
}
