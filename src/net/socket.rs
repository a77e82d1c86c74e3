//! Sockets that connect without blocking.

use std::net::SocketAddr;
#[cfg(not(target_os = "linux"))]
use std::os::fd::AsFd;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{
    set_socket_linger, set_socket_oobinline, set_tcp_nodelay, socket_error,
};
use rustix::net::{AddressFamily, RecvFlags, Shutdown, SocketAddrUnix, SocketType};

#[cfg(not(target_os = "linux"))]
use crate::sys;

/// Where a socket is to be connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Ip(SocketAddr),
    Unix(PathBuf),
}

/// How far an attempt has come.
pub(super) enum Begun {
    Connected(OwnedFd),
    /// It is decided when the socket is writable.
    Connecting(OwnedFd),
}

/// Begins to connect.
pub(super) fn begin(address: &Address) -> Result<Begun, Errno> {
    match address {
        Address::Ip(address) => {
            let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
            let socket = new(family)?;
            set_tcp_nodelay(&socket, true)?;
            // Urgent data is data: it would be lost, and poll(2) would tell of it again and again.
            set_socket_oobinline(&socket, true)?;
            let begun = rustix::net::connect(&socket, address);
            begun_with(socket, begun)
        }
        Address::Unix(path) => begin_unix(path),
    }
}

fn begun_with(socket: OwnedFd, begun: Result<(), Errno>) -> Result<Begun, Errno> {
    match begun {
        Ok(()) => Ok(Begun::Connected(socket)),
        Err(Errno::INPROGRESS | Errno::INTR) => Ok(Begun::Connecting(socket)),
        Err(error) => Err(error),
    }
}

fn begin_unix(path: &Path) -> Result<Begun, Errno> {
    let socket = new(AddressFamily::UNIX)?;
    let _ = set_socket_oobinline(&socket, true);
    let begun = match SocketAddrUnix::new(path) {
        Ok(address) => rustix::net::connect(&socket, &address),
        Err(Errno::NAMETOOLONG) => connect_to_long(&socket, path),
        Err(error) => return Err(error),
    };
    begun_with(socket, begun)
}

/// A path that has no room in an address is reached through an open descriptor of the socket.
#[cfg(target_os = "linux")]
fn connect_to_long(socket: &OwnedFd, path: &Path) -> Result<(), Errno> {
    use std::os::fd::AsRawFd;

    use rustix::fs::{Mode, OFlags};
    let found = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let through = format!("/proc/self/fd/{}", found.as_raw_fd());
    match rustix::net::connect(socket, &SocketAddrUnix::new(through)?) {
        // It is there, so what is missing is /proc.
        Err(Errno::NOENT) => Err(Errno::NAMETOOLONG),
        connected => connected,
    }
}

#[cfg(not(target_os = "linux"))]
fn connect_to_long(_socket: &OwnedFd, _path: &Path) -> Result<(), Errno> {
    Err(Errno::NAMETOOLONG)
}

/// A stream socket that does not block and is not inherited.
fn new(family: AddressFamily) -> Result<OwnedFd, Errno> {
    #[cfg(target_os = "linux")]
    {
        use rustix::net::SocketFlags;
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        rustix::net::socket_with(family, SocketType::STREAM, flags, None)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let socket = rustix::net::socket(family, SocketType::STREAM, None)?;
        rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
        let set = sys::fd::set_nonblocking(socket.as_fd());
        set.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        Ok(socket)
    }
}

/// What an attempt that is decided has come to.
pub(super) fn decided(socket: &OwnedFd) -> Result<(), Errno> {
    socket_error(socket)??;
    let (own, far) = (rustix::net::getsockname(socket)?, rustix::net::getpeername(socket)?);
    // Nobody listens, and the kernel has chosen that very port for this end: TCP then connects the
    // socket with itself.
    let is_ip = matches!(own.address_family(), AddressFamily::INET | AddressFamily::INET6);
    if is_ip && far.as_ref() == Some(&own) { Err(Errno::CONNREFUSED) } else { Ok(()) }
}

/// What a socket that hangs up has failed of; asking takes it away.
pub(super) fn failure(socket: BorrowedFd<'_>) -> Option<Errno> {
    match socket_error(socket) {
        Ok(Ok(())) => None,
        Ok(Err(error)) | Err(error) => Some(error),
    }
}

/// What is behind what has been read so far.
pub(super) enum Behind {
    Nothing,
    Data,
    End,
}

/// Looks without reading.
pub(super) fn look(socket: BorrowedFd<'_>) -> Result<Behind, Errno> {
    let mut byte = [0_u8];
    match rustix::net::recv(socket, &mut byte[..], RecvFlags::PEEK) {
        Ok((0, _)) => Ok(Behind::End),
        Ok(_) => Ok(Behind::Data),
        Err(Errno::AGAIN | Errno::INTR) => Ok(Behind::Nothing),
        Err(error) => Err(error),
    }
}

/// What has not been sent when it is closed never is: the far end is told of a reset.
pub(super) fn drop_unsent(socket: BorrowedFd<'_>) {
    // (What is written to a Unix socket is at the far end already.)
    let _ = set_socket_linger(socket, Some(Duration::ZERO));
}

/// Closes the sending half.
pub(super) fn end_sending(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    match rustix::net::shutdown(socket, Shutdown::Write) {
        // The far end has gone: what it failed of says more.
        Err(Errno::NOTCONN) => failure(socket).map_or(Ok(()), Err),
        ended => ended,
    }
}
