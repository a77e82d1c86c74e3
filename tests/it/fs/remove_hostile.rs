//! Removing what is deep, what grows meanwhile, and what is exchanged behind the remover's back.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, RenameFlags};
use serde_json::{Value, json};

use super::{from_to, merged, mkdir, names, path, symlink};
use crate::support::{Peer, RpcError, TempDir, over_both, procfs};

/// How long a removal may take that somebody works against.
const BOUND: Duration = Duration::from_secs(30);

const RECURSIVE: &str = "recursive";

fn remove(peer: &mut Peer, tree: &Path) -> Result<Value, RpcError> {
    let id = peer.request("fs/remove", &merged(path(tree), &json!({RECURSIVE: true})));
    peer.answer_within(&id, BOUND)
}

/// Directories in each other, of which the last ones have no path that a system call would take.
fn make_deep(top: &Path, levels: usize) {
    mkdir(top.to_owned());
    let flags = OFlags::DIRECTORY | OFlags::RDONLY;
    let mut at = rustix::fs::open(top, flags, Mode::empty()).unwrap();
    for _ in 0..levels {
        rustix::fs::mkdirat(&at, "d", Mode::from_raw_mode(0o755)).unwrap();
        at = rustix::fs::openat(&at, "d", flags, Mode::empty()).unwrap();
    }
    let flags = OFlags::CREATE | OFlags::WRONLY;
    rustix::fs::openat(&at, "bottom", flags, Mode::from_raw_mode(0o644)).unwrap();
}

#[test]
fn a_tree_of_three_thousand_levels_is_removed() {
    over_both(|peer| {
        let dir = TempDir::new();
        make_deep(&dir.join("deep"), 3000);
        let before = procfs::descriptors(peer.server_pid());
        remove(peer, &dir.join("deep")).unwrap();
        assert_eq!(names(dir.path()), [""; 0]);
        assert!(procfs::descriptors(peer.server_pid()) <= before + 2);
    });
}

#[test]
fn a_deep_tree_is_copied_or_refused_and_the_server_lives() {
    over_both(|peer| {
        let dir = TempDir::new();
        make_deep(&dir.join("deep"), 3000);
        let params = merged(from_to(dir.join("deep"), dir.join("copy")), &json!({RECURSIVE: true}));
        let id = peer.request("fs/copy", &params);
        if let Err(error) = peer.answer_within(&id, BOUND) {
            assert!(!error.data_code().is_empty(), "{error:?}");
        }
        for name in names(dir.path()) {
            remove(peer, &dir.join(&name)).unwrap();
        }
    });
}

/// A removal that starts anew whenever it finds something would never end.
#[test]
fn a_directory_that_is_filled_while_it_is_removed_ends_the_one_way_or_the_other() {
    over_both(|peer| {
        let dir = TempDir::new();
        let tree = mkdir(dir.join("tree"));
        mkdir(tree.join("sub"));
        let (over, filled) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            for name in ["a", "b"] {
                let (tree, over, filled) = (&tree, &over, &filled);
                let fill = move || {
                    for n in (0_u32..).take_while(|_| !over.load(Ordering::Relaxed)) {
                        let sub = if n % 2 == 0 { "sub" } else { "." };
                        let made = std::fs::File::create(tree.join(sub).join(format!("{name}{n}")));
                        filled.fetch_or(made.is_ok(), Ordering::Relaxed);
                    }
                };
                thread::Builder::new().spawn_scoped(scope, fill).unwrap();
            }
            let _stop = StopOnDrop(&over);
            crate::support::eventually(BOUND, "it is filled", || filled.load(Ordering::Relaxed));
            let since = Instant::now();
            match remove(peer, &tree) {
                Ok(_) => assert!(!tree.exists()),
                Err(error) => assert_eq!(error.data_code(), "ENOTEMPTY", "{error:?}"),
            }
            assert!(since.elapsed() < BOUND);
            peer.ping();
        });
    });
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Between the look at a directory and the entering of it somebody puts a link in its place.
#[test]
fn a_directory_exchanged_for_a_link_leads_nowhere() {
    over_both(|peer| {
        let dir = TempDir::new();
        let outside = mkdir(dir.join("outside"));
        for n in 0..50 {
            std::fs::write(outside.join(format!("{n}")), "kept").unwrap();
        }
        for _ in 0..30 {
            let tree = mkdir(dir.join("tree"));
            for n in 0..20 {
                mkdir(tree.join(format!("sub{n}/below")));
                std::fs::write(tree.join(format!("sub{n}/f")), "").unwrap();
            }
            symlink(&outside, tree.join("link"));
            let over = AtomicBool::new(false);
            thread::scope(|scope| {
                let exchange = || {
                    for n in (0..20).cycle().take_while(|_| !over.load(Ordering::Relaxed)) {
                        let sub = tree.join(format!("sub{n}"));
                        let link = tree.join("link");
                        let flags = RenameFlags::EXCHANGE;
                        let _ = rustix::fs::renameat_with(CWD, &sub, CWD, &link, flags);
                        let _ = rustix::fs::renameat_with(CWD, &sub, CWD, &link, flags);
                    }
                };
                thread::Builder::new().spawn_scoped(scope, exchange).unwrap();
                let _stop = StopOnDrop(&over);
                if let Err(error) = remove(peer, &tree) {
                    assert!(!error.data_code().is_empty(), "{error:?}");
                }
            });
            assert_eq!(names(&outside).len(), 50, "a removal went through a link");
            let _ = std::fs::remove_dir_all(&tree);
        }
    });
}

/// Two hosts clean up the same tree.
#[test]
fn eight_connections_that_remove_one_tree_leave_nothing() {
    let dir = TempDir::new();
    let server = crate::support::Server::start();
    for _ in 0..5 {
        let tree = mkdir(dir.join("tree"));
        for n in 0..30 {
            mkdir(tree.join(format!("{n}/a/b")));
            std::fs::write(tree.join(format!("{n}/a/f")), "").unwrap();
        }
        thread::scope(|scope| {
            for _ in 0..8 {
                let (server, tree) = (&server, &tree);
                let body = move || {
                    let mut peer = server.connect();
                    let params = merged(path(tree), &json!({RECURSIVE: true, "force": true}));
                    peer.ok("fs/remove", &params);
                };
                thread::Builder::new().spawn_scoped(scope, body).unwrap();
            }
        });
        assert_eq!(names(dir.path()), [""; 0]);
    }
}
