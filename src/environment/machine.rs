//! This machine as an environment: what a request names is resolved here.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::process::{Command, Input, Terms};
use crate::protocol::{EnvDelta, ExecParams, InitializeResult, PROTOCOL_VERSION, SpawnParams};
use crate::sys;
use crate::sys::host::DescriptorLimit;
use crate::sys::pty::Size;

/// Where programs look when there is no PATH.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// No path has more bytes (PATH_MAX of Linux, which counts the NUL at its end).
const LONGEST_PATH: usize = 4095;

/// How this machine is offered.
#[derive(Default)]
pub(crate) struct MachineOptions {
    /// The directory that relative paths are relative to; the process's own without it.
    pub(crate) cwd: Option<PathBuf>,
    /// The shell, in place of bash or sh.
    pub(crate) shell: Option<String>,
    /// The limit on descriptors that children get, where this process has raised its own.
    pub(crate) descriptor_limit: Option<DescriptorLimit>,
}

/// This machine.
pub(crate) struct Machine {
    cwd: PathBuf,
    shell: Option<String>,
    /// `NAME=value` of this process, as they were when it started.
    environment: Arc<[CString]>,
    path: OsString,
    has_pwd: bool,
    /// The user's home directory: HOME, else what the user database says.
    home: Option<OsString>,
    /// bash or sh, found once: looking through PATH may wait for a slow disk.
    found_shell: Option<PathBuf>,
    descriptor_limit: Option<DescriptorLimit>,
    oom_score: Arc<str>,
}

impl Machine {
    /// Looks at the process's own surroundings.
    ///
    /// # Errors
    /// A cwd that does not exist or is not a directory.
    pub(crate) fn new(options: MachineOptions) -> Result<Self> {
        let wanted = options.cwd.unwrap_or_else(|| PathBuf::from("."));
        let what = || format!("cannot work in {}", wanted.display());
        let cwd = std::fs::canonicalize(&wanted).map_err(|error| Error::io(&error, what()))?;
        // Reading it would ask for more than starting a program in it does.
        if !cwd.is_dir() {
            return Err(Error::os(sys::errno::ENOTDIR, what()));
        }
        let variables = std::env::vars_os().filter_map(|(name, value)| variable(&name, &value));
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
        let path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
        let sh = || Some(PathBuf::from("/bin/sh")).filter(|path| is_executable(path));
        Ok(Self {
            cwd,
            shell: options.shell,
            environment: variables.collect(),
            found_shell: find(&path, "bash").or_else(sh),
            path,
            has_pwd: std::env::var_os("PWD").is_some(),
            home: home.or_else(|| Some(sys::host::account()?.1)),
            descriptor_limit: options.descriptor_limit,
            oom_score: raised_oom_score(),
        })
    }

    /// The directory that relative paths are relative to; absolute.
    pub(crate) fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// What it is, to whoever asks.
    pub(crate) fn describe(
        &self,
        max_message_bytes: usize,
        epoch: Option<u64>,
    ) -> InitializeResult {
        let text = |path: OsString| path.to_string_lossy().into_owned();
        InitializeResult {
            protocol_version: PROTOCOL_VERSION,
            server_name: "ta".to_owned(),
            server_version: env!("CARGO_PKG_VERSION").to_owned(),
            cwd: text(self.cwd().into()),
            home: self.home().map(|home| text(home.to_owned())),
            tmpdir: text(std::env::temp_dir().into()),
            shell: self.shell().map(|shell| text(shell.into())),
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            hostname: sys::host::hostname(),
            pid: std::process::id(),
            epoch,
            max_message_bytes,
            features: ["process", "pty", "fs", "net", "epoch"].map(str::to_owned).to_vec(),
        }
    }

    /// A path as it is meant here. (Nothing is nowhere, and not the cwd.)
    pub(crate) fn resolve(&self, path: &Path) -> PathBuf {
        if cfg!(fuzzing) {
            return within_scratch(path);
        }
        if path.as_os_str().is_empty() { PathBuf::new() } else { self.cwd.join(path) }
    }

    /// The same, or that it cannot be any: no system call takes one that long.
    ///
    /// # Errors
    /// `ENAMETOOLONG`
    pub(crate) fn resolve_path(&self, path: &Path) -> Result<PathBuf> {
        let path = self.resolve(path);
        let bytes = path.as_os_str().as_bytes();
        if bytes.len() <= LONGEST_PATH {
            return Ok(path);
        }
        let start = String::from_utf8_lossy(&bytes[..100]);
        let what = format!("a path has {} bytes, that of {start:?} …", bytes.len());
        Err(Error::os(sys::errno::ENAMETOOLONG, what))
    }

