//! A process as streams.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::num::NonZeroU64;
use std::thread;
use std::time::{Duration, Instant};

use ta_exec::environment::SplitProcess;
use ta_exec::protocol::{ExecParams, SpawnParams};

use super::{over_all, over_all_places};
use crate::support::DEADLINE;

fn sh(script: &str) -> SpawnParams {
    SpawnParams::new("sh").arg("-c").arg(script)
}

fn deadline() -> Instant {
    Instant::now() + DEADLINE
}

#[test]
fn lines_go_in_and_come_out_while_another_thread_waits_for_the_end() {
    over_all(|environment| {
        let script = "while read line; do echo \"<$line>\"; echo log >&2; done; exit 6";
        let process = environment.spawn(&sh(script)).unwrap();
        let SplitProcess { mut stdin, stdout, mut stderr, end } = process.split().unwrap();
        let waiting = end.clone();
        let wait = thread::Builder::new().spawn(move || waiting.wait()).unwrap();
        let read_log = move || {
            let mut log = String::new();
            stderr.read_to_string(&mut log).map(|_| log)
        };
        let log = thread::Builder::new().spawn(read_log).unwrap();
        let mut lines = BufReader::new(stdout).lines();
        for word in ["one", "two", "three"] {
            writeln!(stdin, "{word}").unwrap();
            stdin.flush().unwrap();
            assert_eq!(lines.next().unwrap().unwrap(), format!("<{word}>"));
        }
        stdin.finish().unwrap();
        assert!(lines.next().is_none());
        assert_eq!(log.join().unwrap().unwrap(), "log\nlog\nlog\n");
        let exit = wait.join().unwrap().unwrap();
        assert_eq!(end.wait_until(deadline()).unwrap(), Some(exit.clone()));
        exit
    });
}

#[test]
fn much_passes_both_ways_at_once() {
    over_all(|environment| {
        let mut params = SpawnParams::new("cat");
        params.window = NonZeroU64::new(50_000);
        let SplitProcess { mut stdin, mut stdout, stderr, end } =
            environment.spawn(&params).unwrap().split().unwrap();
        drop(stderr);
        let sent: Vec<u8> = (0..251).cycle().take(2_000_000).collect();
        let bytes = sent.clone();
        let write = move || stdin.write_all(&bytes);
        let write = thread::Builder::new().spawn(write).unwrap();
        let mut came = Vec::new();
        stdout.read_to_end(&mut came).unwrap();
        write.join().unwrap().unwrap();
        assert!(came == sent, "{} of {} bytes came", came.len(), sent.len());
        end.wait_until(deadline()).unwrap().unwrap()
    });
}

#[test]
fn a_dropped_reader_discards_and_holds_nothing_up() {
    over_all(|environment| {
        // Much more than the window, before it was dropped and after.
        let mut params = sh("seq 100000 >&2; echo out; read x; seq 100000 >&2; seq 100000");
        params.window = NonZeroU64::new(20_000);
        let SplitProcess { mut stdin, stdout, stderr, end } =
            environment.spawn(&params).unwrap().split().unwrap();
        thread::sleep(Duration::from_millis(200));
        drop(stderr);
        let mut lines = BufReader::new(stdout).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "out");
        drop(lines);
        writeln!(stdin, "go").unwrap();
        end.wait_until(deadline()).unwrap().unwrap()
    });
}

#[test]
fn an_output_that_is_not_read_waits_for_its_reader() {
    over_all(|environment| {
        let mut params = sh("seq 30000");
        params.window = NonZeroU64::new(10_000);
        let SplitProcess { mut stdout, end, .. } =
            environment.spawn(&params).unwrap().split().unwrap();
        let soon = Instant::now() + Duration::from_millis(300);
        assert_eq!(end.wait_until(soon).unwrap(), None);
        let mut text = String::new();
        stdout.read_to_string(&mut text).unwrap();
        assert!(text.ends_with("\n30000\n"));
        end.wait_until(deadline()).unwrap().unwrap()
    });
}

#[test]
fn dropping_the_stdin_closes_it() {
    over_all(|environment| {
        let process = environment.spawn(&sh("cat; echo eof")).unwrap();
        let SplitProcess { stdin, mut stdout, end, .. } = process.split().unwrap();
        drop(stdin);
        let mut text = String::new();
        stdout.read_to_string(&mut text).unwrap();
        assert_eq!(text, "eof\n");
        end.wait().unwrap()
    });
}

#[test]
fn writing_to_a_process_that_is_over_is_a_broken_pipe() {
    over_all(|environment| {
        let split = environment.spawn(&SpawnParams::new("true")).unwrap().split().unwrap();
        split.end.wait().unwrap();
        let mut stdin = split.stdin;
        stdin.write_all(b"x").unwrap();
        assert_eq!(stdin.finish().unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn a_command_line_that_could_not_be_started_is_told_to_its_readers() {
    over_all(|environment| {
        let mut params = ExecParams::new("true");
        params.cwd = Some("nope".to_owned());
        let mut split = environment.exec(&params).unwrap().split().unwrap();
        let error = split.stdout.read(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(split.stderr.read(&mut [0; 8]).is_err());
        split.end.wait().unwrap_err().step()
    });
}

#[test]
fn the_end_of_the_environment_is_the_end_of_its_streams() {
    over_all_places(|place| {
        let split = place.environment().spawn(&SpawnParams::new("cat")).unwrap().split().unwrap();
        let SplitProcess { mut stdin, mut stdout, end, .. } = split;
        let read = thread::Builder::new().spawn(move || stdout.read(&mut [0; 8])).unwrap();
        thread::sleep(Duration::from_millis(100));
        place.environment = None;
        let kind = read.join().unwrap().unwrap_err().kind();
        assert_eq!(kind, ErrorKind::ConnectionAborted);
        assert_eq!(stdin.write_all(b"x").unwrap_err().kind(), kind);
        end.wait().unwrap_err().kind().clone()
    });
}

#[test]
fn it_can_be_aborted_while_it_is_read() {
    over_all(|environment| {
        let process = environment.spawn(&SpawnParams::new("yes")).unwrap();
        let SplitProcess { mut stdout, end, .. } = process.split().unwrap();
        stdout.read_exact(&mut [0; 100_000]).unwrap();
        end.control().abort();
        std::io::copy(&mut stdout, &mut std::io::sink()).unwrap();
        end.wait().unwrap().signal
    });
}
