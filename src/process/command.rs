//! What to start, with every name resolved but that of the program in PATH.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use super::Stream;
use super::output::Output;
use crate::descendants::Branch;
use crate::error::{Error, Result, StartStep};
use crate::sys;
use crate::sys::host::DescriptorLimit;
use crate::sys::pty::Size;
use crate::sys::spawn::{Failure, Spawn, Spawned, Step};

/// What a child reads from stdin.
pub(crate) enum Input {
    /// Nothing: /dev/null.
    Null,
    /// These bytes, then the end.
    Bytes(Vec<u8>),
    /// What orders bring.
    Orders,
}

/// A program with its surroundings.
pub(crate) struct Command {
    /// As the host named it, for messages.
    pub(crate) name: String,
    /// It is the shell of a command line.
    pub(crate) is_shell: bool,
    /// Paths to try in turn.
    pub(crate) programs: Vec<CString>,
    /// The program's own name first.
    pub(crate) arguments: Vec<CString>,
    /// The environment that all children share, of which `unset` names what is left out.
    pub(crate) base_environment: Arc<[CString]>,
    /// Variables set anew.
    pub(crate) set: Vec<CString>,
    /// Names of variables of the base environment that are not passed on.
    pub(crate) unset: Vec<CString>,
    /// Absolute.
    pub(crate) directory: CString,
    pub(crate) input: Input,
    pub(crate) pty: Option<Size>,
    pub(crate) merge_stderr: bool,
    pub(crate) descriptor_limit: Option<DescriptorLimit>,
    pub(crate) oom_score: Arc<str>,
}

/// A program that has been started, and our ends of what it talks through.
pub(super) struct Started {
    pub(super) spawned: Spawned,
    pub(super) stdin: Option<OwnedFd>,
    pub(super) outputs: Vec<Output>,
}

