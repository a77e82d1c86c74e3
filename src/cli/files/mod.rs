//! What `ta fs` and `ta cp` share: which environment, how they fail, and files of any size in parts.

mod interrupt;
mod parts;
mod store;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

pub(super) use interrupt::{Temporaries, run};
pub(super) use parts::Parts;
pub(super) use store::{Store, Wanted, set_mode};

use super::arguments;
use super::end::End;
use super::place::{Options, Place, Variables};
use crate::buffers;
use crate::environment::ExecEnvironment;
pub(super) use crate::environment::part;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{FileType, Mode, StatParams, StatResult, WirePath};
use crate::sys::poll::{Interest, wait_for};
use crate::sys::{self, signal};

/// An environment, for the threads of one command.
pub(super) type Shared = Arc<dyn ExecEnvironment>;

/// Declares a command that works on an environment's files, with the exit codes of all of these.
macro_rules! command {
    ($(#[$($about:tt)*])* struct $name:ident { $($own:tt)* }) => {
        $crate::cli::place::command! {
            #[argh(
                error_code(1, "it could not be done; one line on stderr names the path and the reason"),
                error_code(2, "the command line is wrong"),
                error_code(125, "the environment cannot be reached, or was lost on the way")
            )]
            $(#[$($about)*])*
            struct $name { $($own)* }
        }
    };
}
pub(super) use command;

/// The place that a command's options mean, to be reached later. It is called before the first
/// thread is started.
pub(super) fn place(options: Options) -> Result<Place, End> {
    let place = options.place_of_carried(Variables::take());
    place.map_err(End::Usage)
}

/// The environment that they mean.
pub(super) fn environment(options: Options) -> Result<Shared, End> {
    reach(place(options)?)
}

/// Reaches it, and asks what it is: one that does not answer that will do nothing for us.
pub(super) fn reach(place: Place) -> Result<Shared, End> {
    let environment = place.environment();
    let reached = environment.and_then(|environment| environment.about().map(|_| environment));
    reached.map(Arc::from).map_err(End::Failed)
}

impl From<Error> for End {
    /// What a file system answers is 1; all else has happened on the way there. (Commands that do
    /// not work on files say themselves whose failure it is.)
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::Os(_)
            | ErrorKind::NotAFile
            | ErrorKind::TooLarge
            | ErrorKind::InvalidParams
            | ErrorKind::Conflict => Self::Refused(error),
            _ => Self::Failed(error),
        }
    }
}

/// The exit code; what has failed is said.
pub(super) fn exit(outcome: Result<(), End>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(end) => end.exit(),
    }
}

/// Does it for each path, whatever comes of the others; answers the last failure.
pub(super) fn each(
    paths: &[String],
    mut act: impl FnMut(WirePath) -> Result<(), End>,
) -> Result<(), End> {
    let mut last = None;
    for path in paths {
        if let Err(failure) = wire(arguments::path(path)).map_err(End::from).and_then(&mut act) {
            if let Some(before) = last.replace(failure) {
                before.say();
            }
            if last.as_ref().is_some_and(End::is_final) {
                break;
            }
        }
    }
    last.map_or(Ok(()), Err)
}

/// Writes to stdout. Nobody reads it any more: a quiet end, as of every other program.
pub(super) fn print(mut bytes: &[u8]) -> Result<(), End> {
    let stdout = io::stdout();
    while !bytes.is_empty() {
        let written = sys::fd::write(stdout.as_fd(), bytes);
        match written.or_else(|error| when_ready(error, stdout.as_fd(), Interest::Write)) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => signal::die_of(signal::PIPE),
            Err(error) => return Err(Error::io(&error, "cannot write to stdout").into()),
        }
    }
    Ok(())
}

/// Stdin, to its end.
#[derive(Default)]
pub(super) struct Input {
    /// A terminal that has told its end would wait for another one.
    has_ended: bool,
}

impl Input {
    /// The next part, full but for the last one; `None` at the end.
    pub(super) fn next(&mut self, part: usize) -> Result<Option<Vec<u8>>> {
        let stdin = io::stdin();
        let mut bytes = buffers::take_for(part);
        while !self.has_ended && bytes.len() < part {
            let left = part - bytes.len();
            match sys::fd::read_into(stdin.as_fd(), &mut bytes, left) {
                Ok(count) => self.has_ended = count == 0,
                Err(error) => {
                    let waited = when_ready(error, stdin.as_fd(), Interest::Read);
                    waited.map_err(|error| Error::io(&error, "cannot read stdin"))?;
                }
            }
        }
        Ok((!bytes.is_empty()).then_some(bytes))
    }
}

/// Whoever shares a stream with us may have made it one that does not wait.
fn when_ready(error: io::Error, stream: BorrowedFd<'_>, interest: Interest) -> io::Result<usize> {
    match error.kind() {
        io::ErrorKind::WouldBlock => wait_for(stream, interest, None).map(|_| 0),
        io::ErrorKind::Interrupted => Ok(0),
        _ => Err(error),
    }
}

/// Prints one line of JSON.
pub(super) fn print_json(value: &impl serde::Serialize) -> Result<(), End> {
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    print(&line)
}

/// A path for the protocol.
pub(super) fn wire(path: impl Into<PathBuf>) -> Result<WirePath> {
    WirePath::try_from(path.into()).map_err(Error::params)
}

/// A mode in octal, as chmod(1) takes it.
pub(super) fn octal(text: &str) -> Result<Mode, String> {
    let bits = u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= 0o7777);
    let mode = bits.and_then(|bits| Mode::try_from(bits).ok());
    mode.ok_or_else(|| format!("{text:?} is no mode: it has up to four octal digits, as in 644"))
}

/// What stands at a path; `None` where that is nothing.
pub(super) fn look(environment: &dyn ExecEnvironment, path: &Path) -> Result<Option<StatResult>> {
    found(environment.stat(&StatParams { path: wire(path)?, follow_symlinks: None }))
}

/// The same of a symbolic link itself.
pub(super) fn look_at_link(
    environment: &dyn ExecEnvironment,
    path: &Path,
) -> Result<Option<StatResult>> {
    found(environment.stat(&StatParams { path: wire(path)?, follow_symlinks: Some(false) }))
}

fn found(stat: Result<StatResult>) -> Result<Option<StatResult>> {
    match stat {
        Ok(stat) => Ok(Some(stat)),
        Err(error) if *error.kind() == ErrorKind::Os(sys::errno::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A kind of file, in words.
pub(super) fn kind(file_type: FileType) -> &'static str {
    match file_type {
        FileType::File => "a file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharDevice | FileType::BlockDevice => "a device",
    }
}
