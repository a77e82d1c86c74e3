//! Connections: messages in, frames out, over whatever carries them.
//!
//! A connection has two ends. The [`Source`] belongs to one thread at a time: the server's of the
//! connection, the client's in turns. The [`Outbox`] is for everybody; behind it a writer thread sends
//! what cannot be sent at once.

mod direct;
pub(crate) mod http;
mod outbox;
pub(crate) mod stdio;
mod stream;
#[cfg(feature = "tls")]
pub(crate) mod tls;
mod writer;
pub(crate) mod ws;

pub(crate) use outbox::{Lane, Outbox, message};
pub(crate) use stream::Stream;
pub(crate) use writer::{Framing, SharedSocket, Target};

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::sys::poll::{Interest, Poll, Waker};

/// What a connection's thread waits for.
pub(crate) enum Event<'a> {
    /// One message.
    Message(&'a str),
    /// A message longer than the limit; it has been discarded.
    TooLong,
    /// A message that is not UTF-8.
    NotText(String),
    /// There will be no more.
    End(End),
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The peer closed it.
    Closed,
    /// The stream broke.
    Lost(String),
    /// Not a byte has come for the peer timeout.
    Silent,
    /// The peer broke a rule of the transport: the close code and reason to tell it.
    Offence(u16, &'static str),
    /// The server stops.
    Stopped,
    /// A host with a newer epoch has taken over.
    Fenced,
}

impl End {
    /// Of a peer that sends and takes nothing of what it is answered.
    pub(crate) fn does_not_read() -> Self {
        Self::Lost("the peer does not read".to_owned())
    }
}

/// The close code of a connection that is fenced.
pub(crate) const FENCED: u16 = 4409;

/// The receiving side of a connection.
pub(crate) trait Source {
    /// Waits for the next message.
    fn next(&mut self) -> Event<'_>;
}

/// How long to wait for something to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    Forever,
    /// What is there by then is still read.
    Until(Instant),
    /// Nothing is read: what counts is what has been read already.
    Not,
}

impl Wait {
    /// Whether the time for it has passed.
    pub(crate) fn is_over(self) -> bool {
        match self {
            Self::Forever => false,
            Self::Until(deadline) => Instant::now() >= deadline,
            Self::Not => true,
        }
    }
}

/// A source that several read from, in turns.
pub(crate) trait TurnSource: Source + Send {
    /// Waits for the next message for so long. `None` where none has come: what has come of one
    /// is kept.
    fn next_within(&mut self, wait: Wait) -> Option<Event<'_>>;

    /// For whoever waits for his turn.
    fn watch(&self) -> Watch;
}

/// Waits until there is something to read, without reading it.
pub(crate) struct Watch {
    from: Arc<dyn AsFd + Send + Sync>,
    /// Woken when there will be no more.
    stop: Option<Arc<Waker>>,
    /// How often the source is to be looked at though nothing comes, for the sake of the peer's
    /// [`Patience`].
    every: Duration,
}

impl Watch {
    /// Waits until it is time to look at the source.
    pub(crate) fn wait(&self) -> io::Result<()> {
        let mut poll = Poll::default();
        poll.add((*self.from).as_fd(), Interest::Read);
        if let Some(stop) = &self.stop {
            poll.add((**stop).as_fd(), Interest::Read);
        }
        poll.wait(Some(Instant::now() + self.every))
    }
}

/// How long a peer may be silent, and when to nudge it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// The peer is given up after this.
    pub(crate) timeout: Duration,
    /// It is pinged after this.
    pub(crate) ping: Duration,
}

impl Patience {
    /// For a peer that cannot be cut off from this one.
    pub(crate) fn never(ping: Duration) -> Self {
        Self { timeout: Duration::MAX, ping }
    }

    /// For a peer timeout; a ping comes every 15 s, more often where the timeout is short.
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { timeout, ping: (timeout / 4).min(Duration::from_secs(15)) }
    }
}

/// When the peer was last heard and last pinged.
struct Silence {
    patience: Patience,
    heard: Instant,
    pinged: Instant,
}

/// What to do about a peer's silence.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Wait,
    Ping,
    GiveUp,
}

impl Silence {
    fn new(patience: Patience) -> Self {
        let now = Instant::now();
        Self { patience, heard: now, pinged: now }
    }

    fn heard(&mut self) {
        self.heard = Instant::now();
    }

    /// Whether it is time for a ping although the peer is heard; it is time once.
    fn ping_is_due(&mut self, now: Instant) -> bool {
        let due = now.saturating_duration_since(self.pinged) >= self.patience.ping;
        if due {
            self.pinged = now;
        }
        due
    }

    fn judge(&mut self, now: Instant) -> Verdict {
        if now.saturating_duration_since(self.heard) >= self.patience.timeout {
            return Verdict::GiveUp;
        }
        let quiet_since = self.heard.max(self.pinged);
        if now.saturating_duration_since(quiet_since) >= self.patience.ping {
            self.pinged = now;
            return Verdict::Ping;
        }
        Verdict::Wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_peer_is_pinged_and_then_given_up() {
        let mut silence = Silence::new(Patience::new(Duration::from_secs(60)));
        let start = silence.heard;
        let mut verdicts = Vec::new();
        for second in 0..=60 {
            match silence.judge(start + Duration::from_secs(second)) {
                Verdict::Wait => {}
                verdict => verdicts.push((second, verdict)),
            }
        }
        let expected = vec![
            (15, Verdict::Ping),
            (30, Verdict::Ping),
            (45, Verdict::Ping),
            (60, Verdict::GiveUp),
        ];
        assert_eq!(verdicts, expected);
    }
}
