//! Ends of ranges, of paths and of trees.

use serde_json::json;

use super::inject::{lacks_strace, under_strace};
use super::{
    NOBODY, Shared, chmod, chown, content, fails, merged, mkdir, mode, names, needs_root, path,
    write_in_place, write_with,
};
use crate::support::{Setup, TempDir, over_both, sys};

#[test]
fn a_file_of_proc_is_written_in_place() {
    over_both(|peer| {
        let pid = peer.server_pid();
        let (child, child_pid) = peer.spawn_with_pid(json!({"command": "sleep", "args": ["60"]}));
        let of = |pid: u32, name: &str| std::path::PathBuf::from(format!("/proc/{pid}/{name}"));
        let text = |path| std::fs::read_to_string(path).unwrap().trim().to_owned();
        // Whoever started this may have left it where only root may go back to.
        let own = text(of(pid, "oom_score_adj"));
        write_in_place(peer, "/proc/self/oom_score_adj", &own);
        assert_eq!(text(of(pid, "oom_score_adj")), own);
        write_in_place(peer, of(child_pid, "oom_score_adj"), "777");
        assert_eq!(text(of(child_pid, "oom_score_adj")), "777");
        write_with(peer, of(pid, "comm"), "by request", &json!({"append": true}));
        write_in_place(peer, of(pid, "comm"), "renamed");
        assert_eq!(text(of(pid, "comm")), "renamed");
        peer.kill(&child);
    });
}

/// Who removes by way of opened directories need not know where he is himself.
#[test]
fn a_server_whose_directory_is_out_of_reach_removes_elsewhere() {
    if needs_root("a_server_whose_directory_is_out_of_reach_removes_elsewhere") {
        return;
    }
    let shared = Shared::new();
    let (top, open) = (mkdir(shared.join("top")), mkdir(shared.join("open")));
    let inner = mkdir(top.join("inner"));
    for dir in ["empty", "tree/sub"] {
        mkdir(open.join(dir));
    }
    std::fs::write(open.join("file"), "x").unwrap();
    for path in ["", "empty", "tree", "tree/sub", "file"] {
        chown(open.join(path), NOBODY, NOBODY);
    }
    chown(&inner, NOBODY, NOBODY);
    let program = shared.program.to_str().unwrap();
    let run_copy = "shift; exec \"$0\" \"$@\"";
    let setup = Setup::new().args(["--cwd", inner.to_str().unwrap()]);
    let mut peer = setup.under(&["sh", "-c", run_copy, program]).user(NOBODY).stdio();
    peer.ping();
    chmod(&top, 0o700);
    for name in ["empty", "file", "tree"] {
        let params = merged(path(open.join(name)), &json!({"recursive": name == "tree"}));
        assert_eq!(peer.ok("fs/remove", &params), json!({}), "{name}");
    }
    assert_eq!(names(&open), [""; 0]);
}

#[test]
fn an_owner_who_appends_keeps_the_bits_of_his_program() {
    if needs_root("an_owner_who_appends_keeps_the_bits_of_his_program") {
        return;
    }
    let shared = Shared::new();
    let peer = &mut shared.as_nobody().stdio();
    for wanted in [0o4755, 0o6755] {
        let file = shared.dir.write("program", "x");
        chown(&file, NOBODY, NOBODY);
        chmod(&file, wanted);
        write_with(peer, &file, "y", &json!({"append": true}));
        assert_eq!((std::fs::read(&file).unwrap(), mode(&file)), (b"xy".to_vec(), wanted));
    }
}

#[test]
fn a_directory_is_made_by_a_path_that_ends_in_a_dot() {
    over_both(|peer| {
        let dir = TempDir::new();
        let inside = |name: &str| format!("{}/{name}", dir.path().display());
        for name in ["a/.", "b/./", "c/././.", "d/./e/.", "a/."] {
            let params = merged(path(inside(name)), &json!({"recursive": true}));
            assert_eq!(peer.ok("fs/mkdir", &params), json!({}), "{name}");
        }
        assert_eq!(peer.ok("fs/mkdir", &path(inside("x/."))), json!({}));
        assert_eq!(names(dir.path()), ["a", "b", "c", "d", "x"]);
        assert_eq!(names(dir.join("d")), ["e"]);
    });
}

