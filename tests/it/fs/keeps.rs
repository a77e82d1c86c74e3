//! What replacing a file's content keeps: its mode, owner, attributes and links.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::XattrFlags;
use serde_json::json;

use super::{
    NOBODY, chmod, chown, mkdir, mode, names, needs_root, read, symlink, write, write_with,
};
use crate::support::{TempDir, over_both, skipped};

#[test]
fn overwriting_keeps_the_mode() {
    over_both(|peer| {
        let dir = TempDir::new();
        for wanted in [0o755, 0o4755, 0o2755, 0o1644, 0o6777, 0o600, 0o640, 0o666, 0o444] {
            if wanted == 0o444 && !crate::support::sys::is_root() {
                continue;
            }
            let file = dir.write("f", "old");
            chmod(&file, wanted);
            write(peer, &file, "new");
            assert_eq!((mode(&file), std::fs::read(&file).unwrap()), (wanted, b"new".to_vec()));
            std::fs::remove_file(&file).unwrap();
        }
        assert_eq!(names(dir.path()), [""; 0]);
    });
}

#[test]
fn overwriting_keeps_owner_group_and_setuid() {
    if needs_root("overwriting_keeps_owner_group_and_setuid") {
        return;
    }
    over_both(|peer| {
        let dir = TempDir::new();
        for (uid, gid, wanted) in [(NOBODY, NOBODY, 0o4755), (1234, 0, 0o6755), (0, 4321, 0o640)] {
            let file = dir.write("f", "old");
            chown(&file, uid, gid);
            chmod(&file, wanted);
            write(peer, &file, "new");
            let found = std::fs::metadata(&file).unwrap();
            assert_eq!((found.uid(), found.gid(), mode(&file)), (uid, gid, wanted));
        }
    });
}

/// The value of an attribute, empty where there is none.
fn attribute(file: &Path, name: &str) -> Vec<u8> {
    let mut value = vec![0; 4096];
    let length = rustix::fs::getxattr(file, name, value.as_mut_slice()).unwrap_or(0);
    value.truncate(length);
    value
}

/// `user::rw-, user:nobody:rw-, group::r--, mask::rw-, other::---`, as the kernel stores it.
fn access_list() -> Vec<u8> {
    let entries: [(u16, u16, u32); 5] = [
        (0x01, 6, u32::MAX),
        (0x02, 6, NOBODY),
        (0x04, 4, u32::MAX),
        (0x10, 6, u32::MAX),
        (0x20, 0, u32::MAX),
    ];
    let mut value = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(permissions.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

#[test]
fn overwriting_keeps_extended_attributes_and_access_lists() {
    const NAME: &str = "overwriting_keeps_extended_attributes_and_access_lists";
    const ACL: &str = "system.posix_acl_access";
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.write("f", "old");
        let set = |name: &str, value: &[u8]| {
            rustix::fs::setxattr(&file, name, value, XattrFlags::empty())
        };
        if set("user.origin", b"https://example.org/\0\xff").is_err() {
            skipped(NAME, "the file system has no attributes");
            return;
        }
        set("user.empty", b"").unwrap();
        set("user.long", &[b'v'; 2000]).unwrap();
        let listed = set(ACL, &access_list()).is_ok();
        let capable = super::sys::is_root() && set("trusted.ta", b"root's").is_ok();
        for text in ["new", "newer"] {
            write(peer, &file, text);
            assert_eq!(attribute(&file, "user.origin"), b"https://example.org/\0\xff");
            assert_eq!(attribute(&file, "user.long"), [b'v'; 2000]);
            let mut names = [0; 4096];
            let length = rustix::fs::listxattr(&file, &mut names).unwrap();
            assert!(names[..length].windows(10).any(|name| name == b"user.empty"));
            if listed {
                assert_eq!(attribute(&file, ACL), access_list());
                assert_eq!(mode(&file), 0o660);
            }
            assert!(!capable || attribute(&file, "trusted.ta") == b"root's");
        }
    });
}

