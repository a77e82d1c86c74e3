//! `grep`: lines in the files below a directory.

use std::num::NonZeroU32;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::truncate::{self, MAX_BYTES};
use super::{Call, Failure, Outcome, Tools, arguments, path};
use crate::protocol::{GrepParams, GrepResult, ProcessId};
use crate::search::{Shown, show};

/// The most bytes of a line that are shown.
const LONGEST_LINE: usize = 500;
/// The most matches where nothing else is said.
const LIMIT: NonZeroU32 = NonZeroU32::new(100).unwrap();

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Args {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    ignore_case: Option<bool>,
    literal: Option<bool>,
    #[serde(default, deserialize_with = "arguments::count_or_none")]
    context: Option<u32>,
    #[serde(default, deserialize_with = "arguments::count")]
    limit: Option<NonZeroU32>,
}

pub(super) fn run(tools: &Tools, raw: Option<&RawValue>, call: &Call) -> Result<Outcome, Failure> {
    let args: Args = arguments::read(raw)?;
    let path = tools.path(args.path.as_deref().unwrap_or("."))?;
    let id = ProcessId::unique();
    let params = GrepParams {
        literal: args.literal,
        ignore_case: args.ignore_case,
        glob: args.glob,
        context: args.context,
        limit: Some(args.limit.unwrap_or(LIMIT)),
        process_id: Some(id.clone()),
        ..GrepParams::new(path, args.pattern)
    };
    let found = super::search(tools, &id, call, |environment| environment.grep(&params))?;
    Ok(Outcome::text(shown(&found)))
}

fn shown(found: &GrepResult) -> String {
    if found.matches.is_empty() {
        return "No matches found".to_owned();
    }
    let mut page = Page::default();
    show(&found.matches, |shown| match shown {
        Shown::Break => page.put("--", ""),
        Shown::Around(found, line, text) => {
            page.put(&format!("{}-{line}- ", path::shown(&found.path)), text);
        }
        Shown::Match(found) => {
            page.put(&format!("{}:{}: ", path::shown(&found.path), found.line), &found.text);
            page.is_cut |= found.cut;
            page.matches += usize::from(!page.is_full);
        }
    });
    page.finish(found)
}

/// What is shown, up to so many bytes.
#[derive(Default)]
struct Page {
    text: String,
    matches: usize,
    /// A line was cut.
    is_cut: bool,
    is_full: bool,
}

impl Page {
    fn put(&mut self, place: &str, content: &str) {
        let (content, is_cut) = truncate::line(content, LONGEST_LINE);
        let tail = if is_cut { "…\n" } else { "\n" };
        if self.is_full || self.text.len() + place.len() + content.len() + tail.len() > MAX_BYTES {
            self.is_full = true;
            return;
        }
        self.is_cut |= is_cut;
        for piece in [place, content, tail] {
            self.text.push_str(piece);
        }
    }

    fn finish(self, found: &GrepResult) -> String {
        let mut notes = Vec::new();
        if self.is_full {
            let most = truncate::size(MAX_BYTES as u64);
            notes.push(format!(
                "the first {} matches, which are {most}; there is more",
                self.matches
            ));
        } else if found.truncated {
            let count = found.matches.len();
            notes.push(format!("the first {count} matches; a higher limit shows more"));
        }
        if self.is_cut {
            notes.push(format!("lines of more than {LONGEST_LINE} bytes are cut"));
        }
        let mut text = self.text;
        if !notes.is_empty() {
            text.push_str(&format!("\n[{}]", notes.join("; ")));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{GrepMatch, WirePath};

    fn found(path: &str, line: u64, before: &[&str], after: &[&str]) -> GrepMatch {
        let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        GrepMatch {
            path: WirePath::try_from(path).unwrap(),
            line,
            text: format!("hit {line}"),
            before: lines(before),
            after: lines(after),
            cut: false,
        }
    }

    fn text(matches: &[GrepMatch], truncated: bool) -> String {
        shown(&GrepResult { matches: matches.to_vec(), truncated })
    }

    #[test]
    fn lines_are_shown_with_those_around_them() {
        let matches = [found("f", 2, &["l1"], &["l3"]), found("g", 9, &[], &["l10"])];
        let expected = "f-1- l1\nf:2: hit 2\nf-3- l3\n--\ng:9: hit 9\ng-10- l10\n";
        assert_eq!(text(&matches, false), expected);
        let bare = [found("f", 2, &[], &[]), found("f", 9, &[], &[])];
        let note = "\n[the first 2 matches; a higher limit shows more]";
        assert_eq!(text(&bare, true), format!("f:2: hit 2\nf:9: hit 9\n{note}"));
        assert_eq!(text(&[], false), "No matches found");
    }

    #[test]
    fn long_lines_and_long_answers_are_cut() {
        let mut long = found("f", 1, &[], &[]);
        long.text = "x".repeat(501);
        let cut = format!("f:1: {}…\n\n[lines of more than 500 bytes are cut]", "x".repeat(500));
        assert_eq!(text(&[long.clone()], false), cut);
        let many: Vec<_> = (1..=200).map(|line| GrepMatch { line, ..long.clone() }).collect();
        let all = text(&many, false);
        assert!(
            all.contains("[the first 100 matches, which are 50 KB; there is more;"),
            "{}",
            all.len()
        );
    }
}
