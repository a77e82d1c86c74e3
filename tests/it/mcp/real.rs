//! Real servers from npm, by `ta mcp` and by `ta serve --mcp-config`.

use std::path::Path;

use serde_json::{Value, json};

use crate::real::{Host, installed};
use crate::serve::real::{command, inspect};
use crate::serve::{Agent, over_both};

fn entry(packages: &Path, server: &str) -> String {
    let file = format!("node_modules/@modelcontextprotocol/{server}/dist/index.js");
    packages.join(file).to_str().unwrap().to_owned()
}

fn image(agent: &mut Agent, tool: &str) -> Value {
    let result = agent.result("tools/call", &json!({"name": tool, "arguments": {}}));
    let pieces = result["content"].as_array().unwrap().iter();
    pieces.filter(|piece| piece["type"] == "image").map(|piece| piece["mimeType"].clone()).collect()
}

#[test]
fn server_everything_runs_there() {
    let Some(packages) = installed("server_everything_runs_there") else { return };
    let server = entry(&packages, "server-everything");
    over_both(|place| {
        let mut agent = Agent::start(place.ta("mcp", &["--", "node", &server, "stdio"]));
        agent.hello();
        let echoed = agent.call("echo", &json!({"message": "gr\u{fc}\u{df}e"}));
        assert_eq!(echoed.as_deref(), Ok("Echo: gr\u{fc}\u{df}e"));
        assert_eq!(image(&mut agent, "get-tiny-image"), json!(["image/png"]));
        agent.close_stdin();
        agent.exit(std::time::Duration::from_secs(10));

        let config = json!({"mcpServers": {
            "every thing": {"command": "node", "args": [server, "stdio"]},
        }});
        let file = place.dir.write("config.json", config.to_string());
        let mut agent = place.serve(&["--mcp-config", file.to_str().unwrap()]);
        agent.hello();
        let tools = agent.tools();
        assert!(tools.contains(&"every_thing__get-sum".to_owned()), "{tools:?}");
        let sum = agent.call("every_thing__get-sum", &json!({"a": 40, "b": 2}));
        assert_eq!(sum.as_deref(), Ok("The sum of 40 and 2 is 42."));
        assert_eq!(image(&mut agent, "every_thing__get-tiny-image"), json!(["image/png"]));
        let long = json!({
            "name": "every_thing__trigger-long-running-operation",
            "arguments": {"duration": 0.5, "steps": 5}, "_meta": {"progressToken": "p"},
        });
        let id = agent.ask("tools/call", &long);
        agent.answer(id);
        let steps: Vec<_> = agent
            .told
            .iter()
            .filter(|told| told["params"]["progressToken"] == json!("p"))
            .map(|told| (told["params"]["progress"].clone(), told["params"]["total"].clone()))
            .collect();
        let expected: Vec<_> = (1..=5).map(|step| (json!(step), json!(5))).collect();
        assert_eq!(steps, expected);
        agent.close();
    });
}

/// Its allowed directories become the roots that it is told: the environment's directory, where the
/// agent's own would be another machine's.
#[test]
fn server_filesystem_works_in_the_environment_s_directory() {
    let Some(packages) = installed("server_filesystem_works_in_the_environment_s_directory") else {
        return;
    };
    let server = entry(&packages, "server-filesystem");
    over_both(|place| {
        let file = place.dir.write("a.txt", "hello\n");
        let read = json!({"path": file});
        let outside = json!({"path": "/etc/hostname"});
        let mut agent = Agent::start(
            place.ta("mcp", &["--", "node", &server, "/nonexistent-but-told", "/usr"]),
        );
        agent.hello();
        // Once it has asked for the roots.
        crate::support::eventually(crate::support::DEADLINE, "it reads there", || {
            agent.call("read_text_file", &read).as_deref() == Ok("hello\n")
        });
        assert!(agent.call("read_text_file", &outside).unwrap_err().contains("Access denied"));
        assert!(agent.told.iter().all(|told| told["method"] != "roots/list"), "{:?}", agent.told);
        agent.close_stdin();
        agent.exit(std::time::Duration::from_secs(10));

        let config = json!({"mcpServers": {"fs": {"command": "node", "args": [server, "/usr"]}}});
        let config = place.dir.write("config.json", config.to_string());
        let mut agent = place.serve(&["--mcp-config", config.to_str().unwrap()]);
        agent.hello();
        crate::support::eventually(crate::support::DEADLINE, "it reads there", || {
            agent.call("fs__read_text_file", &read).as_deref() == Ok("hello\n")
        });
        assert!(agent.call("fs__read_text_file", &outside).unwrap_err().contains("Access denied"));
        agent.close();
    });
}

/// The SDK closes stdin, sends SIGTERM 2 s later, and SIGKILL 2 s after that.
#[test]
fn the_sdk_s_client_and_the_inspector_drive_it() {
    let Some(packages) = installed("the_sdk_s_client_and_the_inspector_drive_it") else { return };
    let server = entry(&packages, "server-everything");
    let stays = "data:text/javascript,setInterval(()=>{},1e6);process.on('SIGTERM',()=>{})";
    over_both(|place| {
        for (options, most) in [(&[][..], 1900), (&["--import", stays][..], 5000)] {
            let words = [&["--", "node"], options, &[server.as_str(), "stdio"]].concat();
            let mut job = command(place, "mcp", &words);
            job["packages"] = json!(packages);
            job["calls"] = json!([
                {"tool": "echo", "arguments": {"message": "hi"}},
                {"tool": "trigger-long-running-operation", "arguments": {"duration": 0.5, "steps": 5}},
            ]);
            let came = Host::start("mcp.mjs", &job).line();
            assert_eq!(came["answers"][0]["text"], "Echo: hi", "{came}");
            assert!(came["answers"][1]["progress"][0][0] == json!(1), "{came}");
            assert!(came["closing"].as_u64().unwrap() < most, "{came}");
            if options.is_empty() {
                assert_eq!(came["ended"], json!({"code": 0, "signal": null}), "{came}");
            }
        }
        let job = command(place, "mcp", &["node", &server, "stdio"]);
        let list = inspect(&packages, &job, &["--method", "tools/list"]);
        assert!(list["tools"].as_array().unwrap().len() > 5, "{list}");
    });
}
