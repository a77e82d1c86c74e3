//! `fs/copy`

use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::{
    chmod, fails, fails_with, from_to, inode, merged, mkdir, mkfifo, mode, names, noise, path,
    read, symlink,
};
use crate::support::{Peer, RpcError, TempDir, over_both, sys};

#[track_caller]
fn copy_tree(peer: &mut Peer, from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let params = merged(from_to(from, to), &json!({"recursive": true}));
    assert_eq!(peer.ok("fs/copy", &params), json!({}));
}

#[track_caller]
fn tree_fails(peer: &mut Peer, from: impl AsRef<Path>, to: impl AsRef<Path>) -> RpcError {
    peer.error("fs/copy", &merged(from_to(from, to), &json!({"recursive": true})))
}

#[test]
fn a_file_is_copied_with_its_mode() {
    over_both(|peer| {
        let dir = TempDir::new();
        for wanted in [0o644, 0o755, 0o4755, 0o600, 0o444, 0o777] {
            let file = dir.write("f", noise(100_000, wanted));
            chmod(&file, wanted);
            let copy = dir.join(&format!("{wanted:o}"));
            assert_eq!(peer.ok("fs/copy", &from_to(&file, &copy)), json!({}));
            assert!(std::fs::read(&copy).unwrap() == noise(100_000, wanted));
            assert_eq!((mode(&copy), mode(&file)), (wanted, wanted));
            assert_ne!(inode(&copy), inode(&file));
            std::fs::remove_file(&file).unwrap();
        }
        dir.write("empty", "");
        peer.ok("fs/copy", &from_to(dir.join("empty"), dir.join("empty copy")));
        assert_eq!(read(peer, dir.join("empty copy")), b"");
        // What is made when it is read has no size.
        peer.ok("fs/copy", &from_to("/proc/version", dir.join("version")));
        let expected = std::fs::read("/proc/version").unwrap();
        assert_eq!(std::fs::read(dir.join("version")).unwrap(), expected);
    });
}

#[test]
fn a_copy_replaces_a_file() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.program("f", "new");
        let old = dir.write("old", "a longer old content");
        peer.ok("fs/copy", &from_to(&file, &old));
        assert_eq!(read(peer, &old), b"new");
        assert_eq!(mode(&old), 0o755);
        assert_eq!(names(dir.path()), ["f", "old"]);
    });
}

#[test]
fn a_tree_is_copied_with_modes_and_links_as_they_are() {
    over_both(|peer| {
        let dir = TempDir::new();
        mkdir(dir.join("tree/sub/empty"));
        dir.program("tree/program", "#!/bin/sh\n");
        dir.write("tree/sub/f", "content");
        chmod(dir.join("tree/sub"), 0o2750);
        chmod(dir.join("tree/sub/empty"), 0o1777);
        for (target, link) in [
            ("sub/f", "relative"),
            ("nowhere", "dangling"),
            ("loop", "loop"),
            (".", "dot"),
            ("sub", "dirlink"),
            ("/dev/null", "absolute"),
        ] {
            symlink(target, dir.join("tree").join(link));
        }
        copy_tree(peer, dir.join("tree"), dir.join("copy"));
        let copy = dir.join("copy");
        let all = ["absolute", "dangling", "dirlink", "dot", "loop", "program", "relative", "sub"];
        assert_eq!(names(&copy), all);
        assert_eq!(names(copy.join("sub")), ["empty", "f"]);
        assert_eq!(std::fs::read(copy.join("sub/f")).unwrap(), b"content");
        let modes = ["program", "sub", "sub/empty", "sub/f"].map(|name| mode(copy.join(name)));
        let expected =
            ["program", "sub", "sub/empty", "sub/f"].map(|name| mode(dir.join("tree").join(name)));
        assert_eq!(modes, expected);
        for (link, target) in [("dangling", "nowhere"), ("loop", "loop"), ("dirlink", "sub")] {
            let found = std::fs::read_link(copy.join(link)).unwrap();
            assert_eq!(found.to_str(), Some(target));
        }
    });
}

#[test]
fn a_link_is_copied_as_a_link() {
    over_both(|peer| {
        let dir = TempDir::new();
        dir.write("f", "x");
        mkdir(dir.join("d"));
        for (name, target) in [("file", "f"), ("dir", "d"), ("dangling", "nowhere")] {
            symlink(target, dir.join(name));
            let copy = dir.join(&format!("copy of {name}"));
            peer.ok("fs/copy", &from_to(dir.join(name), &copy));
            assert_eq!(std::fs::read_link(&copy).unwrap().to_str(), Some(target));
        }
    });
}

#[test]
fn a_directory_is_copied_only_when_that_is_asked_for() {
    over_both(|peer| {
        let dir = TempDir::new();
        mkdir(dir.join("d"));
        let params = from_to(dir.join("d"), dir.join("copy"));
        let error = peer.error("fs/copy", &params);
        assert!(!error.data_code().is_empty(), "{error:?}");
        error.assert_names(dir.join("d").to_str().unwrap());
        assert_eq!(names(dir.path()), ["d"]);
    });
}

