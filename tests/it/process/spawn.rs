//! A program with arguments that lives on.

use serde_json::json;

use crate::support::{TempDir, Victim, over_both, procfs};

#[test]
fn a_program_is_started_and_its_end_told() {
    over_both(|peer| {
        let params = json!({"command": "sh", "args": ["-c", "echo out; echo err >&2; exit 3"]});
        let done = peer.run(params);
        assert_eq!((done.text().as_str(), done.errors().as_str()), ("out\n", "err\n"));
        assert_eq!((done.code(), done.signal()), (Some(3), None));
        assert!(!done.is("outputHeld"));
    });
}

#[test]
fn the_answer_has_the_pid() {
    over_both(|peer| {
        let params = json!({"command": "sh", "args": ["-c", "echo $$"]});
        let (process, pid) = peer.spawn_with_pid(params);
        assert_eq!(peer.exit(&process).text().trim(), pid.to_string());
    });
}

/// The peer refuses a notification that comes before the answer.
#[test]
fn the_answer_comes_before_the_first_notification_and_all_output_before_the_exit() {
    over_both(|peer| {
        let running: Vec<_> = (0..200)
            .map(|n: u32| {
                let params =
                    json!({"processId": format!("q{n}"), "command": "echo", "args": ["hi"]});
                peer.request("process/spawn", &params)
            })
            .collect();
        for (n, id) in running.iter().enumerate() {
            peer.answer(id).unwrap();
            let done = peer.exit(&format!("q{n}"));
            assert_eq!((done.text().as_str(), done.code()), ("hi\n", Some(0)));
        }
    });
}

#[test]
fn a_child_that_ends_at_once_still_delivers_all_its_output() {
    over_both(|peer| {
        for _ in 0..20 {
            let done = peer.run(json!({"command": "seq", "args": ["1", "20000"]}));
            assert_eq!(done.stdout.len(), 108_894);
            done.assert_success();
        }
    });
}

#[test]
fn arguments_are_passed_as_they_are() {
    over_both(|peer| {
        let args = ["[%s]", "", "a b", "ünï", "x\ny", "$HOME", "*", "'\"\\", "--", "-n"];
        let done = peer.run(json!({"command": "printf", "args": args}));
        assert_eq!(done.text(), "[][a b][ünï][x\ny][$HOME][*]['\"\\][--][-n]");
    });
}

#[test]
fn without_args_there_are_none_and_the_name_is_the_command() {
    over_both(|peer| {
        let done = peer.run(json!({"command": "cat", "args": ["/proc/self/cmdline"]}));
        assert_eq!(done.text(), "cat\0/proc/self/cmdline\0");
        peer.run(json!({"command": "/bin/true", "args": []})).assert_success();
    });
}

#[test]
fn a_name_is_looked_up_in_the_childs_own_path() {
    let (first, second) = (TempDir::new(), TempDir::new());
    first.program("it-prog", "#!/bin/sh\necho first\n");
    second.program("it-prog", "#!/bin/sh\necho second\n");
    over_both(|peer| {
        let path = |dirs: &[&TempDir]| {
            let dirs: Vec<_> = dirs.iter().map(|dir| dir.path().to_str().unwrap()).collect();
            json!({"PATH": dirs.join(":")})
        };
        let run = |env| json!({"command": "it-prog", "env": env});
        assert_eq!(peer.run(run(path(&[&first, &second]))).text(), "first\n");
        assert_eq!(peer.run(run(path(&[&second, &first]))).text(), "second\n");
        let missing = json!({"processId": "p", "command": "it-prog"});
        assert_eq!(peer.error("process/spawn", &missing).data_code(), "ENOENT");
    });
}

#[test]
fn a_path_is_relative_to_the_childs_cwd() {
    let dir = TempDir::new();
    std::fs::create_dir(dir.join("sub")).unwrap();
    dir.program("prog", "#!/bin/sh\necho here\n");
    dir.program("sub/prog", "#!/bin/sh\necho below\n");
    over_both(|peer| {
        for (command, text) in [("./prog", "here\n"), ("sub/prog", "below\n")] {
            let done = peer.run(json!({"command": command, "cwd": dir.path()}));
            assert_eq!(done.text(), text);
        }
    });
}

#[test]
fn a_spawned_program_reads_what_is_written_and_outlives_its_answer() {
    over_both(|peer| {
        let victim = Victim::new();
        let process = victim.spawn(peer);
        peer.ping();
        victim.assert_alive();
        assert!(peer.kill(&process));
        assert_eq!(peer.exit(&process).signal(), Some("SIGKILL"));
        victim.await_gone();
    });
}

#[test]
fn its_end_is_told_once_and_leaves_no_zombie() {
    over_both(|peer| {
        let server = peer.server_pid();
        for _ in 0..20 {
            let (process, pid) = peer.spawn_with_pid(json!({"command": "true"}));
            peer.exit(&process);
            assert_ne!(procfs::state(pid), "Z", "the exit is told after the child was reaped");
        }
        peer.assert_quiet();
        assert_eq!(procfs::zombies_of(server), [0_u32; 0]);
    });
}

#[test]
fn a_grandchild_that_reads_stdin_sees_its_end_when_the_process_is_over() {
    let dir = TempDir::new();
    over_both(|peer| {
        let name = if peer.is_stdio() { "stdio" } else { "websocket" };
        let file = dir.join(name);
        let script = format!(
            "exec 3<&0; (cat <&3; echo end >{}) >/dev/null 2>&1 3<&3 & exit 0",
            file.display()
        );
        let process = peer.spawn(json!({"command": "sh", "args": ["-c", script]}));
        peer.exit(&process).assert_success();
        let limit = crate::support::DEADLINE;
        crate::support::eventually(limit, "cat saw the end of stdin", || file.exists());
    });
}
