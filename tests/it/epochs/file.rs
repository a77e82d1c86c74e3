//! `--epoch-file`

use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::{assert_fenced, assert_stale, epoch_of};
use crate::fs::inject::{injected, lacks_strace};
use crate::support::{DEADLINE, Server, Setup, TempDir, sys};

fn setup(file: &Path) -> Setup {
    Setup::new().args(["--epoch-file", file.to_str().unwrap()])
}

fn text(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap()
}

fn stop(mut server: Server) {
    server.signal(libc::SIGTERM);
    assert_eq!(server.wait(DEADLINE).code(), Some(0));
}

fn only(dir: &TempDir) -> Vec<String> {
    let names = std::fs::read_dir(dir.path()).unwrap();
    let mut names: Vec<_> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_highest_epoch_outlives_the_server() {
    let dir = TempDir::new();
    let file = dir.join("epoch");
    let server = setup(&file).listen();
    assert_eq!(text(&file), "0\n", "it is never empty");
    let mut peer = server.connect_of(41);
    peer.ping();
    assert_eq!(text(&file), "41\n");
    let mut newer = server.connect();
    newer.ok("initialize", &json!({"epoch": 42}));
    assert_eq!(text(&file), "42\n");
    assert_fenced(&mut peer);
    drop(newer);
    stop(server);
    assert_eq!(only(&dir), ["epoch"]);
    let server = setup(&file).listen();
    assert_fenced(&mut server.connect_of(41));
    let mut stale = server.connect();
    assert_stale(&stale.error("initialize", &json!({"epoch": 7})), 7, 42);
    let mut same = server.connect_of(42);
    assert_eq!(epoch_of(&mut same), json!(42));
    assert_eq!(text(&file), "42\n");
}

#[test]
fn a_stdio_server_keeps_it_too() {
    let dir = TempDir::new();
    let file = dir.join("epoch");
    for (epoch, stale) in [(5, false), (4, true), (5, false), (6, false)] {
        let mut peer = setup(&file).stdio();
        let outcome = peer.call("initialize", &json!({"epoch": epoch}));
        assert_eq!(outcome.is_err(), stale, "{epoch}: {outcome:?}");
        peer.hang_up();
        assert_eq!(peer.pipes().wait(DEADLINE).expect("it ends").code(), Some(0));
    }
    assert_eq!(text(&file), "6\n");
}

#[test]
fn an_equal_or_smaller_epoch_does_not_touch_it() {
    let dir = TempDir::new();
    let file = dir.write("epoch", "30");
    let server = setup(&file).listen();
    let before = std::fs::metadata(&file).unwrap();
    server.connect_of(30).ping();
    assert_fenced(&mut server.connect_of(29));
    let after = std::fs::metadata(&file).unwrap();
    assert_eq!((before.ino(), before.mtime_nsec()), (after.ino(), after.mtime_nsec()));
    assert_eq!(text(&file), "30");
}

#[test]
fn a_link_is_followed_also_one_that_dangles() {
    let dir = TempDir::new();
    std::fs::create_dir(dir.join("real")).unwrap();
    symlink("real/epoch", dir.join("link")).unwrap();
    let server = setup(&dir.join("link")).listen();
    server.connect_of(8).ping();
    stop(server);
    assert!(dir.join("link").symlink_metadata().unwrap().is_symlink());
    assert_eq!(text(&dir.join("real/epoch")), "8\n");
    let server = setup(&dir.join("link")).listen();
    assert_fenced(&mut server.connect_of(7));
    server.connect_of(9).ping();
    assert_eq!(text(&dir.join("real/epoch")), "9\n");
}

#[test]
fn a_second_server_on_it_refuses_to_start_also_after_a_raise() {
    let dir = TempDir::new();
    let file = dir.join("epoch");
    symlink("epoch", dir.join("link")).unwrap();
    let server = setup(&file).listen();
    for epoch in [1, 2, 3] {
        for path in [&file, &dir.join("link")] {
            let refusal = setup(path).refused();
            assert_eq!(refusal.status.code(), Some(2), "{}", refusal.stderr);
            assert!(refusal.stderr.contains("another server has it"), "{}", refusal.stderr);
            assert!(refusal.stderr.contains(path.to_str().unwrap()), "{}", refusal.stderr);
        }
        server.connect_of(epoch).ping();
    }
    stop(server);
    drop(setup(&file).listen());
}

/// A lock that a child had inherited would outlive the server.
#[test]
fn it_is_free_when_the_server_has_gone_and_whatever_it_has_started_not() {
    let dir = TempDir::new();
    let file = dir.join("epoch");
    for round in 1..6 {
        let server = setup(&file).listen();
        let mut peer = server.connect_of(round);
        let pid = peer.server_pid();
        peer.start_exec(json!({"command": "setsid sleep 1 & exec sleep 1"}));
        peer.ping();
        sys::signal(pid, libc::SIGKILL).unwrap();
        // The guardian of a server may take a moment to see that.
        drop(server);
        drop(setup(&file).listen());
        assert_eq!(text(&file), format!("{round}\n"));
    }
}

#[test]
fn a_server_that_is_killed_between_raises_leaves_a_whole_number() {
    let dir = TempDir::new();
    let file = dir.join("epoch");
    let mut last = 0;
    for round in 0..15_u32 {
        let server = setup(&file).listen();
        let pid = server.connect().server_pid();
        let bearer = server.authorization().unwrap();
        let (mut next, mut answered) = (last + 1, last);
        let end = std::time::Instant::now() + Duration::from_millis(u64::from(round * 3) + 5);
        std::thread::scope(|scope| {
            let kill = move || {
                std::thread::sleep(end.saturating_duration_since(std::time::Instant::now()));
                sys::signal(pid, libc::SIGKILL).unwrap();
            };
            std::thread::Builder::new().spawn_scoped(scope, kill).unwrap();
            while let Some(epoch) = raise(&server, &bearer, next) {
                (answered, next) = (epoch, next + 1);
            }
        });
        let kept = text(&file);
        let number: u64 = kept.strip_suffix('\n').expect("a whole line").parse().unwrap();
        assert!(number == answered || number == next, "{number}: {answered} was answered");
        last = number;
    }
    // (What was killed on its way there may be left beside it, until the next raise.)
    assert!(only(&dir).len() <= 2, "{:?}", only(&dir));
    setup(&file).listen().connect_of(last + 9).ping();
    assert_eq!(only(&dir), ["epoch"]);
}

/// Upgrades with this epoch; `None` once the server has gone.
fn raise(server: &Server, bearer: &str, epoch: u64) -> Option<u64> {
    use std::io::{Read as _, Write as _};
    let target = format!("/exec?epoch={epoch}");
    let request = crate::support::http::upgrade_request(&target, &[bearer.to_owned()]);
    let mut stream = std::net::TcpStream::connect(server.address).ok()?;
    stream.set_read_timeout(Some(DEADLINE)).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).ok()?;
    assert_eq!(&head, b"HTTP/1.1 101");
    Some(epoch)
}

