//! A file that is replaced stays what it was besides, whatever its size.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown, symlink};
use std::path::Path;

use super::{Site, everywhere, mode, noise, set_mode};
use crate::support::{Setup, sys};

/// Replaces `file` there, in all ways there are, with a small content and a large one; `bits` is the
/// mode of what is copied.
fn replaced(site: &Site, bits: u32, prepare: impl Fn(&Path), check: impl Fn(&Path, bool)) {
    for size in [3, 3 << 20] {
        for copies in [false, true] {
            let file = site.there.write("file", b"old");
            prepare(&file);
            let bytes = noise(size);
            if copies {
                let source = site.here.write("source", &bytes);
                set_mode(source, bits);
                site.run("cp", ["source", &site.colon("file")]).quiet();
            } else {
                site.feed("fs write", &[&site.far("file")], &bytes).quiet();
            }
            assert!(fs::read(&file).unwrap() == bytes, "{} {size} {copies}", site.name);
            check(&file, copies);
            for entry in fs::read_dir(site.there.path()).unwrap() {
                fs::remove_file(entry.unwrap().path()).unwrap();
            }
        }
    }
}

#[test]
fn its_mode_is_kept_by_write_and_set_by_cp() {
    everywhere(|site| {
        let prepare = |file: &Path| set_mode(file, 0o640);
        replaced(site, 0o755, prepare, |file, copied| {
            assert_eq!(mode(file), if copied { 0o755 } else { 0o640 }, "{}", site.name);
        });
    });
}

#[test]
fn its_owner_is_kept() {
    if !sys::is_root() {
        return;
    }
    everywhere(|site| {
        let prepare = |file: &Path| chown(file, Some(1234), Some(4321)).unwrap();
        replaced(site, 0o644, prepare, |file, _| {
            let data = fs::metadata(file).unwrap();
            assert_eq!((data.uid(), data.gid()), (1234, 4321), "{}", site.name);
        });
    });
}

#[test]
fn what_may_not_be_written_is_refused_and_what_may_be_is_written_in_its_place() {
    if !sys::is_root() {
        return;
    }
    let site = Site::new("user", Some(Setup::new().user(1234).listen()), &[]);
    let file = site.there.write("file", b"old");
    chown(&file, Some(1234), Some(1234)).unwrap();
    set_mode(&file, 0o444);
    for size in [3, 3 << 20] {
        site.here.write("source", noise(size));
        site.run("cp", ["source", &site.colon("file")]).failed(1, "permission denied");
        site.run("cp", ["source", &site.colon("new")]).failed(1, "permission denied");
        assert_eq!(fs::read(&file).unwrap(), b"old");
    }
    // Its directory is not the user's, the file is.
    for size in [3, 3 << 20] {
        set_mode(&file, 0o644);
        let inode = fs::metadata(&file).unwrap().ino();
        set_mode(site.here.write("source", noise(size)), 0o640);
        site.run("cp", ["source", &site.colon("file")]).quiet();
        let data = fs::metadata(&file).unwrap();
        assert!(fs::read(&file).unwrap() == noise(size));
        assert_eq!((data.ino(), mode(&file)), (inode, 0o640));
    }
    // A new file that its owner may not write, in a directory of the user's.
    fs::create_dir(site.there.join("own")).unwrap();
    chown(site.there.join("own"), Some(1234), Some(1234)).unwrap();
    for bits in [0o444, 0o4755] {
        set_mode(site.here.join("source"), bits);
        site.run("cp", ["source", &site.colon(&format!("own/{bits:o}"))]).quiet();
        assert_eq!(mode(site.there.join(&format!("own/{bits:o}"))), bits);
    }
    site.assert_nothing_half();
}

#[test]
fn its_other_names_are_kept() {
    everywhere(|site| {
        let other = site.there.join("other");
        let prepare = |file: &Path| fs::hard_link(file, &other).unwrap();
        replaced(site, 0o644, prepare, |file, _| {
            assert_eq!(fs::read(file).unwrap().len(), fs::read(&other).unwrap().len());
            assert_eq!(fs::metadata(file).unwrap().ino(), fs::metadata(&other).unwrap().ino());
        });
    });
}

#[test]
fn through_a_link_its_target_is_replaced() {
    everywhere(|site| {
        let target = site.there.join("target");
        let prepare = |file: &Path| {
            fs::rename(file, &target).unwrap();
            symlink("target", file).unwrap();
        };
        replaced(site, 0o644, prepare, |file, _| {
            assert!(fs::symlink_metadata(file).unwrap().is_symlink());
            assert!(fs::symlink_metadata(&target).unwrap().is_file());
        });
    });
}

#[test]
fn a_copy_here_is_replaced_in_the_same_way() {
    everywhere(|site| {
        for size in [3, 3 << 20] {
            set_mode(site.there.write("source", noise(size)), 0o600);
            let target = site.here.write("target", b"old");
            fs::hard_link(&target, site.here.join("other")).unwrap();
            symlink("target", site.here.join("link")).unwrap();
            site.run("cp", [&site.colon("source"), "link"]).quiet();
            assert!(fs::read(site.here.join("other")).unwrap() == noise(size));
            assert!(fs::symlink_metadata(site.here.join("link")).unwrap().is_symlink());
            assert_eq!(mode(&target), 0o600);
            for name in ["target", "other", "link"] {
                fs::remove_file(site.here.join(name)).unwrap();
            }
        }
    });
}