    /// The user's home directory, if it is known.
    pub(crate) fn home(&self) -> Option<&OsStr> {
        self.home.as_deref()
    }

    /// The shell that runs command lines, if there is one.
    pub(crate) fn shell(&self) -> Option<PathBuf> {
        match &self.shell {
            Some(shell) => Some(PathBuf::from(shell)),
            None => self.found_shell.clone(),
        }
    }

    /// A command line for the shell, ready to be started.
    ///
    /// # Errors
    /// `NoShell`, and what is wrong with the params.
    pub(crate) fn command_line(&self, params: ExecParams) -> Result<(Command, Terms)> {
        let shell = params.shell.map(PathBuf::from).or_else(|| self.shell()).ok_or_else(|| {
            let message = "this machine has no shell: neither bash in PATH nor /bin/sh";
            Error::new(ErrorKind::NoShell, message)
        })?;
        let shell = shell.into_os_string();
        let name = shell.to_string_lossy().into_owned();
        let programs = self.candidates("shell", &name, None)?;
        let shell = c_string("shell", shell.into_vec())?;
        let command = c_string("command", params.command)?;
        let input = params.stdin.map_or(Input::Null, |stdin| Input::Bytes(stdin.0));
        let terms = Terms {
            window: params.window.map(Into::into),
            timeout: params.timeout_ms.map(|ms| Duration::from_millis(ms.into())),
            grace: params.grace_ms.map(Duration::from_millis),
        };
        let delta = params.env.unwrap_or_default();
        let command = Command {
            name,
            is_shell: true,
            programs,
            arguments: vec![shell, c"-c".to_owned(), command],
            input,
            pty: None,
            merge_stderr: params.merge_stderr.unwrap_or(false),
            ..self.surroundings(params.cwd.as_deref(), &delta)?
        };
        Ok((command, terms))
    }

    /// A program with arguments, ready to be started.
    ///
    /// # Errors
    /// What is wrong with the params.
    pub(crate) fn program(&self, params: SpawnParams) -> Result<(Command, Terms)> {
        let delta = params.env.unwrap_or_default();
        let programs = self.candidates("command", &params.command, Some(&delta))?;
        let mut arguments = vec![c_string("command", params.command.as_str())?];
        for (index, argument) in params.args.unwrap_or_default().into_iter().enumerate() {
            arguments.push(c_string(&format!("args[{index}]"), argument)?);
        }
        let terms = Terms { window: params.window.map(Into::into), ..Terms::default() };
        let command = Command {
            name: params.command,
            programs,
            arguments,
            input: Input::Orders,
            pty: params.pty.map(|size| Size { cols: size.cols.into(), rows: size.rows.into() }),
            merge_stderr: params.merge_stderr.unwrap_or(false),
            ..self.surroundings(params.cwd.as_deref(), &delta)?
        };
        Ok((command, terms))
    }

    /// A program with the whole of its environment, ready to be started.
    ///
    /// # Errors
    /// What is wrong with the params.
    pub(crate) fn exact(&self, exact: Exact) -> Result<Command> {
        let Exact { argv, arg0, directory, environment, pty, takes_input } = exact;
        let name = argv.first().cloned().unwrap_or_default();
        let path = environment.iter().find(|(name, _)| name == "PATH");
        let path = path.map_or_else(|| OsStr::new(DEFAULT_PATH), |(_, path)| OsStr::new(path));
        let programs = candidates("argv", &name, path)?;
        let mut arguments = Vec::with_capacity(argv.len());
        for (index, argument) in argv.into_iter().enumerate() {
            let argument = arg0.clone().filter(|_| index == 0).unwrap_or(argument);
            arguments.push(c_string(&format!("argv[{index}]"), argument)?);
        }
        let variable = |(name, value)| c_string("env", format!("{name}={value}"));
        Ok(Command {
            name,
            programs,
            arguments,
            base_environment: Arc::default(),
            set: environment.into_iter().map(variable).collect::<Result<_>>()?,
            directory: c_string("cwd", directory.into_os_string().into_vec())?,
            input: if takes_input { Input::Orders } else { Input::Null },
            pty,
            ..self.nothing()
        })
    }

