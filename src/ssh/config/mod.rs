//! The hosts of ~/.ssh/config, without asking anybody about them.
//!
//! A list is read from the files alone: no `Match exec` is run, no name is looked up, `ssh` is not
//! started, and nothing but regular files is opened. So it is fast, can be had while somebody types,
//! and does nothing. In return it cannot always tell where a host leads; what it cannot tell is `None`,
//! and never a guess. What counts when connecting is what `ssh` itself makes of a name.
//!
//! ```no_run
//! for host in ta_exec::ssh::config::HostList::of_user()?.hosts {
//!     println!("{}: {}:{}", host.name, host.host_name.as_deref().unwrap_or("?"), host.port.unwrap_or(22));
//! }
//! # Ok::<(), ta_exec::Error>(())
//! ```
//!
//! The crate ssh2-config reads the values of the parameters (`setting`). What is around them is done
//! here, because there it is not as ssh_config(5) has it, or one line costs the whole file: it knows no
//! `Match` and lets the lines below it override others; of two values in one block it takes the last;
//! an `Include` of a cycle or of a directory, a value it does not know (`ConnectTimeout 10s`), a byte
//! that is not UTF-8 or a keyword without a value end the parse; and it keeps the quotes of one of
//! several words. So `line` splits a line as ssh does, `include` finds the files, `condition` decides
//! `Host` and `Match`, `outline` has it all in one piece, and `resolve` goes through it for one host.

mod condition;
mod include;
mod line;
mod outline;
mod pattern;
mod reader;
mod resolve;
mod setting;

use std::fmt;
use std::path::{Path, PathBuf};

use include::Origin;
use reader::Reader;

use crate::error::{Error, ErrorKind, Result};
use crate::{fs, sys};

/// Bytes that are read for one list: enough for tens of thousands of hosts. What they become in memory
/// can be fifty times as much.
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// The same in words.
const MOST: &str = "4 MiB";
/// What the hosts of one list may cost, in bytes compared with patterns and the like: a second or two. Every
/// host with a section and a wildcard of its own would otherwise take the square of their number.
const MOST_WORK: u64 = 2_000_000_000;

/// The hosts of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostList {
    /// In the order in which they stand in the files, each once.
    pub hosts: Vec<Host>,
    /// What could not be read, or what ssh would not take. It is left out, and the list goes on.
    pub warnings: Vec<Warning>,
}

/// A name after `Host` that has no wildcard, and where it leads as far as the files alone tell.
///
/// `None` means that only ssh can tell: a `Match exec` may set it, for instance, or the name is looked
/// up (`CanonicalizeHostname`), or a warning says why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Host {
    /// What to call it: `ssh NAME`.
    pub name: String,
    /// The name or address that ssh connects to; without `HostName` it is the name, in lower case.
    pub host_name: Option<String>,
    /// The user to log in as; without `User` the name of this one.
    pub user: Option<String>,
    /// 22 without `Port`.
    pub port: Option<u16>,
    /// The hosts that lead there, in order, each as `[USER@]HOST[:PORT]`; empty where there is none.
    pub proxy_jump: Option<Vec<String>>,
    /// The file that the name stands in first.
    pub file: PathBuf,
    /// Its line there, from 1 on.
    pub line: u64,
}

/// What is wrong in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// The file that it is about.
    pub file: PathBuf,
    /// The line, from 1 on; `None` where it is about the whole file.
    pub line: Option<u64>,
    /// Lower case, without a full stop.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.message)
    }
}

/// Who asks.
struct Account {
    /// `None` where it is no text, or the user database does not know this user.
    name: Option<String>,
    id: u32,
    home: Option<PathBuf>,
}

impl Account {
    fn own() -> Self {
        let (name, home) = sys::host::account().unzip();
        let home = home.or_else(|| std::env::var_os("HOME")).filter(|home| !home.is_empty());
        Self {
            name: name.and_then(|name| name.into_string().ok()),
            id: sys::host::user_id(),
            home: home.map(PathBuf::from),
        }
    }
}

/// The configuration of this user, ~/.ssh/config. As for ssh, home is what the user database says, and
/// HOME only where it says nothing. The file need not exist.
#[must_use]
pub fn user_file() -> Option<PathBuf> {
    Some(Account::own().home?.join(".ssh/config"))
}

impl HostList {
    /// The hosts of ~/.ssh/config. What stands in /etc/ssh/ssh_config adds no names, and its
    /// parameters count where the user's own file has none, as they do for ssh. A file that does not
    /// exist has no hosts; one that cannot be read is among the warnings.
    ///
    /// # Errors
    /// This user has no home directory.
    pub fn of_user() -> Result<Self> {
        let file = user_file().ok_or_else(|| {
            let message = "this user has no home directory, in the user database or in HOME";
            Error::os(sys::errno::ENOENT, message)
        })?;
        let account = Account::own();
        let mut reader = Reader::new(&account);
        let system = Path::new(include::SYSTEM).join("ssh_config");
        for (file, origin) in [(&file, Origin::User), (&system, Origin::System)] {
            match reader.read(file, origin) {
                Ok(()) if origin == Origin::User => reader.check_owner(file),
                Err(error) if *error.kind() != ErrorKind::Os(sys::errno::ENOENT) => {
                    reader.warn_of(file, error.message());
                }
                _ => {}
            }
        }
        Ok(Self::resolved(reader, &account))
    }

    /// The hosts of another file in its place, as `ssh -F FILE` has it: /etc/ssh/ssh_config does not
    /// count. A relative `Include` is still one below ~/.ssh.
    ///
    /// # Errors
    /// The file cannot be read, is no regular file, or has more than 4 MiB.
    pub fn of_file(file: &Path) -> Result<Self> {
        let account = Account::own();
        let mut reader = Reader::new(&account);
        reader.read(file, Origin::User)?;
        Ok(Self::resolved(reader, &account))
    }

    fn resolved(reader: Reader<'_>, account: &Account) -> Self {
        let Reader { outline, names, mut warnings, .. } = reader;
        let mut work = MOST_WORK;
        let mut too_much = None;
        let hosts = names.into_iter().map(|name| {
            let user = account.name.as_deref();
            let resolved = resolve::resolve(&outline, &name.text, user, &mut work);
            if work == 0 && too_much.is_none() {
                let message = "there are too many hosts and patterns to tell where the rest leads";
                let (file, line) = (name.file.clone(), Some(name.line));
                too_much = Some(Warning { file, line, message: message.to_owned() });
            }
            Host {
                name: name.text,
                host_name: resolved.host_name,
                user: resolved.user,
                port: resolved.port,
                proxy_jump: resolved.proxy_jump,
                file: name.file,
                line: name.line,
            }
        });
        let hosts = hosts.collect();
        warnings.extend(too_much);
        Self { hosts, warnings }
    }
}

/// The bytes of a regular file.
///
/// # Errors
/// It is none, cannot be read, or has too many.
fn content(file: &Path, most: usize) -> Result<Vec<u8>> {
    // The one device that is named here on purpose: it is how to say none.
    if file == Path::new("/dev/null") {
        return Ok(Vec::new());
    }
    let reading = fs::open(file)?;
    let mut bytes = Vec::new();
    let part = fs::Part { offset: 0, length: None };
    let read = reading.read(part, most as u64, |piece| bytes.extend_from_slice(piece));
    match read {
        Err(error) if *error.kind() == ErrorKind::TooLarge => {
            let message = format!("cannot read {file:?}: that would be more than {MOST} in all");
            Err(Error::new(ErrorKind::TooLarge, message))
        }
        read => read.map(|_| bytes),
    }
}
