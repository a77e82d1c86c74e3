//! `fs/walk`: a tree, level by level.

use std::collections::{HashSet, VecDeque};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::params::WalkOptions;
use super::uri::Uri;
use crate::error::{Error, ErrorKind, Result};

const MAX_DEPTH: usize = 64;
const MAX_DIRECTORIES: usize = 10_000;
const MAX_ENTRIES: usize = 50_000;

#[derive(Debug, Default, Serialize)]
pub(super) struct Walked {
    entries: Vec<Entry>,
    errors: Vec<Failure>,
    truncated: bool,
}

#[derive(Debug, Serialize)]
struct Entry {
    path: Uri,
    kind: &'static str,
}

#[derive(Debug, Serialize)]
struct Failure {
    path: Uri,
    message: String,
}

/// # Errors
/// A limit is 0, or beyond what there may be.
pub(super) fn check(options: &WalkOptions) -> Result<()> {
    let WalkOptions { max_depth, max_directories, max_entries, .. } = *options;
    let refused = |message: String| Err(Error::new(ErrorKind::InvalidRequest, message));
    if max_directories == 0 || max_entries == 0 {
        return refused("filesystem walk limits must be greater than zero".to_owned());
    }
    if max_depth > MAX_DEPTH || max_directories > MAX_DIRECTORIES || max_entries > MAX_ENTRIES {
        return refused(format!(
            "filesystem walk limits exceed maximums: depth={MAX_DEPTH}, \
             directories={MAX_DIRECTORIES}, entries={MAX_ENTRIES}"
        ));
    }
    Ok(())
}

/// Lists the tree below a directory, each directory's entries by name; links only where they lead to
/// directories and are followed.
pub(super) fn walk(root: &Path, options: &WalkOptions) -> Result<Walked> {
    let failed = |error| Error::io(&error, format!("cannot walk {root:?}"));
    let found = fs::metadata(root).map_err(failed)?;
    let mut walked = Walked::default();
    let is_link = fs::symlink_metadata(root).is_ok_and(|it| it.is_symlink());
    if !found.is_dir() || (is_link && !options.follow_directory_symlinks) {
        return Ok(walked);
    }
    let mut seen = HashSet::from([(found.dev(), found.ino())]);
    let mut waiting = VecDeque::from([(root.to_owned(), 0)]);
    let (mut directories, mut count) = (0, 0);
    while let Some((directory, depth)) = waiting.pop_front() {
        if directories == options.max_directories {
            walked.truncated = true;
            break;
        }
        directories += 1;
        let names = match names_in(&directory, options.max_entries - count) {
            Ok((names, is_all)) => {
                walked.truncated |= !is_all;
                names
            }
            Err(error) => {
                let message = Error::io(&error, "cannot read it").message().to_owned();
                walked.errors.push(Failure { path: Uri(directory), message });
                continue;
            }
        };
        for path in names {
            count += 1;
            let Some((kind, identity)) = kind_of(&path, options.follow_directory_symlinks) else {
                continue;
            };
            if let Some(identity) = identity
                && depth < options.max_depth
                && seen.insert(identity)
            {
                waiting.push_back((path.clone(), depth + 1));
            }
            walked.entries.push(Entry { path: Uri(path), kind });
        }
        if walked.truncated {
            break;
        }
    }
    Ok(walked)
}

/// The first `most` paths in a directory, by name, and whether those are all.
fn names_in(directory: &Path, most: usize) -> std::io::Result<(Vec<PathBuf>, bool)> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        paths.push(entry?.path());
    }
    paths.sort_unstable();
    let is_all = paths.len() <= most;
    paths.truncate(most);
    Ok((paths, is_all))
}

type Identity = (u64, u64);

/// What is told of a path, and which directory it is if it is one; `None` for what is left out.
fn kind_of(path: &Path, follow: bool) -> Option<(&'static str, Option<Identity>)> {
    let found = fs::symlink_metadata(path).ok()?;
    let is_link = found.is_symlink();
    let found = if is_link && follow { fs::metadata(path).ok()? } else { found };
    if found.is_dir() {
        return Some(("directory", Some((found.dev(), found.ino()))));
    }
    (found.is_file() && !is_link).then_some(("file", None))
}
