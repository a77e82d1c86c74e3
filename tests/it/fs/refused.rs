//! What `fs/remove` refuses: `/`, the server's cwd and the directories above it, whatever they are
//! called. The server that is asked to remove `/` has a `/` of its own.

use std::path::Path;

use serde_json::json;

use super::{in_dir, merged, mkdir, names, path, seen_by, symlink, with_mounts};
use crate::support::{Peer, Setup, TempDir, lacks, over_both_with};

#[track_caller]
fn refused(peer: &mut Peer, name: &str) {
    for more in [json!({}), json!({"recursive": true}), json!({"recursive": true, "force": true})] {
        let error = peer.error("fs/remove", &merged(path(name), &more));
        // It is not that a system call happened to fail: nothing was tried.
        assert!(error.code == -32000 || error.code == -32602, "{error:?}");
        if more["recursive"] == json!(true) {
            assert!(error.data_code() != "ENOTEMPTY", "{name} was tried: {error:?}");
        }
    }
}

/// `base/above/cwd`, with something in every one of them.
fn directories() -> TempDir {
    let dir = TempDir::new();
    mkdir(dir.join("above/cwd/sub"));
    for name in ["f", "above/f", "above/cwd/f", "above/cwd/sub/f"] {
        dir.write(name, "kept");
    }
    symlink("above", dir.join("link"));
    symlink("above/cwd", dir.join("cwdlink"));
    dir
}

#[track_caller]
fn assert_untouched(dir: &Path) {
    for name in ["f", "above/f", "above/cwd/f", "above/cwd/sub/f"] {
        assert_eq!(std::fs::read(dir.join(name)).unwrap(), b"kept", "{name}");
    }
}

#[test]
fn the_cwd_and_what_is_above_it_is_refused_under_every_name() {
    let dir = directories();
    let base = dir.path().to_str().unwrap();
    let cwd = dir.join("above/cwd");
    over_both_with(
        || in_dir(&cwd),
        |peer| {
            for name in [".", "..", "../..", "./", "../", "sub/..", "sub/../..", "../cwd", "./."] {
                refused(peer, name);
                assert_untouched(dir.path());
            }
            let absolute = [
                "/above/cwd",
                "/above/cwd/",
                "/above/cwd/.",
                "/above/cwd/sub/..",
                "/above",
                "/above/",
                "/above/cwd/..",
                "//above",
                "/link/cwd",
                "/link/cwd/sub/..",
                "/link/.",
                "/cwdlink/.",
                "/cwdlink/..",
                "/cwdlink/sub/..",
                "/.",
                "",
            ];
            for name in absolute {
                refused(peer, &format!("{base}{name}"));
                assert_untouched(dir.path());
            }
            peer.ok("fs/stat", &path("f"));
        },
    );
}

#[test]
fn an_empty_cwd_is_refused_too() {
    let dir = TempDir::new();
    let cwd = mkdir(dir.join("cwd"));
    over_both_with(
        || in_dir(&cwd),
        |peer| {
            refused(peer, ".");
            refused(peer, cwd.to_str().unwrap());
            assert!(cwd.is_dir());
        },
    );
}

/// What is below it, beside it, or only begins with its name, is not refused.
#[test]
fn what_is_beside_the_cwd_and_below_it_is_removed() {
    for transport in ["websocket", "stdio"] {
        let dir = directories();
        for name in ["above/cwd2", "above/cw", "above2"] {
            mkdir(dir.join(name).join("sub"));
        }
        let setup = in_dir(&dir.join("above/cwd"));
        let server;
        let mut peer = if transport == "stdio" {
            setup.stdio()
        } else {
            server = setup.listen();
            server.connect()
        };
        for name in ["sub", "../cwd2", "../cw", "../../above2", "../f"] {
            peer.ok("fs/remove", &merged(path(name), &json!({"recursive": true})));
        }
        // A link to it is not it.
        peer.ok("fs/remove", &path(dir.join("cwdlink")));
        peer.ok("fs/remove", &path(dir.join("link")));
        assert_eq!(names(dir.path()), ["above", "f"]);
        assert_eq!(names(dir.join("above")), ["cwd"]);
        assert_eq!(names(dir.join("above/cwd")), ["f"]);
    }
}

#[test]
fn the_cwd_is_refused_under_the_name_of_another_mount() {
    const NAME: &str = "the_cwd_is_refused_under_the_name_of_another_mount";
    if lacks(NAME, "unshare") || lacks(NAME, "mount") {
        return;
    }
    let dir = directories();
    let (alias, cwdalias) = (mkdir(dir.join("alias")), mkdir(dir.join("cwdalias")));
    let cwd = dir.join("above/cwd");
    let base = dir.path().to_str().unwrap();
    let script = format!(
        "mount --bind {base}/above {base}/alias; mount --bind {base}/above/cwd {base}/cwdalias"
    );
    over_both_with(
        || with_mounts(&cwd, &script),
        |peer| {
            let pid = peer.server_pid();
            assert_eq!(names(seen_by(pid, &alias)), ["cwd", "f"], "it is mounted");
            let paths = [&cwdalias, &alias, &alias.join("cwd"), &alias.join("cwd/sub/..")];
            for name in paths {
                refused(peer, name.to_str().unwrap());
                assert_untouched(dir.path());
            }
        },
    );
}

/// Links and bind mounts, read-only, of what a program needs to run, on an empty root.
const OWN_ROOT: &str = "
mount -t tmpfs tmpfs \"$DIR/root\"
cd \"$DIR/root\"
mkdir proc dev tmp work work/sub usr
for name in bin sbin lib lib64 lib32; do
    if [ -L /$name ]; then cp -P /$name $name
    elif [ -d /$name ]; then mkdir $name; mount --bind /$name $name; mount -o remount,bind,ro $name
    fi
done
mount --bind /usr usr
mount -o remount,bind,ro usr
mount -t proc proc proc
: > dev/null
echo kept > work/f
echo kept > tmp/f
: > ta
mount --bind \"$0\" ta
mount -o remount,bind,ro ta
exec chroot . /ta \"$@\" --cwd /work";

#[test]
fn the_root_is_refused_under_every_name() {
    const NAME: &str = "the_root_is_refused_under_every_name";
    if super::needs_root(NAME) || lacks(NAME, "unshare") || lacks(NAME, "chroot") {
        return;
    }
    let dir = TempDir::new();
    mkdir(dir.join("root"));
    let own_root = format!("set -e{OWN_ROOT}");
    let setup = || {
        let setup = Setup::new().under(&["unshare", "-m", "sh", "-c", &own_root]);
        setup.env("DIR", dir.path().to_str().unwrap())
    };
    over_both_with(setup, |peer| {
        let root = seen_by(peer.server_pid(), "/");
        assert!(root.join("work/f").exists(), "it has a root of its own");
        assert!(!root.join("etc").exists(), "it has a root of its own");
        let before = names(&root);
        symlink("/", root.join("tmp/slash"));
        let paths = ["/", "//", "/.", "/..", "/tmp/..", "/../..", "/tmp/slash/.", "/./", ".."];
        for name in paths {
            refused(peer, name);
            assert_eq!(std::fs::read(root.join("work/f")).unwrap(), b"kept\n", "{name}");
            assert_eq!(std::fs::read(root.join("tmp/f")).unwrap(), b"kept\n", "{name}");
            assert_eq!(names(&root), before, "{name}");
        }
        peer.ok("fs/remove", &merged(path("/tmp"), &json!({"recursive": true})));
        assert!(root.join("work/f").exists());
    });
}
