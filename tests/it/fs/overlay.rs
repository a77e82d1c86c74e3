//! A file system of two layers: the first write moves a file to the upper one, where it has another
//! inode, and is the same file all the same.

use std::process::{Command, Stdio};

use serde_json::json;

use super::{content, fails, merged, path, read, version, with_mounts, write_with};
use crate::support::{Peer, Setup, TempDir, lacks, over_both_with, sys};

/// `DIR/merged` shows what is in `DIR/lower`: `a` and `c`, and `b`, which has two names.
const LAYERS: &str = "
mount -t tmpfs tmpfs \"$DIR\"
cd \"$DIR\"
mkdir lower upper work merged
for name in a b c; do printf 'lower %s' $name > lower/$name; done
ln lower/b lower/b2
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged";

/// No machine has to have it.
fn lacks_layers(test: &str) -> bool {
    if lacks(test, "unshare") || lacks(test, "mount") {
        return true;
    }
    let dir = TempDir::new();
    let mut probe = Command::new("unshare");
    probe.arg(if sys::is_root() { "-m" } else { "-rm" });
    probe.args(["sh", "-c", &format!("set -e{LAYERS}")]).env("DIR", dir.path());
    let found = probe.stderr(Stdio::null()).status().unwrap().success();
    if !found {
        println!("SKIPPED {test}: no overlay can be mounted");
    }
    !found
}

fn over_both_in(body: impl Fn(&TempDir, &mut Peer) + Sync) {
    let dir = TempDir::new();
    let setup = || -> Setup { with_mounts(dir.path(), LAYERS) };
    over_both_with(setup, |peer| body(&dir, peer));
}

#[test]
fn an_append_to_a_file_of_the_lower_layer_has_the_right_version() {
    if lacks_layers("an_append_to_a_file_of_the_lower_layer_has_the_right_version") {
        return;
    }
    over_both_in(|dir, peer| {
        let file = dir.join("merged/a");
        let mut known = version(&peer.ok("fs/stat", &path(&file)));
        let wrong = json!({"append": true, "ifVersion": "other"});
        let params = merged(content(&file, "x"), &wrong);
        fails(peer, "fs/writeFile", &params, "CELL_TA_EXEC_CONFLICT");
        for _ in 0..3 {
            let more = json!({"append": true, "ifVersion": known});
            known = version(&write_with(peer, &file, "+", &more));
        }
        assert_eq!(read(peer, &file), b"lower a+++");
        assert_eq!(version(&peer.ok("fs/stat", &path(&file))), known);
    });
}

#[test]
fn a_file_of_the_lower_layer_with_two_names_is_written_with_the_right_version() {
    const NAME: &str = "a_file_of_the_lower_layer_with_two_names_is_written_with_the_right_version";
    if lacks_layers(NAME) {
        return;
    }
    over_both_in(|dir, peer| {
        for name in ["b", "c"] {
            let file = dir.join("merged").join(name);
            let mut known = version(&peer.ok("fs/stat", &path(&file)));
            for text in ["new", "another"] {
                let result = write_with(peer, &file, text, &json!({"ifVersion": known}));
                known = version(&result);
                assert_eq!(read(peer, &file), text.as_bytes());
            }
            assert_eq!(version(&peer.ok("fs/stat", &path(&file))), known);
        }
    });
}
