//! `ta fs read`.

use crate::buffers;
use crate::cli::arguments::path;
use crate::cli::end::End;
use crate::cli::files::{self, Parts};
use crate::protocol::ReadFileParams;

files::command! {
    /// Write a file's bytes to stdout.
    #[argh(
        name = "read",
        usage = "[OPTIONS] [--] PATH",
        example = "{command_name} --exec ws://box:4200/exec /etc/hostname",
        example = "{command_name} --offset 1000000 --length 4096 disk.img | xxd",
        note = "A file of any size goes in parts. One that somebody changes meanwhile is an error
after what has been written. Files of /proc, which say that they are empty, are
read to their end."
    )]
    struct Read {
        /// the first byte; 0 without it
        #[argh(option)]
        offset: Option<u64>,
        /// how many bytes at most; to the end without it
        #[argh(option)]
        length: Option<u64>,
        /// the file; symbolic links are followed
        #[argh(positional)]
        path: String,
    }
}

impl Read {
    pub(super) fn run(mut self) -> Result<(), End> {
        let environment = files::environment(self.place_options())?;
        let path = files::wire(path(&self.path))?;
        let offset = self.offset.unwrap_or(0);
        if self.length == Some(0) {
            // Whether it can be read is still a question.
            let params = ReadFileParams { path, offset: self.offset, length: self.length };
            return Ok(environment.read_file(&params).map(drop)?);
        }
        let size = (files::part(&*environment)?, 0);
        let mut parts = Parts::new(&*environment, path, (offset, self.length), size);
        while let Some(bytes) = parts.next()? {
            files::print(&bytes)?;
            buffers::give(bytes);
        }
        Ok(())
    }
}
