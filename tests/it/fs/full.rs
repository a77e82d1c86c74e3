//! No room: a disk that is full and a limit on the size of a file. The old content stays.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use serde_json::json;

use super::{
    after, content, fails, from_to, inode, merged, names, noise, path, read, seen_by, with_mounts,
    write, write_with,
};
use crate::support::{Peer, Setup, TempDir, lacks, over_both_with};

/// A server on whose machine `DIR/small` is a file system of 128 KiB.
fn with_little_room(dir: &TempDir) -> Setup {
    std::fs::create_dir_all(dir.join("small")).unwrap();
    with_mounts(dir.path(), "mount -t tmpfs -o size=128k,nr_inodes=100 small \"$DIR/small\"")
}

/// The directory with little room: for requests, and for the test's own eyes.
fn small(dir: &TempDir, peer: &mut Peer) -> (PathBuf, PathBuf) {
    let inside = dir.join("small");
    let outside = seen_by(peer.server_pid(), &inside);
    assert_eq!(names(&outside), [""; 0]);
    assert_ne!(
        std::fs::metadata(&outside).unwrap().dev(),
        std::fs::metadata(&inside).unwrap().dev(),
        "it is no file system of its own"
    );
    (inside, outside)
}

#[test]
fn a_full_disk_leaves_the_old_content_and_nothing_temporary() {
    const NAME: &str = "a_full_disk_leaves_the_old_content_and_nothing_temporary";
    if lacks(NAME, "unshare") || lacks(NAME, "mount") {
        return;
    }
    let dir = TempDir::new();
    over_both_with(
        || with_little_room(&dir),
        |peer| {
            let (inside, outside) = small(&dir, peer);
            let file = inside.join("f");
            let old = noise(60_000, 1);
            write(peer, &file, &old);
            for more in [json!({}), json!({"sync": true}), json!({"append": true})] {
                let params = merged(content(&file, noise(100_000, 2)), &more);
                let error = fails(peer, "fs/writeFile", &params, "ENOSPC");
                error.assert_names(file.to_str().unwrap());
                assert!(std::fs::read(outside.join("f")).unwrap() == old, "{more}");
                assert_eq!(names(&outside), ["f"], "{more}");
            }
            assert!(read(peer, &file) == old);
            // What fits is written as ever.
            write(peer, &file, noise(50_000, 3));
            assert!(read(peer, &file) == noise(50_000, 3));
            assert_eq!(names(&outside), ["f"]);
        },
    );
}

#[test]
fn a_new_file_that_does_not_fit_is_not_there() {
    const NAME: &str = "a_new_file_that_does_not_fit_is_not_there";
    if lacks(NAME, "unshare") || lacks(NAME, "mount") {
        return;
    }
    let dir = TempDir::new();
    over_both_with(
        || with_little_room(&dir),
        |peer| {
            let (inside, outside) = small(&dir, peer);
            write(peer, inside.join("f"), noise(60_000, 1));
            let none = json!({"ifVersion": ""});
            for more in [json!({}), none] {
                let params = merged(content(inside.join("new"), noise(100_000, 2)), &more);
                fails(peer, "fs/writeFile", &params, "ENOSPC");
                assert_eq!(names(&outside), ["f"], "{more}");
            }
            write(peer, inside.join("g"), noise(50_000, 1));
            fails(peer, "fs/copy", &from_to(inside.join("f"), inside.join("copy")), "ENOSPC");
            assert_eq!(names(&outside), ["f", "g"], "half a copy");
            // An existing file that a copy would have replaced.
            fails(peer, "fs/copy", &from_to(inside.join("f"), inside.join("g")), "ENOSPC");
            assert!(read(peer, inside.join("g")) == noise(50_000, 1), "lost to a copy");
            peer.ok("fs/remove", &path(inside.join("g")));
            write(peer, inside.join("f"), "room again");
        },
    );
}

#[test]
fn an_append_that_does_not_fit_is_cut_back() {
    const NAME: &str = "an_append_that_does_not_fit_is_cut_back";
    if lacks(NAME, "unshare") || lacks(NAME, "mount") {
        return;
    }
    let dir = TempDir::new();
    over_both_with(
        || with_little_room(&dir),
        |peer| {
            let (inside, outside) = small(&dir, peer);
            let file = inside.join("log");
            let append = json!({"append": true});
            let mut expected = Vec::new();
            loop {
                let part = noise(9_000, 4);
                match peer.call("fs/writeFile", &merged(content(&file, &part), &append)) {
                    Ok(_) => expected.extend(part),
                    Err(error) => {
                        assert_eq!(error.data_code(), "ENOSPC", "{error:?}");
                        break;
                    }
                }
                assert!(expected.len() < 140_000, "no limit");
            }
            assert!(expected.len() > 100_000, "{} bytes", expected.len());
            assert!(std::fs::read(outside.join("log")).unwrap() == expected, "not cut back");
            assert!(read(peer, &file) == expected);
            assert_eq!(names(&outside), ["log"]);
        },
    );
}

