//! What a server, or a command, must not be able to do to `ta run`.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Done, Followed, Running, ta, ta_alone};
use crate::support::fake::{self, Fake};
use crate::support::{DEADLINE, Server, TempDir, base64, eventually, procfs};

/// What `ta run` may need while nobody reads what it has to write.
const MOST_KIB: u64 = 100 * 1024;

/// The server may see several of the bytes at once; a fake server, below, sends a chunk for each.
#[test]
fn single_bytes_that_nobody_reads_cost_little_memory() {
    const BYTES: usize = 300_000;
    let server = Server::start();
    for way in [&["-c"][..], &["--", "sh", "-c"]] {
        let dir = TempDir::new();
        let written = dir.join("written");
        let line =
            format!("dd if=/dev/zero bs=1 count={BYTES} 2>/dev/null; : >{}", written.display());
        let (mut running, stdout) = Running::start_unread(ta(&server, [way, &[&line]].concat()));
        let mut peak = 0;
        eventually(DEADLINE, "all is written", || {
            peak = peak.max(procfs::resident_kib(running.pid()));
            written.exists()
        });
        peak = peak.max(procfs::peak_kib(running.pid(), Duration::from_millis(300)));
        assert!(running.is_running(), "a pipe does not hold all of it");
        assert!(peak < MOST_KIB, "{peak} KiB");
        let stdout = Followed::new(stdout);
        assert_eq!(running.wait(), 0);
        assert_eq!(stdout.to_end().len(), BYTES);
    }
}

impl Fake {
    fn command(&self, way: &[&str]) -> Command {
        ta_alone([&["--exec", &self.url], way].concat())
    }

    /// What `ta run` makes of it.
    #[track_caller]
    fn finish(self, way: &[&str]) -> Done {
        let done = Running::start(self.command(way)).finish();
        self.join();
        done
    }
}

