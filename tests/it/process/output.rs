//! Output: bytes as they are, all of them, in order, before the answer.

use std::fmt::Write as _;

use serde_json::json;

use crate::support::{Victim, over_both};

// That all output comes before the answer, that `seq` has no gap and that the byte counts are
// right is checked by the peer at every message of every test.

#[test]
fn output_comes_before_the_exit_code() {
    over_both(|peer| {
        for n in 0..100 {
            let done = peer.sh(&format!("printf %s {n}; printf %s {n} >&2"));
            assert_eq!((done.text(), done.errors()), (n.to_string(), n.to_string()));
        }
    });
}

#[test]
fn output_arrives_while_the_command_still_runs() {
    over_both(|peer| {
        let victim = Victim::new();
        let running =
            peer.start_exec(json!({"command": format!("echo first; {}", victim.command())}));
        peer.await_stdout(&running.process, "first\n");
        victim.await_alive();
        assert!(!peer.has_answer(&running.id));
        peer.kill(&running.process);
        assert_eq!(peer.finish(&running).text(), "first\n");
    });
}

#[test]
fn a_flood_on_stderr_is_no_deadlock() {
    over_both(|peer| {
        let done = peer.sh("head -c 5M /dev/zero >&2; echo ok");
        assert_eq!((done.text().as_str(), done.stderr.len()), ("ok\n", 5 << 20));
    });
}

#[test]
fn both_streams_at_once_arrive_whole() {
    over_both(|peer| {
        let done = peer.sh("seq 1 100000 & seq 1 100000 >&2; wait");
        assert_eq!(done.stdout.len(), 588_895);
        assert_eq!(done.stdout, done.stderr);
    });
}

/// Decoding each chunk by itself turned it into two replacement characters.
#[test]
fn a_character_split_in_time_keeps_its_bytes() {
    over_both(|peer| {
        let done = peer.sh(r"printf '\342'; sleep .2; printf '\202\254'");
        assert_eq!(done.stdout, [0xE2, 0x82, 0xAC]);
    });
}

#[test]
fn all_256_byte_values_pass_unchanged() {
    over_both(|peer| {
        let done = peer.sh(r#"for i in $(seq 0 255); do printf "\\$(printf %03o $i)"; done"#);
        assert_eq!(done.stdout, (0..=255).collect::<Vec<u8>>());
    });
}

#[test]
fn one_line_of_50_mb_arrives() {
    over_both(|peer| {
        let running = peer.start_exec(json!({"command": "head -c 50M /dev/zero | tr '\\0' a"}));
        let done = peer.finish_within(&running, std::time::Duration::from_secs(40));
        assert_eq!(done.stdout.len(), 50 << 20);
        assert!(done.stdout.iter().all(|byte| *byte == b'a'));
    });
}

/// With SIGPIPE ignored in the child, `yes` complains instead of dying of it.
#[test]
fn yes_into_head_is_not_told_of_a_broken_pipe() {
    over_both(|peer| {
        let done = peer.sh("yes | head -1; echo");
        assert_eq!((done.text().as_str(), done.errors().as_str()), ("y\n\n", ""));
    });
}

#[test]
fn merged_stderr_keeps_the_order_in_which_it_was_written() {
    over_both(|peer| {
        let script = "for i in $(seq 1 200); do echo o$i; echo e$i >&2; done";
        let expected = (1..=200).fold(String::new(), |mut text, n| {
            write!(text, "o{n}\ne{n}\n").unwrap();
            text
        });
        let done = peer.exec(json!({"command": script, "mergeStderr": true}));
        assert_eq!((done.text(), done.errors().as_str()), (expected.clone(), ""));
        assert_eq!(done.result["stderrBytes"], 0);
        let spawned = json!({"command": "sh", "args": ["-c", script], "mergeStderr": true});
        assert_eq!(peer.run(spawned).text(), expected);
    });
}

#[test]
fn merged_stderr_is_the_same_pipe_as_stdout() {
    over_both(|peer| {
        let command = "readlink /proc/self/fd/1 /proc/self/fd/2";
        let same = peer.exec(json!({"command": command, "mergeStderr": true})).text();
        let lines: Vec<_> = same.lines().collect();
        assert_eq!(lines[0], lines[1]);
        let two = peer.sh(command).text();
        let lines: Vec<_> = two.lines().collect();
        assert_ne!(lines[0], lines[1]);
    });
}

#[test]
fn closed_output_before_the_end_is_no_end() {
    over_both(|peer| {
        let done = peer.sh("echo a; exec >&- 2>&-; sleep 0.3; exit 5");
        assert_eq!((done.text().as_str(), done.code()), ("a\n", Some(5)));
        assert!(!done.is("outputHeld"));
        assert!(done.result["durationMs"].as_u64().unwrap() >= 290, "{done:?}");
    });
}
