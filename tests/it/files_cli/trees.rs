//! `ta cp -r`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::{Running, bare, everywhere, mode, noise, set_mode};
use crate::support::fake::{self, Fake};
use crate::support::{TempDir, base64};

/// A server that gives such names to what is in a directory had them written where they led, here.
#[test]
fn names_that_lead_elsewhere_are_no_names() {
    let dir = TempDir::new();
    let absolute = dir.join("absolute").into_os_string().into_string().unwrap();
    let odd = |name: &[u8]| json!({"name": "odd", "nameBase64": base64(name), "type": "file"});
    let plain = |name: &str| json!({"name": name, "type": "file"});
    for entry in [
        plain("../outside"),
        plain(&absolute),
        plain("a/b"),
        plain(".."),
        plain("."),
        plain(""),
        plain("a\0b"),
        odd(b"../\xff"),
        odd(b".."),
    ] {
        let shown = entry.to_string();
        let fake = Fake::start(move |request| {
            let kind = if request["params"]["path"] == "tree" { "directory" } else { "file" };
            let result = match fake::method(request) {
                "fs/stat" => json!({"type": kind, "size": 5, "mode": 0o755, "mtimeMs": 1,
                    "uid": 0, "gid": 0, "readable": true, "writable": true, "executable": false,
                    "version": "v"}),
                "fs/readdir" => json!({"entries": [plain("fine"), entry]}),
                "fs/readFile" => {
                    json!({"dataBase64": base64("bytes"), "size": 5, "eof": true, "version": "v"})
                }
                _ => fake::introduction(),
            };
            vec![fake::answer(request, &result)]
        });
        let top = dir.join("in/here");
        fs::create_dir_all(dir.join("in")).unwrap();
        let mut command = bare(["cp", "--exec", &fake.url, "-r", ":tree"]);
        command.arg(&top);
        let done = Running::start(command).finish();
        assert_eq!(done.code, 125, "{shown}: {done:?}");
        assert!(done.stderr.contains("cannot be the name of an entry"), "{shown}: {done:?}");
        fake.join();
        let all: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(all, ["in"], "{shown}");
        assert!(
            contents(&dir.join("in")).iter().all(|(_, _, content)| content.is_empty()),
            "{shown}"
        );
    }
}

