//! `ta connect`: messages pass unchanged, whatever carries them, and it ends as it should.

mod client;

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::run::{Done, Running};
use crate::support::{DEADLINE, Server, Victim, binary, eventually, procfs, sys, ta, ta_to};

/// Over WebSocket, over another program, and to this machine.
fn over_all(server: &Server) -> Vec<Command> {
    let via = format!("'{}' exec-server --stdio", binary().display());
    vec![ta_to(server, &["connect"]), ta(&["connect", "--via", &via]), ta(&["connect"])]
}

fn start(mut command: Command) -> Running {
    command.stdin(Stdio::piped());
    Running::start(command)
}

/// Writes all of it, ends stdin, and waits for the end.
fn talk(command: Command, lines: &[u8]) -> Done {
    let mut running = start(command);
    running.write(lines);
    running.stdin = None;
    running.finish()
}

#[test]
fn ids_pass_as_written_and_answers_that_are_due_are_waited_for() {
    let server = Server::start();
    for command in over_all(&server) {
        let lines = b"{\"id\":1.0,\"method\":\"ping\"}\n\n\
            {\"id\":\"\\u0061\",\"method\":\"ping\"}\r\nnonsense\n\xff\n\
            {\"method\":\"unknown/notification\"}\n\
            {\"id\":9007199254740993,\"method\":\"process/exec\",\
            \"params\":{\"processId\":\"p\",\"command\":\"sleep 0.3; echo hi\"}}";
        let done = talk(command, lines);
        assert_eq!(done.code, 0, "{done:?}");
        // (A server that was started by somebody else logs what it likes.)
        assert!(done.stderr.is_empty() || done.stderr.contains("disconnected"), "{done:?}");
        let text = done.text();
        for part in ["\"id\":1.0,", "\"id\":\"\\u0061\",", "\"id\":9007199254740993,", "aGkK"] {
            assert_eq!(text.matches(part).count(), 1, "{part}: {text}");
        }
        assert_eq!(text.matches("-32700").count(), 2, "{text}");
        assert_eq!(text.lines().count(), 6, "{text}");
    }
}

#[test]
fn a_long_message_passes_both_ways_in_bounded_memory() {
    let server = Server::start();
    let size = 32 << 20;
    for command in over_all(&server) {
        let path = std::env::temp_dir().join(format!("ta-it-{}", crate::support::unique()));
        let content = "A".repeat(size);
        let path_text = path.display();
        let mut running = start(command);
        let pid = running.pid();
        let write = format!(
            "{{\"id\":1,\"method\":\"fs/writeFile\",\"params\":{{\"path\":\"{path_text}\",\
             \"dataBase64\":\"{content}\"}}}}\n"
        );
        running.write(write.as_bytes());
        running.stdout.wait_for("\"id\":1,");
        let read = format!(
            "{{\"id\":2,\"method\":\"fs/readFile\",\"params\":{{\"path\":\"{path_text}\"}}}}\n"
        );
        running.write(read.as_bytes());
        eventually(4 * DEADLINE, "it has been read", || running.stdout.bytes().len() > size);
        let peak = procfs::highest_kib(pid);
        running.stdin = None;
        let done = running.finish();
        let _ = std::fs::remove_file(&path);
        assert_eq!(done.code, 0, "{}", done.stderr);
        assert!(done.text().contains(&content), "the content differs");
        assert!(peak < 6 * (size as u64 / 1024), "{peak} KiB for {size} bytes");
    }
}

#[test]
fn whoever_does_not_read_stops_the_far_side_and_memory_stays_bounded() {
    let server = Server::start();
    for mut command in over_all(&server) {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let line = "{\"id\":1,\"method\":\"process/exec\",\"params\":{\"processId\":\"p\",\
                    \"command\":\"exec cat /dev/zero\"}}\n";
        child.stdin.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
        let peak = procfs::peak_kib(child.id(), Duration::from_millis(700));
        assert!(peak < 64 * 1024, "{peak} KiB");
        // A reader that has gone is the end, also with an answer due.
        drop(child.stdin.take());
        drop(child.stdout.take());
        eventually(Duration::from_secs(10), "it ends", || child.try_wait().unwrap().is_some());
    }
}

#[test]
fn what_was_started_ends_with_the_bridge() {
    let server = Server::start();
    for (command, signal) in
        over_all(&server).into_iter().zip([libc::SIGKILL, libc::SIGTERM, libc::SIGKILL])
    {
        let victim = Victim::new();
        let mut running = start(command);
        let line = format!(
            "{{\"id\":1,\"method\":\"process/spawn\",\"params\":{{\"processId\":\"p\",\
             \"command\":\"sleep\",\"args\":[\"{}\"]}}}}\n",
            victim.argument()
        );
        running.write(line.as_bytes());
        victim.await_alive();
        running.signal(signal);
        assert_eq!(running.wait(), 128 + signal);
        victim.await_gone();
    }
}

#[test]
fn a_lost_connection_and_a_newer_host_are_told_in_one_line() {
    let server = crate::support::Setup::new().args(["--log-level", "debug"]).listen();
    let running = start(ta_to(&server, &["connect", "--epoch", "5"]));
    eventually(Duration::from_secs(5), "it is connected", || {
        server.log.text().contains("connected")
    });
    let _newer = server.connect_of(6);
    let done = running.finish();
    done.assert_failed(1, "its epoch is newer than 5 (end this host");

    let mut running = start(ta_to(&server, &["connect"]));
    running.write(b"{\"id\":1,\"method\":\"ping\"}\n");
    running.stdout.wait_for("result");
    sys::signal(server.guardian(), libc::SIGKILL).unwrap();
    assert_eq!(running.wait(), 1);
    running.finish().assert_one_line("the connection was lost");

    let done = talk(ta(&["connect", "--via", "sh -c 'read a; exit 3'"]), b"x\n");
    assert_eq!(done.code, 1, "{done:?}");
    done.assert_one_line("the command \"sh\" ended with exit code 3 before it spoke");
}

#[test]
fn a_message_that_the_server_finds_too_long_is_told() {
    let server = crate::support::Setup::new().args(["--max-message-bytes", "2000"]).listen();
    let long = format!("{{\"id\":1,\"method\":\"ping\",\"params\":\"{}\"}}\n", "x".repeat(3000));
    let done = talk(ta_to(&server, &["connect"]), long.as_bytes());
    assert_eq!(done.code, 1, "{done:?}");
    done.assert_one_line("1009");
}

#[test]
fn an_epoch_is_told_first_over_a_pipe_too() {
    let via = format!("'{}' exec-server --stdio --require-epoch", binary().display());
    let ask = b"{\"id\":1,\"method\":\"ping\"}\n";
    let done = talk(ta(&["connect", "--via", &via, "--epoch", "9"]), ask);
    assert!(
        done.code == 0 && done.text() == "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n",
        "{done:?}"
    );
    assert!(talk(ta(&["connect", "--via", &via]), ask).text().contains("-32602"));
}

#[test]
fn answers_are_not_delayed() {
    let server = Server::start();
    for command in over_all(&server) {
        let mut running = start(command);
        running.write(b"{\"id\":0,\"method\":\"ping\"}\n");
        running.stdout.wait_for("\"id\":0,");
        let start = Instant::now();
        for id in 1..=200 {
            running.write(format!("{{\"id\":{id},\"method\":\"ping\"}}\n").as_bytes());
            running.stdout.wait_for(&format!("\"id\":{id},"));
        }
        let each = start.elapsed() / 200;
        // Nagle with delayed acknowledgements would make it 40 ms.
        assert!(each < Duration::from_millis(10), "{each:?}");
    }
}
