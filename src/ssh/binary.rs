//! Which server fits a host: one that was built for its kind of machine, from a directory; else this
//! very program, where the host is of this machine's kind; else one that is fetched.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use sha2::{Digest, Sha256};

use super::fetch;
use super::host::SshHost;
use crate::error::{Error, ErrorKind, Result};
use crate::sys::child;

/// The names of what a directory has, before the target.
pub(super) const NAMES: [&str; 2] = ["ta-server-", "ta-"];
/// Where the hashes of a directory's files stand.
pub(super) const SUMS: &str = "SHA256SUMS";
const DIRECTORY: &str = "TA_SERVER_DIR";
const URL: &str = "TA_SERVER_URL";

/// A server that is to be placed on a host.
pub(super) struct Binary {
    pub(super) path: PathBuf,
    content: Vec<u8>,
    pub(super) sha256: String,
}

impl Binary {
    fn read(path: PathBuf) -> Result<Self> {
        let content =
            fs::read(&path).map_err(|error| Error::io(&error, format!("cannot read {path:?}")))?;
        let sha256 = sha256(&content);
        Ok(Self { path, content, sha256 })
    }

    /// What is sent: packed by this machine's gzip if that is wanted and there, and how it is called.
    pub(super) fn packed(self, gzip: bool) -> (&'static str, Vec<u8>) {
        match gzip.then(|| gzipped(&self.path)).flatten() {
            Some(packed) => ("gzip", packed),
            None => ("plain", self.content),
        }
    }

    /// Whether it needs other files to run, as a program that is not static does.
    pub(super) fn is_dynamic(&self) -> bool {
        // The name of the loader stands in the first page.
        let head = &self.content[..self.content.len().min(4096)];
        head.windows(4).any(|window| window == b"/ld-")
    }
}

fn gzipped(path: &Path) -> Option<Vec<u8>> {
    let mut gzip = child::command("gzip");
    gzip.arg("-c4").arg(path).stdin(Stdio::null()).stderr(Stdio::null());
    let done = gzip.output().ok()?;
    done.status.success().then_some(done.stdout)
}

pub(super) fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The server for what `uname -s` and `uname -m` tell.
pub(super) fn choose(host: &SshHost, system: &str, machine: &str) -> Result<Binary> {
    let target = target(system, machine);
    let directories = directories(host);
    if let Some(target) = &target {
        for name in NAMES {
            for directory in &directories {
                if let Some(binary) = of_directory(directory, &format!("{name}{target}"))? {
                    return Ok(binary);
                }
            }
        }
    }
    let ta = host.ta();
    let own_target = target_of_this();
    if target.is_some()
        && target == own_target
        && let Some(ta) = ta
    {
        return Binary::read(ta);
    }
    let url = std::env::var(URL).ok().filter(|url| !url.is_empty());
    if let (Some(target), Some(url)) = (&target, &url) {
        return fetch::fetch(url, target).and_then(Binary::read);
    }
    Err(none_for(host, (system, machine), target.as_deref(), &directories))
}

fn none_for(
    host: &SshHost,
    (system, machine): (&str, &str),
    target: Option<&str>,
    directories: &[PathBuf],
) -> Error {
    let what = if system.is_empty() { "a machine that does not tell its kind" } else { system };
    let name = target.map_or_else(|| "TARGET".to_owned(), str::to_owned);
    let mut there: Vec<String> = directories.iter().flat_map(|dir| servers_in(dir)).collect();
    there.extend(target_of_this().map(|own| format!("this ta ({own})")));
    let message = format!(
        "{host} is {what} {machine}, and there is no ta for it; there is {}. Put ta-server-{name} into \
         a directory and name it with --server-dir or {DIRECTORY}, or set {URL}",
        there.join(", ")
    );
    Error::new(ErrorKind::Unsupported, message)
}

fn servers_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> =
        names.filter(|name| name.starts_with(NAMES[1]) && name.contains('-')).collect();
    names.retain(|name| name.matches('-').count() >= 3);
    names.sort();
    names
}