/// A temporary file inherits them from the directory; the file that it replaces had none.
#[test]
fn the_default_access_list_of_a_directory_is_for_new_files_only() {
    const NAME: &str = "the_default_access_list_of_a_directory_is_for_new_files_only";
    const ACL: &str = "system.posix_acl_access";
    over_both(|peer| {
        let dir = TempDir::new();
        let olds = [0o600, 0o640, 0o660].map(|mode| {
            let old = dir.write(&format!("{mode:o}"), "x");
            chmod(&old, mode);
            (old, mode)
        });
        let default = "system.posix_acl_default";
        let set = rustix::fs::setxattr(dir.path(), default, &access_list(), XattrFlags::empty());
        if set.is_err() {
            skipped(NAME, "the file system has no access lists");
            return;
        }
        for (old, wanted) in olds {
            write(peer, &old, "y");
            assert_eq!(mode(&old), wanted);
            assert_eq!(attribute(&old, ACL), b"", "mode {wanted:o}: others may enter it now");
        }
        // What any program gets that makes a file there.
        let expected = dir.write("expected", "");
        write(peer, dir.join("new"), "z");
        assert_eq!(mode(dir.join("new")), mode(&expected));
        assert_eq!(attribute(&dir.join("new"), ACL), attribute(&expected, ACL));
    });
}

#[test]
fn a_symbolic_link_stays_and_its_target_is_replaced() {
    over_both(|peer| {
        let dir = TempDir::new();
        mkdir(dir.join("sub"));
        let target = dir.program("sub/target", "old");
        symlink("sub/target", dir.join("relative"));
        symlink(&target, dir.join("absolute"));
        symlink("../relative", dir.join("sub/chain"));
        symlink("sub", dir.join("dirlink"));
        for link in ["relative", "absolute", "sub/chain", "dirlink/chain", "dirlink/target"] {
            write(peer, dir.join(link), link);
            assert_eq!(std::fs::read(&target).unwrap(), link.as_bytes());
            assert_eq!(mode(&target), 0o755);
        }
        let is_link = |name: &str| std::fs::symlink_metadata(dir.join(name)).unwrap().is_symlink();
        assert!(["relative", "absolute", "sub/chain", "dirlink"].into_iter().all(is_link));
        assert!(!is_link("sub/target"));
        assert_eq!(names(dir.path()), ["absolute", "dirlink", "relative", "sub"]);
        assert_eq!(names(dir.join("sub")), ["chain", "target"]);
    });
}

#[test]
fn writing_through_a_dangling_link_makes_its_target() {
    over_both(|peer| {
        let dir = TempDir::new();
        mkdir(dir.join("sub"));
        symlink("sub/target", dir.join("link"));
        symlink("link", dir.join("chain"));
        symlink(dir.join("sub/other"), dir.join("absolute"));
        symlink("nowhere/target", dir.join("lost"));
        write_with(peer, dir.join("chain"), "x", &json!({"mode": 0o640}));
        assert_eq!(read(peer, dir.join("sub/target")), b"x");
        assert_eq!(mode(dir.join("sub/target")), 0o640);
        write_with(peer, dir.join("absolute"), "y", &json!({"ifVersion": ""}));
        assert_eq!(read(peer, dir.join("sub/other")), b"y");
        super::fails(peer, "fs/writeFile", &super::content(dir.join("lost"), "z"), "ENOENT");
        assert_eq!(names(dir.path()), ["absolute", "chain", "link", "lost", "sub"]);
        assert_eq!(names(dir.join("sub")), ["other", "target"]);
        assert!(std::fs::symlink_metadata(dir.join("link")).unwrap().is_symlink());
    });
}

/// The kernel follows 40.
#[test]
fn a_chain_of_links_is_followed_as_far_as_the_system_follows_it() {
    over_both(|peer| {
        let dir = TempDir::new();
        dir.write("0", "old");
        for n in 1..=60 {
            symlink(format!("{}", n - 1), dir.join(&format!("{n}")));
        }
        for n in ["1", "30", "39"] {
            write(peer, dir.join(n), n);
            assert_eq!(std::fs::read_to_string(dir.join("0")).unwrap(), n);
        }
        let params = super::content(dir.join("60"), "x");
        super::fails(peer, "fs/writeFile", &params, "ELOOP");
        assert_eq!(read(peer, dir.join("0")), b"39");
        assert_eq!(names(dir.path()).len(), 61);
    });
}
