//! The official SDK's client and the MCP inspector, as agents.

use std::process::Stdio;

use serde_json::{Value, json};

use super::{Agent, Place, script};
use crate::real::{Host, installed};
use crate::support::{DEADLINE, TOKEN, Victim, binary, lacks};

const TOOLS: [&str; 7] = ["read", "bash", "edit", "write", "ls", "find", "grep"];
/// A stdio server that has run, and ends in time.
const MOST_CLOSING: u64 = 1900;

/// How `ta` is reached as a command.
pub(crate) fn command(place: &Place, command: &str, args: &[&str]) -> Value {
    let command = place.ta(command, args);
    let args: Vec<_> = command.get_args().map(|arg| arg.to_str().unwrap()).collect();
    let env =
        command.get_envs().filter_map(|(name, value)| Some((name.to_str()?, value?.to_str()?)));
    let env: serde_json::Map<String, Value> =
        env.map(|(name, value)| (name.to_owned(), json!(value))).collect();
    json!({"command": binary(), "args": args, "env": env})
}

/// All that an agent does.
#[track_caller]
fn session(place: &Place, packages: &std::path::Path, mut job: Value) -> Value {
    let victim = Victim::new();
    let seen = place.dir.join("seen");
    job["packages"] = json!(packages);
    job["victim"] = json!(victim.command());
    job["seen"] = json!(seen);
    job["calls"] = json!([
        {"tool": "write", "arguments": {"path": "sub/a.txt", "content": "zeile \u{e9}\nzwei\n"}},
        {"tool": "read", "arguments": {"path": "sub/a.txt"}},
        {"tool": "edit", "arguments": {"path": "sub/a.txt", "edits": [{"oldText": "zwei", "newText": "2"}]}},
        {"tool": "ls", "arguments": {}},
        {"tool": "find", "arguments": {"pattern": "*.txt"}},
        {"tool": "grep", "arguments": {"pattern": "zeile"}},
        {"tool": "bash", "arguments": {"command": "echo one; sleep .4; echo two; sleep .4; exit 3"}},
        {"tool": "bash", "arguments": {"command": "sleep 60", "timeout": 0.2}},
        {"tool": "read", "arguments": {"path": "none"}},
        {"tool": "nope", "arguments": {}},
    ]);
    let host = Host::run(&script("client.mjs"), &job);
    assert_eq!(host.text(), "begun");
    victim.await_alive();
    std::fs::write(&seen, "").unwrap();
    let came = host.line();
    victim.await_gone();
    assert_eq!(std::fs::read_to_string(place.dir.join("sub/a.txt")).unwrap(), "zeile \u{e9}\n2\n");
    check(&came);
    came
}

#[track_caller]
fn check(came: &Value) {
    assert_eq!(came["server"], "ta");
    assert_eq!(came["tools"], json!(TOOLS));
    let answer = |at: usize| {
        let answer = &came["answers"][at];
        (answer["text"].as_str().unwrap_or_default(), answer["failed"].as_bool().unwrap_or(true))
    };
    assert_eq!(answer(0), ("wrote 14 bytes to sub/a.txt", false), "{came}");
    assert_eq!(answer(1), ("zeile \u{e9}\nzwei\n", false));
    assert!(answer(2).0.contains("-zwei\n+2\n") && !answer(2).1, "{came}");
    assert_eq!(answer(3), ("sub/\n", false));
    assert_eq!(answer(4), ("sub/a.txt\n", false));
    assert_eq!(answer(5), ("sub/a.txt:1: zeile \u{e9}\n", false));
    assert_eq!(answer(6), ("one\ntwo\n\nCommand exited with code 3", true));
    assert_eq!(came["answers"][6]["progress"][0], "one\n", "{came}");
    assert_eq!(answer(7), ("(no output)\n\nCommand timed out after 0.2 seconds", true));
    assert!(answer(8).0.contains("no such file") && answer(8).1, "{came}");
    let unknown = came["answers"][9]["thrown"].as_str().unwrap();
    assert!(unknown.contains("-32602") && unknown.contains("nope"), "{came}");
    assert!(came["answers"][10]["thrown"].as_str().unwrap().contains("enough"), "{came}");
    assert_eq!(came["after"], "on\n");
}

#[test]
fn the_sdk_s_client_uses_all_tools_over_a_command() {
    let Some(packages) = installed("the_sdk_s_client_uses_all_tools_over_a_command") else {
        return;
    };
    super::over_both(|place| {
        let came = session(place, &packages, command(place, "serve", &[]));
        assert_eq!(came["ended"], json!({"code": 0, "signal": null}));
        assert!(came["closing"].as_u64().unwrap() < MOST_CLOSING, "{came}");
    });
}

#[test]
fn the_sdk_s_client_uses_all_tools_by_http() {
    let Some(packages) = installed("the_sdk_s_client_uses_all_tools_by_http") else { return };
    let place = Place::websocket();
    let mut listening = place.ta("serve", &["--listen", "127.0.0.1:0"]);
    listening.env("TA_SERVE_TOKEN", TOKEN);
    let agent = Agent::start(listening);
    let line = agent.stderr.first_line(DEADLINE).unwrap();
    let url = line.split_whitespace().last().unwrap();
    session(&place, &packages, json!({"url": url, "token": TOKEN}));
}

/// Runs the inspector's command line.
pub(crate) fn inspect(packages: &std::path::Path, job: &Value, args: &[&str]) -> Value {
    let inspector = packages.join("node_modules/.bin/mcp-inspector");
    let mut inspect = std::process::Command::new(inspector);
    inspect.arg("--cli");
    for (name, value) in job["env"].as_object().unwrap() {
        inspect.args(["-e", &format!("{name}={}", value.as_str().unwrap())]);
    }
    inspect.arg(job["command"].as_str().unwrap());
    inspect.args(job["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()));
    let done = inspect.args(args).stdin(Stdio::null()).output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{args:?}: {stdout}\n{stderr}");
    serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{args:?}: {stdout}\n{stderr}"))
}

#[test]
fn the_inspector_lists_and_calls_tools() {
    let Some(packages) = installed("the_inspector_lists_and_calls_tools") else { return };
    if lacks("the_inspector_lists_and_calls_tools", "node") {
        return;
    }
    let place = Place::websocket();
    place.dir.write("a.txt", "hello\n");
    let job = command(&place, "serve", &[]);
    let list = inspect(&packages, &job, &["--method", "tools/list"]);
    let names: Vec<_> =
        list["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, TOOLS);
    let read = ["--method", "tools/call", "--tool-name", "read", "--tool-arg", "path=a.txt"];
    let read = inspect(&packages, &job, &read);
    assert_eq!(read["content"][0]["text"], "hello\n");
}
