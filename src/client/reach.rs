//! A socket to a host: its name is looked up, and its addresses are tried in turn.

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;

use super::way::Terms;
use crate::error::{Error, ErrorKind, Result};
use crate::sys::{self, errno};
use crate::threads;

/// How long one address may take to answer.
const CONNECT: Duration = Duration::from_secs(10);
/// How long the name may take to be found.
const LOOK_UP: Duration = Duration::from_secs(30);
/// A host that answers within this is near.
const NEAR: Duration = Duration::from_millis(1);
/// What may wait to be read of one that is near: 500 MB/s at a round trip of a millisecond.
const QUEUE: u32 = 512 * 1024;

/// Tries each address of the host.
pub(super) fn reach(host: &str, port: u16, shown: &str, terms: Terms) -> Result<TcpStream> {
    let unreachable = |why: &dyn fmt::Display| {
        let advice = "is the server running there, and is the port right?";
        Error::new(ErrorKind::Unreachable, format!("cannot reach {shown}: {why} ({advice})"))
    };
    let addresses = look_up(host, port, terms).map_err(|error| unreachable(&error))?;
    let mut last = None;
    for address in addresses {
        let start = Instant::now();
        match TcpStream::connect_timeout(&address, terms.left(CONNECT)) {
            Ok(socket) => {
                // (That takes one round trip.)
                if start.elapsed() < NEAR {
                    bound_queue(&socket);
                }
                return Ok(socket);
            }
            Err(error) => last = Some(error),
        }
    }
    Err(match last {
        Some(error) => unreachable(&errno::message(errno::of(&error))),
        None => unreachable(&"the name has no address"),
    })
}

/// What has come and is not read yet stands before every answer, and where a reader is slow the kernel
/// lets it grow to what it is allowed: tens of megabytes on some machines. Over so short a way a part of
/// that is enough to keep the connection busy. (Where a program may not ask for that much, the kernel
/// takes less in its place, which is too little; and there it is not allowed much by itself either.)
fn bound_queue(socket: &TcpStream) {
    let most = fs::read_to_string("/proc/sys/net/core/rmem_max");
    let may = most.is_ok_and(|most| most.trim().parse().is_ok_and(|most: u32| most >= QUEUE));
    if may {
        // Without it, all is as it was.
        let _ = sys::fd::bound_receive_queue(socket.as_fd(), QUEUE);
    }
}

/// The addresses of a host. The resolver may take as long as it likes: it has a thread of its own.
fn look_up(host: &str, port: u16, terms: Terms) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let (found, addresses) = bounded(1);
    let name = host.to_owned();
    threads::run(move || {
        let addresses = (name.as_str(), port).to_socket_addrs().map(Iterator::collect);
        // Whoever has stopped waiting wants none.
        let _ = found.send(addresses);
    })?;
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "its name was not found in time");
    addresses.recv_timeout(terms.left(LOOK_UP)).map_err(late)?
}
