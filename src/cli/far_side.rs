//! What `ta` does on a machine that it was placed on by ssh, asked by the scripts in remote/: it keeps
//! the environment of the user's login shell, tells the hash of a file, and removes what is old.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use super::arguments::{USAGE, say, say_error};
use crate::error::{Error, Result};
use crate::sys;

/// A server that nobody has used for so long is removed.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 3600);
/// An environment outlives the login that it was kept for by so much, and what is left of an upload
/// that was killed.
const LEFT_OVER: Duration = Duration::from_secs(2 * 24 * 3600);
/// What the session itself says, whatever the login shell said before it.
const OF_SESSION: &[&str] = &["SSH_", "DISPLAY"];

/// Answers the exit code where these arguments are for the far side.
pub(super) fn run(arguments: &[OsString]) -> Option<ExitCode> {
    let [_, what, file] = arguments else { return None };
    let done = match what.to_str()? {
        "--sha256" => hash(Path::new(file)).map(|hash| say(&format!("{hash}\n"))),
        "--keep-environment" => keep(Path::new(file)),
        _ => return None,
    };
    Some(match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say_error(Error::io(&error, format!("cannot use {file:?}")).message());
            ExitCode::from(USAGE)
        }
    })
}

fn hash(file: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut file = File::open(file)?;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => hasher.update(&buffer[..count]),
        }
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Writes this process's environment down for servers that are started later, and cleans up.
fn keep(file: &Path) -> io::Result<()> {
    let mut text = Vec::new();
    // Debian's bash reads .bashrc for a command, noise and all, where ssh has started it and no other
    // shell is above it. One is: the login shell.
    let level = std::env::var("SHLVL").ok().and_then(|level| level.parse().ok()).unwrap_or(0);
    let level = OsString::from(level.max(1_u32).to_string());
    let others = std::env::vars_os().filter(|(name, _)| name != "SHLVL");
    for (name, value) in others.chain([("SHLVL".into(), level)]) {
        text.extend_from_slice(name.as_bytes());
        text.push(b'=');
        text.extend_from_slice(value.as_bytes());
        text.push(0);
    }
    let mut new = file.as_os_str().to_owned();
    new.push(".new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).open(&new)?.write_all(&text)?;
    fs::rename(&new, file)?;
    if let Some(own) = file.parent() {
        touch(own);
        remove_old(own);
        // (The others beside it are named by their hashes.)
        if let Some(all) = own.parent().filter(|all| all.ends_with("server")) {
            remove_unused(all, own);
        }
    }
    Ok(())
}

/// Says that what is there is in use.
fn touch(directory: &Path) {
    let _ = File::open(directory).and_then(|open| open.set_modified(SystemTime::now()));
}

fn is_older(path: &Path, age: Duration) -> bool {
    let modified = fs::symlink_metadata(path).and_then(|found| found.modified());
    modified.is_ok_and(|time| time.elapsed().is_ok_and(|elapsed| elapsed > age))
}

fn remove_old(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_ours = [&b"env-"[..], b".new-"].iter().any(|with| name.as_bytes().starts_with(with));
        if is_ours && is_older(&entry.path(), LEFT_OVER) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn remove_unused(all: &Path, own: &Path) {
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let is_ours = name.len() == 64 && name.as_bytes().iter().all(u8::is_ascii_hexdigit);
        if is_ours && path != own && is_older(&path, UNUSED) {
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// Takes on the environment that was kept, before the first thread is started. What this session
/// says of itself stays: the agent's socket, who has connected.
pub(super) fn take_on(file: &Path) -> Result<()> {
    let failed = |error: io::Error| Error::io(&error, format!("cannot read {file:?}"));
    let text = fs::read(file).map_err(failed)?;
    if let Some(own) = file.parent() {
        touch(own);
    }
    let is_of_session =
        |name: &OsStr| OF_SESSION.iter().any(|start| name.as_bytes().starts_with(start.as_bytes()));
    let session: Vec<_> = std::env::vars_os().filter(|(name, _)| is_of_session(name)).collect();
    let kept = text.split(|byte| *byte == 0).filter_map(|line| {
        let at = line.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
        let owned = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        Some((owned(&line[..at]), owned(&line[at + 1..])))
    });
    sys::environment::replace(kept.chain(session).collect());
    Ok(())
}
