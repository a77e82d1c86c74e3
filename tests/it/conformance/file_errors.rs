//! Files: what goes wrong has the same kind and the same words wherever it does.

use std::os::unix::fs::symlink;

use ta_exec::ErrorKind;
use ta_exec::environment::ExecEnvironment;
use ta_exec::protocol::{
    CopyParams, MkdirParams, PathParams, ReadFileParams, RemoveParams, RenameParams, StatParams,
    WriteFileParams,
};

use super::{Told, over_all, path, told};

fn read(environment: &dyn ExecEnvironment, name: &str) -> Told {
    told(environment, environment.read_file(&ReadFileParams::whole(path(name))))
}

#[test]
fn what_cannot_be_read() {
    over_all(|environment| {
        std::fs::write(environment.cwd().join("file"), "").unwrap();
        symlink("loop", environment.cwd().join("loop")).unwrap();
        let long = "x".repeat(300);
        let longer = "x/".repeat(5000);
        let names =
            ["nope", "nope/nope", "file/below", ".", "loop", "", "/dev/tty", &long, &longer];
        let all = names.map(|name| read(environment, name));
        assert_eq!(all[0].kind, ErrorKind::Os(libc::ENOENT));
        assert_eq!(all[3].kind, ErrorKind::Os(libc::EISDIR));
        assert_eq!(read(environment, "/dev/null").kind, ErrorKind::NotAFile);
        all
    });
}

/// How much a message holds depends on the digits of its id.
fn without_room(message: &str) -> String {
    let (before, after) = message.split_once("room for ").unwrap();
    let after = after.trim_start_matches(|character: char| character.is_ascii_digit());
    format!("{before}room for{after}")
}

#[test]
fn what_is_too_large_is_told_with_its_size() {
    over_all(|environment| {
        let file = std::fs::File::create(environment.cwd().join("large")).unwrap();
        file.set_len(1 << 30).unwrap();
        let told = read(environment, "large");
        assert_eq!((&told.kind, told.size), (&ErrorKind::TooLarge, Some(1 << 30)));
        let mut part = ReadFileParams::whole(path("large"));
        (part.offset, part.length) = (Some((1 << 30) - 5), Some(10));
        let part = environment.read_file(&part).unwrap();
        assert_eq!((part.data_base64.0, part.eof), (vec![0; 5], true));
        without_room(&told.message)
    });
}

/// As much as a message of the usual length holds is read everywhere, and a little more nowhere.
#[test]
fn what_is_too_large_is_the_same_everywhere() {
    over_all(|environment| {
        let large = environment.cwd().join("large");
        let file = std::fs::File::create(&large).unwrap();
        [48 << 20, (48 << 20) - 4096].map(|size| {
            file.set_len(size).unwrap();
            let read = environment.read_file(&ReadFileParams::whole(path("large")));
            read.map(|read| read.data_base64.0.len()).map_err(|error| {
                let message = error.message().replace(large.to_str().unwrap(), "LARGE");
                (error.kind().clone(), without_room(&message))
            })
        })
    });
}

#[test]
fn what_cannot_be_written() {
    over_all(|environment| {
        std::fs::write(environment.cwd().join("file"), "").unwrap();
        let write = |name: &str, change: &dyn Fn(&mut WriteFileParams)| {
            let mut params = WriteFileParams::new(path(name), b"x".to_vec());
            change(&mut params);
            told(environment, environment.write_file(&params))
        };
        let version = |version: &'static str| {
            move |params: &mut WriteFileParams| params.if_version = Some(version.to_owned())
        };
        let all = [
            write("nope/file", &|_| {}),
            write("file/below", &|params| params.create_parents = Some(true)),
            write(".", &|_| {}),
            write("", &|_| {}),
            write("file", &version("")),
            write("file", &version("another")),
            write("nope", &version("another")),
            write("nope/nope", &|params| params.append = Some(true)),
        ];
        assert_eq!(all[4].kind, ErrorKind::Conflict);
        all
    });
}

#[test]
fn what_cannot_be_told_listed_or_resolved() {
    over_all(|environment| {
        std::fs::write(environment.cwd().join("file"), "").unwrap();
        let stat = |name| {
            told(
                environment,
                environment.stat(&StatParams { path: path(name), follow_symlinks: None }),
            )
        };
        let list = |name| told(environment, environment.readdir(&PathParams { path: path(name) }));
        let real = |name| told(environment, environment.realpath(&PathParams { path: path(name) }));
        [stat("nope"), stat("file/x"), list("nope"), list("file"), real("nope"), real("")]
    });
}

#[test]
fn what_cannot_be_made_or_removed() {
    over_all(|environment| {
        std::fs::write(environment.cwd().join("file"), "").unwrap();
        std::fs::create_dir_all(environment.cwd().join("dir/below")).unwrap();
        let mkdir = |name, recursive| {
            let params = MkdirParams { path: path(name), recursive: Some(recursive), mode: None };
            told(environment, environment.mkdir(&params))
        };
        let remove = |name, recursive| {
            let params = RemoveParams { path: path(name), recursive: Some(recursive), force: None };
            told(environment, environment.remove(&params))
        };
        [
            mkdir("dir", false),
            mkdir("file", true),
            mkdir("nope/nope", false),
            mkdir("file/below", true),
            remove("nope", false),
            remove("dir", false),
            remove(".", true),
            remove("/", true),
            remove("..", true),
        ]
        .map(|told| {
            let above = environment.cwd().parent().unwrap().to_str().unwrap();
            (told.kind, told.message.replace(above, "ABOVE"))
        })
    });
}

#[test]
fn what_cannot_be_renamed_or_copied() {
    over_all(|environment| {
        std::fs::write(environment.cwd().join("file"), "").unwrap();
        std::fs::create_dir_all(environment.cwd().join("dir/below")).unwrap();
        let rename = |from, to| {
            let params = RenameParams { from: path(from), to: path(to) };
            told(environment, environment.rename(&params))
        };
        let copy = |from, to, recursive| {
            let params = CopyParams { from: path(from), to: path(to), recursive: Some(recursive) };
            told(environment, environment.copy(&params))
        };
        [
            rename("nope", "x"),
            rename("file", "dir"),
            rename("dir", "dir/below/x"),
            copy("nope", "x", false),
            copy("dir", "x", false),
            copy("dir", "dir/below/x", true),
            copy("file", "nope/x", false),
        ]
    });
}
