//! `ta fs find`.

use std::num::NonZeroU32;

use super::{check_text, said_limit};
use crate::cli::arguments::{escaped, path};
use crate::cli::end::End;
use crate::cli::files;
use crate::protocol::FindParams;

files::command! {
    /// Find what has a name below a directory.
    #[argh(
        name = "find",
        usage = "[OPTIONS] [--] PATTERN [PATH]",
        example = "{command_name} --exec ws://box:4200/exec '*.rs' src",
        example = "{command_name} --no-ignore --json 'target/*/ta' | jq -r '.entries[].path'",
        note = "A pattern is a glob. Without a slash it matches a name at any depth, with one the path
from PATH; without capitals it matches either case. What .gitignore files name is left
out, and .git too. Paths are relative to PATH and sorted.

--json prints one object, as the protocol has it: entries (path and type) and
truncated."
    )]
    struct Find {
        /// leave out what matches this glob, and do not enter it; may be repeated
        #[argh(option)]
        ignore: Vec<String>,
        /// leave out names that begin with a dot
        #[argh(switch)]
        no_hidden: bool,
        /// find what .gitignore files name too
        #[argh(switch)]
        no_ignore: bool,
        /// how deep to look; 1 is what is in PATH itself
        #[argh(option)]
        max_depth: Option<u32>,
        /// the most that is shown, the first ones in order (1000)
        #[argh(option)]
        limit: Option<NonZeroU32>,
        /// print JSON
        #[argh(switch)]
        json: bool,
        /// the glob; '*' is everything
        #[argh(positional)]
        pattern: String,
        /// the directory; the environment's own without it
        #[argh(positional)]
        path: Option<String>,
    }
}

impl Find {
    pub(super) fn run(mut self) -> Result<(), End> {
        check_text("PATTERN", &self.pattern)?;
        self.ignore.iter().try_for_each(|glob| check_text("--ignore", glob))?;
        let environment = files::environment(self.place_options())?;
        let found = environment.find(&FindParams {
            pattern: Some(self.pattern),
            ignore: (!self.ignore.is_empty()).then_some(self.ignore),
            hidden: self.no_hidden.then_some(false),
            gitignore: self.no_ignore.then_some(false),
            max_depth: self.max_depth,
            limit: self.limit,
            ..FindParams::all(files::wire(path(self.path.as_deref().unwrap_or(".")))?)
        })?;
        if self.json {
            return files::print_json(&found);
        }
        let names = found.entries.iter().map(|entry| entry.path.as_path().as_os_str());
        let lines: String = names.map(|name| format!("{}\n", escaped(name))).collect();
        files::print(lines.as_bytes())?;
        said_limit(found.truncated, found.entries.len());
        Ok(())
    }
}
