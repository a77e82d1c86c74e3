//! A command line and how it ended.

use std::time::Duration;

use serde_json::json;

use crate::support::{Victim, base64, over_both};

#[test]
fn a_command_line_is_run_and_its_end_told() {
    over_both(|peer| {
        let done = peer.sh("echo out; echo err >&2; exit 3");
        assert_eq!((done.text().as_str(), done.errors().as_str()), ("out\n", "err\n"));
        assert_eq!((done.code(), done.signal()), (Some(3), None));
        for flag in ["timedOut", "killed", "outputHeld"] {
            assert!(!done.is(flag), "{flag} in {done:?}");
        }
        let elapsed = u64::try_from(done.elapsed.as_millis()).unwrap();
        assert!(done.result["durationMs"].as_u64().unwrap() <= elapsed, "{done:?}");
    });
}

#[test]
fn duration_counts_from_the_start_to_the_end() {
    over_both(|peer| {
        let done = peer.sh("sleep 0.3");
        let duration = done.result["durationMs"].as_u64().unwrap();
        assert!((290..5_000).contains(&duration), "{done:?}");
    });
}

#[test]
fn every_exit_code_is_what_wait_said() {
    over_both(|peer| {
        for code in [0, 1, 2, 125, 126, 127, 128, 129, 137, 143, 254, 255] {
            let done = peer.sh(&format!("exit {code}"));
            assert_eq!((done.code(), done.signal()), (Some(code), None));
        }
        assert_eq!(peer.sh("exit 256").code(), Some(0));
        assert_eq!(peer.sh("no_such_command_anywhere").code(), Some(127));
        assert_eq!(peer.sh("/etc/passwd").code(), Some(126));
    });
}

#[test]
fn a_signal_is_told_by_its_name_and_without_an_exit_code() {
    over_both(|peer| {
        for name in ["KILL", "TERM", "INT", "HUP", "ABRT", "SEGV", "USR1", "PIPE", "ALRM", "BUS"] {
            let done = peer.sh(&format!("ulimit -c 0; kill -{name} $$; sleep 5"));
            assert_eq!(done.code(), None, "{name}");
            assert_eq!(done.signal(), Some(format!("SIG{name}").as_str()));
            assert!(!done.is("killed"), "nobody called process/kill");
        }
    });
}

#[test]
fn exit_137_is_no_sigkill() {
    over_both(|peer| {
        let done = peer.sh("exit 137");
        assert_eq!((done.code(), done.signal()), (Some(137), None));
        let done = peer.sh("kill -9 $$");
        assert_eq!((done.code(), done.signal()), (None, Some("SIGKILL")));
        assert!(!done.is("killed") && !done.is("timedOut"), "{done:?}");
    });
}

#[test]
fn the_second_of_two_is_not_delayed_by_a_first_that_is_stuck() {
    over_both(|peer| {
        let victim = Victim::new();
        let stuck = peer.start_exec(json!({"command": victim.command()}));
        victim.await_alive();
        let second = peer.sh("echo second");
        assert_eq!(second.text(), "second\n");
        assert!(second.elapsed < Duration::from_secs(2), "{:?}", second.elapsed);
        victim.assert_alive();
        assert!(!peer.has_answer(&stuck.id));
        peer.kill(&stuck.process);
        assert!(peer.finish(&stuck).is("killed"));
    });
}

#[test]
fn answers_come_as_each_is_done() {
    over_both(|peer| {
        let slow = peer.start_exec(json!({"command": "sleep 0.6; echo slow"}));
        let quick = peer.start_exec(json!({"command": "echo quick"}));
        assert_eq!(peer.finish(&quick).text(), "quick\n");
        assert!(!peer.has_answer(&slow.id), "the slow one was answered first");
        assert_eq!(peer.finish(&slow).text(), "slow\n");
    });
}

#[test]
fn fifty_at_once_get_each_its_own_output_and_code() {
    over_both(|peer| {
        let all: Vec<_> = (0..50)
            .map(|n| peer.start_exec(json!({"command": format!("echo {n}; exit {n}")})))
            .collect();
        for (n, running) in (0..).zip(&all) {
            let done = peer.finish(running);
            assert_eq!((done.text(), done.code()), (format!("{n}\n"), Some(n)));
        }
    });
}

#[test]
fn stdin_is_fed_and_then_closed() {
    over_both(|peer| {
        let fed = |bytes: &[u8]| json!({"command": "cat; echo end", "stdin": base64(bytes)});
        assert_eq!(peer.exec(fed(b"hello\n")).text(), "hello\nend\n");
        assert_eq!(peer.exec(fed(b"")).text(), "end\n");
        let binary: Vec<u8> = (0..=255).cycle().take(300_000).collect();
        let done = peer.exec(json!({"command": "cat", "stdin": base64(&binary)}));
        assert_eq!(done.stdout, binary);
    });
}

#[test]
fn stdin_that_nobody_reads_holds_nothing_up() {
    over_both(|peer| {
        let much = base64(vec![b'x'; 1 << 20]);
        let done = peer.exec(json!({"command": "echo done", "stdin": much}));
        assert_eq!(done.text(), "done\n");
        let done = peer.exec(json!({"command": "head -c 5; exit 4", "stdin": much}));
        assert_eq!((done.text().as_str(), done.code()), ("xxxxx", Some(4)));
        assert!(!done.is("outputHeld"));
    });
}

#[test]
fn twenty_mib_of_stdin_arrive() {
    over_both(|peer| {
        let much = base64(vec![b'x'; 20 << 20]);
        let done = peer.exec(json!({"command": "wc -c", "stdin": much}));
        assert_eq!(done.text().trim(), "20971520");
    });
}

#[test]
fn without_stdin_it_is_dev_null() {
    over_both(|peer| {
        let done = peer.sh("readlink /proc/self/fd/0; cat; echo end");
        assert_eq!(done.text(), "/dev/null\nend\n");
    });
}

#[test]
fn a_process_id_is_free_again_after_the_end() {
    over_both(|peer| {
        for n in 0..50 {
            let params = json!({"processId": "again", "command": format!("echo {n}")});
            assert_eq!(peer.exec(params).text(), format!("{n}\n"));
        }
        let held = json!({"processId": "again", "command": "sleep 0.5 & echo held"});
        assert!(peer.exec(held).is("outputHeld"));
        let params = json!({"processId": "again", "command": "echo free"});
        assert_eq!(peer.exec(params).text(), "free\n", "and nothing of the one before");
    });
}
