//! `ls`, `find` and `grep`.

use std::fs;
use std::os::unix::fs::symlink;
use std::thread;

use serde_json::json;
use ta_exec::tools::{Call, Tool};

use super::{outcome_of, over_all, shown};
use crate::support::TempDir;

fn tree(dir: &TempDir) {
    fs::create_dir_all(dir.join("src/deep")).unwrap();
    fs::create_dir_all(dir.join("node_modules/x")).unwrap();
    dir.write("src/a.rs", "fn one() {}\nlet x = 1;\nfn two() {}\n");
    dir.write("src/deep/b.rs", format!("// fn three\n{}\n", "x".repeat(600)));
    dir.write("node_modules/x/c.rs", "fn four\n");
    dir.write("ignored.rs", "fn five\n");
    dir.write(".gitignore", "ignored.rs\n");
    dir.write(".hidden.rs", "fn six\n");
    symlink("src", dir.join("link")).unwrap();
    symlink("none", dir.join("dangling")).unwrap();
}

#[test]
fn a_directory_is_listed() {
    over_all(|tools, dir| {
        tree(dir);
        let listed = shown(tools, Tool::Ls, &json!({})).unwrap();
        let expected = ".gitignore\n.hidden.rs\ndangling\nignored.rs\nlink/\nnode_modules/\nsrc/\n";
        assert_eq!(listed, expected);
        let two = shown(tools, Tool::Ls, &json!({"path": ".", "limit": 2})).unwrap();
        assert_eq!(two, ".gitignore\n.hidden.rs\n\n[2 of 7 entries; limit=7 shows all]");
        [
            shown(tools, Tool::Ls, &json!({"path": "src/a.rs"})),
            shown(tools, Tool::Ls, &json!({"path": "x"})),
        ]
        .map(|failed| failed.unwrap_err())
    });
}

#[test]
fn names_are_found() {
    over_all(|tools, dir| {
        tree(dir);
        let find = |arguments| shown(tools, Tool::Find, &arguments);
        let all = find(json!({"pattern": "*.rs"}));
        assert_eq!(all.as_deref(), Ok(".hidden.rs\nsrc/a.rs\nsrc/deep/b.rs\n"));
        let below = find(json!({"pattern": "**/b.*", "path": "src"}));
        assert_eq!(below.as_deref(), Ok("deep/b.rs\n"));
        assert_eq!(find(json!({"pattern": "deep"})).as_deref(), Ok("src/deep/\n"));
        let one = find(json!({"pattern": "*.rs", "limit": 1}));
        assert_eq!(one.as_deref(), Ok(".hidden.rs\n\n[the first 1; a higher limit shows more]"));
        assert_eq!(find(json!({"pattern": "*.none"})).as_deref(), Ok("No files found"));
        find(json!({"pattern": "*", "path": "none"})).unwrap_err()
    });
}

#[test]
fn lines_are_found() {
    over_all(|tools, dir| {
        tree(dir);
        let grep = |arguments| shown(tools, Tool::Grep, &arguments);
        let all = grep(json!({"pattern": "fn t\\w+", "path": "src"}));
        assert_eq!(all.as_deref(), Ok("a.rs:3: fn two() {}\ndeep/b.rs:1: // fn three\n"));
        let around =
            grep(json!({"pattern": "X =", "ignoreCase": true, "context": 1, "glob": "a.*"}));
        let expected = "src/a.rs-1- fn one() {}\nsrc/a.rs:2: let x = 1;\nsrc/a.rs-3- fn two() {}\n";
        assert_eq!(around.as_deref(), Ok(expected));
        let literal = grep(json!({"pattern": "o() {", "literal": true}));
        assert_eq!(literal.as_deref(), Ok("src/a.rs:3: fn two() {}\n"));
        let file = grep(json!({"pattern": "one", "path": "src/a.rs"}));
        assert_eq!(file.as_deref(), Ok("a.rs:1: fn one() {}\n"));
        let long = grep(json!({"pattern": "xxx"})).unwrap();
        let expected = format!(
            "src/deep/b.rs:2: {}…\n\n[lines of more than 500 bytes are cut]",
            "x".repeat(500)
        );
        assert_eq!(long, expected);
        assert_eq!(grep(json!({"pattern": "nowhere"})).as_deref(), Ok("No matches found"));
        let one = grep(json!({"pattern": "fn", "limit": 1})).unwrap();
        assert!(one.ends_with("[the first 1 matches; a higher limit shows more]"), "{one}");
    });
}

/// One tree takes minutes to search: one file of many names.
#[test]
fn a_search_that_is_cancelled_ends() {
    over_all(|tools, dir| {
        let file = dir.write("0", "nothing of interest in this line\n".repeat(500_000));
        for number in 1..3000 {
            fs::hard_link(&file, dir.join(&number.to_string())).unwrap();
        }
        let call = Call::default();
        let cancel = call.cancel.clone();
        thread::scope(|scope| {
            let search = || outcome_of(tools, Tool::Grep, &json!({"pattern": "needle"}), &call);
            let searching = thread::Builder::new().spawn_scoped(scope, search).unwrap();
            // Before it has begun there, or after.
            cancel.cancel();
            let outcome = searching.join().unwrap();
            assert!(outcome.is_error);
            assert_eq!(outcome.all_text(), "aborted");
        });
    });
}
