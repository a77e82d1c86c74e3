//! `ta fs mkdir`, `rm` and `mv`.

use std::fs;
use std::os::unix::fs::symlink;

use super::{everywhere, mode};

#[test]
fn directories_are_made() {
    everywhere(|site| {
        let [a, deep] = ["a", "b/c/d"].map(|name| site.far(name));
        site.run("fs mkdir", ["--mode", "750", &a]).quiet();
        assert_eq!(mode(&a), 0o750);
        site.run("fs mkdir", [&a]).failed(1, &a);
        site.run("fs mkdir", [&deep]).failed(1, &deep);
        site.run("fs mkdir", ["-p", &deep, &a]).quiet();
        assert!(fs::metadata(deep).unwrap().is_dir());
        site.run("fs mkdir", ["--mode", "9", "x"]).failed(2, "no mode");
    });
}

#[test]
fn files_and_trees_are_removed() {
    everywhere(|site| {
        fs::create_dir_all(site.there.join("tree/below")).unwrap();
        site.there.write("tree/below/file", b"");
        site.there.write("file", b"");
        symlink("file", site.there.join("link")).unwrap();
        let [tree, file, link, missing] =
            ["tree", "file", "link", "missing"].map(|name| site.far(name));
        site.run("fs rm", [&tree]).failed(1, &tree);
        site.run("fs rm", [&missing]).failed(1, &missing);
        site.run("fs rm", ["-f", &missing]).quiet();
        site.run("fs rm", [&missing, &link]).failed(1, &missing);
        assert!(fs::symlink_metadata(&link).is_err() && fs::exists(&file).unwrap());
        site.run("fs rm", ["-rf", &missing, &tree, &file]).quiet();
        assert_eq!(fs::read_dir(site.there.path()).unwrap().count(), 0);
    });
}

#[test]
fn things_are_renamed_and_moved_into_directories() {
    everywhere(|site| {
        site.there.write("a", b"a");
        site.there.write("b", b"b");
        fs::create_dir(site.there.join("dir")).unwrap();
        let [a, b, dir, missing] = ["a", "b", "dir", "missing"].map(|name| site.far(name));
        site.run("fs mv", [&a, &b]).quiet();
        assert_eq!(fs::read(&b).unwrap(), b"a");
        site.run("fs mv", [&b, &dir]).quiet();
        assert_eq!(fs::read(site.there.join("dir/b")).unwrap(), b"a");
        site.run("fs mv", [&missing, &a]).failed(1, &missing);
    });
}
