//! A connection that breaks at any byte, either way: a call ends in time, with its answer or with an
//! error that says what happened; nothing is done twice; the next call finds the way again.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ta_exec::ErrorKind;
use ta_exec::protocol::{ExecParams, SpawnParams, WirePath, WriteFileParams};

use super::{finish, impatient, lose_connection, within};
use crate::support::proxy::{Act, Fault, Passed, Proxy, Way, after_head};
use crate::support::{DEADLINE, Server, TOKEN, TempDir};

/// What a faultless run passes on its one connection.
fn measure(server: &Server, dir: &TempDir) -> Passed {
    let proxy = Proxy::to(server.address);
    assert!(run(server, dir, &proxy, "measured", None));
    proxy.passed(1)
}

/// One command on a connection of its own, with that fault. It notes down that it ran.
fn run(server: &Server, dir: &TempDir, proxy: &Proxy, name: &str, fault: Option<Fault>) -> bool {
    let client = impatient().websocket(&proxy.url(), Some(TOKEN)).unwrap();
    lose_connection(&client, proxy);
    let note = dir.join(name);
    let mut params = ExecParams::new(format!("echo ran >> {}; seq 500; exit 7", note.display()));
    params.window = None;
    if let Some(fault) = fault {
        proxy.fault_next(fault);
    }
    let mut spawn = SpawnParams::new("bash").arg("-c").arg(params.command.as_str());
    spawn.window = None;
    let is_line = fault.is_none_or(|fault| fault.at % 2 == 0);
    let start = || if is_line { client.exec(&params) } else { client.spawn(&spawn) };
    let ended = within(DEADLINE, || start().and_then(|mut process| finish(&mut process)));
    let what = format!("{fault:?} of {name}");
    match &ended {
        Ok((output, exit)) => {
            assert_eq!(exit.exit_code, Some(7), "{what}");
            assert!(output.len() == 1892 && output.ends_with(b"\n500\n"), "{what}");
        }
        Err(error) => {
            // An answer to the upgrade that does not come may take all the time there is.
            let in_vain = ErrorKind::Unreachable;
            let is_told = [ErrorKind::ConnectionLost, in_vain.clone()].contains(error.kind());
            assert!(is_told, "{what}: {error}");
            assert!(*error.kind() != in_vain || times_noted(&note) == 0, "{what}: {error}");
        }
    }
    // (It may be the ping that meets the fault.)
    let ping = || client.ping().or_else(|_| client.ping());
    within(DEADLINE, ping).unwrap_or_else(|error| panic!("{what}: {error}"));
    // What was begun on the lost connection has ended with it.
    let times = times_noted(&note);
    assert!(
        times <= 1 && (ended.is_err() || times == 1),
        "{what}: ran {times} times, {:?}",
        ended.err()
    );
    assert!(!server.log.text().contains("panic"), "{what}: {}", server.log.text());
    ended.is_ok()
}

fn times_noted(note: &Path) -> usize {
    std::fs::read_to_string(note).unwrap_or_default().lines().count()
}

/// Where a connection may break: around every seam, and here and there in between.
fn points(passed: &[u8]) -> Vec<usize> {
    let head = after_head(passed).0.len();
    let mut points = vec![0, 1, head / 2, head - 1];
    points.extend([0, 1, 2, 3, 4, 8, 9, 30].map(|more| head + more));
    points.extend((1..8).map(|part| head + (passed.len() - head) * part / 8));
    points.extend([passed.len() - 2, passed.len() - 1, passed.len()]);
    points.sort_unstable();
    points.dedup();
    points
}

