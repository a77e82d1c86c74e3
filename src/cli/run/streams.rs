//! The bytes of a command: its output to our stdout and stderr, our stdin to it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::buffers;
use crate::client::{Process, ProcessEvent, ProcessExit, ProcessStdin, Stream};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::MAX_CHUNK;
use crate::sys;
use crate::sys::poll::{Interest, wait_for};

/// How the output ended.
pub(super) enum Outcome {
    /// The command is over, and all that it wrote has been written.
    Exit(ProcessExit),
    /// Nobody reads our output any more.
    Unread,
    /// The connection or our own output failed.
    Failed(Error),
}

/// Where output goes: straight to the descriptors, with no buffer in between.
pub(super) struct Outputs {
    stdout: OwnedFd,
    stderr: OwnedFd,
    written: Arc<AtomicU64>,
}

impl Outputs {
    /// Our own stdout and stderr.
    ///
    /// # Errors
    /// `EMFILE`.
    pub(super) fn standard() -> Result<Self> {
        let standard = |number| {
            let stream = sys::fd::duplicate_standard(number);
            stream.map_err(|error| Error::io(&error, "cannot run a command"))
        };
        Ok(Self { stdout: standard(1)?, stderr: standard(2)?, written: Arc::default() })
    }

    /// A count that grows with every byte that somebody has taken.
    pub(super) fn written(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.written)
    }

    /// Writes what the command writes until it is over.
    pub(super) fn pass_on(&self, mut process: Process) -> Outcome {
        loop {
            match process.next(None) {
                Ok(Some(ProcessEvent::Output(stream, bytes))) => {
                    if let Err(error) = self.write(stream, bytes) {
                        return match error.kind() {
                            io::ErrorKind::BrokenPipe => Outcome::Unread,
                            _ => Outcome::Failed(Error::io(&error, cannot_write(stream))),
                        };
                    }
                }
                Ok(Some(ProcessEvent::Exit(exit))) => return Outcome::Exit(exit),
                Ok(None) => {}
                Err(error) => return Outcome::Failed(explain(error)),
            }
        }
    }

    fn write(&self, stream: Stream, mut bytes: &[u8]) -> io::Result<()> {
        let to = match stream {
            Stream::Stdout => self.stdout.as_fd(),
            Stream::Stderr => self.stderr.as_fd(),
        };
        while !bytes.is_empty() {
            match sys::fd::write(to, bytes) {
                Ok(count) => {
                    bytes = &bytes[count..];
                    self.written.fetch_add(count as u64, Ordering::Relaxed);
                }
                // Whoever shares it with us has made it so.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait_for(to, Interest::Write, None)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A server that is told to stop answers what is in flight by an error of its own.
fn explain(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Internal => {
            let message = format!("the server gave the command up: {error} (its log may tell why)");
            Error::new(ErrorKind::Internal, message)
        }
        _ => error,
    }
}

fn cannot_write(stream: Stream) -> &'static str {
    match stream {
        Stream::Stdout => "cannot write to stdout",
        Stream::Stderr => "cannot write to stderr",
    }
}

/// How passing our stdin on has ended.
pub(super) enum Fed {
    /// There was no more of it.
    All,
    /// The command reads no more.
    Refused,
}

/// Passes our stdin on to its end, or until the command reads no more.
///
/// # Errors
/// Our stdin cannot be read.
pub(super) fn feed(mut to: ProcessStdin) -> Result<Fed> {
    let failed = |error: io::Error| Error::io(&error, "cannot read stdin");
    let from = sys::fd::duplicate_standard(0).map_err(failed)?;
    let mut buffer = buffers::take();
    loop {
        buffer.clear();
        match sys::fd::read_into(from.as_fd(), &mut buffer, MAX_CHUNK) {
            Ok(0) => break,
            // A command that does not read, or is over, is no failure of ours, and what the
            // connection has to say about its end comes with the output.
            Ok(_) => {
                if to.write(&buffer).is_err() {
                    return Ok(Fed::Refused);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait_for(from.as_fd(), Interest::Read, None).map_err(failed)?;
            }
            // A terminal that has gone.
            Err(error) if sys::errno::of(&error) == sys::errno::EIO => break,
            Err(error) => return Err(failed(error)),
        }
    }
    let _ = to.close();
    Ok(Fed::All)
}

/// Waits until nobody can read our stdout any more. `false` where that cannot be known: a file has
/// no reader, and of a terminal that has gone a signal tells.
pub(super) fn await_unread() -> bool {
    let Ok(stdout) = sys::fd::duplicate_standard(1).map(File::from) else { return false };
    let has_reader = stdout.metadata().is_ok_and(|metadata| {
        let kind = metadata.file_type();
        kind.is_fifo() || kind.is_socket()
    });
    has_reader && wait_for(stdout.as_fd(), Interest::HangUp, None).is_ok()
}
