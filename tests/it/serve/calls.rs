//! Calls of the tools.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{over_both, text_of};
use crate::support::{Victim, unbase64};

#[test]
fn each_tool_works_on_the_environment() {
    over_both(|place| {
        let mut agent = place.serve(&[]);
        agent.hello();
        let written = agent.call("write", &json!({"path": "d/a.txt", "content": "one\ntwo\n"}));
        assert_eq!(written.as_deref(), Ok("wrote 8 bytes to d/a.txt"));
        assert_eq!(fs::read_to_string(place.dir.join("d/a.txt")).unwrap(), "one\ntwo\n");
        let edits = json!([{"oldText": "two", "newText": "2"}]);
        let edited = agent.call("edit", &json!({"path": "d/a.txt", "edits": edits})).unwrap();
        assert!(edited.contains("-two\n+2\n"), "{edited}");
        assert_eq!(agent.call("read", &json!({"path": "d/a.txt"})).as_deref(), Ok("one\n2\n"));
        assert_eq!(agent.call("ls", &json!({})).as_deref(), Ok("d/\n"));
        assert_eq!(agent.call("find", &json!({"pattern": "*.txt"})).as_deref(), Ok("d/a.txt\n"));
        assert_eq!(
            agent.call("grep", &json!({"pattern": "^o"})).as_deref(),
            Ok("d/a.txt:1: one\n")
        );
        let pwd = agent.call("bash", &json!({"command": "pwd"}));
        assert_eq!(pwd, Ok(format!("{}\n", place.path().display())));
        let failed = agent.call("bash", &json!({"command": "echo x >&2; exit 3"}));
        assert_eq!(failed, Err("x\n\nCommand exited with code 3".to_owned()));
        let missing = agent.call("read", &json!({"path": "none"})).unwrap_err();
        assert!(missing.contains("no such file"), "{missing}");
        let wrong = agent.call("read", &json!({"path": 7})).unwrap_err();
        assert!(wrong.contains("path"), "{wrong}");
        agent.close();
    });
}

#[test]
fn an_image_comes_as_one() {
    over_both(|place| {
        let image = [&b"\x89PNG\r\n\x1a\n"[..], &[7; 1000]].concat();
        place.dir.write("p", &image);
        let mut agent = place.serve(&[]);
        agent.hello();
        let call = json!({"name": "read", "arguments": {"path": "p"}});
        let result = agent.result("tools/call", &call);
        let piece = &result["content"][1];
        assert_eq!((&piece["type"], &piece["mimeType"]), (&json!("image"), &json!("image/png")));
        assert_eq!(unbase64(piece["data"].as_str().unwrap()), image);
    });
}

#[test]
fn calls_run_side_by_side() {
    over_both(|place| {
        let mut agent = place.serve(&[]);
        agent.hello();
        // Each waits for the other.
        let line = |own: &str, other: &str| {
            format!(": > {own}.is; until [ -e {other}.is ]; do sleep .01; done; echo {own}")
        };
        let ask = |command: String| json!({"name": "bash", "arguments": {"command": command}});
        let first = agent.ask("tools/call", &ask(line("a", "b")));
        let second = agent.ask("tools/call", &ask(line("b", "a")));
        let (mut one, mut two) = (Value::Null, Value::Null);
        for _ in 0..2 {
            let answer = agent.message();
            let to = if answer["id"] == json!(first) { &mut one } else { &mut two };
            *to = answer["result"].clone();
        }
        assert!(second > first);
        assert_eq!((text_of(&one).unwrap(), text_of(&two).unwrap()), ("a\n".into(), "b\n".into()));
    });
}

