//! A server that is fetched on this machine, by its curl or wget, and kept in ~/.cache/ta. The host
//! itself needs no way to the internet.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::binary::{NAMES, SUMS, sha256, sum_of};
use crate::error::{Error, ErrorKind, Result};
use crate::sys::{self, child};

/// How long one file may take, as curl and wget read it.
const SECONDS: &str = "300";

/// The file for a target, from below `url`, checked against the SHA256SUMS there.
pub(super) fn fetch(url: &str, target: &str) -> Result<PathBuf> {
    let url = url.trim_end_matches('/');
    let cache = cache()?.join(&sha256(url.as_bytes())[..16]);
    let failed = |error: std::io::Error| Error::io(&error, format!("cannot keep {cache:?}"));
    fs::create_dir_all(&cache).map_err(failed)?;
    let sums = cache.join(SUMS);
    let fetched = download(&format!("{url}/{SUMS}"), &sums);
    // (What was fetched once does without the network.)
    let text = match (fs::read_to_string(&sums), fetched) {
        (Ok(text), _) => text,
        (Err(_), Err(error)) => return Err(error),
        (Err(error), Ok(())) => return Err(failed(error)),
    };
    let named = NAMES.iter().map(|name| format!("{name}{target}"));
    let Some((name, sum)) = named.into_iter().find_map(|name| {
        let sum = sum_of(&text, &name)?;
        Some((name, sum))
    }) else {
        let message = format!("there is no ta for {target} at {}", shown(url));
        return Err(Error::new(ErrorKind::Unsupported, message));
    };
    if sum.len() != 64 || !sum.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let message = format!("{}/{SUMS} has no SHA-256 of {name}", shown(url));
        return Err(Error::params(message));
    }
    let kept = cache.join(format!("{name}-{sum}"));
    if fs::read(&kept).is_ok_and(|content| sha256(&content) == sum) {
        return Ok(kept);
    }
    download(&format!("{url}/{name}"), &kept)?;
    let found = sha256(&fs::read(&kept).map_err(failed)?);
    if found != sum {
        let _ = fs::remove_file(&kept);
        let message = format!(
            "{}/{name} is not what it should be: its SHA-256 is {found}, and {SUMS} there says {sum}",
            shown(url)
        );
        return Err(Error::params(message));
    }
    Ok(kept)
}

fn cache() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let home = || set("HOME").or_else(|| sys::host::account().map(|(_, home)| home));
    let cache = set("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| home().map(|home| Path::new(&home).join(".cache")));
    let none = || Error::params("there is no home directory to keep a server in");
    cache.map(|cache| cache.join("ta")).ok_or_else(none)
}

/// A URL without what may be a secret.
fn shown(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match url.split_once("://").map(|(scheme, rest)| (scheme, rest.split_once('@'))) {
        Some((scheme, Some((_, host)))) => format!("{scheme}://{host}"),
        _ => url.to_owned(),
    }
}

/// Written beside and renamed.
fn download(url: &str, to: &Path) -> Result<()> {
    let mut new = to.as_os_str().to_owned();
    new.push(format!(".{}", std::process::id()));
    let new = PathBuf::from(new);
    let mut curl = child::command("curl");
    curl.args(["-fsSL", "--max-time", SECONDS, "-o"]).arg(&new).args(["--", url]);
    let mut wget = child::command("wget");
    wget.args(["-q", "-T", SECONDS, "-t", "2", "-O"]).arg(&new).args(["--", url]);
    let mut why = "neither curl nor wget is there".to_owned();
    for command in [&mut curl, &mut wget] {
        let done = command.stdin(Stdio::null()).stdout(Stdio::null()).output();
        let Ok(done) = done else { continue };
        if done.status.success() {
            let renamed = fs::rename(&new, to);
            return renamed.map_err(|error| Error::io(&error, format!("cannot keep {to:?}")));
        }
        let said = String::from_utf8_lossy(&done.stderr);
        why = said.trim().lines().last().unwrap_or("it failed without a word").to_owned();
        break;
    }
    let _ = fs::remove_file(&new);
    let message = format!("cannot fetch {}: {why}", shown(url));
    Err(Error::new(ErrorKind::Unreachable, message))
}
