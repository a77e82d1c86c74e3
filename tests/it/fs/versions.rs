//! `version` and `ifVersion`: nobody overwrites what he has not seen.

use std::collections::HashSet;
use std::path::Path;

use serde_json::{Value, json};

use super::{
    content, fails, merged, mkdir, mkfifo, names, path, read, symlink, version, write, write_with,
};
use crate::support::{Peer, TempDir, over_both};

const CONFLICT: &str = "CELL_TA_EXEC_CONFLICT";

#[track_caller]
fn conflicts(peer: &mut Peer, file: &Path, more: &Value) {
    let params = merged(content(file, "not to be written"), more);
    fails(peer, "fs/writeFile", &params, CONFLICT).assert_names(file.to_str().unwrap());
}

#[test]
fn a_write_with_the_right_version_is_made_and_with_a_wrong_one_not() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.join("f");
        let first = version(&write(peer, &file, "first"));
        let second = write_with(peer, &file, "second", &json!({"ifVersion": first}));
        assert_eq!(second["atomic"], json!(true));
        assert_eq!(read(peer, &file), b"second");
        for wrong in [first.as_str(), "", "nonsense", "0"] {
            conflicts(peer, &file, &json!({"ifVersion": wrong}));
            conflicts(peer, &file, &json!({"ifVersion": wrong, "append": true}));
            conflicts(peer, &file, &json!({"ifVersion": wrong, "sync": true}));
        }
        assert_eq!(read(peer, &file), b"second");
        let now = version(&peer.ok("fs/stat", &path(&file)));
        assert_eq!(now, version(&second), "a conflict changes nothing");
        let params = json!({"ifVersion": version(&second)});
        write_with(peer, &file, "third", &params);
        assert_eq!(read(peer, &file), b"third");
        assert_eq!(names(dir.path()), ["f"]);
    });
}

/// An append that arrives late makes no file anew that has been removed.
#[test]
fn any_version_means_that_something_is_there() {
    over_both(|peer| {
        let dir = TempDir::new();
        let any = json!({"ifVersion": "*"});
        let file = dir.write("f", "x");
        write_with(peer, &file, "y", &any);
        write_with(peer, &file, "z", &json!({"ifVersion": "*", "append": true}));
        assert_eq!(read(peer, &file), b"yz");
        std::fs::remove_file(&file).unwrap();
        conflicts(peer, &file, &any);
        let more = json!({"append": true, "createParents": true, "mode": 0o600});
        for path in [file, dir.join("other/f")] {
            conflicts(peer, &path, &merged(any.clone(), &more));
        }
        assert_eq!(names(dir.path()), [""; 0]);
    });
}

#[test]
fn the_empty_version_means_that_nothing_is_there() {
    over_both(|peer| {
        let dir = TempDir::new();
        let none = json!({"ifVersion": ""});
        write_with(peer, dir.join("new"), "new", &none);
        let appended = json!({"ifVersion": "", "append": true});
        write_with(peer, dir.join("appended"), "new", &appended);
        write_with(peer, dir.join("a/b"), "new", &json!({"ifVersion": "", "createParents": true}));
        for name in ["new", "appended", "a/b"] {
            conflicts(peer, &dir.join(name), &none);
            conflicts(peer, &dir.join(name), &appended);
            assert_eq!(read(peer, dir.join(name)), b"new");
        }
        let empty = dir.write("empty", "");
        conflicts(peer, &empty, &none);
        let through = dir.join("link");
        symlink("empty", &through);
        conflicts(peer, &through, &none);
        assert_eq!(read(peer, &empty), b"");
    });
}

#[test]
fn a_version_of_a_file_that_is_gone_is_a_conflict() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.join("f");
        let gone = version(&write(peer, &file, "x"));
        peer.ok("fs/remove", &path(&file));
        for append in [false, true] {
            conflicts(peer, &file, &json!({"ifVersion": gone, "append": append}));
        }
        assert_eq!(names(dir.path()), [""; 0]);
        // Another file with the same content is another file.
        dir.write("g", "x");
        std::fs::rename(dir.join("g"), &file).unwrap();
        conflicts(peer, &file, &json!({"ifVersion": gone}));
        assert_eq!(read(peer, &file), b"x");
    });
}

