//! What is written: bytes, or what another file holds.

use std::fs::File;
use std::io::{self, Write};

/// The content of a file to be.
#[derive(Clone, Copy)]
pub(super) enum Content<'a> {
    Bytes(&'a [u8]),
    /// From its beginning.
    Of(&'a File),
}

impl Content<'_> {
    /// How much there is, as far as that is known.
    pub(super) fn size(self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Of(file) => file.metadata().map_or(0, |metadata| metadata.len()),
        }
    }

    /// Writes all of it; answers how much that was.
    pub(super) fn write_to(self, mut target: &File) -> io::Result<u64> {
        match self {
            Self::Bytes(bytes) => target.write_all(bytes).map(|()| bytes.len() as u64),
            Self::Of(mut file) => {
                io::Seek::rewind(&mut file)?;
                io::copy(&mut file, &mut target)
            }
        }
    }
}
