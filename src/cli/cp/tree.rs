//! Copying one thing after the other, whatever comes of the others.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::operand::{Operand, Target};
use super::progress::Progress;
use crate::cli::arguments::{escaped, say_error};
use crate::cli::files::{
    self, Failure, Parts, Shared, Store, Temporaries, Wanted, kind, look, look_at_link, set_mode,
    wire,
};
use crate::cli::fs::name;
use crate::environment::ExecEnvironment;
use crate::protocol::{
    CopyParams, DirEntry, FileType, MkdirParams, Mode, PathParams, StatParams, StatResult,
};

/// What copies, and what has come of it so far.
pub(super) struct Copier {
    /// Of what is here, and of what is there.
    stores: [Store; 2],
    part: usize,
    recursive: bool,
    temporaries: Arc<Temporaries>,
    progress: Progress,
    /// The exit code.
    code: u8,
}

/// Something to copy: where it comes from and goes to.
struct Item<'a> {
    from: &'a Shared,
    path: PathBuf,
    /// Whether it goes there; here otherwise.
    to_there: bool,
    target: PathBuf,
    /// Nothing can be at the target: its directory is new.
    is_new: bool,
}

impl Copier {
    pub(super) fn new(
        environments: [Shared; 2],
        recursive: bool,
        temporaries: &Arc<Temporaries>,
    ) -> Result<Self, Failure> {
        let part = files::part(&*environments[1])?;
        let stores = environments
            .map(|environment| Store { environment, temporaries: Arc::clone(temporaries) });
        let (temporaries, progress) = (Arc::clone(temporaries), Progress::new());
        Ok(Self { stores, part, recursive, temporaries, progress, code: 0 })
    }

    /// Where a path is.
    pub(super) fn environment(&self, operand: &Operand) -> &Shared {
        &self.stores[usize::from(operand.is_there())].environment
    }

    /// The exit code, if nothing else happens.
    pub(super) fn code(&self) -> u8 {
        self.code
    }

    /// Copies what the command line names.
    ///
    /// # Errors
    /// There is no use in going on; all else has been said.
    pub(super) fn copy(
        &mut self,
        source: &Operand,
        to: &Operand,
        target: &Target,
    ) -> Result<(), Failure> {
        let copied = self.copy_one(source, to, target);
        self.settle(copied)
    }

    fn copy_one(&mut self, source: &Operand, to: &Operand, target: &Target) -> Result<(), Failure> {
        let from = Arc::clone(self.environment(source));
        let path = source.path().to_path_buf();
        let stat = from.stat(&StatParams { path: wire(&path)?, follow_symlinks: None });
        let is_directory = stat.as_ref().is_ok_and(|stat| stat.file_type == FileType::Directory);
        if matches!(target, Target::Path { marked: true }) && !is_directory {
            let shown = to.shown();
            return Err(stat.err().map_or_else(
                || Failure::not_done(format!("cannot copy to {shown}: no such directory")),
                Failure::from,
            ));
        }
        let target = target.of(to, source);
        if source.is_there() && to.is_there() {
            return self.within(&*from, path, target);
        }
        let stat = stat?;
        if is_directory && self.is_within(source, to, &target) {
            let shown = source.shown();
            return Err(Failure::not_done(format!("cannot copy {shown} into itself")));
        }
        let to_there = to.is_there();
        let item = Item { from: &from, path, to_there, target, is_new: false };
        match stat.file_type {
            FileType::Directory if self.recursive => self.tree(&item, &stat),
            FileType::Directory => {
                let shown = source.shown();
                Err(Failure::not_done(format!("cannot copy {shown}: it is a directory (see -r)")))
            }
            FileType::File => self.file(&item, &stat),
            other => Err(left_out(&item.path, other)),
        }
    }

    /// Whether a tree would be copied into itself, where both sides are one.
    fn is_within(&self, source: &Operand, to: &Operand, target: &Path) -> bool {
        let (from, to) = (self.environment(source), self.environment(to));
        if !(from.local() && to.local()) {
            return false;
        }
        let target = to.cwd().join(target);
        let above = target.ancestors().find_map(|path| path.canonicalize().ok());
        let source = from.cwd().join(source.path()).canonicalize();
        above.zip(source.ok()).is_some_and(|(above, source)| above.starts_with(source))
    }

