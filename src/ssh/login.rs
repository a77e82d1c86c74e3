//! The one login to a host that all commands share: a ControlMaster of our own. It ends ten minutes
//! after the last of them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::ask::{Desk, show};
use super::channel::{Channel, no_ssh, wait};
use super::dialogue::failure;
use super::host::SshHost;
use super::private::Private;
use super::said::Said;
use crate::error::{Error, ErrorKind, Result};
use crate::sys;
use crate::sys::child::{self, detach, detach_on_leash};

/// How long a login that nobody uses stands, in seconds.
const IDLE: &str = "ControlPersist=600";
/// How long ssh may take to log in, a person's time not counted.
const CONNECTING: Duration = Duration::from_secs(60);
/// How long another `ta` may take that logs in, and places a server.
const TURN: Duration = Duration::from_secs(900);
/// How often it is looked whether something has happened that wakes nobody.
const LOOK: Duration = Duration::from_millis(20);
/// What ssh says is shown when it has gone on for so long: its last words are told with the failure.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// What goes for every ssh that is started, whatever the configuration says: no terminal, no other
/// command, no forwards; a host that cannot be reached any more is given up within 60 s.
const OPTIONS: &[&str] = &[
    "RemoteCommand=none",
    "RequestTTY=no",
    "BatchMode=no",
    "PermitLocalCommand=no",
    "ClearAllForwardings=yes",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=3",
    "LogLevel=ERROR",
];
/// The same for a session, that only ssh 8.7 and later know.
const LATE_OPTIONS: &[&str] =
    &["SessionType=default", "StdinNull=no", "ForkAfterAuthentication=no"];
/// What ssh says where it is the sharing of a login that fails.
const NO_MASTER: &[&str] = &["ControlPath", "ControlSocket", "unix_listener", "muxserver", "mux_"];

/// The login to a host, whether or not it stands.
pub(super) struct Login {
    pub(super) host: SshHost,
    pub(super) private: Private,
    key: String,
}

/// What is known of a login that stands, for whoever uses it next.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct Known {
    /// Names what is kept of it on the far side.
    pub(super) id: String,
    /// What ssh on this machine can do, as 10 times 8.4 and so on; whether the agent goes along.
    pub(super) version: u32,
    pub(super) agent: bool,
    /// What starts the server there, once it has been found.
    pub(super) server: Option<Started>,
}

/// A server that has been started over this login.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct Started {
    /// Its path there.
    pub(super) path: String,
    /// What would choose another one here.
    pub(super) chosen_by: String,
}