/// What the server says to a request to run something: for `process/exec` the messages before the
/// answer, for `process/spawn` those after it; `end` is the answer, or the `process/exit`.
fn run_as(output: Vec<Value>, end: Value) -> impl Fn(&Value) -> Vec<String> {
    move |request| {
        let process = &request["params"]["processId"];
        let mut seq = 0;
        // Member by member as the real one writes it, which is what `ta run` reads fastest.
        let mut chunk = |chunk: &Value| {
            seq += 1;
            let params = format!(r#"{{"processId":{process},"seq":{seq},"chunk":{chunk}}}"#);
            format!(r#"{{"jsonrpc":"2.0","method":"process/output","params":{params}}}"#)
        };
        let answer = |result: &Value| fake::answer(request, result);
        let mut all: Vec<_> = output.iter().map(&mut chunk).collect();
        match fake::method(request) {
            "process/exec" => all.push(answer(&end)),
            "process/spawn" => {
                all.insert(0, answer(&json!({"pid": 4711})));
                let mut params = end.clone();
                params["processId"] = process.clone();
                params["seq"] = json!(output.len() + 1);
                let exit = json!({"jsonrpc": "2.0", "method": "process/exit", "params": params});
                all.push(exit.to_string());
            }
            _ => all = vec![answer(&json!({}))],
        }
        all
    }
}

fn hello() -> Vec<Value> {
    vec![json!(base64("hello"))]
}

const WAYS: [&[&str]; 2] = [&["-c", "true"], &["--", "true"]];

fn end(stdout_bytes: u64) -> Value {
    json!({
        "exitCode": 0, "signal": null, "timedOut": false, "killed": false, "outputHeld": false,
        "durationMs": 1, "stdoutBytes": stdout_bytes, "stderrBytes": 0
    })
}

/// Shows that the fake is good enough for a run that succeeds.
#[test]
fn an_honest_fake_is_believed() {
    for way in WAYS {
        let done = Fake::start(run_as(hello(), end(5))).finish(way);
        done.assert(0, "hello", "");
    }
}

/// Each chunk that waited for a slow reader, were it one byte, had a buffer of 89 KB.
#[test]
fn small_chunks_that_nobody_reads_cost_little_memory() {
    const CHUNKS: usize = 100_000;
    for way in WAYS {
        let bytes = u64::try_from(CHUNKS).unwrap();
        let fake = Fake::start(run_as(vec![json!(base64("x")); CHUNKS], end(bytes)));
        let (mut running, stdout) = Running::start_unread(fake.command(way));
        let mut peak = 0;
        eventually(DEADLINE, "all has arrived", || {
            peak = peak.max(procfs::resident_kib(running.pid()));
            fake.has_arrived()
        });
        peak = peak.max(procfs::resident_kib(running.pid()));
        assert!(running.is_running(), "a pipe does not hold all of it");
        assert!(peak < MOST_KIB, "{peak} KiB");
        let stdout = Followed::new(stdout);
        assert_eq!(running.wait(), 0);
        assert_eq!(stdout.to_end().len(), CHUNKS);
        fake.join();
    }
}

/// Output that was lost on the way was not noticed, and the command's code was 0.
#[test]
fn an_end_that_counts_other_bytes_than_came_is_told() {
    for way in WAYS {
        for bytes in [0, 4, 6, u64::MAX] {
            let mut done = Fake::start(run_as(hello(), end(bytes))).finish(way);
            assert_eq!(done.code, 125, "{bytes}, {done:?}");
            assert_eq!(done.text(), "hello");
            done.stdout.clear();
            done.assert_failed(125, "");
        }
        Fake::start(run_as(Vec::new(), end(10))).finish(way).assert_failed(125, "");
    }
}

/// A chunk that could not be read was left out.
#[test]
fn a_chunk_that_is_not_base64_is_told() {
    for way in WAYS {
        for chunk in [json!("!!!"), json!("aGVsbG8"), json!(7)] {
            let done = Fake::start(run_as(vec![chunk.clone()], end(0))).finish(way);
            assert_eq!(done.code, 125, "{chunk}: {done:?}");
            done.assert_failed(125, "");
        }
    }
}

/// A notification of the end that could not be read was passed over, and `ta run` waited for ever.
#[test]
fn an_end_that_lacks_members_is_told() {
    for way in WAYS {
        for missing in ["outputHeld", "stdoutBytes", "stderrBytes"] {
            let mut end = end(0);
            end.as_object_mut().unwrap().remove(missing);
            let done = Fake::start(run_as(Vec::new(), end)).finish(way);
            assert_eq!(done.code, 125, "without {missing}: {done:?}");
            done.assert_failed(125, "");
        }
        Fake::start(run_as(Vec::new(), json!({}))).finish(way).assert_failed(125, "");
    }
}

/// What nobody takes, of a server that goes on without being told that it may, filled the memory.
#[test]
fn a_server_that_sends_more_than_its_window_lets_it_is_told_of() {
    const CHUNK: usize = 64 * 1024;
    const CHUNKS: usize = 200;
    for way in WAYS {
        let output = vec![json!(base64("x".repeat(CHUNK))); CHUNKS];
        let fake = Fake::start(run_as(output, end((CHUNK * CHUNKS) as u64)));
        let (mut running, stdout) = Running::start_unread(fake.command(way));
        eventually(DEADLINE, "all has arrived", || fake.has_arrived());
        assert!(running.is_running(), "a pipe does not hold all of it");
        let stdout = Followed::new(stdout);
        assert_eq!(running.wait(), 125);
        let length = stdout.to_end().len();
        assert!((CHUNK..=(1 << 20) + 3 * CHUNK).contains(&length), "{length} bytes");
        let said = String::from_utf8(running.stderr.to_end()).unwrap();
        assert!(said.lines().count() == 1 && said.contains("window"), "{said}");
        fake.join();
    }
}
