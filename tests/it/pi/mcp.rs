//! The stdio servers of pi's mcp.json.

use serde_json::json;

use super::there::{PROJECT, There};
use super::user::Rpc;
use super::{Here, Model, Pi, call, finish};
use crate::support::procfs::all_pids;
use crate::support::{DEADLINE, eventually, unique};

fn entry(server: &str) -> String {
    format!("/packages/node_modules/@modelcontextprotocol/{server}/dist/index.js")
}

#[test]
fn stdio_servers_run_there_with_its_roots_and_its_variables() {
    const NAME: &str = "stdio_servers_run_there_with_its_roots_and_its_variables";
    let Some(pi) = Pi::new(NAME) else { return };
    let Some(there) = There::start(NAME) else { return };
    there.write("sub/file.txt", "of the project there");
    let mark = unique();
    let server = |words: &[&str]| {
        json!({
            "command": words[0], "args": words[1..], "exposure": "direct",
            "env": {"MCP_MARK": mark, "FILLED_IN": "${A_SECRET_OF_THE_HOST}"},
        })
    };
    let servers = json!({"mcpServers": {
        "everything": server(&["node", &entry("server-everything"), "stdio"]),
        "filesystem": server(&["node", &entry("server-filesystem"), "/usr/share"]),
        "off": json!({"command": "touch", "args": ["/there/it-ran"], "enabled": false}),
    }});
    let steps = [vec![
        call("mcp__everything__echo", json!({"message": "grüße ✓"})),
        call("mcp__everything__get_env", json!({})),
        call("mcp__everything__get_roots_list", json!({})),
        call("mcp__filesystem__list_allowed_directories", json!({})),
        call("mcp__filesystem__read_text_file", json!({"path": format!("{PROJECT}/sub/file.txt")})),
        call("mcp__filesystem__read_text_file", json!({"path": "/etc/hostname"})),
        call(
            "mcp__filesystem__write_file",
            json!({
                "path": format!("{PROJECT}/sub/new.txt"), "content": "line ✓\n".repeat(200_000),
            }),
        ),
    ]];
    let (here, model) = (Here::new(), Model::that(&steps));
    here.dir.write("agent/mcp.json", servers.to_string());
    let before = here.files();
    let mut command = here.extended(&pi, &model);
    command.envs(there.variables()).args(["-p", "do it"]).stdin(std::process::Stdio::null());
    let done = finish(command);
    let came = model.sent().answers();
    assert_eq!(came[0], "Echo: grüße ✓", "{}", done.stderr);
    assert!(came[1].contains("\"HOME\": \"/there\""), "{}", came[1]);
    assert!(came[1].contains("\"FILLED_IN\": \"it stays here\""), "{}", came[1]);
    for not_there in ["\"A_SECRET_OF_THE_HOST\"", "TA_EXEC", "PI_CODING"] {
        assert!(!came[1].contains(not_there), "{}", came[1]);
    }
    assert!(came[2].contains(&format!("file://{PROJECT}")), "{}", came[2]);
    assert_eq!(came[3], format!("Allowed directories:\n{PROJECT}"));
    assert_eq!(came[4], "of the project there");
    assert!(came[5].contains("Access denied"), "{}", came[5]);
    assert!(there.read("sub/new.txt") == "line ✓\n".repeat(200_000), "another content");
    assert!(!there.path("/there/it-ran").exists());
    assert_eq!(here.files(), before);
    let mark = format!("MCP_MARK={mark}");
    let lives = |pid: &u32| {
        let variables = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        variables.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    eventually(DEADLINE, "no server is left", || !all_pids().any(|pid| lives(&pid)));
}

#[test]
fn a_server_that_fails_says_why_and_the_others_go_on() {
    const NAME: &str = "a_server_that_fails_says_why_and_the_others_go_on";
    let Some(pi) = Pi::new(NAME) else { return };
    let Some(there) = There::start(NAME) else { return };
    let servers = json!({"mcpServers": {
        "broken": {"command": "sh", "args": ["-c", "echo why it is broken >&2; exit 3"]},
        "missing": {"command": "/no/such/server"},
        "mute": {"command": "sh", "args": ["-c", "echo no JSON; exec cat >/dev/null"], "timeout": 1},
        "everything": {"command": "node", "args": [entry("server-everything"), "stdio"]},
    }});
    let (here, model) = (Here::new(), Model::that(&[]));
    here.dir.write("agent/mcp.json", servers.to_string());
    let mut rpc = Rpc::start(&here, &pi, &model, &there);
    let told = |rpc: &Rpc, parts: &[&str]| {
        rpc.until(&format!("{parts:?}"), |event| {
            let message = event["message"].as_str().unwrap_or_default();
            event["method"] == "notify" && parts.iter().all(|part| message.contains(part))
        })
    };
    told(&rpc, &["broken", "missing"]);
    rpc.send(&json!({"id": "ask", "type": "prompt", "message": "/mcp"}));
    let status = told(&rpc, &["everything", "connected"]);
    let status = status["message"].as_str().unwrap();
    for part in ["the server has ended (code 3)", "why it is broken", "/no/such/server"] {
        assert!(status.contains(part), "no {part} in {status}");
    }
}

#[test]
fn servers_that_have_a_url_are_reached_from_here() {
    const NAME: &str = "servers_that_have_a_url_are_reached_from_here";
    let Some(pi) = Pi::new(NAME) else { return };
    let Some(there) = There::start(NAME) else { return };
    let steps = [vec![
        call("mcp__web__where", json!({})),
        call("mcp__everything__echo", json!({"message": "there"})),
    ]];
    let (here, model, web) = (Here::new(), Model::that(&steps), Model::run("web.mjs", &json!({})));
    let command = ["node", &entry("server-everything"), "stdio"];
    let servers = json!({"mcpServers": {
        "web": {"url": format!("http://127.0.0.1:{}/mcp", web.port), "exposure": "direct"},
        "everything": {"command": command[0], "args": command[1..], "exposure": "direct"},
    }});
    here.dir.write("agent/mcp.json", servers.to_string());
    let mut command = here.extended(&pi, &model);
    command.envs(there.variables()).args(["-p", "do it"]).stdin(std::process::Stdio::null());
    finish(command);
    assert_eq!(model.sent().answers(), ["reached by HTTP", "Echo: there"]);
}

/// pi would start them here; so would it if it could not reach the environment.
#[test]
fn without_the_environment_no_server_is_started() {
    const NAME: &str = "without_the_environment_no_server_is_started";
    let Some(pi) = Pi::new(NAME) else { return };
    let (here, model) = (Here::new(), Model::that(&[]));
    let ran = here.dir.join("ran");
    let server = json!({"command": "touch", "args": [ran], "exposure": "direct"});
    here.dir.write("agent/mcp.json", json!({"mcpServers": {"it": server}}).to_string());
    let mut command = here.extended(&pi, &model);
    command.args(["-p", "do it"]).stdin(std::process::Stdio::null());
    let done = finish(command);
    assert!(done.stderr.contains("none is named"), "{}", done.stderr);
    assert!(!ran.exists());
}
