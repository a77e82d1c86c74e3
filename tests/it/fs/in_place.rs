//! Where a rename would lose something, a file is written in place and the answer says so.

use std::os::unix::fs::MetadataExt as _;

use serde_json::json;

use super::{
    NOBODY, Shared, chmod, chown, content, fails, inode, mkdir, mode, names, needs_root, read,
    symlink, write, write_in_place,
};
use crate::support::{TempDir, over_both};

#[test]
fn both_names_of_a_file_show_the_new_content() {
    over_both(|peer| {
        let dir = TempDir::new();
        mkdir(dir.join("sub"));
        let file = dir.program("f", "a longer old content");
        let other = dir.join("sub/other");
        std::fs::hard_link(&file, &other).unwrap();
        symlink("sub/other", dir.join("link"));
        let before = inode(&file);
        for (name, text) in [("f", "new"), ("sub/other", "a much longer content"), ("link", "")] {
            write_in_place(peer, dir.join(name), text);
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
            assert_eq!(std::fs::read_to_string(&other).unwrap(), text);
        }
        assert_eq!((inode(&file), inode(&other), mode(&file)), (before, before, 0o755));
        assert_eq!(names(dir.path()), ["f", "link", "sub"]);
        assert_eq!(names(dir.join("sub")), ["other"]);
        // With the last other name gone it can be replaced in one step again.
        std::fs::remove_file(&other).unwrap();
        write(peer, &file, "alone");
    });
}

#[test]
fn a_file_in_a_directory_that_is_not_writable_is_written_in_place() {
    if needs_root("a_file_in_a_directory_that_is_not_writable_is_written_in_place") {
        return;
    }
    let shared = Shared::new();
    let server = shared.as_nobody().listen();
    let peer = &mut server.connect();
    let closed = mkdir(shared.join("closed"));
    let file = closed.join("f");
    std::fs::write(&file, "a longer old content").unwrap();
    chmod(&file, 0o666);
    let before = inode(&file);
    fails(peer, "fs/writeFile", &content(closed.join("new"), "x"), "EACCES");
    write_in_place(peer, &file, "new");
    assert_eq!(read(peer, &file), b"new");
    write_in_place(peer, &file, "an even longer new content");
    assert_eq!(read(peer, &file), b"an even longer new content");
    assert_eq!((inode(&file), mode(&file)), (before, 0o666));
    assert_eq!(names(&closed), ["f"]);
}

/// In /tmp nobody may rename over a file of somebody else's.
#[test]
fn a_file_of_somebody_elses_is_written_in_place_and_stays_theirs() {
    if needs_root("a_file_of_somebody_elses_is_written_in_place_and_stays_theirs") {
        return;
    }
    let shared = Shared::new();
    let server = shared.as_nobody().listen();
    let peer = &mut server.connect();
    for dir_mode in [0o1777, 0o777] {
        let open = mkdir(shared.join(&format!("{dir_mode:o}")));
        chmod(&open, dir_mode);
        for (name, uid, gid) in [("theirs", 0, 0), ("group", NOBODY, 0), ("other", 1234, NOBODY)] {
            let file = open.join(name);
            std::fs::write(&file, "old").unwrap();
            chown(&file, uid, gid);
            chmod(&file, 0o666);
            write_in_place(peer, &file, "new");
            let found = std::fs::metadata(&file).unwrap();
            assert_eq!((found.uid(), found.gid(), mode(&file)), (uid, gid, 0o666), "{name}");
            assert_eq!(std::fs::read(&file).unwrap(), b"new");
        }
        assert_eq!(names(&open), ["group", "other", "theirs"]);
    }
}

#[test]
fn a_large_file_written_in_place_is_whole() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.write("f", "");
        std::fs::hard_link(&file, dir.join("other")).unwrap();
        for size in [3_000_000, 100, 1_000_000, 0] {
            let bytes = super::noise(size, 6);
            let result = write_in_place(peer, &file, &bytes);
            assert_eq!(result["size"], json!(size));
            assert!(read(peer, dir.join("other")) == bytes, "{size} bytes");
        }
    });
}
