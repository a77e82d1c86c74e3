//! Names that are not UTF-8, and other names that some program or other trips over.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{
    bytes, content, fails, from_to, in_dir, merged, names, path, read, symlink, wire, write,
};
use crate::support::{Peer, TempDir, base64, over_both, over_both_with};

fn below(dir: &Path, name: &[u8]) -> PathBuf {
    dir.join(OsStr::from_bytes(name))
}

#[track_caller]
fn entries(peer: &mut Peer, dir: &Path) -> Vec<Value> {
    peer.ok("fs/readdir", &path(dir))["entries"].as_array().expect("entries").clone()
}

#[test]
fn a_name_that_is_not_utf8_goes_through_every_method() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = below(dir.path(), b"a\xff");
        write(peer, &file, "content");
        let name = base64(b"a\xff");
        assert_eq!(
            entries(peer, dir.path()),
            [json!({"name": "a\u{fffd}", "type": "file", "nameBase64": name})]
        );
        assert_eq!(read(peer, &file), b"content");
        assert_eq!(peer.ok("fs/stat", &path(&file))["type"], json!("file"));
        let real = peer.ok("fs/realpath", &path(&file));
        assert_eq!(real, json!({"path": wire(&file)}));
        let renamed = below(dir.path(), b"\xfe\xff b");
        peer.ok("fs/rename", &from_to(&file, &renamed));
        peer.ok("fs/copy", &from_to(&renamed, &file));
        assert_eq!(read(peer, &renamed), b"content");
        let sub = below(dir.path(), b"\xffd");
        peer.ok("fs/mkdir", &path(sub.join(OsStr::from_bytes(b"\x80"))));
        write(peer, sub.join(OsStr::from_bytes(b"\x80/\x81")), "deep");
        let copy = below(dir.path(), b"\xffcopy");
        peer.ok("fs/copy", &merged(from_to(&sub, &copy), &json!({"recursive": true})));
        assert_eq!(read(peer, copy.join(OsStr::from_bytes(b"\x80/\x81"))), b"deep");
        for gone in [&sub, &copy, &file, &renamed] {
            peer.ok("fs/remove", &merged(path(gone), &json!({"recursive": true})));
        }
        assert_eq!(names(dir.path()), [""; 0]);
    });
}

#[test]
fn an_error_about_a_name_that_is_not_utf8_is_readable() {
    over_both(|peer| {
        let dir = TempDir::new();
        let missing = below(dir.path(), b"gone\xff");
        fails(peer, "fs/readFile", &path(&missing), "ENOENT").assert_names("gone");
        fails(peer, "fs/readFile", &path(dir.join("new\nline")), "ENOENT").assert_names("line");
    });
}

#[test]
fn a_link_to_a_name_that_is_not_utf8_leads_there() {
    over_both(|peer| {
        let dir = TempDir::new();
        symlink(OsStr::from_bytes(b"\xff"), dir.join("link"));
        write(peer, dir.join("link"), "x");
        assert_eq!(read(peer, below(dir.path(), b"\xff")), b"x");
        let real = peer.ok("fs/realpath", &path(dir.join("link")));
        assert_eq!(real["path"], wire(below(dir.path(), b"\xff")));
    });
}

#[test]
fn a_relative_name_that_is_not_utf8_starts_at_the_servers_cwd() {
    let dir = TempDir::new();
    std::fs::write(below(dir.path(), b"\xff"), "x").unwrap();
    over_both_with(
        || in_dir(dir.path()),
        |peer| {
            let params = json!({"path": {"base64": base64(b"./\xff")}});
            assert_eq!(bytes(&peer.ok("fs/readFile", &params)), b"x");
        },
    );
}

#[test]
fn odd_names_are_names() {
    over_both(|peer| {
        let dir = TempDir::new();
        let long = "ä".repeat(127) + "x";
        let odd = [
            "new\nline",
            "quo\"te",
            "back\\slash",
            "tab\t",
            " ",
            "...",
            "-rf",
            "~",
            "$HOME",
            "a*b",
            "\u{1}\u{7f}",
            "\u{feff}",
            "e\u{301}",
            "é",
            &long,
        ];
        for name in odd {
            let file = dir.join(name);
            write(peer, &file, name);
            assert_eq!(read(peer, &file), name.as_bytes());
            let stat = peer.ok("fs/stat", &path(&file));
            assert_eq!(stat["size"], json!(name.len()));
        }
        let mut expected: Vec<_> = odd.map(str::to_owned).into();
        expected.sort();
        let listed: Vec<_> = entries(peer, dir.path())
            .iter()
            .map(|entry| {
                assert!(entry.get("nameBase64").is_none(), "{entry}");
                entry["name"].as_str().unwrap().to_owned()
            })
            .collect();
        assert_eq!(listed, expected);
        assert_eq!(names(dir.path()), expected);
        for name in odd {
            peer.ok("fs/rename", &from_to(dir.join(name), dir.join("t")));
            peer.ok("fs/remove", &path(dir.join("t")));
        }
    });
}

/// A temporary name beside it must not be longer than a name may be.
#[test]
fn a_name_of_255_bytes_is_written_and_one_of_256_is_enametoolong() {
    over_both(|peer| {
        let dir = TempDir::new();
        let longest = dir.join(&"x".repeat(255));
        for text in ["one", "two"] {
            write(peer, &longest, text);
        }
        peer.ok("fs/copy", &from_to(&longest, dir.join(&"y".repeat(255))));
        assert_eq!(read(peer, dir.join(&"y".repeat(255))), b"two");
        let too_long = dir.join(&"x".repeat(256));
        for (method, params) in [
            ("fs/writeFile", content(&too_long, "x")),
            ("fs/writeFile", merged(content(&too_long, "x"), &json!({"append": true}))),
            ("fs/readFile", path(&too_long)),
            ("fs/stat", path(&too_long)),
            ("fs/readdir", path(&too_long)),
            ("fs/mkdir", path(&too_long)),
            ("fs/remove", path(&too_long)),
            ("fs/realpath", path(&too_long)),
            ("fs/rename", from_to(&longest, &too_long)),
            ("fs/copy", from_to(&longest, &too_long)),
        ] {
            fails(peer, method, &params, "ENAMETOOLONG");
        }
        let endless = format!("{}/{}", dir.path().display(), "d/".repeat(3000));
        fails(peer, "fs/readFile", &path(endless), "ENAMETOOLONG");
        assert_eq!(names(dir.path()).len(), 2);
        assert_eq!(read(peer, &longest), b"two");
    });
}
