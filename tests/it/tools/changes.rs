//! `write` and `edit`.

use std::fs;
use std::thread;

use serde_json::json;
use ta_exec::tools::{Tool, Tools};

use super::{over_all, shown};
use crate::support::TempDir;

#[test]
fn a_file_is_written_with_the_directories_above_it() {
    over_all(|tools, dir| {
        let write = |path: &str, content: &str| {
            shown(tools, Tool::Write, &json!({"path": path, "content": content}))
        };
        let first = write("a/b/c.txt", "one\r\n\u{e9}");
        assert_eq!(first.as_deref(), Ok("wrote 7 bytes to a/b/c.txt"));
        assert_eq!(fs::read_to_string(dir.join("a/b/c.txt")).unwrap(), "one\r\n\u{e9}");
        write("a/b/c.txt", "").unwrap();
        assert_eq!(fs::read(dir.join("a/b/c.txt")).unwrap(), b"");
        [write("a/b", "x"), write("a/b/c.txt/d", "x")].map(|failed| failed.unwrap_err())
    });
}

fn edit(tools: &Tools, path: &str, edits: &[(&str, &str)]) -> Result<String, String> {
    let edits: Vec<_> =
        edits.iter().map(|(old, new)| json!({"oldText": old, "newText": new})).collect();
    shown(tools, Tool::Edit, &json!({"path": path, "edits": edits}))
}

#[test]
fn edits_change_their_places_and_answer_a_diff() {
    over_all(|tools, dir| {
        use std::os::unix::fs::PermissionsExt as _;
        let path = dir.program("a.sh", "\u{feff}one\r\ntwo\r\nthree\r\nfour\r\n");
        let told = edit(tools, "a.sh", &[("two\nthree", "2\n3"), ("one", "1")]).unwrap();
        let changed = "\u{feff}1\r\n2\r\n3\r\nfour\r\n";
        assert_eq!(fs::read_to_string(&path).unwrap(), changed);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
        let diff = "@@ -1,4 +1,4 @@\n-one\n-two\n-three\n+1\n+2\n+3\n four\n";
        assert_eq!(told, format!("edited a.sh in 2 places\n\n{diff}"));
        dir.write("binary", b"a\xff");
        let failed = [
            edit(tools, "a.sh", &[("nothing", "x")]),
            edit(tools, "a.sh", &[("\n", "x")]),
            edit(tools, "a.sh", &[("2", "x"), ("2\n3", "x")]),
            edit(tools, "none", &[("a", "b")]),
            edit(tools, "binary", &[("a", "b")]),
            edit(tools, ".", &[("a", "b")]),
        ];
        assert_eq!(fs::read_to_string(&path).unwrap(), changed, "a failed edit changes nothing");
        failed.map(|failed| failed.unwrap_err())
    });
}

/// Each reads, and writes only if nobody else has written meanwhile.
#[test]
fn edits_of_many_at_once_are_all_made() {
    over_all(|tools, dir| {
        let lines: String = (0..4).map(|line| format!("line {line}\n")).collect();
        dir.write("shared", lines);
        let change = |line: usize| {
            let (old, new) = (format!("line {line}\n"), format!("line {line} changed\n"));
            edit(tools, "shared", &[(old.as_str(), new.as_str())]).unwrap();
        };
        thread::scope(|scope| {
            for line in 0..4 {
                thread::Builder::new().spawn_scoped(scope, move || change(line)).unwrap();
            }
        });
        let expected: String = (0..4).map(|line| format!("line {line} changed\n")).collect();
        assert_eq!(fs::read_to_string(dir.join("shared")).unwrap(), expected);
    });
}

/// Longer than what one answer has.
#[test]
fn a_long_file_is_edited() {
    over_all(|tools, dir: &TempDir| {
        let long: String = (1..=300_000).map(|line| format!("{line:07}\n")).collect();
        let path = dir.write("long", &long);
        edit(tools, "long", &[("0299999", "here")]).unwrap();
        let changed = fs::read_to_string(path).unwrap();
        assert!(changed == long.replace("0299999", "here"));
    });
}
