//! The files of docs/deploy: what judges them has nothing to object to, and what they start runs.

mod formats;
mod images;
mod supervisors;
mod systemd;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{TempDir, binary};

/// A page that nobody is led to, or a link that leads nowhere.
#[test]
fn the_guide_to_deploying_leads_to_every_file_and_to_no_other() {
    let guide = page("../deploy.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let links = guide.match_indices("](deploy/").map(|(at, _)| &guide[at + 9..]);
    let mut linked: Vec<_> = links
        .map(|link| link.split(')').next().unwrap().to_owned())
        .filter(|name| !name.is_empty())
        .collect();
    let mut there = Vec::new();
    for directory in ["", "kubernetes/", "s6/", "runit/"] {
        let files = std::fs::read_dir(page(directory)).unwrap().map(Result::unwrap);
        let files = files.filter(|entry| entry.file_type().unwrap().is_file());
        there.extend(files.map(|file| format!("{directory}{}", file.file_name().display())));
    }
    linked.sort();
    there.sort();
    linked.dedup();
    assert_eq!(linked, there);
}

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
