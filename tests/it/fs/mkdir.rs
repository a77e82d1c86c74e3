//! `fs/mkdir`

use serde_json::{Value, json};

use super::{after, fails, fails_with, mkdir, mode, names, path, symlink};
use crate::support::{TempDir, over_both, over_both_with};

fn with(dir: std::path::PathBuf, more: &Value) -> Value {
    super::merged(path(dir), more)
}

#[test]
fn missing_directories_are_made_and_existing_ones_are_fine() {
    over_both(|peer| {
        let dir = TempDir::new();
        for more in [json!({}), json!({"recursive": true}), json!({"recursive": null})] {
            for _ in 0..2 {
                let params = with(dir.join("a/b/c"), &more);
                assert_eq!(peer.ok("fs/mkdir", &params), json!({}));
            }
        }
        assert!(dir.join("a/b/c").is_dir());
        symlink("a", dir.join("link"));
        for name in ["link", "link/b", "a/../a", "a/b/.", "a/", "link/new/deep"] {
            peer.ok("fs/mkdir", &path(dir.join(name)));
        }
        peer.ok("fs/mkdir", &path("/"));
        assert!(dir.join("a/new/deep").is_dir());
        assert!(std::fs::symlink_metadata(dir.join("link")).unwrap().is_symlink());
    });
}

#[test]
fn a_directory_without_its_parents_is_made_alone() {
    over_both(|peer| {
        let dir = TempDir::new();
        let alone = json!({"recursive": false});
        peer.ok("fs/mkdir", &with(dir.join("a"), &alone));
        fails(peer, "fs/mkdir", &with(dir.join("a"), &alone), "EEXIST");
        let missing = dir.join("b/c");
        let error = fails(peer, "fs/mkdir", &with(missing.clone(), &alone), "ENOENT");
        error.assert_names(missing.to_str().unwrap());
        assert_eq!(names(dir.path()), ["a"]);
    });
}

#[test]
fn a_directory_over_a_file_is_refused() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.write("f", "kept");
        symlink("nowhere", dir.join("dangling"));
        for recursive in [true, false] {
            let more = json!({"recursive": recursive});
            let params = with(file.clone(), &more);
            fails_with(peer, "fs/mkdir", &params, &["EEXIST", "ENOTDIR"]);
            fails(peer, "fs/mkdir", &with(file.join("below"), &more), "ENOTDIR");
            fails_with(peer, "fs/mkdir", &with(dir.join("dangling"), &more), &["EEXIST", "ENOENT"]);
        }
        fails(peer, "fs/mkdir", &path(""), "ENOENT");
        assert_eq!(std::fs::read(&file).unwrap(), b"kept");
        assert_eq!(names(dir.path()), ["dangling", "f"]);
    });
}

#[test]
fn a_new_directory_has_the_mode_that_was_asked_for() {
    let base = TempDir::new();
    for umask in [0o022, 0o077] {
        let setup = || after(base.path(), &[], &format!("umask {umask:04o}"));
        over_both_with(setup, |peer| {
            let dir = TempDir::new();
            for wanted in [0o700, 0o755, 0o777, 0o1777, 0o2770] {
                for recursive in [true, false] {
                    let made = dir.join(&format!("{wanted:o}-{recursive}"));
                    let more = json!({"mode": wanted, "recursive": recursive});
                    peer.ok("fs/mkdir", &with(made.clone(), &more));
                    assert_eq!(mode(&made), wanted, "{more} with umask {umask:o}");
                }
            }
            peer.ok("fs/mkdir", &path(dir.join("plain")));
            assert_eq!(mode(dir.join("plain")), 0o777 & !umask);
            peer.ok("fs/mkdir", &with(dir.join("x/y"), &json!({"mode": 0o750})));
            assert_eq!((mode(dir.join("x")), mode(dir.join("x/y"))), (0o777 & !umask, 0o750));
            let existing = mkdir(dir.join("existing"));
            let before = mode(&existing);
            peer.ok("fs/mkdir", &with(existing.clone(), &json!({"mode": 0o700})));
            assert_eq!(mode(&existing), before, "an existing directory stays as it is");
        });
    }
}

/// Somebody else may make it at the same time.
#[test]
fn eight_connections_that_make_one_tree_all_succeed() {
    let dir = TempDir::new();
    let server = crate::support::Server::start();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let body = || {
                let mut peer = server.connect();
                for n in 0..20 {
                    peer.ok("fs/mkdir", &path(dir.join(&format!("{n}/a/b/c/d"))));
                }
            };
            std::thread::Builder::new().spawn_scoped(scope, body).unwrap();
        }
    });
    assert_eq!(names(dir.path()).len(), 20);
}
