//! What a process gets from the server, and what it must not get.

use serde_json::{Value, json};

use crate::support::{Peer, Server, Setup, Victim, lacks, over_both, over_both_with, procfs};

/// `ls` itself opens the directory: descriptor 3 is its own.
const NOTHING_ELSE: &str = "0\n1\n2\n3\n";

fn list_descriptors(extra: &Value) -> Value {
    let mut params = json!({"command": "ls", "args": ["/proc/self/fd"]});
    for (name, value) in extra.as_object().unwrap() {
        params[name] = value.clone();
    }
    params
}

/// What `ls` printed, in columns or not.
fn words(text: &str) -> Vec<&str> {
    let mut words: Vec<_> = text.split_whitespace().collect();
    words.sort_unstable();
    words
}

#[test]
fn nothing_but_stdin_stdout_and_stderr_is_open() {
    over_both(|peer| {
        // Something must be open that could leak: pipes, terminals, another process's stdin.
        let victim = Victim::new();
        victim.spawn(peer);
        peer.spawn(json!({"command": "cat", "pty": {"cols": 80, "rows": 24}}));
        assert_eq!(peer.run(list_descriptors(&json!({}))).text(), NOTHING_ELSE);
        assert_eq!(peer.run(list_descriptors(&json!({"mergeStderr": true}))).text(), NOTHING_ELSE);
        let pty = list_descriptors(&json!({"pty": {"cols": 80, "rows": 24}}));
        // On a terminal `ls` writes columns.
        assert_eq!(words(&peer.run(pty).text()), ["0", "1", "2", "3"]);
        assert_eq!(peer.sh("exec ls /proc/self/fd").text(), NOTHING_ELSE);
        let fed = json!({"command": "exec ls /proc/self/fd", "stdin": "eA=="});
        assert_eq!(peer.exec(fed).text(), NOTHING_ELSE);
    });
}

/// Descriptors 0 to 2 are then the first to be given to a socket or a pipe.
#[test]
fn a_server_started_with_closed_descriptors_mixes_nothing_up() {
    let closed = "exec \"$0\" \"$@\" <&- >&-";
    let server = Setup::new().under(&["sh", "-c", closed]).listen();
    let mut peer = server.connect();
    assert_eq!(peer.run(list_descriptors(&json!({}))).text(), NOTHING_ELSE);
    let done = peer.sh("readlink /proc/self/fd/0; cat; echo out; echo err >&2");
    assert_eq!((done.text().as_str(), done.errors().as_str()), ("/dev/null\nout\n", "err\n"));
}

/// Descriptors made without CLOEXEC leak into children started at the same moment.
#[test]
fn nothing_leaks_between_many_that_start_at_once() {
    let server = Server::start();
    let mut peers = [server.connect(), server.connect(), server.connect()];
    let ids: Vec<Vec<String>> = peers
        .iter_mut()
        .map(|peer| {
            (0..40)
                .map(|n| {
                    let pty = if n % 4 == 0 { json!({"cols": 9, "rows": 9}) } else { json!(null) };
                    let mut params = list_descriptors(&json!({"pty": pty}));
                    params["processId"] = json!(format!("p{n}"));
                    peer.request("process/spawn", &params)
                })
                .collect()
        })
        .collect();
    for (peer, ids) in peers.iter_mut().zip(&ids) {
        for (n, id) in ids.iter().enumerate() {
            peer.answer(id).unwrap();
            let text = peer.exit(&format!("p{n}")).text();
            assert_eq!(words(&text), ["0", "1", "2", "3"]);
        }
    }
}

fn assert_signals_are_at_their_defaults(peer: &mut Peer) {
    let params = json!({"command": "grep", "args": ["Sig", "/proc/self/status"]});
    for text in [peer.run(params.clone()).text(), peer.sh("grep Sig /proc/self/status").text(), {
        let mut pty = params;
        pty["pty"] = json!({"cols": 80, "rows": 24});
        peer.run(pty).text()
    }] {
        for name in ["SigBlk", "SigIgn", "SigPnd"] {
            let line = text.lines().find(|line| line.starts_with(name)).expect(name);
            assert!(line.trim_end().ends_with(":\t0000000000000000"), "{line}");
        }
    }
}

#[test]
fn signals_are_at_their_defaults_and_unblocked() {
    over_both(assert_signals_are_at_their_defaults);
}