    /// Copies within the environment, which does it itself.
    fn within(
        &self,
        environment: &dyn ExecEnvironment,
        mut from: PathBuf,
        mut to: PathBuf,
    ) -> Result<(), Failure> {
        let is_link = |path: &Path| -> Result<bool, Failure> {
            let link = look_at_link(environment, path)?;
            Ok(link.is_some_and(|link| link.file_type == FileType::Symlink))
        };
        let resolve = |path: &Path| -> Result<PathBuf, Failure> {
            let resolved = environment.realpath(&PathParams { path: wire(path)? })?;
            Ok(resolved.path.as_path().to_path_buf())
        };
        if !self.recursive && is_link(&from)? {
            from = resolve(&from)?;
        }
        if is_link(&to)? && look(environment, &to)?.is_some() {
            to = resolve(&to)?;
        }
        let recursive = self.recursive.then_some(true);
        let params = CopyParams { from: wire(from)?, to: wire(to)?, recursive };
        Ok(environment.copy(&params)?)
    }

    fn tree(&mut self, item: &Item<'_>, stat: &StatResult) -> Result<(), Failure> {
        // Before it is made: it may be seen within itself.
        let entries = item.from.readdir(&PathParams { path: wire(&item.path)? })?.entries;
        let to = Arc::clone(&self.stores[usize::from(item.to_there)].environment);
        let path = wire(&item.target)?;
        let standing = if item.is_new { None } else { look(&*to, &item.target)? };
        let is_new = standing.is_none();
        // Its owner must be able to fill it.
        let mode = Mode::try_from(stat.mode | 0o700).ok();
        match standing {
            Some(standing) if standing.file_type != FileType::Directory => {
                let shown = escaped(item.target.as_os_str());
                let what = kind(standing.file_type);
                let message = format!("cannot copy a directory onto {shown}: it is {what}");
                return Err(Failure::not_done(message));
            }
            Some(_) => {}
            None => {
                let params = MkdirParams { path: path.clone(), recursive: Some(false), mode };
                self.temporaries.while_open(|| to.mkdir(&params))?;
            }
        }
        for entry in entries {
            let copied = self.entry(item, &entry, is_new);
            self.settle(copied)?;
        }
        match Mode::try_from(stat.mode) {
            Ok(wanted) if is_new && mode != Some(wanted) => Ok(set_mode(&*to, &path, wanted)?),
            _ => Ok(()),
        }
    }

    fn entry(&mut self, above: &Item<'_>, entry: &DirEntry, is_new: bool) -> Result<(), Failure> {
        let name = name(entry);
        let (path, target) = (above.path.join(&name), above.target.join(&name));
        let item = Item { from: above.from, path, to_there: above.to_there, target, is_new };
        let shown = escaped(item.path.as_os_str());
        let linked = match (entry.file_type, entry.target_type) {
            (FileType::Symlink, Some(Some(target))) => Some(target),
            (FileType::Symlink, _) => {
                let message = format!("{shown} is left out: a symbolic link that leads nowhere");
                return Err(Failure::not_done(message));
            }
            _ => None,
        };
        match linked.unwrap_or(entry.file_type) {
            FileType::Directory if linked.is_some() => {
                let message = format!("{shown} is left out: a symbolic link to a directory");
                Err(Failure::not_done(message))
            }
            kind @ (FileType::File | FileType::Directory) => {
                let path = wire(&item.path)?;
                let params = StatParams { path, follow_symlinks: None };
                let stat = item.from.stat(&params)?;
                if kind == FileType::Directory {
                    return self.tree(&item, &stat);
                }
                if linked.is_some() {
                    self.progress.clear();
                    say_error(&format!("note: {shown} is a symbolic link; the file is copied"));
                }
                self.file(&item, &stat)
            }
            other => Err(left_out(&item.path, other)),
        }
    }

    fn file(&mut self, item: &Item<'_>, stat: &StatResult) -> Result<(), Failure> {
        let wanted = Wanted {
            path: item.target.clone(),
            mode: Mode::try_from(stat.mode).ok(),
            always: true,
            is_new: item.is_new,
            ..Wanted::default()
        };
        let progress = &mut self.progress;
        progress.start(&escaped(item.path.as_os_str()), stat.size);
        let size = (self.part, stat.size);
        let mut parts = Parts::new(&**item.from, wire(&item.path)?, (0, None), size);
        let store = &self.stores[usize::from(item.to_there)];
        let stored = store.put(&wanted, &mut || {
            let part = parts.next()?;
            progress.add(part.as_ref().map_or(0, Vec::len));
            Ok(part)
        })?;
        stored.mode_refused.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Says what has failed, and goes on unless there is no use in that.
    fn settle(&mut self, outcome: Result<(), Failure>) -> Result<(), Failure> {
        let Err(failure) = outcome else { return Ok(()) };
        self.progress.clear();
        if failure.is_final() || !self.temporaries.is_open() {
            return Err(failure);
        }
        self.code = failure.say();
        Ok(())
    }
}

fn left_out(path: &Path, file_type: FileType) -> Failure {
    let (shown, what) = (escaped(path.as_os_str()), kind(file_type));
    Failure::not_done(format!("{shown} is left out: it is {what}"))
}
