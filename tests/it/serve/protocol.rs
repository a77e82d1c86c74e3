//! The protocol itself: what is answered to what.

use serde_json::{Value, json};

use super::Place;

#[test]
fn the_revision_is_the_agent_s_where_it_is_known() {
    let place = Place::via();
    let mut agent = place.serve(&[]);
    for (wanted, expected) in [
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2024-11-05"),
        ("2099-12-31", "2025-06-18"),
    ] {
        let hello = json!({"protocolVersion": wanted, "capabilities": {}, "clientInfo": {}});
        let said = agent.result("initialize", &hello);
        assert_eq!(said["protocolVersion"], expected);
        assert_eq!(said["serverInfo"]["name"], "ta");
        assert_eq!(said["capabilities"], json!({"tools": {"listChanged": false}}));
        let directory = place.path().to_str().unwrap();
        assert!(said["instructions"].as_str().unwrap().contains(directory), "{said}");
    }
    agent.close();
}

#[test]
fn the_tools_have_schemas_and_say_what_they_may_do() {
    let place = Place::via();
    let mut agent = place.serve(&[]);
    agent.hello();
    let list = agent.result("tools/list", &json!({}));
    let tools = list["tools"].as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["read", "bash", "edit", "write", "ls", "find", "grep"]);
    for tool in tools {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert!(!tool["description"].as_str().unwrap().is_empty());
    }
    let hints = |at: usize| {
        let hints = &tools[at]["annotations"];
        ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"]
            .map(|name| hints[name].as_bool().unwrap())
    };
    assert_eq!(hints(0), [true, false, true, false]);
    assert_eq!(hints(1), [false, true, false, true]);
    assert_eq!(hints(2), [false, true, false, false]);
    assert_eq!(hints(3), [false, true, true, false]);
}

#[test]
fn what_is_wrong_is_an_error_and_the_server_goes_on() {
    let place = Place::via();
    let mut agent = place.serve(&[]);
    agent.hello();
    for (line, code, id) in [
        ("{", -32_700, json!(null)),
        ("[]", -32_600, json!(null)),
        ("17", -32_600, json!(null)),
        (r#"{"jsonrpc":"2.0","id":"x","method":"no/such"}"#, -32_601, json!("x")),
        (r#"{"jsonrpc":"2.0","id":5,"method":"resources/list"}"#, -32_601, json!(5)),
        (r#"{"jsonrpc":"2.0","id":6,"method":"tools/call"}"#, -32_602, json!(6)),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"Bash"}}"#,
            -32_602,
            json!(7),
        ),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32_600, json!(null)),
    ] {
        agent.line(line);
        let answer = agent.message();
        assert_eq!(
            (&answer["error"]["code"], &answer["id"]),
            (&json!(code), &id),
            "{line}: {answer}"
        );
    }
    agent.bytes(b"\xff\n");
    assert_eq!(agent.message()["error"]["code"], json!(-32_700));
    // Silence: notifications of whatever kind, and answers to nothing.
    agent.notify("notifications/cancelled", &json!({"requestId": 99}));
    agent.notify("notifications/cancelled", &json!({}));
    agent.notify("no/such", &json!([1]));
    agent.line(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    assert_eq!(agent.result("ping", &json!({})), json!({}));
    assert_eq!(agent.told, [] as [Value; 0]);
    agent.close();
}

#[test]
fn a_batch_of_march_2025_is_answered() {
    let place = Place::via();
    let mut agent = place.serve(&[]);
    agent.line(
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":2,"method":"ping"}]"#,
    );
    let ids = [agent.message()["id"].clone(), agent.message()["id"].clone()];
    assert_eq!(ids, [json!(1), json!(2)]);
}

#[test]
fn only_the_tools_that_are_named_are_offered() {
    let place = Place::via();
    let mut agent = place.serve(&["--tools", "grep, read"]);
    agent.hello();
    assert_eq!(agent.tools(), ["grep", "read"]);
    let id = agent.ask("tools/call", &json!({"name": "bash", "arguments": {"command": "true"}}));
    assert_eq!(agent.answer(id)["error"]["code"], json!(-32_602));
    agent.close();
    let refused = place.ta("serve", &["--tools", "read,nope"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let says = String::from_utf8(refused.stderr).unwrap();
    assert!(says.contains("\"nope\" is none of read, bash"), "{says}");
}

#[test]
fn an_environment_that_is_not_there_is_said_at_the_start() {
    let closed = crate::support::ClosedPort::new();
    let url = format!("ws://127.0.0.1:{}/exec", closed.port);
    let refused = crate::support::ta(&["serve", "--exec", &url]).output().unwrap();
    assert_eq!(refused.status.code(), Some(125));
    assert!(refused.stdout.is_empty());
    assert!(String::from_utf8(refused.stderr).unwrap().contains("cannot reach"));
}
