//! One group of requests to one server.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::Group;
use crate::codex::peer::Peer;
use crate::support::{TempDir, base64, unbase64};

/// A step, and what came of it; the directory is `$D` in it.
pub(super) struct Told {
    pub(super) step: String,
    pub(super) answer: Value,
}

/// How long a message may go without an answer, before that is the answer.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn tell(address: SocketAddr, group: &Group, user: Option<u32>) -> Vec<Told> {
    let dir = TempDir::new();
    fill(&dir, group, user);
    let path = dir.path().to_str().unwrap();
    let mut peer = Peer::silent_at(address, &[]);
    if !group.raw {
        peer.begin();
    }
    let mut started = HashSet::new();
    let mut told = Vec::new();
    for step in &group.steps {
        let answer = match step {
            _ if peer.closing.is_some() => json!("the connection has ended"),
            Value::Array(request) => {
                let method = request[0].as_str().unwrap();
                peer.request(method, &filled_in(&request[1], path));
                let answer = answer(&mut peer);
                if method == "process/start" && answer.get("result").is_some() {
                    started.insert(request[1]["processId"].as_str().unwrap().to_owned());
                }
                answer
            }
            Value::String(text) => {
                peer.send(filled_in(&json!(text), path).as_str().unwrap());
                answer(&mut peer)
            }
            step => match (step["await"].as_str(), step["until"].as_array()) {
                (Some(process), _) if !started.contains(process) => json!("it was not started"),
                (Some(process), _) => outcome(&mut peer, process, group.sorted),
                (_, Some(until)) => {
                    peer.until(until[0].as_str().unwrap(), until[1].as_str().unwrap());
                    continue;
                }
                _ => panic!("what kind of step is {step}?"),
            },
        };
        let answer = serde_json::from_str(&answer.to_string().replace(path, "$D")).unwrap();
        told.push(Told { step: step.to_string(), answer });
    }
    open_all(&dir);
    told
}

fn answer(peer: &mut Peer) -> Value {
    match peer.next_answer_within(PATIENCE) {
        Some(answer) => answer,
        None if peer.closing.is_some() => json!("the connection has ended"),
        None => json!("nothing"),
    }
}

fn fill(dir: &TempDir, group: &Group, user: Option<u32>) {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-ec", &format!("umask 022; {}", group.setup)]).current_dir(dir.path());
    if let Some(user) = user {
        std::os::unix::fs::chown(dir.path(), Some(user), Some(user)).unwrap();
        shell.uid(user).gid(user);
    }
    assert!(shell.status().unwrap().success(), "{}", group.name);
}

/// So that all of it can be removed.
fn open_all(dir: &TempDir) {
    let _ = Command::new("chmod").args(["-R", "u+rwx"]).arg(dir.path()).status();
}

/// `$D` is the directory, `$U` its URI; what is long has a name.
fn filled_in(value: &Value, dir: &str) -> Value {
    match value {
        Value::String(text) => {
            let blocks = [("$BIGGER", (1 << 20) + 1), ("$BIG", 1 << 20)];
            if let Some((_, length)) = blocks.iter().find(|(name, _)| name == text) {
                return json!(base64(vec![0; *length]));
            }
            let text = text.replace("$U", &format!("file://{dir}")).replace("$D", dir);
            let text = text.replace("$LONG", &"n".repeat(256));
            json!(text.replace("$DEEP", &format!("{}n", "n/".repeat(3000))))
        }
        Value::Array(items) => items.iter().map(|item| filled_in(item, dir)).collect(),
        Value::Object(members) => {
            let pair = |(name, value): (&String, &Value)| (name.clone(), filled_in(value, dir));
            Value::Object(members.iter().map(pair).collect())
        }
        other => other.clone(),
    }
}

/// What became of a process that is closed. (In which order output and exit were told is nobody's
/// promise, and what Codex's own server has not told it says when it is asked.)
fn outcome(peer: &mut Peer, process: &str, sorted: bool) -> Value {
    peer.closed(process);
    // (By an id that is no other's: the others are compared.)
    let params = json!({"processId": process});
    peer.send(&json!({"id": -77, "method": "process/read", "params": params}).to_string());
    let read = peer.answer(-77).unwrap();
    let stream = |name: &str| {
        let chunks = read["chunks"].as_array().unwrap().iter();
        let chunks = chunks.filter(|chunk| chunk["stream"] == name);
        let bytes = chunks.flat_map(|chunk| unbase64(chunk["chunk"].as_str().unwrap()));
        // (As Latin-1, so that every byte is seen.)
        let text: String = bytes.map(char::from).collect();
        match (text.chars().count(), sorted) {
            (count @ 4000.., false) => json!(format!("{count} bytes")),
            (_, false) => json!(text),
            (_, true) => {
                let mut lines: Vec<_> = text.lines().collect();
                lines.sort_unstable();
                json!(lines)
            }
        }
    };
    json!({
        "stdout": stream("stdout"), "stderr": stream("stderr"), "pty": stream("pty"),
        "exitCode": read["exitCode"], "sandboxDenied": read["sandboxDenied"],
    })
}
