//! Who is not meant is not touched, and a natural end ends nobody.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use serde_json::json;

use super::{Escaped, ways};
use crate::support::{DEADLINE, Server, Victim, over_both};

/// A process group that is none of any server's.
pub(super) struct Bystanders {
    group: Child,
    pub(super) victim: Victim,
}

impl Bystanders {
    pub(super) fn start() -> Self {
        let victim = Victim::new();
        let script = format!("{0} & {0} & exec {0}", victim.command());
        let mut command = Command::new("sh");
        command.args(["-c", &script]).process_group(0);
        let group = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        victim.await_count(3);
        Self { group, victim }
    }

    #[track_caller]
    pub(super) fn assert_unharmed(&self) {
        assert_eq!(self.victim.count(), 3, "of the bystanders");
    }
}

impl Drop for Bystanders {
    fn drop(&mut self) {
        for pid in self.victim.pids() {
            let _ = crate::support::sys::signal(pid, libc::SIGKILL);
        }
        let _ = self.group.wait();
    }
}

#[test]
fn a_kill_touches_nobody_else() {
    let bystanders = Bystanders::start();
    let server = Server::start();
    let (mut one, mut other) = (server.connect(), server.connect());
    let sibling = Escaped::one(&mut one, &ways::DAEMON);
    let theirs = Escaped::one(&mut other, &ways::DAEMON);
    for way in [ways::SETSID, ways::ORPHANS, ways::DAEMON] {
        let killed = Escaped::one(&mut one, &way);
        assert!(one.kill(&killed.running.process));
        killed.await_gone();
        let timed = Escaped::timed(&mut one, &[way], &json!({})).remove(0);
        assert!(one.finish_within(&timed.running, 4 * DEADLINE).is("timedOut"));
        timed.await_gone();
    }
    one.ping();
    sibling.assert_alive();
    theirs.assert_alive();
    drop(one);
    sibling.await_gone();
    theirs.assert_alive();
    bystanders.assert_unharmed();
}

#[test]
fn the_end_of_one_server_touches_nothing_of_another() {
    let bystanders = Bystanders::start();
    let (one, other) = (Server::start(), Server::start());
    let (mut peer, mut their_peer) = (one.connect(), other.connect());
    let mine = Escaped::one(&mut peer, &ways::DAEMON);
    let theirs = Escaped::one(&mut their_peer, &ways::DAEMON);
    drop(one);
    mine.await_gone();
    theirs.assert_alive();
    bystanders.assert_unharmed();
}

#[test]
fn a_natural_end_leaves_what_has_escaped_until_the_connection_ends() {
    over_both(|peer| {
        let (held, silent) = (Victim::new(), Victim::new());
        let command = "(setsid sleep $HELD &); (setsid sleep $SILENT >/dev/null 2>&1 &); echo hi";
        let env = json!({"HELD": held.argument(), "SILENT": silent.argument()});
        let running = peer.start_exec(json!({"command": command, "env": env}));
        let done = peer.finish(&running);
        assert_eq!((done.text().as_str(), done.code()), ("hi\n", Some(0)));
        assert!(done.is("outputHeld"));
        held.await_alive();
        silent.await_alive();
        assert!(!peer.kill(&running.process), "the process is over");
        let killed = Escaped::one(peer, &ways::SETSID);
        peer.kill(&killed.running.process);
        killed.await_gone();
        held.assert_alive();
        silent.assert_alive();
        peer.hang_up();
        super::assert_gone(&held, "what held the output");
        super::assert_gone(&silent, "what did not");
    });
}
