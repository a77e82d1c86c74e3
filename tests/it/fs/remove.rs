//! `fs/remove`: what was named, and nothing else.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{fails, fails_with, in_dir, merged, mkdir, mkfifo, names, path, read, symlink};
use crate::support::{Peer, TempDir, over_both, over_both_with};

#[track_caller]
fn remove(peer: &mut Peer, file: impl AsRef<std::path::Path>, more: &Value) {
    assert_eq!(peer.ok("fs/remove", &merged(path(file), more)), json!({}));
}

#[test]
fn files_and_empty_directories_are_removed() {
    over_both(|peer| {
        let dir = TempDir::new();
        let outside = dir.write("outside", "kept");
        dir.write("f", "");
        mkdir(dir.join("d"));
        mkdir(dir.join("e"));
        mkfifo(dir.join("fifo"));
        let _listener = std::os::unix::net::UnixListener::bind(dir.join("socket")).unwrap();
        symlink("outside", dir.join("link"));
        symlink("nowhere", dir.join("dangling"));
        for name in ["f", "d", "fifo", "socket", "link", "dangling"] {
            remove(peer, dir.join(name), &json!({}));
        }
        remove(peer, format!("{}/e/", dir.path().display()), &json!({}));
        assert_eq!(names(dir.path()), ["outside"]);
        assert_eq!(read(peer, &outside), b"kept");
    });
}

#[test]
fn a_directory_that_is_not_empty_needs_recursive() {
    over_both(|peer| {
        let dir = TempDir::new();
        mkdir(dir.join("d/sub"));
        dir.write("d/sub/f", "");
        dir.write("d/f", "");
        let tree = dir.join("d");
        for more in [json!({}), json!({"recursive": false}), json!({"force": true})] {
            let params = merged(path(&tree), &more);
            fails(peer, "fs/remove", &params, "ENOTEMPTY").assert_names(tree.to_str().unwrap());
        }
        assert_eq!(names(&tree), ["f", "sub"]);
        remove(peer, &tree, &json!({"recursive": true}));
        assert_eq!(names(dir.path()), [""; 0]);
        // What needs no recursion may have it.
        dir.write("f", "");
        remove(peer, dir.join("f"), &json!({"recursive": true}));
    });
}

#[test]
fn what_is_missing_is_enoent_unless_forced() {
    over_both(|peer| {
        let dir = TempDir::new();
        dir.write("f", "");
        for name in ["nope", "no/such"] {
            for recursive in [false, true] {
                let missing = dir.join(name);
                let params = merged(path(&missing), &json!({"recursive": recursive}));
                let error = fails(peer, "fs/remove", &params, "ENOENT");
                error.assert_names(missing.to_str().unwrap());
                remove(peer, &missing, &json!({"recursive": recursive, "force": true}));
            }
        }
        fails(peer, "fs/remove", &path(dir.join("f/x")), "ENOTDIR");
        fails(peer, "fs/remove", &path(""), "ENOENT");
        let marked = path(format!("{}/f/", dir.path().display()));
        for more in [json!({}), json!({"force": true})] {
            fails_with(peer, "fs/remove", &merged(marked.clone(), &more), &["ENOTDIR"]);
        }
        assert_eq!(names(dir.path()), ["f"]);
    });
}

/// A tree with a directory that must not be entered, and links to it.
fn with_links(dir: &TempDir) {
    mkdir(dir.join("etc/sub"));
    dir.write("etc/passwd", "kept");
    dir.write("etc/sub/f", "kept");
    mkdir(dir.join("tree/sub"));
    dir.write("tree/f", "");
    symlink(".", dir.join("tree/x"));
    symlink(dir.join("etc"), dir.join("tree/e"));
    symlink("../../etc", dir.join("tree/sub/relative"));
    symlink("..", dir.join("tree/sub/up"));
    symlink("/", dir.join("tree/sub/slash"));
    symlink("etc", dir.join("to-etc"));
}

#[track_caller]
fn assert_untouched(dir: &TempDir) {
    assert_eq!(names(dir.join("etc")), ["passwd", "sub"]);
    assert_eq!(std::fs::read(dir.join("etc/sub/f")).unwrap(), b"kept");
}

#[test]
fn no_link_is_ever_followed() {
    over_both(|peer| {
        let dir = TempDir::new();
        with_links(&dir);
        remove(peer, dir.join("tree"), &json!({"recursive": true, "force": true}));
        assert_untouched(&dir);
        assert_eq!(names(dir.path()), ["etc", "to-etc"]);
        remove(peer, dir.join("to-etc"), &json!({"recursive": true}));
        assert_untouched(&dir);
        assert_eq!(names(dir.path()), ["etc"]);
    });
}

#[test]
fn a_slash_behind_a_link_removes_nothing_that_is_in_it() {
    over_both(|peer| {
        let dir = TempDir::new();
        with_links(&dir);
        for name in ["to-etc/", "to-etc//", "to-etc/.", "tree/e/", "tree/e/."] {
            let named = format!("{}/{name}", dir.path().display());
            // Whether the link goes or it is refused: its target stays.
            let outcome =
                peer.call("fs/remove", &merged(path(&named), &json!({"recursive": true})));
            assert!(dir.join("etc/passwd").exists(), "{name} took it away: {outcome:?}");
            assert_untouched(&dir);
        }
        // Through a link in the middle one comes to where it leads.
        symlink("etc", dir.join("again"));
        remove(peer, dir.join("again/passwd"), &json!({}));
        assert_eq!(names(dir.join("etc")), ["sub"]);
    });
}

#[test]
fn a_relative_path_is_removed_below_the_servers_cwd() {
    let base = TempDir::new();
    over_both_with(
        || in_dir(base.path()),
        |peer| {
            let name = if peer.is_stdio() { "stdio" } else { "websocket" };
            mkdir(base.join(name).join("sub"));
            remove(peer, format!("./{name}/../{name}"), &json!({"recursive": true}));
            assert!(!base.join(name).exists());
        },
    );
}

#[test]
fn a_tree_of_five_thousand_files_is_removed() {
    over_both(|peer| {
        let dir = TempDir::new();
        for outer in 0..10 {
            for inner in 0..10 {
                let sub = mkdir(dir.join(&format!("tree/{outer}/{inner}")));
                for file in 0..50 {
                    std::fs::File::create(sub.join(format!("{file}"))).unwrap();
                }
            }
        }
        let since = Instant::now();
        remove(peer, dir.join("tree"), &json!({"recursive": true}));
        assert!(since.elapsed() < Duration::from_secs(8), "{:?}", since.elapsed());
        assert_eq!(names(dir.path()), [""; 0]);
    });
}
