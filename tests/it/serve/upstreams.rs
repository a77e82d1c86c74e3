//! The stdio servers of `--mcp-config`.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Agent, Place, over_both, script};
use crate::support::{DEADLINE, eventually, lacks, procfs, sys, unique};

/// Servers as a config has them; what runs of them is known by `mark`.
struct Servers {
    mark: String,
    servers: serde_json::Map<String, Value>,
}

impl Servers {
    fn new() -> Self {
        Self { mark: format!("mark-{}", unique()), servers: serde_json::Map::new() }
    }

    fn fake(mut self, name: &str, modes: &[&str]) -> Self {
        let fake = script("fake.py");
        let args = [&[fake.to_str().unwrap(), &self.mark], modes].concat();
        let entry = json!({"command": "python3", "args": args, "env": {"GIVEN": "by the config"}});
        self.servers.insert(name.to_owned(), entry);
        self
    }

    fn other(mut self, name: &str, entry: Value) -> Self {
        self.servers.insert(name.to_owned(), entry);
        self
    }

    fn serve(&self, place: &Place) -> Agent {
        let file = place.dir.write("config.json", json!({"mcpServers": self.servers}).to_string());
        let mut agent = place.serve(&["--mcp-config", file.to_str().unwrap()]);
        agent.hello();
        agent
    }

    /// Those that run.
    fn pids(&self) -> Vec<u32> {
        let has_it = |pid: &u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|word| word == self.mark.as_bytes())
        };
        procfs::all_pids().filter(has_it).collect()
    }

    #[track_caller]
    fn await_gone(&self) {
        eventually(Duration::from_secs(5), "no server is left", || self.pids().is_empty());
    }
}

#[test]
fn their_tools_are_offered_and_work_there() {
    if lacks("their_tools_are_offered_and_work_there", "python3") {
        return;
    }
    over_both(|place| {
        let servers = Servers::new().fake("my fake", &[]);
        let mut agent = servers.serve(place);
        let tools = agent.tools();
        let own = ["read", "bash", "edit", "write", "ls", "find", "grep"];
        assert_eq!(tools[..7], own);
        assert_eq!(tools[7..9], ["my_fake__echo", "my_fake__get_env"]);
        assert_eq!(tools.len(), 15, "all pages: {tools:?}");
        // Longer than any pipe holds.
        let long = "zeile \u{e9}\n".repeat(100_000);
        let echoed = agent.call("my_fake__echo", &json!({"text": long}));
        assert!(echoed.as_deref() == Ok(&long));
        let variable = |agent: &mut Agent, name: &str| {
            agent.call("my_fake__get_env", &json!({"name": name})).unwrap()
        };
        assert_eq!(variable(&mut agent, "GIVEN"), "by the config");
        assert_eq!(variable(&mut agent, "TA_EXEC_TOKEN"), "(unset)");
        let directory = place.path().to_str().unwrap();
        assert_eq!(agent.call("my_fake__cwd", &json!({})).as_deref(), Ok(directory));
        let root = format!("file://{directory}");
        assert_eq!(agent.call("my_fake__roots", &json!({})), Ok(root));
        let id = agent.ask("tools/call", &json!({"name": "my_fake__fail"}));
        let expected = json!({"code": -32_007, "message": "as asked", "data": [1]});
        assert_eq!(agent.answer(id)["error"], expected);
        assert!(agent.stderr.text().contains("my fake: ready to serve"), "{}", agent.stderr.text());
        assert_eq!(servers.pids().len(), 1);
        agent.close();
        servers.await_gone();
    });
}

#[test]
fn progress_and_cancellation_are_passed_on() {
    if lacks("progress_and_cancellation_are_passed_on", "python3") {
        return;
    }
    over_both(|place| {
        let mut agent = Servers::new().fake("f", &[]).serve(place);
        let call = json!({"name": "f__slow", "arguments": {}, "_meta": {"progressToken": "mine"}});
        let id = agent.ask("tools/call", &call);
        let told = agent.message();
        let expected =
            json!({"progressToken": "mine", "progress": 1, "total": 2, "message": "half"});
        assert_eq!(told["params"], expected, "{told}");
        agent.notify("notifications/cancelled", &json!({"requestId": id}));
        eventually(DEADLINE, "the server has heard of it", || {
            agent.call("f__cancelled", &json!({})).as_deref() == Ok("True")
        });
        assert_eq!(agent.told, [] as [Value; 0]);
        agent.close();
    });
}

