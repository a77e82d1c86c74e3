//! `ta fs write`.

use std::fs;

use super::{SIZES, everywhere, mode, noise};
use crate::run::pty::Pty;

#[test]
fn every_size_is_written_whole_and_nothing_is_said() {
    everywhere(|site| {
        for size in SIZES {
            for round in ["new", "again"] {
                let bytes = noise(size);
                let done = site.feed("fs write", &[&site.far("file")], &bytes);
                assert_eq!(done.quiet(), b"", "{size} {round}");
                assert!(fs::read(site.there.join("file")).unwrap() == bytes, "{size} {round}");
            }
            fs::remove_file(site.there.join("file")).unwrap();
        }
    });
}

/// It waited for a second end of input.
#[test]
fn what_is_typed_ends_with_one_end_of_input() {
    everywhere(|site| {
        for options in [&[][..], &["--append"]] {
            let pty = Pty::new(80, 24);
            let file = site.far("file");
            let args = [options, &[&file]].concat();
            let mut running = pty.start(site.ta("fs write", args));
            pty.write("typed\n\u{4}");
            assert_eq!(running.wait(), 0, "{}", site.name);
            assert_eq!(fs::read(site.there.join("file")).unwrap(), b"typed\n");
            fs::remove_file(site.there.join("file")).unwrap();
        }
    });
}

#[test]
fn a_new_file_gets_the_mode() {
    everywhere(|site| {
        for (number, size) in [3, 3 << 20].into_iter().enumerate() {
            for bits in ["600", "755", "444"] {
                let name = format!("file-{number}-{bits}");
                let args = ["--mode", bits, &site.far(&name)];
                site.feed("fs write", &args, &noise(size)).quiet();
                let expected = u32::from_str_radix(bits, 8).unwrap();
                assert_eq!(mode(site.there.join(&name)), expected, "{} {name}", site.name);
            }
        }
    });
}

#[test]
fn parents_are_made_when_asked_for() {
    everywhere(|site| {
        for size in [3, 3 << 20] {
            let path = site.far(&format!("a/{size}/file"));
            site.feed("fs write", &[&path], &noise(size)).failed(1, &path);
            site.feed("fs write", &["--parents", &path], &noise(size)).quiet();
            assert!(fs::read(&path).unwrap() == noise(size));
        }
    });
}

#[test]
fn bytes_are_appended() {
    everywhere(|site| {
        let path = site.far("log");
        let mut expected = Vec::new();
        for size in [0, 5, 3 << 20, 1 << 20] {
            let bytes = noise(size);
            site.feed("fs write", &["--append", &path], &bytes).quiet();
            expected.extend(bytes);
            assert!(fs::read(&path).unwrap() == expected, "{size}");
        }
        let told = site.feed("fs write", &["--append", "--json", "--sync", &path], b"end").json();
        assert_eq!(told["size"], expected.len() + 3);
    });
}

#[test]
fn a_version_is_kept_to() {
    everywhere(|site| {
        for size in [3, 3 << 20] {
            let path = site.far(&format!("file-{size}"));
            let write = |version: &str, bytes: &[u8]| {
                site.feed("fs write", &["--json", "--if-version", version, &path], bytes)
            };
            let first = write("", &noise(size)).json();
            assert_eq!(first["size"], size);
            write("", b"x").failed(1, "it exists");
            write("", &noise(size)).failed(1, "it exists");
            let version = first["version"].as_str().unwrap();
            assert_eq!(site.run("fs stat", ["--json", &path]).json()["version"], version);
            let second = write(version, &noise(size + 1)).json();
            write(version, &noise(size)).failed(1, "it has changed since that version");
            assert!(fs::read(&path).unwrap() == noise(size + 1));
            let stat = site.run("fs stat", ["--json", &path]).json();
            assert_eq!(stat["version"], second["version"]);
            fs::remove_file(&path).unwrap();
            write(version, &noise(size)).failed(1, "it does not exist");
            assert!(!fs::exists(&path).unwrap());
        }
    });
}

#[test]
fn a_file_can_be_flushed() {
    everywhere(|site| {
        for size in [3, 3 << 20] {
            let path = site.far("file");
            site.feed("fs write", &["--sync", &path], &noise(size)).quiet();
            assert!(fs::read(&path).unwrap() == noise(size));
        }
    });
}

#[test]
fn what_is_no_file_is_not_replaced() {
    everywhere(|site| {
        fs::create_dir(site.there.join("dir")).unwrap();
        for size in [3, 3 << 20] {
            let path = site.far("dir");
            let done = site.feed("fs write", &[&path], &noise(size));
            done.failed(1, &path);
            assert!(site.there.join("dir").is_dir());
        }
    });
}
