//! TLS over a socket that one thread reads and another writes.
//!
//! Both directions share one state, behind a lock that is never held over a read or a write of the
//! socket: the [`Receiver`] reads bytes first and takes the lock to decrypt them, the [`Sender`]
//! encrypts under the lock and writes after it. The order of the records is kept by there being one
//! sender at a time: whoever makes the connection, and then the writer thread. What TLS itself wants
//! to say (an alert) is said by that thread too, which the receiver has woken for it; an answer to new
//! keys goes with what is sent next.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::stream::read_within;
use super::writer::within;
use super::{Target, Wait};
use crate::sync::lock;
use crate::sys;
use crate::sys::poll::{Interest, wait_for};

/// What is read from the socket at a time: some records.
const READ_BUFFER: usize = 64 * 1024;
/// What is encrypted at a time: some records, so that a reader waits for no more than that.
const PIECE: usize = 64 * 1024;

/// The receiving side.
pub(crate) struct Receiver {
    shared: Arc<Shared>,
    /// What has come and is not decrypted yet: `raw[taken..]`.
    raw: Vec<u8>,
    taken: usize,
    owes_a_write: bool,
    /// The last buffer was filled: there may be more that has been decrypted.
    has_filled: bool,
}

/// The sending side.
pub(crate) struct Sender(Arc<Shared>);

struct Shared {
    socket: Arc<TcpStream>,
    connection: Mutex<ClientConnection>,
}

/// Makes the connection, until the deadline.
///
/// # Errors
/// Those of the socket; `WouldBlock` where it is too late; `InvalidData` with a [`rustls::Error`]
/// inside where the two do not come to terms; `UnexpectedEof` where the peer leaves.
pub(crate) fn connect(
    socket: Arc<TcpStream>,
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
    deadline: Instant,
) -> io::Result<Receiver> {
    let connection = ClientConnection::new(config, name).map_err(invalid)?;
    let shared = Arc::new(Shared { socket, connection: Mutex::new(connection) });
    let (raw, taken) = (Vec::new(), 0);
    let mut receiver = Receiver { shared, raw, taken, owes_a_write: false, has_filled: false };
    receiver.shake_hands(deadline)?;
    Ok(receiver)
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl Receiver {
    pub(super) fn socket(&self) -> &Arc<TcpStream> {
        &self.shared.socket
    }

    pub(super) fn sender(&self) -> Sender {
        Sender(Arc::clone(&self.shared))
    }

    /// Whether something of what has been read may be left.
    pub(super) fn holds_more(&self) -> bool {
        self.has_filled || self.taken < self.raw.len()
    }

    pub(super) fn owes_a_write(&mut self) -> bool {
        std::mem::take(&mut self.owes_a_write)
    }

    fn shake_hands(&mut self, deadline: Instant) -> io::Result<()> {
        let socket = Arc::clone(self.socket());
        let left = || deadline.saturating_duration_since(Instant::now());
        loop {
            // A timeout of nothing would be none.
            socket.set_write_timeout(Some(left().max(Duration::from_millis(1))))?;
            self.sender().flush()?;
            if !lock(&self.shared.connection).is_handshaking() {
                return socket.set_write_timeout(None);
            }
            if left().is_zero() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            socket.set_read_timeout(Some(left()))?;
            if sys::retry(|| self.fill(Wait::Forever))? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let taken = self.decrypt(&mut []);
            if let Err(error) = taken {
                // The alert that tells the peer why.
                let _ = self.sender().flush();
                return Err(error);
            }
        }
    }

    /// Reads from the socket what there is.
    fn fill(&mut self, wait: Wait) -> io::Result<usize> {
        self.raw.clear();
        self.raw.reserve(READ_BUFFER);
        self.taken = 0;
        read_within(&self.shared.socket, &mut self.raw, READ_BUFFER, wait)
    }

    /// Decrypts what has been read into the buffer, as far as that has room. `None` where nothing
    /// comes of it, and more has to be read.
    fn decrypt(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let mut connection = lock(&self.shared.connection);
        let owed = connection.wants_write();
        let mut count = 0;
        let outcome = loop {
            match connection.reader().read(&mut buffer[count..]) {
                // The end that TLS itself tells.
                Ok(0) if count < buffer.len() => break Ok(Some(count)),
                Ok(more) => count += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => break Err(error),
            }
            let mut rest = &self.raw[self.taken..];
            let is_full = count == buffer.len() && count > 0;
            self.has_filled = is_full;
            if rest.is_empty() || is_full {
                break Ok(Some(count).filter(|count| *count > 0));
            }
            match connection.read_tls(&mut rest) {
                Ok(more) => self.taken += more,
                Err(error) => break Err(error),
            }
            if let Err(error) = connection.process_new_packets() {
                break Err(invalid(error));
            }
        };
        // Whoever has found it so before has seen to it.
        self.owes_a_write |= !owed && connection.wants_write();
        outcome
    }

    /// Reads so many bytes at most into what the buffer has room for, and waits for so long. An end
    /// without a goodbye is an end as any other: the WebSocket has a goodbye of its own.
    pub(super) fn read(
        &mut self,
        buffer: &mut Vec<u8>,
        most: usize,
        wait: Wait,
    ) -> io::Result<usize> {
        let (before, room) = (buffer.len(), (buffer.capacity() - buffer.len()).min(most));
        sys::extend_with_zeros(buffer, room);
        let read = self.read_to(&mut buffer[before..], wait);
        buffer.truncate(before + *read.as_ref().unwrap_or(&0));
        read
    }

    fn read_to(&mut self, buffer: &mut [u8], wait: Wait) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some(count) = self.decrypt(buffer)? {
                return Ok(count);
            }
            if self.owes_a_write {
                // Whoever reads sees to that before it waits for more.
                return Err(io::ErrorKind::Interrupted.into());
            }
            if self.fill(wait)? == 0 {
                return Ok(0);
            }
        }
    }
}

impl Sender {
    /// Encrypts the slices and sends that. The whole of it: what has been encrypted must be sent.
    fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut sealed = Vec::new();
        let mut connection = lock(&self.0.connection);
        connection.set_buffer_limit(None);
        // Without any, what TLS has to say is sent; also when it has failed, and says why.
        let count =
            if slices.is_empty() { 0 } else { connection.writer().write_vectored(slices)? };
        while connection.wants_write() {
            connection.write_tls(&mut sealed)?;
        }
        drop(connection);
        self.write_sealed(&sealed)?;
        Ok(count)
    }

    fn write_sealed(&self, mut sealed: &[u8]) -> io::Result<()> {
        let socket = self.0.socket.as_ref();
        while !sealed.is_empty() {
            match sys::retry(|| (&mut &*socket).write(sealed)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => sealed = &sealed[count..],
                // During the handshake, which has a deadline, it is too late.
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock
                        && socket.write_timeout()?.is_none() =>
                {
                    wait_for(socket.as_fd(), Interest::Write, None)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Write for Sender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(&[IoSlice::new(&bytes[..bytes.len().min(PIECE)])])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match within(slices, PIECE) {
            0 => self.write(slices.first().map_or(&[], |first| first)),
            count => self.send(&slices[..count]),
        }
    }

    /// Sends what TLS itself has to say.
    fn flush(&mut self) -> io::Result<()> {
        self.send(&[]).map(drop)
    }
}

impl AsFd for Sender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.socket.as_fd()
    }
}

impl Target for Sender {
    fn finish(&mut self) -> io::Result<()> {
        lock(&self.0.connection).send_close_notify();
        self.flush()
    }
}
