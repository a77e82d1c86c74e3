//! Lines in the files below a directory, or in one file.

use std::cmp::Ordering;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{self, available_parallelism};

use crossbeam_channel::{Receiver, Sender, bounded};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder};

use super::least::Least;
use super::lines::Lines;
use super::tree::{Tree, may_come_before, plain, relative};
use super::{Leave, STACK, check_length, lost, on_own_thread, room, weigh};
use crate::error::{Error, Result};
use crate::fs::{self, Subject};
use crate::protocol::{GrepMatch, GrepParams, GrepResult};
use crate::sync::lock;

const LIMIT: usize = 100;
const MOST_CONTEXT: u32 = 1000;
/// Threads that read files, at most: as many as ripgrep would use.
const MOST_READERS: usize = 12;
/// Paths that wait for one of them; enough that none waits for the next.
const WAITING: usize = 256;
/// A line that is longer than this cannot be searched.
const LONGEST_LINE: usize = 32 * 1024 * 1024;
/// What a pattern may be compiled into.
const MOST_COMPILED: usize = 16 * 1024 * 1024;

/// Finds lines that match below `root`, or in it if it is a file; `root` is `params.path` made
/// absolute. A message may have `longest` bytes.
///
/// # Errors
/// `InvalidParams` where the pattern or a glob is none; `NotAFile` and the errno of opening the
/// root; `ECANCELED`.
pub(crate) fn grep(
    root: &Path,
    params: &GrepParams,
    longest: usize,
    leave: &Leave,
) -> Result<GrepResult> {
    on_own_thread(|| {
        let matcher = matcher(params)?;
        let root = plain(root);
        let limit = params.limit.map_or(LIMIT, |limit| limit.get() as usize);
        let search = Search {
            root: &root,
            matcher,
            context: context(params)?,
            limit,
            found: Arc::new(Mutex::new(Least::new(limit, room(longest)))),
            leave,
        };
        match fs::subject(&root, "search")? {
            Subject::File(file) => {
                let name = Path::new(root.file_name().unwrap_or(root.as_os_str()));
                search.read(&mut search.searcher(), name, file);
            }
            Subject::Directory => search.walk(params)?,
        }
        leave.check()?;
        let found = std::mem::replace(&mut *lock(&search.found), Least::new(0, 0));
        let (matches, truncated) = found.into_sorted();
        Ok(GrepResult { matches: matches.into_iter().map(|found| found.0).collect(), truncated })
    })
}

/// The pattern as ripgrep would read it.
fn matcher(params: &GrepParams) -> Result<RegexMatcher> {
    check_length("pattern", &params.pattern)?;
    RegexMatcherBuilder::new()
        .multi_line(true)
        .octal(false)
        .case_insensitive(params.ignore_case.unwrap_or(false))
        .fixed_strings(params.literal.unwrap_or(false))
        .line_terminator(Some(b'\n'))
        .ban_byte(Some(0))
        .size_limit(MOST_COMPILED)
        .dfa_size_limit(MOST_COMPILED)
        .build(&params.pattern)
        .map_err(|error| Error::params(format!("pattern: {error}")))
}

fn context(params: &GrepParams) -> Result<usize> {
    match params.context.unwrap_or(0) {
        context if context <= MOST_CONTEXT => Ok(context as usize),
        context => Err(Error::params(format!("context is 0 to {MOST_CONTEXT}, not {context}"))),
    }
}

/// One search, shared by the threads that read files.
struct Search<'a> {
    root: &'a Path,
    matcher: RegexMatcher,
    context: usize,
    limit: usize,
    found: Arc<Mutex<Least<Found>>>,
    leave: &'a Leave,
}

