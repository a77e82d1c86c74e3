//! Unix sockets.

use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{DEADLINE, Peer, Setup, TempDir, base64, over_both, over_both_with, sys};

#[track_caller]
fn echo_once(peer: &mut Peer, listener: &UnixListener, path: &Value, shown: &Value) {
    let (connection, remote) = peer.connect_to(json!({"path": path}));
    assert_eq!(&remote, shown);
    let mut stream = accept(listener);
    peer.net_write(&connection, "there");
    peer.net_eof(&connection);
    let mut there = Vec::new();
    stream.read_to_end(&mut there).unwrap();
    assert_eq!(there, b"there");
    stream.write_all(b"back").unwrap();
    drop(stream);
    assert!(peer.await_closed(&connection).is_none());
    assert_eq!(peer.link(&connection).data, b"back");
}

#[track_caller]
fn accept(listener: &UnixListener) -> UnixStream {
    assert!(sys::readable(listener.as_fd(), DEADLINE), "nobody has connected");
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

#[test]
fn an_absolute_and_a_relative_path_lead_to_a_socket() {
    let dir = TempDir::new();
    let setup = || Setup::new().args(["--cwd", dir.path().to_str().unwrap()]);
    over_both_with(setup, |peer| {
        let name = if peer.is_stdio() { "stdio" } else { "websocket" };
        let path = dir.join(name);
        let listener = UnixListener::bind(&path).unwrap();
        let shown = json!(path);
        echo_once(peer, &listener, &shown, &shown);
        echo_once(peer, &listener, &json!(name), &shown);
    });
}

#[test]
fn a_path_that_is_not_utf_8_is_a_path() {
    let dir = TempDir::new();
    over_both(|peer| {
        let name = if peer.is_stdio() { &b"a\xff"[..] } else { b"b\xff" };
        let path = dir.path().join(OsStr::from_bytes(name));
        let listener = UnixListener::bind(&path).unwrap();
        let wire = json!({"base64": base64(path.as_os_str().as_bytes())});
        echo_once(peer, &listener, &wire, &wire);
    });
}

#[test]
fn a_path_longer_than_an_address_is_reached_all_the_same() {
    let dir = TempDir::new();
    over_both(|peer| {
        let deep = dir.join(if peer.is_stdio() { "a" } else { "b" }).join("x".repeat(200));
        std::fs::create_dir_all(&deep).unwrap();
        let path = deep.join("y".repeat(200));
        // The same trick, since std has none for it.
        let open = std::fs::File::open(&deep).unwrap();
        let short = dir.join(if peer.is_stdio() { "s" } else { "w" });
        std::os::unix::fs::symlink(&deep, &short).unwrap();
        drop(open);
        let listener = UnixListener::bind(short.join("z")).unwrap();
        std::fs::rename(short.join("z"), &path).unwrap();
        echo_once(peer, &listener, &json!(path), &json!(path));
    });
}

#[test]
fn what_is_no_socket_is_told_by_its_errno() {
    let dir = TempDir::new();
    let file = dir.write("file", "");
    let long = dir.join(&"x".repeat(300));
    over_both(|peer| {
        for (path, code) in [
            (dir.join("missing"), "ENOENT"),
            (file.clone(), "ECONNREFUSED"),
            (file.join("below"), "ENOTDIR"),
            (long.clone(), "ENAMETOOLONG"),
        ] {
            let error = peer.connect_error(json!({"path": path}));
            assert_eq!((error.code, error.data_code()), (-32000, code), "{error:?}");
            error.assert_names(path.to_str().unwrap());
        }
        let stale = dir.join(if peer.is_stdio() { "stdio" } else { "websocket" });
        drop(UnixListener::bind(&stale).unwrap());
        let error = peer.connect_error(json!({"path": stale}));
        assert_eq!(error.data_code(), "ECONNREFUSED", "{error:?}");
    });
}

/// A connect that does not block is refused by a full queue, and not put at its end.
#[test]
fn a_full_queue_is_waited_for() {
    let dir = TempDir::new();
    over_both(|peer| {
        let path = dir.join(if peer.is_stdio() { "stdio" } else { "websocket" });
        let listener = UnixListener::bind(&path).unwrap();
        sys::set_backlog(&listener, 0);
        let first = UnixStream::connect(&path).unwrap();
        let error = peer.connect_error(json!({"path": path, "timeoutMs": 200}));
        assert_eq!(error.data_code(), "ETIMEDOUT", "{error:?}");
        let (connect, connection) = peer.begin_connect(json!({"path": path}));
        peer.pump(Duration::from_millis(100));
        assert!(!peer.has_answer(&connect));
        let since = Instant::now();
        drop(accept(&listener));
        peer.answer(&connect).unwrap();
        assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
        drop((first, accept(&listener)));
        peer.await_end_of_data(&connection);
    });
}

/// Nothing can be done with what is left of it.
#[test]
fn a_far_end_that_has_gone_closes_the_connection() {
    let dir = TempDir::new();
    over_both(|peer| {
        let path = dir.join(if peer.is_stdio() { "stdio" } else { "websocket" });
        let listener = UnixListener::bind(&path).unwrap();
        let (connection, _) = peer.connect_to(json!({"path": path}));
        drop(accept(&listener));
        assert!(peer.await_closed(&connection).is_none());
        assert!(peer.link(&connection).ended);
    });
}
