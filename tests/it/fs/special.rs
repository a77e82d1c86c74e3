//! What is no regular file, read and written: a typed error at once, and nothing is ever waited
//! for.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    AT_ONCE, content, device, fails, fails_with, merged, mkdir, mkfifo, names, path, read, symlink,
    write, write_with,
};
use crate::support::{DEADLINE, TempDir, over_both, sys};

const NOT_A_FILE: &str = "CELL_TA_EXEC_NOT_A_FILE";

/// Somebody who has the FIFO open for reading, without waiting for a writer.
fn reader_of(fifo: &Path) -> File {
    File::options().read(true).custom_flags(libc::O_NONBLOCK).open(fifo).unwrap()
}

fn is_fifo(path: &Path) -> bool {
    std::fs::symlink_metadata(path).unwrap().file_type().is_fifo()
}

/// A null device: the test's own where that can be had, since root can replace the real one.
fn null(dir: &TempDir) -> PathBuf {
    if sys::is_root() { device(dir.join("null"), 3) } else { "/dev/null".into() }
}

#[test]
fn reading_what_is_no_file_is_a_typed_error_at_once() {
    over_both(|peer| {
        let dir = TempDir::new();
        let fifo = mkfifo(dir.join("fifo"));
        let written = mkfifo(dir.join("written"));
        let _writer = File::options().read(true).write(true).open(&written).unwrap();
        let socket = dir.join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        symlink(&fifo, dir.join("link"));
        let link = dir.join("link");
        let paths: [&Path; 7] = [
            &fifo,
            &written,
            &socket,
            &link,
            "/dev/zero".as_ref(),
            "/dev/null".as_ref(),
            "/dev/tty".as_ref(),
        ];
        for file in paths {
            for range in [json!({}), json!({"offset": 1, "length": 1}), json!({"length": 0})] {
                let params = merged(path(file), &range);
                let error = fails(peer, "fs/readFile", &params, NOT_A_FILE);
                error.assert_names(file.to_str().unwrap());
            }
        }
        peer.ping();
    });
}

#[test]
fn reading_a_directory_is_eisdir() {
    over_both(|peer| {
        let dir = TempDir::new();
        for name in [dir.path(), "/".as_ref(), "/proc/self".as_ref()] {
            fails(peer, "fs/readFile", &path(name), "EISDIR").assert_names(name.to_str().unwrap());
        }
    });
}

#[test]
fn what_is_not_there_is_named() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.write("f", "x");
        symlink("nowhere", dir.join("dangling"));
        symlink("loop", dir.join("loop"));
        symlink("ping", dir.join("pong"));
        symlink("pong", dir.join("ping"));
        for (name, code) in [
            ("nope", "ENOENT"),
            ("no/such/dir", "ENOENT"),
            ("dangling", "ENOENT"),
            ("f/below", "ENOTDIR"),
            ("f/", "ENOTDIR"),
            ("loop", "ELOOP"),
            ("ping", "ELOOP"),
            ("loop/below", "ELOOP"),
        ] {
            let file = format!("{}/{name}", dir.path().display());
            for method in ["fs/readFile", "fs/stat", "fs/readdir", "fs/realpath"] {
                fails(peer, method, &path(&file), code).assert_names(&file);
            }
        }
        fails(peer, "fs/readFile", &path(""), "ENOENT");
        fails(peer, "fs/readdir", &path(&file), "ENOTDIR");
    });
}

#[test]
fn writing_to_a_fifo_that_nobody_reads_fails_at_once() {
    over_both(|peer| {
        let dir = TempDir::new();
        let fifo = mkfifo(dir.join("fifo"));
        for more in [json!({}), json!({"append": true}), json!({"sync": true})] {
            let params = merged(content(&fifo, "x"), &more);
            fails_with(peer, "fs/writeFile", &params, &["ENXIO", NOT_A_FILE]);
        }
        assert!(is_fifo(&fifo));
        assert_eq!(names(dir.path()), ["fifo"]);
    });
}

#[test]
fn the_reader_of_a_fifo_gets_what_is_written() {
    over_both(|peer| {
        let dir = TempDir::new();
        let fifo = mkfifo(dir.join("fifo"));
        let mut reader = reader_of(&fifo);
        for more in [json!({}), json!({"append": true})] {
            let result = write_with(peer, &fifo, "hello", &more);
            assert_eq!(result["atomic"], json!(false), "{result}");
            let mut got = [0; 10];
            let count = reader.read(&mut got).unwrap();
            assert_eq!(&got[..count], b"hello");
        }
        assert!(is_fifo(&fifo));
        assert_eq!(names(dir.path()), ["fifo"]);
    });
}