#[test]
fn what_cannot_be_copied_is_an_error_that_names_it() {
    over_both(|peer| {
        let dir = TempDir::new();
        dir.write("f", "kept");
        mkdir(dir.join("d"));
        dir.write("d/inside", "kept");
        for recursive in [false, true] {
            let params = |from: &str, to: &str| {
                merged(from_to(dir.join(from), dir.join(to)), &json!({"recursive": recursive}))
            };
            fails(peer, "fs/copy", &params("nope", "x"), "ENOENT").assert_names("nope");
            fails(peer, "fs/copy", &params("f", "no/such"), "ENOENT").assert_names("no/such");
            fails(peer, "fs/copy", &params("f", "f/x"), "ENOTDIR");
            fails_with(peer, "fs/copy", &params("f", "d"), &["EISDIR", "EEXIST", "ENOTEMPTY"]);
        }
        let over_file = tree_fails(peer, dir.join("d"), dir.join("f"));
        assert!(["ENOTDIR", "EEXIST"].contains(&over_file.data_code()), "{over_file:?}");
        assert_eq!(names(dir.path()), ["d", "f"]);
        assert_eq!(read(peer, dir.join("f")), b"kept");
        assert_eq!(names(dir.join("d")), ["inside"]);
    });
}

/// Copying into itself would find its own copy to copy, without end.
#[test]
fn a_directory_is_not_copied_into_itself() {
    over_both(|peer| {
        let dir = TempDir::new();
        mkdir(dir.join("d/sub"));
        dir.write("d/f", "kept");
        symlink("d/sub", dir.join("link"));
        mkdir(dir.join("d2"));
        for to in ["d/copy", "d/sub/copy", "d/sub/../copy", "link/copy", "d", "d/."] {
            let to = format!("{}/{to}", dir.path().display());
            let error = tree_fails(peer, dir.join("d"), &to);
            assert!(!error.data_code().is_empty() || error.code == -32602, "{to}: {error:?}");
            assert_eq!(names(dir.join("d")), ["f", "sub"], "{to}");
            assert_eq!(names(dir.join("d/sub")), [""; 0], "{to}");
        }
        // One whose name only begins like it is another one.
        copy_tree(peer, dir.join("d"), dir.join("d2/copy"));
        assert_eq!(names(dir.join("d2/copy")), ["f", "sub"]);
    });
}

/// A copy that opens its target for writing first has nothing left to read.
#[test]
fn a_file_is_not_copied_onto_itself() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.write("f", "kept");
        std::fs::hard_link(&file, dir.join("hard")).unwrap();
        mkdir(dir.join("d"));
        symlink(".", dir.join("here"));
        for to in ["f", "hard", "d/../f", "here/f"] {
            let params = from_to(&file, format!("{}/{to}", dir.path().display()));
            let outcome = peer.call("fs/copy", &params);
            assert_eq!(std::fs::read(&file).unwrap(), b"kept", "{to}");
            assert_eq!(std::fs::read(dir.join("hard")).unwrap(), b"kept", "{to}");
            assert!(outcome.is_err(), "{to} is the file itself, and was not refused");
        }
        symlink("f", dir.join("link"));
        let _ = peer.call("fs/copy", &from_to(&file, dir.join("link")));
        assert_eq!(std::fs::read(&file).unwrap(), b"kept");
        assert_eq!(names(dir.path()), ["d", "f", "hard", "here", "link"]);
    });
}

#[test]
fn what_would_block_is_not_waited_for() {
    over_both(|peer| {
        let dir = TempDir::new();
        mkdir(dir.join("tree"));
        dir.write("tree/f", "x");
        mkfifo(dir.join("tree/fifo"));
        let _listener = std::os::unix::net::UnixListener::bind(dir.join("tree/socket")).unwrap();
        let fifo = from_to(dir.join("tree/fifo"), dir.join("fifo"));
        let zero = from_to("/dev/zero", dir.join("zero"));
        let params =
            merged(from_to(dir.join("tree"), dir.join("copy")), &json!({"recursive": true}));
        for params in [fifo, zero, params] {
            let id = peer.request("fs/copy", &params);
            if let Err(error) = peer.answer_within(&id, Duration::from_secs(3)) {
                assert!(!error.data_code().is_empty(), "{error:?}");
            }
        }
        for name in ["fifo", "copy/fifo"] {
            if let Ok(found) = std::fs::symlink_metadata(dir.join(name)) {
                assert!(found.file_type().is_fifo(), "{name} is something else now");
            }
        }
        // A device that was copied as a file would be full of zeros.
        let zero = std::fs::symlink_metadata(dir.join("zero")).map_or(0, |found| found.len());
        assert_eq!(zero, 0);
        assert!(dir.join("copy/f").exists() || !dir.join("copy").exists());
    });
}

#[test]
fn a_sparse_file_is_copied_without_filling_the_disk() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.write("f", "start");
        std::fs::File::options().write(true).open(&file).unwrap().set_len(200 << 20).unwrap();
        let copy = dir.join("copy");
        let id = peer.request("fs/copy", &from_to(&file, &copy));
        peer.answer_within(&id, Duration::from_secs(60)).unwrap();
        assert_eq!(peer.ok("fs/stat", &path(&copy))["size"], json!(200 << 20));
        if sys::is_root() {
            peer.ok("fs/remove", &path(&copy));
        }
    });
}
