//! Somebody who waits for the other end of a FIFO.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::{DEADLINE, eventually, procfs, stop};

/// A program that will write to the FIFO once somebody opens it to read.
pub(super) struct Waiting {
    writer: Child,
    /// The FIFO itself, wherever it is and whatever it is called.
    fifo: File,
}

impl Waiting {
    #[track_caller]
    pub(super) fn to_write(fifo: &Path) -> Self {
        let path_only = File::options().read(true).custom_flags(libc::O_PATH).open(fifo).unwrap();
        let writer = Command::new("sh")
            .args(["-c", "exec 3>\"$0\"; printf data >&3"])
            .arg(fifo)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        procfs::await_stalled(&[writer.id()]);
        Self { writer, fifo: path_only }
    }

    /// Shows that nobody else has opened the other end meanwhile: what is written comes here.
    #[track_caller]
    pub(super) fn assert_still(mut self) {
        assert!(self.writer.try_wait().unwrap().is_none(), "the writer was released");
        let path = format!("/proc/self/fd/{}", self.fifo.as_raw_fd());
        let mut reader =
            File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).unwrap();
        let mut status = None;
        eventually(DEADLINE, "the end of the writer", || {
            status = self.writer.try_wait().unwrap();
            status.is_some()
        });
        let mut found = Vec::new();
        reader.read_to_end(&mut found).unwrap();
        assert_eq!((status.unwrap().code(), found.as_slice()), (Some(0), &b"data"[..]));
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        stop(&mut self.writer);
    }
}
