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
/// Files that are read for one list, each as often as it is included, and arguments of `Include`: with
/// every file including a few others, sixteen levels could be a million.
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
    arguments: usize,
    bytes: usize,
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

/// Where in a file's sections it is.
struct Level {
    origin: Origin,
    /// The section that the file is included in.
    parent: Option<usize>,
    section: usize,
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
            arguments: 0,
            bytes: 0,
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
        let section = self.outline.begin(parent, Condition::Everybody);
        let mut level = Level { origin, parent, section };
        for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            if let Some(line) = Line::parse(line) {
                self.line(Place { file, line: number }, &line, &mut level);
            }
        }
        self.stack.pop();
        Ok(())
    }

    fn line(&mut self, place: Place<'_>, line: &Line<'_>, level: &mut Level) {
        match line.keyword.as_str() {
            "include" => {
                for word in self.words(place, line).unwrap_or_default() {
                    self.include(place, &word, level);
                }
            }
            "host" => {
                // What follows a line that cannot be read must not count for the section above it.
                let condition = self.words(place, line).map(|words| Condition::of_host(&words));
                let condition = condition.unwrap_or(Condition::Unreadable);
                if level.origin == Origin::User {
                    self.names(place, &condition);
                }
                level.section = self.outline.begin(level.parent, condition);
            }
            "match" => {
                let condition = self.words(place, line).and_then(|words| {
                    Condition::of_match(&words).map_err(|fault| self.warn(place, fault)).ok()
                });
                let condition = condition.unwrap_or(Condition::Unreadable);
                level.section = self.outline.begin(level.parent, condition);
            }
            _ => match setting(line) {
                Ok(Some(setting)) => self.outline.set(level.section, setting),
                Ok(None) => {}
                Err(fault) => self.warn(place, fault),
            },
        }
    }

    /// The arguments, or a warning.
    fn words(&mut self, place: Place<'_>, line: &Line<'_>) -> Option<Vec<Vec<u8>>> {
        let words = line.words();
        words.map_err(|fault| self.warn(place, format!("{}: {fault}", line.keyword))).ok()
    }

    /// Takes down the names of a `Host`.
    fn names(&mut self, place: Place<'_>, condition: &Condition) {
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

    fn include(&mut self, place: Place<'_>, word: &[u8], level: &Level) {
        self.arguments += 1;
        let found = match self.arguments {
            ..=MOST_FILES => include::files(word, level.origin, self.account),
            _ => Err(format!("there are more than {MOST_FILES} of them")),
        };
        match found {
            Ok((files, faults)) => {
                faults.into_iter().for_each(|fault| self.warn(place, fault));
                for file in files {
                    if let Err(fault) = self.include_file(&file, level) {
                        self.outline.obscure(level.section);
                        self.warn(place, fault);
                    }
                }
            }
            Err(fault) => {
                let word = String::from_utf8_lossy(word);
                self.outline.obscure(level.section);
                self.warn(place, format!("cannot include {word:?}: {fault}"));
            }
        }
    }

    /// Reads a file on behalf of another one. The error is what has kept it from that, so that nobody
    /// knows what it would have said.
    fn include_file(&mut self, file: &Path, level: &Level) -> Result<(), String> {
        if self.files >= MOST_FILES || self.bytes >= MOST_BYTES {
            return Err(format!("cannot include more than {MOST_FILES} files, or {MOST} in all"));
        }
        if self.stack.len() > DEEPEST {
            return Err(format!("cannot include {file:?}: more than {DEEPEST} levels"));
        }
        if identity(file).is_some_and(|identity| self.stack.contains(&identity)) {
            return Err(format!("cannot include {file:?}: it is the one that includes"));
        }
        match self.file(file, level.origin, Some(level.section)) {
            Ok(()) => {
                self.check_owner(file);
                Ok(())
            }
            // It has gone since it was found: for ssh no fault.
            Err(error) if *error.kind() == ErrorKind::Os(sys::errno::ENOENT) => Ok(()),
            Err(error) => Err(error.message().to_owned()),
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
