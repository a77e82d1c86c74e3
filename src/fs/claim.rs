//! Who may change a file now. Between looking at a file's version and replacing it, nobody else
//! of this server may change it; so whoever changes one claims it first.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::sync::{Condvar, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{Stat, fstat};

use super::Place;
use super::stat::Identity;
use crate::gate;
use crate::sync::lock;

/// How often who waits looks whether a newer host has taken over: it is not to wait for one whose
/// file system hangs.
const GLANCE: Duration = Duration::from_millis(100);

/// What is claimed, for the whole program: connections share the files. (Whoever writes without
/// this program is not kept out: no lock on Linux could do that.)
static CLAIMED: LazyLock<Mutex<HashSet<Claimed>>> = LazyLock::new(Mutex::default);
static RELEASED: Condvar = Condvar::new();

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Claimed {
    /// What stands under a name.
    Name { directory: (u64, u64), name: OsString },
    /// The content of a file, whatever its names are.
    Content { device: u64, inode: u64 },
}

impl Claimed {
    fn name(place: &Place) -> io::Result<Self> {
        let Identity { device, inode, .. } = Identity::of(&fstat(&place.directory)?);
        Ok(Self::Name { directory: (device, inode), name: place.name.clone() })
    }
}

/// Keeps others of this server from the same file while it lives. Whoever needs both claims the
/// name first.
#[must_use]
pub(super) struct Claim(Claimed);

impl Claim {
    /// Of whatever stands at a place.
    pub(super) fn of_name(place: &Place) -> io::Result<Self> {
        Claimed::name(place).and_then(Self::take)
    }

    /// Of two places at once, which may be one.
    pub(super) fn of_names(one: &Place, other: &Place) -> io::Result<(Self, Option<Self>)> {
        let (one, other) = (Claimed::name(one)?, Claimed::name(other)?);
        // In one order, or two that claim the same two could wait for each other.
        let (first, second) = if one <= other { (one, other) } else { (other, one) };
        let second = (first != second).then_some(second);
        Ok((Self::take(first)?, second.map(Self::take).transpose()?))
    }

    /// Of a file's content, which may have several names.
    pub(super) fn of_content(stat: &Stat) -> io::Result<Self> {
        let Identity { device, inode, .. } = Identity::of(stat);
        Self::take(Claimed::Content { device, inode })
    }

    fn take(wanted: Claimed) -> io::Result<Self> {
        let mut claimed = lock(&CLAIMED);
        while !claimed.insert(wanted.clone()) {
            gate::is_open()?;
            // The condition variable hands the lock back while it waits.
            let waited = RELEASED.wait_timeout(claimed, GLANCE);
            claimed = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(Self(wanted))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        lock(&CLAIMED).remove(&self.0);
        RELEASED.notify_all();
    }
}
