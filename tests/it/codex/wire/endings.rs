//! Nothing is left, however it ends.

use std::time::{Duration, Instant};

use crate::codex::peer::Peer;
use crate::support::{DEADLINE, Server, Setup, Victim, describe, sys};

/// One in the group of its command, one in a session of its own, one whose command has ended.
struct Left([Victim; 3]);

impl Left {
    fn begin(peer: &mut Peer) -> Self {
        let victims = [Victim::new(), Victim::new(), Victim::new()];
        let [own, session, job] = victims.each_ref().map(Victim::command);
        let line = format!("trap '' TERM HUP INT; setsid {session} & exec {own}");
        peer.start("running", &["/bin/sh", "-c", &line]);
        peer.sh("ended", &format!("{job} & echo x"));
        victims.iter().for_each(|victim| _ = victim.await_alive());
        Self(victims)
    }

    fn await_gone(&self) {
        self.0.iter().for_each(Victim::await_gone);
    }
}

#[test]
fn on_sigterm_everything_of_every_session_is_gone() {
    let mut server = Server::start();
    let (mut one, mut other) = (Peer::connect(&server), Peer::connect(&server));
    let (attached, detached) = (Left::begin(&mut one), Left::begin(&mut other));
    drop(other);
    let since = Instant::now();
    server.signal(libc::SIGTERM);
    let status = server.wait(DEADLINE);
    assert_eq!(status.code(), Some(0), "{}", describe(status));
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    attached.await_gone();
    detached.await_gone();
    one.await_end();
}

#[test]
fn on_sigkill_of_the_server_everything_is_gone() {
    let server = Server::start();
    let mut peer = Peer::connect(&server);
    let left = Left::begin(&mut peer);
    sys::signal(server.pid(), libc::SIGKILL).unwrap();
    left.await_gone();
}

#[test]
fn on_sigkill_of_the_guardian_everything_is_gone() {
    let server = Server::start();
    let mut peer = Peer::connect(&server);
    let left = Left::begin(&mut peer);
    sys::signal(server.guardian(), libc::SIGKILL).unwrap();
    left.await_gone();
}

#[test]
fn at_the_end_of_stdin_everything_is_gone_and_the_server_too() {
    let mut peer = Peer::stdio(Setup::new());
    let left = Left::begin(&mut peer);
    peer.wire().hang_up();
    let status = peer.wire().pipes().wait(DEADLINE).expect("the server ends");
    assert_eq!(status.code(), Some(0), "{}", describe(status));
    left.await_gone();
}

#[test]
fn at_the_end_of_a_connection_everything_is_gone_where_nothing_can_be_resumed() {
    let server = Setup::new().args(["--codex-resume", "0"]).listen();
    let mut peer = Peer::connect(&server);
    let left = Left::begin(&mut peer);
    drop(peer);
    left.await_gone();
    let mut peer = Peer::connect(&server);
    assert_eq!(peer.sh("p", "echo and the server goes on").code(), 0);
}