#[test]
fn one_that_fails_is_said_and_left_out() {
    if lacks("one_that_fails_is_said_and_left_out", "python3") {
        return;
    }
    over_both(|place| {
        let none = format!("no-such-program-{}", unique());
        let servers = Servers::new()
            .fake("good", &[])
            .fake("bad", &["refuses"])
            .other("none", json!({"command": none}))
            .other("silent", json!({"command": "true"}))
            .other("web", json!({"type": "http", "url": "http://127.0.0.1:1/mcp"}));
        let mut agent = servers.serve(place);
        let tools = agent.tools();
        assert_eq!(tools.len(), 15, "{tools:?}");
        assert!(tools[7..].iter().all(|tool| tool.starts_with("good__")), "{tools:?}");
        for part in [
            "\"none\" is left out",
            &none,
            "bad: there is no key",
            "\"bad\" is left out",
            "\"silent\" is left out",
            "\"web\" has no command",
        ] {
            agent.stderr.wait_for(part);
        }
        agent.close();
    });
}

#[test]
fn one_that_dies_takes_its_tools_with_it() {
    if lacks("one_that_dies_takes_its_tools_with_it", "python3") {
        return;
    }
    over_both(|place| {
        let mut agent = Servers::new().fake("a", &[]).fake("b", &[]).serve(place);
        assert_eq!(agent.tools().len(), 23);
        let died = agent.call("a__die", &json!({})).unwrap_err();
        assert!(died.contains("\"a\" has ended"), "{died}");
        let id = agent.ask("ping", &json!({}));
        agent.answer(id);
        eventually(DEADLINE, "its tools are gone", || agent.tools().len() == 15);
        let changed = json!("notifications/tools/list_changed");
        assert!(agent.told.iter().any(|told| told["method"] == changed), "{:?}", agent.told);
        assert!(agent.stderr.text().contains("(exit code 7)"), "{}", agent.stderr.text());
        assert_eq!(agent.call("b__echo", &json!({"text": "on"})).as_deref(), Ok("on"));
        let id = agent.ask("tools/call", &json!({"name": "a__echo", "arguments": {"text": "x"}}));
        assert_eq!(agent.answer(id)["error"]["code"], json!(-32_602));
        agent.close();
    });
}

/// The SDK's client gives 2 s, then comes SIGTERM.
#[test]
fn one_that_does_not_end_by_itself_is_ended() {
    if lacks("one_that_does_not_end_by_itself_is_ended", "python3") {
        return;
    }
    over_both(|place| {
        for mode in ["lingers", "stays"] {
            let servers = Servers::new().fake("f", &[mode]);
            let mut agent = servers.serve(place);
            assert_eq!(agent.tools().len(), 15);
            assert_eq!(servers.pids().len(), 1, "it runs");
            agent.close();
            servers.await_gone();
        }
    });
}

#[test]
fn killed_it_leaves_no_server() {
    if lacks("killed_it_leaves_no_server", "python3") {
        return;
    }
    over_both(|place| {
        let servers = Servers::new().fake("f", &["stays"]);
        let mut agent = servers.serve(place);
        assert_eq!(agent.tools().len(), 15);
        assert_eq!(servers.pids().len(), 1, "it runs");
        sys::signal(agent.child.id(), libc::SIGKILL).unwrap();
        servers.await_gone();
    });
}

#[test]
fn a_config_that_is_none_is_refused() {
    let place = Place::via();
    for (content, part) in [("{}", "mcpServers"), ("{\"mcpServers\": {\"a\": 1}}", "mcpServers.a")]
    {
        let file = place.dir.write("config.json", content);
        let path = file.to_str().unwrap();
        let refused = place.ta("serve", &["--mcp-config", path]).output().unwrap();
        assert_eq!(refused.status.code(), Some(2));
        let says = String::from_utf8(refused.stderr).unwrap();
        assert!(says.contains(part) && says.contains(path), "{says}");
    }
}
