//! From a host's name to its addresses.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::Counts;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::lock;
use crate::sys::poll::Waker;
use crate::threads;

/// The most look-ups of one host at a time, so that one cannot use up those of all. One whose
/// connection has been given up goes on until the resolver gives up: nobody can stop it.
const MOST_OF_ONE: usize = 64;
/// The most of the whole program, those included whose host has gone.
const MOST_RUNNING: usize = 1024;
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// The addresses that are known without asking anybody: of an address itself, and of localhost,
/// which nobody else should be asked for (RFC 6761) and which is not in the /etc/hosts of a
/// machine that has none.
pub(super) fn known(host: &str, port: u16) -> Option<Vec<SocketAddr>> {
    // A fuzzer speaks to nobody.
    let host = if cfg!(fuzzing) { "localhost" } else { host };
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Some(vec![SocketAddr::new(address, port)]);
    }
    // With a zone, which only an address with a port may have here.
    if let Ok(address) = format!("[{bare}]:{port}").parse::<SocketAddrV6>() {
        return Some(vec![address.into()]);
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    let last = name.rsplit('.').next().unwrap_or(name);
    last.eq_ignore_ascii_case("localhost").then(|| {
        let loopback = [Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()];
        loopback.map(|address: IpAddr| SocketAddr::new(address, port)).to_vec()
    })
}

/// A question to the resolver, asked on a thread of its own: it may take as long as it likes.
pub(super) struct Lookup(Arc<Mutex<Option<io::Result<Vec<SocketAddr>>>>>);

impl Lookup {
    /// Asks. `waker` is woken when the answer is there.
    ///
    /// # Errors
    /// `Limit`, and `EAGAIN` where there can be no more threads.
    pub(super) fn start(
        host: &str,
        port: u16,
        counts: &Arc<Counts>,
        waker: &Arc<Waker>,
    ) -> Result<Self> {
        let what = || format!("cannot look up {host:?}");
        let Some(running) = Running::new(counts) else {
            let message = format!("{}: too many other look-ups are running", what());
            return Err(Error::new(ErrorKind::Limit, message));
        };
        let answer = Arc::new(Mutex::new(None));
        let (asked, waker) = (Arc::clone(&answer), Arc::clone(waker));
        let (host, port) = (host.to_owned(), port);
        let look_up = move || {
            let addresses = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
            // Before the answer is seen: what follows it may look up a name itself.
            drop(running);
            *lock(&asked) = Some(addresses);
            waker.wake();
        };
        threads::run(look_up).map_err(|error| Error::io(&error, what()))?;
        Ok(Self(answer))
    }

    /// The answer, once it is there; it can be taken once.
    pub(super) fn take(&self) -> Option<io::Result<Vec<SocketAddr>>> {
        lock(&self.0).take()
    }
}

/// One of [`MOST_RUNNING`], and one of its host's.
struct Running(Arc<Counts>);

impl Running {
    fn new(counts: &Arc<Counts>) -> Option<Self> {
        claim(&counts.lookups, MOST_OF_ONE)?;
        // (Dropped, it gives both back; so both have to be claimed first.)
        if claim(&RUNNING, MOST_RUNNING).is_none() {
            counts.lookups.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Self(Arc::clone(counts)))
    }
}

fn claim(count: &AtomicUsize, most: usize) -> Option<()> {
    let claim = |running: usize| (running < most).then_some(running + 1);
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim).ok().map(drop)
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.lookups.fetch_sub(1, Ordering::Relaxed);
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The order in which addresses are tried: the families take turns, beginning with that of the
/// first (RFC 8305, section 4), so that one whole family that leads nowhere costs one attempt.
pub(super) fn interleaved(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let Some(first) = addresses.first().copied() else { return addresses };
    let mut unique = Vec::new();
    for address in addresses {
        if !unique.contains(&address) {
            unique.push(address);
        }
    }
    let (ours, theirs): (Vec<_>, Vec<_>) =
        unique.into_iter().partition(|address| address.is_ipv6() == first.is_ipv6());
    let (mut ours, mut theirs) = (ours.into_iter(), theirs.into_iter());
    let mut all = Vec::new();
    loop {
        let pair = [ours.next(), theirs.next()];
        if pair == [None, None] {
            return all;
        }
        all.extend(pair.into_iter().flatten());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(addresses: &[SocketAddr]) -> String {
        let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        addresses.join(" ")
    }

    #[test]
    fn addresses_and_localhost_need_no_resolver() {
        for (host, addresses) in [
            ("127.0.0.1", "127.0.0.1:80"),
            ("::1", "[::1]:80"),
            ("[::1]", "[::1]:80"),
            ("fe80::1%7", "[fe80::1%7]:80"),
            ("[fe80::1%7]", "[fe80::1%7]:80"),
            ("localhost", "[::1]:80 127.0.0.1:80"),
            ("LocalHost.", "[::1]:80 127.0.0.1:80"),
            ("a.localhost", "[::1]:80 127.0.0.1:80"),
        ] {
            assert_eq!(known(host, 80).as_deref().map(shown).as_deref(), Some(addresses), "{host}");
        }
        for host in ["example.org", "notlocalhost", "localhost.example", "127.1", ""] {
            assert_eq!(known(host, 80), None, "{host}");
        }
    }

    #[test]
    fn families_take_turns_and_the_first_begins() {
        let parse = |text: &str| text.split(' ').map(|one| one.parse().unwrap()).collect();
        for (given, tried) in [
            ("[::1]:1 [::2]:1 1.1.1.1:1", "[::1]:1 1.1.1.1:1 [::2]:1"),
            ("1.1.1.1:1 1.1.1.1:1 2.2.2.2:1 [::1]:1", "1.1.1.1:1 [::1]:1 2.2.2.2:1"),
            ("1.1.1.1:1", "1.1.1.1:1"),
        ] {
            assert_eq!(shown(&interleaved(parse(given))), tried);
        }
        assert_eq!(interleaved(Vec::new()), []);
    }
}
