//! Bytes: the command's output, and our stdin.

use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::process::{Command, Stdio};
use std::thread;

use super::{Followed, Running, both_ways, run, ta};
use crate::support::{DEADLINE, Server, TempDir, Victim, eventually, lacks, procfs, sys};

#[test]
fn output_comes_as_it_is_written() {
    let server = Server::start();
    for tail in [&["-i", "-c"][..], &["-i", "--", "sh", "-c"]] {
        let line = "printf one; read x; printf two >&2; read x; echo three";
        let mut command = ta(&server, [tail, &[line]].concat());
        command.stdin(Stdio::piped());
        let mut running = Running::start(command);
        running.await_stdout("one");
        running.write(b"\n");
        running.stderr.wait_for("two");
        assert!(running.is_running());
        running.write(b"\n");
        running.finish().assert(0, "onethree\n", "two");
    }
    // Without -i as well: the command waits for the server to be told that it may go on.
    let dir = TempDir::new();
    let go = dir.join("go");
    let line = format!("printf one; while ! [ -e {} ]; do sleep 0.01; done", go.display());
    let running = Running::start(ta(&server, ["-c", &line]));
    running.await_stdout("one");
    std::fs::write(go, "").unwrap();
    running.finish().assert(0, "one", "");
}

#[test]
fn every_byte_passes_unchanged_in_both_directions() {
    let server = Server::start();
    let bytes: Vec<u8> = (0..=255).chain([0, 0, 13, 10, 26, 4, 255, 254]).collect();
    for tail in [&["cat"][..], &["-c", "cat"], &["-c", "cat >&2"]] {
        let mut command = ta(&server, [&["-i"], tail].concat());
        command.stdin(Stdio::piped());
        let mut running = Running::start(command);
        running.write(&bytes);
        running.stdin = None;
        assert_eq!(running.wait(), 0);
        let all = [running.stdout.to_end(), running.stderr.to_end()].concat();
        assert_eq!(all, bytes, "{tail:?}");
    }
}

#[test]
fn stdout_and_stderr_stay_apart() {
    let server = Server::start();
    let line = "for n in 1 2 3; do echo out $n; echo err $n >&2; done";
    both_ways(&server, &[], line, |done| {
        done.assert(0, "out 1\nout 2\nout 3\n", "err 1\nerr 2\nerr 3\n");
    });
}

#[test]
fn a_lot_of_output_arrives_whole() {
    let server = Server::start();
    let line = "head -c 33554432 /dev/zero; seq 1 100000 >&2";
    let errors: String = (1..=100_000).map(|n| format!("{n}\n")).collect();
    both_ways(&server, &[], line, |done| {
        assert_eq!((done.code, done.stdout.len()), (0, 32 << 20));
        assert!(done.stdout.iter().all(|byte| *byte == 0));
        assert!(done.stderr == errors, "{} bytes of stderr", done.stderr.len());
    });
}

/// Ten megabytes that no compression and no luck can make right.
fn noise() -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_ne_bytes()
    };
    (0..10 * 1024 * 1024 / 8).flat_map(|_| next()).collect()
}

/// Feeds a stream from a thread of its own: whoever reads it may stop.
fn feed(mut stream: impl std::io::Write + Send + 'static, bytes: Vec<u8>) {
    let feed = move || drop(stream.write_all(&bytes));
    thread::Builder::new().name("feed".into()).spawn(feed).unwrap();
}

#[test]
fn ten_megabytes_of_stdin_come_back_whole() {
    let server = Server::start();
    let noise = noise();
    for tail in [&["cat"][..], &["-c", "cat"]] {
        let mut command = ta(&server, [&["-i"], tail].concat());
        command.stdin(Stdio::piped());
        let mut running = Running::start(command);
        feed(running.stdin.take().unwrap(), noise.clone());
        let done = running.finish();
        assert_eq!((done.code, done.stderr.as_str()), (0, ""));
        assert!(done.stdout == noise, "{} bytes came back", done.stdout.len());
    }
}

