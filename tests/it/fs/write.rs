//! Writing whole files: new ones, and what an answer says.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    after, bytes, content, fails, inode, merged, mkdir, mode, names, noise, path, read, version,
    write, write_in_place, write_with,
};
use crate::support::{TempDir, base64, over_both, over_both_with};

#[test]
fn what_is_written_is_there() {
    over_both(|peer| {
        let dir = TempDir::new();
        let every_byte: Vec<u8> = (0..=255).cycle().take(70_000).collect();
        for (name, content) in [("empty", &b""[..]), ("text", b"line\n"), ("bytes", &every_byte)] {
            let result = write(peer, dir.join(name), content);
            let members: Vec<_> = result.as_object().unwrap().keys().cloned().collect();
            assert_eq!(members, ["atomic", "size", "version"]);
            assert_eq!(std::fs::read(dir.join(name)).unwrap(), content);
            assert_eq!(read(peer, dir.join(name)), content);
        }
        assert_eq!(names(dir.path()), ["bytes", "empty", "text"]);
    });
}

#[test]
fn a_file_may_become_shorter_longer_and_empty() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.join("f");
        for size in [10, 100_000, 5, 0, 1, 65_536, 65_535] {
            write(peer, &file, noise(size, 2));
            assert!(std::fs::read(&file).unwrap() == noise(size, 2), "{size} bytes");
        }
        assert_eq!(names(dir.path()), ["f"]);
    });
}

#[test]
fn a_file_of_32_mib_is_written_whole() {
    over_both(|peer| {
        let dir = TempDir::new();
        let bytes = noise(32 << 20, 9);
        let id = peer.request("fs/writeFile", &content(dir.join("f"), &bytes));
        let result = peer.answer_within(&id, Duration::from_secs(60)).unwrap();
        assert_eq!(result["size"], json!(32 << 20));
        assert_eq!(result["atomic"], json!(true));
        assert!(std::fs::read(dir.join("f")).unwrap() == bytes);
        assert_eq!(names(dir.path()), ["f"]);
    });
}

/// Mode 0600 is what a temporary file has that nobody thought about.
#[test]
fn a_new_file_has_0666_less_the_umask() {
    let base = TempDir::new();
    for umask in [0o000, 0o022, 0o027, 0o077] {
        let setup = || after(base.path(), &[], &format!("umask {umask:04o}"));
        over_both_with(setup, |peer| {
            let dir = TempDir::new();
            write(peer, dir.join("new"), "x");
            assert_eq!(mode(dir.join("new")), 0o666 & !umask, "umask {umask:o}");
            write_with(peer, dir.join("appended"), "x", &json!({"append": true}));
            assert_eq!(mode(dir.join("appended")), 0o666 & !umask, "umask {umask:o}");
            let parents = json!({"createParents": true});
            write_with(peer, dir.join("a/b/f"), "x", &parents);
            assert_eq!(mode(dir.join("a/b")), 0o777 & !umask, "umask {umask:o}");
            assert_eq!(mode(dir.join("a/b/f")), 0o666 & !umask, "umask {umask:o}");
        });
    }
}

#[test]
fn a_new_file_has_the_mode_that_was_asked_for_whatever_the_umask() {
    let base = TempDir::new();
    for umask in ["0022", "0077"] {
        let setup = || after(base.path(), &[], &format!("umask {umask}"));
        over_both_with(setup, |peer| {
            let dir = TempDir::new();
            for wanted in [0o600, 0o640, 0o755, 0o666, 0o777, 0o400, 0o4755, 0o2755, 0o7777, 0] {
                for append in [false, true] {
                    let file = dir.join(&format!("{wanted:o}-{append}"));
                    let more = json!({"mode": wanted, "append": append});
                    write_with(peer, &file, "x", &more);
                    assert_eq!(mode(&file), wanted, "{more} with umask {umask}");
                }
            }
        });
    }
}

#[test]
fn the_mode_of_a_file_that_is_there_stays() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.program("f", "old");
        write_with(peer, &file, "new", &json!({"mode": 0o600}));
        assert_eq!(mode(&file), 0o755);
        assert_eq!(read(peer, &file), b"new");
    });
}

