//! How often the environment is asked.

use std::sync::Arc;

use serde_json::{Value, json};
use ta_exec::client::ExecClient;
use ta_exec::environment::RemoteExecEnvironment;
use ta_exec::tools::{Tool, Tools};

use super::shown;
use crate::support::proxy::Proxy;
use crate::support::{Setup, TOKEN, TempDir};

#[test]
fn a_call_is_one_round_trip() {
    let dir = TempDir::new();
    let server = Setup::new().args(["--cwd", dir.path().to_str().unwrap()]).listen();
    let proxy = Proxy::to(server.address);
    let client = ExecClient::websocket(&proxy.url(), Some(TOKEN)).unwrap();
    let tools = Tools::new(Arc::new(RemoteExecEnvironment::new(client).unwrap()));
    let answers = || {
        let passed = proxy.passed(0);
        String::from_utf8_lossy(&passed.down).matches("\"jsonrpc\":\"2.0\",\"id\":").count()
    };
    for number in 0..500 {
        dir.write(&format!("file {number:03}"), "one\n");
    }
    let calls: [(Tool, Value, usize); 7] = [
        (Tool::Ls, json!({}), 1),
        (Tool::Read, json!({"path": "file 007"}), 1),
        (Tool::Write, json!({"path": "new/a", "content": "one\n"}), 1),
        (Tool::Find, json!({"pattern": "a"}), 1),
        (Tool::Grep, json!({"pattern": "one", "path": "new"}), 1),
        (Tool::Bash, json!({"command": "echo hi"}), 1),
        // It has to see what it changes.
        (Tool::Edit, json!({"path": "new/a", "edits": [{"oldText": "one", "newText": "two"}]}), 2),
    ];
    for (tool, arguments, expected) in calls {
        let before = answers();
        let text = shown(&tools, tool, &arguments).unwrap();
        assert_eq!(answers() - before, expected, "{tool:?}: {text}");
        if tool == Tool::Ls {
            assert_eq!(text.lines().count(), 500);
        }
    }
}
