//! What a copy does to what is there already.

use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use rustix::fs::XattrFlags;
use serde_json::json;

use super::waiting::Waiting;
use super::{
    NOBODY, Shared, chmod, chown, device, fails, from_to, inode, merged, mkdir, mkfifo, mode,
    names, needs_root, noise, symlink,
};
use crate::support::{DEADLINE, Setup, TempDir, over_both, skipped, sys};

const NOT_A_FILE: &str = "CELL_TA_EXEC_NOT_A_FILE";

#[test]
fn what_cannot_be_made_does_not_cost_what_is_there() {
    if needs_root("what_cannot_be_made_does_not_cost_what_is_there") {
        return;
    }
    let shared = Shared::new();
    let dir = mkdir(shared.join("d"));
    std::fs::write(dir.join("victim"), "precious").unwrap();
    for path in [&dir, &dir.join("victim")] {
        chown(path, NOBODY, NOBODY);
    }
    let peer = &mut shared.as_nobody().stdio();
    for from in ["/dev/null", "/dev/zero"] {
        let error = peer.error("fs/copy", &from_to(from, dir.join("victim")));
        assert!(!error.data_code().is_empty(), "{error:?}");
        assert_eq!(std::fs::read(dir.join("victim")).unwrap(), b"precious");
        assert_eq!(names(&dir), ["victim"]);
    }
}

#[test]
fn a_link_is_not_copied_onto_what_it_leads_to() {
    over_both(|peer| {
        let dir = TempDir::new();
        let target = dir.write("target", "precious");
        mkdir(dir.join("d"));
        symlink("target", dir.join("link"));
        symlink(&target, dir.join("d/absolute"));
        symlink("link", dir.join("twice"));
        for link in ["link", "d/absolute", "twice"] {
            fails(peer, "fs/copy", &from_to(dir.join(link), &target), "EINVAL");
            assert!(target.symlink_metadata().unwrap().is_file(), "{link} took its place");
            assert_eq!(std::fs::read(&target).unwrap(), b"precious");
        }
        assert_eq!(names(dir.path()), ["d", "link", "target", "twice"]);
    });
}

#[test]
fn a_link_takes_the_place_of_a_file_in_one_step() {
    const ROUNDS: usize = 300;
    over_both(|peer| {
        let dir = TempDir::new();
        dir.write("elsewhere", "x");
        symlink("elsewhere", dir.join("link"));
        let place = dir.write("place", "old");
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let look = || {
                let mut missing = 0;
                let end = Instant::now() + 2 * DEADLINE;
                while !over.load(Ordering::Relaxed) && Instant::now() < end {
                    missing += usize::from(place.symlink_metadata().is_err());
                }
                missing
            };
            let looking = thread::Builder::new().spawn_scoped(scope, look).unwrap();
            for round in 0..ROUNDS {
                let params = from_to(dir.join("link"), &place);
                let done = peer.call("fs/copy", &params);
                let is_link = place.symlink_metadata().is_ok_and(|found| found.is_symlink());
                let renamed = dir.write("next", "old");
                std::fs::rename(renamed, &place).unwrap();
                if done.is_err() || !is_link || round + 1 == ROUNDS {
                    over.store(true, Ordering::Relaxed);
                    assert!(is_link, "{done:?}");
                    done.unwrap();
                }
            }
            assert_eq!(looking.join().unwrap(), 0, "times that nothing was there");
        });
        assert_eq!(names(dir.path()), ["elsewhere", "link", "place"]);
    });
}

#[test]
fn a_copy_onto_what_is_no_file_is_refused_and_leaves_it() {
    over_both(|peer| {
        let dir = TempDir::new();
        dir.write("source", "data");
        symlink("source", dir.join("link"));
        let fifo = mkfifo(dir.join("fifo"));
        let _listener = UnixListener::bind(dir.join("socket")).unwrap();
        let mut places = vec!["fifo", "socket"];
        if sys::is_root() {
            device(dir.join("null"), 3);
            places.push("null");
        }
        let before = places.clone().into_iter().map(|name| inode(dir.join(name)));
        let before: Vec<_> = before.collect();
        let waiting = Waiting::to_write(&fifo);
        for (place, before) in places.iter().zip(&before) {
            let place = dir.join(place);
            fails(peer, "fs/copy", &from_to(dir.join("source"), &place), NOT_A_FILE);
            assert_eq!(inode(&place), *before, "{}", place.display());
            let kind = place.symlink_metadata().unwrap().file_type();
            assert!(kind.is_fifo() || kind.is_socket() || kind.is_char_device());
        }
        waiting.assert_still();
    });
}

