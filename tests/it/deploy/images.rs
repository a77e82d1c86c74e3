//! What the Dockerfile of an empty image makes, without Docker: the root that it describes.

use std::process::Command;

use serde_json::json;

use super::text_of;
use crate::support::rootfs::static_binary;
use crate::support::{Setup, TempDir, lacks, skipped, sys};

const NAME: &str = "an_empty_image_serves_as_its_dockerfile_says";

/// What follows a word at the beginning of a line.
#[track_caller]
fn instruction<'a>(text: &'a str, word: &str) -> &'a str {
    let found = text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("there is no {word}"))
}

#[test]
fn an_empty_image_serves_as_its_dockerfile_says() {
    if lacks(NAME, "unshare") || lacks(NAME, "chroot") {
        return;
    }
    if !sys::is_root() {
        skipped(NAME, "only root may change its root");
        return;
    }
    let Some(program) = static_binary() else {
        skipped(NAME, "there is no static binary, and it cannot be built");
        return;
    };
    let text = text_of("Dockerfile.scratch");
    let root = TempDir::new();
    let (from, to) = instruction(&text, "COPY").split_once(' ').unwrap();
    assert_eq!(from, "ta");
    let to = root.join(to.trim_start_matches('/'));
    assert!(Command::new("cp").arg(program).arg(to).status().unwrap().success());
    let cwd = instruction(&text, "WORKDIR");
    std::fs::create_dir_all(root.join(cwd.trim_start_matches('/'))).unwrap();
    let entry: Vec<String> = serde_json::from_str(instruction(&text, "ENTRYPOINT")).unwrap();
    // As PID 1 of the new root. The first words that the harness adds are in the entry point.
    let enter = format!("root=$0; shift 4; exec chroot \"$root\" {} \"$@\"", entry.join(" "));
    let place = root.path().to_str().unwrap();
    let words = ["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", &enter, place];
    let server = Setup::new().under(&words).host("0.0.0.0").args(["--cwd", cwd]).listen();
    let mut peer = server.connect();
    let version = peer.run(json!({"command": "/ta", "args": ["--version"]}));
    assert!(version.text().starts_with("ta "), "{:?}", version.text());
}
