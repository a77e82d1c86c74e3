//! `ta fs grep`.

use std::fmt::Write as _;
use std::num::NonZeroU32;

use super::{check_text, said_limit};
use crate::cli::arguments::{escaped, path};
use crate::cli::end::End;
use crate::cli::files;
use crate::protocol::{GrepMatch, GrepParams};
use crate::search::{Shown, show};

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

fn shown(matches: &[GrepMatch]) -> String {
    let mut text = String::new();
    show(matches, |shown| {
        let (found, mark, line, content) = match shown {
            Shown::Break => return text.push_str("--\n"),
            Shown::Around(found, line, content) => (found, '-', line, content),
            Shown::Match(found) => (found, ':', found.line, found.text.as_str()),
        };
        let name = escaped(found.path.as_path().as_os_str());
        let _ = writeln!(text, "{name}{mark}{line}{mark}{content}");
    });
    text
}