/// Under `nohup`, or a supervisor that ignores SIGPIPE, a child inherited that.
#[test]
fn signals_that_the_server_was_started_with_ignored_are_at_their_defaults_in_a_child() {
    let ignoring = "trap '' HUP QUIT PIPE USR1 ALRM CHLD; exec \"$0\" \"$@\"";
    let setup = || Setup::new().under(&["sh", "-c", ignoring]);
    over_both_with(setup, |peer| {
        assert_signals_are_at_their_defaults(peer);
        assert_eq!(peer.sh("exit 6").code(), Some(6), "SIGCHLD ignored loses exit codes");
    });
}

#[test]
fn signals_that_the_server_was_started_with_blocked_are_unblocked_in_a_child() {
    if lacks("signals_that_the_server_was_started_with_blocked", "python3") {
        return;
    }
    let blocking = "import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))
os.execv(sys.argv[1], sys.argv[1:])";
    let setup = || Setup::new().under(&["python3", "-c", blocking]);
    over_both_with(setup, assert_signals_are_at_their_defaults);
}

#[test]
fn each_process_leads_a_session_and_a_group_of_its_own() {
    over_both(|peer| {
        for pty in [json!(null), json!({"cols": 80, "rows": 24})] {
            let params = json!({"command": "cat", "args": ["/proc/self/stat"], "pty": pty});
            let (process, pid) = peer.spawn_with_pid(params);
            let text = peer.exit(&process).text();
            let fields: Vec<_> = text.split_whitespace().collect();
            let [own, group, session] = [fields[0], fields[4], fields[5]];
            assert_eq!([own, group, session], [pid.to_string().as_str(); 3], "{text}");
        }
        let text = peer.sh("exec cat /proc/self/stat").text();
        let fields: Vec<_> = text.split_whitespace().collect();
        assert_eq!(fields[0], fields[4]);
        assert_eq!(fields[0], fields[5]);
    });
}

#[test]
fn no_terminal_of_the_servers_can_be_reached() {
    over_both(|peer| {
        let done = peer.sh("echo leak >/dev/tty");
        assert_ne!(done.code(), Some(0), "/dev/tty could be opened");
    });
}

/// A server on a terminal: the way a person starts it by hand.
#[test]
fn a_server_on_a_terminal_does_not_pass_it_on() {
    let outer = Server::start();
    let mut outside = outer.connect();
    let binary = crate::support::binary();
    let terminal = outside.spawn(json!({
        "command": binary, "args": ["exec-server", "--stdio"], "pty": {"cols": 200, "rows": 50},
    }));
    // The terminal echoes what it is sent; the answer is what begins with the result.
    let exec = json!({"jsonrpc": "2.0", "id": 1, "method": "process/exec", "params":
        {"processId": "inner", "command": "if (: >/dev/tty) 2>/dev/null; then exit 40; fi; exit 41"}});
    let line = crate::support::base64(format!("{exec}\n"));
    outside.ok("process/write", &json!({"processId": terminal, "chunk": line}));
    outside.await_stdout(&terminal, "\"exitCode\":4");
    let text = String::from_utf8_lossy(&outside.capture(&terminal).stdout).into_owned();
    assert!(text.contains("\"exitCode\":41"), "{text}");
}

#[test]
fn the_kernel_takes_a_child_before_the_server() {
    over_both(|peer| {
        let server = peer.server_pid();
        let path = format!("/proc/{server}/oom_score_adj");
        let own: i32 = procfs::read_lossy(path).trim().parse().unwrap();
        for text in [
            peer.sh("exec cat /proc/self/oom_score_adj").text(),
            peer.run(json!({"command": "cat", "args": ["/proc/self/oom_score_adj"]})).text(),
        ] {
            let child: i32 = text.trim().parse().unwrap();
            assert!(child > own, "the child has {child}, the server {own}");
        }
    });
}

#[test]
fn the_limits_and_the_umask_are_those_the_server_was_started_with() {
    let limited = "ulimit -Sn 777; umask 027; exec \"$0\" \"$@\"";
    let setup = || Setup::new().under(&["sh", "-c", limited]);
    over_both_with(setup, |peer| {
        assert_eq!(peer.sh("ulimit -Sn; umask").text(), "777\n0027\n");
    });
}
