//! `ta fs mv`.

use crate::cli::arguments::path;
use crate::cli::end::End;
use crate::cli::files;
use crate::protocol::{FileType, RenameParams};

files::command! {
    /// Rename a file or directory, or move it into a directory.
    #[argh(
        name = "mv",
        usage = "[OPTIONS] [--] FROM TO",
        example = "{command_name} --exec ws://box:4200/exec draft.txt notes.txt",
        example = "{command_name} notes.txt archive/",
        note = "A file that has the new name is replaced. Between two file systems nothing is
moved: copy it (ta cp -r :FROM :TO) and remove the old one."
    )]
    struct Mv {
        /// what it is called
        #[argh(positional)]
        from: String,
        /// what it is to be called, or the directory that it is to be in
        #[argh(positional)]
        to: String,
    }
}

impl Mv {
    pub(super) fn run(mut self) -> Result<(), End> {
        let environment = files::environment(self.place_options())?;
        let (from, mut to) = (path(&self.from), path(&self.to));
        let standing = files::look(&*environment, &to)?;
        if standing.is_some_and(|standing| standing.file_type == FileType::Directory)
            && let Some(name) = from.file_name()
        {
            to.push(name);
        }
        let params = RenameParams { from: files::wire(from)?, to: files::wire(to)? };
        Ok(environment.rename(&params)?)
    }
}
