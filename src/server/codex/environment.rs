//! What this machine is in the dialect's terms, and which variables a process gets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::params::{EnvPolicy, Inherit};
use super::uri::Uri;
use crate::environment::Machine;

/// The variables that are of a user's session and of no program's.
const CORE: &[&str] = &[
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TEMP", "TMP", "TMPDIR",
    "USER",
];
/// Names of what is likely a secret.
const SECRETS: &[&str] = &["*KEY*", "*SECRET*", "*TOKEN*"];

/// The machine. (Of what a client might ask for beyond this dialect's methods nothing is said to be
/// there, so it does not ask.)
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Info {
    shell: Option<Shell>,
    executor_version: String,
    provider_id: Option<String>,
    cwd: Uri,
    user_home_dir: Option<Uri>,
    platform_os: &'static str,
    prepend_path_dirs: [Uri; 0],
    temporary_directories: [Uri; 0],
    temp_dir: Uri,
    capabilities: Capabilities,
}

#[derive(Debug, Serialize)]
struct Capabilities {}

#[derive(Debug, Serialize)]
struct Shell {
    name: String,
    path: String,
}

impl Info {
    pub(super) fn of(machine: &Machine) -> Self {
        let shell = machine.shell().map(|path| Shell {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            path: path.to_string_lossy().into_owned(),
        });
        Self {
            shell,
            executor_version: format!("ta {}", env!("CARGO_PKG_VERSION")),
            provider_id: None,
            cwd: Uri(machine.cwd().to_owned()),
            user_home_dir: machine.home().map(|home| Uri(absolute(Path::new(home)))),
            platform_os: std::env::consts::OS,
            prepend_path_dirs: [],
            temporary_directories: [],
            temp_dir: Uri(absolute(&std::env::temp_dir())),
            capabilities: Capabilities {},
        }
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// All variables of a process: what the policy lets through of the server's own and sets, and what is
/// said outright. Without a policy that alone. (A variable that is not UTF-8 cannot be told in the
/// dialect, and is passed on by no policy.)
pub(super) fn variables(
    machine: &Machine,
    policy: Option<EnvPolicy>,
    own: BTreeMap<String, String>,
) -> Vec<(String, String)> {
    let Some(policy) = policy else { return own.into_iter().collect() };
    let inherited = machine
        .variables()
        .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned())));
    let mut all: BTreeMap<String, String> =
        inherited.filter(|(name, _)| policy.inherits(name)).collect();
    all.extend(policy.set);
    if !policy.include_only.is_empty() {
        all.retain(|name, _| matches_any(&policy.include_only, name));
    }
    all.extend(own);
    all.into_iter().collect()
}

impl EnvPolicy {
    fn inherits(&self, name: &str) -> bool {
        let is_inherited = match self.inherit {
            Inherit::All => true,
            Inherit::Core => CORE.iter().any(|core| core.eq_ignore_ascii_case(name)),
            Inherit::None => false,
        };
        is_inherited
            && (self.ignore_default_excludes || !matches_any(SECRETS, name))
            && !matches_any(&self.exclude, name)
    }
}

fn matches_any(patterns: &[impl AsRef<str>], name: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern.as_ref().as_bytes(), name.as_bytes()))
}

/// Whether a pattern with `*` and `?` is the whole of a name, in either case.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    // Where the last star was, and how much of the name it stood for then.
    let (mut at, mut place, mut star) = (0, 0, None);
    while place < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, place));
                at += 1;
            }
            Some(byte) if *byte == b'?' || byte.eq_ignore_ascii_case(&name[place]) => {
                at += 1;
                place += 1;
            }
            _ => match star {
                // It stands for one more.
                Some((star_at, taken)) => {
                    star = Some((star_at, taken + 1));
                    (at, place) = (star_at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_stars_and_question_marks_and_no_case() {
        let is = |pattern: &str, name: &str| matches(pattern.as_bytes(), name.as_bytes());
        for (pattern, name) in [
            ("FOO", "foo"),
            ("f*", "FOOBAR"),
            ("*O", "FOO"),
            ("?OO", "FOO"),
            ("F*R*", "FOOBAR"),
            ("**", "X"),
            ("*KEY*", "MONKEY"),
            ("*a*b", "aabab"),
            ("", ""),
            ("[", "["),
        ] {
            assert!(is(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("FOO", "FO"), ("FO", "FOO"), ("?", ""), ("F?", "FOO"), ("FO[OX]", "FOO"), ("", "X")]
        {
            assert!(!is(pattern, name), "{pattern} {name}");
        }
        let long = "a".repeat(2000);
        assert!(!is(&format!("{}b", "a*".repeat(1000)), &long));
    }
}
