//! Params of `fs/*`: a wrong one is -32602 and named.

use serde_json::{Value, json};

use super::{names, path, read};
use crate::support::params::{with, without, wrong};
use crate::support::{TempDir, over_both};

/// Each method with right params, for a directory that holds `f`.
fn methods(dir: &TempDir) -> [(&'static str, Value); 9] {
    let file = dir.join("f").to_str().unwrap().to_owned();
    let (from, to) = (json!(file), json!(dir.join("g").to_str().unwrap()));
    [
        ("fs/readFile", path(&file)),
        ("fs/writeFile", json!({"path": file, "dataBase64": "bmV3"})),
        ("fs/stat", path(&file)),
        ("fs/readdir", path(dir.path())),
        ("fs/mkdir", path(dir.join("d"))),
        ("fs/remove", path(&file)),
        ("fs/rename", json!({"from": from, "to": to})),
        ("fs/copy", json!({"from": from, "to": to})),
        ("fs/realpath", path(&file)),
    ]
}

#[test]
fn a_missing_or_wrong_path_is_named() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.write("f", "old");
        for (method, right) in methods(&dir) {
            let members: Vec<_> = right.as_object().unwrap().keys().cloned().collect();
            for member in &members {
                wrong(peer, method, &without(&right, member), member);
                for value in [json!(null), json!(5), json!(true), json!([])] {
                    wrong(peer, method, &with(&right, member, value), member);
                }
            }
            for member in members.iter().filter(|member| *member != "dataBase64") {
                for value in [
                    json!("a\u{0}b"),
                    json!("\u{0}"),
                    json!({"base64": "YQBi"}),
                    json!({"base64": "?"}),
                    json!({"base64": 5}),
                    json!({}),
                    json!({"path": "x"}),
                ] {
                    wrong(peer, method, &with(&right, member, value), member);
                }
            }
        }
        assert_eq!(read(peer, &file), b"old");
        assert_eq!(names(dir.path()), ["f"]);
    });
}

#[test]
fn a_wrong_option_is_named() {
    let numbers = || [json!(-1), json!(1.5), json!("1"), json!(true), json!([])];
    let modes = || [json!(-1), json!(0o10_000), json!("644"), json!("0o644"), json!(1.5)];
    let flags = || [json!(0), json!("true"), json!({}), json!(1)];
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.write("f", "old");
        let all = methods(&dir);
        let mut each = |method: &str, member: &str, values: &[Value]| {
            let (_, right) = all.iter().find(|(name, _)| *name == method).unwrap();
            for value in values {
                wrong(peer, method, &with(right, member, value.clone()), member);
            }
        };
        each("fs/readFile", "offset", &numbers());
        each("fs/readFile", "length", &numbers());
        each("fs/readFile", "offset", &[json!(1e300), json!(-9_007_199_254_740_993_i64)]);
        for member in ["append", "createParents", "sync"] {
            each("fs/writeFile", member, &flags());
        }
        each("fs/writeFile", "mode", &modes());
        each("fs/writeFile", "ifVersion", &[json!(5), json!(false), json!({})]);
        each("fs/writeFile", "dataBase64", &[json!("%"), json!("YQ"), json!({"base64": ""})]);
        each("fs/stat", "followSymlinks", &flags());
        each("fs/mkdir", "recursive", &flags());
        each("fs/mkdir", "mode", &modes());
        each("fs/remove", "recursive", &flags());
        each("fs/remove", "force", &flags());
        each("fs/copy", "recursive", &flags());
        assert_eq!(read(peer, &file), b"old");
        assert_eq!(names(dir.path()), ["f"]);
    });
}

#[test]
fn an_unknown_member_is_ignored_and_null_is_absent() {
    over_both(|peer| {
        let dir = TempDir::new();
        dir.write("f", "old");
        let options = [
            "offset",
            "length",
            "append",
            "mode",
            "createParents",
            "ifVersion",
            "sync",
            "followSymlinks",
            "recursive",
            "force",
        ];
        for (method, right) in methods(&dir) {
            let mut params = with(&right, "unknown", json!({"x": []}));
            for option in options {
                params[option] = json!(null);
            }
            // Those that take the file away come after each other.
            if !dir.join("f").exists() {
                dir.write("f", "old");
            }
            peer.ok(method, &params);
        }
    });
}

#[test]
fn the_notification_form_does_nothing() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.write("f", "old");
        for (method, params) in methods(&dir) {
            peer.notify(method, &params);
        }
        peer.assert_quiet();
        assert_eq!(read(peer, &file), b"old");
        assert_eq!(names(dir.path()), ["f"]);
    });
}

#[test]
fn params_that_are_no_object_are_refused() {
    over_both(|peer| {
        let dir = TempDir::new();
        for (method, _) in methods(&dir) {
            for params in [json!("x"), json!(5), json!(null)] {
                let error = peer.error(method, &params);
                assert!([-32602, -32600].contains(&error.code), "{method} {params}: {error:?}");
            }
        }
    });
}
