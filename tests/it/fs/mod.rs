//! `fs/*`: nothing that is written is ever half there, nothing is lost, and nothing waits for a
//! file system that it does not touch.

mod append;
mod atomic;
mod big;
mod bounded;
mod copy;
mod copy_onto;
mod copy_trees;
mod crash;
mod edges;
mod ends;
mod fair;
mod full;
pub(crate) mod hung;
mod hung_ends;
mod hung_limits;
mod in_place;
pub(crate) mod inject;
mod keeps;
mod leaks;
mod long_strings;
mod meanwhile;
mod mkdir;
mod mounts;
mod names;
mod odd;
mod order;
mod overlay;
mod params;
mod permissions;
mod read;
mod readdir;
mod realpath;
mod refused;
mod remove;
mod remove_hostile;
mod rename;
mod slow_fifo;
mod special;
mod stat;
mod sync;
mod temporary_names;
mod versions;
mod waiting;
mod write;

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode};
use serde_json::{Value, json};

use crate::support::{Peer, RpcError, Setup, TempDir, base64, binary, sys, unbase64};

/// What is to be answered at once may take so long on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(3);

/// Who is not root.
const NOBODY: u32 = 65_534;

/// A path as it travels.
fn wire(path: impl AsRef<Path>) -> Value {
    let path = path.as_ref();
    path.to_str()
        .map_or_else(|| json!({"base64": base64(path.as_os_str().as_bytes())}), |text| json!(text))
}

/// The members of both objects.
fn merged(mut base: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().expect("an object") {
        base[name] = value.clone();
    }
    base
}

fn path(path: impl AsRef<Path>) -> Value {
    json!({"path": wire(path)})
}

