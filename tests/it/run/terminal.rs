//! `--tty`: a terminal there, and this one in raw mode for as long.

use super::pty::{Mode, Pty};
use super::{Running, run, ta};
use crate::support::{DEADLINE, Server, Victim, eventually, lacks, procfs, sys};

/// A shell there, on a terminal of this size here; it has said "ready".
fn shell(server: &Server, pty: &Pty, line: &str) -> Running {
    let line = format!("echo ready; {line}");
    let running = pty.start(ta(server, ["--tty", "--", "sh", "-c", &line]));
    running.await_stdout("ready\r\n");
    running
}

#[test]
fn the_command_has_a_terminal_of_this_size_and_kind() {
    if lacks("the_command_has_a_terminal_of_this_size_and_kind", "stty") {
        return;
    }
    let server = Server::start();
    let line = "[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all; stty size; echo $TERM";
    for tail in [&["--tty", "-c", line][..], &["--tty", "sh", "-c", line], &["-it", "-c", line]] {
        let pty = Pty::new(101, 37);
        let mut command = ta(&server, tail);
        command.env("TERM", "vt220-of-the-test");
        let mut running = pty.start(command);
        assert_eq!(running.wait(), 0);
        running.await_stdout("all\r\n37 101\r\nvt220-of-the-test\r\n");
    }
    let pty = Pty::new(80, 24);
    let mut command = ta(&server, ["--tty", "--env", "TERM=mine", "-c", "echo $TERM"]);
    command.env("TERM", "vt220-of-the-test");
    pty.start(command).await_stdout("mine\r\n");
}

#[test]
fn a_terminal_that_tells_no_size_is_80_by_24() {
    let server = Server::start();
    let pty = Pty::new(0, 0);
    let running = pty.start(ta(&server, ["--tty", "-c", "stty size"]));
    running.await_stdout("24 80\r\n");
}

#[test]
fn keys_go_there_one_by_one_and_are_shown_by_the_far_terminal() {
    let server = Server::start();
    let pty = Pty::new(80, 24);
    let line = "stty raw -echo; echo raw; dd bs=1 count=3 2>/dev/null | od -An -tx1";
    let mut running = shell(&server, &pty, line);
    running.await_stdout("raw\n");
    pty.write("a\u{1a}\u{11}");
    running.await_stdout(" 61 1a 11\n");
    assert_eq!(running.wait(), 0);
    assert!(!pty.screen.text().contains('^'), "nothing was echoed here: {:?}", pty.screen.text());
}

#[test]
fn a_line_and_the_end_of_input_are_the_far_terminals() {
    let server = Server::start();
    let pty = Pty::new(80, 24);
    let mut running = shell(&server, &pty, "read x; echo got $x; cat; echo end");
    pty.write("line\r");
    running.await_stdout("got line\r\n");
    pty.write("\u{4}");
    running.await_stdout("end\r\n");
    assert_eq!(running.wait(), 0);
}

#[test]
fn a_resized_window_resizes_the_terminal_there() {
    let server = Server::start();
    let pty = Pty::new(80, 24);
    let line = "trap 'stty size' WINCH; echo heeds; while :; do sleep 0.02; done";
    let running = shell(&server, &pty, line);
    running.await_stdout("heeds\r\n");
    for (cols, rows) in [(132, 50), (40, 10)] {
        pty.resize(cols, rows);
        running.await_stdout(&format!("{rows} {cols}\r\n"));
    }
}

#[test]
fn control_c_is_a_key_that_interrupts_there() {
    let server = Server::start();
    let pty = Pty::new(80, 24);
    let before = pty.mode();
    let victim = Victim::new();
    let mut running = pty.start(ta(&server, ["--tty", "sleep", victim.argument()]));
    victim.await_alive();
    pty.await_raw();
    pty.write("\u{3}");
    assert_eq!(running.wait(), 130);
    victim.await_gone();
    assert_eq!(pty.mode(), before);
}

/// A shell goes on with its script where a command has only exited, with whatever code: it takes
/// that for a command that has dealt with Ctrl-C itself.
#[test]
fn control_c_at_a_script_ends_the_command_there_and_the_script_here() {
    if lacks("control_c_at_a_script_ends_the_command_there_and_the_script_here", "bash") {
        return;
    }
    let server = Server::start();
    let victim = Victim::new();
    let run = ta(&server, [] as [&str; 0]);
    let mut script = std::process::Command::new("bash");
    script.args(["-c", "\"$0\" run sleep \"$1\"; echo next $?"]);
    script.arg(run.get_program()).arg(victim.argument());
    script.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let pty = Pty::new(80, 24);
    let mut running = pty.start(script);
    victim.await_alive();
    pty.write("\u{3}");
    assert_eq!(running.wait(), 130);
    victim.await_gone();
    assert!(!pty.screen.text().contains("next"), "{:?}", pty.screen.text());
}

