//! `ta run`, taken over.

use std::process::{Command, Stdio};

use crate::support::{Server, TOKEN, Victim, binary};

fn ta(server: &Server, epoch: u64, command: &str) -> Command {
    let url = format!("ws://{}/exec?epoch={epoch}", server.address);
    let mut ta = Command::new(binary());
    ta.args(["run", "--exec", &url, "-c", command]).env("TA_EXEC_TOKEN", TOKEN);
    ta.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    ta
}

#[track_caller]
fn assert_says_so(output: &std::process::Output) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("another host") && stderr.contains("has taken over"), "{stderr}");
}

#[test]
fn it_says_that_another_host_has_taken_over() {
    let server = Server::start();
    let victim = Victim::new();
    let running = ta(&server, 1, &victim.command()).spawn().unwrap();
    victim.await_alive();
    server.connect_of(2).ping();
    assert_says_so(&running.wait_with_output().unwrap());
    assert_says_so(&ta(&server, 1, "true").output().unwrap());
    assert_eq!(ta(&server, 2, "true").status().unwrap().code(), Some(0));
}
