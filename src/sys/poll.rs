//! Waiting for descriptors, and waking such a wait from another thread.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::check;

/// What a [`Poll`] was told of one descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ready {
    /// There is something to read (or, on a socket, the end).
    pub(crate) readable: bool,
    /// There is room to write.
    pub(crate) writable: bool,
    /// The far side has gone; what it wrote before may still be there to read.
    pub(crate) hung_up: bool,
}

impl Ready {
    /// Whether anything at all was told.
    pub(crate) fn any(self) -> bool {
        self.readable || self.writable || self.hung_up
    }
}

/// What to wait for on one descriptor. A hang-up is always told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Data to read.
    Read,
    /// Room to write.
    Write,
    /// Data to read, and room to write.
    Both,
    /// Nothing but a hang-up.
    HangUp,
    /// The far end of a socket has finished sending, or hung up.
    PeerGone,
}

/// A set of descriptors to wait for, built anew for each wait.
#[derive(Default)]
pub(crate) struct Poll {
    set: Vec<libc::pollfd>,
}

impl Poll {
    /// Forgets all descriptors.
    pub(crate) fn clear(&mut self) {
        self.set.clear();
    }

    /// Adds a descriptor and answers its place, for [`Poll::ready`].
    pub(crate) fn add(&mut self, fd: BorrowedFd<'_>, interest: Interest) -> usize {
        let events = match interest {
            Interest::Read => libc::POLLIN,
            Interest::Write => libc::POLLOUT,
            Interest::Both => libc::POLLIN | libc::POLLOUT,
            Interest::HangUp => 0,
            #[cfg(target_os = "linux")]
            Interest::PeerGone => libc::POLLRDHUP,
            #[cfg(not(target_os = "linux"))]
            Interest::PeerGone => 0,
        };
        self.set.push(libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 });
        self.set.len() - 1
    }

    /// Waits until something is ready or `deadline` has come; an interrupted wait is a return
    /// with nothing ready.
    pub(crate) fn wait(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        let timeout = match deadline {
            None => -1,
            // Rounded up: a wait that ends a moment before its deadline would spin to it.
            Some(deadline) => deadline
                .saturating_duration_since(Instant::now())
                .as_nanos()
                .div_ceil(1_000_000)
                .try_into()
                .unwrap_or(libc::c_int::MAX),
        };
        let count = libc::nfds_t::try_from(self.set.len()).unwrap_or(libc::nfds_t::MAX);
        // SAFETY: the pointer and count are those of one vector of pollfd.
        match check(unsafe { libc::poll(self.set.as_mut_ptr(), count, timeout) }) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                self.set.iter_mut().for_each(|entry| entry.revents = 0);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// What the last wait told of the descriptor at `place`.
    pub(crate) fn ready(&self, place: usize) -> Ready {
        let told = self.set.get(place).map_or(0, |entry| entry.revents);
        Ready {
            readable: told & libc::POLLIN != 0,
            writable: told & libc::POLLOUT != 0,
            hung_up: told & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0,
        }
    }
}

/// Waits for one descriptor; `None` when `timeout` has passed first.
pub(crate) fn wait_for(
    fd: BorrowedFd<'_>,
    interest: Interest,
    timeout: Option<Duration>,
) -> io::Result<Option<Ready>> {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let mut poll = Poll::default();
    let place = poll.add(fd, interest);
    loop {
        poll.wait(deadline)?;
        let ready = poll.ready(place);
        if ready.any() {
            return Ok(Some(ready));
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok(None);
        }
    }
}

/// Wakes a thread that waits in [`Poll::wait`]. Wakes that come before the thread has looked
/// count as one, so they never fill up and never block.
pub(crate) struct Waker {
    /// A wake is on its way, so that others cost no system call.
    woken: AtomicBool,
    receive: OwnedFd,
    /// An eventfd is its own far end; elsewhere this is a pipe.
    send: Option<OwnedFd>,
}

impl Waker {
    /// A new, unwoken waker.
    ///
    /// # Errors
    /// `EMFILE` and `ENFILE`.
    #[cfg(target_os = "linux")]
    pub(crate) fn new() -> io::Result<Self> {
        use std::os::fd::FromRawFd;
        // SAFETY: eventfd takes two integers.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: the call made this descriptor and nobody else knows it.
        let receive = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { woken: AtomicBool::new(false), receive, send: None })
    }

    /// A new, unwoken waker.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn new() -> io::Result<Self> {
        let (receive, send) = super::fd::pipe()?;
        super::fd::set_nonblocking(receive.as_fd())?;
        super::fd::set_nonblocking(send.as_fd())?;
        Ok(Self { woken: AtomicBool::new(false), receive, send: Some(send) })
    }

    /// Wakes the waiting thread, or the next wait if there is none.
    pub(crate) fn wake(&self) {
        if self.woken.swap(true, Ordering::AcqRel) {
            return;
        }
        let one = 1_u64.to_ne_bytes();
        // A full pipe or counter means that a wake is already on its way.
        let _ = super::fd::write(self.send.as_ref().unwrap_or(&self.receive).as_fd(), &one);
    }

    /// Takes back the wakes so far. What they were for is to be looked at after this.
    pub(crate) fn reset(&self) {
        self.drain();
        // After the descriptor is empty: a wake from now on fills it again. And one that came just
        // before and did not has happened before what its thread did is looked at.
        self.woken.swap(false, Ordering::AcqRel);
    }

    fn drain(&self) {
        let mut drained = [0_u8; 64];
        let raw: RawFd = self.receive.as_raw_fd();
        loop {
            // SAFETY: the buffer is valid for writes of its length; the descriptor is open and
            // does not block.
            let got = unsafe { libc::read(raw, drained.as_mut_ptr().cast(), drained.len()) };
            // An eventfd gives all there is in 8 bytes; a pipe is empty once it gives less.
            if got < 64 {
                return;
            }
        }
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receive.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_wakes_are_one_and_are_gone_after_a_reset() {
        let waker = Waker::new().unwrap();
        for _ in 0..100_000 {
            waker.wake();
        }
        let timeout = Some(Duration::from_secs(5));
        assert!(wait_for(waker.as_fd(), Interest::Read, timeout).unwrap().is_some());
        waker.reset();
        let at_once = Some(Duration::ZERO);
        assert!(wait_for(waker.as_fd(), Interest::Read, at_once).unwrap().is_none());
    }
}