/// What there is in a tree: path, mode, content.
fn contents(top: &Path) -> Vec<(Vec<u8>, u32, Vec<u8>)> {
    let mut found = Vec::new();
    let mut left = vec![top.to_path_buf()];
    while let Some(path) = left.pop() {
        let name = path.strip_prefix(top).unwrap().as_os_str().as_bytes().to_vec();
        let data = fs::symlink_metadata(&path).unwrap();
        let content = if data.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        found.push((name, mode(&path), content));
        if data.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    found.sort();
    found
}

fn plant(top: &Path) {
    fs::create_dir_all(top.join("a/b/c")).unwrap();
    fs::create_dir(top.join("empty")).unwrap();
    for (name, size) in [("a/one", 1), ("a/b/c/big", 3 << 20), ("nothing", 0), ("a/b/run", 70_000)]
    {
        fs::write(top.join(name), noise(size)).unwrap();
    }
    fs::write(top.join(OsStr::from_bytes(b"odd\xff \n'\"")), "odd").unwrap();
    fs::write(top.join("-rf"), "dash").unwrap();
    set_mode(top.join("a/b/run"), 0o755);
    set_mode(top.join("a/b"), 0o700);
    set_mode(top.join("a/b/c/big"), 0o400);
    set_mode(top.join("empty"), 0o555);
}

#[test]
fn a_tree_goes_there_and_comes_back() {
    everywhere(|site| {
        plant(&site.here.join("tree"));
        let expected = contents(&site.here.join("tree"));
        site.run("cp", ["-r", "tree", &site.colon("copy")]).quiet();
        assert!(contents(&site.there.join("copy")) == expected, "{}", site.name);
        site.run("cp", ["-r", &site.colon("copy/"), "back"]).quiet();
        assert!(contents(&site.here.join("back")) == expected, "{}", site.name);
        site.run("cp", ["-r", &site.colon("copy"), &site.colon("second")]).quiet();
        assert!(contents(&site.there.join("second")) == expected, "{}", site.name);
        // Into a directory that is there, and over what is there.
        site.run("cp", ["-r", "tree", &site.colon("copy")]).quiet();
        assert!(contents(&site.there.join("copy/tree")) == expected);
        site.run("cp", ["-r", "tree/.", &site.colon("second")]).quiet();
        assert!(contents(&site.there.join("second")) == expected);
    });
}

#[test]
fn many_files_are_all_copied_and_each_failure_is_said() {
    everywhere(|site| {
        let (tree, copy) = (site.here.join("tree"), site.there.join("copy"));
        fs::create_dir(&tree).unwrap();
        for number in 0..200_usize {
            fs::write(tree.join(format!("file-{number}")), noise(number * 97)).unwrap();
        }
        site.run("cp", ["-r", "tree", &site.colon("copy")]).quiet();
        assert!(contents(&copy) == contents(&tree));
        // Three of them cannot be written over, and the others have changed.
        for number in 0..200_usize {
            fs::write(tree.join(format!("file-{number}")), noise(number * 97 + 1)).unwrap();
        }
        for number in [3, 77, 199] {
            fs::remove_file(copy.join(format!("file-{number}"))).unwrap();
            fs::create_dir(copy.join(format!("file-{number}"))).unwrap();
        }
        let done = site.run("cp", ["-r", "tree/.", &site.colon("copy")]);
        assert_eq!((done.code, done.stderr.lines().count()), (1, 3), "{done:?}");
        for number in (0..200_usize).filter(|number| ![3, 77, 199].contains(number)) {
            let content = fs::read(copy.join(format!("file-{number}"))).unwrap();
            assert!(content == noise(number * 97 + 1), "{number}");
        }
    });
}

#[test]
fn links_are_followed_where_none_can_be_made() {
    everywhere(|site| {
        for side in [&site.here, &site.there] {
            let tree = side.join("tree");
            fs::create_dir_all(tree.join("dir")).unwrap();
            fs::write(tree.join("file"), "content").unwrap();
            symlink("file", tree.join("link")).unwrap();
            symlink("dir", tree.join("linked")).unwrap();
            symlink("nowhere", tree.join("lost")).unwrap();
            let _ = Command::new("mkfifo").arg(tree.join("pipe")).status().unwrap();
        }
        for (from, to, copy) in [
            ("tree".to_owned(), site.colon("copy"), site.there.join("copy")),
            (site.colon("tree"), "copy".to_owned(), site.here.join("copy")),
        ] {
            let done = site.run("cp", ["-r", &from, &to]);
            assert_eq!((done.code, done.stderr.lines().count()), (1, 4), "{done:?}");
            for says in [
                "tree/link is a symbolic link; the file is copied",
                "tree/linked is left out: a symbolic link to a directory",
                "tree/lost is left out: a symbolic link that leads nowhere",
                "tree/pipe is left out: it is a FIFO",
            ] {
                assert!(done.stderr.contains(says), "{says}: {done:?}");
            }
            assert_eq!(fs::read(copy.join("link")).unwrap(), b"content");
            assert!(fs::symlink_metadata(copy.join("link")).unwrap().is_file());
            assert_eq!(fs::read_dir(&copy).unwrap().count(), 3);
        }
        // Within the environment they are copied as such.
        fs::remove_file(site.there.join("tree/pipe")).unwrap();
        site.run("cp", ["-r", &site.colon("tree"), &site.colon("second")]).quiet();
        let link = fs::read_link(site.there.join("second/lost")).unwrap();
        assert_eq!(link, Path::new("nowhere"));
    });
}

#[test]
fn a_tree_is_not_copied_onto_a_file_or_into_itself() {
    everywhere(|site| {
        fs::create_dir_all(site.here.join("tree/below")).unwrap();
        site.there.write("file", b"old");
        site.run("cp", ["-r", "tree", &site.colon("file")]).failed(1, "it is a file");
        assert_eq!(fs::read(site.there.join("file")).unwrap(), b"old");
        if site.name == "here" {
            let inside = format!(":{}", site.here.join("tree/below").display());
            site.run("cp", ["-r", "tree", &inside]).failed(1, "into itself");
        }
    });
}