/// Root only, since it gives the file to somebody else.
#[test]
fn a_copy_onto_a_file_keeps_its_owner_and_attributes_and_takes_the_mode() {
    const NAME: &str = "a_copy_onto_a_file_keeps_its_owner_and_attributes_and_takes_the_mode";
    if needs_root(NAME) {
        return;
    }
    over_both(|peer| {
        let dir = TempDir::new();
        let (source, place) = (dir.write("source", "new"), dir.write("place", "the old content"));
        chown(&place, 1234, 4321);
        chmod(&place, 0o600);
        if rustix::fs::setxattr(&place, "user.k", b"v", XattrFlags::empty()).is_err() {
            skipped(NAME, "the file system has no attributes");
            return;
        }
        for wanted in [0o640, 0o755] {
            chmod(&source, wanted);
            assert_eq!(peer.ok("fs/copy", &from_to(&source, &place)), json!({}));
            let found = place.metadata().unwrap();
            assert_eq!((found.uid(), found.gid(), mode(&place)), (1234, 4321, wanted));
            let mut value = [0; 16];
            let length = rustix::fs::getxattr(&place, "user.k", value.as_mut_slice());
            assert_eq!(&value[..length.unwrap_or(0)], b"v", "the attribute is lost");
            assert_eq!(std::fs::read(&place).unwrap(), b"new");
        }
    });
}

#[test]
fn a_copy_onto_a_file_that_may_not_be_written_is_eacces() {
    if needs_root("a_copy_onto_a_file_that_may_not_be_written_is_eacces") {
        return;
    }
    let shared = Shared::new();
    let dir = mkdir(shared.join("d"));
    chown(&dir, NOBODY, NOBODY);
    std::fs::write(dir.join("source"), "new").unwrap();
    for (name, uid, wanted) in [("mine", NOBODY, 0o444), ("theirs", 0, 0o644)] {
        std::fs::write(dir.join(name), "old").unwrap();
        chown(dir.join(name), uid, uid);
        chmod(dir.join(name), wanted);
    }
    let peer = &mut shared.as_nobody().stdio();
    for name in ["mine", "theirs"] {
        fails(peer, "fs/copy", &from_to(dir.join("source"), dir.join(name)), "EACCES");
        assert_eq!(std::fs::read(dir.join(name)).unwrap(), b"old");
    }
    assert_eq!(names(&dir), ["mine", "source", "theirs"]);
}

/// Neither may its directory be written nor its mode be changed.
#[test]
fn a_copy_onto_a_writable_file_of_somebody_else_is_made_in_place() {
    if needs_root("a_copy_onto_a_writable_file_of_somebody_else_is_made_in_place") {
        return;
    }
    let shared = Shared::new();
    let closed = mkdir(shared.join("closed"));
    let place = closed.join("place");
    std::fs::write(&place, "a longer old content").unwrap();
    chmod(&place, 0o666);
    let source = shared.dir.write("source", noise(100_000, 1));
    chmod(&source, 0o644);
    let before = inode(&place);
    let peer = &mut shared.as_nobody().stdio();
    for content in [noise(100_000, 1), b"short".to_vec()] {
        std::fs::write(&source, &content).unwrap();
        assert_eq!(peer.ok("fs/copy", &from_to(&source, &place)), json!({}));
        assert!(std::fs::read(&place).unwrap() == content);
    }
    assert_eq!((inode(&place), place.metadata().unwrap().uid()), (before, 0));
    assert_eq!(names(&closed), ["place"]);
}

#[test]
fn a_sparse_file_stays_one() {
    const SIZE: u64 = 1 << 30;
    over_both(|peer| {
        let dir = TempDir::new();
        let source = dir.write("source", "start");
        let file = std::fs::File::options().write(true).open(&source).unwrap();
        file.set_len(SIZE).unwrap();
        write_at(&source, SIZE / 2, b"middle");
        write_at(&source, SIZE - 3, b"end");
        let copy = dir.join("copy");
        peer.ok("fs/copy", &from_to(&source, &copy));
        let found = copy.metadata().unwrap();
        assert_eq!(found.len(), SIZE);
        assert!(found.blocks() * 512 < 1 << 20, "{} blocks", found.blocks());
        for (at, expected) in [(0, "start\0"), (SIZE / 2 - 1, "\0middle\0"), (SIZE - 4, "\0end")] {
            assert_eq!(read_at(&copy, at, expected.len()), expected.as_bytes());
        }
    });
}

fn write_at(file: &Path, at: u64, bytes: &[u8]) {
    use std::os::unix::fs::FileExt as _;
    let file = std::fs::File::options().write(true).open(file).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

fn read_at(file: &Path, at: u64, length: usize) -> Vec<u8> {
    use std::io::Seek as _;
    let mut file = std::fs::File::open(file).unwrap();
    file.seek(std::io::SeekFrom::Start(at)).unwrap();
    let mut bytes = vec![0; length];
    file.read_exact(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_file_with_a_slash_behind_it_is_not_copied() {
    let dir = TempDir::new();
    dir.write("f", "x");
    let peer = &mut Setup::new().stdio();
    for recursive in [false, true] {
        let from = format!("{}/f/", dir.path().display());
        let params = merged(from_to(from, dir.join("copy")), &json!({"recursive": recursive}));
        fails(peer, "fs/copy", &params, "ENOTDIR");
        assert_eq!(names(dir.path()), ["f"]);
    }
}
