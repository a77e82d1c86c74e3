//! Regular files that are not like others: without an end, running, immutable, cut while they are
//! read, or in a directory that has a will of its own.

use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::json;

use super::{
    bytes, chmod, chown, content, fails, fails_with, in_dir, merged, mkdir, names, needs_root,
    path, read, write, write_in_place,
};
use crate::support::{Peer, Setup, TempDir, lacks, over_both, over_both_with, skipped};

/// It says that it is empty, and has 256 TiB. (It is read in multiples of 8 bytes only, so it may
/// well say EINVAL.)
#[test]
fn a_file_without_an_end_is_a_typed_error() {
    let setup = || Setup::new().args(["--max-message-bytes", "1000000"]);
    over_both_with(setup, |peer| {
        let file = "/proc/self/pagemap";
        let codes = ["CELL_TA_EXEC_TOO_LARGE", "EINVAL"];
        fails_with(peer, "fs/readFile", &path(file), &codes).assert_names(file);
        let part = merged(path(file), &json!({"offset": 80, "length": 800}));
        match peer.call("fs/readFile", &part) {
            Ok(result) => assert_eq!((bytes(&result).len(), &result["eof"]), (800, &json!(false))),
            Err(error) => assert_eq!(error.data_code(), "EINVAL", "{error:?}"),
        }
    });
}

#[test]
fn a_file_that_cannot_be_read_there_is_a_typed_error() {
    over_both(|peer| {
        for file in ["/proc/self/mem", "/proc/self/attr/exec"] {
            if let Err(error) = peer.call("fs/readFile", &path(file)) {
                assert!(["EIO", "EINVAL", "ENOENT"].contains(&error.data_code()), "{error:?}");
            }
        }
        peer.ping();
    });
}

/// A server that maps files into its memory dies of SIGBUS.
#[test]
fn a_file_that_is_cut_while_it_is_read_kills_nobody() {
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.write("f", vec![b'x'; 2_000_000]);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let cut = || {
                let handle = std::fs::File::options().write(true).open(&file).unwrap();
                while !over.load(Ordering::Relaxed) {
                    handle.set_len(10).unwrap();
                    handle.set_len(2_000_000).unwrap();
                }
            };
            thread::Builder::new().spawn_scoped(scope, cut).unwrap();
            let _stop = StopOnDrop(&over);
            for n in 0..60 {
                let result = peer.ok("fs/readFile", &path(&file));
                assert!(bytes(&result).len() >= 10);
                let copy = dir.join(&format!("copy{}", n % 3));
                peer.ok("fs/copy", &super::from_to(&file, &copy));
            }
        });
        peer.ping();
    });
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A program that runs until it is dropped.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_running_program_is_replaced_but_never_written_in_place() {
    over_both(|peer| {
        let dir = TempDir::new();
        let program = dir.join("program");
        let copied = Command::new("cp").arg("/bin/sleep").arg(&program).status().unwrap();
        assert!(copied.success());
        let old = std::fs::read(&program).unwrap();
        let mut running = Program(Command::new(&program).arg("300").spawn().unwrap());
        std::fs::hard_link(&program, dir.join("other")).unwrap();
        fails(peer, "fs/writeFile", &content(&program, "new"), "ETXTBSY");
        assert!(std::fs::read(&program).unwrap() == old);
        std::fs::remove_file(dir.join("other")).unwrap();
        write(peer, &program, "new");
        assert_eq!(read(peer, &program), b"new");
        assert!(running.0.try_wait().unwrap().is_none(), "the program has died of it");
        assert_eq!(names(dir.path()), ["program"]);
    });
}

/// Takes the attribute away again, whatever happens.
struct Attribute<'a>(&'a str, std::path::PathBuf);

impl<'a> Attribute<'a> {
    fn set(attribute: &'a str, file: std::path::PathBuf) -> Option<Self> {
        let plus = Command::new("chattr").arg(format!("+{attribute}")).arg(&file).output();
        plus.is_ok_and(|output| output.status.success()).then_some(Self(attribute, file))
    }
}

impl Drop for Attribute<'_> {
    fn drop(&mut self) {
        let _ = Command::new("chattr").arg(format!("-{}", self.0)).arg(&self.1).status();
    }
}

