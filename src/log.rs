//! Log lines on stderr: text for people, JSON for machines. One line an event; never a payload or a
//! token, and a command only where somebody has asked for commands.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::fd::AsFd;
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::sys::poll::{Interest, wait_for};

/// How much is told, from least to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Off,
    Error,
    Warn,
    Info,
    Debug,
}

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            "error" => Ok(Self::Error),
            "warn" => Ok(Self::Warn),
            "info" => Ok(Self::Info),
            "debug" => Ok(Self::Debug),
            _ => Err("a log level is one of off, error, warn, info, debug".to_owned()),
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err("a log format is text or json".to_owned()),
        }
    }
}

static SETTINGS: OnceLock<(Level, Format)> = OnceLock::new();
static SHOWS_COMMANDS: AtomicBool = AtomicBool::new(false);

/// From now on lines about processes have their commands.
pub(crate) fn show_commands() {
    SHOWS_COMMANDS.store(true, Ordering::Relaxed);
}

/// Whether they have.
pub(crate) fn shows_commands() -> bool {
    SHOWS_COMMANDS.load(Ordering::Relaxed)
}

/// Switches logging on, once. Without it nothing is logged: a library is silent.
pub(crate) fn start(level: Level, format: Format) {
    let _ = SETTINGS.set((level, format));
}

/// A value of a field.
pub(crate) type Field<'a> = (&'a str, &'a dyn std::fmt::Display);

/// The first line of all, whatever the level: where the server listens.
pub(crate) fn listening(url: &str) {
    let line = match SETTINGS.get() {
        Some((_, Format::Json)) => json(Level::Info, "listening", &[("url", &url)]),
        _ => format!("ta: listening on {url}"),
    };
    let _ = std::io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

/// Logs one event. A log that nobody reads holds up nothing: lines that do not fit are dropped,
/// and counted.
pub(crate) fn event(level: Level, name: &str, fields: &[Field<'_>]) {
    let Some((most, format)) = SETTINGS.get() else { return };
    if level > *most {
        return;
    }
    let render = |level, name, fields: &[Field<'_>]| match format {
        Format::Text => text(level, name, fields) + "\n",
        Format::Json => json(level, name, fields) + "\n",
    };
    let line = render(level, name, fields);
    let mut stderr = std::io::stderr().lock();
    // A pipe that says it is writable has room for PIPE_BUF bytes, which is more than a line.
    let room = wait_for(stderr.as_fd(), Interest::Write, Some(Duration::ZERO));
    if !matches!(room, Ok(Some(ready)) if ready.writable) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let dropped = DROPPED.swap(0, Ordering::Relaxed);
    let note = match dropped {
        0 => String::new(),
        _ => render(Level::Warn, "log lines dropped", &[("count", &dropped)]),
    };
    // One write, so that lines of several threads do not mix. A stderr that has gone must not
    // end the server.
    let _ = stderr.write_all((note + &line).as_bytes());
}

/// Lines for which stderr had no room.
static DROPPED: AtomicU64 = AtomicU64::new(0);
/// A value is cut at so many characters: a line has a few of them, and must fit into PIPE_BUF.
const LONGEST_VALUE: usize = 300;

fn shown(value: &dyn std::fmt::Display) -> String {
    let value = value.to_string();
    match value.char_indices().nth(LONGEST_VALUE) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value,
    }
}

pub(crate) fn warn(name: &str, fields: &[Field<'_>]) {
    event(Level::Warn, name, fields);
}

pub(crate) fn info(name: &str, fields: &[Field<'_>]) {
    event(Level::Info, name, fields);
}

pub(crate) fn debug(name: &str, fields: &[Field<'_>]) {
    event(Level::Debug, name, fields);
}

fn text(level: Level, name: &str, fields: &[Field<'_>]) -> String {
    let mut line = format!("ta: {level:?} {name}").to_lowercase().replacen("ta: info ", "ta: ", 1);
    for (key, value) in fields {
        let value = shown(*value);
        let plain = !value.is_empty()
            && value.chars().all(|c| c.is_ascii_graphic() && c != '"' && c != '=');
        // Quoted with escapes: what a peer has chosen cannot make up a line of its own.
        let _ =
            if plain { write!(line, " {key}={value}") } else { write!(line, " {key}={value:?}") };
    }
    line
}

fn json(level: Level, name: &str, fields: &[Field<'_>]) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut line = format!(
        "{{\"timeMs\":{},\"level\":\"{}\",\"event\":{}",
        now.as_millis(),
        format!("{level:?}").to_lowercase(),
        quoted(name)
    );
    for (key, value) in fields {
        let _ = write!(line, ",{}:{}", quoted(key), quoted(&shown(*value)));
    }
    line.push('}');
    line
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_chose_cannot_forge_a_line() {
        let line = text(Level::Info, "closed", &[("peer", &"1.2.3.4:5"), ("why", &"a\nta: x")]);
        assert_eq!(line, "ta: closed peer=1.2.3.4:5 why=\"a\\nta: x\"");
        let line = json(Level::Warn, "closed", &[("why", &"a\n\"")]);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["level"], "warn");
        assert_eq!(value["why"], "a\n\"");
    }
}
