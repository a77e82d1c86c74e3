//! What is said with a script on the far side. Its answers are lines that begin with a marker which
//! nobody can foresee; all else is noise of start files, banners and background jobs, and is dropped.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::ask::Desk;
use super::channel::Channel;
use crate::error::{Error, ErrorKind, Result};
use crate::sys;
use crate::sys::fd::{read_into, set_nonblocking, write};
use crate::sys::poll::{Interest, Poll};

const READ: usize = 16 * 1024;
/// Noise without an end of line is not kept beyond this.
const LONGEST: usize = 256 * 1024;
/// How much of the noise is kept, to be told where nothing else comes.
const NOISE: usize = 400;
/// How long ssh may take to end after its stdout has.
const EXIT: Duration = Duration::from_secs(2);

/// A marker of its own for each session.
pub(super) fn marker() -> String {
    format!("ta-{:016x}{:016x}", sys::host::random_number(), sys::host::random_number())
}

/// A script's session.
pub(super) struct Dialogue {
    pub(super) channel: Channel,
    marker: String,
    read: Vec<u8>,
    noise: String,
}

/// What has come of waiting for an answer.
pub(super) enum Heard {
    /// A line: its first word, and the rest.
    Line(String, String),
    /// The session has ended.
    End,
}

impl Dialogue {
    pub(super) fn new(channel: Channel, marker: String) -> Self {
        // As the server announces itself, on both streams.
        channel.carried.said.pass_on_after(&format!("{marker} begin"));
        Self { channel, marker, read: Vec::new(), noise: String::new() }
    }

    /// Begins with a script of remote/, whose variables come first.
    pub(super) fn script(
        channel: Channel,
        script: &str,
        variables: &[(&str, &str)],
    ) -> Result<Self> {
        let mut dialogue = Self::new(channel, marker());
        let mut text = format!("m={}\n", dialogue.marker);
        for (name, value) in variables {
            text.push_str(&format!("{name}={}\n", quoted(value)));
        }
        text.push_str(script);
        dialogue.tell(&text)?;
        Ok(dialogue)
    }

