//! The way through the files: lines, sections, and what they include.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::condition::Condition;
use super::include::{self, Origin};
use super::line::Line;
use super::outline::Outline;
use super::setting::setting;
use super::{Account, MOST, MOST_BYTES, Warning, content};
use crate::error::{ErrorKind, Result};
use crate::sys;

/// How deep files may include files, as ssh has it.
const DEEPEST: usize = 16;
/// Files that are read for one list, each as often as it is included: with every file including a few
/// others, sixteen levels could be a million.
const MOST_FILES: usize = 10_000;
/// Warnings that are kept. A file of rubbish has one for every line.
const MOST_WARNINGS: usize = 100;

/// What the files hold.
pub(super) struct Reader<'a> {
    account: &'a Account,
    pub(super) outline: Outline,
    /// The names without wildcards, each once.
    pub(super) names: Vec<Name>,
    known: HashSet<String>,
    pub(super) warnings: Vec<Warning>,
    files: usize,
    bytes: usize,
    is_full: bool,
    /// The files that are being read, by device and inode.
    stack: Vec<(u64, u64)>,
}

/// A name, and where it stands first.
pub(super) struct Name {
    pub(super) text: String,
    pub(super) file: PathBuf,
    pub(super) line: u64,
}

/// Where in the files the reader is.
#[derive(Clone, Copy)]
struct Place<'a> {
    file: &'a Path,
    line: u64,
}

impl<'a> Reader<'a> {
    pub(super) fn new(account: &'a Account) -> Self {
        Self {
            account,
            outline: Outline::default(),
            names: Vec::new(),
            known: HashSet::new(),
            warnings: Vec::new(),
            files: 0,
            bytes: 0,
            is_full: false,
            stack: Vec::new(),
        }
    }

    /// Reads a file with all that it includes.
    ///
    /// # Errors
    /// It cannot be read itself.
    pub(super) fn read(&mut self, file: &Path, origin: Origin) -> Result<()> {
        self.file(file, origin, None)
    }

    /// Warns of a file as a whole.
    pub(super) fn warn_of(&mut self, file: &Path, message: impl Into<String>) {
        self.warn(Place { file, line: 0 }, message);
    }

