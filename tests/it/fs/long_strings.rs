//! A long string is content where it is the member of the params that the method has for it, and
//! nowhere else.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::noise;
use crate::support::{Peer, RpcError, TempDir, base64, over_both};

/// What may stand between two tokens.
const SPACES: [&str; 3] = ["", " ", "\t \r "];

type Member = (&'static str, String);

fn long() -> String {
    base64(noise(9_000, 7))
}

fn quoted(text: &str) -> String {
    json!(text).to_string()
}

/// All orders of these.
fn orders(members: &[Member]) -> Vec<Vec<Member>> {
    let Some((first, rest)) = members.split_first() else { return vec![Vec::new()] };
    let mut all = Vec::new();
    for order in orders(rest) {
        for at in 0..=order.len() {
            let mut order = order.clone();
            order.insert(at, first.clone());
            all.push(order);
        }
    }
    all
}

fn object(members: &[Member], space: &str) -> String {
    let mut text = "{".to_owned();
    for (n, (name, value)) in members.iter().enumerate() {
        let comma = if n == 0 { "" } else { "," };
        write!(text, "{comma}{space}\"{name}\"{space}:{space}{value}{space}").unwrap();
    }
    text + "}"
}

fn request(method: &str, params: &str) -> Vec<Member> {
    let (version, id, params) = (quoted("2.0"), "7".to_owned(), params.to_owned());
    vec![("jsonrpc", version), ("id", id), ("method", quoted(method)), ("params", params)]
}

#[track_caller]
fn outcome(peer: &mut Peer, members: &[Member], space: &str) -> Result<Value, RpcError> {
    peer.send(&object(members, space));
    peer.answer("7")
}

/// Sends this; the file must have this content then.
#[track_caller]
fn writes(peer: &mut Peer, members: &[Member], space: &str, dir: &TempDir, expected: &[u8]) {
    let text = object(members, space);
    if let Err(error) = outcome(peer, members, space) {
        panic!("{text:.300}: {error:?}");
    }
    let found = std::fs::read(dir.join("f")).unwrap();
    assert!(found == expected, "{} bytes, for {text:.300}", found.len());
    std::fs::remove_file(dir.join("f")).unwrap();
}

fn target(dir: &TempDir) -> Member {
    ("path", quoted(dir.join("f").to_str().unwrap()))
}

#[test]
fn a_long_variable_reaches_a_program_whatever_its_name() {
    over_both(|peer| {
        let long = long();
        for name in ["chunk", "dataBase64", "a\"chunk", "dataBase64\\\""] {
            let env = json!({name: long});
            let line = format!("{name}={long}");
            let has =
                |environ: &[u8]| environ.split(|byte| *byte == 0).any(|v| v == line.as_bytes());
            let done = peer.exec(json!({"command": "cat /proc/$$/environ", "env": env}));
            assert!(has(&done.stdout), "process/exec: {name} is something else");
            let args = ["/proc/self/environ"];
            let done = peer.run(json!({"command": "cat", "args": args, "env": env}));
            assert!(has(&done.stdout), "process/spawn: {name} is something else");
        }
    });
}

#[test]
fn a_long_string_beside_the_content_of_a_file_is_not_the_content() {
    over_both(|peer| {
        let dir = TempDir::new();
        let (long, content) = (quoted(&long()), ("dataBase64", quoted("QUJD")));
        let nested = [
            ("chunk", long.clone()),
            ("x", format!("{{\"chunk\":{long}}}")),
            ("x", format!("{{\"dataBase64\" : {long}}}")),
            ("x", format!("[{{\"dataBase64\":{long}}}]")),
            ("x", format!("{{\"params\":{{\"dataBase64\":{long}}}}}")),
            ("x", quoted(&format!("\"dataBase64\":{long}"))),
        ];
        for space in SPACES {
            for other in &nested {
                for params in orders(&[target(&dir), content.clone(), other.clone()]) {
                    let request = request("fs/writeFile", &object(&params, space));
                    writes(peer, &request, space, &dir, b"ABC");
                }
            }
        }
    });
}

#[test]
fn a_long_string_beside_the_params_is_not_the_content() {
    over_both(|peer| {
        let dir = TempDir::new();
        let params = object(&[target(&dir), ("dataBase64", quoted("QUJD"))], "");
        for name in ["chunk", "dataBase64"] {
            for space in SPACES {
                let mut members = request("fs/writeFile", &params);
                members.remove(0);
                members.push((name, quoted(&long())));
                for mut order in orders(&members) {
                    order.push(("jsonrpc", quoted("2.0")));
                    writes(peer, &order, space, &dir, b"ABC");
                }
            }
        }
    });
}

#[test]
fn a_long_string_in_another_place_is_no_content_of_a_file() {
    over_both(|peer| {
        let dir = TempDir::new();
        let long = quoted(&long());
        let nested = format!("{{\"dataBase64\":{long}}}");
        for other in [("x", nested), ("chunk", long)] {
            for params in orders(&[target(&dir), other]) {
                let request = request("fs/writeFile", &object(&params, ""));
                let error = outcome(peer, &request, "").unwrap_err();
                assert_eq!(error.code, -32602, "{error:?}");
            }
        }
        assert!(!dir.join("f").exists());
    });
}

#[test]
fn a_long_string_beside_the_chunk_of_a_write_is_not_the_chunk() {
    over_both(|peer| {
        let process = peer.spawn(json!({"command": "cat"}));
        let id = ("processId", quoted(&process));
        let (chunk, other) = (("chunk", quoted("QUJD")), ("dataBase64", quoted(&long())));
        let mut expected = Vec::new();
        for space in SPACES {
            for params in orders(&[id.clone(), chunk.clone(), other.clone()]) {
                let request = request("process/write", &object(&params, space));
                assert_eq!(outcome(peer, &request, space).unwrap(), json!({}));
                expected.extend_from_slice(b"ABC");
            }
        }
        peer.ok("process/write", &json!({"processId": process, "eof": true}));
        let found = peer.exit(&process).stdout;
        assert!(found == expected, "{} bytes of {}", found.len(), expected.len());
    });
}

#[test]
fn a_long_content_is_taken_in_every_order_of_the_members() {
    over_both(|peer| {
        let dir = TempDir::new();
        let (long, sync) = (("dataBase64", quoted(&long())), ("sync", "false".to_owned()));
        for (n, params) in orders(&[target(&dir), long, sync]).into_iter().enumerate() {
            let space = SPACES[n % SPACES.len()];
            for request in orders(&request("fs/writeFile", &object(&params, space))) {
                writes(peer, &request, space, &dir, &noise(9_000, 7));
            }
        }
    });
}

#[test]
fn a_long_chunk_is_taken_in_every_order_of_the_members() {
    over_both(|peer| {
        let process = peer.spawn(json!({"command": "cat"}));
        let (id, chunk) = (("processId", quoted(&process)), ("chunk", quoted(&long())));
        let mut expected = Vec::new();
        for (n, params) in orders(&[id, chunk]).into_iter().enumerate() {
            let space = SPACES[n + 1];
            for request in orders(&request("process/write", &object(&params, space))) {
                assert_eq!(outcome(peer, &request, space).unwrap(), json!({}));
                expected.extend(noise(9_000, 7));
            }
        }
        peer.ok("process/write", &json!({"processId": process, "eof": true}));
        assert!(peer.exit(&process).stdout == expected);
    });
}

#[test]
fn a_member_that_is_there_twice_is_invalid_however_long() {
    over_both(|peer| {
        let dir = TempDir::new();
        let (long, short) = (quoted(&long()), quoted("QUJD"));
        for [first, second] in [[&long, &short], [&short, &long], [&long, &long], [&short, &short]]
        {
            let data = |value: &String| ("dataBase64", value.clone());
            for space in SPACES {
                for params in orders(&[target(&dir), data(first), data(second)]) {
                    let request = request("fs/writeFile", &object(&params, space));
                    let error = outcome(peer, &request, space).unwrap_err();
                    assert_eq!(error.code, -32602, "{error:?}");
                    assert!(!dir.join("f").exists(), "written");
                }
            }
        }
    });
}
