//! The bytes between an agent and its server.
//!
//! The thing to know: an answer of `ta` to the server must stand between two messages of the agent, so
//! one thread writes to the server, and looks where a line ends.

use std::collections::VecDeque;
use std::io::{self, Read, Write as _};
use std::os::fd::AsFd;

use crossbeam_channel::{Receiver, Sender, never, select};
use serde_json::json;

use super::Written;
use crate::buffers;
use crate::environment::{OutputReader, StdinWriter};
use crate::error::Error;
use crate::protocol::MAX_CHUNK;
use crate::protocol::rpc::{self, Message};
use crate::sys;
use crate::sys::poll::{Interest, wait_for};

/// Pieces on their way to a server that does not read; the agent waits then. So many answers of ta's
/// own, too; a server that asks for more of them before it reads one gets no more.
pub(super) const WAITING: usize = 16;
/// A request for roots is shorter; of a longer line nothing is held back.
const LONGEST: usize = 16 * 1024;

/// Writes to the server what the agent says, until that has no more, and whole lines of ta's own.
pub(super) fn feed(mut to: StdinWriter, from: &Receiver<Vec<u8>>, own: &Receiver<Vec<u8>>) {
    // (A server that has ended is told of by its exit.)
    let _ = write_all(&mut to, from, own);
    let _ = to.finish();
    while from.recv().is_ok() {}
}

fn write_all(
    to: &mut StdinWriter,
    from: &Receiver<Vec<u8>>,
    own: &Receiver<Vec<u8>>,
) -> io::Result<()> {
    let mut own = own.clone();
    let mut held: VecDeque<Vec<u8>> = VecDeque::new();
    let mut in_line = false;
    loop {
        select! {
            recv(from) -> bytes => {
                let Ok(bytes) = bytes else { return Ok(()) };
                match split_line(&bytes).filter(|_| !held.is_empty()) {
                    // The first place between two messages.
                    Some((line, rest)) => {
                        to.write_all(line)?;
                        held.drain(..).try_for_each(|line| to.write_all(&line))?;
                        to.write_all(rest)?;
                    }
                    None => to.write_all(&bytes)?,
                }
                in_line = bytes.last().map_or(in_line, |last| *last != b'\n');
                buffers::give(bytes);
            }
            recv(own) -> line => match line {
                Ok(line) if in_line => held.push_back(line),
                Ok(line) => to.write_all(&line)?,
                // The server has ended its stdout; it may read on.
                Err(_) => own = never(),
            },
        }
    }
}

fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let feed = bytes.iter().position(|byte| *byte == b'\n')?;
    bytes.split_at_checked(feed + 1)
}

