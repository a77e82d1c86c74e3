//! Running commands and programs, and what came of them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Peer;
use crate::support::capture::Capture;
use crate::support::{DEADLINE, procfs, unique};

/// An exec in flight.
pub(crate) struct Running {
    pub(crate) id: String,
    pub(crate) process: String,
    since: Instant,
}

/// How a process ended, and all it wrote.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub(crate) result: Value,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) elapsed: Duration,
}

impl Done {
    pub(crate) fn code(&self) -> Option<i64> {
        self.result["exitCode"].as_i64()
    }

    pub(crate) fn signal(&self) -> Option<&str> {
        self.result["signal"].as_str()
    }

    #[track_caller]
    pub(crate) fn is(&self, flag: &str) -> bool {
        self.result[flag].as_bool().unwrap_or_else(|| panic!("no {flag}: {self:?}"))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub(crate) fn errors(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    #[track_caller]
    pub(crate) fn assert_success(&self) {
        let stderr = self.errors();
        assert_eq!(self.code(), Some(0), "{} {stderr:.1000}", self.result);
    }
}

impl Peer {
    /// Runs a command line to its end.
    #[track_caller]
    pub(crate) fn exec(&mut self, params: Value) -> Done {
        let running = self.start_exec(params);
        self.finish(&running)
    }

    /// Runs a command line to its end, for tests that need nothing but its text.
    #[track_caller]
    pub(crate) fn sh(&mut self, command: &str) -> Done {
        self.exec(json!({"command": command}))
    }

    #[track_caller]
    pub(crate) fn start_exec(&mut self, mut params: Value) -> Running {
        let process = name_process(&mut params, "e");
        let since = Instant::now();
        let id = self.request("process/exec", &params);
        Running { id, process, since }
    }

    #[track_caller]
    pub(crate) fn finish(&mut self, running: &Running) -> Done {
        self.finish_within(running, DEADLINE)
    }

    #[track_caller]
    pub(crate) fn finish_within(&mut self, running: &Running, limit: Duration) -> Done {
        let result = match self.answer_within(&running.id, limit) {
            Ok(result) => result,
            Err(error) => panic!("process/exec failed: {error:?}"),
        };
        for flag in ["timedOut", "killed", "outputHeld"] {
            assert!(result[flag].is_boolean(), "{flag} in {result}");
        }
        assert!(result["durationMs"].is_u64(), "durationMs in {result}");
        self.done(&running.process, result, running.since.elapsed())
    }

    /// Starts a program; returns its process id in the protocol's sense.
    #[track_caller]
    pub(crate) fn spawn(&mut self, params: Value) -> String {
        self.spawn_with_pid(params).0
    }

    /// Starts a program; its process id in the protocol's sense, and in the kernel's.
    #[track_caller]
    pub(crate) fn spawn_with_pid(&mut self, mut params: Value) -> (String, u32) {
        let process = name_process(&mut params, "s");
        let result = self.ok("process/spawn", &params);
        let pid = result["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        (process, pid.unwrap_or_else(|| panic!("no pid in {result}")))
    }

    /// Waits for the `process/exit` of a spawned program.
    #[track_caller]
    pub(crate) fn exit(&mut self, process: &str) -> Done {
        let since = Instant::now();
        let over = |peer: &Self| peer.captures[process].exit.is_some();
        self.wait_until(DEADLINE, &format!("process/exit of {process}"), over);
        let exit = self.captures[process].exit.clone().unwrap();
        assert!(exit["outputHeld"].is_boolean(), "outputHeld in {exit}");
        self.done(process, exit, since.elapsed())
    }

    #[track_caller]
    pub(crate) fn run(&mut self, params: Value) -> Done {
        let process = self.spawn(params);
        self.exit(&process)
    }

    #[track_caller]
    fn done(&self, process: &str, result: Value, elapsed: Duration) -> Done {
        let both = (&result["exitCode"], &result["signal"]);
        let valid = match both {
            (Value::Number(code), Value::Null) => code.is_i64() || code.is_u64(),
            (Value::Null, Value::String(_) | Value::Null) => true,
            _ => false,
        };
        assert!(valid, "exitCode and signal in {result}");
        let capture = &self.captures[process];
        let (stdout, stderr) = (capture.stdout.clone(), capture.stderr.clone());
        Done { result, stdout, stderr, elapsed }
    }

    /// Starts some that write without end and of which nothing is read from then on. With several, who
    /// comes behind them is not served from the little that a socket still takes when it looks full.
    #[track_caller]
    pub(crate) fn fill_the_transport(&mut self) -> Vec<String> {
        let (processes, pids): (Vec<_>, Vec<_>) =
            (0..4).map(|_| self.spawn_with_pid(json!({"command": "yes"}))).unzip();
        for process in &processes {
            self.capture(process).discard = true;
        }
        procfs::await_stalled_for(&pids, Duration::from_millis(500));
        processes
    }

    #[track_caller]
    pub(crate) fn kill(&mut self, process: &str) -> bool {
        let result = self.ok("process/kill", &json!({"processId": process}));
        result["running"].as_bool().expect("running")
    }

    pub(crate) fn capture(&mut self, process: &str) -> &mut Capture {
        self.captures.get_mut(process).expect("a known process")
    }

    /// Whether the end of the process has been told.
    pub(crate) fn is_over(&self, process: &str) -> bool {
        self.captures.get(process).is_some_and(Capture::is_over)
    }

    /// How many bytes of output have arrived.
    pub(crate) fn received(&self, process: &str) -> usize {
        self.captures.get(process).map_or(0, Capture::received)
    }

    #[track_caller]
    pub(crate) fn await_stdout(&mut self, process: &str, text: &str) {
        let seen =
            |peer: &Self| String::from_utf8_lossy(&peer.captures[process].stdout).contains(text);
        self.wait_until(DEADLINE, &format!("{text:?} from {process}"), seen);
    }
}

fn name_process(params: &mut Value, prefix: &str) -> String {
    if params["processId"].is_null() {
        params["processId"] = json!(format!("{prefix}{}", unique()));
    }
    params["processId"].as_str().expect("processId is a string").to_owned()
}
