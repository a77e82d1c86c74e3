//! Appending: in place, through links, whole or cut back.

use serde_json::{Value, json};

use super::{
    chmod, content, inode, merged, mode, names, noise, path, read, symlink, version, write,
    write_with,
};
use crate::support::{Peer, Server, TempDir, over_both};

#[track_caller]
fn append(peer: &mut Peer, file: impl AsRef<std::path::Path>, bytes: impl AsRef<[u8]>) -> Value {
    let result = write_with(peer, file, bytes, &json!({"append": true}));
    assert_eq!(result["atomic"], json!(false), "{result}");
    result
}

#[test]
fn appending_makes_the_file_and_grows_it() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.join("f");
        for (text, size) in [("one\n", 4), ("", 4), ("two\n", 8), ("three", 13)] {
            assert_eq!(append(peer, &file, text)["size"], json!(size));
        }
        assert_eq!(read(peer, &file), b"one\ntwo\nthree");
        append(peer, dir.join("empty"), "");
        assert_eq!(read(peer, dir.join("empty")), b"");
        assert_eq!(names(dir.path()), ["empty", "f"]);
    });
}

#[test]
fn appending_keeps_everything_about_a_file() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.write("f", "a");
        std::fs::hard_link(&file, dir.join("hard")).unwrap();
        symlink("f", dir.join("link"));
        chmod(&file, 0o4755);
        let before = inode(&file);
        append(peer, &file, "b");
        append(peer, dir.join("link"), "c");
        append(peer, dir.join("hard"), "d");
        assert_eq!(read(peer, &file), b"abcd");
        assert_eq!(inode(&file), before);
        assert!(std::fs::symlink_metadata(dir.join("link")).unwrap().is_symlink());
        assert_eq!(names(dir.path()), ["f", "hard", "link"]);
        let expected = if crate::support::sys::is_root() { 0o4755 } else { mode(&file) };
        assert_eq!(mode(&file), expected);
    });
}

#[test]
fn appending_through_a_dangling_link_makes_its_target() {
    over_both(|peer| {
        let dir = TempDir::new();
        symlink("target", dir.join("link"));
        append(peer, dir.join("link"), "x");
        append(peer, dir.join("link"), "y");
        assert_eq!(read(peer, dir.join("target")), b"xy");
        assert!(std::fs::symlink_metadata(dir.join("link")).unwrap().is_symlink());
    });
}

#[test]
fn each_append_has_a_version_and_can_ask_for_one() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.join("f");
        let mut last = String::new();
        for n in 0..50 {
            let params = json!({"append": true, "ifVersion": last});
            let result = write_with(peer, &file, "x", &params);
            assert_eq!(result["size"], json!(n + 1));
            let now = version(&result);
            assert_ne!(now, last);
            let stale = json!({"append": true, "ifVersion": last});
            let error = peer.error("fs/writeFile", &merged(content(&file, "no"), &stale));
            assert_eq!(error.data_code(), "CELL_TA_EXEC_CONFLICT", "{error:?}");
            last = now;
        }
        assert_eq!(read(peer, &file), vec![b'x'; 50]);
    });
}

#[test]
fn a_large_file_is_made_of_parts() {
    over_both(|peer| {
        let dir = TempDir::new();
        let whole = noise(5_000_000, 4);
        let file = dir.join("f");
        write(peer, &file, b"");
        let ids: Vec<_> = whole
            .chunks(300_000)
            .map(|part| {
                let params = merged(content(&file, part), &json!({"append": true}));
                peer.request("fs/writeFile", &params)
            })
            .collect();
        for id in ids {
            peer.answer(&id).unwrap();
        }
        peer.ok("fs/rename", &super::from_to(&file, dir.join("whole")));
        assert!(read(peer, dir.join("whole")) == whole);
        assert_eq!(names(dir.path()), ["whole"]);
        assert_eq!(peer.ok("fs/stat", &path(dir.join("whole")))["size"], json!(5_000_000));
    });
}

#[test]
fn eight_connections_that_append_to_one_file_lose_no_line() {
    let dir = TempDir::new();
    let file = dir.join("log");
    let server = Server::start();
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let (server, file) = (&server, &file);
            let body = move || {
                let mut peer = server.connect();
                for n in 0..50 {
                    append(&mut peer, file, format!("{writer} {n:02} {}\n", "x".repeat(5000)));
                }
            };
            std::thread::Builder::new().spawn_scoped(scope, body).unwrap();
        }
    });
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text.lines().count(), 400);
    assert!(text.lines().all(|line| line.len() == 5005 && line.ends_with('x')));
    for writer in 0..8 {
        let prefix = format!("{writer} ");
        let mine: Vec<_> =
            text.lines().filter(|line| line.starts_with(&prefix)).map(|line| &line[2..4]).collect();
        assert!(mine.is_sorted() && mine.len() == 50, "in the order in which they were sent");
    }
}
