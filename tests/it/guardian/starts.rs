//! What was there before the server, and a server that does not get as far as serving.

use std::process::{Command, Stdio};
use std::time::Duration;

use super::{escaped, one_of_each};
use crate::support::{
    DEADLINE, Setup, TempDir, Victim, binary, describe, eventually, holds_within, lacks, procfs,
    server, sys,
};

/// `logger & exec ta exec-server` in a script, or `exec ta exec-server 2> >(logger)`: the process
/// has children when it becomes the server's guardian, and is handed what these leave.
#[test]
fn children_that_were_there_before_the_server_live_on() {
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        let strangers = [Victim::new(), Victim::new()];
        let [child, orphan] = strangers.each_ref().map(Victim::command);
        let script = format!(
            "{{ {child} & sleep .3; {{ {orphan} & }} & wait %1; }} >/dev/null 2>&1 & \
             {child} >/dev/null 2>&1 & exec \"$0\" \"$@\""
        );
        let mut server = Setup::new().under(&["sh", "-c", &script]).listen();
        let mut peer = server.connect();
        let mut victims = one_of_each(&mut peer);
        victims.extend(escaped(&mut peer));
        strangers[0].await_count(2);
        let guardian = server.guardian();
        let is_handed_over = || procfs::parent(strangers[1].await_alive()) == Some(guardian);
        eventually(DEADLINE, "the orphan is the guardian's", is_handed_over);
        sys::signal(server.pid(), signal).unwrap();
        server.wait(DEADLINE);
        let left = strangers.each_ref().map(Victim::count);
        for pid in strangers.iter().flat_map(Victim::pids) {
            let _ = sys::signal(pid, libc::SIGKILL);
        }
        assert_eq!(left, [2, 1], "strangers were ended, after signal {signal}");
        assert!(victims.iter().all(|victim| victim.count() == 0), "some live on");
    }
}

/// A file that nobody writes to, as a name server that does not answer would, keeps the server from
/// ever getting further.
#[test]
fn a_server_that_hangs_while_it_starts_is_ended_by_a_signal_and_with_its_guardian() {
    const NAME: &str =
        "a_server_that_hangs_while_it_starts_is_ended_by_a_signal_and_with_its_guardian";
    if lacks(NAME, "mkfifo") {
        return;
    }
    let dir = TempDir::new();
    let fifo = dir.join("token");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGKILL] {
        for mode in ["--stdio", "--port=0"] {
            let mut command = Command::new(binary());
            command.args(["exec-server", mode, "--token-file"]).arg(&fifo);
            command.env_remove("TA_EXEC_TOKEN").stdin(Stdio::piped()).stderr(Stdio::null());
            let mut started = command.spawn().unwrap();
            let serving = procfs::serving(started.id());
            // (It shows in no way that is the same on all kernels. Whenever the signal comes, it is
            // to end it.)
            std::thread::sleep(Duration::from_millis(200));
            sys::signal(started.id(), signal).unwrap();
            let status = server::wait(&mut started, DEADLINE);
            let is_gone = holds_within(Duration::from_secs(2), || procfs::state(serving) == "gone");
            let _ = sys::signal(serving, libc::SIGKILL);
            let status = status.expect("it ends");
            assert!(is_gone, "the server lives on: {mode}, {signal}, {}", describe(status));
            if signal != libc::SIGKILL {
                assert_eq!(status.code(), Some(0), "{mode}: {}", describe(status));
            }
        }
    }
}
