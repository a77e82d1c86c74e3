//! Jobs in the background, which hold the pipes of a command that has ended.

use std::time::{Duration, Instant};

use crate::codex::peer::Peer;
use crate::support::{Server, Victim, best_of_three};

#[test]
fn a_command_is_closed_soon_after_its_exit_though_a_job_holds_its_pipes() {
    let server = Server::start();
    let mut peer = Peer::connect(&server);
    let mut number = 0;
    best_of_three(Duration::from_millis(1000), "from the start to closed", || {
        number += 1;
        let (name, victim) = (format!("p{number}"), Victim::new());
        let start = Instant::now();
        let seen = peer.sh(&name, &format!("{} & echo it has begun", victim.command()));
        let took = start.elapsed();
        assert_eq!((seen.out().as_str(), seen.code()), ("it has begun\n", 0));
        victim.assert_alive();
        took
    });
}

/// What comes within the time that closes it is still told.
#[test]
fn output_after_the_exit_comes_before_closed() {
    let server = Server::start();
    let mut peer = Peer::connect(&server);
    let seen = peer.sh("p", "(for n in 1 2 3 4 5 6; do sleep 0.02; echo $n; done) & echo first");
    assert_eq!(seen.out(), "first\n1\n2\n3\n4\n5\n6\n");
}

/// The job writes to nobody and is neither blocked nor ended by that.
#[test]
fn a_job_that_goes_on_writing_is_not_held_up() {
    let server = Server::start();
    let mut peer = Peer::connect(&server);
    let dir = crate::support::TempDir::new();
    let mark = dir.join("mark");
    let line = format!(
        "(sleep 0.5; head -c 1000000 /dev/zero; echo done >{}) & echo first",
        mark.display()
    );
    let seen = peer.sh("p", &line);
    assert!(seen.closed);
    crate::support::eventually(crate::support::DEADLINE, "the job has written all", || {
        mark.exists()
    });
    assert_eq!(peer.sh("q", "echo and what comes after").out(), "and what comes after\n");
}

/// What the command `p` has left in the background: in its group, and in a session of its own.
fn jobs(peer: &mut Peer) -> [Victim; 2] {
    let [group, session] = [Victim::new(), Victim::new()];
    let line = format!("{} & setsid {} & echo x", group.command(), session.command());
    peer.sh("p", &line);
    group.await_alive();
    session.await_alive();
    [group, session]
}

/// Codex says `terminate` of every command that is over, and does not mean the job.
#[test]
fn the_first_terminate_after_the_end_leaves_a_job_alone_and_the_second_ends_it() {
    let server = Server::start();
    let mut peer = Peer::connect(&server);
    let [group, session] = jobs(&mut peer);
    assert!(!peer.terminate("p"));
    assert_eq!(peer.sh("q", "sleep 0.3; echo later").out(), "later\n");
    group.assert_alive();
    session.assert_alive();
    assert!(!peer.terminate("p"));
    group.await_gone();
    session.await_gone();
}

#[test]
fn a_job_ends_with_its_session() {
    let server = crate::support::Setup::new().args(["--codex-resume", "0"]).listen();
    let mut peer = Peer::connect(&server);
    let [group, session] = jobs(&mut peer);
    peer.wire().hang_up();
    group.await_gone();
    session.await_gone();
}
