//! Paths as models and people write them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use super::{Failure, text};
use crate::protocol::WirePath;

/// The path that is meant: `~` is the environment's home, a leading `@` is how some mark a file,
/// `file://` is the environment's. What is relative stays so; the environment has a directory.
pub(super) fn resolve(written: &str, home: Option<&str>) -> Result<WirePath, Failure> {
    let bare = written.strip_prefix('@').unwrap_or(written);
    let path = if let Some(url) = bare.strip_prefix("file://") {
        of_url(url).ok_or_else(|| Failure(format!("{written:?} names no file of this machine")))?
    } else if bare == "~" || bare.starts_with("~/") {
        let home =
            home.ok_or_else(|| Failure(format!("{written:?}: there is no home directory")))?;
        PathBuf::from(format!("{home}{}", &bare[1..]))
    } else {
        PathBuf::from(bare)
    };
    if path.as_os_str().is_empty() {
        return Err(Failure("the path is empty".to_owned()));
    }
    WirePath::try_from(path).map_err(Failure)
}

/// The path of `file://PATH` without its beginning; hosts other than this one are none.
fn of_url(rest: &str) -> Option<PathBuf> {
    let path = rest.strip_prefix("localhost").filter(|path| path.starts_with('/')).unwrap_or(rest);
    path.starts_with('/').then(|| PathBuf::from(OsString::from_vec(decoded(path))))
}

/// The path as part of a `file://` URL.
pub(crate) fn to_url(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let mut url = "file://".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                url.push(char::from(*byte));
            }
            other => url.push_str(&format!("%{other:02X}")),
        }
    }
    url
}

fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.filter(|_| byte == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(value) => {
                bytes.push(value);
                rest = &after[2..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    bytes
}

/// A path as it is shown, on one line.
pub(super) fn shown(path: &WirePath) -> String {
    text::one_line(&path.as_path().to_string_lossy())
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    fn resolved(written: &str) -> Result<Vec<u8>, Failure> {
        let path = resolve(written, Some("/their/place"))?;
        Ok(path.as_path().as_os_str().as_bytes().to_vec())
    }

    #[test]
    fn paths_are_those_of_the_environment() {
        for (written, expected) in [
            ("a/b", &b"a/b"[..]),
            ("/a", b"/a"),
            ("~", b"/their/place"),
            ("~/x", b"/their/place/x"),
            ("~x", b"~x"),
            ("@src/a", b"src/a"),
            ("@~/x", b"/their/place/x"),
            ("file:///a%20b%ff", b"/a b\xff"),
            ("file://localhost/a", b"/a"),
            ("file:///100%", b"/100%"),
        ] {
            assert_eq!(resolved(written).unwrap(), expected, "{written}");
        }
        for wrong in ["", "@", "file://elsewhere/a", "file://", "a\0b"] {
            assert!(resolved(wrong).is_err(), "{wrong:?}");
        }
        assert!(resolve("~/x", None).is_err());
    }

    #[test]
    fn a_path_comes_back_from_its_url() {
        for path in ["/a b/c%d#e?f", "/\u{e9}", "/"] {
            let url = to_url(Path::new(path));
            assert!(url.is_ascii() && !url.contains([' ', '#', '?']), "{url}");
            assert_eq!(resolved(&url).unwrap(), path.as_bytes(), "{url}");
        }
    }
}