#[test]
fn a_reader_of_a_fifo_that_is_stuck_holds_up_nobody() {
    over_both(|peer| {
        let dir = TempDir::new();
        let fifo = mkfifo(dir.join("fifo"));
        let mut reader = reader_of(&fifo);
        let stuck = peer.request("fs/writeFile", &content(&fifo, vec![b'x'; 1 << 20]));
        let since = Instant::now();
        peer.ping();
        peer.sh("true").assert_success();
        assert!(since.elapsed() < AT_ONCE, "{:?}", since.elapsed());
        write(peer, dir.join("other"), "written");
        assert_eq!(read(peer, dir.join("other")), b"written");
        // More than a pipe holds was not taken, so it cannot have been a success.
        let error = peer.answer(&stuck).unwrap_err();
        assert!(!error.data_code().is_empty(), "{error:?}");
        let mut got = vec![0; 64 * 1024];
        assert!(reader.read(&mut got).unwrap_or(0) <= 64 * 1024);
        assert!(is_fifo(&fifo));
    });
}

#[test]
fn writing_to_a_socket_fails_at_once() {
    over_both(|peer| {
        let dir = TempDir::new();
        let socket = dir.join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        for more in [json!({}), json!({"append": true})] {
            let params = merged(content(&socket, "x"), &more);
            fails_with(peer, "fs/writeFile", &params, &["ENXIO", NOT_A_FILE]);
        }
        assert!(std::fs::symlink_metadata(&socket).unwrap().file_type().is_socket());
        assert_eq!(names(dir.path()), ["socket"]);
    });
}

#[test]
fn a_null_device_takes_everything_and_stays_a_device() {
    over_both(|peer| {
        let dir = TempDir::new();
        let null = null(&dir);
        let before = names(dir.path());
        for more in [json!({}), json!({"append": true}), json!({"sync": true})] {
            let params = merged(content(&null, vec![1; 100_000]), &more);
            let result: Value = peer.ok("fs/writeFile", &params);
            assert_eq!(result["atomic"], json!(false), "{result}");
        }
        let kind = std::fs::symlink_metadata(&null).unwrap().file_type();
        assert!(kind.is_char_device());
        assert_eq!(names(dir.path()), before);
    });
}

#[test]
fn a_device_that_is_full_says_so() {
    over_both(|peer| {
        if !sys::is_root() {
            return;
        }
        let dir = TempDir::new();
        let full = device(dir.join("full"), 7);
        fails(peer, "fs/writeFile", &content(&full, "x"), "ENOSPC");
        assert!(std::fs::symlink_metadata(&full).unwrap().file_type().is_char_device());
        assert_eq!(names(dir.path()), ["full"]);
    });
}

#[test]
fn writing_where_no_file_can_be_fails_and_leaves_nothing() {
    over_both(|peer| {
        let dir = TempDir::new();
        dir.write("f", "kept");
        mkdir(dir.join("d"));
        symlink("loop", dir.join("loop"));
        symlink("d", dir.join("to-d"));
        let before = names(dir.path());
        let inside = |name: &str| format!("{}/{name}", dir.path().display());
        for (name, codes) in [
            ("d", &["EISDIR"][..]),
            ("d/", &["EISDIR"]),
            ("to-d", &["EISDIR"]),
            (".", &["EISDIR"]),
            ("d/..", &["EISDIR"]),
            ("new/", &["EISDIR", "ENOENT", "ENOTDIR"]),
            ("f/", &["ENOTDIR", "EISDIR"]),
            ("f/below", &["ENOTDIR"]),
            ("loop", &["ELOOP"]),
            ("no/such", &["ENOENT"]),
        ] {
            for more in [json!({}), json!({"append": true}), json!({"mode": 0o600})] {
                let params = merged(content(inside(name), "x"), &more);
                fails_with(peer, "fs/writeFile", &params, codes).assert_names(&inside(name));
            }
        }
        fails(peer, "fs/writeFile", &content("", "x"), "ENOENT");
        assert_eq!(names(dir.path()), before);
        assert_eq!(names(dir.join("d")), [""; 0]);
        assert_eq!(read(peer, dir.join("f")), b"kept");
    });
}

/// 100 of them at once are more than any pool of threads has room for.
#[test]
fn a_hundred_reads_of_fifos_delay_nothing() {
    over_both(|peer| {
        let dir = TempDir::new();
        let fifo = mkfifo(dir.join("fifo"));
        let file = dir.write("f", "content");
        let since = Instant::now();
        let all: Vec<_> = (0..100).map(|_| peer.request("fs/readFile", &path(&fifo))).collect();
        assert_eq!(read(peer, &file), b"content");
        for id in all {
            let error = peer.answer_within(&id, Duration::from_secs(5)).unwrap_err();
            assert_eq!(error.data_code(), NOT_A_FILE, "{error:?}");
        }
        assert!(since.elapsed() < DEADLINE);
    });
}
