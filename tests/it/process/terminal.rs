//! Programs on a terminal of their own.

use serde_json::{Value, json};

use crate::support::{Peer, Victim, base64, lacks, over_both};

fn on_terminal(command: &str) -> Value {
    json!({"command": "sh", "args": ["-c", command], "pty": {"cols": 80, "rows": 24}})
}

#[track_caller]
fn write(peer: &mut Peer, process: &str, text: &str) {
    peer.ok("process/write", &json!({"processId": process, "chunk": base64(text)}));
}

#[test]
fn all_three_descriptors_are_one_terminal() {
    over_both(|peer| {
        let command = "tty; tty <&1; tty <&2; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all";
        let done = peer.run(on_terminal(command));
        let text = done.text();
        let lines: Vec<_> = text.split("\r\n").collect();
        assert!(lines[0].starts_with("/dev/pts/"), "{text:?}");
        assert_eq!(lines, [lines[0], lines[0], lines[0], "all", ""]);
        done.assert_success();
    });
}

#[test]
fn stderr_arrives_as_output() {
    over_both(|peer| {
        let done = peer.run(on_terminal("echo err >&2; echo out"));
        assert_eq!((done.text().as_str(), done.errors().as_str()), ("err\r\nout\r\n", ""));
        assert_eq!(done.result["stderrBytes"], 0);
    });
}

#[test]
fn it_has_the_size_it_was_asked_for_and_changes_it() {
    if lacks("it_has_the_size_it_was_asked_for", "stty") {
        return;
    }
    over_both(|peer| {
        let script = "stty size; read x; stty size; read x; stty size";
        let process = peer.spawn(json!({
            "command": "sh", "args": ["-c", script], "pty": {"cols": 1, "rows": 65_535},
        }));
        peer.await_stdout(&process, "65535 1\r\n");
        for (cols, rows) in [(132, 50), (65_535, 1)] {
            let size = json!({"processId": process, "cols": cols, "rows": rows});
            assert_eq!(peer.ok("process/resize", &size), json!({}));
            write(peer, &process, "\n");
            peer.await_stdout(&process, &format!("{rows} {cols}\r\n"));
        }
        peer.exit(&process).assert_success();
    });
}

#[test]
fn a_resize_is_signalled_to_the_program() {
    over_both(|peer| {
        let script = "trap 'echo winch; exit 0' WINCH; echo ready; while :; do sleep 0.05; done";
        let process = peer.spawn(on_terminal(script));
        peer.await_stdout(&process, "ready");
        peer.ok("process/resize", &json!({"processId": process, "cols": 100, "rows": 30}));
        assert_eq!(peer.exit(&process).text(), "ready\r\nwinch\r\n");
    });
}

#[test]
fn a_process_without_a_terminal_cannot_be_resized() {
    over_both(|peer| {
        let victim = Victim::new();
        let spawned = victim.spawn(peer);
        let execed = peer.start_exec(json!({"command": victim.command()}));
        victim.await_count(2);
        for process in [&spawned, &execed.process] {
            let size = json!({"processId": process, "cols": 80, "rows": 24});
            let error = peer.error("process/resize", &size);
            assert_eq!((error.code, error.data_code()), (-32000, "ENOTTY"), "{error:?}");
            error.assert_names(process);
        }
    });
}

#[test]
fn it_is_the_controlling_terminal() {
    over_both(|peer| {
        let done = peer.run(on_terminal("echo through >/dev/tty; cat /proc/self/stat"));
        let text = done.text();
        let stat = text.strip_prefix("through\r\n").unwrap_or_else(|| panic!("{text:?}"));
        let fields: Vec<_> = stat.split_whitespace().collect();
        let (group, terminal, foreground) = (fields[4], fields[6], fields[7]);
        assert_ne!(terminal, "0", "{stat}");
        assert_eq!(group, foreground, "the group is in the foreground");
    });
}

#[test]
fn eof_sends_the_terminals_end_of_file_character() {
    over_both(|peer| {
        let process = peer.spawn(json!({"command": "cat", "pty": {"cols": 80, "rows": 24}}));
        write(peer, &process, "line\n");
        peer.await_stdout(&process, "line\r\nline\r\n");
        let eof = json!({"processId": process, "eof": true});
        assert_eq!(peer.ok("process/write", &eof), json!({}));
        let done = peer.exit(&process);
        done.assert_success();
        assert_eq!(done.text().replace("^D\u{8}\u{8}", ""), "line\r\nline\r\n");
    });
}

