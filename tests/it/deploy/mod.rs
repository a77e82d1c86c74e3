//! The files of docs/deploy: what judges them has nothing to object to, and what they start runs.

mod formats;
mod images;
mod supervisors;
mod systemd;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{TempDir, binary};

fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/deploy").join(name)
}

fn text_of(name: &str) -> String {
    std::fs::read_to_string(page(name)).unwrap()
}

/// A page of docs/deploy with other words for some, all of which it has.
#[track_caller]
fn changed(name: &str, changes: &[(&str, &str)]) -> String {
    let mut text = text_of(name);
    for (from, to) in changes {
        assert!(text.contains(from), "{name} has no {from:?}");
        text = text.replace(from, to);
    }
    text
}

/// The program, in a place where every user may run it. (A test that wrote it itself could find it
/// busy: another test's child may have the descriptor for a moment.)
fn install(dir: &TempDir) -> PathBuf {
    let to = dir.join("ta");
    let done = Command::new("cp").arg(binary()).arg(&to).status().unwrap();
    assert!(done.success());
    to
}
