//! A server without privileges: what the system refuses is refused, and nothing is changed.

use serde_json::json;

use super::{
    NOBODY, Shared, chmod, chown, content, fails, fails_with, from_to, merged, mkdir, mode, names,
    needs_root, path, write,
};

#[test]
fn a_file_that_may_not_be_read_is_eacces() {
    if needs_root("a_file_that_may_not_be_read_is_eacces") {
        return;
    }
    let shared = Shared::new();
    let server = shared.as_nobody().listen();
    let peer = &mut server.connect();
    let secret = shared.dir.write("secret", "x");
    chmod(&secret, 0o600);
    let closed = mkdir(shared.join("closed"));
    std::fs::write(closed.join("f"), "x").unwrap();
    chmod(&closed, 0o700);
    fails(peer, "fs/readFile", &path(&secret), "EACCES").assert_names(secret.to_str().unwrap());
    for method in ["fs/readFile", "fs/stat", "fs/realpath"] {
        fails(peer, method, &path(closed.join("f")), "EACCES");
    }
    fails(peer, "fs/readdir", &path(&closed), "EACCES").assert_names(closed.to_str().unwrap());
    let stat = peer.ok("fs/stat", &path(&secret));
    for access in ["readable", "writable", "executable"] {
        assert_eq!(stat[access], json!(false), "{access}: {stat}");
    }
}

/// A rename would have replaced it: the directory is writable.
#[test]
fn a_file_that_may_not_be_written_is_eacces_and_unchanged() {
    if needs_root("a_file_that_may_not_be_written_is_eacces_and_unchanged") {
        return;
    }
    let shared = Shared::new();
    let server = shared.as_nobody().listen();
    let peer = &mut server.connect();
    let open = mkdir(shared.join("open"));
    chmod(&open, 0o777);
    for (name, uid) in [("theirs", 0), ("mine", NOBODY)] {
        let file = open.join(name);
        std::fs::write(&file, "old").unwrap();
        chown(&file, uid, uid);
        chmod(&file, 0o444);
        for append in [false, true] {
            let params = merged(content(&file, "new"), &json!({"append": append}));
            fails(peer, "fs/writeFile", &params, "EACCES").assert_names(file.to_str().unwrap());
        }
        assert_eq!((std::fs::read(&file).unwrap(), mode(&file)), (b"old".to_vec(), 0o444));
    }
    assert_eq!(names(&open), ["mine", "theirs"]);
}

#[test]
fn what_may_not_be_changed_is_eacces_and_unchanged() {
    if needs_root("what_may_not_be_changed_is_eacces_and_unchanged") {
        return;
    }
    let shared = Shared::new();
    let server = shared.as_nobody().listen();
    let peer = &mut server.connect();
    let file = shared.dir.write("f", "x");
    mkdir(shared.join("d"));
    for (method, params) in [
        ("fs/mkdir", path(shared.join("new"))),
        ("fs/mkdir", path(shared.join("d/new/deep"))),
        ("fs/remove", path(&file)),
        ("fs/remove", path(shared.join("d"))),
        ("fs/rename", from_to(&file, shared.join("g"))),
        ("fs/copy", from_to(&file, shared.join("g"))),
        ("fs/writeFile", content(shared.join("new"), "x")),
        (
            "fs/writeFile",
            merged(content(shared.join("d/a/b"), "x"), &json!({"createParents": true})),
        ),
    ] {
        fails(peer, method, &params, "EACCES");
    }
    assert_eq!(names(shared.dir.path()), ["d", "f"]);
    assert_eq!(names(shared.join("d")), [""; 0]);
}

