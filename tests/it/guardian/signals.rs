//! Signals: to the guardian, to the server, to both; once and twice.

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::{escaped, one_of_each};
use crate::support::{
    DEADLINE, Peer, Server, Setup, Victim, best_of_three, binary, describe, eventually, lacks,
    procfs, server, skipped, sys,
};

/// What the server says when it takes a signal for a second one.
const AT_ONCE: &str = "stopping at once";

/// An orderly stop of what is [`stuck`] takes longer.
const AT_ONCE_WITHIN: Duration = Duration::from_secs(1);

/// Makes an orderly stop take its time, more than a second: there is a peer that does not read.
fn stuck(server: &Server) -> Peer {
    let mut peer = server.connect();
    let (_, yes) = peer.spawn_with_pid(json!({"command": "yes"}));
    procfs::await_stalled(&[yes]);
    peer
}

/// Signals a whole group, all of it from one sender, as a terminal and a supervisor do.
fn signal_group(group: u32, signal: &str) {
    let line = format!("kill -s {signal} -- -{group}");
    assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
}

#[track_caller]
fn assert_ends_in_order(server: &mut Server, stuck: Peer, signal: impl FnOnce(&Server)) {
    let mut peer = server.connect();
    let mut victims = one_of_each(&mut peer);
    victims.extend(escaped(&mut peer));
    let since = Instant::now();
    signal(server);
    assert_eq!(peer.closed(DEADLINE).code, Some(1001));
    let status = server.wait(DEADLINE);
    let took = since.elapsed();
    assert_eq!(status.code(), Some(0), "{}", describe(status));
    let log = server.log.to_end(DEADLINE);
    assert!(log.contains("stopping") && !log.contains(AT_ONCE), "taken for two: {log}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(victims.iter().all(|victim| victim.count() == 0), "some live on");
    drop(stuck);
}

#[test]
fn one_signal_to_the_guardian_or_the_server_ends_it_in_order() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        let mut server = Server::start();
        let peer = stuck(&server);
        assert_ends_in_order(&mut server, peer, |server| server.signal(signal));
        let mut server = Server::start();
        let peer = stuck(&server);
        assert_ends_in_order(&mut server, peer, |server| {
            sys::signal(server.pid(), signal).unwrap();
        });
    }
}

#[test]
fn one_signal_to_the_whole_group_is_one() {
    if lacks("one_signal_to_the_whole_group_is_one", "setsid") {
        return;
    }
    for signal in ["TERM", "INT"] {
        let mut server = Setup::new().under(&["setsid"]).listen();
        let peer = stuck(&server);
        assert_ends_in_order(&mut server, peer, |server| signal_group(server.guardian(), signal));
    }
}

#[test]
fn a_second_signal_ends_it_at_once_whoever_gets_it() {
    let whoever: [fn(&Server) -> u32; 2] = [Server::guardian, Server::pid];
    for pid in whoever {
        best_of_three(AT_ONCE_WITHIN, "it has ended", || {
            let mut server = Server::start();
            let peer = stuck(&server);
            let mut other = server.connect();
            let mut victims = one_of_each(&mut other);
            victims.extend(escaped(&mut other));
            // Before it is asked to stop: on a busy machine it may be over by the second time.
            let pid = pid(&server);
            let since = Instant::now();
            sys::signal(pid, libc::SIGTERM).unwrap();
            let refuses = || std::net::TcpStream::connect(server.address).is_err();
            eventually(DEADLINE, "the server accepts no more", refuses);
            let was_there = sys::signal(pid, libc::SIGTERM).is_ok();
            let status = server.wait(DEADLINE);
            let took = since.elapsed();
            if !was_there {
                return DEADLINE;
            }
            if took > AT_ONCE_WITHIN {
                return took;
            }
            assert_eq!(status.code(), Some(0), "{}", describe(status));
            let log = server.log.to_end(DEADLINE);
            assert!(log.contains(AT_ONCE), "taken for one: {log}");
            assert!(victims.iter().all(|victim| victim.count() == 0), "some live on");
            drop(peer);
            took
        });
    }
}

#[test]
fn control_c_at_a_terminal_is_one_signal() {
    const NAME: &str = "control_c_at_a_terminal_is_one_signal";
    if lacks(NAME, "script") {
        return;
    }
    let line = format!("exec {} exec-server --port 0", binary().display());
    let mut terminal = Command::new("script")
        .args(["-qefc", &line, "/dev/null"])
        .env_remove("TA_EXEC_TOKEN")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut screen = std::io::BufReader::new(terminal.stdout.take().unwrap());
    let mut first = String::new();
    std::io::BufRead::read_line(&mut screen, &mut first).unwrap();
    let address = first.split_once("ws://").unwrap().1.split_once("/exec").unwrap().0;
    let connect = || {
        let address = address.parse().unwrap();
        let (stream, rest) = crate::support::http::upgrade(address, "/exec", &[]).unwrap();
        crate::support::frames::Frames::new((stream, rest))
    };
    let (mut reads, mut stuck) = (connect(), connect());
    let victim = Victim::new();
    let run = |command: &str| {
        let params = json!({"processId": "p", "command": command});
        json!({"id": 1, "method": "process/exec", "params": params}).to_string()
    };
    reads.text(&run(&victim.command()));
    let noise = Victim::new();
    stuck.text(&run(&format!("{} & yes", noise.command())));
    victim.await_alive();
    noise.await_alive();
    let since = Instant::now();
    terminal.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    assert_eq!(reads.close_code(), Some(1001));
    let status = server::wait(&mut terminal, DEADLINE).expect("it ends");
    assert_eq!(status.code(), Some(0), "{}", describe(status));
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    assert_eq!(victim.count() + noise.count(), 0);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut screen, &mut rest).unwrap();
    assert!(rest.contains("stopping") && !rest.contains(AT_ONCE), "taken for two: {rest}");
}

