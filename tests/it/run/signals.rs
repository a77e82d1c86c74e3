//! Signals to `ta` are signals to the command.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use super::{Running, ta, ta_alone};
use crate::support::{DEADLINE, Server, Victim, best_of_three, eventually, procfs, sys};

/// The two ways to the server.
const WAYS: [&[&str]; 2] = [&["-c"], &["--", "sh", "-c"]];

/// Starts a line that says "ready" when it is.
fn start(server: &Server, way: &[&str], line: &str) -> Running {
    let running = Running::start(ta(server, [way, &[line]].concat()));
    running.await_stdout("ready\n");
    running
}

/// Ctrl-C.
#[test]
fn an_interrupt_ends_the_command_there_and_not_only_ta() {
    let server = Server::start();
    for way in WAYS {
        let victim = Victim::new();
        let running = start(&server, way, &format!("echo ready; {} & wait", victim.command()));
        victim.await_alive();
        running.signal(libc::SIGINT);
        running.finish().assert(130, "ready\n", "");
        victim.await_gone();
    }
}

#[test]
fn a_command_that_handles_an_interrupt_has_its_own_code() {
    let server = Server::start();
    for way in WAYS {
        let line = "trap 'echo cleaned; exit 7' INT; echo ready; while :; do sleep 0.02; done";
        let running = start(&server, way, line);
        running.signal(libc::SIGINT);
        running.finish().assert(7, "ready\ncleaned\n", "");
    }
}

#[test]
fn a_second_interrupt_kills() {
    let server = Server::start();
    for way in WAYS {
        let victim = Victim::new();
        let line = format!(
            "trap 'echo not me' INT; echo ready; while :; do {} & wait; done",
            victim.command()
        );
        let running = start(&server, way, &line);
        running.signal(libc::SIGINT);
        running.await_stdout("not me");
        running.signal(libc::SIGINT);
        let done = running.finish();
        assert_eq!((done.code, done.stderr.as_str()), (137, ""));
        victim.await_gone();
    }
}

/// A server that answers nothing any more.
#[test]
fn a_third_interrupt_waits_for_nobody() {
    best_of_three(Duration::from_millis(800), "the end after three interrupts", || {
        let server = Server::start();
        let mut running = start(&server, WAYS[0], "echo ready; sleep 30.25");
        // (The process that serves: its guardian passes no SIGSTOP on.)
        let serving = server.pid();
        sys::signal(serving, libc::SIGSTOP).unwrap();
        eventually(DEADLINE, "it has stopped", || procfs::state(serving) == "T");
        let start = Instant::now();
        for _ in 0..3 {
            assert!(running.is_running());
            running.signal(libc::SIGINT);
            // Signals of one kind that are pending together are one.
            eventually(DEADLINE, "the signal is taken", || {
                !is_pending(running.pid(), libc::SIGINT)
            });
        }
        let code = running.wait();
        sys::signal(serving, libc::SIGCONT).unwrap();
        assert_eq!(code, 130);
        start.elapsed()
    });
}

/// Each stop interrupts a read that has a timeout, which the kernel does not take up again. (What a
/// host has is SIGCHLD for a child of another thread; it does the same.)
#[test]
fn a_client_that_is_stopped_and_continued_goes_on() {
    let server = Server::start();
    let serving = server.pid();
    sys::signal(serving, libc::SIGSTOP).unwrap();
    eventually(DEADLINE, "it has stopped", || procfs::state(serving) == "T");
    let line = "echo ready; sleep 1; echo done";
    let mut running = Running::start(ta(&server, ["-c", line]));
    let pid = running.pid();
    let has_socket = || {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
        files
            .filter_map(|file| std::fs::read_link(file.ok()?.path()).ok())
            .any(|link| link.to_string_lossy().starts_with("socket:"))
    };
    eventually(DEADLINE, "it has made a socket", has_socket);
    let stop_and_continue = || {
        for _ in 0..20 {
            sys::signal(pid, libc::SIGSTOP).unwrap();
            eventually(DEADLINE, "it has stopped", || procfs::state(pid) == "T");
            sys::signal(pid, libc::SIGCONT).unwrap();
            eventually(DEADLINE, "it goes on", || procfs::state(pid) == "S");
        }
    };
    stop_and_continue();
    sys::signal(serving, libc::SIGCONT).unwrap();
    running.await_stdout("ready");
    stop_and_continue();
    running.await_stdout("done");
    assert_eq!(running.wait(), 0);
}

