//! The end of a connection, and what has escaped.

use serde_json::json;

use super::{Escaped, assert_no_zombies, await_all_gone, ways, with_and_without_groups};
use crate::support::{
    DEADLINE, Peer, Server, Setup, TempDir, Victim, base64, describe, over_both, sys,
};

/// How a connection ends whose server goes on.
fn ended_by(end: impl Fn(&mut Peer)) {
    with_and_without_groups(|setup| end_of_one(&setup.listen(), &end));
}

fn end_of_one(server: &Server, end: impl Fn(&mut Peer)) {
    let mut watcher = server.connect();
    let mut peer = server.connect();
    let theirs = Escaped::one(&mut watcher, &ways::DAEMON);
    let all = Escaped::all(&mut peer, &ways::all(), &json!({}));
    end(&mut peer);
    await_all_gone(&all);
    theirs.assert_alive();
    assert_no_zombies(watcher.server_pid());
}

#[test]
fn fin_takes_what_has_escaped_in_whatever_way() {
    ended_by(Peer::hang_up);
}

#[test]
fn rst_takes_what_has_escaped_in_whatever_way() {
    ended_by(|peer| {
        sys::reset_on_close(peer.wire().socket().get_ref());
        peer.hang_up();
    });
}

#[test]
fn a_close_frame_takes_what_has_escaped_in_whatever_way() {
    ended_by(|peer| peer.wire().socket().close(None).unwrap());
}

#[test]
fn the_end_of_stdin_takes_what_has_escaped_in_whatever_way() {
    with_and_without_groups(|setup| {
        let mut peer = setup.stdio();
        let all = Escaped::all(&mut peer, &ways::all(), &json!({}));
        peer.hang_up();
        let status = peer.pipes().wait(DEADLINE).expect("it ends");
        assert_eq!(status.code(), Some(0), "{}", describe(status));
        await_all_gone(&all);
    });
}

#[test]
fn a_silent_peer_takes_what_has_escaped_along() {
    let server = Setup::new().args(["--peer-timeout", "3"]).listen();
    let mut peer = server.connect();
    let all = Escaped::all(&mut peer, &[ways::DAEMON, ways::ORPHANS], &json!({}));
    await_all_gone(&all);
}

#[test]
fn sigterm_takes_what_has_escaped_in_whatever_way() {
    let mut server = Server::start();
    let mut peers = [server.connect(), server.connect()];
    let [one, other] = &mut peers;
    let mut all = Escaped::all(one, &ways::all(), &json!({}));
    all.extend(Escaped::all(other, &ways::all(), &json!({})));
    server.signal(libc::SIGTERM);
    let status = server.wait(DEADLINE);
    assert_eq!(status.code(), Some(0), "{}", describe(status));
    await_all_gone(&all);
}

#[test]
fn sigterm_of_a_stdio_server_takes_what_has_escaped_in_whatever_way() {
    let mut peer = Setup::new().stdio();
    let all = Escaped::all(&mut peer, &ways::all(), &json!({}));
    sys::signal(peer.pipes().guardian(), libc::SIGTERM).unwrap();
    let status = peer.pipes().wait(DEADLINE).expect("it ends");
    assert_eq!(status.code(), Some(0), "{}", describe(status));
    await_all_gone(&all);
}

/// It is over, and nothing of it is known to the host any more.
#[test]
fn what_processes_that_are_over_have_let_escape_ends_too() {
    over_both(|peer| {
        let victim = Victim::new();
        let command = "(setsid sleep $N >/dev/null 2>&1 &); set -m; (sleep $N >/dev/null 2>&1 &)";
        let params = json!({"command": command, "env": {"N": victim.argument()}});
        for _ in 0..3 {
            peer.exec(params.clone()).assert_success();
        }
        victim.await_count(6);
        peer.hang_up();
        super::assert_gone(&victim, "what was left behind");
    });
}

#[test]
fn the_jobs_of_an_interactive_shell_end_too() {
    // nohup leaves its nohup.out where it is started.
    let dir = TempDir::new();
    over_both(|peer| {
        let victim = Victim::new();
        let sleep = victim.command();
        let shell = peer.spawn(json!({
            "command": "bash", "args": ["--norc", "-i"], "pty": {"cols": 80, "rows": 24},
            "cwd": dir.path()
        }));
        let lines = format!("{sleep} &\n(setsid {sleep} &)\nnohup {sleep} &\ndisown\n{sleep}\n");
        peer.ok("process/write", &json!({"processId": shell, "chunk": base64(lines)}));
        victim.await_count(4);
        peer.hang_up();
        super::assert_gone(&victim, "an interactive shell");
    });
}