    /// The variables of this process, as they were when it started.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.environment.iter().filter_map(|variable| {
            let bytes = variable.as_bytes();
            let end = bytes.iter().position(|byte| *byte == b'=')?;
            Some((OsStr::from_bytes(&bytes[..end]), OsStr::from_bytes(&bytes[end + 1..])))
        })
    }

    /// A command with nothing set but where it runs.
    fn surroundings(&self, cwd: Option<&str>, delta: &EnvDelta) -> Result<Command> {
        // (Joining nothing would leave a slash at the end, which messages would show.)
        let directory = cwd.map_or_else(|| self.cwd.clone(), |cwd| self.cwd.join(cwd));
        let mut set = Vec::new();
        let mut unset = Vec::new();
        for (name, value) in delta.iter() {
            unset.push(c_string("env", name)?);
            if let Some(value) = value {
                set.push(c_string("env", format!("{name}={value}"))?);
            }
        }
        let directory = directory.into_os_string().into_vec();
        if self.has_pwd && delta.iter().all(|(name, _)| name != "PWD") {
            // The server's own would be wrong, as after a `cd` that has not told.
            unset.extend([c"PWD".to_owned(), c"OLDPWD".to_owned()]);
            set.push(c_string("cwd", [b"PWD=", directory.as_slice()].concat())?);
        }
        let directory = c_string("cwd", directory)?;
        let base_environment = Arc::clone(&self.environment);
        Ok(Command { base_environment, set, unset, directory, ..self.nothing() })
    }

    fn nothing(&self) -> Command {
        Command {
            name: String::new(),
            is_shell: false,
            programs: Vec::new(),
            arguments: Vec::new(),
            base_environment: Arc::default(),
            set: Vec::new(),
            unset: Vec::new(),
            directory: CString::default(),
            input: Input::Null,
            pty: None,
            merge_stderr: false,
            descriptor_limit: self.descriptor_limit,
            oom_score: Arc::clone(&self.oom_score),
        }
    }

    /// The paths that a program's name may mean; PATH is the child's own where there is a delta for
    /// it.
    fn candidates(
        &self,
        member: &str,
        name: &str,
        delta: Option<&EnvDelta>,
    ) -> Result<Vec<CString>> {
        let own = delta.and_then(|delta| delta.iter().find(|(variable, _)| *variable == "PATH"));
        let path = match own {
            Some((_, Some(path))) => OsStr::new(path),
            Some((_, None)) => OsStr::new(DEFAULT_PATH),
            None => &self.path,
        };
        candidates(member, name, path)
    }
}

/// A program with all that it is given.
pub(crate) struct Exact {
    /// Its name first.
    pub(crate) argv: Vec<String>,
    /// What it sees as its name, in place of that.
    pub(crate) arg0: Option<String>,
    /// Absolute.
    pub(crate) directory: PathBuf,
    /// All of it.
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) pty: Option<Size>,
    /// Whether it is written to.
    pub(crate) takes_input: bool,
}

/// The paths that a program's name may mean: itself if it has a slash, else one in each directory.
fn candidates(member: &str, name: &str, path: &OsStr) -> Result<Vec<CString>> {
    if name.is_empty() {
        return Err(Error::params(format!("{member}: a program needs a name")));
    }
    if name.contains('/') {
        return Ok(vec![c_string(member, name)?]);
    }
    std::env::split_paths(path)
        // An empty entry is the directory that the child starts in.
        .map(|directory| if directory.as_os_str().is_empty() { ".".into() } else { directory })
        .map(|directory: PathBuf| {
            c_string(member, directory.join(name).into_os_string().into_vec())
        })
        .collect()
}

/// A fuzzer's files are all in one directory that nobody else needs.
fn within_scratch(path: &Path) -> PathBuf {
    let names = path.components().filter(|part| matches!(part, std::path::Component::Normal(_)));
    std::env::temp_dir().join("ta-fuzz-scratch/files").join(names.collect::<PathBuf>())
}

/// The program of that name in an absolute directory of PATH.
fn find(path: &OsStr, name: &str) -> Option<PathBuf> {
    let directories = std::env::split_paths(path);
    directories
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

fn variable(name: &OsStr, value: &OsStr) -> Option<CString> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.push(b'=');
    bytes.extend_from_slice(value.as_bytes());
    CString::new(bytes).ok()
}

fn c_string(member: &str, text: impl Into<Vec<u8>>) -> Result<CString> {
    let nul = |_| Error::params(format!("{member}: a NUL byte cannot be passed to a program"));
    CString::new(text).map_err(nul)
}

/// The `oom_score_adj` of children: well above this process's own, so that the kernel takes a
/// command that eats up the memory, and not the server with all the others.
fn raised_oom_score() -> Arc<str> {
    const RAISE: i32 = 200;
    let own = std::fs::read_to_string("/proc/self/oom_score_adj").ok();
    let own: i32 = own.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    (own.max(0) + RAISE).min(1000).to_string().into()
}
