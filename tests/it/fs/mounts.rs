//! Mounts: read-only ones, a file that is mounted on its own, and a boundary between two.

use std::path::PathBuf;

use serde_json::json;

use super::{
    content, fails, fails_with, from_to, inode, merged, names, path, read, seen_by, with_mounts,
    write, write_in_place,
};
use crate::support::{Peer, Setup, TempDir, lacks, over_both_with};

/// `ro` is mounted read-only and holds `f`; `file` is a mount of `source`; `ro/bound` is a mount of
/// `bound`, writable in a directory that is not.
const MOUNTS: &str = "
mount --bind \"$DIR/ro\" \"$DIR/ro\"
mount -o remount,bind,ro \"$DIR/ro\"
mount --bind \"$DIR/source\" \"$DIR/file\"
mount --bind \"$DIR/bound\" \"$DIR/ro/bound\"
mount -t tmpfs tmpfs \"$DIR/tmpfs\"";

/// A directory with what is mounted there. Each server has one, since they share the files.
fn directory() -> TempDir {
    let dir = TempDir::new();
    for name in ["ro", "tmpfs", "ro/d"] {
        std::fs::create_dir(dir.join(name)).unwrap();
    }
    for name in ["ro/f", "ro/bound", "source", "file", "bound"] {
        dir.write(name, format!("old {name}"));
    }
    dir
}

/// Runs the body over both transports, each with its own directory.
fn over_both_in(body: impl Fn(&TempDir, &mut Peer) + Sync) {
    let made = std::sync::Mutex::new(Vec::new());
    let setup = || -> Setup {
        let dir = directory();
        let setup = with_mounts(dir.path(), MOUNTS);
        made.lock().unwrap().push(dir);
        setup
    };
    over_both_with(setup, |peer| {
        let cwd = PathBuf::from(peer.ok("initialize", &json!({}))["cwd"].as_str().unwrap());
        let mine = {
            let mut made = made.lock().unwrap();
            let index = made.iter().position(|dir| dir.path() == cwd).unwrap();
            made.swap_remove(index)
        };
        body(&mine, peer);
    });
}

fn lacks_mounts(test: &str) -> bool {
    lacks(test, "unshare") || lacks(test, "mount")
}

#[test]
fn a_read_only_mount_is_erofs_and_unchanged() {
    if lacks_mounts("a_read_only_mount_is_erofs_and_unchanged") {
        return;
    }
    over_both_in(|dir, peer| {
        let file = dir.join("ro/f");
        let outside = seen_by(peer.server_pid(), dir.join("ro"));
        for more in [json!({}), json!({"append": true}), json!({"sync": true})] {
            let params = merged(content(&file, "new"), &more);
            fails(peer, "fs/writeFile", &params, "EROFS").assert_names(file.to_str().unwrap());
        }
        for (method, params) in [
            ("fs/writeFile", content(dir.join("ro/new"), "x")),
            ("fs/mkdir", path(dir.join("ro/new"))),
            ("fs/remove", path(&file)),
            ("fs/remove", path(dir.join("ro/d"))),
            ("fs/rename", from_to(&file, dir.join("ro/g"))),
            ("fs/copy", from_to(&file, dir.join("ro/g"))),
        ] {
            fails(peer, method, &params, "EROFS");
        }
        let recursive = merged(path(dir.join("ro/d")), &json!({"recursive": true, "force": true}));
        fails(peer, "fs/remove", &recursive, "EROFS");
        assert_eq!(read(peer, &file), b"old ro/f");
        assert_eq!(names(&outside), ["bound", "d", "f"]);
        let stat = peer.ok("fs/stat", &path(&file));
        let access = [&stat["readable"], &stat["writable"]];
        assert_eq!(access, [&json!(true), &json!(false)], "{stat}");
    });
}

#[test]
fn a_file_that_is_mounted_on_its_own_is_written_in_place() {
    if lacks_mounts("a_file_that_is_mounted_on_its_own_is_written_in_place") {
        return;
    }
    over_both_in(|dir, peer| {
        let source = dir.join("source");
        let before = inode(&source);
        let outside = seen_by(peer.server_pid(), dir.path());
        let here = names(&outside);
        for text in ["new", "a much longer new content than before", ""] {
            write_in_place(peer, dir.join("file"), text);
            assert_eq!(std::fs::read_to_string(&source).unwrap(), text);
            assert_eq!(read(peer, dir.join("file")), text.as_bytes());
        }
        assert_eq!((inode(&source), names(&outside)), (before, here));
        // What it hides was not touched, and the other name can be replaced.
        assert_eq!(std::fs::read(dir.join("file")).unwrap(), b"old file");
        write(peer, dir.join("ro/../bound"), "replaced");
    });
}

#[test]
fn a_file_mounted_into_a_read_only_directory_is_written_in_place() {
    if lacks_mounts("a_file_mounted_into_a_read_only_directory_is_written_in_place") {
        return;
    }
    over_both_in(|dir, peer| {
        write_in_place(peer, dir.join("ro/bound"), "new");
        assert_eq!(read(peer, dir.join("ro/bound")), b"new");
        assert_eq!(std::fs::read(dir.join("bound")).unwrap(), b"new");
        assert_eq!(names(seen_by(peer.server_pid(), dir.join("ro"))), ["bound", "d", "f"]);
        let stat = peer.ok("fs/stat", &path(dir.join("ro/bound")));
        assert_eq!(stat["writable"], json!(true), "{stat}");
    });
}

#[test]
fn what_is_mounted_is_not_removed_and_not_renamed() {
    if lacks_mounts("what_is_mounted_is_not_removed_and_not_renamed") {
        return;
    }
    over_both_in(|dir, peer| {
        fails(peer, "fs/remove", &path(dir.join("file")), "EBUSY");
        fails(peer, "fs/remove", &path(dir.join("tmpfs")), "EBUSY");
        fails(peer, "fs/rename", &from_to(dir.join("file"), dir.join("g")), "EBUSY");
        assert_eq!(read(peer, dir.join("file")), b"old source");
    });
}

#[test]
fn a_rename_into_another_file_system_is_exdev_or_whole() {
    if lacks_mounts("a_rename_into_another_file_system_is_exdev_or_whole") {
        return;
    }
    over_both_in(|dir, peer| {
        let (from, to) = (dir.join("bound"), dir.join("tmpfs/moved"));
        match peer.call("fs/rename", &from_to(&from, &to)) {
            Ok(_) => assert_eq!(read(peer, &to), b"old bound"),
            Err(error) => {
                assert_eq!(error.data_code(), "EXDEV", "{error:?}");
                assert_eq!(read(peer, &from), b"old bound");
                fails_with(peer, "fs/stat", &path(&to), &["ENOENT"]);
            }
        }
    });
}

#[test]
fn a_copy_into_another_file_system_is_whole() {
    if lacks_mounts("a_copy_into_another_file_system_is_whole") {
        return;
    }
    over_both_in(|dir, peer| {
        let to = dir.join("tmpfs/copy");
        peer.ok("fs/copy", &from_to(dir.join("bound"), &to));
        assert_eq!(read(peer, &to), b"old bound");
        // A link that leads there is replaced where it leads to.
        super::symlink(&to, dir.join("link"));
        write(peer, dir.join("link"), "through");
        assert_eq!(read(peer, &to), b"through");
    });
}