#[test]
fn a_cancellation_ends_the_command_and_is_not_answered() {
    over_both(|place| {
        let mut agent = place.serve(&[]);
        agent.hello();
        let victim = Victim::new();
        let command = format!("trap '' TERM; {} & wait", victim.command());
        let call = json!({"name": "bash", "arguments": {"command": command}});
        let id = agent.ask("tools/call", &call);
        victim.await_alive();
        agent.notify("notifications/cancelled", &json!({"requestId": id, "reason": "enough"}));
        victim.await_gone();
        assert_eq!(agent.call("bash", &json!({"command": "echo on"})).as_deref(), Ok("on\n"));
        assert_eq!(agent.told, [] as [Value; 0], "a cancelled call has no answer");
        agent.close();
    });
}

#[test]
fn progress_has_the_output_as_it_comes_and_grows() {
    over_both(|place| {
        let mut agent = place.serve(&[]);
        agent.hello();
        let command = "echo first; until [ -e go ]; do sleep .01; done; echo last";
        let call = json!({
            "name": "bash", "arguments": {"command": command}, "_meta": {"progressToken": "t-1"},
        });
        let id = agent.ask("tools/call", &call);
        let told = agent.message();
        assert_eq!(told["method"], "notifications/progress");
        let expected = json!({"progressToken": "t-1", "progress": 6, "message": "first\n"});
        assert_eq!(told["params"], expected);
        place.dir.write("go", "");
        assert_eq!(text_of(&agent.answer(id)["result"]).as_deref(), Ok("first\nlast\n"));
        // A command that writes all the time is told of ten times a second, not of each line.
        let command = "end=$((SECONDS + 2)); while [ $SECONDS -lt $end ]; do echo x; done";
        let call = json!({
            "name": "bash", "arguments": {"command": command}, "_meta": {"progressToken": 2},
        });
        let start = Instant::now();
        let id = agent.ask("tools/call", &call);
        let answer = agent.answer(id);
        if let Some(kept) = answer["result"]["_meta"]["ta/details"]["fullOutputPath"].as_str() {
            fs::remove_file(kept).unwrap();
        }
        let most = start.elapsed().as_millis() / 100 + 1;
        assert!(agent.told.len() as u128 <= most, "{} in {most}", agent.told.len());
        let grows = agent.told.windows(2).all(|pair| {
            let at = |told: &Value| told["params"]["progress"].as_u64().unwrap();
            at(&pair[0]) < at(&pair[1])
        });
        assert!(grows && !agent.told.is_empty(), "{:?}", agent.told);
    });
}

#[test]
fn an_id_that_is_in_use_is_refused_and_free_afterwards() {
    over_both(|place| {
        let mut agent = place.serve(&[]);
        agent.hello();
        let call = |command: &str| {
            json!({"jsonrpc": "2.0", "id": "one", "method": "tools/call",
                   "params": {"name": "bash", "arguments": {"command": command}}})
        };
        agent.send(&call("until [ -e go ]; do sleep .01; done; echo done"));
        agent.send(&call("true"));
        let refused = agent.message();
        assert_eq!((&refused["error"]["code"], &refused["id"]), (&json!(-32_600), &json!("one")));
        place.dir.write("go", "");
        assert_eq!(text_of(&agent.message()["result"]).as_deref(), Ok("done\n"));
        agent.send(&call("echo again"));
        assert_eq!(text_of(&agent.message()["result"]).as_deref(), Ok("again\n"));
    });
}

#[test]
fn too_many_calls_are_refused_and_the_others_go_on() {
    over_both(|place| {
        let mut agent = place.serve(&[]);
        agent.hello();
        let victim = Victim::new();
        let call = json!({"name": "bash", "arguments": {"command": victim.command()}});
        let ids: Vec<_> = (0..65).map(|_| agent.ask("tools/call", &call)).collect();
        let refused = agent.answer(ids[64]);
        assert!(refused["error"]["message"].as_str().unwrap().contains("64 calls"), "{refused}");
        assert_eq!(agent.result("ping", &json!({})), json!({}));
        victim.await_count(64);
        agent.close_stdin();
        assert!(agent.exit(Duration::from_secs(8)).success());
        victim.await_gone();
    });
}