/// Where it has to be written in place, the room is there before the old content goes.
#[test]
fn a_full_disk_leaves_the_old_content_of_a_file_with_two_names() {
    const NAME: &str = "a_full_disk_leaves_the_old_content_of_a_file_with_two_names";
    if lacks(NAME, "unshare") || lacks(NAME, "mount") {
        return;
    }
    let dir = TempDir::new();
    over_both_with(
        || with_little_room(&dir),
        |peer| {
            let (inside, outside) = small(&dir, peer);
            let old = noise(60_000, 1);
            write(peer, inside.join("f"), &old);
            std::fs::hard_link(outside.join("f"), outside.join("other")).unwrap();
            let params = content(inside.join("f"), noise(200_000, 2));
            fails(peer, "fs/writeFile", &params, "ENOSPC");
            assert!(std::fs::read(outside.join("other")).unwrap() == old, "the old is lost");
            assert_eq!(names(&outside), ["f", "other"]);
            // 100 KB fit in place, though not beside it.
            let before = inode(outside.join("f"));
            let result = write_with(peer, inside.join("f"), noise(100_000, 3), &json!({}));
            assert_eq!(result["atomic"], json!(false));
            assert!(std::fs::read(outside.join("other")).unwrap() == noise(100_000, 3));
            assert_eq!(inode(outside.join("f")), before);
        },
    );
}

#[test]
fn no_free_inode_leaves_the_old_content() {
    const NAME: &str = "no_free_inode_leaves_the_old_content";
    if lacks(NAME, "unshare") || lacks(NAME, "mount") {
        return;
    }
    let dir = TempDir::new();
    over_both_with(
        || with_little_room(&dir),
        |peer| {
            let (inside, outside) = small(&dir, peer);
            write(peer, inside.join("f"), "old");
            let mut made = 0;
            let error = loop {
                let params = path(inside.join(format!("d{made}")));
                match peer.call("fs/mkdir", &params) {
                    Ok(_) => made += 1,
                    Err(error) => break error,
                }
                assert!(made < 200, "no limit");
            };
            assert_eq!(error.data_code(), "ENOSPC", "{error:?}");
            let before = names(&outside);
            let outcome = peer.call("fs/writeFile", &content(inside.join("f"), "new"));
            let expected: &[u8] = if outcome.is_ok() { b"new" } else { b"old" };
            assert_eq!(std::fs::read(outside.join("f")).unwrap(), expected);
            assert_eq!(names(&outside), before);
        },
    );
}

/// SIGXFSZ, whose default is to end the process.
#[test]
fn a_limit_on_the_size_of_files_is_efbig_and_the_server_lives() {
    if lacks("a_limit_on_the_size_of_files_is_efbig_and_the_server_lives", "prlimit") {
        return;
    }
    let base = TempDir::new();
    let setup = || after(base.path(), &["prlimit", "--fsize=65536", "--"], "");
    over_both_with(setup, |peer| {
        let dir = TempDir::new();
        let file = dir.join("f");
        write(peer, &file, noise(60_000, 1));
        for more in [json!({}), json!({"append": true}), json!({"sync": true})] {
            let params = merged(content(&file, noise(100_000, 2)), &more);
            fails(peer, "fs/writeFile", &params, "EFBIG").assert_names(file.to_str().unwrap());
            assert!(read(peer, &file) == noise(60_000, 1), "{more}");
            assert_eq!(names(dir.path()), ["f"], "{more}");
        }
        fails(peer, "fs/writeFile", &content(dir.join("new"), noise(70_000, 1)), "EFBIG");
        assert_eq!(names(dir.path()), ["f"]);
        peer.sh("true").assert_success();
        // The limit is the children's too, and so is its default signal.
        let done = peer.sh(&format!("exec head -c 100000 /dev/zero > {}", dir.join("g").display()));
        assert_eq!(done.signal(), Some("SIGXFSZ"), "{}", done.result);
    });
}