fn from_to(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Value {
    json!({"from": wire(from), "to": wire(to)})
}

fn content(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> Value {
    json!({"path": wire(path), "dataBase64": base64(bytes)})
}

/// The bytes of an answer to `fs/readFile`.
#[track_caller]
fn bytes(result: &Value) -> Vec<u8> {
    unbase64(result["dataBase64"].as_str().expect("dataBase64"))
}

#[track_caller]
fn version(result: &Value) -> String {
    let version = result["version"].as_str().unwrap_or_else(|| panic!("no version in {result}"));
    assert!(!version.is_empty(), "the empty version stands for a file that is not there");
    version.to_owned()
}

/// Reads a regular file whole.
#[track_caller]
fn read(peer: &mut Peer, file: impl AsRef<Path>) -> Vec<u8> {
    let result = peer.ok("fs/readFile", &path(file));
    let bytes = bytes(&result);
    assert_eq!(result["size"], json!(bytes.len()));
    assert_eq!(result["eof"], json!(true));
    version(&result);
    bytes
}

/// Writes a file whole, or as `more` says.
#[track_caller]
fn write_with(
    peer: &mut Peer,
    file: impl AsRef<Path>,
    bytes: impl AsRef<[u8]>,
    more: &Value,
) -> Value {
    let result = peer.ok("fs/writeFile", &merged(content(file, bytes), more));
    assert!(result["atomic"].is_boolean() && result["size"].is_u64(), "{result}");
    version(&result);
    result
}

/// Replaces a file whole in one step.
#[track_caller]
fn write(peer: &mut Peer, file: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> Value {
    let result = write_with(peer, &file, &bytes, &json!({}));
    assert_eq!(result["size"], json!(bytes.as_ref().len()), "{}", file.as_ref().display());
    assert_eq!(result["atomic"], json!(true), "{}", file.as_ref().display());
    result
}

/// Writes a file where a rename would lose something.
#[track_caller]
fn write_in_place(peer: &mut Peer, file: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> Value {
    let result = write_with(peer, &file, &bytes, &json!({}));
    assert_eq!(result["atomic"], json!(false), "{}", file.as_ref().display());
    result
}

/// A request that fails at once, with one of these codes.
#[track_caller]
fn fails_with(peer: &mut Peer, method: &str, params: &Value, codes: &[&str]) -> RpcError {
    let since = Instant::now();
    let error = peer.error(method, params);
    let took = since.elapsed();
    assert_eq!(error.code, -32000, "{method} {params:.200}: {error:?}");
    assert!(codes.contains(&error.data_code()), "{method} {params:.200}: {error:?}");
    assert!(took < AT_ONCE, "{method} {params:.200}: failed after {took:?} only");
    error
}

#[track_caller]
fn fails(peer: &mut Peer, method: &str, params: &Value, code: &str) -> RpcError {
    fails_with(peer, method, params, &[code])
}

/// All names in a directory, those with a dot too.
#[track_caller]
fn names(dir: impl AsRef<Path>) -> Vec<String> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.unwrap().file_name().to_string_lossy().into_owned()
    };
    let mut names: Vec<_> = std::fs::read_dir(dir).unwrap().map(name).collect();
    names.sort();
    names
}

fn mode(path: impl AsRef<Path>) -> u32 {
    std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn chmod(path: impl AsRef<Path>, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn chown(path: impl AsRef<Path>, uid: u32, gid: u32) {
    std::os::unix::fs::chown(path, Some(uid), Some(gid)).unwrap();
}

fn inode(path: impl AsRef<Path>) -> u64 {
    std::fs::symlink_metadata(path).unwrap().ino()
}

fn symlink(target: impl AsRef<Path>, link: impl AsRef<Path>) {
    std::os::unix::fs::symlink(target, link).unwrap();
}

fn mkdir(path: PathBuf) -> PathBuf {
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn mkfifo(path: PathBuf) -> PathBuf {
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    path
}

/// A character device of the test's own, of the kind that Linux has at 1:`minor`. Root only.
fn device(path: PathBuf, minor: u32) -> PathBuf {
    let number = rustix::fs::makedev(1, minor);
    let mode = Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(CWD, &path, FileType::CharacterDevice, mode, number).unwrap();
    path
}

/// Bytes without a pattern that a mistake would hide in; the same for the same seed.
fn noise(length: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()
    };
    let mut bytes = Vec::with_capacity(length + 4);
    while bytes.len() < length {
        bytes.extend_from_slice(&next());
    }
    bytes.truncate(length);
    bytes
}

/// A server whose relative paths start in this directory.
fn in_dir(dir: &Path) -> Setup {
    Setup::new().args(["--cwd", dir.to_str().unwrap()])
}

/// A server that starts when this shell script has run; `$DIR` is the directory.
fn after(dir: &Path, launcher: &[&str], script: &str) -> Setup {
    let script = format!("set -e\n{script}\nexec \"$0\" \"$@\"");
    let words = [launcher, &["sh", "-c", &script]].concat();
    in_dir(dir).under(&words).env("DIR", dir.to_str().unwrap())
}

/// The same with mounts of its own, in which the script may mount.
fn with_mounts(dir: &Path, script: &str) -> Setup {
    let private = if sys::is_root() { "-m" } else { "-rm" };
    after(dir, &["unshare", private], script)
}

/// A path as the server of this pid sees it.
fn seen_by(pid: u32, path: impl AsRef<Path>) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/root{}", path.as_ref().display()))
}

/// A directory that everybody may enter, with a copy of the binary for a server without privileges.
struct Shared {
    dir: TempDir,
    _program: TempDir,
    program: PathBuf,
}

impl Shared {
    fn new() -> Self {
        let (dir, program_dir) = (TempDir::new(), TempDir::new());
        chmod(dir.path(), 0o755);
        chmod(program_dir.path(), 0o755);
        let program = program_dir.join("ta");
        if std::fs::hard_link(binary(), &program).is_err() {
            std::fs::copy(binary(), &program).unwrap();
        }
        Self { dir, _program: program_dir, program }
    }

    fn join(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A server that nobody runs, in this directory.
    fn as_nobody(&self) -> Setup {
        let run_copy = "shift; exec \"$0\" \"$@\"";
        let program = self.program.to_str().unwrap();
        in_dir(self.dir.path()).under(&["sh", "-c", run_copy, program]).user(NOBODY)
    }
}

/// True (and says so) for who is not root.
fn needs_root(test: &str) -> bool {
    !sys::is_root() && crate::support::skipped(test, "only root may do that")
}
