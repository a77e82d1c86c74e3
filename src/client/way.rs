//! The ways to a server.

use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::dispatch::{Known, loss};
use super::link::{CALL_TIMEOUT, Link, Opened};
#[cfg(feature = "host")]
use super::ssh;
use super::websocket::Server;
use super::{command, memory, websocket};
use crate::environment::Machine;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::rpc::{self, Message, Outcome};
use crate::protocol::{InitializeParams, InitializeResult, method};
#[cfg(feature = "host")]
use crate::ssh::SshHost;
use crate::transport::{Event, Patience, message};

/// How to get to a server, as often as it takes.
#[derive(Clone)]
pub(super) enum Way {
    WebSocket(Server),
    /// A program that speaks the protocol on its stdin and stdout, and its arguments.
    Command(Vec<OsString>),
    /// A host that is reached by ssh.
    #[cfg(feature = "host")]
    Ssh(SshHost),
    /// This program itself.
    Memory(Arc<Machine>),
}

impl Way {
    /// Connects.
    pub(super) fn connect(&self, terms: Terms) -> Result<Link> {
        match self {
            Self::WebSocket(server) => {
                let terms = Terms { epoch: epoch_in(&server.url).or(terms.epoch), ..terms };
                websocket::connect(server, &with_epoch(&server.url, terms.epoch), terms)
            }
            Self::Command(words) => introduced(command::connect(words, terms.peer)?, terms),
            #[cfg(feature = "host")]
            Self::Ssh(host) => introduced(ssh::connect(host, terms.peer)?, terms.renewed()),
            Self::Memory(machine) => introduced(memory::connect(machine)?, terms),
        }
    }
}

impl Way {
    /// Opens the way for somebody who speaks the protocol themselves.
    pub(super) fn open(&self, terms: Terms) -> Result<Opened> {
        let mut opened = match self {
            Self::WebSocket(server) => {
                return websocket::open(server, &with_epoch(&server.url, terms.epoch), terms);
            }
            Self::Command(words) => command::open(words, terms.peer)?,
            #[cfg(feature = "host")]
            Self::Ssh(host) => ssh::open(host, terms.peer)?,
            Self::Memory(_) => return Err(Error::params("nobody speaks it to this program")),
        };
        if terms.epoch.is_some() {
            introduce(&mut opened, terms.epoch)?;
        }
        Ok(opened)
    }
}

/// What goes for a connection that is to be made.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    /// The host's epoch.
    pub(super) epoch: Option<u64>,
    /// When it is to be there.
    pub(super) deadline: Instant,
    /// How long the server may be silent, and how often it is pinged.
    pub(super) peer: Patience,
}

impl Terms {
    /// What is left after a login, which has budgets of its own: a person may have been asked.
    fn renewed(self) -> Self {
        Self { deadline: self.deadline.max(Instant::now() + CALL_TIMEOUT), ..self }
    }

    /// How long something may take that takes no longer than `most`.
    pub(super) fn left(&self, most: Duration) -> Duration {
        let left = self.deadline.saturating_duration_since(Instant::now());
        // Nothing would be no limit at all.
        left.min(most).max(Duration::from_millis(1))
    }
}

/// What a person reads of it; never a query, which may hold the token.
impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WebSocket(server) => f.write_str(websocket::without_query(&server.url)),
            Self::Command(words) => {
                let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
                f.write_str(&words.join(" "))
            }
            #[cfg(feature = "host")]
            Self::Ssh(host) => write!(f, "{host} by ssh"),
            Self::Memory(_) => f.write_str("this program"),
        }
    }
}

/// The URL with the epoch, unless it says one itself.
fn with_epoch(url: &str, epoch: Option<u64>) -> String {
    let (before, fragment) = url.split_once('#').unwrap_or((url, ""));
    let query = before.split_once('?').map(|(_, query)| query);
    let says_one = said_epoch(url).is_some();
    match (epoch, query) {
        (None, _) => url.to_owned(),
        (Some(_), _) if says_one => url.to_owned(),
        (Some(epoch), None) => format!("{before}?epoch={epoch}{}", after(fragment)),
        (Some(epoch), Some("")) => format!("{before}epoch={epoch}{}", after(fragment)),
        (Some(epoch), Some(_)) => format!("{before}&epoch={epoch}{}", after(fragment)),
    }
}

/// The epoch that a URL says itself, as it is written there.
fn said_epoch(url: &str) -> Option<&str> {
    let (_, query) = url.split('#').next()?.split_once('?')?;
    query.split('&').find_map(|pair| pair.strip_prefix("epoch="))
}

fn epoch_in(url: &str) -> Option<u64> {
    said_epoch(url)?.parse().ok()
}

fn after(fragment: &str) -> String {
    if fragment.is_empty() { String::new() } else { format!("#{fragment}") }
}

/// Where no URL says it, the epoch is told before anything else.
fn introduced(link: Link, terms: Terms) -> Result<Link> {
    if terms.epoch.is_some() {
        let params = InitializeParams { epoch: terms.epoch, ..super::introduction() };
        let deadline = Instant::now() + terms.left(CALL_TIMEOUT);
        let _: InitializeResult = link.call_until(method::INITIALIZE, &params, deadline)?;
    }
    Ok(link)
}

/// The same before anybody is there.
fn introduce(opened: &mut Opened, epoch: Option<u64>) -> Result<()> {
    let params = InitializeParams { epoch, ..super::introduction() };
    let mut buffer = message(Vec::with_capacity(256));
    rpc::write_request(&mut buffer, 0, method::INITIALIZE, &params);
    opened.outbox.control(buffer);
    match opened.source.next() {
        Event::Message(text) => match rpc::parse(text) {
            Ok(Message::Response { outcome: Outcome::Error(error), .. }) => Err(error),
            _ => Ok(()),
        },
        Event::TooLong | Event::NotText(_) => Ok(()),
        Event::End(end) => {
            let why = opened.carrier.explain(&end);
            Err(loss(&end, Known { why, epoch, has_spoken: false }))
        }
    }
}

/// The failure of a connection that could not be made.
pub(super) fn unreachable(what: &dyn fmt::Display, why: &dyn fmt::Display) -> Error {
    let message = format!("cannot reach {what}: {why}");
    Error::new(ErrorKind::Unreachable, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_added_to_a_url_that_says_none() {
        for (url, expected) in [
            ("ws://h/exec", "ws://h/exec?epoch=7"),
            ("ws://h/exec?", "ws://h/exec?epoch=7"),
            ("ws://h/exec?token=a", "ws://h/exec?token=a&epoch=7"),
            ("ws://h/exec?epoch=5", "ws://h/exec?epoch=5"),
            ("ws://h/exec#x", "ws://h/exec?epoch=7#x"),
        ] {
            assert_eq!(with_epoch(url, Some(7)), expected);
            assert_eq!(with_epoch(url, None), url);
            assert_eq!(epoch_in(expected), Some(if expected.contains('5') { 5 } else { 7 }));
        }
    }
}