#[test]
fn eof_behind_a_chunk_comes_after_it() {
    over_both(|peer| {
        let process = peer.spawn(json!({"command": "cat", "pty": {"cols": 80, "rows": 24}}));
        let last = json!({"processId": process, "chunk": base64("last\n"), "eof": true});
        peer.ok("process/write", &last);
        let done = peer.exit(&process);
        done.assert_success();
        assert!(done.text().contains("last\r\nlast\r\n"), "{done:?}");
    });
}

/// The character is the terminal's own: a program may have changed it.
#[test]
fn the_end_of_file_character_is_the_one_the_program_has_set() {
    if lacks("the_end_of_file_character_is_the_one_set", "stty") {
        return;
    }
    over_both(|peer| {
        let process = peer.spawn(on_terminal("stty eof ^A -echo; echo ready; cat; echo end"));
        peer.await_stdout(&process, "ready\r\n");
        peer.ok("process/write", &json!({"processId": process, "eof": true}));
        assert_eq!(peer.exit(&process).text(), "ready\r\nend\r\n");
    });
}

#[test]
fn control_c_interrupts() {
    over_both(|peer| {
        let victim = Victim::new();
        let params = json!({"command": "sleep", "args": [victim.argument()],
            "pty": {"cols": 80, "rows": 24}});
        let process = peer.spawn(params);
        victim.await_alive();
        write(peer, &process, "\u{3}");
        let done = peer.exit(&process);
        assert_eq!((done.code(), done.signal()), (None, Some("SIGINT")));
        victim.await_gone();
    });
}

#[test]
fn all_output_arrives_before_the_exit() {
    over_both(|peer| {
        for _ in 0..5 {
            let done = peer.run(on_terminal("seq 1 20000"));
            let expected: String = (1..=20_000).map(|n| format!("{n}\r\n")).collect();
            assert!(done.text() == expected, "{} bytes arrived", done.stdout.len());
            done.assert_success();
            assert!(!done.is("outputHeld"));
        }
    });
}

/// A terminal that nobody has open for a moment was taken for one that has ended.
#[test]
fn a_terminal_that_is_opened_again_is_read_again() {
    over_both(|peer| {
        let script = "echo first; exec </dev/null >/dev/null 2>&1; sleep 0.3; \
                      seq 1 3000 >/dev/tty; exit 4";
        let done = peer.run(on_terminal(script));
        let expected: String = (1..=3000).map(|n| format!("{n}\r\n")).collect();
        assert_eq!(done.text(), format!("first\r\n{expected}"));
        assert_eq!(done.code(), Some(4));
        assert!(!done.is("outputHeld"));
    });
}

#[test]
fn a_window_holds_a_terminal_back_too() {
    over_both(|peer| {
        let mut params = on_terminal("seq 1 1000");
        params["window"] = json!(500);
        let process = peer.spawn(params);
        let limit = crate::support::DEADLINE;
        let owned = process.clone();
        peer.wait_until(limit, "500 bytes", |peer| peer.received(&owned) >= 500);
        peer.pump(std::time::Duration::from_millis(300));
        assert_eq!(peer.received(&process), 500);
        peer.capture(&process).acknowledge = true;
        peer.notify("process/ack", &json!({"processId": process, "bytes": 500}));
        let done = peer.exit(&process);
        assert!(done.text().ends_with("\r\n1000\r\n"), "{} bytes", done.stdout.len());
    });
}

#[test]
fn a_killed_program_on_a_terminal_takes_its_group_along() {
    over_both(|peer| {
        let victim = Victim::new();
        let sleep = victim.command();
        let process = peer.spawn(on_terminal(&format!("{sleep} & {sleep}")));
        victim.await_count(2);
        assert!(peer.kill(&process));
        assert_eq!(peer.exit(&process).signal(), Some("SIGKILL"));
        victim.await_gone();
    });
}

#[test]
fn a_start_on_a_terminal_that_fails_is_an_error_like_any_other() {
    over_both(|peer| {
        let params = json!({"processId": "p", "command": "/nope", "pty": {"cols": 80, "rows": 24}});
        let error = peer.error("process/spawn", &params);
        assert_eq!((error.code, error.data_code()), (-32000, "ENOENT"), "{error:?}");
        error.assert_names("/nope");
        peer.ping();
    });
}