#[test]
fn a_signal_that_ends_the_server_is_what_the_guardian_dies_of() {
    for signal in [libc::SIGUSR1, libc::SIGQUIT, libc::SIGALRM] {
        let mut server = Server::start();
        let mut peer = server.connect();
        let victims = escaped(&mut peer);
        server.signal(signal);
        let status = server.wait(DEADLINE);
        assert_eq!(status.signal(), Some(signal), "{}", describe(status));
        assert!(victims.iter().all(|victim| victim.count() == 0), "some live on");
    }
}

#[test]
fn what_was_ignored_at_the_start_stays_ignored() {
    let server = Setup::new().ignoring(libc::SIGHUP).listen();
    let mut peer = server.connect();
    server.signal(libc::SIGHUP);
    sys::signal(server.pid(), libc::SIGHUP).unwrap();
    // A signal that is not ignored, and comes to nothing, has overtaken neither.
    server.signal(libc::SIGWINCH);
    for _ in 0..20 {
        peer.sh("true").assert_success();
    }
    assert!(!server.log.text().contains("stopping"), "{}", server.log.text());
}

/// A shell that suspends its job waits for the process that it has started.
#[test]
fn a_suspended_server_goes_on_where_it_was() {
    let server = Setup::new().own_job().listen();
    let mut peer = server.connect();
    for signal in [libc::SIGTSTP, libc::SIGSTOP] {
        let both = [server.guardian(), peer.server_pid()];
        for pid in both {
            sys::signal(pid, signal).unwrap();
        }
        for pid in both {
            eventually(DEADLINE, "it is stopped", || procfs::state(pid) == "T");
        }
        for pid in both {
            sys::signal(pid, libc::SIGCONT).unwrap();
        }
        peer.ping();
    }
}

/// A command can do that to the server, by mistake or not.
#[test]
fn a_suspended_server_is_ended_all_the_same() {
    let mut server = Server::start();
    let mut peer = server.connect();
    let victims = one_of_each(&mut peer);
    let serving = server.pid();
    peer.start_exec(json!({"command": "kill -STOP $PPID"}));
    eventually(DEADLINE, "it is stopped", || procfs::state(serving) == "T");
    let since = Instant::now();
    server.signal(libc::SIGTERM);
    let status = server.wait(DEADLINE);
    assert_eq!(status.code(), Some(0), "{}", describe(status));
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    assert!(victims.iter().all(|victim| victim.count() == 0), "some live on");
}

/// What hangs in the kernel cannot be killed; the old freezer makes such a thing on demand.
#[test]
fn what_hangs_in_the_kernel_does_not_hold_up_the_end() {
    const NAME: &str = "what_hangs_in_the_kernel_does_not_hold_up_the_end";
    let dir = std::path::PathBuf::from(format!(
        "/sys/fs/cgroup/freezer/ta-it-{}",
        crate::support::unique()
    ));
    if !sys::is_root() || std::fs::create_dir(&dir).is_err() {
        skipped(NAME, "there is no freezer of cgroup v1");
        return;
    }
    let mut server = Server::start();
    let mut peer = server.connect();
    let victim = Victim::new();
    let escaped = format!("(setsid {} >/dev/null 2>&1 &)", victim.command());
    peer.start_exec(json!({"command": format!("{escaped}; exec {}", victim.command())}));
    victim.await_count(2);
    let put = |file: &str, text: &str| std::fs::write(dir.join(file), text).unwrap();
    victim.pids().iter().for_each(|pid| put("cgroup.procs", &pid.to_string()));
    put("freezer.state", "FROZEN");
    let is_frozen = || procfs::read_lossy(dir.join("freezer.state")).trim() == "FROZEN";
    eventually(DEADLINE, "they are frozen", is_frozen);
    let since = Instant::now();
    server.signal(libc::SIGTERM);
    let status = server.wait(DEADLINE);
    let took = since.elapsed();
    put("freezer.state", "THAWED");
    victim.await_gone();
    eventually(DEADLINE, "the group is empty", || std::fs::remove_dir(&dir).is_ok());
    assert_eq!(status.code(), Some(0), "{}", describe(status));
    assert!(took < Duration::from_secs(5), "{took:?}");
}
