//! A file of any size on its way to an environment, whole or not at all.
//!
//! What fits into one message is one `fs/writeFile`, which keeps all that a file is besides its
//! content. What does not is appended, part by part, to a file without its final name beside it.
//! Where nothing has the final name, that file is renamed. Where a file has it, `fs/copy` gives that
//! one the new content, within the environment: a rename would lose its owner, its attributes and
//! its other names.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::interrupt::Temporary;
use super::{Shared, Temporaries, kind, look, look_at_link, wire};
use crate::buffers;
use crate::environment::{Answer, ExecEnvironment};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{
    ANY_VERSION, CopyParams, FileType, Mode, PathParams, RenameParams, SpawnParams, StatResult,
    WirePath, WriteFileParams, WriteFileResult,
};
use crate::sys;
use crate::sys::host;

/// Parts that are under way at once.
const AHEAD: usize = 4;

/// Where files go.
pub(in crate::cli) struct Store {
    pub(in crate::cli) environment: Shared,
    pub(in crate::cli) temporaries: Arc<Temporaries>,
}

/// What is to be written, besides the bytes.
#[derive(Default)]
pub(in crate::cli) struct Wanted {
    pub(in crate::cli) path: PathBuf,
    /// The mode of a file that is new.
    pub(in crate::cli) mode: Option<Mode>,
    /// A file that is there gets it too.
    pub(in crate::cli) always: bool,
    pub(in crate::cli) parents: bool,
    /// It cannot be there yet.
    pub(in crate::cli) is_new: bool,
    pub(in crate::cli) if_version: Option<String>,
    pub(in crate::cli) sync: bool,
}

/// A file that has been written.
pub(in crate::cli) struct Stored {
    /// What the answer to its one write was, if it was one.
    pub(in crate::cli) written: Option<WriteFileResult>,
    /// Why it has not the mode that it should have.
    pub(in crate::cli) mode_refused: Option<Error>,
}

/// What gives the bytes, part by part.
pub(in crate::cli) type Source<'a> = dyn FnMut() -> Result<Option<Vec<u8>>> + 'a;

impl Store {
    /// Writes a file.
    ///
    /// # Errors
    /// Those of the source and of the environment. What was there is as it was then, and nothing
    /// new is there.
    pub(in crate::cli) fn put(&self, wanted: &Wanted, source: &mut Source<'_>) -> Result<Stored> {
        let first = source()?.unwrap_or_default();
        let second = if first.is_empty() { None } else { source()? };
        let is_whole = second.is_none();
        if is_whole && !wanted.always {
            return self.put_at_once(wanted, first);
        }
        let standing = match wanted.is_new {
            true => None,
            false => look(&*self.environment, &wanted.path)?,
        };
        let keeps = match (&standing, wanted.mode) {
            (Some(standing), Some(mode)) => standing.mode == mode.bits(),
            _ => true,
        };
        if is_whole && keeps {
            return self.put_at_once(wanted, first);
        }
        let target = self.target(wanted, standing)?;
        self.put_in_parts(wanted, &target, [Some(first), second], source)
    }

    fn put_at_once(&self, wanted: &Wanted, content: Vec<u8>) -> Result<Stored> {
        let mut params = WriteFileParams::new(wire(&wanted.path)?, content);
        params.mode = wanted.mode;
        params.create_parents = wanted.parents.then_some(true);
        params.if_version.clone_from(&wanted.if_version);
        params.sync = wanted.sync.then_some(true);
        let answer = self.temporaries.while_open(|| self.environment.begin_write_file(&params))?;
        let written = Some(answer.wait()?);
        buffers::give(params.data_base64.0);
        Ok(Stored { written, mode_refused: None })
    }

    /// Where it is to stand in the end.
    fn target(&self, wanted: &Wanted, standing: Option<StatResult>) -> Result<Target> {
        let path = &wanted.path;
        check_version(wanted, standing.as_ref())?;
        let link = look_at_link(&*self.environment, path)?;
        let is_link = link.is_some_and(|link| link.file_type == FileType::Symlink);
        let refused = |why: &str| {
            let message = format!("cannot write {path:?}: {why}");
            Err(Error::new(ErrorKind::NotAFile, message))
        };
        match &standing {
            None if is_link => return refused("it is a symbolic link that leads nowhere"),
            Some(standing) if standing.file_type != FileType::File => {
                let what = kind(standing.file_type);
                return refused(&format!("it is {what}, and no regular file"));
            }
            // Before all of it is on its way.
            Some(standing) if !standing.writable => {
                return Err(Error::os(sys::errno::EACCES, format!("cannot write {path:?}")));
            }
            _ => {}
        }
        let path = match is_link {
            true => self.environment.realpath(&PathParams { path: wire(path)? })?.path,
            false => wire(path)?,
        };
        Ok(Target { path, standing })
    }

