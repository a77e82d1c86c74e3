//! A server that does not get as far as serving.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{
    DEADLINE, TempDir, binary, describe, holds_within, lacks, procfs, server, sys,
};

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