#[test]
fn there_is_nothing_to_read_at_the_farthest_offset() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.write("f", "content");
        for offset in [i64::MAX, i64::MAX - 1, 7, 1 << 62] {
            for more in [json!({}), json!({"length": 10}), json!({"length": i64::MAX})] {
                let params = merged(merged(path(&file), &json!({"offset": offset})), &more);
                let result = peer.ok("fs/readFile", &params);
                let found = [&result["dataBase64"], &result["eof"], &result["size"]];
                assert_eq!(found, [&json!(""), &json!(true), &json!(7)], "at {offset}");
            }
        }
    });
}

#[test]
fn a_directory_for_its_owner_alone_is_never_open_to_others() {
    if lacks_strace("a_directory_for_its_owner_alone_is_never_open_to_others") {
        return;
    }
    let (dir, logs) = (TempDir::new(), TempDir::new());
    let log = logs.join("calls");
    let more = ["-y", "-o", log.to_str().unwrap()];
    let setup = under_strace(Setup::new(), "mkdir,mkdirat", &more);
    let mut peer = setup.stdio();
    for (name, recursive) in [("one", true), ("two", false)] {
        let more = json!({"mode": 0o700, "recursive": recursive});
        peer.ok("fs/mkdir", &merged(path(dir.join(name)), &more));
        assert_eq!(mode(dir.join(name)), 0o700);
    }
    let calls = std::fs::read_to_string(&log).unwrap();
    // (The server makes control groups, too.)
    let asked_for = |line: &&str| line.contains(dir.path().to_str().unwrap());
    let made = calls.lines().filter(|line| line.ends_with(" = 0")).filter(asked_for);
    let made: Vec<_> = made.collect();
    assert_eq!(made.len(), 2, "{calls}");
    for call in made {
        let given = call.rsplit_once(") ").unwrap().0.rsplit_once(", ").unwrap().1;
        let given = u32::from_str_radix(given.trim(), 8).unwrap();
        assert_eq!(given & 0o077, 0, "{call}");
    }
}

#[test]
fn a_version_of_a_file_whose_directory_is_missing_is_a_conflict_and_makes_none() {
    over_both(|peer| {
        let dir = TempDir::new();
        for name in ["a/f", "a/b/c/f"] {
            let more = json!({"createParents": true, "ifVersion": "other"});
            let params = merged(content(dir.join(name), "x"), &more);
            fails(peer, "fs/writeFile", &params, "CELL_TA_EXEC_CONFLICT");
            assert_eq!(names(dir.path()), [""; 0], "{name}");
        }
        let more = json!({"createParents": true, "ifVersion": ""});
        write_with(peer, dir.join("a/b/f"), "x", &more);
        assert_eq!(std::fs::read(dir.join("a/b/f")).unwrap(), b"x");
    });
}

/// fs.protected_symlinks is for the whole machine, so the test takes it as it is.
#[test]
fn a_link_of_somebody_elses_in_a_sticky_directory_is_not_written_through() {
    const NAME: &str = "a_link_of_somebody_elses_in_a_sticky_directory_is_not_written_through";
    let protected = std::fs::read_to_string("/proc/sys/fs/protected_symlinks");
    if !sys::is_root() || protected.is_ok_and(|value| value.trim() != "1") {
        println!("SKIPPED {NAME}: not root, or fs.protected_symlinks is not 1");
        return;
    }
    over_both(|peer| {
        let dir = TempDir::new();
        let victim = dir.write("victim", "precious");
        let shared = mkdir(dir.join("shared"));
        chmod(&shared, 0o1777);
        for (target, link) in [(&victim, "link"), (&dir.join("new"), "dangling")] {
            let link = shared.join(link);
            super::symlink(target, &link);
            std::os::unix::fs::lchown(&link, Some(NOBODY), Some(NOBODY)).unwrap();
            for more in [json!({}), json!({"append": true})] {
                let params = merged(content(&link, "theirs"), &more);
                fails(peer, "fs/writeFile", &params, "EACCES");
            }
        }
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
        assert_eq!(names(dir.path()), ["shared", "victim"]);
    });
}

/// A link of /proc may lead to what has no name any more; its text is no path.
#[test]
fn what_has_been_removed_is_not_made_again_under_another_name() {
    use std::os::fd::AsRawFd as _;
    over_both(|peer| {
        let dir = TempDir::new();
        let gone = dir.write("gone", "old");
        let file = std::fs::File::open(&gone).unwrap();
        std::fs::remove_file(&gone).unwrap();
        let link = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        fails(peer, "fs/writeFile", &content(&link, "new"), "ESTALE");
        assert_eq!(names(dir.path()), [""; 0]);
    });
}
