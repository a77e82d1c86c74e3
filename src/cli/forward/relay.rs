//! One forwarded connection: two threads, one for each way. Nothing that one of them waits for
//! holds up another connection.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::listener::Local;
use super::spec::To;
use crate::cli::thread::spawn;
use crate::client::{ConnectionEvent, ConnectionWriter, ExecClient, RemoteConnection};
use crate::error::Result;
use crate::sys::fd;
use crate::sys::poll::{Interest, wait_for};

/// What is read at a time: several chunks of the protocol, which go out together.
const PART: usize = 256 * 1024;
/// What is read at first. Most connections never need more.
const FIRST_PART: usize = 16 * 1024;
/// Connects somebody to the far end, until one of them has gone or both have said all.
///
/// # Errors
/// Why it ended otherwise than that.
pub(super) fn forward(
    local: Local,
    client: &ExecClient,
    to: &To,
    on_connected: impl FnOnce(),
) -> Result<()> {
    match client.connect(&to.params()) {
        Ok(connection) => {
            on_connected();
            relay(local, connection)
        }
        Err(error) => {
            local.will_be_reset();
            Err(error)
        }
    }
}

fn relay(local: Local, mut connection: RemoteConnection) -> Result<()> {
    let local = Arc::new(local);
    let writer = connection.writer();
    let over = Arc::new(AtomicBool::new(false));
    let (near, stop) = (Arc::clone(&local), Arc::clone(&over));
    let started = spawn("up", move || upload(&near, writer, &stop));
    if let Err(error) = started {
        local.will_be_reset();
        return Err(error);
    }
    let ended = download(&mut connection, &local);
    if ended.is_err() {
        local.will_be_reset();
    }
    // Closed from our side if it is not over.
    drop(connection);
    over.store(true, Ordering::Release);
    local.end_reading();
    ended
}

/// What comes from near goes far, to its end.
fn upload(local: &Local, mut writer: ConnectionWriter, over: &AtomicBool) {
    let passed = pass_on(local.as_fd(), |bytes| writer.write(bytes));
    match passed {
        // The other thread has ended it.
        _ if over.load(Ordering::Acquire) => {}
        Ok(()) => drop(writer.finish()),
        // Whoever was near has been lost. The protocol has no resets; it is closed at once.
        Err(Stopped::Reading) => drop(writer.close()),
        // The connection's last event tells it.
        Err(Stopped::Writing) => {}
    }
}

/// Why bytes are not passed on any more.
pub(super) enum Stopped {
    Reading,
    Writing,
}

/// Reads to the end.
pub(super) fn pass_on(
    from: BorrowedFd<'_>,
    mut write: impl FnMut(&[u8]) -> Result<()>,
) -> std::result::Result<(), Stopped> {
    let mut buffer = Vec::with_capacity(FIRST_PART);
    loop {
        buffer.clear();
        match fd::read_into(from, &mut buffer, PART) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                write(&buffer).map_err(|_| Stopped::Writing)?;
                if count == buffer.capacity() && count < PART {
                    buffer = Vec::with_capacity(PART);
                }
            }
            // Whoever shares it with us has made it so.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait_for(from, Interest::Read, None).map_err(|_| Stopped::Reading)?;
            }
            Err(_) => return Err(Stopped::Reading),
        }
    }
}

/// What comes from far goes near, until both ways have come to their end.
fn download(connection: &mut RemoteConnection, local: &Local) -> Result<()> {
    loop {
        match connection.next(None)? {
            // Whoever was near has gone: it is closed by being dropped.
            Some(ConnectionEvent::Data(bytes)) if write_all(local.as_fd(), bytes).is_err() => {
                return Ok(());
            }
            Some(ConnectionEvent::Data(_)) | None => {}
            Some(ConnectionEvent::Eof) => local.end_sending(),
            Some(ConnectionEvent::Closed(error)) => return error.map_or(Ok(()), Err),
        }
    }
}

/// Writes all of it, with no buffer in between.
pub(super) fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match fd::write(to, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait_for(to, Interest::Write, None)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
