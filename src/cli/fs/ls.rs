//! `ta fs ls`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::thread;

use serde::Serialize;

use super::stat::word;
use super::time::iso;
use crate::cli::arguments::{escaped, path};
use crate::cli::end::End;
use crate::cli::files::{self, Shared};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{Base64, DirEntry, FileType, PathParams, StatParams, StatResult};
use crate::sys;

/// Entries that are asked about at once.
const AT_ONCE: usize = 8;

files::command! {
    /// List a directory, sorted by name.
    #[argh(
        name = "ls",
        usage = "[OPTIONS] [--] [PATH]",
        example = "{command_name} -l --exec ws://box:4200/exec src",
        example = "{command_name} -a --json | jq -r '.entries[].name'",
        note = "Bytes of a name that are no text, or would do something to a terminal, are shown
as \\xff, a line feed as \\n, a backslash as \\\\. Names that begin with a dot are
left out without -a.

--json prints one object with the protocol's entries: name, type, of a symbolic
link targetType (null where it leads nowhere), and nameBase64 where the name is
not UTF-8; with -l also size, mode (a number) and mtimeMs."
    )]
    struct Ls {
        /// show type and mode, size, time of the last change (UTC), and what kind of thing a
        /// symbolic link leads to
        #[argh(switch, short = 'l')]
        long: bool,
        /// show names that begin with a dot too
        #[argh(switch, short = 'a')]
        all: bool,
        /// print JSON
        #[argh(switch)]
        json: bool,
        /// the directory; the environment's own without it
        #[argh(positional)]
        path: Option<String>,
    }
}

#[derive(Serialize)]
struct Listing {
    entries: Vec<Told>,
}

#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    entry: DirEntry,
    #[serde(flatten)]
    detail: Option<Detail>,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
struct Detail {
    size: u64,
    mode: u32,
    mtime_ms: i64,
}

impl Ls {
    pub(super) fn run(mut self) -> Result<(), End> {
        let environment = files::environment(self.place_options())?;
        let directory = self.path.as_deref().map_or_else(|| PathBuf::from("."), path);
        let listed = environment.readdir(&PathParams { path: files::wire(&directory)? });
        let (directory, mut entries, all) = match listed {
            Ok(listed) => (directory, listed.entries, self.all),
            // As ls(1) has it: a file is listed as itself.
            Err(error) if *error.kind() == ErrorKind::Os(sys::errno::ENOTDIR) => {
                let entry = alone(&environment, &directory).map_err(|_| error)?;
                (PathBuf::new(), vec![entry], true)
            }
            Err(error) => return Err(error.into()),
        };
        entries.retain(|entry| all || !entry.name.starts_with('.'));
        let details = match self.long {
            true => details(&environment, &directory, &entries)?,
            false => entries.iter().map(|_| None).collect(),
        };
        let told = entries.into_iter().zip(details);
        let entries: Vec<_> = told.map(|(entry, detail)| Told { entry, detail }).collect();
        if self.json {
            return files::print_json(&Listing { entries });
        }
        let wide = entries.iter().filter_map(|told| told.detail).map(|detail| detail.size);
        let wide = wide.max().unwrap_or(0).to_string().len();
        let lines = entries.iter().map(|told| match self.long {
            true => long(told, wide),
            false => format!("{}\n", escaped(&name(&told.entry))),
        });
        files::print(lines.collect::<String>().as_bytes())
    }
}

/// The entry of what is no directory.
fn alone(environment: &Shared, path: &Path) -> Result<DirEntry> {
    let stat = |follow| {
        environment.stat(&StatParams { path: files::wire(path)?, follow_symlinks: Some(follow) })
    };
    let itself = stat(false)?.file_type;
    let target = match itself {
        FileType::Symlink => Some(stat(true).ok().map(|stat| stat.file_type)),
        _ => None,
    };
    let bytes = path.as_os_str().as_bytes();
    let is_text = path.to_str().is_some();
    Ok(DirEntry {
        name: String::from_utf8_lossy(bytes).into_owned(),
        file_type: itself,
        target_type: target,
        name_base64: (!is_text).then(|| Base64(bytes.to_vec())),
    })
}

