//! The near end of a forward: ports and sockets that are listened on, and what comes in by them.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::{Shutdown, shutdown, sockopt};

use super::spec::{Bind, From};
use crate::error::{Error, ErrorKind, Result};
use crate::sys;

/// How many connections may wait to be accepted: a browser or a test opens hundreds at once.
const BACKLOG: i32 = 1024;

/// One port or socket. A socket's file is removed with it.
pub(super) struct Listener {
    socket: Socket,
    /// As it is shown.
    pub(super) name: String,
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// The file of a Unix socket, removed when this is dropped, unless another is there by then.
pub(super) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    path.symlink_metadata().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Listens on all that is meant. Call it before there are threads: a socket's mode is the umask's.
///
/// # Errors
/// An address that is in use or cannot be had, with its name.
pub(super) fn listen(from: &From) -> Result<(Vec<Listener>, Option<SocketFile>)> {
    match from {
        From::Stdio => Ok((Vec::new(), None)),
        From::Unix(path) => {
            let failed = |error: io::Error| {
                Error::io(&error, format!("cannot listen on {}", path.display()))
            };
            make_room(path)?;
            let bound = sys::host::for_this_user_alone(|| UnixListener::bind(path));
            let listener = bound.map_err(failed)?;
            let identity = identity(path).map_err(failed)?;
            let name = path.display().to_string();
            let listener = Listener { socket: Socket::Unix(listener), name };
            Ok((vec![listener], Some(SocketFile { path: path.clone(), identity })))
        }
        From::Tcp { bind, port } => Ok((listen_tcp(bind, *port)?, None)),
    }
}

/// Removes a socket that a dead process has left; never anything else.
fn make_room(path: &Path) -> Result<()> {
    let Ok(metadata) = path.symlink_metadata() else { return Ok(()) };
    let refuse = |why: &str| {
        let message = format!("cannot listen on {}: {why}", path.display());
        Err(Error::new(ErrorKind::Os(sys::errno::EEXIST), message))
    };
    if !metadata.file_type().is_socket() {
        return refuse("it exists and is no socket");
    }
    match UnixStream::connect(path) {
        Ok(_) => refuse("somebody listens there"),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            let removed = std::fs::remove_file(path);
            removed.map_err(|error| Error::io(&error, format!("cannot remove {}", path.display())))
        }
        Err(error) => refuse(&sys::errno::message(sys::errno::of(&error))),
    }
}

fn listen_tcp(bind: &Bind, port: u16) -> Result<Vec<Listener>> {
    let (shown, addresses) = match bind {
        Bind::Loopback => {
            (format!("127.0.0.1:{port}"), vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port))])
        }
        // One for both families, where there are both.
        Bind::All => {
            let all = format!("*:{port}");
            let first = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
            let listener = TcpListener::bind(first)
                .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)));
            let listener = listener.and_then(tcp);
            let cannot = |error| Error::io(&error, format!("cannot listen on {all}"));
            return Ok(vec![listener.map_err(cannot)?]);
        }
        Bind::Host(host) => {
            let shown = if host.contains(':') {
                format!("[{host}]:{port}")
            } else {
                format!("{host}:{port}")
            };
            let found = (host.as_str(), port).to_socket_addrs().map_err(|error| {
                let message = format!("cannot listen on {shown}: {error}");
                Error::new(ErrorKind::Os(sys::errno::of(&error)), message)
            })?;
            (shown, found.collect())
        }
    };
    let mut listeners: Vec<Listener> = Vec::new();
    let (mut chosen, mut failure) = (port, None);
    for mut address in addresses {
        address.set_port(chosen);
        match TcpListener::bind(address).and_then(tcp) {
            Ok(listener) => {
                chosen = listener.port().unwrap_or(chosen);
                listeners.push(listener);
            }
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(error) if listeners.is_empty() => {
            Err(Error::io(&error, format!("cannot listen on {shown}")))
        }
        None if listeners.is_empty() => {
            let message = format!("cannot listen on {shown}: the name has no address");
            Err(Error::new(ErrorKind::Os(sys::errno::ENOENT), message))
        }
        _ => Ok(listeners),
    }
}

fn tcp(listener: TcpListener) -> io::Result<Listener> {
    rustix::net::listen(&listener, BACKLOG)?;
    let name = listener.local_addr()?.to_string();
    Ok(Listener { socket: Socket::Tcp(listener), name })
}

impl Listener {
    fn port(&self) -> Option<u16> {
        match &self.socket {
            Socket::Tcp(listener) => listener.local_addr().ok().map(|address| address.port()),
            Socket::Unix(_) => None,
        }
    }

    /// Waits for the next one.
    pub(super) fn accept(&self) -> io::Result<Local> {
        match &self.socket {
            Socket::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                let _ = stream.set_nodelay(true);
                Ok(Local { socket: stream.into(), is_tcp: true })
            }
            Socket::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                Ok(Local { socket: stream.into(), is_tcp: false })
            }
        }
    }
}

/// A connection that somebody has made to us.
pub(super) struct Local {
    socket: OwnedFd,
    is_tcp: bool,
}

impl Local {
    /// Its own end of data, which whoever is there sees after all that was written.
    pub(super) fn end_sending(&self) {
        let _ = shutdown(&self.socket, Shutdown::Write);
    }

    /// Wakes whoever reads from it; nothing is sent for that.
    pub(super) fn end_reading(&self) {
        let _ = shutdown(&self.socket, Shutdown::Read);
    }

    /// When it is closed, whoever is there sees a reset and no end of data. (Unix sockets have no
    /// such thing.)
    pub(super) fn will_be_reset(&self) {
        if self.is_tcp {
            let _ = sockopt::set_socket_linger(&self.socket, Some(std::time::Duration::ZERO));
        }
    }
}

impl AsFd for Local {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
