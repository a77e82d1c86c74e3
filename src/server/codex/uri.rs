//! Paths as `file:` URIs.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An absolute path of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Uri(pub(super) PathBuf);

impl<'de> Deserialize<'de> for Uri {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        path_of(&text).map(Self).map_err(de::Error::custom)
    }
}

impl Serialize for Uri {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&of_path(&self.0))
    }
}

/// The path that a URI names.
fn path_of(uri: &str) -> Result<PathBuf, String> {
    let refused = |why: &str| Err(format!("{uri:?} is no path of this machine: {why}"));
    let Some((scheme, rest)) = uri.split_once(':') else {
        return refused("a path is a file: URI, such as file:///tmp");
    };
    if !scheme.eq_ignore_ascii_case("file") {
        return refused("a path is a file: URI, such as file:///tmp");
    }
    if rest.contains(['?', '#']) {
        return refused("it has a query or a fragment");
    }
    let path = match rest.strip_prefix("//") {
        None => rest,
        Some(rest) => {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
                return refused("it names another host");
            }
            path
        }
    };
    let bytes = decoded(without_dots(path).as_bytes());
    if bytes.contains(&0) {
        return refused("it holds a NUL byte");
    }
    // (Slashes at its end are none.)
    Ok(Path::new(&OsString::from_vec(bytes)).components().collect())
}

/// The path, which is absolute, without `.` and `..`: a URI has none.
fn without_dots(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let mut ends_with_slash = true;
    for part in path.strip_prefix('/').unwrap_or(path).split('/') {
        let unquoted = part.replace("%2e", ".").replace("%2E", ".");
        ends_with_slash = matches!(&*unquoted, "" | "." | "..");
        match &*unquoted {
            "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    let end =
        if ends_with_slash && parts.last().is_some_and(|part| !part.is_empty()) { "/" } else { "" };
    format!("/{}{end}", parts.join("/"))
}

/// What is not two hexadecimal digits behind a percent sign stands for itself.
fn decoded(text: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        rest = after;
        if let [high, low, others @ ..] = after
            && *first == b'%'
            && let (Some(high), Some(low)) = (digit(*high), digit(*low))
        {
            bytes.extend(u8::try_from(high * 16 + low));
            rest = others;
        } else {
            bytes.push(*first);
        }
    }
    bytes
}

/// The URI of an absolute path.
fn of_path(path: &Path) -> String {
    let mut uri = "file://".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'"' | b'#' | b'%' | b'<' | b'>' | b'?' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' => {
                let _ = write!(uri, "%{byte:02X}");
            }
            0x21..=0x7e => uri.push(char::from(*byte)),
            _ => {
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_paths_of_this_machine_or_refused() {
        for (uri, path) in [
            ("file:///", "/"),
            ("file:///a/b%20c", "/a/b c"),
            ("FILE://LOCALHOST/a", "/a"),
            ("file:/a", "/a"),
            ("file:///50%", "/50%"),
            ("file:///%c3%A4%2", "/ä%2"),
            ("file:///a/../b/./c/..", "/b"),
            ("file:///../a/%2e%2E/b", "/b"),
            ("file:///a//b/", "/a/b"),
            ("file:", "/"),
            ("file://localhost", "/"),
            ("file:a", "/a"),
        ] {
            assert_eq!(path_of(uri).unwrap(), Path::new(path), "{uri}");
        }
        for uri in [
            "",
            "/tmp",
            "tmp",
            "http:///tmp",
            "file://host/tmp",
            "file:///a?b",
            "file:///a#b",
            "file:///a%00b",
        ] {
            assert!(path_of(uri).is_err(), "{uri}");
        }
    }

    #[test]
    fn every_path_comes_back_from_its_uri() {
        let all: Vec<u8> = std::iter::once(b'/').chain(1..=255).collect();
        let path = PathBuf::from(OsString::from_vec(all));
        let uri = of_path(&path);
        assert!(uri.is_ascii() && !uri.contains(['?', '#', ' ']), "{uri}");
        assert_eq!(path_of(&uri).unwrap(), path);
        assert_eq!(of_path(Path::new("/a b/%")), "file:///a%20b/%25");
    }
}
