//! Log lines on stderr: text for people, JSON for machines. One line an event; never a payload,
//! a command or a token.

use std::fmt::Write as _;
use std::io::Write as _;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

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

/// Switches logging on, once. Without it nothing is logged: a library is silent.
pub(crate) fn start(level: Level, format: Format) {
    let _ = SETTINGS.set((level, format));
}

/// A value of a field.
pub(crate) type Field<'a> = (&'a str, &'a dyn std::fmt::Display);

/// Logs one event.
pub(crate) fn event(level: Level, name: &str, fields: &[Field<'_>]) {
    let Some((most, format)) = SETTINGS.get() else { return };
    if level > *most {
        return;
    }
    let mut line = match format {
        Format::Text => text(level, name, fields),
        Format::Json => json(level, name, fields),
    };
    line.push('\n');
    // One write a line, so that lines of several threads do not mix. A stderr that has gone
    // must not end the server.
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
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
        let value = value.to_string();
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
        let _ = write!(line, ",{}:{}", quoted(key), quoted(&value.to_string()));
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
