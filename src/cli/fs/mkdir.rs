//! `ta fs mkdir`.

use crate::cli::end::End;
use crate::cli::files;
use crate::protocol::{MkdirParams, Mode};

files::command! {
    /// Make directories.
    #[argh(
        name = "mkdir",
        usage = "[OPTIONS] [--] PATH...",
        example = "{command_name} -p --exec ws://box:4200/exec build/logs"
    )]
    struct Mkdir {
        /// make missing directories above it too; one that is there is fine
        #[argh(switch, short = 'p')]
        parents: bool,
        /// its mode, in octal (else 777 less the umask there)
        #[argh(option, from_str_fn(files::octal))]
        mode: Option<Mode>,
        /// the directories
        #[argh(positional)]
        path: String,
        #[argh(positional, hidden_help)]
        more: Vec<String>,
    }
}

impl Mkdir {
    pub(super) fn run(mut self) -> Result<(), End> {
        let environment = files::environment(self.place_options())?;
        let (recursive, mode) = (Some(self.parents), self.mode);
        let paths = [vec![self.path], self.more].concat();
        files::each(&paths, |path| Ok(environment.mkdir(&MkdirParams { path, recursive, mode })?))
    }
}
