//! The way to a server on a host: over a login that stands and knows where the server is, at once; else
//! a script finds it there, or it is placed there first.

use std::time::Duration;

use super::ask::Desk;
use super::binary::{self, Binary};
use super::channel::Channel;
use super::dialogue::{Dialogue, Heard, marker};
use super::host::SshHost;
use super::login::{self, Known, Login, Started};
use crate::error::{Error, ErrorKind, Result};

const START: &str = include_str!("../../remote/start.sh");
const INSTALL: &str = include_str!("../../remote/install.sh");
const CLEAN: &str = include_str!("../../remote/clean.sh");
/// An ssh older than 8.4 asks in another way.
const OLD: u32 = 84;
/// What every shell understands, csh and fish too.
const SHELL: &str = "exec /bin/sh";
/// How long the far side may take to answer; the login shell's start files run meanwhile.
const ANSWER: Duration = Duration::from_secs(60);
/// How long an upload may stand still.
const STANDSTILL: Duration = Duration::from_secs(60);
/// How many places can fail, one after the other.
const PLACES: usize = 6;

/// Reaches a server there. Answers its session and what has been read beyond its first line.
pub(crate) fn reach(host: &SshHost) -> Result<(Channel, Vec<u8>)> {
    let login = Login::new(host)?;
    let chosen_by = binary::fingerprint(host);
    if let Some(reached) = again(&login, &chosen_by) {
        return Ok(reached);
    }
    let _turn = login.turn()?;
    // Somebody else may have done it meanwhile.
    if let Some(reached) = again(&login, &chosen_by) {
        return Ok(reached);
    }
    let version = login::version()?;
    let desk = Desk::open(&login.private, host, version < OLD)?;
    let way = FirstWay::log_in(&login, &desk, version)?;
    let stood = way.stood;
    match way.start(chosen_by.clone()) {
        // The network that it stood on may have gone, and ssh not have noticed yet.
        Err(error) if stood && desk.over().is_none() && may_pass(&error) => {
            login.end();
            FirstWay::log_in(&login, &desk, version)?.start(chosen_by)
        }
        done => done,
    }
}

fn may_pass(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::TimedOut)
}

/// Over a login that stands, to a server that has been started over it before. `None` where that
/// does not work, for whatever reason.
fn again(login: &Login, chosen_by: &str) -> Option<(Channel, Vec<u8>)> {
    let known = login.known()?;
    let server = known.server.as_ref().filter(|server| server.chosen_by == chosen_by)?;
    let socket = login.socket()?;
    let marker = marker();
    let line = line(&server.path, &known.id, &marker)?;
    let channel = Channel::over(socket, &line, known.agent).ok()?;
    let mut dialogue = Dialogue::new(channel, marker);
    match dialogue.hear(ANSWER, None) {
        Ok(Heard::Line(word, _)) if word == "begin" => Some(dialogue.into_parts()),
        _ => None,
    }
}

/// What starts a server that has been started before, for the user's shell, whichever that is.
fn line(path: &str, id: &str, marker: &str) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+@".contains(&byte);
    let directory = path.strip_suffix("/ta").filter(|path| path.bytes().all(is_plain))?;
    Some(format!(
        "exec {path} exec-server --stdio --environment {directory}/env-{id} --announce '{marker} begin'"
    ))
}

/// A login, and whether its sessions share it.
struct FirstWay<'a> {
    login: &'a Login,
    desk: &'a Desk,
    known: Known,
    shared: bool,
    /// It had been made before.
    stood: bool,
}

/// What has come of trying to start the server.
enum Outcome {
    Begun(Box<(Channel, Vec<u8>)>, String),
    /// It is not there: which one, and where it may be placed.
    Missing(Binary, Place),
}

/// A directory that a server can be placed in.
struct Place {
    number: String,
    packed: bool,
    base: String,
}

impl<'a> FirstWay<'a> {
    fn log_in(login: &'a Login, desk: &'a Desk, version: u32) -> Result<Self> {
        // One that stands is used, whatever is known of it.
        if login.socket().is_some()
            && let Some(known) = login.known()
        {
            return Ok(Self { login, desk, known, shared: true, stood: true });
        }
        let (known, shared) = login.make(desk, version)?;
        if shared {
            login.keep(&known)?;
        }
        Ok(Self { login, desk, known, shared, stood: false })
    }

    fn host(&self) -> &SshHost {
        &self.login.host
    }

    fn session(&self, script: &str, variables: &[(&str, &str)]) -> Result<Dialogue> {
        let channel = self.login.session(SHELL, self.desk, &self.known, self.shared)?;
        Dialogue::script(channel, script, variables)
    }

    fn start(mut self, chosen_by: String) -> Result<(Channel, Vec<u8>)> {
        let mut skip = " ".to_owned();
        let mut why = String::new();
        for _ in 0..PLACES {
            match self.try_to_start(&skip, &why)? {
                Outcome::Begun(reached, path) => {
                    if self.shared {
                        self.known.server = Some(Started { path, chosen_by });
                        // Without it the next one takes longer.
                        let _ = self.login.keep(&self.known);
                    }
                    return Ok(*reached);
                }
                Outcome::Missing(binary, place) => {
                    if let Err(reason) = self.install(binary, &place)? {
                        why = format!(" ({}: {reason})", place.base);
                        skip.push_str(&place.number);
                        skip.push(' ');
                    }
                }
            }
        }
        Err(self.nowhere(&why))
    }

    fn nowhere(&self, why: &str) -> Error {
        let message = format!(
            "{} has no directory where a program can be placed and run: neither ~/.ta nor one below \
             XDG_CACHE_HOME, TMPDIR, /var/tmp or /dev/shm{why}",
            self.host()
        );
        Error::new(ErrorKind::Refused, message)
    }

