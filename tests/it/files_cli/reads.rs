//! `ta fs read`.

use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use serde_json::json;

use super::{Running, SIZES, bare, everywhere, noise};
use crate::support::fake::{self, Fake};

/// Neither a byte nor the end came: that was taken for the end, and what was missing for nothing.
#[test]
fn a_read_that_brings_nothing_is_not_the_end() {
    let fake = Fake::start(|request| {
        let nothing = json!({"dataBase64": "", "size": 10, "eof": false, "version": "v"});
        let result = match fake::method(request) {
            "fs/readFile" => nothing,
            _ => fake::introduction(),
        };
        vec![fake::answer(request, &result)]
    });
    let done = Running::start(bare(["fs", "read", "--exec", &fake.url, "file"])).finish();
    done.failed(1, "cannot read \"file\" to its end");
    fake.join();
}

#[test]
fn every_size_comes_whole() {
    everywhere(|site| {
        for size in SIZES {
            let bytes = noise(size);
            site.there.write("file", &bytes);
            let read = site.run("fs read", [site.far("file")]).quiet();
            assert!(read == bytes, "{}: {size}, {} came", site.name, read.len());
        }
    });
}

#[test]
fn a_part_is_read_from_anywhere() {
    everywhere(|site| {
        let bytes = noise(3 << 20);
        site.there.write("file", &bytes);
        let read = |options: &[&str]| {
            let file = site.far("file");
            site.run("fs read", [options, &[&file]].concat()).quiet()
        };
        assert_eq!(read(&["--offset", "5", "--length", "7"]), bytes[5..12]);
        assert_eq!(read(&["--length=1500000"]), bytes[..1_500_000]);
        assert_eq!(read(&["--offset", "1500000"]), bytes[1_500_000..]);
        assert_eq!(read(&["--offset", "3145728"]), b"");
        assert_eq!(read(&["--offset", "99999999999"]), b"");
        assert_eq!(read(&["--length", "0"]), b"");
        let missing = site.run("fs read", ["--length", "0", &site.far("missing")]);
        missing.failed(1, "missing");
    });
}

#[test]
fn files_that_say_they_are_empty_are_read() {
    everywhere(|site| {
        let status = site.run("fs read", ["/proc/self/status"]).text();
        assert!(status.contains("VmRSS"), "{status}");
    });
}

#[test]
fn what_is_no_file_is_refused() {
    everywhere(|site| {
        let fifo = site.there.join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        for (path, why) in [
            (site.far("fifo"), "a FIFO"),
            (site.far(""), "directory"),
            (site.far("missing"), "no such file"),
            ("/dev/null".to_owned(), "a device"),
        ] {
            let done = site.run("fs read", [&path]);
            done.failed(1, why);
            assert!(done.stderr.contains(path.trim_end_matches('/')), "{done:?}");
        }
    });
}

#[test]
fn nobody_reads_the_output() {
    everywhere(|site| {
        site.there.write("file", noise(5 << 20));
        let mut child = site
            .ta("fs read", [site.far("file")])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut one = [0];
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut one).unwrap();
        drop(stdout);
        let done = child.wait_with_output().unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal(&done.status);
        assert_eq!((signal, done.stderr.len()), (Some(13), 0), "{done:?}");
    });
}

#[test]
fn a_file_that_changes_meanwhile_is_an_error() {
    everywhere(|site| {
        let bytes = noise(24 << 20);
        let path = site.there.write("file", &bytes);
        let mut child = site
            .ta("fs read", [site.far("file")])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = vec![0; 100];
        child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"more").unwrap();
        let done = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("has changed") && stderr.lines().count() == 1, "{stderr}");
        // What came before that is the file's.
        let read = [first, done.stdout].concat();
        assert!(read.len() < bytes.len() && bytes.starts_with(&read), "{}", read.len());
        fs::remove_file(path).unwrap();
    });
}
