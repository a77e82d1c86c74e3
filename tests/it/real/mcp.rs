//! MCP servers, spoken to by the client of the official SDK.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Host, Remote, installed, over_both};
use crate::support::{TempDir, best_of_three, sys, unique};

/// Code that keeps a server up when its stdin has ended.
const LINGERS: &str = "data:text/javascript,setInterval(()=>{},1e6)";
/// The same, and on SIGTERM too.
const STAYS: &str = "data:text/javascript,setInterval(()=>{},1e6);process.on('SIGTERM',()=>{})";

fn everything(packages: &Path) -> String {
    entry(packages, "server-everything")
}

fn entry(packages: &Path, server: &str) -> String {
    let file = format!("node_modules/@modelcontextprotocol/{server}/dist/index.js");
    packages.join(file).to_str().unwrap().to_owned()
}

fn calls(packages: &Path, remote: &Remote, calls: Value) -> Value {
    let mut job = remote.job(packages);
    job["calls"] = calls;
    job
}

/// All that a client does, from its start to the end of the server.
#[track_caller]
fn session(packages: &Path, remote: &Remote, wanted: Value) -> Value {
    let came = Host::start("mcp.mjs", &calls(packages, remote, wanted)).line();
    remote.await_gone();
    came
}

#[test]
fn tools_progress_and_resources() {
    let Some(packages) = installed("tools_progress_and_resources") else { return };
    over_both(|way| {
        let remote = Remote::new(way, &["node", &everything(&packages), "stdio"]);
        let wanted = json!([
            {"tool": "echo", "arguments": {"message": "grüße ✓"}},
            {"tool": "get-sum", "arguments": {"a": 40, "b": 2}},
            {"tool": "trigger-long-running-operation", "arguments": {"duration": 0.5, "steps": 5}},
            {"tool": "get-env", "arguments": {}},
        ]);
        let came = session(&packages, &remote, wanted);

        let tools = came["tools"].as_array().unwrap();
        for tool in ["echo", "get-sum", "get-tiny-image", "gzip-file-as-resource"] {
            assert!(tools.contains(&json!(tool)), "no {tool} in {tools:?}");
        }
        let text = |answer: usize| came["answers"][answer]["text"].as_str().unwrap();
        assert_eq!(text(0), "Echo: grüße ✓");
        assert_eq!(text(1), "The sum of 40 and 2 is 42.");
        assert!(text(2).starts_with("Long running operation completed."), "{came}");
        let progress = came["answers"][2]["progress"].as_array().unwrap();
        let late = came["answers"][2]["late"].as_array().unwrap();
        let steps: Vec<_> = (1..=5).map(|step| json!([step, 5])).collect();
        assert!(steps.starts_with(progress) && progress.len() + late.len() == 5, "{came}");
        let about_progress = |late: &Value| late.as_str().unwrap().contains("progress");
        assert!(!progress.is_empty() && late.iter().all(about_progress), "{late:?}");
        let (name, value) = remote.mark.split_once('=').unwrap();
        let variables: Value = serde_json::from_str(text(3)).unwrap();
        assert_eq!(variables[name], json!(value), "it runs where it should");
        assert_eq!(variables["TA_EXEC_TOKEN"], Value::Null, "the token is the host's");
        assert!(came["resource"].as_str().unwrap().contains("MCP"), "{came}");
        assert!(came["stderr"].as_str().unwrap().starts_with("Starting default"), "{came}");
        assert_eq!(came["ended"], json!({"code": 0, "signal": null}));
    });
}

