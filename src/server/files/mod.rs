//! The file requests of one connection: what each one asks for, and its answer.

mod budget;
mod queue;
mod schedule;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::epochs::Fence;
use super::responder::Responder;
use crate::buffers;
use crate::environment::Machine;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{self, Part};
use crate::process::Order;
use crate::protocol::{
    CopyParams, Empty, FindParams, GrepParams, MkdirParams, Mode, PathParams, ProcessId,
    ReadFileParams, ReaddirResult, RealpathResult, RemoveParams, RenameParams, StatParams,
    WirePath, WriteFileParams, file_content,
};
use crate::search::{self, Leave, Searches};
use crate::transport::Outbox;
use budget::{Budget, MOST, Share};
use queue::{Job, Queue, Turn};
pub(super) use schedule::Kind;

/// How long a file system may bring nothing to its end before a peer's last requests are given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the end of a connection waits for what is being written.
const ENDING: Duration = Duration::from_secs(3);
/// What an answer takes of the budget at least, so that a small file of no size fits.
const SMALLEST_SHARE: usize = 256 * 1024;
const LONGEST_VERSION: usize = 256;
/// What an answer has around its bytes, its id aside: names of members, sizes, a version.
const AROUND: usize = 512;

/// The file requests of one connection.
pub(super) struct Files {
    queue: Queue,
    fence: Arc<Fence>,
    environment: Arc<Machine>,
    answers: Answers,
    searches: Searches,
}

/// What holds an id among those of the processes.
type Place = crate::registry::Place<Order>;

/// How answers get out.
#[derive(Clone)]
struct Answers {
    budget: Arc<Budget>,
    /// The longest message there may be.
    longest: usize,
}

impl Files {
    pub(super) fn new(environment: &Arc<Machine>, longest: usize, fence: &Arc<Fence>) -> Self {
        let answers = Answers { budget: Arc::default(), longest };
        let environment = Arc::clone(environment);
        let fence = Arc::clone(fence);
        Self { queue: Queue::new(), fence, environment, answers, searches: Searches::default() }
    }

    pub(super) fn read_file(&self, params: &ReadFileParams, responder: Responder) {
        let Some(([path], responder)) = self.paths([&params.path], responder) else { return };
        let part = Part { offset: params.offset.unwrap_or(0), length: params.length };
        let (answers, paths) = (self.answers.clone(), vec![path.clone()]);
        let read = move |turn: &Turn, responder| answers.read(turn, &path, part, responder);
        self.submit(Kind::Read, paths, responder, Box::new(read));
    }

    pub(super) fn write_file(&self, mut params: WriteFileParams, responder: Responder) {
        let Some(([path], responder)) = self.paths([&params.path], responder) else { return };
        // What is as long as that is no version, and waits as this one.
        if let Some(version) = params.if_version.as_mut().filter(|it| it.len() > LONGEST_VERSION) {
            *version = "?".to_owned();
        }
        let terms = fs::Terms::of(&params);
        let content = params.data_base64.0;
        if let Err(error) = self.queue.admit(content.len()) {
            return responder.send::<()>(&Err(error));
        }
        let (bytes, paths) = (content.len(), vec![path.clone()]);
        let write = move |_: &Turn, responder: Responder| {
            let written = fs::write(&path, &content, &terms);
            // Whoever has the answer may send as much again.
            buffers::give(content);
            responder.send(&written);
        };
        self.enqueue(Kind::Change, paths, bytes, responder, Box::new(write));
    }

    pub(super) fn stat(&self, params: &StatParams, responder: Responder) {
        let Some(([path], responder)) = self.paths([&params.path], responder) else { return };
        let follow = params.follow_symlinks.unwrap_or(true);
        self.answer(Kind::Look, vec![path.clone()], responder, move || fs::stat(&path, follow));
    }

    pub(super) fn readdir(&self, params: &PathParams, responder: Responder) {
        let Some(([path], responder)) = self.paths([&params.path], responder) else { return };
        let (answers, paths) = (self.answers.clone(), vec![path.clone()]);
        let list = move |turn: &Turn, responder| answers.list(turn, &path, responder);
        self.submit(Kind::Read, paths, responder, Box::new(list));
    }

    pub(super) fn mkdir(&self, params: &MkdirParams, responder: Responder) {
        let Some(([path], responder)) = self.paths([&params.path], responder) else { return };
        let recursive = params.recursive.unwrap_or(true);
        let mode = params.mode.map(Mode::bits);
        let paths = vec![path.clone()];
        self.change(paths, responder, Box::new(move || fs::make(&path, recursive, mode)));
    }

    pub(super) fn remove(&self, params: &RemoveParams, responder: Responder) {
        let Some(([path], responder)) = self.paths([&params.path], responder) else { return };
        let recursive = params.recursive.unwrap_or(false);
        let force = params.force.unwrap_or(false);
        let (environment, paths) = (Arc::clone(&self.environment), vec![path.clone()]);
        let remove = move || fs::remove(&path, recursive, force, environment.cwd());
        self.change(paths, responder, Box::new(remove));
    }