/// The mode is looked at while the command runs, and after its end.
#[track_caller]
fn assert_restored_after(what: &str, code: i32, end: impl Fn(&Pty, &Running, &mut Server)) {
    let mut server = Server::start();
    let pty = Pty::new(80, 24);
    let before = pty.mode();
    assert!(!before.is_raw());
    let victim = Victim::new();
    let mut running = shell(&server, &pty, &format!("read x; exit 3; {}", victim.command()));
    pty.await_raw();
    end(&pty, &running, &mut server);
    assert_eq!(running.wait(), code, "{what}");
    assert_eq!(pty.mode(), before, "{what}");
}

#[test]
fn the_terminal_is_put_back_however_it_ends() {
    assert_restored_after("an exit", 3, |pty, _, _| pty.write("\r"));
    assert_restored_after("SIGTERM", 143, |_, running, _| running.signal(libc::SIGTERM));
    assert_restored_after("SIGHUP", 129, |_, running, _| running.signal(libc::SIGHUP));
    assert_restored_after("SIGINT", 130, |_, running, _| running.signal(libc::SIGINT));
    assert_restored_after("SIGQUIT", 131, |_, running, _| running.signal(libc::SIGQUIT));
    assert_restored_after("a lost connection", 125, |pty, running, server| {
        server.signal(libc::SIGTERM);
        server.wait(DEADLINE);
        running.await_stdout("ta: the connection was lost");
        // The line ends as lines do here, where the terminal is itself again.
        pty.screen.wait_for("\r\n");
    });
}

#[test]
fn a_start_that_fails_leaves_the_terminal_as_it_is() {
    let server = Server::start();
    let failures = [("no-such-program", 127), ("/etc/passwd", 126), ("/", 126)];
    for (program, code) in failures {
        let pty = Pty::new(80, 24);
        let before = pty.mode();
        let mut running = pty.start(ta(&server, ["--tty", program]));
        assert_eq!(running.wait(), code);
        running.await_stdout("ta: cannot start");
        assert_eq!(pty.mode(), before);
    }
}

/// Ctrl-Z is a key like others, but somebody may send the signal.
#[test]
fn a_stop_gives_the_terminal_back_for_as_long() {
    let server = Server::start();
    let pty = Pty::new(80, 24);
    let before = pty.mode();
    let line = "trap 'stty size' WINCH; trap 'exit 4' INT; while :; do sleep 0.02; done";
    let mut running = shell(&server, &pty, line);
    pty.await_raw();
    let stopped = |pid| procfs::state(pid) == "T";
    running.signal(libc::SIGTSTP);
    eventually(DEADLINE, "ta is stopped", || stopped(running.pid()));
    assert_eq!(pty.mode(), before);
    pty.resize(90, 30);
    sys::signal(running.pid(), libc::SIGCONT).unwrap();
    pty.await_raw();
    eventually(DEADLINE, "ta goes on", || !stopped(running.pid()));
    running.await_stdout("30 90\r\n");
    pty.write("\u{3}");
    assert_eq!(running.wait(), 4);
    assert_eq!(pty.mode(), before);
}

#[test]
fn stdout_may_be_something_else() {
    let server = Server::start();
    let pty = Pty::new(77, 33);
    let before = pty.mode();
    let mut running = pty.start_piped(ta(&server, ["--tty", "-c", "stty size; read x; echo $x"]));
    running.await_stdout("33 77\r\n");
    pty.await_raw();
    pty.write("typed\r");
    assert_eq!(running.wait(), 0);
    running.await_stdout("typed\r\ntyped\r\n");
    assert_eq!(pty.mode(), before);
}

#[test]
fn without_a_terminal_there_is_none_there_either() {
    let server = Server::start();
    run(&server, &["--tty", "true"]).assert_failed(125, "terminal");
    let line = "[ -t 0 ] || [ -t 1 ] || [ -t 2 ] || echo none";
    run(&server, &["-c", line]).assert(0, "none\n", "");
    run(&server, &["sh", "-c", line]).assert(0, "none\n", "");
    // A terminal here does not make one there.
    let pty = Pty::new(80, 24);
    let before: Mode = pty.mode();
    let mut running = pty.start(ta(&server, ["-i", "-c", "[ -t 0 ] || echo none; cat"]));
    running.await_stdout("none\r\n");
    assert_eq!(pty.mode(), before);
    pty.write("line\n\u{4}");
    assert_eq!(running.wait(), 0);
    running.await_stdout("line\r\nline\r\n");
}

#[test]
fn a_timeout_ends_a_command_on_a_terminal_too() {
    let server = Server::start();
    let pty = Pty::new(80, 24);
    let before = pty.mode();
    let victim = Victim::new();
    let args = ["--tty", "--timeout", "2s", "sleep", victim.argument()];
    let mut running = pty.start(ta(&server, args));
    victim.await_alive();
    assert_eq!(running.wait(), 124);
    victim.await_gone();
    assert_eq!(pty.mode(), before);
}