#[test]
fn it_is_on_the_disk_before_the_host_is_answered() {
    if lacks_strace("it_is_on_the_disk_before_the_host_is_answered") {
        return;
    }
    let dir = TempDir::new();
    let file = dir.write("epoch", "1\n");
    // The first is that of the new file, the second that of the directory.
    for (when, old) in [(1, "1\n"), (2, "")] {
        std::fs::write(&file, "1\n").unwrap();
        let what = format!("delay_enter=1500000:when={when}");
        let server = injected(setup(&file), "fsync", &what).listen();
        let bearer = server.authorization().unwrap();
        let asked = std::time::Instant::now();
        std::thread::scope(|scope| {
            let ask = || raise(&server, &bearer, 5).map(|_| asked.elapsed());
            let answer = std::thread::Builder::new().spawn_scoped(scope, ask).unwrap();
            crate::fs::inject::await_held(server.pid());
            if !old.is_empty() {
                assert_eq!(text(&file), old, "it has its place before it is on the disk");
            }
            // Others of the old epoch go on meanwhile, those of a newer one wait.
            server.connect_of(1).ping();
            let took = answer.join().unwrap().unwrap();
            assert!(took > Duration::from_secs(1), "{took:?}");
        });
        assert_eq!(text(&file), "5\n");
    }
}
