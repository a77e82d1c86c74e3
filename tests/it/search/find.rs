//! `fs/find`.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixListener;

use serde_json::{Value, json};

use super::{below, files, found};
use crate::support::{Peer, TempDir, over_both};

fn tree() -> TempDir {
    let dir = TempDir::new();
    let names = ["a.rs", "b.txt", "README.md", ".hidden/x.rs", "src/main.rs", "src/deep/er/lib.rs"];
    files(&dir, &names.map(|name| (name, "")));
    dir
}

#[track_caller]
fn finds(peer: &mut Peer, dir: &TempDir, params: &Value, expected: &[&str]) {
    let (paths, truncated) = found(peer, dir.path(), params);
    assert_eq!(paths, expected, "{params}");
    assert!(!truncated, "{params}");
}

#[test]
fn a_name_is_found_at_any_depth_and_a_path_where_it_is() {
    over_both(|peer| {
        let dir = tree();
        let rust = [".hidden/x.rs", "a.rs", "src/deep/er/lib.rs", "src/main.rs"];
        finds(peer, &dir, &json!({"pattern": "*.rs"}), &rust);
        finds(peer, &dir, &json!({"pattern": "src/*.rs"}), &["src/main.rs"]);
        finds(peer, &dir, &json!({"pattern": "./src/*.rs"}), &["src/main.rs"]);
        finds(peer, &dir, &json!({"pattern": "/src/*.rs"}), &["src/main.rs"]);
        finds(peer, &dir, &json!({"pattern": "**/*.rs"}), &rust);
        finds(peer, &dir, &json!({"pattern": "er"}), &["src/deep/er"]);
        finds(peer, &dir, &json!({"pattern": "{a,x}.rs"}), &[".hidden/x.rs", "a.rs"]);
        finds(peer, &dir, &json!({"pattern": "[ab].*"}), &["a.rs", "b.txt"]);
        finds(peer, &dir, &json!({"pattern": "nothing"}), &[]);
    });
}

#[test]
fn without_a_pattern_all_is_found_in_order_with_its_type() {
    over_both(|peer| {
        let dir = tree();
        let all = [
            ".hidden",
            ".hidden/x.rs",
            "README.md",
            "a.rs",
            "b.txt",
            "src",
            "src/deep",
            "src/deep/er",
            "src/deep/er/lib.rs",
            "src/main.rs",
        ];
        finds(peer, &dir, &json!({}), &all);
        finds(peer, &dir, &json!({"pattern": ""}), &all);
        finds(
            peer,
            &dir,
            &json!({"hidden": false, "maxDepth": 1}),
            &["README.md", "a.rs", "b.txt", "src"],
        );
        let _listener = UnixListener::bind(dir.join("socket")).unwrap();
        std::os::unix::fs::symlink("src", dir.join("to-src")).unwrap();
        std::os::unix::fs::symlink("to-self", dir.join("to-self")).unwrap();
        super::mkfifo(&dir.join("fifo"));
        let result = peer.ok("fs/find", &below(dir.path(), &json!({"maxDepth": 1})));
        let types: Vec<_> =
            result["entries"].as_array().unwrap().iter().map(|entry| &entry["type"]).collect();
        let expected = [
            "directory",
            "file",
            "file",
            "file",
            "fifo",
            "socket",
            "directory",
            "symlink",
            "symlink",
        ];
        assert_eq!(types, expected.map(|kind| json!(kind)).iter().collect::<Vec<_>>());
    });
}

#[test]
fn capitals_count_where_the_pattern_has_some() {
    over_both(|peer| {
        let dir = TempDir::new();
        files(&dir, &[("Makefile", ""), ("MAKEFILE.in", ""), ("x/makefile", "")]);
        finds(peer, &dir, &json!({"pattern": "make*"}), &["MAKEFILE.in", "Makefile", "x/makefile"]);
        finds(peer, &dir, &json!({"pattern": "Make*"}), &["Makefile"]);
    });
}