#[test]
fn an_immutable_file_is_eperm_and_one_for_appending_is_appended_to() {
    const NAME: &str = "an_immutable_file_is_eperm_and_one_for_appending_is_appended_to";
    if needs_root(NAME) || lacks(NAME, "chattr") {
        return;
    }
    over_both(|peer| {
        let dir = TempDir::new();
        let fixed = dir.write("fixed", "old");
        let log = dir.write("log", "old");
        let attributes = [Attribute::set("i", fixed.clone()), Attribute::set("a", log.clone())];
        if attributes.iter().any(Option::is_none) {
            skipped(NAME, "the file system has no such attributes");
            return;
        }
        for file in [&fixed, &log] {
            fails(peer, "fs/writeFile", &content(file, "new"), "EPERM");
            fails(peer, "fs/remove", &path(file), "EPERM");
            assert_eq!(read(peer, file), b"old");
        }
        let append = |file| merged(content(file, "+"), &json!({"append": true}));
        fails(peer, "fs/writeFile", &append(&fixed), "EPERM");
        peer.ok("fs/writeFile", &append(&log));
        assert_eq!(read(peer, &log), b"old+");
        assert_eq!(names(dir.path()), ["fixed", "log"]);
    });
}

/// A temporary file gets the directory's group; the file that it replaces had its own.
#[test]
fn the_group_of_a_directory_is_for_new_files_only() {
    if needs_root("the_group_of_a_directory_is_for_new_files_only") {
        return;
    }
    over_both(|peer| {
        let dir = TempDir::new();
        let shared = mkdir(dir.join("shared"));
        let old = shared.join("old");
        std::fs::write(&old, "x").unwrap();
        chown(&shared, 0, 4321);
        chmod(&shared, 0o2775);
        write(peer, &old, "y");
        write(peer, shared.join("new"), "z");
        let group = |name: &str| std::fs::metadata(shared.join(name)).unwrap().gid();
        assert_eq!((group("old"), group("new")), (0, 4321));
    });
}

#[test]
fn a_server_whose_cwd_has_been_removed_still_has_absolute_paths() {
    let works = |peer: &mut Peer, cwd: &TempDir| {
        let dir = TempDir::new();
        peer.ping();
        std::fs::remove_dir(cwd.path()).unwrap();
        for method in ["fs/readFile", "fs/stat", "fs/remove"] {
            fails(peer, method, &path("f"), "ENOENT");
        }
        fails(peer, "fs/writeFile", &content("f", "x"), "ENOENT");
        write(peer, dir.join("d"), "x");
        assert_eq!(read(peer, dir.join("d")), b"x");
        mkdir(dir.join("tree/sub"));
        for name in ["d", "tree"] {
            let params = merged(path(dir.join(name)), &json!({"recursive": true}));
            peer.ok("fs/remove", &params);
        }
        assert_eq!(names(dir.path()), [""; 0]);
    };
    let cwds = [TempDir::new(), TempDir::new()];
    works(&mut in_dir(cwds[0].path()).listen().connect(), &cwds[0]);
    works(&mut in_dir(cwds[1].path()).stdio(), &cwds[1]);
}

/// The file is open elsewhere: who has it open sees the new content only where it is written in
/// place.
#[test]
fn who_has_a_file_open_keeps_what_he_has() {
    use std::io::Read as _;
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.write("f", "old");
        let mut open = std::fs::File::open(&file).unwrap();
        write(peer, &file, "new");
        let mut text = String::new();
        open.read_to_string(&mut text).unwrap();
        assert_eq!(text, "old");
        std::fs::hard_link(&file, dir.join("other")).unwrap();
        let mut open = std::fs::File::open(&file).unwrap();
        write_in_place(peer, &file, "newer");
        text.clear();
        open.read_to_string(&mut text).unwrap();
        assert_eq!(text, "newer");
    });
}

/// Its stdout is the protocol's, or nobody's.
#[test]
fn what_is_written_to_the_servers_own_stdout_is_not_taken_for_an_answer() {
    over_both(|peer| {
        if !peer.is_stdio() && !std::path::Path::new("/dev/stdout").exists() {
            return;
        }
        for file in ["/dev/stdout", "/proc/self/fd/1", "/dev/fd/1", "/proc/thread-self/fd/1"] {
            for text in ["nonsense\n", "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n"] {
                // Each line that arrives is checked; what is none of the server's fails the test.
                let _ = peer.call("fs/writeFile", &content(file, text));
                let append = merged(content(file, text), &json!({"append": true}));
                let _ = peer.call("fs/writeFile", &append);
            }
        }
        for file in ["/dev/stdin", "/proc/self/fd/0"] {
            let _ = peer.call("fs/readFile", &path(file));
        }
        peer.assert_quiet();
    });
}