    fn try_to_start(&self, skip: &str, why: &str) -> Result<Outcome> {
        let variables = [("id", self.known.id.as_str()), ("skip", skip)];
        let mut dialogue = self.session(START, &variables)?;
        let mut wanted = None;
        let mut path = String::new();
        loop {
            let Heard::Line(word, rest) = dialogue.hear(ANSWER, Some(self.desk))? else {
                return Err(self
                    .desk
                    .over()
                    .unwrap_or_else(|| dialogue.explain(&self.host().name)));
            };
            match word.as_str() {
                "system" => {
                    let (system, machine) = rest.split_once(' ').unwrap_or((&rest, ""));
                    let binary = binary::choose(self.host(), system, machine)?;
                    dialogue.tell(&format!("{}\n", binary.sha256))?;
                    wanted = Some(binary);
                }
                "start" => path = rest,
                "begin" => return Ok(Outcome::Begun(Box::new(dialogue.into_parts()), path)),
                "need" => {
                    let mut words = rest.splitn(3, ' ').map(str::to_owned);
                    let mut next = || words.next().unwrap_or_default();
                    let (number, packed, base) = (next(), next() == "gzip", next());
                    let binary = wanted.ok_or_else(|| self.astray("need"))?;
                    // (It has nothing more to say; and where it may not have a second session
                    // beside it, it has to have gone.)
                    let _ = dialogue.hear(ANSWER, None)?;
                    let _ = dialogue.channel.carried.code(ANSWER);
                    return Ok(Outcome::Missing(binary, Place { number, packed, base }));
                }
                "nowhere" => return Err(self.nowhere(why)),
                "broken" => {
                    let message = format!("{} cannot run {rest}", self.host());
                    return Err(Error::new(ErrorKind::Refused, message));
                }
                other => return Err(self.astray(other)),
            }
        }
    }

    fn astray(&self, word: &str) -> Error {
        let message = format!("the script on {} has said {word:?} out of turn", self.host());
        Error::new(ErrorKind::Internal, message)
    }

    /// Places it. The inner error says why another directory has to do.
    fn install(&self, binary: Binary, place: &Place) -> Result<Result<(), String>> {
        let (sha, is_dynamic) = (binary.sha256.clone(), binary.is_dynamic());
        let (packed, content) = binary.packed(place.packed);
        let variables = [("base", place.base.as_str()), ("sha", &sha), ("packed", packed)];
        let mut dialogue = self.session(INSTALL, &variables)?;
        loop {
            let Heard::Line(word, rest) = dialogue.hear(ANSWER, Some(self.desk))? else {
                return Err(self.desk.over().unwrap_or_else(|| {
                    let why = dialogue.explain(&self.host().name);
                    let message = format!("the upload did not come to its end: {}", why.message());
                    Error::new(ErrorKind::Unreachable, message)
                }));
            };
            match word.as_str() {
                "ready" => {
                    let size = content.len() as u64;
                    let tell = |sent: usize| {
                        if let Some(tell) = &self.host().upload {
                            tell(sent as u64, size);
                        }
                    };
                    dialogue.send(&content, STANDSTILL, &tell)?;
                }
                "placed" => {
                    let _ = dialogue.channel.carried.code(ANSWER);
                    return Ok(Ok(()));
                }
                "place" => {
                    let _ = dialogue.channel.carried.code(ANSWER);
                    return Ok(Err(rest));
                }
                "whole" => {
                    let message = format!(
                        "what has arrived on {} is not what was sent: its SHA-256 is {rest}",
                        self.host()
                    );
                    return Err(Error::new(ErrorKind::Unreachable, message));
                }
                "run" => return Err(self.does_not_run(&rest, is_dynamic)),
                other => return Err(self.astray(other)),
            }
        }
    }

    fn does_not_run(&self, said: &str, is_dynamic: bool) -> Error {
        let hint = if is_dynamic {
            "; it is no static program, so it needs the same C library there: give a static one with \
             --server-dir"
        } else {
            ""
        };
        let message = format!("ta does not run on {}: {said}{hint}", self.host());
        Error::new(ErrorKind::Refused, message)
    }
}

/// Removes all that was placed there, and ends the login. Answers what was removed, and what could
/// not be.
pub(crate) fn clean(host: &SshHost) -> Result<(Vec<String>, Vec<String>)> {
    let login = Login::new(host)?;
    let _turn = login.turn()?;
    let version = login::version()?;
    let desk = Desk::open(&login.private, host, version < OLD)?;
    let way = FirstWay::log_in(&login, &desk, version)?;
    let mut dialogue = way.session(CLEAN, &[])?;
    let (mut removed, mut left) = (Vec::new(), Vec::new());
    loop {
        let Heard::Line(word, rest) = dialogue.hear(ANSWER, Some(&desk))? else {
            return Err(desk.over().unwrap_or_else(|| dialogue.explain(&host.name)));
        };
        match word.as_str() {
            "removed" => removed.push(rest),
            "left" => left.push(rest),
            "over" => break,
            other => return Err(way.astray(other)),
        }
    }
    login.end();
    Ok((removed, left))
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn only_a_path_that_means_the_same_to_every_shell_is_started_by_a_line() {
        let found = line("/h/u/.ta/server/ab/ta", "7", "m").unwrap();
        assert_eq!(
            found,
            "exec /h/u/.ta/server/ab/ta exec-server --stdio --environment \
             /h/u/.ta/server/ab/env-7 --announce 'm begin'"
        );
        for path in ["/h/a b/ta", "/h/$x/ta", "/h/!/ta", "/h/~/ta", "/h/x"] {
            assert_eq!(line(path, "7", "m"), None, "{path}");
        }
    }
}