#[test]
fn what_gitignore_names_is_left_out_without_a_repository_too() {
    over_both(|peer| {
        let dir = TempDir::new();
        let all = [
            (".gitignore", "*.log\n/target\n!keep.log\n"),
            ("a.log", ""),
            ("keep.log", ""),
            ("target/x", ""),
            ("src/target/y", ""),
            ("src/.gitignore", "y\n"),
            (".git/config", ""),
        ];
        files(&dir, &all);
        let kept = [".gitignore", "keep.log", "src", "src/.gitignore", "src/target"];
        finds(peer, &dir, &json!({}), &kept);
        let (paths, _) = found(peer, dir.path(), &json!({"gitignore": false}));
        assert!(
            paths.contains(&"target/x".to_owned()) && paths.contains(&"src/target/y".to_owned())
        );
        assert!(!paths.iter().any(|path| path.starts_with(".git/")), "{paths:?}");
    });
}

#[test]
fn what_is_to_be_ignored_is_not_entered() {
    over_both(|peer| {
        let dir = TempDir::new();
        files(
            &dir,
            &[("node_modules/a/x.js", ""), ("src/x.js", ""), ("src/node_modules/y.js", "")],
        );
        let ignore = json!({"pattern": "*.js", "ignore": ["**/node_modules/**", "**/.git/**"]});
        finds(peer, &dir, &ignore, &["src/x.js"]);
        finds(peer, &dir, &json!({"ignore": ["node_modules"]}), &["src", "src/x.js"]);
    });
}

#[test]
fn the_first_ones_in_order_are_answered() {
    over_both(|peer| {
        let dir = TempDir::new();
        for number in (0..300).rev() {
            files(&dir, &[(&format!("{}/f{number:03}", number % 7), "")]);
        }
        let (all, truncated) = found(peer, dir.path(), &json!({"pattern": "f*"}));
        assert_eq!((all.len(), truncated), (300, false));
        let mut sorted = all.clone();
        sorted.sort();
        assert_eq!(all, sorted);
        for limit in [1, 2, 99, 299] {
            let (some, truncated) =
                found(peer, dir.path(), &json!({"pattern": "f*", "limit": limit}));
            assert_eq!(some, all[..limit]);
            assert!(truncated, "{limit}");
        }
        let (some, truncated) = found(peer, dir.path(), &json!({"pattern": "f*", "limit": 300}));
        assert_eq!((some.len(), truncated), (300, false));
    });
}

#[test]
fn a_name_that_is_not_utf_8_is_found() {
    over_both(|peer| {
        let dir = TempDir::new();
        std::fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"a\xff.rs")), "").unwrap();
        let result = peer.ok("fs/find", &below(dir.path(), &json!({"pattern": "*.rs"})));
        let expected =
            json!([{"path": {"base64": crate::support::base64(b"a\xff.rs")}, "type": "file"}]);
        assert_eq!(result["entries"], expected);
    });
}

#[test]
fn a_root_that_is_none_and_a_glob_that_is_none_are_refused() {
    over_both(|peer| {
        let dir = tree();
        for (path, code) in [("nowhere", "ENOENT"), ("a.rs", "ENOTDIR"), ("a.rs/x", "ENOTDIR")] {
            let error = peer.error("fs/find", &below(dir.join(path), &json!({})));
            assert_eq!(error.data_code(), code, "{error:?}");
            assert!(error.message.contains(path), "{error:?}");
        }
        for (wrong, named) in [
            (json!({"pattern": "a{b"}), "pattern"),
            (json!({"pattern": "[a"}), "pattern"),
            (json!({"ignore": ["[a"]}), "ignore"),
            (json!({"limit": 0}), "limit"),
            (json!({"limit": "1"}), "limit"),
            (json!({"maxDepth": -1}), "maxDepth"),
            (json!({"pattern": "a".repeat(70_000)}), "pattern"),
            (json!({"processId": ""}), "processId"),
        ] {
            let error = peer.error("fs/find", &below(dir.path(), &wrong));
            assert_eq!(error.code, -32602, "{wrong:.100}: {error:?}");
            assert!(error.message.contains(named), "{wrong:.100}: {error:?}");
        }
        finds(peer, &dir, &json!({"pattern": "a.rs"}), &["a.rs"]);
    });
}

#[test]
fn links_are_not_followed_but_for_the_root() {
    over_both(|peer| {
        let dir = tree();
        std::os::unix::fs::symlink(".", dir.join("loop")).unwrap();
        finds(peer, &dir, &json!({"pattern": "main.rs"}), &["src/main.rs"]);
        let (paths, _) = found(peer, dir.join("loop"), &json!({"pattern": "main.rs"}));
        assert_eq!(paths, ["src/main.rs"]);
    });
}
