//! `fs/readdir`: all that is in a directory.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{fails, mkdir, mkfifo, path, symlink};
use crate::support::{Peer, Setup, TempDir, over_both, over_both_with};

#[track_caller]
fn entries(peer: &mut Peer, dir: impl AsRef<Path>) -> Vec<Value> {
    peer.ok("fs/readdir", &path(dir))["entries"].as_array().expect("entries").clone()
}

#[test]
fn every_entry_has_its_type_and_a_link_that_of_its_target() {
    over_both(|peer| {
        let dir = TempDir::new();
        dir.write("a file", "");
        mkdir(dir.join("dir"));
        mkfifo(dir.join("fifo"));
        let _listener = UnixListener::bind(dir.join("socket")).unwrap();
        for (target, link) in [
            ("a file", "to-file"),
            ("dir", "to-dir"),
            ("fifo", "to-fifo"),
            ("nowhere", "to-nothing"),
            ("to-self", "to-self"),
            ("to-dir", "to-link"),
            ("/dev/null", "to-null"),
            ("a file/below", "to-below"),
        ] {
            symlink(target, dir.join(link));
        }
        let link = |name: &str, target: Value| json!({"name": name, "type": "symlink", "targetType": target});
        let expected = [
            json!({"name": "a file", "type": "file"}),
            json!({"name": "dir", "type": "directory"}),
            json!({"name": "fifo", "type": "fifo"}),
            json!({"name": "socket", "type": "socket"}),
            link("to-below", Value::Null),
            link("to-dir", json!("directory")),
            link("to-fifo", json!("fifo")),
            link("to-file", json!("file")),
            link("to-link", json!("directory")),
            link("to-nothing", Value::Null),
            link("to-null", json!("charDevice")),
            link("to-self", Value::Null),
        ];
        let found = entries(peer, dir.path());
        assert_eq!(found, expected);
        for entry in &found {
            assert_eq!(entry.get("targetType").is_some(), entry["type"] == json!("symlink"));
        }
        // Through a link too.
        assert_eq!(entries(peer, dir.join("to-link")), [Value::Null; 0]);
    });
}

#[test]
fn entries_are_sorted_byte_by_byte_and_none_is_hidden() {
    over_both(|peer| {
        let dir = TempDir::new();
        let mut names =
            ["b", "B", "a", "_", ".hidden", "..x", "ä", "z", "a-", "a0", "10", "9", "\u{10000}"];
        for name in names {
            dir.write(name, "");
        }
        std::fs::write(dir.path().join(non_utf8()), "").unwrap();
        names.sort_unstable();
        let mut expected: Vec<_> = names.map(str::to_owned).into();
        // 0xf0 of U+10000 comes before it.
        expected.push("\u{fffd}".to_owned());
        let found: Vec<_> = entries(peer, dir.path())
            .iter()
            .map(|entry| entry["name"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(found, expected);
    });
}

fn non_utf8() -> &'static std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(b"\xff")
}

#[test]
fn dev_and_proc_are_listed() {
    over_both(|peer| {
        for (dir, name, kind) in [
            ("/dev", "null", "charDevice"),
            ("/proc", "self", "symlink"),
            ("/proc/self", "status", "file"),
            ("/proc/self/fd", "0", "symlink"),
        ] {
            let found = entries(peer, dir);
            let entry = found.iter().find(|entry| entry["name"] == json!(name));
            let entry = entry.unwrap_or_else(|| panic!("{dir} has no {name}"));
            assert_eq!(entry["type"], json!(kind), "{dir}/{name}");
        }
        entries(peer, "/");
    });
}

/// Processes come and go while /proc is listed.
#[test]
fn a_directory_that_changes_is_listed_all_the_same() {
    over_both(|peer| {
        let dir = TempDir::new();
        let stable: Vec<_> = (0..50).map(|n| format!("stable{n:02}")).collect();
        for name in &stable {
            dir.write(name, "");
        }
        let churn = format!(
            "cd {}; while :; do : > x1; ln -s x1 x2; mkdir x3; rm -r x1 x2 x3; done",
            dir.path().display()
        );
        let running = peer.start_exec(json!({"command": churn}));
        for _ in 0..100 {
            let found = entries(peer, dir.path());
            for name in &stable {
                assert!(found.iter().any(|entry| entry["name"] == json!(name)), "no {name}");
            }
            entries(peer, "/proc");
        }
        peer.kill(&running.process);
        peer.finish(&running);
    });
}

#[test]
fn twenty_thousand_entries_are_complete() {
    const COUNT: usize = 20_000;
    let dir = TempDir::new();
    for n in 0..COUNT {
        std::fs::File::create(dir.join(&format!("entry{n:05}"))).unwrap();
    }
    over_both(|peer| {
        let since = Instant::now();
        let found = entries(peer, dir.path());
        let took = since.elapsed();
        assert_eq!(found.len(), COUNT);
        for (n, entry) in found.iter().enumerate() {
            assert_eq!(*entry, json!({"name": format!("entry{n:05}"), "type": "file"}));
        }
        assert!(took < Duration::from_secs(5), "{took:?}");
    });
}

#[test]
fn a_directory_that_no_message_holds_is_a_typed_error() {
    let dir = TempDir::new();
    for n in 0..1500 {
        std::fs::File::create(dir.join(&format!("{n:0200}"))).unwrap();
    }
    let setup = || Setup::new().args(["--max-message-bytes", "100000"]);
    over_both_with(setup, |peer| {
        let error = fails(peer, "fs/readdir", &path(dir.path()), "CELL_TA_EXEC_TOO_LARGE");
        error.assert_names(dir.path().to_str().unwrap());
        peer.ping();
    });
}

#[test]
fn a_relative_directory_and_an_empty_one_are_listed() {
    let dir = TempDir::new();
    mkdir(dir.join("empty"));
    over_both_with(
        || super::in_dir(dir.path()),
        |peer| {
            assert_eq!(entries(peer, "empty"), [Value::Null; 0]);
            assert_eq!(entries(peer, "."), [json!({"name": "empty", "type": "directory"})]);
        },
    );
}