/// The name, byte for byte.
pub(in crate::cli) fn name(entry: &DirEntry) -> OsString {
    match &entry.name_base64 {
        Some(bytes) => OsString::from_vec(bytes.0.clone()),
        None => OsString::from(&entry.name),
    }
}

/// What else there is to say of each; nothing of one that has gone meanwhile.
fn details(
    environment: &Shared,
    directory: &Path,
    entries: &[DirEntry],
) -> Result<Vec<Option<Detail>>, End> {
    let one = |entry: &DirEntry| -> Result<Option<Detail>> {
        let path = directory.join(name(entry));
        let detail =
            |stat: StatResult| Detail { size: stat.size, mode: stat.mode, mtime_ms: stat.mtime_ms };
        match files::look_at_link(&**environment, &path) {
            Ok(stat) => Ok(stat.map(detail)),
            // A directory that may be read and not entered.
            Err(error) if matches!(error.kind(), ErrorKind::Os(_)) => Ok(None),
            Err(error) => Err(error),
        }
    };
    let several = |entries: &[DirEntry]| entries.iter().map(one).collect::<Result<Vec<_>>>();
    let lost = || Error::new(ErrorKind::Internal, "ta has a bug: one of its threads has ended");
    thread::scope(|scope| {
        let size = entries.len().div_ceil(AT_ONCE).max(1);
        let threads: Vec<_> = entries
            .chunks(size)
            .map(|entries| {
                let ask = move || several(entries);
                thread::Builder::new().name("stat".to_owned()).spawn_scoped(scope, ask)
            })
            .collect();
        let mut details = Vec::with_capacity(entries.len());
        for thread in threads {
            let thread = thread.map_err(|error| Error::io(&error, "cannot make a thread"))?;
            details.extend(thread.join().map_err(|_| lost())??);
        }
        Ok(details)
    })
}

fn long(told: &Told, wide: usize) -> String {
    let entry = &told.entry;
    let shown = escaped(&name(entry));
    let target = match entry.target_type {
        Some(Some(target)) => format!(" -> [{}]", word(target)),
        Some(None) => " -> [nothing]".to_owned(),
        None => String::new(),
    };
    let letter = letter(entry.file_type);
    match told.detail {
        Some(Detail { size, mode, mtime_ms }) => {
            format!("{letter}{} {size:>wide$} {} {shown}{target}\n", bits(mode), iso(mtime_ms))
        }
        None => format!("{letter}????????? {:>wide$} {:>20} {shown}{target}\n", "?", "?"),
    }
}

fn letter(file_type: FileType) -> char {
    match file_type {
        FileType::File => '-',
        FileType::Directory => 'd',
        FileType::Symlink => 'l',
        FileType::Fifo => 'p',
        FileType::Socket => 's',
        FileType::CharDevice => 'c',
        FileType::BlockDevice => 'b',
    }
}

/// A mode as ls(1) writes it.
fn bits(mode: u32) -> String {
    let mut letters: Vec<char> = "rwxrwxrwx".chars().collect();
    for (place, letter) in letters.iter_mut().enumerate() {
        if mode & (0o400 >> place) == 0 {
            *letter = '-';
        }
    }
    for (bit, place, letter) in [(0o4000, 2, 's'), (0o2000, 5, 's'), (0o1000, 8, 't')] {
        if mode & bit != 0 {
            let executable = letters[place] == 'x';
            letters[place] = if executable { letter } else { letter.to_ascii_uppercase() };
        }
    }
    letters.into_iter().collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn modes_are_those_of_ls() {
        for (mode, shown) in [
            (0o644, "rw-r--r--"),
            (0o4755, "rwsr-xr-x"),
            (0o2644, "rw-r-Sr--"),
            (0o1777, "rwxrwxrwt"),
            (0, "---------"),
        ] {
            assert_eq!(super::bits(mode), shown);
        }
    }
}
