//! `make run`: what it starts ends with it, also where it is not run to its end.

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::support::{DEADLINE, TempDir, binary, eventually, holds_within, sys};

/// How it is ended.
enum Way {
    Signal(i32),
    /// Nobody reads it any more.
    Unread,
}

#[test]
fn a_demonstration_that_is_broken_off_leaves_nothing() {
    for way in [Way::Unread, Way::Signal(libc::SIGHUP), Way::Signal(libc::SIGTERM)] {
        let dir = TempDir::new();
        let mut script = Command::new("sh");
        script.arg("tests/demo.sh").arg(binary()).env("TMPDIR", dir.path());
        script.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut script = script.spawn().unwrap();
        let mut stdout = BufReader::new(script.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let (_, rest) = line.split_once("ws://").expect("a line with the address");
        let (address, _) = rest.split_once('/').expect("an address");
        TcpStream::connect(address).expect("the server lives");
        match way {
            Way::Signal(signal) => sys::signal(script.id(), signal).unwrap(),
            Way::Unread => drop(stdout),
        }
        let ended = holds_within(DEADLINE, || script.try_wait().unwrap().is_some());
        if !ended {
            let _ = script.kill();
            panic!("the script goes on");
        }
        eventually(DEADLINE, "the server is gone", || TcpStream::connect(address).is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
