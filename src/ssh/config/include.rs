//! What an `Include` names: `~`, variables, tokens, wildcards.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::Account;

/// Whose configuration it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    User,
    System,
}

/// The system's own configuration directory.
pub(super) const SYSTEM: &str = "/etc/ssh";

/// Files that one `Include` may name.
const MOST_FILES: usize = 10_000;

/// The files that an argument names, in the order of their names. It is no fault if there are none;
/// the second half is what was in the way.
///
/// # Errors
/// Why ssh cannot be told apart from what it would include, or would include nothing.
pub(super) fn files(
    argument: &[u8],
    origin: Origin,
    account: &Account,
) -> Result<(Vec<PathBuf>, Vec<String>), String> {
    let path = anchored(&expanded(argument, account)?, origin, account)?;
    if !path.iter().any(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\')) {
        let path = PathBuf::from(OsStr::from_bytes(&path));
        let found = fs::symlink_metadata(&path);
        // What is in the way of looking is in the way of reading, and is said there.
        let exists = !found.is_err_and(|error| {
            matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        });
        return Ok((exists.then_some(path).into_iter().collect(), Vec::new()));
    }
    let pattern = String::from_utf8(path)
        .map_err(|_| "the pattern has bytes that are not UTF-8".to_owned())?;
    let options = glob::MatchOptions {
        case_sensitive: true,
        require_literal_separator: true,
        require_literal_leading_dot: true,
    };
    let found = glob::glob_with(&translated(&pattern), options)
        .map_err(|error| format!("{pattern:?} is no pattern: {}", error.msg))?;
    let (mut paths, mut faults) = (Vec::new(), Vec::new());
    for one in found.take(MOST_FILES) {
        match one {
            // What else there is in such a directory is not meant.
            Ok(path) if path.is_dir() => {}
            Ok(path) => paths.push(path),
            Err(error) => faults.push(format!("cannot read {:?}: {}", error.path(), error.error())),
        }
    }
    // Byte by byte, as glob(3) sorts in the C locale; component by component would be another order.
    paths.sort_by(|one, other| one.as_os_str().cmp(other.as_os_str()));
    Ok((paths, faults))
}

/// `${VARIABLE}` and the tokens that are the same for every host, as ssh has them since 9.9.
fn expanded(argument: &[u8], account: &Account) -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    let mut rest = argument;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        match (first, after) {
            (b'%', [token, after @ ..]) => {
                match token {
                    b'%' => text.push(b'%'),
                    b'd' => text.extend(home(account)?),
                    b'u' => text.extend(account.name.as_deref().unwrap_or_default().as_bytes()),
                    b'i' => text.extend(account.id.to_string().as_bytes()),
                    other => {
                        let token = char::from(*other);
                        return Err(format!("%{token} is not the same for every host"));
                    }
                }
                rest = after;
            }
            (b'$', [b'{', after @ ..]) => {
                let end = after.iter().position(|byte| *byte == b'}');
                let end = end.ok_or("a ${ is not closed")?;
                let name = OsStr::from_bytes(&after[..end]);
                // (A name with `=` or NUL in it is none, and std would rather not be asked.)
                let value = std::env::vars_os().find(|(known, _)| known == name);
                let (_, value) =
                    value.ok_or_else(|| format!("the variable {name:?} is not set"))?;
                text.extend(value.into_vec());
                rest = &after[end + 1..];
            }
            (byte, _) => text.push(byte),
        }
    }
    Ok(text)
}

/// The path from the root on.
fn anchored(path: &[u8], origin: Origin, account: &Account) -> Result<Vec<u8>, String> {
    match (path, origin) {
        ([b'/', ..], _) => Ok(path.to_vec()),
        ([b'~', ..], Origin::System) => {
            Err("~ is nobody's in the system's configuration".to_owned())
        }
        ([b'~', rest @ ..], Origin::User) => {
            let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
            let (name, below) = rest.split_at(end);
            let home = if name.is_empty() { home(account)? } else { home_of(name)? };
            Ok([&home, below].concat())
        }
        (relative, Origin::User) => Ok([&home(account)?, &b"/.ssh/"[..], relative].concat()),
        (relative, Origin::System) => Ok([SYSTEM.as_bytes(), b"/", relative].concat()),
    }
}

/// `~` is what HOME says, as in a shell, though ssh finds its first file without HOME.
fn home(account: &Account) -> Result<Vec<u8>, String> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let home = home.or_else(|| account.home.clone().map(PathBuf::into_os_string));
    home.map(|home| home.into_vec()).ok_or_else(|| "there is no home directory".to_owned())
}

/// Another user's home, as /etc/passwd has it. A directory service is not asked: that may take a
/// network.
fn home_of(user: &[u8]) -> Result<Vec<u8>, String> {
    let accounts = super::content(Path::new("/etc/passwd"), super::MOST_BYTES)
        .map_err(|error| error.to_string())?;
    let fields = accounts.split(|byte| *byte == b'\n').map(|line| line.split(|byte| *byte == b':'));
    let mut homes =
        fields.filter_map(|mut fields| (fields.next() == Some(user)).then(|| fields.nth(4))?);
    let unknown = || format!("/etc/passwd has no user {:?}", OsStr::from_bytes(user));
    homes.next().map(<[u8]>::to_vec).ok_or_else(unknown)
}

/// A pattern of glob(3) for the crate: there a backslash quotes nothing, and two stars are more than
/// one.
fn translated(pattern: &str) -> String {
    let mut text = String::new();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => text
                .push_str(&glob::Pattern::escape(&characters.next().unwrap_or('\\').to_string())),
            '*' if text.ends_with('*') => {}
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_what_it_means_to_glob() {
        assert_eq!(translated("/a/**/b\\*[ab]\\x*"), "/a/*/b[*][ab]x*");
    }

    #[test]
    fn only_what_is_the_same_for_all_hosts_is_replaced() {
        let account =
            Account { name: Some("me".to_owned()), id: 7, home: Some(PathBuf::from("/h")) };
        assert_eq!(expanded(b"a%%b-%u-%i$x", &account).unwrap(), b"a%b-me-7$x");
        for argument in [&b"%n"[..], b"%h/x", b"${TA_NOBODY_HAS_SET_THIS}", b"${", b"${=}"] {
            assert!(expanded(argument, &account).is_err(), "{argument:?}");
        }
        let path = std::env::var_os("PATH").unwrap().into_vec();
        assert_eq!(expanded(b"${PATH}", &account).unwrap(), path);
    }

    #[test]
    fn a_path_is_below_ssh_or_where_it_says() {
        let account = Account { name: None, id: 0, home: Some(PathBuf::from("/h")) };
        let of = |path: &str, origin| anchored(path.as_bytes(), origin, &account);
        assert_eq!(of("/a", Origin::User).unwrap(), b"/a");
        assert_eq!(of("conf.d/*", Origin::System).unwrap(), b"/etc/ssh/conf.d/*");
        assert!(of("~/a", Origin::System).is_err());
        assert!(of("~nobody-of-this-name/a", Origin::User).is_err());
        let relative = of("a", Origin::User).unwrap();
        assert!(relative.ends_with(b"/.ssh/a"), "{relative:?}");
        assert_eq!([of("~", Origin::User).unwrap(), b"/.ssh/a".to_vec()].concat(), relative);
    }
}