impl Search<'_> {
    /// One thread walks, and others read what it finds.
    fn walk(&self, params: &GrepParams) -> Result<()> {
        let tree = Tree {
            root: self.root,
            hidden: params.hidden.unwrap_or(true),
            gitignore: params.gitignore.unwrap_or(true),
            max_depth: None,
            globs: params.glob.iter().map(|glob| ("glob", glob.clone())).collect(),
        };
        let readers = available_parallelism().map_or(1, usize::from).min(MOST_READERS);
        let (paths, waiting) = bounded(WAITING);
        thread::scope(|scope| {
            let mut threads = Vec::with_capacity(readers);
            for _ in 0..readers {
                let waiting = waiting.clone();
                let thread = thread::Builder::new().name("search".to_owned()).stack_size(STACK);
                match thread.spawn_scoped(scope, move || self.read_all(&waiting)) {
                    Ok(thread) => threads.push(thread),
                    // Fewer do as well, and none is told.
                    Err(error) if threads.is_empty() => {
                        return Err(Error::io(&error, "cannot make a thread for the search"));
                    }
                    Err(_) => break,
                }
            }
            drop(waiting);
            let walked = self.submit(&tree, &paths);
            drop(paths);
            let ends: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
            if ends.iter().any(std::result::Result::is_err) {
                return Err(lost());
            }
            walked
        })
    }

    fn submit(&self, tree: &Tree<'_>, paths: &Sender<PathBuf>) -> Result<()> {
        let so_far = Arc::clone(&self.found);
        let may_hold = move |directory: &[u8]| {
            let found = lock(&so_far);
            found.bound().is_none_or(|bound: &Found| may_come_before(directory, bound.path()))
        };
        tree.walk(self.leave, may_hold, |entry| {
            if entry.file_type().is_some_and(|kind| kind.is_file())
                && self.is_wanted(relative(entry.path(), self.root).as_bytes())
            {
                // (All that take them have panicked: that is told when they are joined.)
                paths.send(entry.into_path()).map_err(|_| lost())?;
            }
            Ok(())
        })
    }

    /// Whether a match in a file of that path could be among those that are answered.
    fn is_wanted(&self, path: &[u8]) -> bool {
        lock(&self.found).bound().is_none_or(|bound| path <= bound.path())
    }

    /// A reading thread's life.
    fn read_all(&self, waiting: &Receiver<PathBuf>) {
        let mut searcher = self.searcher();
        for path in waiting {
            let name = Path::new(relative(&path, self.root));
            if self.leave.has_ended() || !self.is_wanted(name.as_os_str().as_bytes()) {
                continue;
            }
            // What cannot be read is passed over, as ripgrep does.
            if let Ok(Some(file)) = fs::open_entry(&path) {
                self.read(&mut searcher, name, file);
            }
        }
    }

    /// Files are read and never mapped: one that is cut meanwhile would end the server.
    fn searcher(&self) -> Searcher {
        SearcherBuilder::new()
            .line_number(true)
            .before_context(self.context)
            .after_context(self.context)
            .binary_detection(BinaryDetection::quit(0))
            .memory_map(MmapChoice::never())
            .heap_limit(Some(LONGEST_LINE))
            .build()
    }

    fn read(&self, searcher: &mut Searcher, path: &Path, file: std::fs::File) {
        let file = Watched { file, leave: self.leave };
        let mut lines = Lines::new(path, self.context, self.limit, |found| {
            let bytes = weigh(&found);
            lock(&self.found).offer(Found(found), bytes);
        });
        let read = searcher.search_reader(&self.matcher, file, &mut lines);
        let is_cut = lines.finish();
        // (A line that is too long, or a disk that fails: what matched before it counts.)
        if is_cut || read.is_err() {
            lock(&self.found).cut();
        }
    }
}

/// A file that has no more once nobody wants it.
struct Watched<'a> {
    file: std::fs::File,
    leave: &'a Leave,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.leave.has_ended() {
            return Ok(0);
        }
        self.file.read(buffer)
    }
}

/// Ordered by path, byte by byte, and by line.
struct Found(GrepMatch);

impl Found {
    fn path(&self) -> &[u8] {
        self.0.path.as_path().as_os_str().as_bytes()
    }

    fn key(&self) -> (&[u8], u64) {
        (self.path(), self.0.line)
    }
}

impl Ord for Found {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Found {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Found {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Found {}
