//! `read`: a text file from some line on, or an image.

use std::num::NonZeroU32;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::truncate::{self, MAX_BYTES, MAX_LINES};
use super::{Call, Content, Failure, Outcome, Tools, arguments, image, path};
use crate::environment::part;
use crate::protocol::{ReadFileParams, ReadFileResult, WirePath};

/// The largest image that is shown: in base64 it fits into a message of 10 MB, the most that clients
/// take, and models take no larger ones.
const LARGEST_IMAGE: u64 = 5 * 1024 * 1024;
const BOM: &[u8] = b"\xef\xbb\xbf";

#[derive(Deserialize)]
struct Args {
    path: String,
    #[serde(default, deserialize_with = "arguments::count")]
    offset: Option<NonZeroU32>,
    #[serde(default, deserialize_with = "arguments::count")]
    limit: Option<NonZeroU32>,
}

pub(super) fn run(tools: &Tools, raw: Option<&RawValue>, call: &Call) -> Result<Outcome, Failure> {
    let args: Args = arguments::read(raw)?;
    let path = tools.path(&args.path)?;
    let mut file = File { tools, path, length: part(&**tools.environment())? as u64, at: 0 };
    let first = file.next()?;
    if let Some(mime_type) = image::mime_type(&first.data_base64.0) {
        return shown_image(&mut file, first, mime_type, call);
    }
    let from = args.offset.map_or(1, |offset| u64::from(offset.get()));
    let most = args.limit.map_or(MAX_LINES, |limit| limit.get() as usize).min(MAX_LINES);
    let mut lines = Lines::new(from, most);
    lines.take(first.data_base64.0.strip_prefix(BOM).unwrap_or(&first.data_base64.0));
    // What one answer holds is counted, what is larger is not read for that.
    let total = first.eof.then(|| lines_of(&first.data_base64.0));
    let (mut eof, mut size) = (first.eof, first.size);
    while !eof && !lines.is_full {
        if call.cancel.is_cancelled() {
            return Err(Failure::aborted());
        }
        let next = file.next()?;
        lines.take(&next.data_base64.0);
        (eof, size) = (next.eof, next.size);
    }
    lines.shown(&path::shown(&file.path), eof, Whole { total, size: size.max(file.at) })
}

/// A file that is read in parts.
struct File<'a> {
    tools: &'a Tools,
    path: WirePath,
    length: u64,
    at: u64,
}

impl File<'_> {
    fn next(&mut self) -> Result<ReadFileResult, Failure> {
        let (path, length) = (self.path.clone(), Some(self.length));
        let offset = (self.at > 0).then_some(self.at);
        let read = self.tools.environment().read_file(&ReadFileParams { path, offset, length })?;
        self.at += read.data_base64.0.len() as u64;
        // (One that says that there is more and gives none would be asked for ever.)
        let eof = read.eof || read.data_base64.0.is_empty();
        Ok(ReadFileResult { eof, ..read })
    }
}

fn shown_image(
    file: &mut File<'_>,
    first: ReadFileResult,
    mime_type: &'static str,
    call: &Call,
) -> Result<Outcome, Failure> {
    let (mut bytes, mut eof) = (first.data_base64.0, first.eof);
    let name = path::shown(&file.path);
    loop {
        let size = first.size.max(bytes.len() as u64);
        if size > LARGEST_IMAGE {
            let (size, most) = (truncate::size(size), truncate::size(LARGEST_IMAGE));
            let text =
                format!("{name} is an image of {size}, larger than what can be shown ({most})");
            return Err(Failure(text));
        }
        if eof {
            break;
        }
        if call.cancel.is_cancelled() {
            return Err(Failure::aborted());
        }
        let next = file.next()?;
        bytes.extend_from_slice(&next.data_base64.0);
        eof = next.eof;
    }
    let text = format!("{name}: {mime_type}, {}", truncate::size(bytes.len() as u64));
    let content = vec![Content::Text(text), Content::Image(bytes, mime_type)];
    Ok(Outcome { content, details: Some(json!({"mimeType": mime_type})), is_error: false })
}

/// What is known of a whole file.
#[derive(Clone, Copy)]
struct Whole {
    /// Its lines, where that is known.
    total: Option<u64>,
    /// Its bytes.
    size: u64,
}

/// Takes a file's bytes, and keeps the lines that are wanted.
struct Lines {
    /// The first line that is wanted.
    from: u64,
    most: usize,
    /// Lines that have ended.
    ended: u64,
    kept: Vec<u8>,
    kept_lines: usize,
    /// More than that is not wanted; there is more.
    is_full: bool,
    /// Bytes came after the last line that has ended.
    in_line: bool,
}

impl Lines {
    /// One byte more than is shown, and room for what one character may have.
    const MOST_KEPT: usize = MAX_BYTES + 4;

