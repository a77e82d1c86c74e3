//! The way through a tree: what counts in it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ignore::overrides::OverrideBuilder;
use ignore::{DirEntry, Walk, WalkBuilder};

use super::{Leave, check_length};
use crate::error::{Error, Result};

/// What counts below a directory.
pub(super) struct Tree<'a> {
    pub(super) root: &'a Path,
    pub(super) hidden: bool,
    pub(super) gitignore: bool,
    pub(super) max_depth: Option<usize>,
    /// Globs as .gitignore has them: only these, or with `!` not these.
    pub(super) globs: Vec<(&'static str, String)>,
}

impl Tree<'_> {
    /// Visits what counts, in no order, until `visit` fails. `may_hold` tells whether a directory,
    /// relative to the root, may hold anything that is wanted.
    ///
    /// What cannot be read is passed over, as ripgrep and fd do.
    ///
    /// # Errors
    /// A glob is none; the search was ended; what `visit` answers.
    pub(super) fn walk(
        &self,
        leave: &Leave,
        may_hold: impl Fn(&[u8]) -> bool + Send + Sync + 'static,
        mut visit: impl FnMut(DirEntry) -> Result<()>,
    ) -> Result<()> {
        for entry in self.entries(may_hold)? {
            leave.check()?;
            match entry {
                Ok(entry) if entry.depth() > 0 => visit(entry)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// (One thread, which holds no more of a directory than it reads at a time; several would
    /// collect whole directories first.)
    fn entries(&self, may_hold: impl Fn(&[u8]) -> bool + Send + Sync + 'static) -> Result<Walk> {
        let mut globs = OverrideBuilder::new(self.root);
        for (member, glob) in &self.globs {
            let refused = |error: ignore::Error| Error::params(format!("{member}: {error}"));
            check_length(member, glob)?;
            globs.add(glob).map_err(refused)?;
        }
        let globs = globs.build().map_err(|error| Error::params(error.to_string()))?;
        let root = self.root.to_path_buf();
        let mut walk = WalkBuilder::new(self.root);
        walk.standard_filters(self.gitignore)
            .hidden(!self.hidden)
            .require_git(false)
            .max_depth(self.max_depth)
            .overrides(globs)
            .filter_entry(move |entry| {
                entry.depth() == 0
                    || (entry.file_name() != OsStr::new(".git") && {
                        let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
                        !is_directory || may_hold(relative(entry.path(), &root).as_bytes())
                    })
            });
        Ok(walk.build())
    }
}

/// A path as it is below a root.
pub(super) fn relative<'a>(path: &'a Path, root: &Path) -> &'a OsStr {
    path.strip_prefix(root).unwrap_or(path).as_os_str()
}

/// Whether anything in a directory of that path comes before `bound`: all of it begins with the
/// path and a slash.
pub(super) fn may_come_before(directory: &[u8], bound: &[u8]) -> bool {
    let mut first = directory.to_vec();
    first.push(b'/');
    first.as_slice() < bound
}

/// A path without `.` components, so that what is below it can be told apart from it.
pub(super) fn plain(path: &Path) -> PathBuf {
    path.components().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_left_out_only_if_all_in_it_comes_later() {
        assert!(may_come_before(b"a", b"a/b"));
        assert!(!may_come_before(b"a", b"a.txt"), "a dot comes before a slash");
        assert!(may_come_before(b"a", b"a0"), "a digit comes after it");
        assert!(!may_come_before(b"b", b"a/x"));
    }
}
