//! Names below a directory.

use std::cmp::Ordering;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use globset::{GlobBuilder, GlobMatcher};
use ignore::DirEntry;

use super::least::Least;
use super::tree::{Tree, may_come_before, plain, relative};
use super::{Leave, check_length, on_own_thread, room, weigh};
use crate::error::{Error, Result};
use crate::fs;
use crate::protocol::{FindParams, FindResult, FoundEntry, WirePath};
use crate::sync::lock;

const LIMIT: usize = 1000;

/// Finds what has a name below `root`, which is `params.path` made absolute. A message may have
/// `longest` bytes.
///
/// # Errors
/// `InvalidParams` where a glob is none; `ENOTDIR` and the errno of looking at the root;
/// `ECANCELED`.
pub(crate) fn find(
    root: &Path,
    params: &FindParams,
    longest: usize,
    leave: &Leave,
) -> Result<FindResult> {
    on_own_thread(|| {
        let wanted = Wanted::of(params.pattern.as_deref())?;
        let root = plain(root);
        fs::check_directory(&root, "search")?;
        let limit = params.limit.map_or(LIMIT, |limit| limit.get() as usize);
        let found = Arc::new(Mutex::new(Least::new(limit, room(longest))));
        let tree = Tree {
            root: &root,
            hidden: params.hidden.unwrap_or(true),
            gitignore: params.gitignore.unwrap_or(true),
            max_depth: params.max_depth.map(|depth| depth as usize),
            globs: left_out(params.ignore.as_deref().unwrap_or_default()),
        };
        let so_far = Arc::clone(&found);
        let may_hold = move |directory: &[u8]| {
            let found = lock(&so_far);
            found.bound().is_none_or(|bound: &Found| may_come_before(directory, bound.bytes()))
        };
        tree.walk(leave, may_hold, |entry| {
            let path = relative(entry.path(), &root);
            if wanted.is(Path::new(path), entry.file_name().as_ref()) {
                offer(&found, Path::new(path), &entry);
            }
            Ok(())
        })?;
        let found = std::mem::replace(&mut *lock(&found), Least::new(0, 0));
        let (entries, truncated) = found.into_sorted();
        Ok(FindResult { entries: entries.into_iter().map(|found| found.0).collect(), truncated })
    })
}

fn offer(found: &Mutex<Least<Found>>, path: &Path, entry: &DirEntry) {
    let Some(kind) = entry.file_type() else { return };
    let path = WirePath::known(path.to_path_buf());
    let entry = FoundEntry { path, file_type: fs::file_type_of(kind) };
    let bytes = weigh(&entry);
    lock(found).offer(Found(entry), bytes);
}

fn left_out(globs: &[String]) -> Vec<(&'static str, String)> {
    globs.iter().map(|glob| ("ignore", format!("!{glob}"))).collect()
}

/// Which names are wanted.
struct Wanted {
    glob: Option<GlobMatcher>,
    /// Whether the glob is about the whole path.
    is_path: bool,
}

impl Wanted {
    /// # Errors
    /// `InvalidParams`.
    fn of(pattern: Option<&str>) -> Result<Self> {
        let Some(pattern) = pattern.filter(|pattern| !pattern.is_empty()) else {
            return Ok(Self { glob: None, is_path: false });
        };
        check_length("pattern", pattern)?;
        let is_path = pattern.contains('/');
        // What is found is relative to where the search begins, and so is this.
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        let pattern = pattern.strip_prefix('/').unwrap_or(pattern);
        let glob = GlobBuilder::new(pattern)
            .literal_separator(true)
            .case_insensitive(!pattern.chars().any(char::is_uppercase))
            .build()
            .map_err(|error| Error::params(format!("pattern: {error}")))?;
        Ok(Self { glob: Some(glob.compile_matcher()), is_path })
    }

    fn is(&self, path: &Path, name: &Path) -> bool {
        let subject = if self.is_path { path } else { name };
        self.glob.as_ref().is_none_or(|glob| glob.is_match(subject))
    }
}

/// Ordered by path, byte by byte. (Paths are ordered by component.)
#[derive(PartialEq, Eq)]
struct Found(FoundEntry);

impl Found {
    fn bytes(&self) -> &[u8] {
        self.0.path.as_path().as_os_str().as_bytes()
    }
}

impl Ord for Found {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bytes().cmp(other.bytes())
    }
}

impl PartialOrd for Found {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
