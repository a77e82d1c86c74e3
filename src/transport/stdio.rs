//! A message per line, over stdin and stdout or any two streams.

use std::io::{self, BufRead};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use super::{End, Event, Patience, Silence, Source, TurnSource, Verdict, Wait, Watch};
use crate::metrics::Traffic;
use crate::sys::fd::read_into;
use crate::sys::poll::{Interest, Poll, Waker};

/// What is read at a time.
const READ_BUFFER: usize = 64 * 1024;
/// A buffer that a long line has made larger than this is given back after it.
const KEPT_BUFFER: usize = 1024 * 1024;

/// The receiving side: lines of at most `max_line` bytes.
pub(crate) struct LineSource {
    from: Arc<OwnedFd>,
    /// Wakes the wait when the server stops.
    stop: Arc<Waker>,
    silence: Silence,
    /// Called when it is time to let the far end hear something.
    nudge: Option<Box<dyn Fn() + Send>>,
    traffic: Option<Arc<Traffic>>,
    max_line: usize,
    /// What has been read and not yet taken: `read[taken..]`, without a line feed before
    /// `searched`.
    read: Vec<u8>,
    taken: usize,
    searched: usize,
    /// The line at hand is over the limit: what comes up to its end is discarded.
    discarding: bool,
    ended: bool,
}

impl LineSource {
    /// Reads from a descriptor until it ends, is silent for too long, or `stop` is woken.
    pub(crate) fn new(
        from: OwnedFd,
        stop: Arc<Waker>,
        patience: Patience,
        max_line: usize,
    ) -> Self {
        Self {
            from: Arc::new(from),
            stop,
            silence: Silence::new(patience),
            nudge: None,
            traffic: None,
            max_line,
            read: Vec::new(),
            taken: 0,
            searched: 0,
            discarding: false,
            ended: false,
        }
    }

    /// The same, after what has been read already.
    pub(crate) fn after(self, read: Vec<u8>) -> Self {
        Self { read, ..self }
    }

    /// The same, and calls `nudge` when it is time to let the far end hear something, whatever it
    /// sends itself.
    pub(crate) fn nudging(self, nudge: Box<dyn Fn() + Send>) -> Self {
        Self { nudge: Some(nudge), ..self }
    }

    /// The same, and counts what comes.
    pub(crate) fn counting(self, traffic: &Arc<Traffic>) -> Self {
        Self { traffic: Some(Arc::clone(traffic)), ..self }
    }

    /// The range of the next whole line in `read`, its line feed not included.
    fn take_line(&mut self) -> Option<std::ops::Range<usize>> {
        // (It looks at many bytes at a time. Skipping in memory cannot fail.)
        let mut rest = &self.read[self.searched..];
        let skipped = rest.skip_until(b'\n').unwrap_or(0);
        self.searched += skipped;
        if skipped == 0 || self.read[self.searched - 1] != b'\n' {
            return None;
        }
        let line = self.taken..self.searched - 1;
        self.taken = self.searched;
        Some(line)
    }

    /// Reads more, and waits for so long. `None` where nothing has come by then, 0 when there is no
    /// more.
    fn fill(&mut self, wait: Wait) -> Result<Option<usize>, End> {
        self.read.drain(..self.taken);
        self.searched -= self.taken;
        self.taken = 0;
        if self.read.is_empty() && self.read.capacity() > KEPT_BUFFER {
            self.read = Vec::new();
        }
        if matches!(wait, Wait::Not) {
            return Ok(None);
        }
        self.read.reserve(READ_BUFFER);
        loop {
            if !self.wait(wait)? {
                return Ok(None);
            }
            match read_into(self.from.as_fd(), &mut self.read, READ_BUFFER) {
                Ok(0) => return Ok(Some(0)),
                Ok(count) => {
                    self.silence.heard();
                    if let Some(traffic) = &self.traffic {
                        traffic.receive(count);
                    }
                    return Ok(Some(count));
                }
                // Whoever shares the descriptor may have made it non-blocking.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(End::Lost(error.to_string())),
            }
        }
    }

    fn nudge(&self) {
        if let Some(nudge) = &self.nudge {
            nudge();
        }
    }

    /// Waits until there is something to read; answers whether there is.
    fn wait(&mut self, wait: Wait) -> Result<bool, End> {
        let until = if let Wait::Until(deadline) = wait { Some(deadline) } else { None };
        loop {
            let mut poll = Poll::default();
            let from = poll.add(self.from.as_fd(), Interest::Read);
            let stop = poll.add(self.stop.as_fd(), Interest::Read);
            let since = if self.nudge.is_some() { self.silence.pinged } else { Instant::now() };
            let due = since + self.silence.patience.ping;
            poll.wait(Some(until.map_or(due, |until| until.min(due))))
                .map_err(|error| End::Lost(error.to_string()))?;
            if poll.ready(stop).any() {
                return Err(End::Stopped);
            }
            let now = Instant::now();
            let is_readable = poll.ready(from).any();
            // Also of a far end that is heard all the time.
            if self.nudge.is_some() && self.silence.ping_is_due(now) {
                self.nudge();
            }
            if !is_readable && self.silence.judge(now) == Verdict::GiveUp {
                return Err(End::Silent);
            }
            if is_readable || until.is_some_and(|until| now >= until) {
                return Ok(is_readable);
            }
        }
    }
}

