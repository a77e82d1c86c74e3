//! `net/*`: TCP and Unix connections through the server, against real sockets on loopback.

mod connect;
mod data;
mod endings;
mod flow;
mod limits;
mod order;
mod resolver;
mod unix;
mod writes;

use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;

use serde_json::json;

use crate::support::{ClosedPort, DEADLINE, Peer, sys};

/// A listener on a free port, and the port.
fn listen_on(address: &str) -> (TcpListener, u16) {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn listen() -> (TcpListener, u16) {
    listen_on("127.0.0.1")
}

#[track_caller]
fn accept(listener: &TcpListener) -> TcpStream {
    assert!(sys::readable(listener.as_fd(), DEADLINE), "nobody has connected");
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.set_write_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// A connection through the server, and its far end.
#[track_caller]
fn connect(peer: &mut Peer) -> (String, TcpStream) {
    connect_with(peer, json!({}))
}

#[track_caller]
fn connect_with(peer: &mut Peer, mut params: serde_json::Value) -> (String, TcpStream) {
    let (listener, port) = listen();
    params["host"] = json!("127.0.0.1");
    params["port"] = json!(port);
    let (connection, _) = peer.connect_to(params);
    (connection, accept(&listener))
}

/// Waits until the far end has closed; whether it has reset the connection.
#[track_caller]
fn await_hung_up(stream: &mut TcpStream) -> bool {
    use std::io::Read as _;
    let mut buffer = [0; 65536];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return true,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => (),
            Err(error) => panic!("the connection is still open: {error}"),
        }
    }
}

/// Bytes in which a gap, a repetition or a swap shows.
fn pattern(length: usize) -> Vec<u8> {
    (0..251_u8).cycle().take(length).collect()
}