impl Command {
    /// What a person would have typed, as far as that can be told: a shell's command line, or the
    /// program and its arguments.
    pub(crate) fn line(&self) -> String {
        let skipped = if self.is_shell { 2 } else { 0 };
        let words: Vec<_> =
            self.arguments.iter().skip(skipped).map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    /// Starts it, as what `branch` is to end.
    pub(super) fn start(&self, branch: &Branch) -> Result<Started> {
        let failed = |error: io::Error| Error::io(&error, format!("cannot start {:?}", self.name));
        match self.pty {
            Some(size) => {
                let what = || format!("cannot open a terminal (/dev/ptmx) for {:?}", self.name);
                let (master, terminal) =
                    sys::pty::open(size).map_err(|error| Error::io(&error, what()))?;
                sys::fd::set_nonblocking(master.as_fd()).map_err(failed)?;
                let spawned = self.spawn([terminal.as_fd(); 3], branch)?;
                let stdin = master.try_clone().map_err(failed)?;
                let outputs = vec![Output::terminal(master)];
                Ok(Started { spawned, stdin: Some(stdin), outputs })
            }
            None => self.start_on_pipes(branch, failed),
        }
    }

    fn start_on_pipes(
        &self,
        branch: &Branch,
        failed: impl Fn(io::Error) -> Error,
    ) -> Result<Started> {
        let readable = |stream| -> io::Result<(Output, OwnedFd)> {
            let (ours, theirs) = sys::fd::pipe()?;
            sys::fd::set_nonblocking(ours.as_fd())?;
            Ok((Output::pipe(stream, ours), theirs))
        };
        let (output, stdout) = readable(Stream::Output).map_err(&failed)?;
        let mut outputs = vec![output];
        let mut separate = None;
        if !self.merge_stderr {
            let (output, stderr) = readable(Stream::Stderr).map_err(&failed)?;
            outputs.push(output);
            separate = Some(stderr);
        }
        let (ours, theirs) = match self.input {
            Input::Null => (None, null_input().map_err(&failed)?),
            Input::Bytes(_) | Input::Orders => {
                let (theirs, ours) = sys::fd::pipe().map_err(&failed)?;
                sys::fd::set_nonblocking(ours.as_fd()).map_err(&failed)?;
                (Some(ours), Null::Own(theirs))
            }
        };
        let stderr = separate.as_ref().unwrap_or(&stdout);
        let spawned = self.spawn([theirs.as_fd(), stdout.as_fd(), stderr.as_fd()], branch)?;
        Ok(Started { spawned, stdin: ours, outputs })
    }

    fn spawn(&self, standard: [BorrowedFd<'_>; 3], branch: &Branch) -> Result<Spawned> {
        let arguments: Vec<&CStr> = self.arguments.iter().map(CString::as_c_str).collect();
        let cgroup = branch.cgroup();
        sys::spawn::spawn(&Spawn {
            programs: &self.programs,
            arguments: &arguments,
            environment: &self.environment(),
            directory: &self.directory,
            standard,
            terminal: self.pty.is_some(),
            descriptor_limit: self.descriptor_limit,
            oom_score: self.oom_score.as_bytes(),
            mark: branch.mark(),
            cgroup: cgroup.as_ref().map(AsFd::as_fd),
        })
        .map_err(|failure| self.explain(failure))
    }

    fn environment(&self) -> Vec<&CStr> {
        let kept = |variable: &&CString| {
            self.unset.is_empty() || {
                let name = variable.to_bytes().split(|byte| *byte == b'=').next();
                !self.unset.iter().any(|unset| Some(unset.to_bytes()) == name)
            }
        };
        let base = self.base_environment.iter().filter(kept);
        base.chain(&self.set).map(CString::as_c_str).collect()
    }

    /// The failure as a person needs it: which thing, and what there is to know beyond the
    /// system's word for it.
    fn explain(&self, failure: Failure) -> Error {
        let errno = failure.errno;
        let directory = self.directory.to_string_lossy();
        let name = &self.name;
        match failure.step {
            Step::Directory => {
                Error::os(errno, format!("cannot start in {directory}")).at(Some(StartStep::Cwd))
            }
            Step::Clone => Error::os(errno, format!("cannot make a process for {name:?}")),
            Step::Prepare => Error::os(errno, format!("cannot prepare a process for {name:?}")),
            Step::Exec => {
                let role = if self.is_shell { "the shell " } else { "" };
                let what = format!("cannot start {role}{name:?} in {directory}");
                let error = Error::os(errno, what);
                let error = match self.hint(errno) {
                    Some(hint) => {
                        Error::new(error.kind().clone(), format!("{} ({hint})", error.message()))
                    }
                    None => error,
                };
                error.at(Some(StartStep::Exec))
            }
        }
    }

    fn hint(&self, errno: i32) -> Option<String> {
        let path = || self.programs.first().map(|path| path.to_string_lossy().into_owned());
        match sys::errno::name(errno) {
            "E2BIG" => Some(
                "one argument or variable may have 131,071 bytes on Linux, all together a quarter \
                 of the stack limit"
                    .to_owned(),
            ),
            "ENOENT" if !self.name.contains('/') => {
                // What comes in one word from a user of ssh is meant for a shell.
                let line = self.name.contains(char::is_whitespace);
                let advice = if line { "; a command line goes to the shell with -c" } else { "" };
                Some(format!("it is in no directory of PATH{advice}"))
            }
            "ENOENT" if path().is_some_and(|path| std::fs::exists(path).unwrap_or(false)) => Some(
                "the file is there, but not the interpreter or loader that it names".to_owned(),
            ),
            _ => None,
        }
    }
}

/// A stdin with nothing in it.
enum Null {
    Shared(&'static File),
    Own(OwnedFd),
}

impl AsFd for Null {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Shared(file) => file.as_fd(),
            Self::Own(fd) => fd.as_fd(),
        }
    }
}

/// /dev/null, opened once; in an empty root, where there is none, a pipe that has ended.
fn null_input() -> io::Result<Null> {
    static NULL: OnceLock<Option<File>> = OnceLock::new();
    match NULL.get_or_init(|| File::open("/dev/null").ok()) {
        Some(file) => Ok(Null::Shared(file)),
        None => sys::fd::pipe().map(|(reader, _ended)| Null::Own(reader)),
    }
}
