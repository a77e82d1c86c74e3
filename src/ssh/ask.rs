//! What ssh asks, on its way to a person: ssh starts `ta` under the name [`NAME`] as its askpass
//! program, and that one asks the desk of the `ta` (or the agent) that has started ssh, over a socket
//! in a directory of this user alone.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::host::{Question, QuestionKind, SshHost};
use super::private::Private;
use super::said::Said;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::lock;
use crate::sys;
use crate::sys::poll::{Interest, Poll, Waker};

/// The name that the askpass program is called by.
const NAME: &str = "ta-askpass";
/// The longest question.
const LONGEST: u64 = 64 * 1024;
/// How long an askpass program may take to say what it wants.
const SAYING: Duration = Duration::from_secs(10);
/// One that is still being made is no older.
const LEFT_OVER: Duration = Duration::from_secs(24 * 3600);

#[derive(Deserialize, Serialize)]
struct Asked {
    hint: Option<String>,
    text: String,
}

#[derive(Deserialize, Serialize)]
struct Answered {
    answer: Option<String>,
}

/// Answers the exit code where `ta` has been started as an askpass program.
pub(crate) fn run(arguments: &[OsString]) -> Option<ExitCode> {
    let own = Path::new(arguments.first()?);
    if own.file_name()? != NAME {
        return None;
    }
    let text = arguments.get(1).map(|text| text.to_string_lossy().into_owned());
    let asked =
        Asked { hint: std::env::var("SSH_ASKPASS_PROMPT").ok(), text: text.unwrap_or_default() };
    let answer = put(&own.with_file_name("socket"), &asked).ok().flatten();
    Some(match answer {
        Some(answer) => match writeln!(io::stdout(), "{answer}") {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        None => ExitCode::FAILURE,
    })
}

/// Puts the question. The desk answers, or goes; ssh ends this program where it waits no longer.
fn put(socket: &Path, asked: &Asked) -> io::Result<Option<String>> {
    let mut stream = UnixStream::connect(socket)?;
    let mut line = serde_json::to_vec(asked)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = String::new();
    BufReader::new(stream.take(LONGEST)).read_line(&mut answer)?;
    Ok(serde_json::from_str::<Answered>(&answer)?.answer)
}

/// Where the questions of an ssh come to. Dropped, it is closed.
pub(super) struct Desk {
    directory: PathBuf,
    state: Arc<State>,
    old_way: bool,
}

struct State {
    /// Somebody is being asked.
    asking: AtomicUsize,
    /// Why there is no use in going on.
    over: Mutex<Option<Error>>,
    /// What ssh has said besides.
    said: Mutex<Option<Said>>,
    /// `over` has been set.
    told: Waker,
    stop: Waker,
}

impl Desk {
    /// Opens it. `old_way` is for an ssh before 8.4, which has no `SSH_ASKPASS_REQUIRE`.
    pub(super) fn open(private: &Private, host: &SshHost, old_way: bool) -> Result<Self> {
        let failed = |error: io::Error| Error::io(&error, "cannot take what ssh asks");
        remove_left_over(private);
        let name = format!("ask-{:08x}", sys::host::random_number() & 0xffff_ffff);
        let making = private.join(&format!(".{name}"));
        fs::DirBuilder::new().mode(0o700).create(&making).map_err(failed)?;
        let bound = UnixListener::bind(making.join("socket"));
        let directory = private.join(&name);
        // Only now: one that has its name and no listener is a dead one's.
        fs::rename(&making, &directory).map_err(failed)?;
        let state = State {
            asking: AtomicUsize::new(0),
            over: Mutex::new(None),
            said: Mutex::new(None),
            told: Waker::new().map_err(failed)?,
            stop: Waker::new().map_err(failed)?,
        };
        // From here on it is removed with the desk.
        let desk = Self { directory, state: Arc::new(state), old_way };
        if let Some(ta) = host.ta() {
            symlink(ta, desk.directory.join(NAME)).map_err(failed)?;
        }
        let listener = bound.map_err(failed)?;
        let (state, host) = (Arc::clone(&desk.state), host.clone());
        let thread = thread::Builder::new().name("askpass".to_owned());
        thread.spawn(move || state.serve(&listener, &host)).map_err(failed)?;
        Ok(desk)
    }

    /// Has an ssh put its questions here.
    pub(super) fn of(&self, ssh: &mut Command) {
        ssh.env("SSH_ASKPASS", self.directory.join(NAME)).env("SSH_ASKPASS_REQUIRE", "force");
        // It asks an askpass program where it has no terminal and there is a display.
        if self.old_way && std::env::var_os("DISPLAY").is_none() {
            ssh.env("DISPLAY", ":0");
        }
    }

    /// What this says belongs to the questions: it is shown before the next.
    pub(super) fn show_with(&self, said: Said) {
        *lock(&self.state.said) = Some(said);
    }

    /// Whether a person is being asked: nobody else's time goes by meanwhile.
    pub(super) fn is_asking(&self) -> bool {
        self.state.asking.load(Ordering::Acquire) > 0
    }

    /// Why there is no use in going on, if that is so.
    pub(super) fn over(&self) -> Option<Error> {
        lock(&self.state.over).clone()
    }

    /// What wakes whoever waits when there is no use in going on.
    pub(super) fn told(&self) -> &Waker {
        &self.state.told
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.state.stop.wake();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// What a `ta` has left that was killed.
fn remove_left_over(private: &Private) {
    let is_old = |path: &Path| {
        let modified = fs::symlink_metadata(path).and_then(|found| found.modified());
        let now = SystemTime::now();
        modified.is_ok_and(|then| now.duration_since(then).is_ok_and(|age| age > LEFT_OVER))
    };
    for entry in fs::read_dir(private.path()).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_dead = match entry.file_name().as_encoded_bytes() {
            name if name.starts_with(b"ask-") => UnixStream::connect(path.join("socket")).is_err(),
            name if name.starts_with(b".ask-") => is_old(&path),
            _ => false,
        };
        if is_dead {
            let _ = fs::remove_dir_all(path);
        }
    }
}

impl State {
    fn serve(&self, listener: &UnixListener, host: &SshHost) {
        loop {
            let mut poll = Poll::default();
            let arrival = poll.add(listener.as_fd(), Interest::Read);
            let stop = poll.add(self.stop.as_fd(), Interest::Read);
            if poll.wait(None).is_err() || poll.ready(stop).any() {
                return;
            }
            if poll.ready(arrival).any()
                && let Ok((stream, _)) = listener.accept()
            {
                self.asking.fetch_add(1, Ordering::AcqRel);
                // (One that breaks off does so because ssh has gone, which is seen elsewhere.)
                let _ = self.take(&stream, host);
                self.asking.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    fn take(&self, mut stream: &UnixStream, host: &SshHost) -> io::Result<()> {
        stream.set_read_timeout(Some(SAYING))?;
        let mut line = String::new();
        BufReader::new(stream.take(LONGEST)).read_line(&mut line)?;
        let asked: Asked = serde_json::from_str(&line)?;
        let question = question(asked);
        let said = lock(&self.said).clone();
        show(said.as_ref(), Duration::ZERO, host);
        let answer = host.ask.as_ref().and_then(|ask| ask(&question));
        let answer = answer.filter(|answer| fits(question.kind, answer));
        if answer.is_none() && question.kind != QuestionKind::Notice {
            let words = question.text.trim().lines().last().unwrap_or_default().to_owned();
            let message = match host.ask {
                None => format!("ssh asks {words:?}, and there is nobody to answer"),
                Some(_) => format!("the login to {host} was given up at {words:?}"),
            };
            lock(&self.over).get_or_insert(Error::new(ErrorKind::Refused, message));
            self.told.wake();
        }
        let mut answered = serde_json::to_vec(&Answered { answer })?;
        answered.push(b'\n');
        stream.write_all(&answered)
    }
}

/// Shows what has been said for so long and nobody has been shown yet.
pub(super) fn show(said: Option<&Said>, age: Duration, host: &SshHost) {
    if let Some(ask) = &host.ask
        && let Some(text) = said.and_then(|said| said.unshown(age))
    {
        ask(&Question { kind: QuestionKind::Notice, text });
    }
}

/// ssh says of some questions what kind they are; whether a host is the right one it asks as it asks
/// for a password, and it must never get one there.
fn question(Asked { hint, text }: Asked) -> Question {
    let lower = text.to_lowercase();
    let kind = match hint.as_deref() {
        Some("none") => QuestionKind::Notice,
        Some("confirm") => QuestionKind::YesOrNo,
        _ if lower.contains("(yes/no") || lower.contains("please type 'yes'") => {
            QuestionKind::YesOrNo
        }
        _ => QuestionKind::Secret,
    };
    Question { kind, text }
}

/// An answer of one line; to a question about a host yes, no or a fingerprint, whatever the case.
fn fits(kind: QuestionKind, answer: &str) -> bool {
    let is_line = !answer.contains(['\n', '\0']);
    let is_known = ["yes", "no"].iter().any(|word| answer.eq_ignore_ascii_case(word))
        || answer.starts_with("SHA256:")
        || answer.starts_with("MD5:");
    is_line && (kind != QuestionKind::YesOrNo || is_known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_about_a_host_is_none_for_a_secret() {
        let of = |hint: Option<&str>, text: &str| {
            question(Asked { hint: hint.map(str::to_owned), text: text.to_owned() }).kind
        };
        let host = "The authenticity of host 'h' can't be established.\nAre you sure you want to \
                    continue connecting (yes/no/[fingerprint])? ";
        assert_eq!(of(None, host), QuestionKind::YesOrNo);
        assert_eq!(of(None, "Please type 'yes', 'no' or the fingerprint: "), QuestionKind::YesOrNo);
        assert_eq!(of(Some("confirm"), "Allow use of key k?"), QuestionKind::YesOrNo);
        assert_eq!(of(Some("none"), "Confirm user presence"), QuestionKind::Notice);
        for text in ["u@h's password: ", "Enter passphrase for key 'k': ", "Verification code: "] {
            assert_eq!(of(None, text), QuestionKind::Secret);
        }
        assert!(!fits(QuestionKind::YesOrNo, "correct horse") && !fits(QuestionKind::YesOrNo, ""));
        assert!(fits(QuestionKind::YesOrNo, "Yes") && fits(QuestionKind::Secret, ""));
    }
}