    pub(super) fn rename(&self, params: &RenameParams, responder: Responder) {
        let paths = self.paths([&params.from, &params.to], responder);
        let Some(([from, to], responder)) = paths else { return };
        let paths = vec![from.clone(), to.clone()];
        self.change(paths, responder, Box::new(move || fs::rename(&from, &to)));
    }

    pub(super) fn copy(&self, params: &CopyParams, responder: Responder) {
        let paths = self.paths([&params.from, &params.to], responder);
        let Some(([from, to], responder)) = paths else { return };
        let recursive = params.recursive.unwrap_or(false);
        let paths = vec![from.clone(), to.clone()];
        self.change(paths, responder, Box::new(move || fs::copy(&from, &to, recursive)));
    }

    pub(super) fn realpath(&self, params: &PathParams, responder: Responder) {
        let Some(([path], responder)) = self.paths([&params.path], responder) else { return };
        self.answer(Kind::Look, vec![path.clone()], responder, move || {
            let path = fs::realpath(&path)?;
            let path = WirePath::try_from(path).map_err(Error::params)?;
            Ok(RealpathResult { path })
        });
    }

    pub(super) fn find(&self, params: FindParams, responder: Responder, place: Option<Place>) {
        let id = params.process_id.clone();
        self.search(&params.path.clone(), id, responder, place, move |path, longest, leave| {
            search::find(path, &params, longest, leave)
        });
    }

    pub(super) fn grep(&self, params: GrepParams, responder: Responder, place: Option<Place>) {
        let id = params.process_id.clone();
        self.search(&params.path.clone(), id, responder, place, move |path, longest, leave| {
            search::grep(path, &params, longest, leave)
        });
    }

    /// A search holds the place of its id, if it has one, until it is answered.
    fn search<T: Serialize>(
        &self,
        path: &WirePath,
        id: Option<ProcessId>,
        responder: Responder,
        place: Option<Place>,
        search: impl FnOnce(&Path, usize, &Leave) -> Result<T> + Send + 'static,
    ) {
        let Some(([path], responder)) = self.paths([path], responder) else { return };
        let running = self.searches.begin(id);
        let answers = self.answers.clone();
        let paths = vec![path.clone()];
        let search = move |turn: &Turn, responder: Responder| {
            let longest = answers.longest.saturating_sub(responder.id_size());
            // What it waits for is not taken for a file system that hangs.
            let found = turn.park(|| search(&path, longest, running.leave()));
            // The host may use the id again as soon as it has the answer.
            drop((running, place));
            match found {
                Ok(found) => answers.send(turn, &found, responder),
                Err(error) => responder.send::<()>(&Err(error)),
            }
        };
        self.submit(Kind::Search, paths, responder, Box::new(search));
    }

    /// Carries out what another dialect asks of absolute paths, holding so many bytes until then, and
    /// answers what comes of it.
    pub(super) fn carry_out<T: Serialize>(
        &self,
        (kind, paths, bytes): (Kind, Vec<PathBuf>, usize),
        responder: Responder,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) {
        if let Err(error) = self.queue.admit(bytes) {
            return responder.send::<()>(&Err(error));
        }
        let answers = self.answers.clone();
        let run = move |turn: &Turn, responder: Responder| match work() {
            Ok(result) => answers.send(turn, &result, responder),
            Err(error) => responder.send::<()>(&Err(error)),
        };
        self.enqueue(kind, paths, bytes, responder, Box::new(run));
    }

    /// Ends the search of that id. `false` where there is none.
    pub(super) fn end_search(&self, id: &ProcessId) -> bool {
        self.searches.end(id)
    }

    /// Whether all has been done, and all long answers have been written.
    pub(super) fn are_idle(&self) -> bool {
        self.queue.is_empty() && self.answers.budget.is_whole()
    }

    /// The peer has said all it had to say: that is done and answered. `hurry` tells that there is
    /// no time for it any more.
    pub(super) fn finish(&self, outbox: &Outbox, hurry: &dyn Fn() -> bool) {
        // A long copy goes on, and so does a host that reads slowly. (Where there are many peers,
        // what goes on may be another's; nobody waits for the answer there.)
        let files = || if outbox.is_stdio() { fs::progress() } else { 0 };
        let moved = || (files(), outbox.progress());
        self.queue.finish(PATIENCE, &moved, hurry);
    }

    /// The connection is over: nothing more is begun. Where a newer host waits for that, no read
    /// is waited for; the gate tells when the changes are over.
    pub(super) fn stop(&self) {
        self.searches.end_all();
        self.answers.budget.end();
        self.queue.stop(ENDING, &|| self.fence.is_down());
    }

    /// Paths as they are meant here; or the answer that one of them cannot be any, which need not
    /// wait, with all that it weighs, for its turn.
    fn paths<const N: usize>(
        &self,
        paths: [&WirePath; N],
        responder: Responder,
    ) -> Option<([PathBuf; N], Responder)> {
        let mut failed = None;
        let paths = paths.map(|path| {
            self.environment.resolve_path(path.as_path()).unwrap_or_else(|error| {
                failed.get_or_insert(error);
                PathBuf::new()
            })
        });
        match failed {
            None => Some((paths, responder)),
            Some(error) => {
                responder.send::<()>(&Err(error));
                None
            }
        }
    }