/// Breaks a connection in this way at every point. Answers how many of the commands got through.
fn at_every_point(act: Act) -> (usize, usize) {
    let (server, dir) = (Server::start(), TempDir::new());
    let passed = measure(&server, &dir);
    let mut faults = Vec::new();
    for (way, passed) in [(Way::Up, &passed.up), (Way::Down, &passed.down)] {
        faults.extend(points(passed).into_iter().map(|at| Fault { way, at, act }));
    }
    let (next, through) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        while let Some(fault) = faults.get(next.fetch_add(1, Ordering::Relaxed)) {
            let name = format!("{:?}-{}", fault.way, fault.at);
            let proxy = Proxy::to(server.address);
            if run(&server, &dir, &proxy, &name, Some(*fault)) {
                through.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        let threads = [(); 8].map(|()| thread::Builder::new().spawn_scoped(scope, work).unwrap());
        for thread in threads {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    (through.into_inner(), faults.len())
}

/// Those that break before the connection is made get through on the next one; those that break
/// later do not.
#[track_caller]
fn assert_some((through, all): (usize, usize)) {
    assert!(through >= 4 && through <= all - 8, "{through} of {all} got through");
}

#[test]
fn a_connection_that_is_cut_at_any_byte() {
    assert_some(at_every_point(Act::Cut));
}

#[test]
fn a_connection_that_is_reset_at_any_byte() {
    assert_some(at_every_point(Act::Reset));
}

#[test]
fn a_connection_of_which_one_half_ends_at_any_byte() {
    assert_some(at_every_point(Act::HalfClose));
}

#[test]
fn a_connection_that_stalls_at_any_byte() {
    let (through, all) = at_every_point(Act::Stall);
    assert!(through <= all - 8, "{through} of {all} got through");
}

#[test]
fn a_connection_that_is_slow_or_comes_byte_by_byte_loses_nothing() {
    for act in [Act::Delay(Duration::from_millis(300)), Act::Split] {
        let (through, all) = at_every_point(act);
        assert_eq!(through, all, "{act:?}");
    }
}

/// A write that was in flight has been made once or not at all, and whoever made it knows that he
/// does not know.
#[test]
fn a_file_is_not_appended_to_twice() {
    let (server, dir) = (Server::start(), TempDir::new());
    let proxy = Proxy::to(server.address);
    let client = impatient().websocket(&proxy.url(), Some(TOKEN)).unwrap();
    for (number, way) in [Way::Up, Way::Down, Way::Up, Way::Down].into_iter().enumerate() {
        lose_connection(&client, &proxy);
        let head = after_head(&proxy.passed(number).up).0.len();
        let at = if way == Way::Up { head + 60 * (number + 1) } else { 170 };
        proxy.fault_next(Fault { way, at, act: Act::Cut });
        let file = dir.join(&number.to_string());
        let path = WirePath::try_from(file.as_path()).unwrap();
        let mut params = WriteFileParams::new(path, b"line\n".repeat(20));
        params.append = Some(true);
        let written = within(DEADLINE, || client.write_file(&params));
        let lines = times_noted(&file);
        match written {
            Ok(_) => assert_eq!(lines, 20),
            Err(error) => {
                assert_eq!(*error.kind(), ErrorKind::ConnectionLost, "{error}");
                assert!(lines == 0 || lines == 20, "{lines} lines");
            }
        }
        client.ping().unwrap();
    }
}

/// Many at once, on a connection that is lost again and again.
#[test]
fn commands_of_many_threads_run_once_or_say_that_they_may_not_have() {
    let (server, dir) = (Server::start(), TempDir::new());
    let proxy = Proxy::to(server.address);
    let client = impatient().websocket(&proxy.url(), Some(TOKEN)).unwrap();
    let (done, lost) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let end = Instant::now() + Duration::from_secs(4);
    let work = |thread: usize| {
        for number in 0.. {
            if Instant::now() > end {
                return;
            }
            let note = dir.join(&format!("{thread}-{number}"));
            let line = ExecParams::new(format!("echo ran >> {}", note.display()));
            let exec = || client.exec(&line).and_then(|mut process| finish(&mut process));
            let ended = within(DEADLINE, exec);
            let times = times_noted(&note);
            match ended {
                Ok((_, exit)) => {
                    assert_eq!((exit.exit_code, times), (Some(0), 1));
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => {
                    assert_eq!(*error.kind(), ErrorKind::ConnectionLost, "{error}");
                    assert!(times <= 1, "ran {times} times");
                    lost.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    };
    thread::scope(|scope| {
        for thread in 0..8 {
            let work = &work;
            thread::Builder::new().spawn_scoped(scope, move || work(thread)).unwrap();
        }
        while Instant::now() < end {
            thread::sleep(Duration::from_millis(120));
            proxy.cut();
        }
    });
    let (done, lost) = (done.into_inner(), lost.into_inner());
    assert!(done > 20 && lost > 5, "{done} done, {lost} lost");
    assert!(proxy.count() <= lost + 2, "{} connections, {lost} lost calls", proxy.count());
}
