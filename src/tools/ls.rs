//! `ls`: what a directory holds, in one round trip.

use std::num::NonZeroU32;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::truncate::{self, MAX_BYTES};
use super::{Failure, Outcome, Tools, arguments, text};
use crate::protocol::{DirEntry, FileType, PathParams};

/// The most entries where nothing else is said.
const LIMIT: usize = 500;

#[derive(Deserialize)]
struct Args {
    path: Option<String>,
    #[serde(default, deserialize_with = "arguments::count")]
    limit: Option<NonZeroU32>,
}

pub(super) fn run(tools: &Tools, raw: Option<&RawValue>) -> Result<Outcome, Failure> {
    let args: Args = arguments::read(raw)?;
    let path = tools.path(args.path.as_deref().unwrap_or("."))?;
    let entries = tools.environment().readdir(&PathParams { path })?.entries;
    let limit = args.limit.map_or(LIMIT, |limit| limit.get() as usize);
    Ok(Outcome::text(shown(&entries, limit)))
}

fn shown(entries: &[DirEntry], limit: usize) -> String {
    if entries.is_empty() {
        return "[the directory is empty]".to_owned();
    }
    let (mut listed, mut count) = (String::new(), 0);
    for entry in entries.iter().take(limit) {
        let name = text::one_line(&entry.name);
        if listed.len() + name.len() > MAX_BYTES {
            break;
        }
        let target = entry.target_type.flatten();
        let is_directory = [Some(entry.file_type), target].contains(&Some(FileType::Directory));
        listed.push_str(&name);
        listed.push_str(if is_directory { "/\n" } else { "\n" });
        count += 1;
    }
    if count < entries.len() {
        let all = entries.len();
        listed.push_str(&if count == limit {
            format!("\n[{count} of {all} entries; limit={all} shows all]")
        } else {
            let most = truncate::size(MAX_BYTES as u64);
            format!("\n[{count} of {all} entries, which are {most}]")
        });
    }
    listed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, file_type: FileType, target_type: Option<Option<FileType>>) -> DirEntry {
        DirEntry { name: name.to_owned(), file_type, target_type, name_base64: None }
    }

    #[test]
    fn directories_have_a_slash_behind_links_too() {
        let entries = [
            entry(".git", FileType::Directory, None),
            entry("a\nb", FileType::File, None),
            entry("gone", FileType::Symlink, Some(None)),
            entry("link", FileType::Symlink, Some(Some(FileType::Directory))),
        ];
        assert_eq!(shown(&entries, 500), ".git/\na\\nb\ngone\nlink/\n");
        let two = ".git/\na\\nb\n\n[2 of 4 entries; limit=4 shows all]";
        assert_eq!(shown(&entries, 2), two);
        assert_eq!(shown(&[], 2), "[the directory is empty]");
        let long = vec![entry(&"n".repeat(255), FileType::File, None); 1000];
        let text = shown(&long, 1000);
        assert!(text.ends_with("[200 of 1000 entries, which are 50 KB]"), "{}", text.len());
    }
}