/// Nobody else logs in while this lives.
pub(super) struct Turn(#[expect(dead_code, reason = "it is let go of when it is closed")] File);

impl Login {
    pub(super) fn new(host: &SshHost) -> Result<Self> {
        let mut hasher = Sha256::new();
        hasher.update(host.name.as_bytes());
        hasher.update([0]);
        if let Some(config) = &host.config {
            let config = std::path::absolute(config).unwrap_or_else(|_| config.clone());
            hasher.update(config.as_os_str().as_bytes());
        }
        let key = hasher.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { host: host.clone(), private: Private::open()?, key })
    }

    fn socket_path(&self) -> PathBuf {
        self.private.join(&self.key)
    }

    fn known_path(&self) -> PathBuf {
        self.private.join(&format!("{}.json", self.key))
    }

    /// The master's socket, if it stands.
    pub(super) fn socket(&self) -> Option<UnixStream> {
        UnixStream::connect(self.socket_path()).ok()
    }

    /// What is known of it, if it stands.
    pub(super) fn known(&self) -> Option<Known> {
        serde_json::from_slice(&fs::read(self.known_path()).ok()?).ok()
    }

    /// Keeps that for the others.
    pub(super) fn keep(&self, known: &Known) -> Result<()> {
        let failed = |error: io::Error| Error::io(&error, "cannot keep what is known of a login");
        let new = self.private.join(&format!("{}.{}", self.key, std::process::id()));
        let text = serde_json::to_vec(known).map_err(|error| failed(error.into()))?;
        fs::write(&new, text).and_then(|()| fs::rename(&new, self.known_path())).map_err(failed)
    }

    /// Waits until nobody else logs in.
    pub(super) fn turn(&self) -> Result<Turn> {
        let failed = |error: io::Error| Error::io(&error, "cannot lock a login");
        let path = self.private.join(&format!("{}.lock", self.key));
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
        let file = file.map_err(failed)?;
        let deadline = Instant::now() + TURN;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Turn(file)),
                Err(error) if error != rustix::io::Errno::WOULDBLOCK => {
                    return Err(failed(error.into()));
                }
                Err(_) if Instant::now() >= deadline => {
                    let message = format!("another ta still logs in to {}", self.host);
                    return Err(Error::new(ErrorKind::TimedOut, message));
                }
                Err(_) => std::thread::sleep(LOOK),
            }
        }
    }

    /// Logs in, and answers what is known of the login then. `false` where logins cannot be shared:
    /// then each session makes its own.
    pub(super) fn make(&self, desk: &Desk, version: u32) -> Result<(Known, bool)> {
        let found = self.configuration();
        let mut ssh = self.command(&[]);
        let path = self.socket_path();
        ssh.args(["-M", "-N", "-f", "-o", IDLE]);
        if found.takes_ciphers && version >= 80 && has_aes() {
            // Half the work of the usual first one. What the user has said stays as it is.
            ssh.args(["-o", "Ciphers=^aes128-gcm@openssh.com"]);
        }
        ssh.arg("-o").arg(control_path(&path)).args(["--", &self.host.name]);
        desk.of(&mut ssh);
        // One that nobody listens to any more keeps ssh from making another.
        let _ = fs::remove_file(&path);
        let _ = fs::remove_file(self.known_path());
        let id = format!("{:016x}", sys::host::random_number());
        let known = Known { id, version, agent: found.agent, server: None };
        let lines = self.run(ssh, desk)?;
        let stands = self.socket().is_some();
        match lines {
            Some(lines) if !NO_MASTER.iter().any(|text| lines.join("\n").contains(text)) => {
                Err(failure(&self.host.name, &lines))
            }
            // The socket may be one that does not work.
            Some(_) => Ok((known, false)),
            None => Ok((known, stands)),
        }
    }

    /// Runs an ssh that logs in to its end. Its last words, where it fails.
    fn run(&self, mut ssh: Command, desk: &Desk) -> Result<Option<Vec<String>>> {
        detach_on_leash(&mut ssh);
        ssh.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = ssh.spawn().map_err(|error| no_ssh(&error))?;
        let said = child.stderr.take().map(|stderr| Said::follow(stderr.into())).transpose()?;
        if let Some(said) = &said {
            desk.show_with(said.clone());
        }
        let mut deadline = Instant::now() + CONNECTING;
        let over = loop {
            if wait(&mut child, LOOK) {
                break None;
            }
            if desk.is_asking() {
                deadline = Instant::now() + CONNECTING;
            } else {
                // It has said something, and goes on.
                show(said.as_ref(), LAST_WORDS, &self.host);
            }
            if let Some(over) = desk.over() {
                break Some(over);
            }
            if Instant::now() >= deadline {
                let seconds = CONNECTING.as_secs();
                let message =
                    format!("cannot log in to {}: no answer within {seconds} s", self.host);
                break Some(Error::new(ErrorKind::Unreachable, message));
            }
        };
        if let Some(over) = over {
            let _ = child.kill();
            let _ = child.wait();
            return Err(over);
        }
        let status = child.wait().map_err(|error| Error::io(&error, "cannot wait for ssh"))?;
        // (It may have been told to give up and have ended by itself.)
        match desk.over() {
            Some(over) if !status.success() => Err(over),
            _ if status.success() => Ok(None),
            _ => Ok(Some(said.map(|said| said.lines()).unwrap_or_default())),
        }
    }

    /// A session by a program of its own: over the master, or with its own login where there is none,
    /// or where the host lets no second session in.
    pub(super) fn session(
        &self,
        line: &str,
        desk: &Desk,
        known: &Known,
        shared: bool,
    ) -> Result<Channel> {
        let late = if known.version >= 87 { LATE_OPTIONS } else { &[] };
        let mut ssh = self.command(late);
        ssh.args(["-o", "ControlMaster=no", "-o"]);
        match shared {
            true => ssh.arg(control_path(&self.socket_path())),
            false => ssh.arg("ControlPath=none"),
        };
        ssh.args(["--", &self.host.name, line]);
        desk.of(&mut ssh);
        Channel::start(ssh)
    }

    /// Ends the master, if it stands.
    pub(super) fn end(&self) {
        if self.socket().is_some() {
            let mut ssh = self.command(&[]);
            ssh.args(["-O", "exit", "-o"]).arg(control_path(&self.socket_path()));
            ssh.args(["--", &self.host.name]).stdin(Stdio::null());
            let _ = ssh.stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
        let _ = fs::remove_file(self.known_path());
    }

    fn command(&self, late: &[&str]) -> Command {
        let mut ssh = child::command("ssh");
        ssh.arg("-T");
        if let Some(config) = &self.host.config {
            ssh.arg("-F").arg(config);
        }
        for option in OPTIONS.iter().chain(late) {
            ssh.args(["-o", option]);
        }
        ssh
    }

    /// What ssh makes of the configuration. Where it does not tell, nothing is taken for granted.
    fn configuration(&self) -> Configuration {
        let told = |own: bool| {
            let mut ssh = child::command("ssh");
            match (&self.host.config, own) {
                (_, false) => ssh.args(["-F", "none"]),
                (Some(config), true) => ssh.arg("-F").arg(config),
                (None, true) => &mut ssh,
            };
            ssh.args(["-G", "--", if own { &self.host.name } else { "localhost" }]);
            detach(&mut ssh);
            let done = ssh.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
            Some(String::from_utf8_lossy(&done.stdout).into_owned())
        };
        let (Some(own), Some(usual)) = (told(true), told(false)) else {
            return Configuration { takes_ciphers: false, agent: false };
        };
        let value = |of: &str, name: &str| -> Option<String> {
            let line = of.lines().find(|line| line.split(' ').next() == Some(name))?;
            line.split_once(' ').map(|(_, value)| value.to_owned())
        };
        let agent = value(&own, "forwardagent").is_some_and(|value| value != "no");
        let ciphers = value(&own, "ciphers");
        let takes_ciphers = ciphers.is_some() && ciphers == value(&usual, "ciphers");
        Configuration { takes_ciphers, agent }
    }
}

