//! `ta fs grep`.

use std::fmt::Write as _;
use std::num::NonZeroU32;

use super::{check_text, said_limit};
use crate::cli::arguments::{escaped, path};
use crate::cli::end::End;
use crate::cli::files;
use crate::protocol::{GrepMatch, GrepParams};

/// Nothing matches: what grep(1) answers then.
const NOTHING: u8 = 1;

files::command! {
    /// Find lines in the files below a directory.
    #[argh(
        name = "grep",
        usage = "[OPTIONS] [--] PATTERN [PATH]",
        example = "{command_name} --exec ws://box:4200/exec 'fn \\w+_all' src",
        example = "{command_name} -F -g '*.md' 'TODO(' docs",
        note = "A pattern is a regular expression in the syntax of Rust's regex crate, as ripgrep has
it. What .gitignore files name, .git and binary files are passed over. Matches are shown
as PATH:LINE:TEXT and sorted; lines around them as PATH-LINE-TEXT. As with grep(1), 1
also means that nothing matches; then nothing is said.

--json prints one object, as the protocol has it: matches (path, line, text, before,
after, cut) and truncated."
    )]
    struct Grep {
        /// the pattern means itself
        #[argh(switch, short = 'F')]
        literal: bool,
        /// case does not count
        #[argh(switch, short = 'i')]
        ignore_case: bool,
        /// only files that match this glob; with ! before it, only others
        #[argh(option, short = 'g')]
        glob: Option<String>,
        /// lines to show before and after each match (0)
        #[argh(option, short = 'C')]
        context: Option<u32>,
        /// leave out names that begin with a dot
        #[argh(switch)]
        no_hidden: bool,
        /// search what .gitignore files name too
        #[argh(switch)]
        no_ignore: bool,
        /// the most matches that are shown, the first ones in order (100)
        #[argh(option)]
        limit: Option<NonZeroU32>,
        /// print JSON
        #[argh(switch)]
        json: bool,
        /// what to search for
        #[argh(positional)]
        pattern: String,
        /// the directory, or a file; the environment's own directory without it
        #[argh(positional)]
        path: Option<String>,
    }
}

impl Grep {
    pub(super) fn run(mut self) -> Result<(), End> {
        check_text("PATTERN", &self.pattern)?;
        check_text("--glob", self.glob.as_deref().unwrap_or_default())?;
        let environment = files::environment(self.place_options())?;
        let path = files::wire(path(self.path.as_deref().unwrap_or(".")))?;
        let found = environment.grep(&GrepParams {
            literal: self.literal.then_some(true),
            ignore_case: self.ignore_case.then_some(true),
            glob: self.glob,
            context: self.context,
            hidden: self.no_hidden.then_some(false),
            gitignore: self.no_ignore.then_some(false),
            limit: self.limit,
            ..GrepParams::new(path, self.pattern)
        })?;
        if self.json {
            files::print_json(&found)?;
        } else {
            files::print(shown(&found.matches).as_bytes())?;
            said_limit(found.truncated, found.matches.len());
        }
        if found.matches.is_empty() { Err(End::Code(NOTHING)) } else { Ok(()) }
    }
}

/// Each line once, as grep(1) shows them.
fn shown(matches: &[GrepMatch]) -> String {
    let mut text = String::new();
    let mut last = None;
    let has_context = matches.iter().any(|it| !(it.before.is_empty() && it.after.is_empty()));
    for (at, found) in matches.iter().enumerate() {
        let name = escaped(found.path.as_path().as_os_str());
        let first = found.line.saturating_sub(found.before.len() as u64);
        let shown_to = last.filter(|(path, _)| *path == &found.path).map(|(_, line)| line);
        if has_context && last.is_some() && shown_to.is_none_or(|line| first > line + 1) {
            text.push_str("--\n");
        }
        let shown_to = shown_to.unwrap_or(0);
        // What matches itself is shown as that.
        let next = matches.get(at + 1).filter(|next| next.path == found.path);
        let end = next.map_or(u64::MAX, |next| next.line);
        let before = (first..).zip(&found.before).filter(|(line, _)| *line > shown_to);
        let after = (found.line + 1..).zip(&found.after).filter(|(line, _)| *line < end);
        let mut put = |mark: char, line: u64, content: &str| {
            let _ = writeln!(text, "{name}{mark}{line}{mark}{content}");
        };
        before.for_each(|(line, content)| put('-', line, content));
        put(':', found.line, &found.text);
        let mut shown_to = found.line;
        for (line, content) in after {
            put('-', line, content);
            shown_to = line;
        }
        last = Some((&found.path, shown_to));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::WirePath;

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

    #[test]
    fn a_line_is_shown_once() {
        let matches = [
            found("f", 2, &["l1"], &["l3"]),
            found("f", 4, &["l3"], &["hit 5"]),
            found("f", 5, &["hit 4"], &["l6"]),
            found("f", 9, &["l8"], &[]),
            found("g", 1, &[], &["l2"]),
        ];
        let expected = "f-1-l1\nf:2:hit 2\nf-3-l3\nf:4:hit 4\nf:5:hit 5\nf-6-l6\n--\nf-8-l8\n\
                        f:9:hit 9\n--\ng:1:hit 1\ng-2-l2\n";
        assert_eq!(shown(&matches), expected);
        let bare = [found("f", 2, &[], &[]), found("f", 9, &[], &[])];
        assert_eq!(shown(&bare), "f:2:hit 2\nf:9:hit 9\n");
    }
}
