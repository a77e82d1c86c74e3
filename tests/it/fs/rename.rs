//! `fs/rename`

use serde_json::json;

use super::{fails, fails_with, from_to, in_dir, inode, mkdir, mode, names, read, symlink, write};
use crate::support::{TempDir, over_both, over_both_with};

#[test]
fn a_rename_moves_what_is_there_and_replaces_a_file() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.program("f", "one");
        let before = inode(&file);
        assert_eq!(peer.ok("fs/rename", &from_to(&file, dir.join("g"))), json!({}));
        assert_eq!((inode(dir.join("g")), mode(dir.join("g"))), (before, 0o755));
        dir.write("h", "two");
        peer.ok("fs/rename", &from_to(dir.join("h"), dir.join("g")));
        assert_eq!(read(peer, dir.join("g")), b"two");
        mkdir(dir.join("d/sub"));
        peer.ok("fs/rename", &from_to(dir.join("g"), dir.join("d/sub/moved")));
        mkdir(dir.join("empty"));
        peer.ok("fs/rename", &from_to(dir.join("d"), dir.join("empty")));
        assert_eq!(read(peer, dir.join("empty/sub/moved")), b"two");
        assert_eq!(names(dir.path()), ["empty"]);
    });
}

#[test]
fn a_rename_that_cannot_be_fails_and_changes_nothing() {
    over_both(|peer| {
        let dir = TempDir::new();
        dir.write("f", "kept");
        mkdir(dir.join("d"));
        dir.write("d/inside", "kept too");
        mkdir(dir.join("other"));
        for (from, to, codes) in [
            ("nope", "x", &["ENOENT"][..]),
            ("f", "no/such", &["ENOENT"]),
            ("f", "other", &["EISDIR", "EEXIST"]),
            ("f", "d", &["EISDIR", "EEXIST"]),
            ("other", "f", &["ENOTDIR", "EEXIST"]),
            ("other", "d", &["ENOTEMPTY", "EEXIST"]),
            ("d", "d/below", &["EINVAL"]),
            ("d", "d/x/y", &["EINVAL", "ENOENT"]),
            ("f", "f/x", &["ENOTDIR"]),
            ("f/x", "y", &["ENOTDIR"]),
            ("f", "g/", &["ENOTDIR", "ENOENT"]),
        ] {
            let to = format!("{}/{to}", dir.path().display());
            let error = fails_with(peer, "fs/rename", &from_to(dir.join(from), to), codes);
            error.assert_names(from);
        }
        assert_eq!(names(dir.path()), ["d", "f", "other"]);
        assert_eq!(names(dir.join("d")), ["inside"]);
        assert_eq!(read(peer, dir.join("f")), b"kept");
        let empty = json!({"from": "", "to": super::wire(dir.join("x"))});
        fails(peer, "fs/rename", &empty, "ENOENT");
    });
}

#[test]
fn a_link_is_renamed_itself_and_replaced_itself() {
    over_both(|peer| {
        let dir = TempDir::new();
        dir.write("f", "target");
        symlink("f", dir.join("link"));
        symlink("nowhere", dir.join("dangling"));
        peer.ok("fs/rename", &from_to(dir.join("link"), dir.join("moved")));
        peer.ok("fs/rename", &from_to(dir.join("dangling"), dir.join("moved too")));
        assert_eq!(std::fs::read_link(dir.join("moved")).unwrap().to_str(), Some("f"));
        assert_eq!(std::fs::read_link(dir.join("moved too")).unwrap().to_str(), Some("nowhere"));
        dir.write("g", "over the link");
        peer.ok("fs/rename", &from_to(dir.join("g"), dir.join("moved")));
        assert_eq!(read(peer, dir.join("moved")), b"over the link");
        assert_eq!(read(peer, dir.join("f")), b"target");
    });
}

#[test]
fn a_rename_onto_itself_changes_nothing() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.write("f", "kept");
        std::fs::hard_link(&file, dir.join("hard")).unwrap();
        mkdir(dir.join("d"));
        peer.ok("fs/rename", &from_to(&file, &file));
        peer.ok("fs/rename", &from_to(dir.join("d"), dir.join("d")));
        peer.ok("fs/rename", &from_to(&file, dir.join("hard")));
        assert_eq!(read(peer, dir.join("hard")), b"kept");
        assert!(dir.join("d").is_dir());
    });
}

#[test]
fn relative_paths_of_a_rename_start_at_the_servers_cwd() {
    let base = TempDir::new();
    over_both_with(
        || in_dir(base.path()),
        |peer| {
            let name = if peer.is_stdio() { "stdio" } else { "websocket" };
            write(peer, name, "x");
            peer.ok("fs/rename", &from_to(name, format!("{name}-moved")));
            assert_eq!(read(peer, base.join(&format!("{name}-moved"))), b"x");
        },
    );
}