fn is_pending(pid: u32, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
    let set = pending.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
    set & (1 << (signal - 1)) != 0
}

#[test]
fn what_ends_ta_asks_the_command_to_end_first() {
    let server = Server::start();
    for (signal, code) in [(libc::SIGTERM, 143), (libc::SIGHUP, 129)] {
        for way in WAYS {
            let line = "trap 'echo cleaned; exit 0' TERM; echo ready; while :; do sleep 0.02; done";
            let running = start(&server, way, line);
            running.signal(signal);
            let done = running.finish();
            // A shell may say that its sleep was terminated.
            assert_eq!((done.code, done.text().as_str()), (code, "ready\ncleaned\n"));
        }
    }
}

#[test]
fn what_ends_ta_kills_a_command_that_will_not_go() {
    let server = Server::start();
    for way in WAYS {
        let victim = Victim::new();
        let line =
            format!("trap '' TERM; echo ready; while :; do {} & wait; done", victim.command());
        let running = start(&server, way, &line);
        victim.await_alive();
        running.signal(libc::SIGTERM);
        running.finish().assert(143, "ready\n", "");
        victim.await_gone();
    }
}

#[test]
fn asked_twice_it_does_not_wait() {
    let server = Server::start();
    let line = "trap 'echo asked' TERM; echo ready; while :; do sleep 0.02; done";
    best_of_three(Duration::from_millis(800), "the end after two SIGTERM", || {
        let mut running = start(&server, WAYS[0], line);
        running.signal(libc::SIGTERM);
        running.await_stdout("asked");
        let start = Instant::now();
        running.signal(libc::SIGTERM);
        assert_eq!(running.wait(), 143);
        start.elapsed()
    });
}

#[test]
fn a_quit_is_passed_on() {
    let server = Server::start();
    for way in WAYS {
        let line = "trap 'echo dump; exit 9' QUIT; echo ready; while :; do sleep 0.02; done";
        let running = start(&server, way, line);
        running.signal(libc::SIGQUIT);
        let done = running.finish();
        // A shell may say that its sleep quit.
        assert_eq!((done.code, done.text().as_str()), (9, "ready\ndump\n"));
    }
}

#[test]
fn signals_end_ta_also_before_there_is_a_command() {
    for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143), (libc::SIGHUP, 129)] {
        // Takes the connection and says nothing.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("ws://{}/exec", listener.local_addr().unwrap());
        let running = Running::start(ta_alone(["--exec", &url, "true"]));
        let (_silent, _) = listener.accept().unwrap();
        let start = Instant::now();
        running.signal(signal);
        running.finish().assert(code, "", "");
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    }
}

/// nohup, and `&` in a shell without job control.
#[test]
fn a_signal_that_ta_was_started_to_ignore_is_ignored() {
    let server = Server::start();
    let mut command = std::process::Command::new("sh");
    let run = ta(&server, ["-c", "echo ready; read x; echo over"]);
    let line = format!(
        "trap '' HUP INT; exec {} run -i -c 'echo ready; read x; echo over'",
        run.get_program().to_str().unwrap()
    );
    command.args(["-c", &line]).stdin(std::process::Stdio::piped());
    for (name, value) in run.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut running = Running::start(command);
    running.await_stdout("ready\n");
    running.signal(libc::SIGHUP);
    running.signal(libc::SIGINT);
    running.write(b"\n");
    running.finish().assert(0, "ready\nover\n", "");
}