#[test]
fn a_version_holds_through_links_and_for_files_written_in_place() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.write("f", "old");
        symlink("f", dir.join("link"));
        std::fs::hard_link(&file, dir.join("hard")).unwrap();
        let first = version(&peer.ok("fs/stat", &path(dir.join("hard"))));
        conflicts(peer, &dir.join("link"), &json!({"ifVersion": "other"}));
        let params = json!({"ifVersion": first});
        let second = version(&write_with(peer, dir.join("link"), "new", &params));
        assert_ne!(first, second);
        conflicts(peer, &file, &json!({"ifVersion": first}));
        conflicts(peer, &dir.join("hard"), &json!({"ifVersion": first, "append": true}));
        let params = json!({"ifVersion": second, "append": true});
        write_with(peer, dir.join("hard"), "er", &params);
        assert_eq!(read(peer, &file), b"newer");
    });
}

type Change = fn(&Path);

#[test]
fn a_change_from_outside_is_a_conflict() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.join("f");
        let changes: [(&str, Change); 4] = [
            ("written", |file| std::fs::write(file, "b").unwrap()),
            ("set back in time", |file| {
                let before = std::fs::metadata(file).unwrap().modified().unwrap();
                std::fs::write(file, "b").unwrap();
                let handle = std::fs::File::options().write(true).open(file).unwrap();
                handle.set_modified(before).unwrap();
            }),
            ("replaced", |file| {
                let beside = file.with_extension("new");
                std::fs::write(&beside, "b").unwrap();
                std::fs::rename(beside, file).unwrap();
            }),
            ("longer", |file| std::fs::write(file, "bb").unwrap()),
        ];
        for (what, change) in changes {
            let before = version(&write(peer, &file, "a"));
            change(&file);
            let params = merged(content(&file, "c"), &json!({"ifVersion": before}));
            let outcome = peer.call("fs/writeFile", &params);
            let error = outcome.expect_err(what);
            assert_eq!(error.data_code(), CONFLICT, "{what}: {error:?}");
        }
    });
}

#[track_caller]
fn assert_all_distinct(versions: &[String]) {
    let distinct: HashSet<_> = versions.iter().collect();
    assert_eq!(distinct.len(), versions.len(), "versions have come back");
}

/// A clock that ticks every 4 ms gives many changes one time.
#[test]
fn every_change_has_a_version_of_its_own_however_fast_they_come() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.join("f");
        let ids: Vec<_> = (0..200)
            .map(|n| peer.request("fs/writeFile", &content(&file, format!("{n:03}"))))
            .collect();
        let versions: Vec<_> = ids.iter().map(|id| version(&peer.answer(id).unwrap())).collect();
        assert_all_distinct(&versions);
        assert_eq!(read(peer, &file), b"199");
        let stat = peer.ok("fs/stat", &path(&file));
        assert_eq!(Some(&version(&stat)), versions.last());
    });
}

#[test]
fn every_change_in_place_has_a_version_of_its_own_however_fast_they_come() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.write("f", "000");
        std::fs::hard_link(&file, dir.join("other")).unwrap();
        let ids: Vec<_> = (0..200)
            .map(|n| peer.request("fs/writeFile", &content(&file, format!("{n:03}"))))
            .collect();
        let versions: Vec<_> = ids.iter().map(|id| version(&peer.answer(id).unwrap())).collect();
        assert_all_distinct(&versions);
        assert_eq!(read(peer, dir.join("other")), b"199");
    });
}

#[test]
fn what_is_no_file_conflicts_or_says_what_it_is() {
    over_both(|peer| {
        let dir = TempDir::new();
        mkdir(dir.join("d"));
        mkfifo(dir.join("fifo"));
        for name in ["d", "fifo"] {
            let none = merged(content(dir.join(name), "x"), &json!({"ifVersion": ""}));
            let error = peer.error("fs/writeFile", &none);
            assert!(!error.data_code().is_empty(), "{error:?}");
        }
        let versions: Vec<_> =
            ["d", "fifo"].map(|name| version(&peer.ok("fs/stat", &path(dir.join(name))))).into();
        assert_all_distinct(&versions);
        assert_eq!(names(dir.path()), ["d", "fifo"]);
    });
}