    fn new(from: u64, most: usize) -> Self {
        Self {
            from,
            most,
            ended: 0,
            kept: Vec::new(),
            kept_lines: 0,
            is_full: false,
            in_line: false,
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.kept_lines >= self.most || self.kept.len() >= Self::MOST_KEPT {
                self.is_full = true;
                return;
            }
            let has_ended = line.ends_with(b"\n");
            if self.ended + 1 >= self.from {
                let room = Self::MOST_KEPT - self.kept.len();
                self.kept.extend_from_slice(&line[..line.len().min(room)]);
                self.kept_lines += usize::from(has_ended);
            }
            self.ended += u64::from(has_ended);
            self.in_line = !has_ended;
        }
    }

    fn shown(&self, name: &str, eof: bool, whole: Whole) -> Result<Outcome, Failure> {
        let all = self.ended + u64::from(self.in_line);
        if self.from > all.max(1) {
            let lines = if all == 1 { "line" } else { "lines" };
            return Err(Failure(format!("{name} has {all} {lines}, none at offset {}", self.from)));
        }
        let text = String::from_utf8_lossy(&self.kept);
        if text.is_empty() {
            return Ok(Outcome::text("[the file is empty]"));
        }
        let part = truncate::head(&text, self.most);
        let last = self.from + part.lines as u64 - 1;
        let is_all = eof && !self.is_full && part.text.len() == text.len();
        if is_all {
            return Ok(Outcome::text(part.text));
        }
        let next = last + 1;
        let of = match whole.total {
            Some(total) => format!("of {total}"),
            None => format!("of a file of {}", truncate::size(whole.size)),
        };
        let more = whole.total.is_none_or(|total| total > last);
        let go_on = if more { format!("; go on with offset={next}") } else { String::new() };
        let note = if part.is_of_a_line {
            let most = truncate::size(MAX_BYTES as u64);
            format!("line {last} {of} is longer than {most}, this is its beginning{go_on}")
        } else {
            format!("lines {}-{last} {of}{go_on}", self.from)
        };
        let text = part.text.strip_suffix('\n').unwrap_or(part.text);
        let mut outcome = Outcome::text(format!("{text}\n\n[{note}]"));
        outcome.details = Some(json!({
            "firstLine": self.from, "lastLine": last, "totalLines": whole.total,
            "nextOffset": more.then_some(next),
        }));
        Ok(outcome)
    }
}

fn lines_of(bytes: &[u8]) -> u64 {
    let feeds = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
    feeds + u64::from(bytes.last().is_some_and(|byte| *byte != b'\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(pieces: &[&[u8]], from: u64, most: usize) -> String {
        let mut lines = Lines::new(from, most);
        pieces.iter().for_each(|piece| lines.take(piece));
        let all = pieces.concat();
        let whole = Whole { total: Some(lines_of(&all)), size: all.len() as u64 };
        match lines.shown("f", true, whole) {
            Ok(outcome) => outcome.all_text(),
            Err(Failure(text)) => format!("failed: {text}"),
        }
    }

    #[test]
    fn lines_are_those_of_the_file_wherever_it_is_cut() {
        let text = b"one\ntwo\n\nfour";
        for at in 0..=text.len() {
            let pieces = [&text[..at], &text[at..]];
            assert_eq!(shown(&pieces, 1, 2000), "one\ntwo\n\nfour");
            assert_eq!(shown(&pieces, 2, 2), "two\n\n\n[lines 2-3 of 4; go on with offset=4]");
            assert_eq!(shown(&pieces, 4, 2000), "four");
            assert_eq!(shown(&pieces, 5, 1), "failed: f has 4 lines, none at offset 5");
        }
        assert_eq!(shown(&[b""], 1, 2000), "[the file is empty]");
        assert_eq!(shown(&[b"a\n"], 2, 2000), "failed: f has 1 line, none at offset 2");
        assert_eq!(shown(&[b"a\n"], 1, 1), "a\n");
        assert_eq!(shown(&[b"a\nb"], 1, 1), "a\n\n[lines 1-1 of 2; go on with offset=2]");
    }

    #[test]
    fn what_is_too_long_is_cut() {
        let line = [&b"x".repeat(MAX_BYTES + 1)[..], b"\nnext\n"].concat();
        let text = shown(&[&line], 1, 2000);
        let note =
            "\n\n[line 1 of 2 is longer than 50 KB, this is its beginning; go on with offset=2]";
        assert_eq!(text, format!("{}{note}", "x".repeat(MAX_BYTES)));
        let lines = b"0123456789\n".repeat(10_000);
        let text = shown(&[&lines], 1, 2000);
        assert!(text.ends_with("[lines 1-2000 of 10000; go on with offset=2001]"), "{text}");
        let lines = [&b"y".repeat(199)[..], b"\n"].concat().repeat(1000);
        let text = shown(&[&lines], 11, 2000);
        assert!(
            text.ends_with("[lines 11-266 of 1000; go on with offset=267]"),
            "{}",
            &text[51_000..]
        );
    }
}
