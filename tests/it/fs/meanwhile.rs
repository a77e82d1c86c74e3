//! What another program does to a file in the middle of a write.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::inject::{await_held, injected, lacks_strace};
use super::{chmod, content, inode, merged, mode, names, path, version, write, write_with};
use crate::support::{Peer, RpcError, Setup, TempDir};

fn append(file: &Path, text: &str) {
    File::options().append(true).open(file).unwrap().write_all(text.as_bytes()).unwrap();
}

/// A server that waits for its disk.
fn with_a_slow_disk() -> Peer {
    injected(Setup::new(), "fsync,fdatasync", "delay_enter=1500000").stdio()
}

/// Writes while that is done to the file, and takes the answer.
#[track_caller]
fn write_while(
    peer: &mut Peer,
    params: &Value,
    meanwhile: impl FnOnce(),
) -> Result<Value, RpcError> {
    let pid = peer.server_pid();
    let write = peer.request("fs/writeFile", params);
    await_held(pid);
    meanwhile();
    peer.answer(&write)
}

#[test]
fn what_is_edited_while_the_new_content_goes_to_the_disk_is_a_conflict() {
    if lacks_strace("what_is_edited_while_the_new_content_goes_to_the_disk_is_a_conflict") {
        return;
    }
    let dir = TempDir::new();
    let file = dir.write("f", "old");
    let mut peer = with_a_slow_disk();
    let known = version(&peer.ok("fs/stat", &path(&file)));
    let params = merged(content(&file, "new"), &json!({"sync": true, "ifVersion": known}));
    let error = write_while(&mut peer, &params, || append(&file, " EDIT")).unwrap_err();
    assert_eq!(error.data_code(), "CELL_TA_EXEC_CONFLICT", "{error:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "old EDIT");
    assert_eq!(names(dir.path()), ["f"]);
}

#[test]
fn a_file_made_while_the_first_content_goes_to_the_disk_is_a_conflict() {
    if lacks_strace("a_file_made_while_the_first_content_goes_to_the_disk_is_a_conflict") {
        return;
    }
    let dir = TempDir::new();
    let file = dir.join("f");
    let mut peer = with_a_slow_disk();
    let params = merged(content(&file, "new"), &json!({"sync": true, "ifVersion": ""}));
    let make = || std::fs::write(&file, "theirs").unwrap();
    let error = write_while(&mut peer, &params, make).unwrap_err();
    assert_eq!(error.data_code(), "CELL_TA_EXEC_CONFLICT", "{error:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "theirs");
    assert_eq!(names(dir.path()), ["f"]);
}

#[test]
fn a_mode_changed_while_the_new_content_goes_to_the_disk_is_kept() {
    if lacks_strace("a_mode_changed_while_the_new_content_goes_to_the_disk_is_kept") {
        return;
    }
    let dir = TempDir::new();
    let file = dir.write("f", "old");
    chmod(&file, 0o644);
    let mut peer = with_a_slow_disk();
    let params = merged(content(&file, "new"), &json!({"sync": true}));
    write_while(&mut peer, &params, || chmod(&file, 0o600)).unwrap();
    assert_eq!((std::fs::read(&file).unwrap(), mode(&file)), (b"new".to_vec(), 0o600));
    assert_eq!(names(dir.path()), ["f"]);
}

#[test]
fn a_name_given_while_the_new_content_goes_to_the_disk_gets_it_too() {
    if lacks_strace("a_name_given_while_the_new_content_goes_to_the_disk_gets_it_too") {
        return;
    }
    let dir = TempDir::new();
    let (file, other) = (dir.write("f", "old"), dir.join("other"));
    let mut peer = with_a_slow_disk();
    let params = merged(content(&file, "new"), &json!({"sync": true}));
    let link = || std::fs::hard_link(&file, &other).unwrap();
    let result = write_while(&mut peer, &params, link).unwrap();
    assert_eq!(result["atomic"], json!(false), "{result}");
    assert_eq!(std::fs::read(&other).unwrap(), b"new");
    assert_eq!(inode(&file), inode(&other));
    assert_eq!(names(dir.path()), ["f", "other"]);
}

/// What is set aside is given back to the length that the file has then.
#[test]
fn where_no_room_can_be_set_aside_nothing_is_cut_off() {
    if lacks_strace("where_no_room_can_be_set_aside_nothing_is_cut_off") {
        return;
    }
    let dir = TempDir::new();
    let file = dir.write("f", "line 1\n");
    std::fs::hard_link(&file, dir.join("other")).unwrap();
    let what = "error=ENOSPC:delay_enter=1000000";
    let mut peer = injected(Setup::new(), "fallocate", what).stdio();
    let params = content(&file, vec![b'x'; 100]);
    let error = write_while(&mut peer, &params, || append(&file, "line 2\n")).unwrap_err();
    assert_eq!(error.data_code(), "ENOSPC", "{error:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "line 1\nline 2\n");
    assert_eq!(names(dir.path()), ["f", "other"]);
}

/// As on a file system that knows no modes.
#[test]
fn a_mode_that_is_right_already_need_not_be_set() {
    if lacks_strace("a_mode_that_is_right_already_need_not_be_set") {
        return;
    }
    let dir = TempDir::new();
    let calls = "fchmod,fchmodat,?fchmodat2";
    let mut peer = injected(Setup::new(), calls, "error=EPERM").stdio();
    for wanted in [0o644, 0o600] {
        let file = dir.write("f", "old");
        chmod(&file, wanted);
        write_with(&mut peer, &file, "new", &json!({}));
        let copy = dir.join("copy");
        peer.ok("fs/copy", &super::from_to(&file, &copy));
        // A copy has the mode that such a file system gives it.
        assert_eq!((std::fs::read(&file).unwrap(), mode(&file)), (b"new".to_vec(), wanted));
        assert_eq!(std::fs::read(&copy).unwrap(), b"new");
        peer.ok("fs/copy", &super::from_to(&file, &copy));
        std::fs::remove_file(&file).unwrap();
        std::fs::remove_file(&copy).unwrap();
    }
    write(&mut peer, dir.join("new"), "x");
    assert_eq!(names(dir.path()), ["new"]);
}