#[test]
fn what_arrives_there_has_the_same_checksum() {
    if lacks("what_arrives_there_has_the_same_checksum", "sha256sum") {
        return;
    }
    let server = Server::start();
    let dir = TempDir::new();
    let file = dir.write("noise", noise());
    let mut here = Command::new("sha256sum");
    here.stdin(std::fs::File::open(&file).unwrap());
    let mut there = ta(&server, ["-i", "sha256sum"]);
    there.stdin(std::fs::File::open(&file).unwrap());
    let (here, there) = (Running::start(here).finish(), Running::start(there).finish());
    there.assert(0, &here.text(), "");
}

#[test]
fn the_end_of_stdin_reaches_the_command() {
    let server = Server::start();
    for input in ["", "no newline"] {
        for tail in [&["cat"][..], &["-c", "cat; echo over >&2"]] {
            let mut command = ta(&server, [&["-i"], tail].concat());
            command.stdin(Stdio::piped());
            let mut running = Running::start(command);
            running.write(input.as_bytes());
            running.stdin = None;
            let done = running.finish();
            assert_eq!((done.code, done.text().as_str()), (0, input));
        }
    }
}

#[test]
fn a_command_that_reads_no_more_ends_as_it_would_here() {
    let server = Server::start();
    for line in ["head -c 1", "exec <&-; echo x", "true; printf x"] {
        for tail in [&["-c", line][..], &["sh", "-c", line]] {
            let mut command = ta(&server, [&["-i"], tail].concat());
            command.stdin(Stdio::piped());
            let mut running = Running::start(command);
            feed(running.stdin.take().unwrap(), b"x".repeat(8 << 20));
            let done = running.finish();
            assert_eq!((done.code, done.text().trim(), done.stderr.as_str()), (0, "x", ""));
        }
    }
}

#[test]
fn without_i_stdin_is_at_its_end_and_ours_is_left_alone() {
    let server = Server::start();
    for tail in [&["cat"][..], &["-c", "cat"]] {
        let mut command = ta(&server, tail);
        let (reader, mut writer): (PipeReader, PipeWriter) = std::io::pipe().unwrap();
        writer.write_all(b"for somebody else").unwrap();
        command.stdin(reader.try_clone().unwrap());
        Running::start(command).finish().assert(0, "", "");
        drop(writer);
        let mut left = String::new();
        (&reader).read_to_string(&mut left).unwrap();
        assert_eq!(left, "for somebody else");
    }
}

/// `ta run … yes | head -1`
#[test]
fn a_reader_that_leaves_ends_the_command_quietly() {
    let server = Server::start();
    for tail in [&["-c"][..], &["--", "sh", "-c"]] {
        let victim = Victim::new();
        let line = format!("{} & yes", victim.command());
        let (mut running, mut stdout) =
            Running::start_unread(ta(&server, [tail, &[&line]].concat()));
        let mut first = [0; 4];
        stdout.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"y\ny\n");
        victim.await_alive();
        drop(stdout);
        assert_eq!(running.wait(), 141);
        assert_eq!(running.stderr.to_end(), b"");
        victim.await_gone();
    }
}

/// The other end may have been made non-blocking by whoever shares it (node does that).
#[test]
fn a_stdout_that_does_not_block_loses_nothing() {
    let server = Server::start();
    let (mut reader, writer): (PipeReader, PipeWriter) = std::io::pipe().unwrap();
    sys::set_nonblocking(&writer);
    let mut command = ta(&server, ["head", "-c", "4194304", "/dev/zero"]);
    let mut running = Running::start_with(command.stdout(writer));
    // It holds the writing end.
    drop(command);
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    assert_eq!((running.wait(), bytes.len()), (0, 4 << 20));
    assert_eq!(running.stderr.to_end(), b"");
}

