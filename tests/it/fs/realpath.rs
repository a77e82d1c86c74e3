//! `fs/realpath`

use serde_json::json;

use super::{fails, in_dir, mkdir, path, symlink, wire};
use crate::support::{Peer, TempDir, over_both, over_both_with};

#[track_caller]
fn leads_to(peer: &mut Peer, from: impl AsRef<std::path::Path>, to: &std::path::Path) {
    let from = from.as_ref();
    let found = peer.ok("fs/realpath", &path(from));
    assert_eq!(found, json!({"path": wire(to)}), "{}", from.display());
}

#[test]
fn a_path_is_freed_of_links_and_dots() {
    over_both(|peer| {
        let dir = TempDir::new();
        let sub = mkdir(dir.join("sub/deep"));
        let file = dir.write("sub/f", "");
        symlink("sub/deep", dir.join("link"));
        symlink(dir.join("link"), dir.join("chain"));
        symlink("../f", sub.join("up"));
        leads_to(peer, &file, &file);
        leads_to(peer, dir.join("link"), &sub);
        leads_to(peer, dir.join("chain/"), &sub);
        leads_to(peer, dir.join("chain/up"), &file);
        // `..` leaves the directory that the link leads to.
        leads_to(peer, dir.join("chain/../f"), &file);
        leads_to(peer, dir.join("./sub//.///deep/../../sub/f"), &file);
        leads_to(peer, "/", "/".as_ref());
        leads_to(peer, "/../..", "/".as_ref());
    });
}

#[test]
fn a_path_to_nothing_has_no_real_path() {
    over_both(|peer| {
        let dir = TempDir::new();
        dir.write("f", "");
        symlink("nowhere", dir.join("dangling"));
        symlink("loop", dir.join("loop"));
        for (name, code) in [
            ("nope", "ENOENT"),
            ("dangling", "ENOENT"),
            ("loop", "ELOOP"),
            ("f/x", "ENOTDIR"),
            ("f/..", "ENOTDIR"),
        ] {
            let missing = dir.join(name);
            fails(peer, "fs/realpath", &path(&missing), code)
                .assert_names(missing.to_str().unwrap());
        }
        fails(peer, "fs/realpath", &path(""), "ENOENT");
    });
}

#[test]
fn a_relative_path_becomes_absolute() {
    let dir = TempDir::new();
    let file = dir.write("f", "");
    over_both_with(
        || in_dir(dir.path()),
        |peer| {
            leads_to(peer, "f", &file);
            leads_to(peer, ".", dir.path());
            leads_to(peer, "..", dir.path().parent().unwrap());
        },
    );
}