    fn put_in_parts(
        &self,
        wanted: &Wanted,
        target: &Target,
        read: [Option<Vec<u8>>; 2],
        source: &mut Source<'_>,
    ) -> Result<Stored> {
        let standing = target.standing.as_ref().filter(|_| !wanted.always);
        let mode = match standing {
            Some(standing) => Mode::try_from(standing.mode).ok(),
            None => wanted.mode,
        };
        let beside = self.beside(target)?;
        let temporary = self.temporaries.add(&self.environment, wire(&beside)?)?;
        let named = |error: Error| name_target(&error, &beside, target.path.as_path());
        let mut upload =
            Upload { store: self, temporary: &temporary, size: 0, mode, sent: VecDeque::new() };
        for part in read.into_iter().flatten() {
            upload.add(part, wanted.parents, named)?;
        }
        while let Some(part) = source()? {
            upload.add(part, false, named)?;
        }
        upload.finish().map_err(named)?;
        if wanted.sync {
            self.flush(temporary.path()).map_err(named)?;
        }
        let mode_refused = self.complete_mode(&temporary, mode)?;
        if wanted.if_version.is_some() {
            check_version(wanted, look(&*self.environment, &wanted.path)?.as_ref())?;
        }
        self.place(temporary, target).map_err(named)?;
        // Its new name too, unless its owner may not write it: then there is no way to ask for that.
        if wanted.sync && mode.is_none_or(|mode| mode.bits() & 0o200 != 0) {
            self.flush(&target.path)?;
        }
        Ok(Stored { written: None, mode_refused })
    }

    /// Has a file flushed to disk, and its directory: nothing is appended, and that is flushed.
    fn flush(&self, path: &WirePath) -> Result<()> {
        let mut nothing = WriteFileParams::new(path.clone(), Vec::new());
        (nothing.append, nothing.sync) = (Some(true), Some(true));
        self.temporaries.while_open(|| self.environment.begin_write_file(&nothing))?.wait()?;
        Ok(())
    }

    /// Gives it the bits that it could not have while it was written: a file that its owner may not
    /// write, setuid. Answers why it has not got them.
    fn complete_mode(&self, temporary: &Temporary, mode: Option<Mode>) -> Result<Option<Error>> {
        let Some(mode) = mode else { return Ok(None) };
        let path = temporary.path();
        let stat = look(&*self.environment, path.as_path())?;
        if stat.is_some_and(|stat| stat.mode == mode.bits()) {
            return Ok(None);
        }
        Ok(set_mode(&*self.environment, path, mode).err())
    }

    /// A name that nobody else has, beside it; where a file is there whose directory may not be
    /// written, among the temporary files of its machine: the content is copied onto it then.
    fn beside(&self, target: &Target) -> Result<PathBuf> {
        let number = host::random_number();
        let name = format!(".ta-part-{number:016x}");
        let path = target.path.as_path();
        if target.standing.is_some() {
            let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
            let directory = look(&*self.environment, directory.unwrap_or(Path::new(".")))?;
            if directory.is_some_and(|directory| !directory.writable) {
                return Ok(Path::new(&self.environment.about()?.tmpdir).join(name));
            }
        }
        Ok(path.with_file_name(name))
    }

    fn place(&self, temporary: Temporary, target: &Target) -> Result<()> {
        let (from, to) = (temporary.path().clone(), target.path.clone());
        if target.standing.is_some() {
            let params = CopyParams { from: from.clone(), to: to.clone(), recursive: None };
            // Not under the lock, since it may take long: what removes the source of the copy comes
            // after it.
            match self.environment.copy(&params) {
                // Room for one more is not there: better the file without its old owner than none.
                Err(error)
                    if is_full(&error) && from.as_path().parent() == to.as_path().parent() => {}
                outcome => return outcome,
            }
        }
        let params = RenameParams { from, to };
        self.temporaries.while_open(|| self.environment.rename(&params))?;
        temporary.placed();
        Ok(())
    }
}

/// Where a file is to stand in the end, and what stands there.
struct Target {
    path: WirePath,
    standing: Option<StatResult>,
}

/// A file that grows.
struct Upload<'a> {
    store: &'a Store,
    temporary: &'a Temporary,
    mode: Option<Mode>,
    /// What has been sent.
    size: u64,
    /// Writes without an answer, and the size that each is to make.
    sent: VecDeque<(u64, Answer<WriteFileResult>)>,
}

