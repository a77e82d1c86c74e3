//! Files: what is written is read.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use ta_exec::environment::ExecEnvironment;
use ta_exec::protocol::{
    CopyParams, FileType, MkdirParams, Mode, PathParams, ReadFileParams, RemoveParams,
    RenameParams, StatParams, WirePath, WriteFileParams,
};

use super::{over_all, path};

fn write(environment: &dyn ExecEnvironment, name: &str, content: &[u8]) -> String {
    let params = WriteFileParams::new(path(name), content.to_vec());
    let written = environment.write_file(&params).unwrap();
    assert!(written.atomic && written.size == content.len() as u64, "{written:?}");
    written.version
}

fn read(environment: &dyn ExecEnvironment, name: &str) -> Vec<u8> {
    environment.read_file(&ReadFileParams::whole(path(name))).unwrap().data_base64.0
}

#[test]
fn a_file_is_read_whole_and_in_parts() {
    over_all(|environment| {
        let content: Vec<u8> = (0..=255).cycle().take(1_000_000).collect();
        write(environment, "file", &content);
        assert!(read(environment, "file") == content);
        let part = |offset, length| {
            let params =
                ReadFileParams { path: path("file"), offset: Some(offset), length: Some(length) };
            let part = environment.read_file(&params).unwrap();
            (part.data_base64.0, part.size, part.eof)
        };
        let parts = [part(254, 4), part(999_999, 1), part(999_998, 100), part(5_000_000, 1)];
        assert_eq!(parts[0], (vec![254, 255, 0, 1], 1_000_000, false));
        parts
    });
}

#[test]
fn a_version_is_the_content_s() {
    over_all(|environment| {
        let version = write(environment, "file", b"one");
        let read = environment.read_file(&ReadFileParams::whole(path("file"))).unwrap();
        let params = StatParams { path: path("file"), follow_symlinks: None };
        assert_eq!(environment.stat(&params).unwrap().version, version);
        assert_eq!(read.version, version);
        let mut params = WriteFileParams::new(path("file"), b"two".to_vec());
        params.if_version = Some(version.clone());
        assert_ne!(environment.write_file(&params).unwrap().version, version);
    });
}

#[test]
fn it_is_appended_to_and_made_with_its_parents_and_its_mode() {
    over_all(|environment| {
        let mut params = WriteFileParams::new(path("a/b/file"), b"one".to_vec());
        params.create_parents = Some(true);
        params.mode = Some(Mode::try_from(0o640).unwrap());
        params.sync = Some(true);
        environment.write_file(&params).unwrap();
        let mut params = WriteFileParams::new(path("a/b/file"), b" two".to_vec());
        params.append = Some(true);
        let appended = environment.write_file(&params).unwrap();
        assert_eq!(read(environment, "a/b/file"), b"one two");
        let params = StatParams { path: path("a/b/file"), follow_symlinks: None };
        let stat = environment.stat(&params).unwrap();
        assert_eq!((stat.mode & 0o7777, stat.size), (0o640, 7));
        (appended.size, appended.atomic, stat.file_type, stat.readable, stat.executable)
    });
}

#[test]
fn a_link_is_followed_unless_that_is_not_wanted() {
    over_all(|environment| {
        write(environment, "file", b"content");
        symlink("file", environment.cwd().join("link")).unwrap();
        assert_eq!(read(environment, "link"), b"content");
        let stat = |follow_symlinks| {
            environment.stat(&StatParams { path: path("link"), follow_symlinks }).unwrap().file_type
        };
        let real = environment.realpath(&PathParams { path: path("./link") }).unwrap();
        assert_eq!(real.path.as_path(), environment.cwd().join("file"));
        let types = [stat(None), stat(Some(true)), stat(Some(false))];
        assert_eq!(types, [FileType::File, FileType::File, FileType::Symlink]);
    });
}

