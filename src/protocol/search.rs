//! `fs/find` and `fs/grep`: params and results.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::fs::FileType;
use super::path::WirePath;
use super::process::ProcessId;

/// What to find below a directory, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FindParams {
    /// The directory; what is found is below it.
    pub path: WirePath,
    /// A glob: without a slash it matches a name at any depth, with one the path from `path`.
    /// Without capitals it matches either case. Everything if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Globs, as .gitignore has them, of what is left out and not entered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore: Option<Vec<String>>,
    /// Whether names that begin with a dot count; true if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<bool>,
    /// Whether .gitignore files and their like are heeded; true if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gitignore: Option<bool>,
    /// How deep to look: 1 is what is in `path` itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u32>,
    /// The most entries that are answered: the first ones in order; 1,000 if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<NonZeroU32>,
    /// An id to end the search by, with `process/kill`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_id: Option<ProcessId>,
}

impl FindParams {
    /// All that is below a directory.
    #[must_use]
    pub fn all(path: WirePath) -> Self {
        Self {
            path,
            pattern: None,
            ignore: None,
            hidden: None,
            gitignore: None,
            max_depth: None,
            limit: None,
            process_id: None,
        }
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindResult {
    /// Sorted by path, byte by byte.
    pub entries: Vec<FoundEntry>,
    /// Whether there is more than that.
    pub truncated: bool,
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundEntry {
    /// Relative to where the search began.
    pub path: WirePath,
    /// What it is; a symbolic link is one.
    #[serde(rename = "type")]
    pub file_type: FileType,
}

/// What to find in the files below a directory, or in one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrepParams {
    /// The directory, or the file.
    pub path: WirePath,
    /// A regular expression, in the syntax of Rust's regex crate; a line is searched at a time.
    pub pattern: String,
    /// Whether the pattern means itself; false if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub literal: Option<bool>,
    /// Whether case does not count; false if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_case: Option<bool>,
    /// Which files: a glob as .gitignore has them; with `!` before it, which not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
    /// How many lines before and after a match to tell: 0 to 1,000; 0 if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<u32>,
    /// Whether names that begin with a dot count; true if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<bool>,
    /// Whether .gitignore files and their like are heeded; true if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gitignore: Option<bool>,
    /// The most matches that are answered: the first ones in order; 100 if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<NonZeroU32>,
    /// An id to end the search by, with `process/kill`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_id: Option<ProcessId>,
}

impl GrepParams {
    /// A pattern in all files below a directory.
    #[must_use]
    pub fn new(path: WirePath, pattern: impl Into<String>) -> Self {
        Self {
            path,
            pattern: pattern.into(),
            literal: None,
            ignore_case: None,
            glob: None,
            context: None,
            hidden: None,
            gitignore: None,
            limit: None,
            process_id: None,
        }
    }
}

/// The lines that match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrepResult {
    /// Sorted by path, byte by byte, and by line.
    pub matches: Vec<GrepMatch>,
    /// Whether there is more than that.
    pub truncated: bool,
}

/// A line that matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrepMatch {
    /// The file, relative to where the search began; of a file that was named, its name.
    pub path: WirePath,
    /// The line's number; the first one is 1.
    pub line: u64,
    /// The line without its end, what is not UTF-8 replaced; at most 2,000 bytes of it.
    pub text: String,
    /// The lines before it, if any were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// The lines after it, if any were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// Whether `text` is only the beginning of the line.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}