#[test]
fn a_slow_reader_holds_the_command_back_and_loses_nothing() {
    let server = Server::start();
    let (mut running, stdout) = Running::start_unread(ta(&server, ["seq", "1", "2000000"]));
    // Nothing is read until all that there is room for on the way has been filled.
    procfs::await_stalled(&[running.pid()]);
    assert!(running.is_running());
    let expected: String = (1..=2_000_000).map(|n| format!("{n}\n")).collect();
    let stdout = Followed::new(stdout);
    assert!(stdout.to_end() == expected.as_bytes(), "{} bytes", stdout.bytes().len());
    assert_eq!(running.wait(), 0);
}

#[test]
fn what_a_command_leaves_running_ends_with_it() {
    let server = Server::start();
    for tail in [&["-c"][..], &["--", "sh", "-c"]] {
        let victim = Victim::new();
        let line = format!("{} >/dev/null 2>&1 & read x; echo over", victim.command());
        let mut command = ta(&server, [&["-i"], tail, &[&line]].concat());
        command.stdin(Stdio::piped());
        let mut running = Running::start(command);
        victim.await_alive();
        running.write(b"\n");
        running.finish().assert(0, "over\n", "");
        victim.await_gone();
    }
    run(&server, &["true"]).assert(0, "", "");
}

/// The client of a language server was killed; the server heeded no end of its stdin, and lived on.
#[test]
fn a_killed_client_takes_a_command_with_it_that_ignores_the_end_of_its_stdin() {
    if lacks("a_killed_client_takes_a_command_with_it", "bash") {
        return;
    }
    let server = Server::start();
    let victim = Victim::new();
    // It holds both ends, as a client does, and tells which process is its child.
    let client = "coproc ta { exec \"$@\"; }; echo $ta_PID; read wait";
    let run = ta(&server, ["-i", "sleep", victim.argument()]);
    let mut command = Command::new("bash");
    command.args(["-c", client, "client"]).arg(run.get_program()).args(run.get_args());
    command.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::piped());
    let client = Running::start(command);
    client.await_stdout("\n");
    let ta: u32 = client.stdout.text().trim().parse().unwrap();
    let is_alive = |pid| !matches!(procfs::state(pid).as_str(), "gone" | "Z");
    victim.await_alive();
    assert!(is_alive(ta), "ta is there as long as its client");
    client.signal(libc::SIGKILL);
    victim.await_gone();
    eventually(DEADLINE, "ta has ended too", || !is_alive(ta));
}

#[test]
fn a_command_whose_output_is_read_goes_on_without_a_stdin() {
    let server = Server::start();
    for pause in ["sleep 1.5", "read x; sleep 1.5"] {
        let line = format!("{pause}; echo done; exit 3");
        // (stdin is /dev/null: at its end from the start.)
        Running::start(ta(&server, ["-i", "-c", &line])).finish().assert(3, "done\n", "");
        // A file has no reader that could leave.
        let dir = TempDir::new();
        let file = std::fs::File::create(dir.join("out")).unwrap();
        let mut command = ta(&server, ["-i", "-c", &line]);
        let mut running = Running::start_with(command.stdout(file));
        assert_eq!(running.wait(), 3);
        assert_eq!(std::fs::read(dir.join("out")).unwrap(), b"done\n");
    }
}

/// As a pipeline with `head -1` has it.
#[test]
fn a_command_that_ends_by_itself_when_its_reader_has_left_keeps_its_exit_code() {
    let server = Server::start();
    let mut command = ta(&server, ["-i", "-c", "echo first; read gone; sleep 0.2; exit 5"]);
    command.stdin(Stdio::piped());
    let (mut running, mut stdout) = Running::start_unread(command);
    stdout.read_exact(&mut [0; 6]).unwrap();
    drop(stdout);
    drop(running.stdin.take());
    assert_eq!(running.wait(), 5);
}