    fn file(&mut self, file: &Path, origin: Origin, parent: Option<usize>) -> Result<()> {
        let bytes = content(file, MOST_BYTES.saturating_sub(self.bytes))?;
        self.stack.push(identity(file).unwrap_or_default());
        self.files += 1;
        self.bytes += bytes.len();
        let bytes = match bytes.strip_prefix(b"\xef\xbb\xbf") {
            Some(rest) => {
                self.warn_of(file, "it begins with a byte order mark, which ssh does not take");
                rest
            }
            None => &bytes,
        };
        let mut section = self.outline.begin(parent, Condition::Everybody);
        for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            let place = Place { file, line: number };
            if let Some(line) = Line::parse(line) {
                self.line(place, &line, origin, parent, &mut section);
            }
        }
        self.stack.pop();
        Ok(())
    }

    fn line(
        &mut self,
        place: Place<'_>,
        line: &Line<'_>,
        origin: Origin,
        parent: Option<usize>,
        section: &mut usize,
    ) {
        match line.keyword.as_str() {
            "host" | "match" | "include" => {}
            _ => {
                match setting(line) {
                    Ok(Some(setting)) => self.outline.set(*section, setting),
                    Ok(None) => {}
                    Err(fault) => self.warn(place, fault),
                }
                return;
            }
        }
        let words = line.words();
        if let Err(fault) = &words {
            self.warn(place, format!("{}: {fault}", line.keyword));
        }
        match (line.keyword.as_str(), words) {
            ("include", Ok(words)) => {
                words.iter().for_each(|word| self.include(place, word, origin, *section));
            }
            ("include", Err(_)) => {}
            ("host", Ok(words)) => {
                let condition = Condition::of_host(&words);
                if origin == Origin::User {
                    self.name(place, &condition);
                }
                *section = self.outline.begin(parent, condition);
            }
            ("match", Ok(words)) => {
                let condition = Condition::of_match(&words).unwrap_or_else(|fault| {
                    self.warn(place, fault);
                    Condition::Unreadable
                });
                *section = self.outline.begin(parent, condition);
            }
            // What follows must not count as a part of the section above.
            (_, _) => *section = self.outline.begin(parent, Condition::Unreadable),
        }
    }

    /// Takes down the names of a `Host`.
    fn name(&mut self, place: Place<'_>, condition: &Condition) {
        for literal in condition.names() {
            let Ok(text) = std::str::from_utf8(literal) else {
                let shown = String::from_utf8_lossy(literal);
                self.warn(place, format!("the name {shown:?} is not UTF-8"));
                continue;
            };
            if text.starts_with('-') {
                self.warn(place, format!("ssh would take the name {text:?} for an option"));
            } else if self.known.insert(text.to_owned()) {
                let Place { file, line } = place;
                self.names.push(Name { text: text.to_owned(), file: file.to_owned(), line });
            }
        }
    }

    fn include(&mut self, place: Place<'_>, word: &[u8], origin: Origin, section: usize) {
        let files = include::files(word, origin, self.account).map(|(files, faults)| {
            faults.into_iter().for_each(|fault| self.warn(place, fault));
            files
        });
        match files {
            Ok(files) => {
                files.iter().for_each(|file| self.include_file(place, file, origin, section));
            }
            Err(fault) => {
                let word = String::from_utf8_lossy(word);
                self.warn(place, format!("cannot include {word:?}: {fault}"));
            }
        }
    }

    fn include_file(&mut self, place: Place<'_>, file: &Path, origin: Origin, section: usize) {
        if self.is_full {
            return;
        }
        if self.files >= MOST_FILES || self.bytes >= MOST_BYTES {
            self.is_full = true;
            let message = format!(
                "cannot include {file:?}, nor what follows: more than {MOST_FILES} files, or {MOST}"
            );
            return self.warn(place, message);
        }
        if self.stack.len() > DEEPEST {
            let message = format!("cannot include {file:?}: more than {DEEPEST} levels");
            return self.warn(place, message);
        }
        if identity(file).is_some_and(|identity| self.stack.contains(&identity)) {
            return self
                .warn(place, format!("cannot include {file:?}: it is the one that includes"));
        }
        if let Err(error) = self.file(file, origin, Some(section)) {
            // It has gone since it was found: for ssh no fault.
            if *error.kind() != ErrorKind::Os(sys::errno::ENOENT) {
                self.warn(place, error.message());
            }
        } else {
            self.check_owner(file);
        }
    }

    /// Says so where ssh would refuse a file for who may change it.
    pub(super) fn check_owner(&mut self, file: &Path) {
        let Ok(metadata) = fs::metadata(file) else { return };
        // Whether its group may write to it depends on how ssh was built.
        if metadata.mode() & 0o002 != 0 {
            self.warn_of(file, "everybody may write to it, so ssh will refuse it");
        } else if metadata.uid() != 0 && metadata.uid() != self.account.id {
            self.warn_of(file, "it belongs to another user, so ssh will refuse it");
        }
    }

    fn warn(&mut self, place: Place<'_>, message: impl Into<String>) {
        let line = (place.line > 0).then_some(place.line);
        let warning = Warning { file: place.file.to_owned(), line, message: message.into() };
        // A file that is included twice has each of its faults once.
        if self.warnings.len() <= MOST_WARNINGS && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
        if self.warnings.len() > MOST_WARNINGS
            && let Some(last) = self.warnings.last_mut()
        {
            let message = "there is more to say than this".to_owned();
            *last = Warning { file: place.file.to_owned(), line: None, message };
        }
    }
}

/// Which file it is, under whatever name.
fn identity(file: &Path) -> Option<(u64, u64)> {
    fs::metadata(file).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}
