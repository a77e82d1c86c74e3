//! From the lines of one file to matches with their context.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use grep_searcher::{Searcher, Sink, SinkContext, SinkContextKind, SinkMatch};

use crate::protocol::{GrepMatch, WirePath};

/// A line is told up to so many bytes.
const LONGEST_TEXT: usize = 2000;

/// Takes the lines of a file, those that match and those around them, each once and in order, and
/// hands on matches that have all that comes before and after them.
pub(super) struct Lines<'a, F> {
    path: &'a Path,
    context: usize,
    /// Matches that may still begin.
    left: usize,
    /// The last lines, those that matched too.
    before: VecDeque<String>,
    /// The last of `before`; what does not follow on it has nothing before it.
    last: u64,
    /// Matches whose lines after them are still to come.
    open: VecDeque<GrepMatch>,
    /// One more has matched than is wanted.
    is_cut: bool,
    take: F,
}

impl<'a, F: FnMut(GrepMatch)> Lines<'a, F> {
    /// Of a file: at most so many matches.
    pub(super) fn new(path: &'a Path, context: usize, most: usize, take: F) -> Self {
        let (before, open) = (VecDeque::new(), VecDeque::new());
        Self { path, context, left: most, before, last: 0, open, is_cut: false, take }
    }

    /// The file is over. Answers whether more has matched than was handed on.
    pub(super) fn finish(mut self) -> bool {
        self.open.drain(..).for_each(&mut self.take);
        self.is_cut
    }

    /// A line, that matches or not. `false` if no more are wanted.
    fn line(&mut self, bytes: &[u8], number: u64, matches: bool) -> bool {
        if number != self.last + 1 {
            self.before.clear();
        }
        self.last = number;
        let (text, cut) = shown(bytes);
        self.close_complete();
        for open in &mut self.open {
            open.after.push(text.clone());
        }
        if matches && self.left > 0 {
            self.left -= 1;
            self.open.push_back(GrepMatch {
                path: WirePath::known(self.path.to_path_buf()),
                line: number,
                text: text.clone(),
                before: self.before.iter().cloned().collect(),
                after: Vec::new(),
                cut,
            });
        } else if matches {
            self.is_cut = true;
        }
        if self.context > 0 {
            if self.before.len() == self.context {
                self.before.pop_front();
            }
            self.before.push_back(text);
        }
        self.close_complete();
        !(self.is_cut && self.open.is_empty())
    }

    /// Hands on what has all lines after it.
    fn close_complete(&mut self) {
        while self.open.front().is_some_and(|open| open.after.len() >= self.context) {
            self.open.pop_front().into_iter().for_each(&mut self.take);
        }
    }

    /// Nothing follows on the lines before.
    fn interrupt(&mut self) {
        self.open.drain(..).for_each(&mut self.take);
        self.before.clear();
    }
}

impl<F: FnMut(GrepMatch)> Sink for Lines<'_, F> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        Ok(self.line(found.bytes(), found.line_number().unwrap_or(0), true))
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> io::Result<bool> {
        // (The searcher was asked for no line that is neither before nor after a match.)
        let is_near = !matches!(line.kind(), SinkContextKind::Other);
        Ok(!is_near || self.line(line.bytes(), line.line_number().unwrap_or(0), false))
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.interrupt();
        Ok(true)
    }
}

/// A line as it is told, and whether that is only its beginning.
fn shown(bytes: &[u8]) -> (String, bool) {
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    // What is replaced becomes longer, and never shorter.
    let mut text = String::from_utf8_lossy(&line[..line.len().min(LONGEST_TEXT + 4)]).into_owned();
    if text.len() <= LONGEST_TEXT && line.len() <= LONGEST_TEXT {
        return (text, false);
    }
    let end = (0..=LONGEST_TEXT).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or(0));
    (text, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_between_characters() {
        assert_eq!(shown(b"a\r\n"), ("a".to_owned(), false));
        assert_eq!(shown(&[b'a'; 2000]), ("a".repeat(2000), false));
        assert_eq!(shown(&[b'a'; 2001]), ("a".repeat(2000), true));
        let euros = "\u{20ac}".repeat(700);
        assert_eq!(shown(euros.as_bytes()), ("\u{20ac}".repeat(666), true));
        // Each wrong byte is told as three.
        assert_eq!(shown(&[0xff; 700]), ("\u{fffd}".repeat(666), true));
    }
}