struct Configuration {
    /// The user has nothing to say about ciphers.
    takes_ciphers: bool,
    /// The agent goes along.
    agent: bool,
}

/// A path is no pattern: `%` stands for itself.
fn control_path(path: &std::path::Path) -> std::ffi::OsString {
    let text = path.as_os_str().to_string_lossy().replace('%', "%%");
    format!("ControlPath={text}").into()
}

/// The version of `ssh`, 84 for 8.4; 0 where it does not tell.
pub(super) fn version() -> Result<u32> {
    let mut ssh = child::command("ssh");
    let done = ssh.arg("-V").stdin(Stdio::null()).output().map_err(|error| no_ssh(&error))?;
    Ok(version_in(&String::from_utf8_lossy(&done.stderr)))
}

fn version_in(text: &str) -> u32 {
    let number = text.split_once("OpenSSH_").map_or("", |(_, rest)| rest);
    let number = number.split([' ', ',']).next().unwrap_or_default();
    let number = number.rsplit('_').next().unwrap_or_default();
    let number = number.split('p').next().unwrap_or_default();
    let (major, minor) = number.split_once('.').unwrap_or((number, "0"));
    let of = |text: &str| text.parse::<u32>().unwrap_or(0);
    of(major) * 10 + of(minor).min(9)
}

/// Whether this processor has the instructions for AES.
fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

#[cfg(test)]
mod tests {
    use super::version_in;

    #[test]
    fn versions_are_told_in_several_ways() {
        for (text, expected) in [
            ("OpenSSH_9.2p1 Debian-2+deb12u10, OpenSSL 3.0.19 27 Jan 2026", 92),
            ("OpenSSH_8.2p1 Ubuntu-4", 82),
            ("OpenSSH_10.0p2, LibreSSL 3.3.6", 100),
            ("OpenSSH_for_Windows_9.5p1, LibreSSL 3.8.2", 95),
            ("Sun_SSH_1.1", 0),
        ] {
            assert_eq!(version_in(text), expected, "{text}");
        }
    }
}
