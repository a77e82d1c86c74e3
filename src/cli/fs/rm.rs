//! `ta fs rm`.

use crate::cli::end::End;
use crate::cli::files;
use crate::protocol::RemoveParams;

files::command! {
    /// Remove files and directories.
    #[argh(
        name = "rm",
        usage = "[OPTIONS] [--] PATH...",
        example = "{command_name} -r --exec ws://box:4200/exec build",
        note = "A symbolic link is removed itself, never what it leads to. The root, the
environment's directory and those above it are refused."
    )]
    struct Rm {
        /// remove directories with all that is in them
        #[argh(switch, short = 'r')]
        recursive: bool,
        /// a path that does not exist is fine
        #[argh(switch, short = 'f')]
        force: bool,
        /// the paths
        #[argh(positional)]
        path: String,
        #[argh(positional, hidden_help)]
        more: Vec<String>,
    }
}

impl Rm {
    pub(super) fn run(mut self) -> Result<(), End> {
        let environment = files::environment(self.place_options())?;
        let (recursive, force) = (Some(self.recursive), Some(self.force));
        let paths = [vec![self.path], self.more].concat();
        files::each(&paths, |path| {
            Ok(environment.remove(&RemoveParams { path, recursive, force })?)
        })
    }
}