#[test]
fn a_directory_is_listed_by_name_whatever_the_names_are() {
    over_all(|environment| {
        let odd = OsStr::from_bytes(b"odd\xff\n name");
        std::fs::write(environment.cwd().join(odd), "odd").unwrap();
        write(environment, "b", b"");
        std::fs::create_dir(environment.cwd().join("a")).unwrap();
        symlink("a", environment.cwd().join("to-a")).unwrap();
        symlink("nowhere", environment.cwd().join("dangling")).unwrap();
        let entries = environment.readdir(&PathParams { path: path(".") }).unwrap().entries;
        let odd_entry = entries.iter().find(|entry| entry.name_base64.is_some()).unwrap();
        let name = odd_entry.name_base64.as_ref().unwrap();
        let name = WirePath::try_from(Path::new(OsStr::from_bytes(&name.0))).unwrap();
        assert_eq!(name.as_path().as_os_str(), odd);
        let whole = ReadFileParams::whole(name);
        assert_eq!(environment.read_file(&whole).unwrap().data_base64.0, b"odd");
        let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "dangling", "odd\u{fffd}\n name", "to-a"]);
        entries
    });
}

#[test]
fn names_that_are_not_text_pass_through_every_method() {
    over_all(|environment| {
        let odd = |name: &[u8]| WirePath::try_from(Path::new(OsStr::from_bytes(name))).unwrap();
        let (dir, from, to) = (odd(b"d\xfe"), odd(b"d\xfe/\xff"), odd(b"d\xfe/\xfd"));
        let mkdir = MkdirParams { path: dir.clone(), recursive: Some(false), mode: None };
        environment.mkdir(&mkdir).unwrap();
        environment.write_file(&WriteFileParams::new(from.clone(), b"x".to_vec())).unwrap();
        environment.rename(&RenameParams { from, to: to.clone() }).unwrap();
        let copy = CopyParams { from: to.clone(), to: odd(b"\xfc"), recursive: None };
        environment.copy(&copy).unwrap();
        let real = environment.realpath(&PathParams { path: odd(b"\xfc") }).unwrap();
        assert!(real.path.as_path().as_os_str().as_bytes().ends_with(b"/\xfc"));
        let mut remove = RemoveParams { path: to, recursive: None, force: None };
        environment.remove(&remove).unwrap();
        remove.path = dir;
        environment.remove(&remove).unwrap();
    });
}

#[test]
fn directories_are_made_and_removed_with_all_that_is_in_them() {
    over_all(|environment| {
        let mkdir = |name, recursive| {
            let mode = Some(Mode::try_from(0o700).unwrap());
            environment.mkdir(&MkdirParams { path: path(name), recursive, mode })
        };
        mkdir("a/b/c", None).unwrap();
        mkdir("a/b/c", Some(true)).unwrap();
        mkdir("a/d", Some(false)).unwrap();
        write(environment, "a/b/file", b"x");
        let remove = |name, recursive, force| {
            environment.remove(&RemoveParams { path: path(name), recursive, force })
        };
        remove("a", Some(true), None).unwrap();
        remove("a", None, Some(true)).unwrap();
        assert!(!environment.cwd().join("a").exists());
    });
}

#[test]
fn what_is_renamed_or_copied_stands_elsewhere() {
    over_all(|environment| {
        write(environment, "one", b"content");
        environment.rename(&RenameParams { from: path("one"), to: path("two") }).unwrap();
        environment
            .mkdir(&MkdirParams { path: path("tree"), recursive: None, mode: None })
            .unwrap();
        let copy = |from, to, recursive| {
            environment.copy(&CopyParams { from: path(from), to: path(to), recursive }).unwrap();
        };
        copy("two", "tree/three", None);
        symlink("three", environment.cwd().join("tree/link")).unwrap();
        copy("tree", "wood", Some(true));
        assert_eq!(read(environment, "wood/link"), b"content");
        let entries = environment.readdir(&PathParams { path: path("wood") }).unwrap().entries;
        assert!(!environment.cwd().join("one").exists());
        entries
    });
}

#[test]
fn a_file_of_the_kernel_s_is_read_to_its_end() {
    over_all(|environment| {
        let read =
            environment.read_file(&ReadFileParams::whole(path("/proc/self/status"))).unwrap();
        assert!(read.eof && read.data_base64.0.starts_with(b"Name:"));
    });
}
