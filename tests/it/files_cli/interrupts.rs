//! Copies that are cut short leave nothing half done under the final name.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use super::{Running, Site, noise, parts_in};
use crate::support::{eventually, holds_within, sys};

const INT: i32 = 2;
const KILL: i32 = 9;
const TERM: i32 = 15;

/// Large enough to be caught in the middle of.
const SIZE: u64 = 8 << 30;

/// A file of that size that takes no room; what is copied of it does, so it is caught early.
fn sparse(path: &Path) {
    fs::File::create(path).unwrap().set_len(SIZE).unwrap();
}

fn await_half(directory: &Path) {
    eventually(Duration::from_secs(10), "something is under way", || {
        let parts = parts_in(directory);
        parts.iter().any(|part| fs::metadata(part).is_ok_and(|data| data.len() > 0))
    });
}

/// Starts copies in both directions, and writing from a stdin that does not end; cuts each short
/// with `cut`; checks what is left with `check`.
fn cut_short(site: &Site, cut: impl Fn(&Running), check: impl Fn(&str, super::Done, &Path)) {
    for way in ["there", "back", "write"] {
        let target = if way == "back" { &site.here } else { &site.there };
        target.write("target", b"old");
        let command = match way {
            "there" => {
                sparse(&site.here.join("source"));
                site.ta("cp", ["source", &site.colon("target")])
            }
            "back" => {
                sparse(&site.there.join("source"));
                site.ta("cp", [&site.colon("source"), "target"])
            }
            _ => {
                let mut command = site.ta("fs write", [site.far("target")]);
                command.stdin(Stdio::piped());
                command
            }
        };
        let mut running = Running::start(command);
        let mut stdin = running.child.stdin.take();
        if let Some(stdin) = &mut stdin {
            std::io::Write::write_all(stdin, &noise(5 << 20)).unwrap();
        }
        await_half(target.path());
        cut(&running);
        let done = running.finish();
        drop(stdin);
        check(way, done, target.path());
        assert_eq!(fs::read(target.join("target")).unwrap(), b"old", "{} {way}", site.name);
        for part in parts_in(target.path()) {
            fs::remove_file(part).unwrap();
        }
        let _ = fs::remove_file(site.here.join("source"));
        let _ = fs::remove_file(site.there.join("source"));
    }
}

#[test]
fn a_signal_has_what_is_half_done_removed() {
    for site in [Site::listening(), Site::via(), Site::new("here", None, &[])] {
        for signal in [INT, TERM] {
            cut_short(
                &site,
                |running| running.signal(signal),
                |way, done, directory| {
                    let seen = (done.code, done.stderr.as_str());
                    assert_eq!(seen, (128 + signal, ""), "{} {way}", site.name);
                    assert_eq!(parts_in(directory).len(), 0, "{} {way}", site.name);
                },
            );
        }
    }
}

#[test]
fn ctrl_c_at_a_terminal_reaches_the_program_on_the_pipe_too() {
    let site = Site::via();
    sparse(&site.here.join("source"));
    let mut command = site.ta("cp", ["source", &site.colon("target")]);
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let running = Running::start(command);
    await_half(site.there.path());
    let group = format!("-{}", running.child.id());
    let killed = std::process::Command::new("kill").args(["-INT", "--", &group]).status();
    assert!(killed.unwrap().success());
    let done = running.finish();
    assert_eq!((done.code, parts_in(site.there.path()).len()), (130, 0), "{done:?}");
}

#[test]
fn a_source_that_changes_meanwhile_is_not_copied() {
    for site in [Site::listening(), Site::new("here", None, &[])] {
        sparse(&site.there.join("source"));
        let running = Running::start(site.ta("cp", [&site.colon("source"), "target"]));
        await_half(site.here.path());
        fs::OpenOptions::new()
            .write(true)
            .open(site.there.join("source"))
            .unwrap()
            .set_len(SIZE + 1)
            .unwrap();
        running.finish().failed(1, "has changed meanwhile");
        assert_eq!(fs::read_dir(site.here.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_kill_leaves_nothing_under_the_final_name() {
    for site in [Site::listening(), Site::new("here", None, &[])] {
        cut_short(
            &site,
            |running| running.signal(KILL),
            |way, done, directory| {
                assert_eq!(done.code, 137, "{} {way}", site.name);
                // Nobody was there to remove it.
                assert!(parts_in(directory).len() <= 1, "{} {way}", site.name);
            },
        );
    }
}

#[test]
fn a_server_that_is_killed_is_said_and_nothing_half_is_left_here() {
    let site = std::cell::RefCell::new(Site::listening());
    for way in ["there", "back"] {
        *site.borrow_mut() = Site::listening();
        let site = site.borrow();
        let server = site.server.as_ref().unwrap();
        let (source, target) = match way {
            "there" => (&site.here, &site.there),
            _ => (&site.there, &site.here),
        };
        sparse(&source.join("source"));
        target.write("target", b"old");
        let args = match way {
            "there" => ["source".to_owned(), site.colon("target")],
            _ => [site.colon("source"), "target".to_owned()],
        };
        let running = Running::start(site.ta("cp", args));
        await_half(target.path());
        sys::signal(server.pid(), KILL).unwrap();
        let done = running.finish();
        assert_eq!(done.code, 125, "{way}: {done:?}");
        let reasons = ["connection was lost", "cannot reach"];
        assert!(reasons.iter().any(|why| done.stderr.contains(why)), "{way}: {done:?}");
        assert_eq!(fs::read(target.join("target")).unwrap(), b"old");
        match way {
            "there" => assert!(done.stderr.contains("may have been left"), "{done:?}"),
            _ => assert_eq!(parts_in(site.here.path()).len(), 0, "{done:?}"),
        }
    }
}

#[test]
fn a_second_signal_waits_for_nobody() {
    let site = Site::listening();
    let server = site.server.as_ref().unwrap();
    sparse(&site.here.join("source"));
    let mut running = Running::start(site.ta("cp", ["source", &site.colon("target")]));
    await_half(site.there.path());
    sys::signal(server.pid(), 19).unwrap();
    running.signal(INT);
    let ended =
        holds_within(Duration::from_millis(300), || running.child.try_wait().unwrap().is_some());
    running.signal(TERM);
    let done = running.finish();
    sys::signal(server.pid(), 18).unwrap();
    assert_eq!((ended, done.code), (false, 130), "{done:?}");
}

#[test]
fn a_full_disk_leaves_the_old_content() {
    let site = Site::listening();
    site.here.write("source", noise(3 << 20));
    let mut command = site.ta("fs write", [site.far("target")]);
    command.stdin(fs::File::open(site.here.join("source")).unwrap());
    Running::start(command).finish().quiet();
    if !sys::is_root() {
        return;
    }
    let small = site.there.join("small");
    fs::create_dir(&small).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"])
        .arg(&small)
        .stderr(Stdio::null())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        return;
    }
    fs::write(small.join("file"), "old").unwrap();
    let done = site.run("cp", ["source", &site.colon("small/file")]);
    let (old, left) = (fs::read(small.join("file")), parts_in(&small));
    let unmounted = std::process::Command::new("umount").arg(&small).status().unwrap();
    assert!(unmounted.success());
    done.failed(1, "small/file");
    assert!(done.stderr.contains("no space"), "{done:?}");
    assert_eq!((old.unwrap(), left.len()), (b"old".to_vec(), 0));
}