#[test]
fn a_subdirectory_that_is_not_writable_is_not_removed() {
    if needs_root("a_subdirectory_that_is_not_writable_is_not_removed") {
        return;
    }
    let shared = Shared::new();
    let server = shared.as_nobody().listen();
    let peer = &mut server.connect();
    let tree = mkdir(shared.join("tree"));
    let closed = mkdir(tree.join("closed"));
    std::fs::write(closed.join("f"), "x").unwrap();
    for dir in [shared.dir.path(), &tree, &closed] {
        chown(dir, NOBODY, NOBODY);
    }
    chmod(&closed, 0o555);
    let params = merged(path(&tree), &json!({"recursive": true, "force": true}));
    fails_with(peer, "fs/remove", &params, &["EACCES"]);
    assert_eq!(std::fs::read(closed.join("f")).unwrap(), b"x");
    chmod(&closed, 0o755);
    peer.ok("fs/remove", &params);
    assert_eq!(names(shared.dir.path()), [""; 0]);
}

#[test]
fn a_directory_that_is_not_writable_is_copied_with_all_that_is_in_it() {
    if needs_root("a_directory_that_is_not_writable_is_copied_with_all_that_is_in_it") {
        return;
    }
    let shared = Shared::new();
    let server = shared.as_nobody().listen();
    let peer = &mut server.connect();
    let closed = mkdir(shared.join("closed"));
    std::fs::write(closed.join("f"), "x").unwrap();
    chmod(closed.join("f"), 0o444);
    chmod(&closed, 0o555);
    chown(shared.dir.path(), NOBODY, NOBODY);
    let params = merged(from_to(&closed, shared.join("copy")), &json!({"recursive": true}));
    peer.ok("fs/copy", &params);
    let copy = shared.join("copy");
    assert_eq!((mode(&copy), mode(copy.join("f"))), (0o555, 0o444));
    assert_eq!(std::fs::read(copy.join("f")).unwrap(), b"x");
}

#[test]
fn who_has_no_privileges_writes_what_is_his() {
    if needs_root("who_has_no_privileges_writes_what_is_his") {
        return;
    }
    let shared = Shared::new();
    let server = shared.as_nobody().listen();
    let peer = &mut server.connect();
    chown(shared.dir.path(), NOBODY, NOBODY);
    for wanted in [0o644, 0o755, 0o4755, 0o600] {
        let file = shared.dir.write("f", "old");
        chown(&file, NOBODY, NOBODY);
        chmod(&file, wanted);
        write(peer, &file, "new");
        assert_eq!((std::fs::read(&file).unwrap(), mode(&file)), (b"new".to_vec(), wanted));
    }
    write(peer, shared.join("new"), "x");
    assert_eq!(names(shared.dir.path()), ["f", "new"]);
}

/// Writing takes setuid away from a file of who is not root, so the mode comes last.
#[test]
fn a_new_file_of_who_is_not_root_has_the_mode_that_was_asked_for() {
    if needs_root("a_new_file_of_who_is_not_root_has_the_mode_that_was_asked_for") {
        return;
    }
    let shared = Shared::new();
    let server = shared.as_nobody().listen();
    let peer = &mut server.connect();
    chown(shared.dir.path(), NOBODY, NOBODY);
    for append in [false, true] {
        let file = shared.join(&format!("{append}"));
        let more = json!({"mode": 0o4755, "append": append});
        peer.ok("fs/writeFile", &merged(content(&file, "x"), &more));
        assert_eq!(mode(&file), 0o4755, "{more}");
    }
}

/// Its names may be read, and nothing may be asked about them.
#[test]
fn a_directory_that_may_be_read_but_not_entered_is_listed() {
    if needs_root("a_directory_that_may_be_read_but_not_entered_is_listed") {
        return;
    }
    let shared = Shared::new();
    let server = shared.as_nobody().listen();
    let peer = &mut server.connect();
    let listed = mkdir(shared.join("listed"));
    std::fs::write(listed.join("f"), "x").unwrap();
    mkdir(listed.join("d"));
    super::symlink("f", listed.join("link"));
    chmod(&listed, 0o744);
    let found = peer.ok("fs/readdir", &path(&listed));
    let expected = json!({"entries": [
        {"name": "d", "type": "directory"},
        {"name": "f", "type": "file"},
        {"name": "link", "type": "symlink", "targetType": null},
    ]});
    assert_eq!(found, expected);
    fails(peer, "fs/stat", &path(listed.join("f")), "EACCES");
}
