//! Names of any bytes, as arguments.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Stdio;

use super::{Running, everywhere, noise};

/// Not UTF-8; the character that stands for a byte inside; a blank, a quote.
const ODD: [&[u8]; 3] = [b"a\xff\xfe", "\u{10ff80}x".as_bytes(), b"it's \xe4"];

fn words(words: &[&OsStr]) -> Vec<OsString> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn every_command_takes_them() {
    everywhere(|site| {
        for bytes in ODD {
            let name = OsStr::from_bytes(bytes);
            let path = site.there.path().join(name);
            let path = path.as_os_str();
            let mut write = site.ta("fs write", [path]);
            write.stdin(Stdio::piped());
            let mut running = Running::start(write);
            running.feed(noise(3 << 20));
            running.finish().quiet();
            assert!(fs::read(path).unwrap() == noise(3 << 20));
            assert!(site.run("fs read", [path]).quiet() == noise(3 << 20));
            let told = site.run("fs stat", words(&[OsStr::new("--json"), path])).json();
            assert_eq!(told["size"], 3 << 20);
            assert_eq!(told["path"].is_object(), name.to_str().is_none());
            let colon = [b":", path.as_bytes()].concat();
            let colon = OsStr::from_bytes(&colon);
            site.run("cp", words(&[colon, OsStr::new(".")])).quiet();
            assert!(fs::read(site.here.path().join(name)).unwrap() == noise(3 << 20));
            let moved = [path.as_bytes(), b"2"].concat();
            let moved = OsStr::from_bytes(&moved);
            site.run("fs mv", [path, moved]).quiet();
            site.run("fs mkdir", [path]).quiet();
            assert!(fs::metadata(path).unwrap().is_dir());
            site.run("fs rm", words(&[OsStr::new("-r"), path, moved])).quiet();
            assert_eq!(fs::read_dir(site.there.path()).unwrap().count(), 0);
        }
    });
}

#[test]
fn what_is_no_path_is_refused() {
    let odd = OsStr::from_bytes(b"a\xff");
    for option in ["--exec", "--via"] {
        let mut command = super::bare(["fs", "stat", option]);
        command.args([odd, OsStr::new("x")]);
        let done = Running::start(command).finish();
        done.failed(2, option);
    }
}