    fn change(
        &self,
        paths: Vec<PathBuf>,
        responder: Responder,
        work: Box<dyn FnOnce() -> Result<()> + Send>,
    ) {
        self.answer(Kind::Change, paths, responder, move || work().map(|()| Empty {}));
    }

    fn answer<T: Serialize>(
        &self,
        kind: Kind,
        paths: Vec<PathBuf>,
        responder: Responder,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) {
        let answer = move |_: &Turn, responder: Responder| responder.send(&work());
        self.submit(kind, paths, responder, Box::new(answer));
    }

    fn submit(&self, kind: Kind, paths: Vec<PathBuf>, responder: Responder, run: Run) {
        match self.queue.admit(0) {
            Ok(()) => self.enqueue(kind, paths, 0, responder, run),
            Err(error) => responder.send::<()>(&Err(error)),
        }
    }

    fn enqueue(
        &self,
        kind: Kind,
        paths: Vec<PathBuf>,
        bytes: usize,
        responder: Responder,
        run: Run,
    ) {
        let gate = (kind == Kind::Change).then(|| Arc::clone(self.fence.gate()));
        let run = Box::new(move |turn: Result<&Turn>| match turn {
            Ok(turn) => match gate.map(|gate| gate.enter()) {
                None => run(turn, responder),
                Some(Some(pass)) => pass.carry(|| run(turn, responder)),
                // It is answered as fenced.
                Some(None) => drop(responder),
            },
            Err(error) => responder.send::<()>(&Err(error)),
        });
        self.queue.submit(Job { kind, paths, bytes, run });
    }
}

/// How a request is carried out, and answered, when its turn has come.
type Run = Box<dyn FnOnce(&Turn, Responder) + Send>;

impl Answers {
    fn read(&self, turn: &Turn, path: &Path, part: Part, responder: Responder) {
        let room = self.longest.saturating_sub(AROUND + responder.id_size());
        let most = (room / 4 * 3) as u64;
        let reading = match fs::open(path) {
            Ok(reading) => reading,
            Err(error) => return responder.send::<()>(&Err(error)),
        };
        let expected = usize::try_from(reading.expected(part).min(most)).unwrap_or(usize::MAX);
        let size = expected.div_ceil(3) * 4 + AROUND + responder.id_size();
        let mut granted = size.max(SMALLEST_SHARE);
        let mut share = self.share(turn, granted);
        let mut buffer = responder.begin(size);
        file_content::begin(&mut buffer);
        let read = reading.read(part, most, |piece| {
            // Files of /proc have no size before they are read, and others may have grown: what
            // comes to more than was thought comes while nothing else does.
            if buffer.len() + piece.len().div_ceil(3) * 4 > granted {
                drop(share.take());
                share = turn.park(|| self.budget.take(MOST));
                granted = usize::MAX;
            }
            if share.is_some() {
                file_content::add(&mut buffer, piece);
            }
        });
        let Some(share) = share else { return };
        match read {
            Ok(end) => {
                file_content::end(&mut buffer, end.size, end.eof, reading.version());
                turn.park(|| responder.finish(buffer, Box::new(share)));
            }
            Err(error) => responder.send::<()>(&Err(error)),
        }
    }

    fn list(&self, turn: &Turn, path: &Path, responder: Responder) {
        // A long list is made while nothing else is: only then its size is known.
        let mut share = None;
        let listed = fs::list(path, &mut || {
            share = turn.park(|| self.budget.take(MOST));
            share.is_some()
        });
        let entries = match listed {
            Ok(entries) => entries,
            Err(error) => return responder.send::<()>(&Err(error)),
        };
        let count = entries.len();
        let mut buffer = responder.begin(count * 64 + AROUND);
        crate::protocol::rpc::write_json(&mut buffer, &ReaddirResult { entries });
        if buffer.len() > self.longest {
            let message = format!(
                "cannot list {path:?} in one answer: its {count} entries take more than a message \
                 may have (--max-message-bytes)"
            );
            return responder.send::<()>(&Err(Error::new(ErrorKind::TooLarge, message)));
        }
        let Some(share) = share.or_else(|| self.share(turn, buffer.len())) else { return };
        turn.park(|| responder.finish(buffer, Box::new(share)));
    }

    /// Sends what has been found.
    fn send(&self, turn: &Turn, result: &impl Serialize, responder: Responder) {
        let mut buffer = responder.begin(AROUND);
        crate::protocol::rpc::write_json(&mut buffer, result);
        let Some(share) = self.share(turn, buffer.len()) else { return };
        turn.park(|| responder.finish(buffer, Box::new(share)));
    }

    fn share(&self, turn: &Turn, bytes: usize) -> Option<Share> {
        self.budget.try_take(bytes).or_else(|| turn.park(|| self.budget.take(bytes)))
    }
}
