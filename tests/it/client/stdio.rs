//! A server that is a child of this program.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use ta_exec::ErrorKind;
use ta_exec::client::{ClientOptions, ExecClient};
use ta_exec::protocol::{ExecParams, SpawnParams};

use super::{finish, impatient, within};
use crate::support::{DEADLINE, TempDir, Victim, alone, binary, eventually, procfs, sys};

fn server() -> String {
    format!("exec {} exec-server --stdio", binary().display())
}

/// A client of `sh -c SCRIPT`, whose pid is noted down first.
fn client(options: ClientOptions, dir: &TempDir, script: &str) -> (ExecClient, u32) {
    let note = dir.join("pid");
    let line = format!("echo $$ > {0}.new; mv {0}.new {0}; {script}", note.display());
    let client = options.stdio(&["sh", "-c", &line]).unwrap();
    (client, pid_in(&note))
}

#[track_caller]
fn pid_in(note: &Path) -> u32 {
    eventually(DEADLINE, "the program runs", || note.exists());
    fs::read_to_string(note).unwrap().trim().parse().unwrap()
}

#[test]
fn it_ends_with_its_client() {
    let dir = TempDir::new();
    let (client, pid) = client(ClientOptions::new(), &dir, &server());
    let victim = Victim::new();
    let _process = client.spawn(&SpawnParams::new("sleep").arg(victim.argument())).unwrap();
    victim.await_alive();
    within(Duration::from_secs(2), || drop(client));
    assert_eq!(procfs::state(pid), "gone");
    victim.await_gone();
}

#[test]
fn one_that_does_not_heed_the_end_of_its_stdin_is_terminated_and_then_killed() {
    let ends = |script: &str, from: u64, to: u64| {
        let dir = TempDir::new();
        let (client, pid) = client(ClientOptions::new().epoch(None), &dir, script);
        let start = Instant::now();
        drop(client);
        let took = start.elapsed().as_millis();
        assert!((u128::from(from)..u128::from(to)).contains(&took), "{script}: {took} ms");
        assert_eq!(procfs::state(pid), "gone", "{script}");
    };
    thread::scope(|scope| {
        let polite = || ends("exec sleep 60", 2900, 3900);
        let deaf = || ends("trap '' TERM; while :; do sleep 0.1; done", 3900, 9000);
        thread::Builder::new().spawn_scoped(scope, polite).unwrap();
        thread::Builder::new().spawn_scoped(scope, deaf).unwrap();
    });
}

#[test]
fn its_exit_status_is_told_when_it_dies() {
    for (script, status) in [
        ("read x; exit 3", "ended with exit code 3 before it spoke"),
        ("exit 0", "ended with exit code 0 before it spoke"),
        ("read x; kill -KILL $$", "was ended by SIGKILL"),
        ("read x; exec 0<&- 1>&-; exit 5", "ended with exit code 5 before it spoke"),
    ] {
        let Err(error) = ExecClient::stdio(&["sh", "-c", script]) else { panic!("{script}") };
        assert_eq!(*error.kind(), ErrorKind::ConnectionLost, "{error}");
        assert!(error.message().contains(status), "{script}: {error}");
    }
}

#[test]
fn one_that_cannot_be_started_is_unreachable() {
    for (words, why) in [
        (&["/nope/nope"][..], "no such file"),
        (&["no-such-program"], "no such file"),
        (&["/"], "permission denied"),
    ] {
        let Err(error) = ExecClient::stdio(words) else { panic!("{words:?}") };
        assert_eq!(*error.kind(), ErrorKind::Unreachable, "{error}");
        assert!(error.message().to_lowercase().contains(why), "{error}");
        assert!(error.message().contains(words[0]), "{error}");
    }
    let Err(error) = ExecClient::stdio(&[""; 0]) else { panic!("nothing was started") };
    assert_eq!(*error.kind(), ErrorKind::InvalidParams, "{error}");
}

#[test]
fn one_that_is_killed_is_started_again_by_the_next_call() {
    let dir = TempDir::new();
    let (client, pid) = client(impatient(), &dir, &server());
    let mut process = client.spawn(&SpawnParams::new("sleep").arg("60")).unwrap();
    fs::remove_file(dir.join("pid")).unwrap();
    sys::signal(pid, libc::SIGKILL).unwrap();
    let error = finish(&mut process).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::ConnectionLost, "{error}");
    assert!(error.message().contains("SIGKILL"), "{error}");
    let (output, _) = finish(&mut client.exec(&ExecParams::new("echo again")).unwrap()).unwrap();
    assert_eq!(output, b"again\n");
    assert_ne!(pid_in(&dir.join("pid")), pid);
    assert_eq!(procfs::state(pid), "gone");
}

/// The old one is ended in its own time; the new connection does not wait for that.
#[test]
fn one_that_hangs_does_not_hold_the_next_up() {
    let dir = TempDir::new();
    let first = dir.join("first");
    let once = format!("if mkdir {} 2> /dev/null; then exec sleep 60; fi", first.display());
    let (client, pid) = client(impatient().epoch(None), &dir, &format!("{once}; {}", server()));
    client.ping().unwrap_err();
    within(Duration::from_secs(2), || client.ping()).unwrap();
    eventually(DEADLINE, "the first has been ended", || procfs::state(pid) == "gone");
}

#[test]
fn nothing_is_left_of_200_of_them() {
    if !alone("client::stdio::nothing_is_left_of_200_of_them", &[]) {
        return;
    }
    let me = std::process::id();
    let program = binary();
    let program = program.to_str().unwrap();
    let use_one = || {
        let client = ExecClient::stdio(&[program, "exec-server", "--stdio"]).unwrap();
        finish(&mut client.exec(&ExecParams::new("true")).unwrap()).unwrap();
    };
    use_one();
    let before = procfs::settled(me);
    (0..200).for_each(|_| use_one());
    let left = procfs::children(me);
    assert!(left.is_empty(), "{left:?}, of which zombies {:?}", procfs::zombies_of(me));
    assert_eq!(procfs::settled(me), before);
}
