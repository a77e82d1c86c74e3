//! The way to a server that is a thread of this program.

use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use super::dispatch::Dispatch;
use super::link::{Carrier, Link};
use super::{MAX_MESSAGE, PEER};
use crate::environment::Machine;
use crate::error::{Error, Result};
use crate::server::serve_in_memory;
use crate::sys::poll::Waker;
use crate::transport::stdio::LineSource;
use crate::transport::{Framing, Outbox, Patience};

/// Starts the server's thread.
pub(super) fn connect(machine: &Arc<Machine>) -> Result<Link> {
    let failed = |error: std::io::Error| Error::io(&error, "cannot connect to this program itself");
    let (near, far) = UnixStream::pair().map_err(failed)?;
    serve_in_memory(machine, far).map_err(failed)?;
    let stop = Arc::new(Waker::new().map_err(failed)?);
    let carrier = Arc::new(Pair(near.try_clone().map_err(failed)?));
    let target = Box::new(near.try_clone().map_err(failed)?);
    let (outbox, _writer) =
        Outbox::start(target, Framing::Lines, || {}, || false).map_err(failed)?;
    let from = OwnedFd::from(near);
    let source = LineSource::new(from, stop, Patience::never(PEER), MAX_MESSAGE);
    Link::start(Box::new(source), outbox, Arc::<Dispatch>::default(), carrier).map_err(failed)
}

/// Two sockets of which this is one.
struct Pair(UnixStream);

impl Carrier for Pair {
    fn close(&self, outbox: &Outbox) {
        outbox.stop();
        outbox.flush(super::FAREWELL);
        let _ = self.0.shutdown(Shutdown::Both);
    }
}
