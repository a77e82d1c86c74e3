//! `ta fs` and `ta cp`, the real program: files of a server, of a program on a pipe, and of this
//! machine.

mod changes;
mod copies;
mod failures;
mod faults;
mod helps;
mod interrupts;
mod large;
mod lists;
mod names;
mod reads;
mod replaced;
mod searches;
mod trees;
mod writes;

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::support::{Server, TOKEN, TempDir, binary, holds_within, sys};

/// How long anything here may take: some of it moves hundreds of megabytes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Sizes at which something changes.
const SIZES: [usize; 8] = [0, 1, 65_535, 65_536, 65_537, 1 << 20, (1 << 20) + 1, 5 * 1024 * 1024];

/// An environment, with a directory here and one there.
struct Site {
    name: &'static str,
    server: Option<Server>,
    options: Vec<String>,
    here: TempDir,
    there: TempDir,
}

impl Site {
    fn new(name: &'static str, server: Option<Server>, options: &[&str]) -> Self {
        let options = options.iter().map(|word| (*word).to_owned()).collect();
        Self { name, server, options, here: TempDir::new(), there: TempDir::new() }
    }

    fn listening() -> Self {
        Self::new("server", Some(Server::start()), &[])
    }

    /// What the program on the pipe logs is not looked at.
    fn via() -> Self {
        let binary = binary();
        let line = format!("sh -c 'exec {} exec-server --stdio 2>/dev/null'", binary.display());
        Self::new("via", None, &["--via", &line])
    }

    /// `ta SUBCOMMAND… OPTIONS ARGS…`, in the directory here.
    fn ta<A: AsRef<OsStr>>(&self, subcommand: &str, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = bare(subcommand.split(' '));
        command.args(&self.options).args(args).current_dir(self.here.path());
        if let Some(server) = &self.server {
            command.env("TA_EXEC_URL", format!("ws://{}/exec", server.address));
            command.env("TA_EXEC_TOKEN", TOKEN);
        }
        command
    }

    #[track_caller]
    fn run<A: AsRef<OsStr>>(&self, subcommand: &str, args: impl IntoIterator<Item = A>) -> Done {
        Running::start(self.ta(subcommand, args)).finish()
    }

    #[track_caller]
    fn feed(&self, subcommand: &str, args: &[&str], input: &[u8]) -> Done {
        let mut command = self.ta(subcommand, args);
        command.stdin(Stdio::piped());
        let mut running = Running::start(command);
        running.feed(input.to_vec());
        running.finish()
    }

    /// A path there, as `ta fs` takes it.
    fn far(&self, name: &str) -> String {
        self.there.join(name).to_str().unwrap().to_owned()
    }

    /// A path there, as `ta cp` takes it.
    fn colon(&self, name: &str) -> String {
        format!(":{}", self.far(name))
    }

    #[track_caller]
    fn assert_nothing_half(&self) {
        for directory in [&self.here, &self.there] {
            assert_eq!(parts_in(directory.path()), Vec::<PathBuf>::new(), "{}", self.name);
        }
    }
}

/// Runs it over a server, over a pipe, and on this machine.
fn everywhere(body: impl Fn(&Site)) {
    for site in [Site::listening(), Site::via(), Site::new("here", None, &[])] {
        body(&site);
        site.assert_nothing_half();
    }
}

/// `ta` that is told nothing.
fn bare<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(binary());
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"TA_") {
            command.env_remove(name);
        }
    }
    command.args(args).stdin(Stdio::null());
    command
}

/// What is half done in a tree.
fn parts_in(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            found.extend(parts_in(&path));
        } else if entry.file_name().to_string_lossy().starts_with(".ta-") {
            found.push(path);
        }
    }
    found
}

/// Bytes that no luck can make right.
fn noise(size: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64 ^ size as u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_ne_bytes()
    };
    let mut bytes: Vec<u8> = (0..size.div_ceil(8)).flat_map(|_| next()).collect();
    bytes.truncate(size);
    bytes
}

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// How it ended, and all it wrote.
#[derive(Debug)]
struct Done {
    /// As a shell shows it.
    code: i32,
    stdout: Vec<u8>,
    stderr: String,
}

impl Done {
    /// It has done what it was to do, and said nothing.
    #[track_caller]
    fn quiet(self) -> Vec<u8> {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""));
        self.stdout
    }

    #[track_caller]
    fn text(self) -> String {
        String::from_utf8(self.quiet()).unwrap()
    }

    #[track_caller]
    fn json(self) -> serde_json::Value {
        serde_json::from_slice(&self.quiet()).unwrap()
    }

    /// It has failed: one line on stderr says this.
    #[track_caller]
    fn failed(&self, code: i32, says: &str) {
        let is_line = self.stderr.lines().count() == 1 && self.stderr.starts_with("ta: ");
        assert!(self.code == code && is_line, "not one line and {code}: {self:?}");
        assert!(self.stderr.contains(says) && !self.stderr.contains(TOKEN), "{says}: {self:?}");
    }
}

/// A `ta` under way. Dropped, it is killed and reaped.
struct Running {
    child: Child,
    streams: Vec<JoinHandle<Vec<u8>>>,
}

impl Running {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let streams =
            vec![follow(child.stdout.take().unwrap()), follow(child.stderr.take().unwrap())];
        Self { child, streams }
    }

    /// Gives it all of its stdin, from a thread of its own.
    fn feed(&mut self, bytes: Vec<u8>) {
        let mut stdin = self.child.stdin.take().unwrap();
        let feed = move || drop(stdin.write_all(&bytes));
        thread::Builder::new().name("feed".into()).spawn(feed).unwrap();
    }

    fn signal(&self, signal: i32) {
        sys::signal(self.child.id(), signal).unwrap();
    }

    #[track_caller]
    fn finish(self) -> Done {
        self.finish_within(PATIENCE)
    }

    #[track_caller]
    fn finish_within(mut self, limit: Duration) -> Done {
        let mut status = None;
        let ended = holds_within(limit, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        assert!(ended, "ta has not ended");
        let status = status.unwrap();
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap();
        let mut texts = self.streams.drain(..).map(|stream| stream.join().unwrap());
        let (stdout, stderr) = (texts.next().unwrap(), texts.next().unwrap());
        drop(texts);
        Done { code, stdout, stderr: String::from_utf8(stderr).unwrap() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn follow(mut stream: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    let follow = move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        bytes
    };
    thread::Builder::new().name("stream".into()).spawn(follow).unwrap()
}
