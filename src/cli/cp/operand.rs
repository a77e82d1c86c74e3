//! What a path on the command line means.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::cli::arguments::{self, escaped};
use crate::cli::end::End;
use crate::cli::files::look;
use crate::environment::ExecEnvironment;
use crate::protocol::FileType;

/// A path here or there.
pub(super) enum Operand {
    Here(PathBuf),
    There(PathBuf),
}

impl Operand {
    pub(super) fn new(argument: &str) -> Self {
        let path = arguments::path(argument);
        match path.as_os_str().as_bytes() {
            b":" => Self::There(PathBuf::from(".")),
            [b':', rest @ ..] => Self::There(PathBuf::from(OsString::from_vec(rest.to_vec()))),
            _ => Self::Here(path),
        }
    }

    pub(super) fn is_there(&self) -> bool {
        matches!(self, Self::There(_))
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Here(path) | Self::There(path) => path,
        }
    }

    /// As the user has written it.
    pub(super) fn shown(&self) -> String {
        let colon = if self.is_there() { ":" } else { "" };
        format!("{colon}{}", escaped(self.path().as_os_str()))
    }

    /// The name that its copy has in a directory; none where it is `.` or `..` or the root, the copy
    /// of which fills the directory itself.
    fn name(&self) -> Option<&OsStr> {
        let name = self.path().as_os_str().as_bytes();
        let end = name.iter().rposition(|byte| *byte != b'/')? + 1;
        let name = name[..end].rsplit(|byte| *byte == b'/').next()?;
        (!matches!(name, b"." | b"..")).then(|| OsStr::from_bytes(name))
    }
}

/// Where copies go.
pub(super) enum Target {
    /// Into this directory, each under its own name.
    Directory,
    /// To this very path, which must be a directory's if it ends with a slash.
    Path { marked: bool },
}

impl Target {
    /// Where the copy of a source is to stand.
    pub(super) fn of(&self, to: &Operand, source: &Operand) -> PathBuf {
        match (self, source.name()) {
            (Self::Directory, Some(name)) => to.path().join(name),
            _ => to.path().to_path_buf(),
        }
    }
}

/// Looks what stands where `count` sources are to be copied to.
pub(super) fn target(
    environment: &dyn ExecEnvironment,
    to: &Operand,
    count: usize,
) -> Result<Target, End> {
    let standing = look(environment, to.path())?;
    let is_directory =
        standing.as_ref().is_some_and(|standing| standing.file_type == FileType::Directory);
    let shown = to.shown();
    match (is_directory, standing.is_some()) {
        (true, _) => Ok(Target::Directory),
        (false, true) if count > 1 => {
            Err(End::refused(format!("cannot copy into {shown}: it is no directory")))
        }
        (false, false) if count > 1 => {
            Err(End::refused(format!("cannot copy into {shown}: no such directory")))
        }
        _ => Ok(Target::Path { marked: to.path().as_os_str().as_bytes().ends_with(b"/") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_is_the_far_side() {
        let there = |text: &str| match Operand::new(text) {
            Operand::There(path) => Some(path),
            Operand::Here(_) => None,
        };
        assert_eq!(there(":"), Some(".".into()));
        assert_eq!(there(":a/b"), Some("a/b".into()));
        assert_eq!(there("::a"), Some(":a".into()));
        assert_eq!((there("./:a"), there("a:b")), (None, None));
    }

    #[test]
    fn a_copy_has_the_last_name() {
        for (path, name) in [
            ("a/b", Some("b")),
            ("a/b//", Some("b")),
            ("/", None),
            ("a/.", None),
            ("..", None),
            (":", None),
            (":x", Some("x")),
        ] {
            assert_eq!(Operand::new(path).name(), name.map(OsStr::new), "{path}");
        }
    }
}
