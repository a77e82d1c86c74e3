//! `ta fs stat` and `ta fs ls`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

use super::{everywhere, set_mode};
use crate::support::unbase64;

#[test]
fn stat_tells_what_stands_there() {
    everywhere(|site| {
        set_mode(site.there.write("file", b"hello"), 0o640);
        symlink("file", site.there.join("link")).unwrap();
        let text = site.run("fs stat", [site.far("file")]).text();
        for line in ["type     file", "size     5", "mode     0640", "modified 20"] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let stat = |args: &[&str]| site.run("fs stat", args).json();
        let link = site.far("link");
        let told = stat(&["--json", &link]);
        assert_eq!(
            (&told["type"], &told["size"], &told["mode"]),
            (&"file".into(), &5.into(), &0o640.into())
        );
        assert_eq!(told["path"], link.as_str());
        for member in ["mtimeMs", "uid", "gid", "readable", "writable", "executable", "version"] {
            assert!(!told[member].is_null(), "{member}: {told}");
        }
        assert_eq!(stat(&["--json", "--no-follow", &link])["type"], "symlink");
    });
}

#[test]
fn stat_goes_on_after_a_path_that_is_not_there() {
    everywhere(|site| {
        site.there.write("a", b"");
        site.there.write("b", b"");
        let paths = ["a", "missing", "b"].map(|name| site.far(name));
        let done = site.run("fs stat", [&["--json".to_owned()], &paths[..]].concat());
        done.failed(1, "missing");
        assert_eq!(String::from_utf8(done.stdout).unwrap().lines().count(), 2);
    });
}

#[test]
fn ls_is_sorted_and_hides_dots() {
    everywhere(|site| {
        for name in ["b", "a", ".hidden", "c d", "Z"] {
            site.there.write(name, b"");
        }
        let directory = site.far("");
        assert_eq!(site.run("fs ls", [&directory]).text(), "Z\na\nb\nc d\n");
        assert_eq!(site.run("fs ls", ["-a", &directory]).text(), ".hidden\nZ\na\nb\nc d\n");
        let file = site.far(".hidden");
        assert_eq!(site.run("fs ls", [&file]).text(), format!("{file}\n"));
        site.run("fs ls", [site.far("missing")]).failed(1, "missing");
    });
    // Without a path: the environment's directory, which is our own here.
    let site = super::Site::new("here", None, &[]);
    site.here.write("only", b"");
    assert_eq!(site.run::<&str>("fs ls", []).text(), "only\n");
}

#[test]
fn ls_shows_what_each_is() {
    everywhere(|site| {
        set_mode(site.there.write("file", vec![0; 1234]), 0o4755);
        fs::create_dir(site.there.join("dir")).unwrap();
        set_mode(site.there.join("dir"), 0o1777);
        symlink("dir", site.there.join("link")).unwrap();
        symlink("nowhere", site.there.join("lost")).unwrap();
        let text = site.run("fs ls", ["-l", &site.far("")]).text();
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("drwxrwxrwt ") && lines[0].ends_with("Z dir"), "{text}");
        assert!(lines[1].starts_with("-rwsr-xr-x 1234 20"), "{text}");
        assert!(lines[2].starts_with('l') && lines[2].ends_with(" link -> [directory]"), "{text}");
        assert!(lines[3].ends_with(" lost -> [nothing]"), "{text}");
        let told = site.run("fs ls", ["-l", "--json", &site.far("")]).json();
        let entries = told["entries"].as_array().unwrap();
        assert_eq!((entries.len(), &entries[1]["size"]), (4, &1234.into()));
        assert_eq!(
            (&entries[2]["type"], &entries[2]["targetType"]),
            (&"symlink".into(), &"directory".into())
        );
        assert!(entries[3]["targetType"].is_null() && entries[3].get("targetType").is_some());
        assert!(entries[0]["mtimeMs"].is_i64() && entries[0]["mode"] == 0o1777);
        let brief = site.run("fs ls", ["--json", &site.far("")]).json();
        assert!(brief["entries"][0].get("size").is_none());
    });
}

#[test]
fn names_of_any_bytes_are_shown() {
    everywhere(|site| {
        let odd = OsStr::from_bytes(b"a\xffb");
        fs::write(site.there.path().join(odd), "").unwrap();
        site.there.write("line\nfeed\x1b", b"");
        site.there.write("back\\slash", b"");
        let text = site.run("fs ls", [site.far("")]).text();
        assert_eq!(text, "a\\xffb\nback\\\\slash\nline\\nfeed\\x1b\n");
        let told = site.run("fs ls", ["--json", &site.far("")]).json();
        let name = told["entries"][0]["nameBase64"].as_str().unwrap();
        assert_eq!(unbase64(name), odd.as_bytes());
        assert!(told["entries"][1].get("nameBase64").is_none());
    });
}