#[test]
fn files() {
    let Some(packages) = installed("files") else { return };
    over_both(|way| {
        let scratch = TempDir::new();
        let server = entry(&packages, "server-filesystem");
        let root = scratch.path().to_str().unwrap();
        let remote = Remote::new(way, &["node", &server, root]);
        // Long enough for many pieces on every way, with characters that must not be cut.
        let content = "zeile mit ünïcödé ✓\n".repeat(50_000);
        let (file, outside) = (scratch.join("a file.txt"), "/etc/hostname");
        let wanted = json!([
            {"tool": "write_file", "arguments": {"path": file, "content": content}},
            {"tool": "create_directory", "arguments": {"path": scratch.join("sub")}},
            {"tool": "list_directory", "arguments": {"path": root}},
            {"tool": "read_text_file", "arguments": {"path": file}},
            {"tool": "read_text_file", "arguments": {"path": outside}},
        ]);
        let came = session(&packages, &remote, wanted);

        let answer = |answer: usize| {
            let answer = &came["answers"][answer];
            (answer["text"].as_str().unwrap(), answer["failed"].as_bool().unwrap())
        };
        assert!(std::fs::read_to_string(&file).unwrap() == content, "another content");
        assert!(scratch.join("sub").is_dir());
        assert_eq!(answer(2), ("[FILE] a file.txt\n[DIR] sub", false));
        assert!(answer(3) == (&content, false), "another content comes back");
        assert!(answer(4).1 && answer(4).0.contains("Access denied"), "{:?}", answer(4));
        assert_eq!(came["ended"], json!({"code": 0, "signal": null}));
    });
}

/// The client closes stdin; after 2 s it sends SIGTERM, after 2 s more SIGKILL.
#[test]
fn a_server_that_lingers_is_ended_by_the_closing() {
    let Some(packages) = installed("a_server_that_lingers_is_ended_by_the_closing") else { return };
    over_both(|way| {
        for import in [LINGERS, STAYS] {
            let command = ["node", "--import", import, &everything(&packages), "stdio"];
            let remote = Remote::new(way, &command);
            best_of_three(Duration::from_millis(3900), "the end of a server", || {
                let came = session(&packages, &remote, json!([]));
                let closing = Duration::from_millis(came["closing"].as_u64().unwrap());
                // What ends `ta` early it hands on, and then ends of it. Later the client kills it.
                let signal = if closing < Duration::from_secs(4) { "SIGTERM" } else { "SIGKILL" };
                assert_eq!(came["ended"], json!({"code": null, "signal": signal}));
                closing
            });
        }
    });
}

/// What is killed leaves a server with no more than the end of its stdin, which ends it as it would
/// here; without `ta` it ends in any case.
#[test]
fn killing_the_client_or_ta_leaves_nothing() {
    let Some(packages) = installed("killing_the_client_or_ta_leaves_nothing") else { return };
    let server = everything(&packages);
    over_both(|way| {
        let plain = ["node", &server, "stdio"].to_vec();
        let lingering = ["node", "--import", LINGERS, &server, "stdio"].to_vec();
        for (command, kills_ta) in [(plain.clone(), false), (plain, true), (lingering, true)] {
            let remote = Remote::new(way, &command);
            let mut job = calls(&packages, &remote, json!([]));
            job["stay"] = json!(true);
            let host = Host::start("mcp.mjs", &job);
            let ta = host.line()["pid"].as_u64().unwrap().try_into().unwrap();
            assert_eq!(remote.pids().len(), 1, "the server runs");
            let victim = if kills_ta { ta } else { host.child.id() };
            sys::signal(victim, libc::SIGKILL).unwrap();
            remote.await_gone();
        }
    });
}

/// To the client it is a command that ends at once, and says why on stderr.
#[test]
fn a_server_that_cannot_start_says_so() {
    let Some(packages) = installed("a_server_that_cannot_start_says_so") else { return };
    over_both(|way| {
        let none = format!("/none/{}", unique());
        for (command, says) in [(&["node", &none][..], "Cannot find module"), (&[&none], "ta: ")] {
            let remote = Remote::new(way, command);
            let came = session(&packages, &remote, json!([]));
            assert_eq!(came["refused"], "MCP error -32000: Connection closed");
            let stderr = came["stderr"].as_str().unwrap();
            assert!(stderr.contains(says) && stderr.contains(&none), "{stderr}");
        }
    });
}
