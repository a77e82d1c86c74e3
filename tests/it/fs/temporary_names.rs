//! The names that files have on their way, and what else is called so.

use std::os::unix::fs::FileTypeExt as _;

use super::waiting::Waiting;
use super::{content, fails, from_to, merged, mkfifo, names, path, write};
use crate::support::{TempDir, over_both};
use serde_json::json;

#[test]
fn a_fifo_with_the_name_of_a_temporary_file_is_not_opened() {
    over_both(|peer| {
        let dir = TempDir::new();
        dir.write("source", "x");
        let fifo = mkfifo(dir.join(".ta-tmp-0"));
        let waiting = Waiting::to_write(&fifo);
        for text in ["one", "two"] {
            write(peer, dir.join("f"), text);
            peer.ok("fs/copy", &from_to(dir.join("source"), dir.join("copy")));
        }
        if let Ok(found) = fifo.symlink_metadata() {
            assert!(found.file_type().is_fifo(), "it is something else now");
        }
        waiting.assert_still();
        assert_eq!(names(dir.path()).iter().filter(|name| !name.starts_with('.')).count(), 3);
    });
}

#[test]
fn no_file_is_given_the_name_of_a_temporary_one() {
    over_both(|peer| {
        let dir = TempDir::new();
        dir.write("source", "x");
        for name in [".ta-tmp-0", ".ta-tmp-3", ".ta-tmp-4", ".ta-tmp-4294967295"] {
            let file = dir.join(name);
            for more in [json!({}), json!({"append": true}), json!({"ifVersion": ""})] {
                let params = merged(content(&file, "mine"), &more);
                fails(peer, "fs/writeFile", &params, "EINVAL").assert_names(name);
            }
            fails(peer, "fs/copy", &from_to(dir.join("source"), &file), "EINVAL");
            fails(peer, "fs/rename", &from_to(dir.join("source"), &file), "EINVAL");
            assert_eq!(names(dir.path()), ["source"]);
        }
        for name in [".ta-tmp-", ".ta-tmp-x", "ta-tmp-0", ".ta-tmp-0.bak"] {
            write(peer, dir.join(name), "mine");
        }
    });
}

/// Only a file can be on its way to another place.
#[test]
fn a_directory_with_such_a_name_is_copied_like_any_other() {
    over_both(|peer| {
        let dir = TempDir::new();
        peer.ok("fs/mkdir", &path(dir.join("from/.ta-tmp-3")));
        write(peer, dir.join("from/.ta-tmp-3/f"), "inside");
        let params = merged(from_to(dir.join("from"), dir.join("to")), &json!({"recursive": true}));
        peer.ok("fs/copy", &params);
        assert_eq!(std::fs::read(dir.join("to/.ta-tmp-3/f")).unwrap(), b"inside");
    });
}