impl Source for LineSource {
    fn next(&mut self) -> Event<'_> {
        // (Whoever waits for ever gets something.)
        self.next_within(Wait::Forever).unwrap_or(Event::End(End::Closed))
    }
}

impl TurnSource for LineSource {
    fn next_within(&mut self, wait: Wait) -> Option<Event<'_>> {
        loop {
            if let Some(mut line) = self.take_line() {
                if self.discarding {
                    self.discarding = false;
                    return Some(Event::TooLong);
                }
                if self.read[line.clone()].ends_with(b"\r") {
                    line.end -= 1;
                }
                if line.len() > self.max_line {
                    return Some(Event::TooLong);
                }
                if line.is_empty() {
                    continue;
                }
                return Some(match std::str::from_utf8(&self.read[line]) {
                    Ok(text) => Event::Message(text),
                    Err(error) => Event::NotText(error.to_string()),
                });
            }
            if self.ended {
                return Some(Event::End(End::Closed));
            }
            // One byte more than the limit may be a CR.
            if self.discarding || self.read.len() - self.taken > self.max_line.saturating_add(1) {
                self.discarding = true;
                self.read.clear();
                (self.taken, self.searched) = (0, 0);
            }
            match self.fill(wait) {
                Ok(Some(0)) => {
                    // A last line without its end is a line too.
                    self.ended = true;
                    if self.discarding || self.read.len() > self.taken {
                        self.read.push(b'\n');
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(end) => return Some(Event::End(end)),
            }
        }
    }

    fn watch(&self) -> Watch {
        let from = Arc::clone(&self.from);
        Watch { from, stop: Some(Arc::clone(&self.stop)), every: self.silence.patience.ping / 2 }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use super::*;

    /// What comes of the bytes: a message's text, `<long>`, `<not text>`.
    fn events(chunks: &[&[u8]], max_line: usize) -> Vec<String> {
        let (reader, mut writer) = io::pipe().unwrap();
        let stop = Arc::new(Waker::new().unwrap());
        let patience = Patience::new(Duration::from_secs(10));
        let mut source = LineSource::new(reader.into(), stop, patience, max_line);
        for chunk in chunks {
            writer.write_all(chunk).unwrap();
        }
        drop(writer);
        let mut events = Vec::new();
        loop {
            events.push(match source.next() {
                Event::Message(text) => text.to_owned(),
                Event::TooLong => "<long>".to_owned(),
                Event::NotText(_) => "<not text>".to_owned(),
                Event::End(end) => {
                    assert_eq!(end, End::Closed);
                    return events;
                }
            });
        }
    }

    /// What the far end says puts no nudge off.
    #[test]
    fn a_nudge_comes_as_often_as_it_should_whether_or_not_the_far_end_is_heard() {
        let (reader, mut writer) = io::pipe().unwrap();
        let stop = Arc::new(Waker::new().unwrap());
        let patience =
            Patience { timeout: Duration::from_secs(20), ping: Duration::from_millis(200) };
        let (nudged, nudges) = crossbeam_channel::bounded(100);
        let source = LineSource::new(reader.into(), Arc::clone(&stop), patience, 10);
        let mut source = source.nudging(Box::new(move || nudged.send(()).unwrap()));
        let read = move || while !matches!(source.next(), Event::End(_)) {};
        let start = Instant::now();
        let reading = std::thread::Builder::new().spawn(read).unwrap();
        // Now and then, then all the time, then not at all.
        for pause in [150, 150, 150, 10, 10, 10, 10, 10, 10, 10, 10, 1000] {
            writer.write_all(b"x\n").unwrap();
            std::thread::sleep(Duration::from_millis(pause));
        }
        drop(writer);
        reading.join().unwrap();
        let took = start.elapsed();
        let count = u32::try_from(nudges.try_iter().count()).unwrap();
        let most = u32::try_from(took.as_millis() / 200).unwrap();
        assert!(count <= most && count + 2 >= most.min(7), "{count} nudges in {took:?}");
    }

    #[test]
    fn lines_end_in_lf_or_crlf_and_empty_ones_are_skipped() {
        assert_eq!(events(&[b"a\r\n\n\r\nb\n", b"c"], 10), ["a", "b", "c"]);
    }

    #[test]
    fn a_line_over_the_limit_is_discarded_whole() {
        let long = [b'x'; 30];
        assert_eq!(events(&[&long, &long, b"\nok\n"], 10), ["<long>", "ok"]);
        assert_eq!(events(&[b"0123456789\r\n0123456789a\n"], 10), ["0123456789", "<long>"]);
        assert_eq!(events(&[&long], 10), ["<long>"]);
    }

    #[test]
    fn bytes_that_are_not_text_spoil_one_line() {
        assert_eq!(events(&[b"\xff\n{}\n"], 10), ["<not text>", "{}"]);
    }
}