    /// Says something short.
    pub(super) fn tell(&mut self, text: &str) -> Result<()> {
        // A pipe takes that at once; where nobody reads it any more, the end says why.
        let Some(to) = &self.channel.stdin else { return Ok(()) };
        match write(to.as_fd(), text.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Error::io(&error, "cannot write to ssh"))
            }
            _ => Ok(()),
        }
    }

    /// Waits for the next answer, `patience` at most; while a person is asked no time goes by.
    pub(super) fn hear(&mut self, patience: Duration, desk: Option<&Desk>) -> Result<Heard> {
        let mut deadline = Instant::now() + patience;
        loop {
            while let Some(line) = self.take_line() {
                if let Some(answer) = self.answer(&line) {
                    return Ok(answer);
                }
            }
            let mut poll = Poll::default();
            let stdout = poll.add(self.channel.stdout.as_fd(), Interest::Read);
            if let Some(desk) = desk {
                poll.add(desk.told().as_fd(), Interest::Read);
            }
            let soon = Instant::now() + Duration::from_millis(500);
            poll.wait(Some(deadline.min(soon)))
                .map_err(|error| Error::io(&error, "cannot wait"))?;
            if let Some(over) = desk.and_then(Desk::over) {
                self.channel.carried.kill();
                return Err(over);
            }
            if poll.ready(stdout).any() {
                self.read.reserve(READ);
                match read_into(self.channel.stdout.as_fd(), &mut self.read, READ) {
                    Ok(0) | Err(_) => return Ok(Heard::End),
                    Ok(_) => {}
                }
                if self.read.len() > LONGEST {
                    self.read.clear();
                }
            }
            if desk.is_some_and(Desk::is_asking) {
                deadline = Instant::now() + patience;
            }
            if Instant::now() >= deadline {
                let message = format!("the host has not answered within {} s", patience.as_secs());
                return Err(Error::new(ErrorKind::TimedOut, message));
            }
        }
    }

    fn take_line(&mut self) -> Option<String> {
        let end = self.read.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.read.drain(..=end).collect();
        let text = String::from_utf8_lossy(&line);
        Some(text.trim_matches(|c: char| c == '\r' || c == '\n').to_owned())
    }

    fn answer(&mut self, line: &str) -> Option<Heard> {
        let Some(answer) = line.strip_prefix(&self.marker) else {
            if self.noise.len() < NOISE && !line.trim().is_empty() {
                self.noise.push_str(line.trim());
                self.noise.push('\n');
            }
            return None;
        };
        let (word, rest) = answer.trim_start().split_once(' ').unwrap_or((answer.trim(), ""));
        Some(Heard::Line(word.to_owned(), rest.to_owned()))
    }

    /// Sends all of it and closes stdin. It is given up where nothing is taken for `patience`, and
    /// stops where the far side has something to say.
    pub(super) fn send(
        &mut self,
        bytes: &[u8],
        patience: Duration,
        tell: &dyn Fn(usize),
    ) -> Result<()> {
        let failed = |error: io::Error| Error::io(&error, "cannot write to ssh");
        let Some(to) = self.channel.stdin.take() else { return Ok(()) };
        set_nonblocking(to.as_fd()).map_err(failed)?;
        let mut sent = 0;
        while sent < bytes.len() {
            let mut poll = Poll::default();
            let stdin = poll.add(to.as_fd(), Interest::Write);
            let stdout = poll.add(self.channel.stdout.as_fd(), Interest::Read);
            let deadline = Instant::now() + patience;
            poll.wait(Some(deadline)).map_err(failed)?;
            if poll.ready(stdout).any() || poll.ready(stdin).hung_up {
                break;
            }
            if poll.ready(stdin).any() {
                let end = bytes.len().min(sent + READ * 4);
                match write(to.as_fd(), &bytes[sent..end]) {
                    Ok(count) => sent += count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => break,
                }
                tell(sent);
            } else if Instant::now() >= deadline {
                self.channel.carried.kill();
                let message = format!("the upload has stood still for {} s", patience.as_secs());
                return Err(Error::new(ErrorKind::TimedOut, message));
            }
        }
        Ok(())
    }

    /// What the session's end means where an answer should have come: of ssh itself, or of what the
    /// login shell said.
    pub(super) fn explain(&self, host: &str) -> Error {
        let code = self.channel.carried.code(EXIT);
        let mut lines = self.channel.carried.said.lines();
        if code == Some(255) || (code.is_none() && !lines.is_empty()) {
            return failure(host, &lines);
        }
        lines.extend(self.noise.lines().map(str::to_owned));
        let said = if lines.is_empty() { "nothing".to_owned() } else { lines.join("; ") };
        let message = match code {
            Some(code) => format!(
                "{host} has no shell to work in: the login shell there ended with exit code {code} \
                 and said: {said}"
            ),
            None => format!("the ssh connection to {host} was lost; said: {said}"),
        };
        let kind = if code.is_some() { ErrorKind::Refused } else { ErrorKind::Unreachable };
        Error::new(kind, message)
    }

    /// What has been read beyond the last answer.
    pub(super) fn into_parts(self) -> (Channel, Vec<u8>) {
        (self.channel, self.read)
    }
}

/// What ssh's own words mean.
pub(super) fn failure(host: &str, lines: &[String]) -> Error {
    let all = lines.join("\n");
    let has = |text: &str| all.contains(text);
    if has("IDENTIFICATION HAS CHANGED") || has("HOST KEY HAS CHANGED") {
        let offending = lines.iter().find(|line| line.starts_with("Offending "));
        let at = offending.map(|line| format!(" ({line})")).unwrap_or_default();
        let message = format!(
            "{host} is not the host that it was: its key has changed{at}. If that is right, remove the \
             old key with ssh-keygen -R"
        );
        return Error::new(ErrorKind::Refused, message);
    }
    let refusals = ["Permission denied", "verification failed", "Too many authentication"];
    let is_refusal = refusals.iter().any(|text| has(text));
    let kind = if is_refusal { ErrorKind::Refused } else { ErrorKind::Unreachable };
    let from = lines.len().saturating_sub(3);
    let why = lines[from..].join("; ");
    let why = if why.is_empty() { "ssh has ended without a word" } else { &why };
    Error::new(kind, format!("cannot log in to {host}: {why}"))
}

/// A word for sh.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_key_and_a_refusal_are_refused_and_all_else_may_pass() {
        let of = |lines: &[&str]| {
            failure("h", &lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>())
        };
        let changed =
            of(&["@@@", "WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!", "Offending k"]);
        assert_eq!(changed.kind(), &ErrorKind::Refused);
        assert!(changed.message().contains("(Offending k)"), "{changed}");
        assert_eq!(of(&["u@h: Permission denied (publickey)."]).kind(), &ErrorKind::Refused);
        let refused = of(&["ssh: connect to host h port 22: Connection refused"]);
        assert_eq!(refused.kind(), &ErrorKind::Unreachable);
        assert_eq!(quoted("a'b"), "'a'\\''b'");
    }
}