#[test]
fn missing_directories_are_made_only_when_that_is_asked_for() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.join("a/b/c/f");
        let error = fails(peer, "fs/writeFile", &content(&file, "x"), "ENOENT");
        error.assert_names(file.to_str().unwrap());
        let no = merged(content(&file, "x"), &json!({"createParents": false}));
        fails(peer, "fs/writeFile", &no, "ENOENT");
        assert_eq!(names(dir.path()), [""; 0]);
        for text in ["one", "two"] {
            write_with(peer, &file, text, &json!({"createParents": true}));
            assert_eq!(read(peer, &file), text.as_bytes());
        }
        write_with(peer, dir.join("a/f"), "x", &json!({"createParents": true, "append": true}));
        assert_eq!(names(dir.join("a")), ["b", "f"]);
        assert_eq!(names(dir.join("a/b/c")), ["f"]);
        let below_file = merged(content(dir.join("a/f/x"), "x"), &json!({"createParents": true}));
        let codes = ["ENOTDIR", "EEXIST"];
        super::fails_with(peer, "fs/writeFile", &below_file, &codes);
    });
}

#[test]
fn with_sync_everything_is_written_as_without() {
    over_both(|peer| {
        let dir = TempDir::new();
        let linked = dir.write("linked", "old");
        std::fs::hard_link(&linked, dir.join("other")).unwrap();
        let before = inode(&linked);
        let sync = json!({"sync": true});
        for _ in 0..2 {
            let result = write_with(peer, dir.join("f"), "whole", &sync);
            assert_eq!(result["atomic"], json!(true));
        }
        write_with(peer, &linked, "in place", &sync);
        let append = json!({"sync": true, "append": true});
        write_with(peer, dir.join("f"), "+", &append);
        write_with(peer, dir.join("new"), "appended", &append);
        let parents = json!({"sync": true, "createParents": true});
        write_with(peer, dir.join("a/b/f"), "deep", &parents);
        let found = ["f", "other", "new", "a/b/f"].map(|name| read(peer, dir.join(name)));
        assert_eq!(found, [&b"whole+"[..], b"in place", b"appended", b"deep"]);
        assert_eq!(inode(dir.join("other")), before);
        assert_eq!(names(dir.path()), ["a", "f", "linked", "new", "other"]);
    });
}

#[test]
fn base64_that_is_wrong_writes_nothing() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.write("f", "old");
        for wrong in ["YQ", "Y?==", "YQ==YQ==", " YQ==", "YQ=="[..3].into(), "-_-_"] {
            let mut params = content(&file, "");
            params["dataBase64"] = json!(wrong);
            let error = peer.error("fs/writeFile", &params);
            assert_eq!(error.code, -32602, "{wrong}: {error:?}");
            error.assert_names("dataBase64");
        }
        assert_eq!(read(peer, &file), b"old");
        assert_eq!(names(dir.path()), ["f"]);
    });
}

#[test]
fn a_relative_path_and_one_in_base64_are_written() {
    let base = TempDir::new();
    let setup = || super::in_dir(base.path());
    over_both_with(setup, |peer| {
        let name = if peer.is_stdio() { "stdio" } else { "websocket" };
        mkdir(base.join(name));
        write(peer, format!("{name}/f"), "relative");
        assert_eq!(std::fs::read(base.join(name).join("f")).unwrap(), b"relative");
        let encoded = json!({"base64": base64(format!("{name}/g"))});
        peer.ok("fs/writeFile", &json!({"path": encoded, "dataBase64": base64("g")}));
        assert_eq!(std::fs::read(base.join(name).join("g")).unwrap(), b"g");
    });
}

#[test]
fn the_version_of_a_write_is_that_of_the_read_and_the_stat_behind_it() {
    over_both(|peer| {
        let dir = TempDir::new();
        let linked = dir.write("linked", "x");
        std::fs::hard_link(&linked, dir.join("other")).unwrap();
        let whole = write(peer, dir.join("f"), "1");
        let replaced = write(peer, dir.join("g"), "1");
        let in_place = write_in_place(peer, &linked, "2");
        let mut check = |name: &str, written: &Value| {
            let read = peer.ok("fs/readFile", &path(dir.join(name)));
            let stat = peer.ok("fs/stat", &path(dir.join(name)));
            assert_eq!(version(&read), version(written), "{name}");
            assert_eq!(version(&stat), version(written), "{name}");
            assert!(!bytes(&read).is_empty());
        };
        check("f", &whole);
        check("g", &replaced);
        check("linked", &in_place);
        check("other", &in_place);
        let appended = write_with(peer, dir.join("f"), "2", &json!({"append": true}));
        let stat = peer.ok("fs/stat", &path(dir.join("f")));
        assert_eq!(version(&stat), version(&appended));
        // Nothing is changed by reading.
        read(peer, dir.join("f"));
        assert_eq!(version(&peer.ok("fs/stat", &path(dir.join("f")))), version(&appended));
    });
}
