//! Copying one thing after the other, whatever comes of the others.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::item::Item;
use super::operand::{Operand, Target};
use super::small;
use super::tally::Tally;
use crate::cli::arguments::escaped;
use crate::cli::end::End;
use crate::cli::files::{
    self, Shared, Store, Temporaries, kind, look, look_at_link, set_mode, wire,
};
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
    /// Where the files stand now that the command line names.
    made: HashSet<PathBuf>,
    tally: Tally,
}

impl Copier {
    pub(super) fn new(
        environments: [Shared; 2],
        recursive: bool,
        temporaries: &Arc<Temporaries>,
    ) -> Result<Self, End> {
        let part = files::part(&*environments[1])?;
        let stores = environments
            .map(|environment| Store { environment, temporaries: Arc::clone(temporaries) });
        let tally = Tally::new(temporaries);
        Ok(Self { stores, part, recursive, made: HashSet::new(), tally })
    }

    /// Where a path is.
    pub(super) fn environment(&self, operand: &Operand) -> &Shared {
        &self.stores[usize::from(operand.is_there())].environment
    }

    /// The exit code, if nothing else happens.
    pub(super) fn code(&self) -> u8 {
        self.tally.code()
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
    ) -> Result<(), End> {
        let copied = self.copy_one(source, to, target);
        self.tally.settle(copied)
    }

    fn copy_one(&mut self, source: &Operand, to: &Operand, target: &Target) -> Result<(), End> {
        let from = Arc::clone(self.environment(source));
        let path = source.path().to_path_buf();
        let stat = from.stat(&StatParams { path: wire(&path)?, follow_symlinks: None });
        let is_directory = stat.as_ref().is_ok_and(|stat| stat.file_type == FileType::Directory);
        if matches!(target, Target::Path { marked: true }) && !is_directory {
            let shown = to.shown();
            return Err(stat.err().map_or_else(
                || End::refused(format!("cannot copy to {shown}: no such directory")),
                End::from,
            ));
        }
        let target = target.of(to, source);
        if !is_directory && !self.made.insert(target.clone()) {
            let (target, shown) = (escaped(target.as_os_str()), source.shown());
            let message = format!("cannot copy {shown} to {target}: another was just copied there");
            return Err(End::refused(message));
        }
        if source.is_there() && to.is_there() {
            return self.within(&*from, path, target);
        }
        let stat = stat?;
        if is_directory && self.is_within(source, to, &target) {
            let shown = source.shown();
            return Err(End::refused(format!("cannot copy {shown} into itself")));
        }
        let to_there = to.is_there();
        let item = Item { from: &from, path, to_there, target, is_new: false };
        match stat.file_type {
            FileType::Directory if self.recursive => self.tree(&item, &stat),
            FileType::Directory => {
                let shown = source.shown();
                Err(End::refused(format!("cannot copy {shown}: it is a directory (see -r)")))
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
    ) -> Result<(), End> {
        let is_link = |path: &Path| -> Result<bool, End> {
            let link = look_at_link(environment, path)?;
            Ok(link.is_some_and(|link| link.file_type == FileType::Symlink))
        };
        let resolve = |path: &Path| -> Result<PathBuf, End> {
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

    fn tree(&mut self, item: &Item<'_>, stat: &StatResult) -> Result<(), End> {
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
                return Err(End::refused(message));
            }
            Some(_) => {}
            None => {
                let params = MkdirParams { path: path.clone(), recursive: Some(false), mode };
                self.tally.temporaries.while_open(|| to.mkdir(&params))?;
            }
        }
        let is_file = |entry: &DirEntry| entry.file_type == FileType::File;
        let (files, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_file);
        let files: Vec<_> = files.iter().map(|entry| item.below(entry, is_new)).collect();
        small::copy(&files, &self.stores, self.part, &mut self.tally)?;
        for entry in others {
            let copied = self.entry(item, &entry, is_new);
            self.tally.settle(copied)?;
        }
        match Mode::try_from(stat.mode) {
            Ok(wanted) if is_new && mode != Some(wanted) => Ok(set_mode(&*to, &path, wanted)?),
            _ => Ok(()),
        }
    }

    fn entry(&mut self, above: &Item<'_>, entry: &DirEntry, is_new: bool) -> Result<(), End> {
        let item = above.below(entry, is_new);
        let shown = escaped(item.path.as_os_str());
        let linked = match (entry.file_type, entry.target_type) {
            (FileType::Symlink, Some(Some(target))) => Some(target),
            (FileType::Symlink, _) => {
                let message = format!("{shown} is left out: a symbolic link that leads nowhere");
                return Err(End::refused(message));
            }
            _ => None,
        };
        match linked.unwrap_or(entry.file_type) {
            FileType::Directory if linked.is_some() => {
                let message = format!("{shown} is left out: a symbolic link to a directory");
                Err(End::refused(message))
            }
            kind @ (FileType::File | FileType::Directory) => {
                let path = wire(&item.path)?;
                let params = StatParams { path, follow_symlinks: None };
                let stat = item.from.stat(&params)?;
                if kind == FileType::Directory {
                    return self.tree(&item, &stat);
                }
                if linked.is_some() {
                    self.tally.note(&format!("{shown} is a symbolic link; the file is copied"));
                }
                self.file(&item, &stat)
            }
            other => Err(left_out(&item.path, other)),
        }
    }

    fn file(&mut self, item: &Item<'_>, stat: &StatResult) -> Result<(), End> {
        item.copy(&self.stores, self.part, stat, &mut self.tally.progress)
    }
}

fn left_out(path: &Path, file_type: FileType) -> End {
    let (shown, what) = (escaped(path.as_os_str()), kind(file_type));
    End::refused(format!("{shown} is left out: it is {what}"))
}
