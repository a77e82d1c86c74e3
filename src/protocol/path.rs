//! Paths in JSON.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::bytes::{Base64, encode_onto};

/// A path as it travels, byte for byte: a string, or `{"base64": "…"}` where it is not UTF-8. It
/// holds no NUL byte.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WirePath(PathBuf);

impl WirePath {
    /// A path that is known to hold no NUL byte.
    pub(crate) fn known(path: PathBuf) -> Self {
        Self(path)
    }

    /// The path.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

impl TryFrom<PathBuf> for WirePath {
    type Error = String;

    fn try_from(path: PathBuf) -> Result<Self, String> {
        if path.as_os_str().as_bytes().contains(&0) {
            return Err("a path cannot hold a NUL byte".to_owned());
        }
        Ok(Self(path))
    }
}

impl Serialize for WirePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = self.0.as_os_str();
        match name.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("base64", &name_base64(name))?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for WirePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Form)
    }
}

/// Reads either form, and nothing else for longer than it takes to see that.
struct Form;

impl<'de> Visitor<'de> for Form {
    type Value = WirePath;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a path, as a string or an object with base64")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<WirePath, E> {
        WirePath::try_from(PathBuf::from(text)).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<WirePath, A::Error> {
        #[derive(Deserialize)]
        struct Bytes {
            base64: Base64,
        }
        let Bytes { base64 } = Bytes::deserialize(MapAccessDeserializer::new(map))?;
        let path = PathBuf::from(OsString::from_vec(base64.0));
        WirePath::try_from(path).map_err(de::Error::custom)
    }
}

impl TryFrom<&str> for WirePath {
    type Error = String;

    fn try_from(path: &str) -> Result<Self, String> {
        Self::try_from(PathBuf::from(path))
    }
}

impl TryFrom<&Path> for WirePath {
    type Error = String;

    fn try_from(path: &Path) -> Result<Self, String> {
        Self::try_from(path.to_path_buf())
    }
}

/// A name's bytes in base64, for where it is not UTF-8.
pub(crate) fn name_base64(name: &OsStr) -> String {
    let mut encoded = Vec::new();
    encode_onto(name.as_bytes(), &mut encoded);
    String::from_utf8(encoded).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(bytes: &[u8]) -> WirePath {
        WirePath::try_from(PathBuf::from(OsStr::from_bytes(bytes))).unwrap()
    }

    #[test]
    fn every_path_comes_back_byte_for_byte() {
        for bytes in [&b"/tmp/a"[..], b"", b"a\xff", b"\xc3\xa4", b"a\"b\\c\n"] {
            let json = serde_json::to_string(&path(bytes)).unwrap();
            assert_eq!(serde_json::from_str::<WirePath>(&json).unwrap(), path(bytes), "{json}");
        }
        assert_eq!(serde_json::to_string(&path(b"a\xff")).unwrap(), "{\"base64\":\"Yf8=\"}");
    }

    #[test]
    fn a_path_in_base64_may_be_utf_8_and_none_holds_nul() {
        assert_eq!(serde_json::from_str::<WirePath>("{\"base64\":\"YQ==\"}").unwrap(), path(b"a"));
        for wrong in ["\"a\\u0000b\"", "{\"base64\":\"AA==\"}", "{\"base64\":\"?\"}", "7", "{}"] {
            assert!(serde_json::from_str::<WirePath>(wrong).is_err(), "{wrong}");
        }
    }
}