impl Upload<'_> {
    fn add(&mut self, part: Vec<u8>, parents: bool, named: impl Fn(Error) -> Error) -> Result<()> {
        let is_first = self.size == 0;
        self.size += part.len() as u64;
        let mut params = WriteFileParams::new(self.temporary.path().clone(), part);
        if is_first {
            // Its owner must be able to go on writing it.
            let mode = self.mode.and_then(|mode| Mode::try_from(mode.bits() | 0o200).ok());
            (params.mode, params.if_version) = (mode, Some(String::new()));
            params.create_parents = parents.then_some(true);
        } else {
            params.append = Some(true);
            // Where a connection is lost, what was on its way there may come after the file has been removed
            // on another one.
            params.if_version = Some(ANY_VERSION.to_owned());
        }
        // A lost connection is seen here: a call would make a new one first.
        while let Some((size, answer)) = self.sent.front()
            && let Some(written) = answer.wait_until(Instant::now()).map_err(&named)?
        {
            self.check(*size, &written).map_err(&named)?;
            self.sent.pop_front();
        }
        let Store { environment, temporaries } = self.store;
        let answer = temporaries.while_open(|| environment.begin_write_file(&params));
        self.sent.push_back((self.size, answer.map_err(&named)?));
        buffers::give(params.data_base64.0);
        // Without the first there is nothing to append to.
        let most = if is_first { 0 } else { AHEAD - 1 };
        while self.sent.len() > most {
            self.settle().map_err(&named)?;
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        let Some((size, answer)) = self.sent.pop_front() else { return Ok(()) };
        self.check(size, &answer.wait()?)
    }

    fn check(&self, size: u64, written: &WriteFileResult) -> Result<()> {
        if written.size == size {
            return Ok(());
        }
        let path = self.temporary.path().as_path();
        let message = format!("cannot write {path:?}: somebody else writes into it");
        Err(Error::new(ErrorKind::Conflict, message))
    }

    fn finish(mut self) -> Result<()> {
        while !self.sent.is_empty() {
            self.settle()?;
        }
        Ok(())
    }
}

fn check_version(wanted: &Wanted, standing: Option<&StatResult>) -> Result<()> {
    let why = match (wanted.if_version.as_deref(), standing) {
        (None, _) | (Some(""), None) => return Ok(()),
        (Some(ANY_VERSION), Some(_)) => return Ok(()),
        (Some(""), Some(_)) => "it exists",
        (Some(_), None) => "it does not exist",
        (Some(version), Some(standing)) if standing.version == version => return Ok(()),
        (Some(_), Some(_)) => "it has changed since that version",
    };
    let message = format!("cannot write {:?}: {why}", wanted.path);
    Err(Error::new(ErrorKind::Conflict, message))
}

/// The same error about the file that is wanted: nobody knows the other name.
fn name_target(error: &Error, beside: &Path, target: &Path) -> Error {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let message = error.message().replace(&name(beside), &name(target));
    Error::new(error.kind().clone(), message)
}

fn is_full(error: &Error) -> bool {
    let full = ["ENOSPC", "EDQUOT"].map(sys::errno::number);
    matches!(error.kind(), ErrorKind::Os(errno) if full.contains(&Some(*errno)))
}

/// Gives a file its mode. The protocol has no method for that: elsewhere the machine's chmod does it.
///
/// # Errors
/// There is none there, or it has failed.
pub(in crate::cli) fn set_mode(
    environment: &dyn ExecEnvironment,
    path: &WirePath,
    mode: Mode,
) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let bits = mode.bits();
    let shown = path.as_path();
    let what = || format!("cannot give {shown:?} the mode {bits:04o}");
    if environment.local() {
        let permissions = std::fs::Permissions::from_mode(bits);
        let set = std::fs::set_permissions(environment.cwd().join(shown), permissions);
        return set.map_err(|error| Error::io(&error, what()));
    }
    let failed =
        |why: &str| Error::new(ErrorKind::Os(sys::errno::EPERM), format!("{}: {why}", what()));
    let text = shown.to_str().ok_or_else(|| failed("its name is not UTF-8"))?;
    let chmod = SpawnParams::new("chmod").arg(format!("{bits:o}")).arg("--").arg(text);
    let process = environment.spawn(&chmod).map_err(|error| match error.kind() {
        ErrorKind::Os(_) => failed(error.message()),
        _ => error,
    })?;
    let exit = process.wait(|_, _| {})?;
    if exit.exit_code == Some(0) { Ok(()) } else { Err(failed("its chmod has failed")) }
}