/// Reads our stdin to its end.
pub(super) fn read_stdin(to: &Sender<Vec<u8>>) {
    let Ok(stdin) = sys::fd::duplicate_standard(0) else { return };
    loop {
        let mut bytes = buffers::take();
        match sys::fd::read_into(stdin.as_fd(), &mut bytes, MAX_CHUNK) {
            Ok(0) => return,
            Ok(_) => {
                if to.send(bytes).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if wait_for(stdin.as_fd(), Interest::Read, None).is_err() {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

/// Passes the server's stdout on, but for what `ta` answers itself.
pub(super) fn pass_on(mut from: OutputReader, to: &Sender<Vec<u8>>, root: &str) -> Written {
    let mut filter = Filter::default();
    let mut buffer = vec![0; MAX_CHUNK];
    loop {
        let count = match from.read(&mut buffer) {
            // A connection that was lost is told of by the exit.
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        let (pass, asked) = filter.take(&buffer[..count]);
        for id in asked {
            // What it writes is passed on, whether or not it reads.
            let _ = to.try_send(roots(&id, root));
        }
        if let Err(written) = write(1, &pass) {
            return written;
        }
    }
    match write(1, &filter.rest()) {
        Ok(()) => Written::All,
        Err(written) => written,
    }
}

/// Passes the server's stderr on.
pub(super) fn pass_stderr(mut from: OutputReader) {
    let mut buffer = vec![0; MAX_CHUNK];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        // One that nobody reads any more is dropped.
        if write(2, &buffer[..count]).is_err() {
            return;
        }
    }
}

fn write(number: i32, mut bytes: &[u8]) -> Result<(), Written> {
    let what = if number == 1 { "cannot write to stdout" } else { "cannot write to stderr" };
    let failed = |error: &io::Error| match error.kind() {
        io::ErrorKind::BrokenPipe => Written::Unread,
        _ => Written::Failed(Error::io(error, what)),
    };
    let (stdout, stderr) = (io::stdout(), io::stderr());
    let to = if number == 1 { stdout.as_fd() } else { stderr.as_fd() };
    while !bytes.is_empty() {
        match sys::fd::write(to, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait_for(to, Interest::Write, None).map_err(|error| failed(&error))?;
            }
            Err(error) => return Err(failed(&error)),
        }
    }
    Ok(())
}

fn roots(id: &str, root: &str) -> Vec<u8> {
    let result = json!({"roots": [{"uri": root, "name": "environment"}]});
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n").into_bytes()
}

/// Takes requests for roots out of what a server says.
#[derive(Default)]
struct Filter {
    /// The beginning of a line that may be one.
    held: Vec<u8>,
    /// The line at hand is none, and passes as it comes.
    passing: bool,
}

impl Filter {
    /// What is to be passed on, and the ids of the requests.
    fn take(&mut self, bytes: &[u8]) -> (Vec<u8>, Vec<String>) {
        let (mut pass, mut asked) = (Vec::with_capacity(bytes.len()), Vec::new());
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let has_ended = piece.ends_with(b"\n");
            if self.passing {
                pass.extend_from_slice(piece);
                self.passing = !has_ended;
                continue;
            }
            self.held.extend_from_slice(piece);
            if has_ended {
                match asks_for_roots(&self.held) {
                    Some(id) => asked.push(id),
                    None => pass.append(&mut self.held),
                }
                self.held.clear();
            } else if self.held.len() > LONGEST {
                pass.append(&mut self.held);
                self.passing = true;
            }
        }
        (pass, asked)
    }

    /// The last line, if it has no end.
    fn rest(self) -> Vec<u8> {
        self.held
    }
}

/// The id of the request, as it is written.
fn asks_for_roots(line: &[u8]) -> Option<String> {
    const METHOD: &[u8] = b"roots";
    if line.len() > LONGEST || !line.windows(METHOD.len()).any(|part| part == METHOD) {
        return None;
    }
    match rpc::parse(std::str::from_utf8(line).ok()?) {
        Ok(Message::Request { id, method, .. }) if method == "roots/list" => {
            Some(id.get().to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtered(pieces: &[&[u8]]) -> (String, Vec<String>) {
        let mut filter = Filter::default();
        let (mut pass, mut asked) = (Vec::new(), Vec::new());
        for piece in pieces {
            let (more, ids) = filter.take(piece);
            pass.extend(more);
            asked.extend(ids);
        }
        pass.extend(filter.rest());
        (String::from_utf8(pass).unwrap(), asked)
    }

    #[test]
    fn only_requests_for_roots_are_taken_out_wherever_they_are_cut() {
        let text = concat!(
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"text\":\"roots/list\"}}\n",
            "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"roots/list\"}\n",
            "no JSON: roots/list\n\r\n",
            "{\"method\":\"roots\\/list\",\"id\":7,\"jsonrpc\":\"2.0\"}\r\n",
            "{\"jsonrpc\":\"2.0\",\"method\":\"roots/list\"}\n",
            "the last"
        );
        let kept: Vec<_> = text.split_inclusive('\n').collect();
        let expected = [kept[0], kept[2], kept[3], kept[5], kept[6]].concat();
        for at in 0..text.len() {
            let (pass, asked) = filtered(&[&text.as_bytes()[..at], &text.as_bytes()[at..]]);
            assert_eq!(pass, expected, "{at}");
            assert_eq!(asked, ["\"a\"", "7"], "{at}");
        }
    }

    #[test]
    fn long_lines_pass_as_they_come() {
        let long = vec![b'x'; LONGEST + 1];
        let mut filter = Filter::default();
        assert_eq!(filter.take(&long).0.len(), LONGEST + 1);
        assert_eq!(filter.take(b"more").0, b"more");
        assert_eq!(filter.take(b"\nnext").0, b"\n");
        assert_eq!(filter.rest(), b"next");
    }
}
