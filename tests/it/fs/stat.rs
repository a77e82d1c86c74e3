//! `fs/stat`: what stands at a path.

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode};
use serde_json::{Value, json};

use super::{
    NOBODY, Shared, chmod, chown, device, fails, merged, mkdir, mkfifo, mode, needs_root, path,
    symlink, version, wire,
};
use crate::support::{Peer, TempDir, over_both, sys};

#[track_caller]
fn stat(peer: &mut Peer, file: impl AsRef<Path>) -> Value {
    peer.ok("fs/stat", &path(file))
}

#[track_caller]
fn stat_link(peer: &mut Peer, file: impl AsRef<Path>) -> Value {
    peer.ok("fs/stat", &merged(path(file), &json!({"followSymlinks": false})))
}

#[test]
fn a_file_is_described() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.write("f", "12345");
        chmod(&file, 0o4751);
        let time = std::time::UNIX_EPOCH + Duration::from_millis(1_234_567_890_987);
        std::fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
        let found = stat(peer, &file);
        let owner = std::fs::metadata(&file).unwrap();
        let expected = json!({"type": "file", "size": 5, "mode": 0o4751,
            "mtimeMs": 1_234_567_890_987_i64, "uid": owner.uid(), "gid": owner.gid(),
            "readable": true, "writable": true, "executable": true, "version": version(&found)});
        assert_eq!(found, expected);
    });
}

#[test]
fn a_time_before_1970_is_negative() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.write("f", "");
        let time = std::time::UNIX_EPOCH - Duration::from_millis(1500);
        std::fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
        assert_eq!(stat(peer, &file)["mtimeMs"], json!(-1500));
    });
}

#[test]
fn every_type_has_its_name() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.write("f", "");
        let fifo = mkfifo(dir.join("fifo"));
        let socket = dir.join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        symlink("f", dir.join("link"));
        let cases: [(&Path, &str); 6] = [
            (&file, "file"),
            (dir.path(), "directory"),
            (&fifo, "fifo"),
            (&socket, "socket"),
            ("/dev/null".as_ref(), "charDevice"),
            ("/proc/self/status".as_ref(), "file"),
        ];
        for (path, name) in cases {
            assert_eq!(stat(peer, path)["type"], json!(name));
            if name != "file" {
                assert_eq!(stat_link(peer, path)["type"], json!(name));
            }
        }
        assert_eq!(stat(peer, dir.join("link"))["type"], json!("file"));
        assert_eq!(stat_link(peer, dir.join("link"))["type"], json!("symlink"));
        if sys::is_root() {
            assert_eq!(stat(peer, device(dir.join("char"), 3))["type"], json!("charDevice"));
            let block = dir.join("block");
            let number = rustix::fs::makedev(7, 200);
            let kind = FileType::BlockDevice;
            rustix::fs::mknodat(CWD, &block, kind, Mode::from_raw_mode(0o600), number).unwrap();
            assert_eq!(stat(peer, &block)["type"], json!("blockDevice"));
        }
    });
}

#[test]
fn a_link_is_followed_unless_it_is_asked_for_itself() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.write("f", "12345");
        symlink("f", dir.join("link"));
        symlink("link", dir.join("chain"));
        symlink("nowhere", dir.join("dangling"));
        symlink("loop", dir.join("loop"));
        let direct = stat(peer, &file);
        assert_eq!(stat(peer, dir.join("link")), direct);
        assert_eq!(stat(peer, dir.join("chain")), direct);
        let explicit = merged(path(dir.join("link")), &json!({"followSymlinks": true}));
        assert_eq!(peer.ok("fs/stat", &explicit), direct);
        let explicit = merged(path(dir.join("link")), &json!({"followSymlinks": null}));
        assert_eq!(peer.ok("fs/stat", &explicit), direct);
        assert_eq!(stat_link(peer, &file), direct);
        for (name, code) in [("dangling", "ENOENT"), ("loop", "ELOOP")] {
            let link = dir.join(name);
            fails(peer, "fs/stat", &path(&link), code).assert_names(link.to_str().unwrap());
            let found = stat_link(peer, &link);
            assert_eq!(found["type"], json!("symlink"), "{found}");
            assert_ne!(version(&found), version(&direct));
        }
        assert_eq!(stat_link(peer, dir.join("dangling"))["size"], json!("nowhere".len()));
    });
}

#[test]
fn access_is_what_the_system_would_allow_the_server() {
    if needs_root("access_is_what_the_system_would_allow_the_server") {
        return;
    }
    let shared = Shared::new();
    let server = shared.as_nobody().listen();
    let peer = &mut server.connect();
    for (uid, gid, bits, expected) in [
        (0, 0, 0o700, "---"),
        (0, 0, 0o704, "r--"),
        (0, 0, 0o702, "-w-"),
        (0, 0, 0o701, "--x"),
        (0, NOBODY, 0o760, "rw-"),
        (NOBODY, 0, 0o500, "r-x"),
        // The first class that fits decides, though another would allow more.
        (NOBODY, 0, 0o077, "---"),
    ] {
        for dir in [false, true] {
            let name = format!("{uid}-{gid}-{bits:o}-{dir}");
            let file = if dir { mkdir(shared.join(&name)) } else { shared.dir.write(&name, "") };
            chown(&file, uid, gid);
            chmod(&file, bits);
            let found = stat(peer, &file);
            let access: String = [("readable", 'r'), ("writable", 'w'), ("executable", 'x')]
                .map(|(member, letter)| if found[member] == json!(true) { letter } else { '-' })
                .into_iter()
                .collect();
            assert_eq!(access, expected, "{name}: {found}");
            assert_eq!((&found["uid"], &found["gid"]), (&json!(uid), &json!(gid)));
            assert_eq!(found["mode"], json!(mode(&file)));
        }
    }
}

#[test]
fn for_root_a_file_is_executable_only_with_an_x() {
    if needs_root("for_root_a_file_is_executable_only_with_an_x") {
        return;
    }
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.write("f", "");
        for (bits, executable) in [(0o000, false), (0o644, false), (0o001, true)] {
            chmod(&file, bits);
            let found = stat(peer, &file);
            assert_eq!(found["executable"], json!(executable), "{bits:o}");
            assert_eq!((&found["readable"], &found["writable"]), (&json!(true), &json!(true)));
        }
    });
}

#[test]
fn everything_in_dev_and_proc_can_be_described() {
    over_both(|peer| {
        for dir in ["/dev", "/proc/self", "/"] {
            for entry in std::fs::read_dir(dir).unwrap() {
                let file = entry.unwrap().path();
                let params =
                    merged(json!({"path": wire(&file)}), &json!({"followSymlinks": false}));
                match peer.call("fs/stat", &params) {
                    Ok(found) => assert!(found["type"].is_string(), "{found}"),
                    Err(error) => assert!(!error.data_code().is_empty(), "{error:?}"),
                }
            }
        }
    });
}
