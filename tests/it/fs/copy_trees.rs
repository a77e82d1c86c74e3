//! Directories that a copy makes, fills up or cannot finish.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    NOBODY, Shared, chmod, chown, fails, from_to, merged, mkdir, mode, names, needs_root, seen_by,
    symlink, with_mounts,
};
use crate::support::{TempDir, lacks, over_both, over_both_with};

fn tree(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Value {
    merged(from_to(from, to), &json!({"recursive": true}))
}

#[test]
fn a_directory_that_is_filled_up_keeps_its_mode() {
    over_both(|peer| {
        let dir = TempDir::new();
        mkdir(dir.join("from/sub"));
        dir.write("from/sub/f", "x");
        mkdir(dir.join("to/sub"));
        for (from, to) in [(0o700, 0o1777), (0o755, 0o711), (0o777, 0o750)] {
            for name in ["", "/sub"] {
                chmod(dir.join(&format!("from{name}")), from);
                chmod(dir.join(&format!("to{name}")), to);
            }
            assert_eq!(peer.ok("fs/copy", &tree(dir.join("from"), dir.join("to"))), json!({}));
            let modes = ["to", "to/sub"].map(|name| mode(dir.join(name)));
            assert_eq!(modes, [to, to]);
            assert_eq!(std::fs::read(dir.join("to/sub/f")).unwrap(), b"x");
        }
    });
}

#[test]
fn a_new_directory_belongs_to_the_group_of_one_that_says_so() {
    const GROUP: u32 = 1234;
    if needs_root("a_new_directory_belongs_to_the_group_of_one_that_says_so") {
        return;
    }
    over_both(|peer| {
        let dir = TempDir::new();
        mkdir(dir.join("from/sub"));
        for name in ["from", "from/sub"] {
            chmod(dir.join(name), 0o755);
        }
        let shared = mkdir(dir.join("shared"));
        chown(&shared, 0, GROUP);
        chmod(&shared, 0o2775);
        peer.ok("fs/copy", &tree(dir.join("from"), shared.join("copy")));
        for name in ["copy", "copy/sub"] {
            let made = shared.join(name);
            assert_eq!((mode(&made), made.metadata().unwrap().gid()), (0o2755, GROUP), "{name}");
        }
    });
}

#[test]
fn a_copy_that_fails_leaves_no_directory_closed() {
    if needs_root("a_copy_that_fails_leaves_no_directory_closed") {
        return;
    }
    let shared = Shared::new();
    let dir = mkdir(shared.join("d"));
    let from = mkdir(dir.join("from"));
    let unreadable = mkdir(from.join("open/unreadable"));
    for (path, wanted) in
        [(&dir, 0o755), (&from, 0o755), (&from.join("open"), 0o775), (&unreadable, 0o311)]
    {
        chown(path, NOBODY, NOBODY);
        chmod(path, wanted);
    }
    let peer = &mut shared.as_nobody().stdio();
    let error = peer.error("fs/copy", &tree(&from, dir.join("to")));
    assert_eq!(error.data_code(), "EACCES", "{error:?}");
    assert_eq!(mode(dir.join("to")), 0o755);
    assert_eq!(mode(dir.join("to/open")), 0o775);
    let made = dir.join("to/open/unreadable");
    assert!(!made.exists() || mode(&made) == 0o311, "{:o}", mode(&made));
}

/// What is in `DIR/P/A/m` is what is in `DIR/P`, where the copy would be.
const INTO_ITSELF: &str = "
mount -t tmpfs -o size=20m,nr_inodes=3000 tmpfs \"$DIR\"
mkdir -p \"$DIR/P/A/m\"
echo x > \"$DIR/P/A/f\"
mount --bind \"$DIR/P\" \"$DIR/P/A/m\"";

#[test]
fn a_directory_is_not_copied_into_itself_by_way_of_a_mount() {
    const NAME: &str = "a_directory_is_not_copied_into_itself_by_way_of_a_mount";
    if lacks(NAME, "unshare") || lacks(NAME, "mount") {
        return;
    }
    let dir = TempDir::new();
    let setup = || with_mounts(dir.path(), INTO_ITSELF);
    over_both_with(setup, |peer| {
        let outside = seen_by(peer.server_pid(), dir.path());
        let parent = dir.join("P");
        for to in ["C", "A/m/C"] {
            let since = Instant::now();
            let error = peer.error("fs/copy", &tree(parent.join("A"), parent.join(to)));
            assert_eq!(error.data_code(), "EINVAL", "{to}: {error:?}");
            assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
            let depth = depth(outside.join("P/C"));
            assert!(depth < 8, "{to}: {depth} directories below each other");
        }
    });
}

/// However deep in a tree, and by however many steps.
#[test]
fn a_link_does_not_take_the_place_of_what_it_leads_to() {
    over_both(|peer| {
        let dir = TempDir::new();
        mkdir(dir.join("src"));
        mkdir(dir.join("dst"));
        let precious = dir.write("dst/l", "precious");
        symlink("../dst/l", dir.join("src/l"));
        fails(peer, "fs/copy", &tree(dir.join("src"), dir.join("dst")), "EINVAL");
        assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
        dir.write("f", "precious");
        symlink("l2", dir.join("l1"));
        symlink("f", dir.join("l2"));
        fails(peer, "fs/copy", &from_to(dir.join("l1"), dir.join("l2")), "EINVAL");
        assert_eq!(std::fs::read(dir.join("l1")).unwrap(), b"precious");
    });
}

/// How deep this goes, over all mounts but 50 at most.
fn depth(dir: PathBuf) -> usize {
    let mut left = vec![(dir, 1)];
    let mut deepest = 0;
    while let Some((dir, depth)) = left.pop() {
        let Ok(found) = dir.symlink_metadata() else { continue };
        deepest = deepest.max(depth);
        if found.is_dir() && depth < 50 {
            left.extend(names(&dir).into_iter().map(|name| (dir.join(name), depth + 1)));
        }
    }
    deepest
}
