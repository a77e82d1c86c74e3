//! `fs/find` and `fs/grep`: what fd and ripgrep find, and what becomes of a search that is not wanted
//! any more.

mod bounds;
mod ends;
mod find;
mod grep;
mod oracle;

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Peer, TempDir};

/// Params with a path and more.
fn below(path: impl AsRef<Path>, more: &Value) -> Value {
    let mut params = json!({"path": path.as_ref().to_str().expect("text")});
    for (name, value) in more.as_object().expect("an object") {
        params[name] = value.clone();
    }
    params
}

/// The paths that are found, in the order of the answer, and whether there are more.
#[track_caller]
fn found(peer: &mut Peer, path: impl AsRef<Path>, more: &Value) -> (Vec<String>, bool) {
    let result = peer.ok("fs/find", &below(path, more));
    let entries = result["entries"].as_array().expect("entries");
    let paths = entries.iter().map(|entry| entry["path"].as_str().expect("a path").to_owned());
    (paths.collect(), result["truncated"].as_bool().expect("truncated"))
}

/// The matches as `path:line:text`, and whether there are more.
#[track_caller]
fn matches(peer: &mut Peer, path: impl AsRef<Path>, more: &Value) -> (Vec<String>, bool) {
    let result = peer.ok("fs/grep", &below(path, more));
    let matches = result["matches"].as_array().expect("matches");
    let shown = matches.iter().map(|found| {
        let [path, text] = ["path", "text"].map(|name| found[name].as_str().expect("text"));
        format!("{path}:{}:{text}", found["line"])
    });
    (shown.collect(), result["truncated"].as_bool().expect("truncated"))
}

/// Makes files with their directories, each with its content.
fn files(dir: &TempDir, files: &[(&str, &str)]) {
    for (name, content) in files {
        std::fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
        dir.write(name, content);
    }
}

fn mkfifo(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode};
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
}
