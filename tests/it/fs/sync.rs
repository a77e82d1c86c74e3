//! `sync: true`: the system calls that put a file and its name on the disk, in their order.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::write_with;
use crate::support::{Peer, Setup, TempDir};

/// A server whose calls are written down. strace stays in the background: the server is our child.
fn traced(log: &Path) -> Setup {
    let calls = "trace=fsync,fdatasync,syncfs,sync,rename,renameat,renameat2,linkat,link";
    let log = log.to_str().unwrap();
    Setup::new().under(&["strace", "-D", "-f", "-qq", "-y", "-e", calls, "-o", log, "--"])
}

/// strace is none of the tools that the tests need, so its absence is no failure anywhere.
fn lacks_strace() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join("strace").is_file());
    if !found {
        println!("SKIPPED a test of sync: strace is not installed");
    }
    !found
}

struct Traced {
    peer: Peer,
    log: PathBuf,
    dir: TempDir,
    _logs: TempDir,
}

impl Traced {
    fn start() -> Self {
        let (dir, logs) = (TempDir::new(), TempDir::new());
        let log = logs.join("strace");
        let peer = traced(&log).stdio();
        Self { peer, log, dir, _logs: logs }
    }

    /// Writes, and tells what was done for it: `sync` of a file or of the directory, `name` where
    /// a name was given.
    fn write(&mut self, name: &str, more: &Value) -> Vec<&'static str> {
        self.peer.ping();
        let before = std::fs::read_to_string(&self.log).unwrap_or_default().len();
        write_with(&mut self.peer, self.dir.join(name), "content", more);
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let dir = format!("<{}>", self.dir.path().display());
        let step = |line: &str| {
            let call = line.split_whitespace().nth(1)?;
            let done = !line.contains("= -1") && !line.contains("<unfinished");
            match call.split('(').next()? {
                "fsync" | "fdatasync" if !done => None,
                "fsync" | "fdatasync" if line.contains(&dir) => Some("sync directory"),
                "fsync" | "fdatasync" => Some("sync file"),
                "syncfs" | "sync" => Some("sync all"),
                _ => Some("name"),
            }
        };
        text[before..].lines().filter_map(step).collect()
    }
}

#[test]
fn a_new_content_is_on_the_disk_before_its_name_and_its_name_before_the_answer() {
    if lacks_strace() {
        return;
    }
    let mut traced = Traced::start();
    for name in ["new", "new", "other"] {
        let steps = traced.write(name, &json!({"sync": true}));
        let position = |step| steps.iter().position(|found| *found == step);
        let last_name = steps.iter().rposition(|found| *found == "name");
        assert!(position("sync file") < last_name, "{steps:?}");
        assert!(position("sync file").is_some(), "{steps:?}");
        assert_eq!(steps.last(), Some(&"sync directory"), "{steps:?}");
    }
}

#[test]
fn what_is_written_in_place_is_on_the_disk_before_the_answer() {
    if lacks_strace() {
        return;
    }
    let mut traced = Traced::start();
    let steps = traced.write("log", &json!({"sync": true, "append": true}));
    assert!(steps.contains(&"sync file") && steps.contains(&"sync directory"), "{steps:?}");
    let steps = traced.write("log", &json!({"sync": true, "append": true}));
    assert!(steps.contains(&"sync file"), "{steps:?}");
    std::fs::hard_link(traced.dir.join("log"), traced.dir.join("other")).unwrap();
    let steps = traced.write("log", &json!({"sync": true}));
    assert!(steps.contains(&"sync file"), "{steps:?}");
}

/// Made directories have names too.
#[test]
fn the_directories_that_were_made_for_a_file_are_on_the_disk_too() {
    if lacks_strace() {
        return;
    }
    let mut traced = Traced::start();
    let steps = traced.write("a/b/f", &json!({"sync": true, "createParents": true}));
    // a in the directory, b in a, f in b: two of them are not the directory itself.
    let synced = steps.iter().filter(|step| step.starts_with("sync")).count();
    assert!(steps.contains(&"sync directory") && synced >= 4, "{steps:?}");
}
