//! A socket to a host: its name is looked up, and its addresses are tried in turn.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use crossbeam_channel::bounded;

use super::way::Terms;
use crate::error::{Error, ErrorKind, Result};
use crate::sys::errno;
use crate::threads;

/// How long one address may take to answer.
const CONNECT: Duration = Duration::from_secs(10);
/// How long the name may take to be found.
const LOOK_UP: Duration = Duration::from_secs(30);

/// Tries each address of the host.
pub(super) fn reach(host: &str, port: u16, shown: &str, terms: Terms) -> Result<TcpStream> {
    let unreachable = |why: &dyn fmt::Display| {
        let advice = "is the server running there, and is the port right?";
        Error::new(ErrorKind::Unreachable, format!("cannot reach {shown}: {why} ({advice})"))
    };
    let addresses = look_up(host, port, terms).map_err(|error| unreachable(&error))?;
    let mut last = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, terms.left(CONNECT)) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = Some(error),
        }
    }
    Err(match last {
        Some(error) => unreachable(&errno::message(errno::of(&error))),
        None => unreachable(&"the name has no address"),
    })
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
