//! One file or directory to copy.

use std::path::PathBuf;

use crate::cli::arguments::escaped;
use crate::cli::end::End;
use crate::cli::files::{Parts, Shared, Store, Wanted, wire};
use crate::cli::fs::name;
use crate::cli::progress::Progress;
use crate::protocol::{DirEntry, Mode, StatResult};

/// Where it comes from and goes to.
pub(super) struct Item<'a> {
    pub(super) from: &'a Shared,
    pub(super) path: PathBuf,
    /// Whether it goes there; here otherwise.
    pub(super) to_there: bool,
    pub(super) target: PathBuf,
    /// Nothing can be at the target: its directory is new.
    pub(super) is_new: bool,
}

impl<'a> Item<'a> {
    /// An entry of this directory.
    pub(super) fn below(&self, entry: &DirEntry, is_new: bool) -> Item<'a> {
        let name = name(entry);
        let (path, target) = (self.path.join(&name), self.target.join(&name));
        Item { from: self.from, path, to_there: self.to_there, target, is_new }
    }

    /// As it is shown.
    pub(super) fn shown(&self) -> String {
        escaped(self.path.as_os_str())
    }

    /// Copies it, a file.
    pub(super) fn copy(
        &self,
        stores: &[Store; 2],
        part: usize,
        stat: &StatResult,
        progress: &mut Progress,
    ) -> Result<(), End> {
        let wanted = Wanted {
            path: self.target.clone(),
            mode: Mode::try_from(stat.mode).ok(),
            always: true,
            is_new: self.is_new,
            ..Wanted::default()
        };
        progress.start(&self.shown(), stat.size);
        let size = (part, stat.size);
        let mut parts = Parts::new(&**self.from, wire(&self.path)?, (0, None), size);
        let store = &stores[usize::from(self.to_there)];
        let stored = store.put(&wanted, &mut || {
            let part = parts.next()?;
            progress.add(part.as_ref().map_or(0, Vec::len));
            Ok(part)
        })?;
        stored.mode_refused.map_or(Ok(()), |error| Err(error.into()))
    }
}