/// Where servers are looked for, in this order.
fn directories(host: &SshHost) -> Vec<PathBuf> {
    let own = host.ta().and_then(|ta| ta.canonicalize().ok());
    let beside = own.as_deref().and_then(Path::parent).map(Path::to_owned);
    let library = beside.as_deref().and_then(Path::parent).map(|up| up.join("lib/ta"));
    let variable = std::env::var_os(DIRECTORY).filter(|value| !value.is_empty());
    let all = [host.server_dir.clone(), variable.map(PathBuf::from), beside, library];
    all.into_iter().flatten().collect()
}

fn of_directory(directory: &Path, name: &str) -> Result<Option<Binary>> {
    let path = directory.join(name);
    if !path.is_file() {
        return Ok(None);
    }
    let binary = Binary::read(path)?;
    let sums = directory.join(SUMS);
    if let Ok(text) = fs::read_to_string(&sums) {
        let expected = sum_of(&text, name);
        if expected.as_deref() != Some(&binary.sha256) {
            let says = expected.map_or("does not name it".to_owned(), |sum| format!("says {sum}"));
            let message = format!(
                "{} is not what it should be: its SHA-256 is {}, and {} {says}",
                binary.path.display(),
                binary.sha256,
                sums.display()
            );
            return Err(Error::params(message));
        }
    }
    Ok(Some(binary))
}

/// The hash that a list has for a name, as sha256sum(1) writes it.
pub(super) fn sum_of(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (sum, file) = line.split_once([' ', '\t'])?;
        let file = file.trim_start().trim_start_matches('*').trim_start_matches("./").trim_end();
        (file == name).then(|| sum.to_ascii_lowercase())
    })
}

/// The name that Rust has for such a machine, with a C library that is linked in.
fn target(system: &str, machine: &str) -> Option<String> {
    let machine = match machine {
        "amd64" | "x86_64" => "x86_64",
        "arm64" | "aarch64" => "aarch64",
        "riscv64" => "riscv64gc",
        "ppc64le" => "powerpc64le",
        "i386" | "i486" | "i586" | "i686" => "i686",
        other
            if !other.is_empty()
                && other.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') =>
        {
            other
        }
        _ => return None,
    };
    Some(match (system, machine) {
        ("Linux", "armv7l") => "armv7-unknown-linux-musleabihf".to_owned(),
        ("Linux", machine) => format!("{machine}-unknown-linux-musl"),
        ("Darwin", machine) => format!("{machine}-apple-darwin"),
        _ => return None,
    })
}

fn target_of_this() -> Option<String> {
    let system = match std::env::consts::OS {
        "linux" => "Linux",
        "macos" => "Darwin",
        _ => return None,
    };
    target(system, std::env::consts::ARCH)
}

/// What the choice hangs on: as long as it is the same, so is the server.
pub(super) fn fingerprint(host: &SshHost) -> String {
    let of_file = |path: &Path| match fs::metadata(path) {
        Ok(found) => {
            format!("{path:?} {} {} {}", found.size(), found.mtime(), found.mtime_nsec())
        }
        Err(_) => format!("{path:?}"),
    };
    let ta = host.ta().map(|ta| of_file(&ta)).unwrap_or_default();
    let directories: Vec<_> = directories(host).iter().map(|path| of_file(path)).collect();
    format!("{ta} {directories:?} {:?}", std::env::var_os(URL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_the_name_of_a_static_target() {
        for (system, machine, expected) in [
            ("Linux", "x86_64", Some("x86_64-unknown-linux-musl")),
            ("Linux", "aarch64", Some("aarch64-unknown-linux-musl")),
            ("Linux", "riscv64", Some("riscv64gc-unknown-linux-musl")),
            ("Linux", "armv7l", Some("armv7-unknown-linux-musleabihf")),
            ("Darwin", "arm64", Some("aarch64-apple-darwin")),
            ("SunOS", "i86pc", None),
            ("", "", None),
            ("Linux", "../x", None),
        ] {
            assert_eq!(target(system, machine).as_deref(), expected, "{system} {machine}");
        }
    }

    #[test]
    fn a_sum_is_found_by_its_whole_name() {
        let text = "AA  ta-server-x\nbb *ta-x\ncc  ./dir/ta-y\n";
        assert_eq!(sum_of(text, "ta-server-x").as_deref(), Some("aa"));
        assert_eq!(sum_of(text, "ta-x").as_deref(), Some("bb"));
        assert_eq!(sum_of(text, "ta-y"), None);
    }
}
