//! `find`: names below a directory.

use std::num::NonZeroU32;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::truncate::{self, MAX_BYTES};
use super::{Call, Failure, Outcome, Tools, arguments, path};
use crate::protocol::{FileType, FindParams, FindResult, ProcessId};

/// The most results where nothing else is said.
const LIMIT: NonZeroU32 = NonZeroU32::new(1000).unwrap();

#[derive(Deserialize)]
struct Args {
    pattern: String,
    path: Option<String>,
    #[serde(default, deserialize_with = "arguments::count")]
    limit: Option<NonZeroU32>,
}

pub(super) fn run(tools: &Tools, raw: Option<&RawValue>, call: &Call) -> Result<Outcome, Failure> {
    let args: Args = arguments::read(raw)?;
    let path = tools.path(args.path.as_deref().unwrap_or("."))?;
    let id = ProcessId::unique();
    let params = FindParams {
        pattern: Some(args.pattern),
        ignore: Some(vec!["node_modules/".to_owned()]),
        limit: Some(args.limit.unwrap_or(LIMIT)),
        process_id: Some(id.clone()),
        ..FindParams::all(path)
    };
    let found = super::search(tools, &id, call, |environment| environment.find(&params))?;
    Ok(Outcome::text(shown(&found)))
}

fn shown(found: &FindResult) -> String {
    if found.entries.is_empty() {
        return "No files found".to_owned();
    }
    let (mut listed, mut count) = (String::new(), 0);
    for entry in &found.entries {
        let path = path::shown(&entry.path);
        if listed.len() + path.len() > MAX_BYTES {
            break;
        }
        listed.push_str(&path);
        listed.push_str(if entry.file_type == FileType::Directory { "/\n" } else { "\n" });
        count += 1;
    }
    if count < found.entries.len() {
        let most = truncate::size(MAX_BYTES as u64);
        listed.push_str(&format!("\n[the first {count}, which are {most}; there is more]"));
    } else if found.truncated {
        listed.push_str(&format!("\n[the first {count}; a higher limit shows more]"));
    }
    listed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{FoundEntry, WirePath};

    #[test]
    fn what_is_found_is_listed_with_what_is_left_out() {
        let entry = |path: &str, file_type| FoundEntry {
            path: WirePath::try_from(path).unwrap(),
            file_type,
        };
        let entries = vec![entry("a", FileType::Directory), entry("a/b", FileType::File)];
        let mut found = FindResult { entries, truncated: false };
        assert_eq!(shown(&found), "a/\na/b\n");
        found.truncated = true;
        assert_eq!(shown(&found), "a/\na/b\n\n[the first 2; a higher limit shows more]");
        let none = FindResult { entries: Vec::new(), truncated: false };
        assert_eq!(shown(&none), "No files found");
    }
}
