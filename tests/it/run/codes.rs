//! The exit code tells what became of the command.

use super::{Running, both_ways, run, ta};
use crate::support::{Server, Setup, TempDir};

#[test]
fn it_is_the_commands_own() {
    let server = Server::start();
    for code in [0, 1, 3, 124, 125, 255] {
        let line = format!("exit {code}");
        both_ways(&server, &[], &line, |done| done.assert(code, "", ""));
    }
}

#[test]
fn a_signal_is_128_and_its_number() {
    let server = Server::start();
    for (signal, code) in [("KILL", 137), ("TERM", 143), ("INT", 130), ("PIPE", 141)] {
        let line = format!("kill -{signal} $$");
        both_ways(&server, &[], &line, |done| done.assert(code, "", ""));
    }
}

#[test]
fn what_is_found_and_cannot_be_run_is_126() {
    let server = Server::start();
    let dir = TempDir::new();
    let not_executable = [
        dir.write("plain", "#!/bin/sh\n"),
        dir.path().to_owned(),
        dir.program("nonsense", "neither a binary nor a script\n"),
        dir.join("plain").join("below"),
    ];
    for path in not_executable {
        let path = path.to_str().unwrap();
        let done = run(&server, &[path]);
        done.assert_failed(126, path);
    }
}

#[test]
fn what_is_not_found_is_127() {
    let server = Server::start();
    let dir = TempDir::new();
    let orphan = dir.program("orphan", "#!/nowhere/interpreter\n");
    let missing = dir.join("missing");
    for name in ["no-such-program", missing.to_str().unwrap(), orphan.to_str().unwrap()] {
        run(&server, &["--", name]).assert_failed(127, name);
        run(&server, &["-i", "--", name]).assert_failed(127, name);
    }
}

#[test]
fn a_missing_shell_is_127_too() {
    let server = Setup::new().args(["--shell", "no-such-shell"]).listen();
    run(&server, &["-c", "true"]).assert_failed(127, "shell");
    run(&server, &["-i", "-c", "true"]).assert_failed(127, "shell");
    run(&server, &["true"]).assert(0, "", "");
}

/// It has the errno of a missing program.
#[test]
fn a_missing_directory_is_a_failure_that_names_it() {
    let server = Server::start();
    let dir = TempDir::new();
    let file = dir.write("file", "");
    for cwd in ["/no/such/directory", file.to_str().unwrap()] {
        both_ways(&server, &["--cwd", cwd], "true", |done| done.assert_failed(125, cwd));
    }
}

#[test]
fn the_directory_and_the_variables_are_those_asked_for() {
    let dir = TempDir::new();
    std::fs::create_dir(dir.join("below")).unwrap();
    let server = Setup::new().args(["--cwd", dir.path().to_str().unwrap()]).listen();
    let line = "pwd; echo \"$SET|$EMPTY|$OWN|${ABSENT-none}\"";
    let options = ["--cwd", "below", "--env", "SET=a=b", "--env=EMPTY=", "--env", "OWN"];
    for tail in [&["-c", line][..], &["sh", "-c", line]] {
        let mut command = ta(&server, [&options[..], &["--env", "ABSENT"], tail].concat());
        let done = Running::start({
            command.env("OWN", "mine").env_remove("ABSENT");
            command
        });
        let expected = format!("{}\na=b||mine|none\n", dir.join("below").display());
        done.finish().assert(0, &expected, "");
    }
}

#[test]
fn a_command_keeps_its_own_options() {
    let server = Server::start();
    let print = ["printf", "%s\\n", "--env=A", "-i", "--", "--help", "help"];
    let printed = "--env=A\n-i\n--\n--help\nhelp\n";
    run(&server, &print).assert(0, printed, "");
    run(&server, &[&["--"], &print[..]].concat()).assert(0, printed, "");
    run(&server, &[&["--cwd=/", "--timeout=1m"], &print[..]].concat()).assert(0, printed, "");
}
