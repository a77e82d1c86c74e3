//! The way to a server on a host that is reached by ssh.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use super::command::nudge;
use super::dispatch::Dispatch;
use super::link::{Carrier, Link, Opened};
use super::{FAREWELL, MAX_MESSAGE};
use crate::error::{Error, Result};
use crate::ssh::{self, Carried, SshHost};
use crate::sys::poll::Waker;
use crate::transport::stdio::LineSource;
use crate::transport::{End, Framing, Outbox, Patience};

/// How long it is waited for the exit of what has closed its stdout, to tell of it.
const EXIT: Duration = Duration::from_millis(500);

/// Reaches the server, places it there first where need be.
pub(super) fn connect(host: &SshHost, peer: Patience) -> Result<Link> {
    let (source, outbox, carrier) = start(host, peer)?;
    let dispatch = Arc::new(Dispatch::default());
    let source = source.nudging(nudge(&dispatch, &outbox));
    Link::start(Box::new(source), outbox, dispatch, carrier)
        .map_err(|error| Error::io(&error, "cannot make a thread for the connection"))
}

/// The same, with nobody at this end yet.
pub(super) fn open(host: &SshHost, peer: Patience) -> Result<Opened> {
    let (source, outbox, carrier) = start(host, Patience::never(peer.timeout))?;
    Ok(Opened { source: Box::new(source), outbox, carrier })
}

fn start(host: &SshHost, patience: Patience) -> Result<(LineSource, Outbox, Arc<dyn Carrier>)> {
    let (channel, read) = ssh::reach(host)?;
    let failed = |error: std::io::Error| Error::io(&error, "cannot make a connection of a session");
    let stop = Arc::new(Waker::new().map_err(failed)?);
    let waken = Arc::clone(&stop);
    let closed = || Error::new(crate::error::ErrorKind::Internal, "a session has no stdin");
    let target = Box::new(File::from(channel.stdin.ok_or_else(closed)?));
    let (outbox, _writer) =
        Outbox::start(target, Framing::Lines, move || waken.wake(), || false).map_err(failed)?;
    let session =
        Session { host: host.to_string(), carried: channel.carried, stop: Arc::clone(&stop) };
    let source = LineSource::new(channel.stdout, stop, patience, MAX_MESSAGE).after(read);
    Ok((source, outbox, Arc::new(session)))
}

/// The session that carries the connection.
struct Session {
    host: String,
    carried: Carried,
    stop: Arc<Waker>,
}

impl Carrier for Session {
    /// Its stdin is closed when the writer has ended; the server there ends with that. Nobody waits
    /// for it: that would cost each command a round trip.
    fn close(&self, outbox: &Outbox) {
        outbox.stop();
        outbox.flush(FAREWELL);
        self.stop.wake();
    }

    fn explain(&self, end: &End) -> Option<String> {
        if !matches!(end, End::Closed | End::Lost(_) | End::Stopped) {
            return None;
        }
        let code = self.carried.code(EXIT);
        let said = self.carried.said.lines();
        let last = said.last().map(|line| format!(": {line}")).unwrap_or_default();
        Some(match code {
            None | Some(255) => format!("the ssh connection to {} has ended{last}", self.host),
            Some(code) => format!("the server on {} ended with exit code {code}", self.host),
        })
    }
}
