//! `--timeout`: the command's time, not that of whoever reads.

use std::time::{Duration, Instant};

use super::{Running, both_ways, run, ta};
use crate::support::{Server, Victim, best_of_three, lacks};

#[test]
fn a_timeout_is_124_and_leaves_nothing() {
    let server = Server::start();
    for tail in [&["-c"][..], &["--", "sh", "-c"], &["-i", "-c"]] {
        let victim = Victim::new();
        let line = format!("printf before; {} & wait", victim.command());
        let running = Running::start(ta(&server, [&["--timeout", "2s"], tail, &[&line]].concat()));
        running.await_stdout("before");
        victim.await_alive();
        running.finish().assert(124, "before", "");
        victim.await_gone();
    }
}

#[test]
fn it_comes_when_the_time_is_up_and_not_before() {
    let server = Server::start();
    for tail in [&["-c", "sleep 30.5"][..], &["sleep", "30.5"]] {
        best_of_three(Duration::from_millis(1200), "a timeout of 500 ms", || {
            let start = Instant::now();
            let done = run(&server, &[&["--timeout", "500ms"], tail].concat());
            done.assert(124, "", "");
            assert!(start.elapsed() >= Duration::from_millis(500));
            start.elapsed()
        });
    }
}

#[test]
fn a_command_may_clean_up_after_its_time() {
    let server = Server::start();
    let line = "trap 'printf cleaned; exit 0' TERM; while :; do sleep 0.02; done";
    both_ways(&server, &["--timeout", "300ms"], line, |done| {
        // A shell may say that its sleep was terminated.
        assert_eq!((done.code, done.text().as_str()), (124, "cleaned"));
    });
}

#[test]
fn one_that_will_not_go_is_killed_a_second_later() {
    let server = Server::start();
    let line = "trap '' TERM; printf here; while :; do sleep 0.02; done";
    both_ways(&server, &["--timeout", "300ms"], line, |done| done.assert(124, "here", ""));
}

#[test]
fn a_command_that_ends_in_time_has_its_own_code() {
    let server = Server::start();
    both_ways(&server, &["--timeout", "1m"], "echo done; exit 5", |done| {
        done.assert(5, "done\n", "");
    });
}

#[test]
fn it_comes_though_nobody_reads_the_output() {
    if lacks("it_comes_though_nobody_reads_the_output", "yes") {
        return;
    }
    let server = Server::start();
    for tail in [&["-c", "yes"][..], &["yes"]] {
        let (mut running, stdout) =
            Running::start_unread(ta(&server, [&["--timeout", "300ms"], tail].concat()));
        assert_eq!(running.wait(), 124);
        drop(stdout);
        assert_eq!(running.stderr.to_end(), b"");
    }
}
