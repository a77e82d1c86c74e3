//! What is forwarded where, as people write it: the forms of OpenSSH's -L.

use std::fmt;
use std::num::NonZeroU16;
use std::path::PathBuf;

use crate::cli::arguments::STDIO;
use crate::protocol::{ConnectParams, Target, WirePath};

/// One forward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) from: From,
    pub(super) to: To,
}

/// The near end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum From {
    Tcp { bind: Bind, port: u16 },
    Unix(PathBuf),
    Stdio,
}

/// The addresses to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Bind {
    Loopback,
    All,
    Host(String),
}

/// The far end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct To(Target);

impl To {
    /// A connection to it, under an id of its own.
    pub(super) fn params(&self) -> ConnectParams {
        match &self.0 {
            Target::Tcp { host, port } => ConnectParams::tcp(host.clone(), *port),
            Target::Unix(path) => ConnectParams::unix(path.clone()),
        }
    }
}

impl fmt::Display for To {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Target::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Target::Tcp { host, port } => write!(f, "{host}:{port}"),
            Target::Unix(path) => write!(f, "{}", path.as_path().display()),
        }
    }
}

/// A part between two colons.
struct Field {
    text: String,
    /// A Unix socket: it has a slash.
    is_path: bool,
}

impl Spec {
    /// Reads one.
    ///
    /// # Errors
    /// A sentence that says what is wrong, and how forwards are written.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let shown = match text.strip_prefix(STDIO) {
            Some(rest) if rest.starts_with(':') => format!("-{rest}"),
            _ => text.to_owned(),
        };
        read(text).map_err(|why| {
            let forms = "[BIND:]PORT:HOST:PORT, as in 8000:localhost:80, with the path of a socket (it has a / in it) in \
                         place of [BIND:]PORT or HOST:PORT, or -:HOST:PORT";
            format!("{shown:?} is no forward: {why} (they are written {forms})")
        })
    }
}

fn read(text: &str) -> Result<Spec, String> {
    let fields = fields(text)?;
    let (from, to) = match fields.as_slice() {
        [from, rest @ ..] if !from.is_path && from.text == STDIO => (From::Stdio, to(rest)?),
        [from, rest @ ..] if from.is_path => (From::Unix(from.text.clone().into()), to(rest)?),
        [port, to_path] if to_path.is_path => {
            (From::Tcp { bind: Bind::Loopback, port: near_port(port)? }, unix(to_path)?)
        }
        [bind, port, to_path] if to_path.is_path => (tcp(bind, port)?, unix(to_path)?),
        [port, rest @ ..] if rest.len() == 2 => {
            (From::Tcp { bind: Bind::Loopback, port: near_port(port)? }, to(rest)?)
        }
        [bind, port, rest @ ..] if rest.len() == 2 => (tcp(bind, port)?, to(rest)?),
        [_] => return Err("it does not say where to".to_owned()),
        [_, _] => return Err("it says one port or host too few".to_owned()),
        _ => return Err("it has too many parts; an IPv6 address stands in [ ]".to_owned()),
    };
    Ok(Spec { from, to })
}

/// The parts between colons. Brackets keep colons together, a backslash takes the next character as
/// it is.
fn fields(text: &str) -> Result<Vec<Field>, String> {
    let mut fields = Vec::new();
    let mut rest = text.chars().peekable();
    loop {
        let mut field = String::new();
        let in_brackets = rest.next_if_eq(&'[').is_some();
        let mut closed = !in_brackets;
        while let Some(next) = rest.next_if(|next| *next != ':' || !closed) {
            match next {
                '\\' => field.extend(rest.next()),
                ']' if in_brackets => closed = true,
                _ if in_brackets && closed => return Err("something follows a ]".to_owned()),
                other => field.push(other),
            }
        }
        if !closed {
            return Err("a [ is not closed".to_owned());
        }
        fields.push(Field { is_path: field.contains('/'), text: field });
        if rest.next().is_none() {
            return Ok(fields);
        }
    }
}

fn tcp(bind: &Field, port: &Field) -> Result<From, String> {
    let bind = match bind.text.as_str() {
        "" | "*" => Bind::All,
        host => Bind::Host(host.to_owned()),
    };
    Ok(From::Tcp { bind, port: near_port(port)? })
}

fn to(fields: &[Field]) -> Result<To, String> {
    match fields {
        [path] if path.is_path => unix(path),
        [host, port] if !host.is_path && !port.is_path => {
            if host.text.is_empty() {
                return Err("the far host is empty".to_owned());
            }
            let port = NonZeroU16::new(number(port)?).ok_or("the far port cannot be 0")?;
            Ok(To(Target::Tcp { host: host.text.clone(), port }))
        }
        [] => Err("it does not say where to".to_owned()),
        _ => Err("what it leads to is neither HOST:PORT nor a path".to_owned()),
    }
}

fn unix(path: &Field) -> Result<To, String> {
    WirePath::try_from(PathBuf::from(&path.text)).map(|path| To(Target::Unix(path)))
}

/// 0 is one that is free.
fn near_port(field: &Field) -> Result<u16, String> {
    number(field)
}

fn number(field: &Field) -> Result<u16, String> {
    let digits = !field.text.is_empty() && field.text.bytes().all(|byte| byte.is_ascii_digit());
    let port = field.text.parse().ok().filter(|_| digits);
    port.ok_or_else(|| format!("{:?} is no port", field.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp_to(host: &str, port: u16) -> To {
        To(Target::Tcp { host: host.to_owned(), port: NonZeroU16::new(port).unwrap() })
    }

    fn unix_to(path: &str) -> To {
        To(Target::Unix(WirePath::try_from(path).unwrap()))
    }

    fn port(bind: Bind, port: u16) -> From {
        From::Tcp { bind, port }
    }

    #[test]
    fn the_forms_are_those_of_openssh() {
        let host = |host: &str| Bind::Host(host.to_owned());
        for (text, from, to) in [
            ("8000:web:80", port(Bind::Loopback, 8000), tcp_to("web", 80)),
            ("0:web:80", port(Bind::Loopback, 0), tcp_to("web", 80)),
            ("10.0.0.1:8000:web:80", port(host("10.0.0.1"), 8000), tcp_to("web", 80)),
            ("[::1]:8000:[fe80::2]:80", port(host("::1"), 8000), tcp_to("fe80::2", 80)),
            ("8000:[::1]:80", port(Bind::Loopback, 8000), tcp_to("::1", 80)),
            ("*:8000:web:80", port(Bind::All, 8000), tcp_to("web", 80)),
            (":8000:web:80", port(Bind::All, 8000), tcp_to("web", 80)),
            ("/tmp/s:web:80", From::Unix("/tmp/s".into()), tcp_to("web", 80)),
            ("./s:/run/far", From::Unix("./s".into()), unix_to("/run/far")),
            ("8000:/run/far", port(Bind::Loopback, 8000), unix_to("/run/far")),
            ("localhost:8000:/run/far", port(host("localhost"), 8000), unix_to("/run/far")),
            (r"/tmp/a\:b:web:80", From::Unix("/tmp/a:b".into()), tcp_to("web", 80)),
            ("[/tmp/a:b]:[/c:d]", From::Unix("/tmp/a:b".into()), unix_to("/c:d")),
            ("stdio:web:22", From::Stdio, tcp_to("web", 22)),
            ("stdio:/run/far", From::Stdio, unix_to("/run/far")),
        ] {
            assert_eq!(Spec::parse(text), Ok(Spec { from, to }), "{text}");
        }
        assert_eq!(tcp_to("::1", 80).to_string(), "[::1]:80");
    }

    #[test]
    fn what_is_no_forward_says_why_and_how_they_are_written() {
        for (text, why) in [
            ("", "where to"),
            ("8000", "where to"),
            ("8000:80", "too few"),
            ("a:b:c:d:e", "too many"),
            ("8000:::1:80", "[ ]"),
            ("8000:web:0", "cannot be 0"),
            ("8000:web:65536", "\"65536\" is no port"),
            ("+8000:web:80", "\"+8000\" is no port"),
            ("web:80:8000", "\"web\" is no port"),
            ("8000::80", "is empty"),
            ("8000:[::1:80", "not closed"),
            ("8000:[::1]x:80", "follows a ]"),
            ("/tmp/s", "where to"),
            ("/tmp/s:web", "neither"),
            ("stdio:web", "neither"),
            ("stdio:", "neither"),
        ] {
            let error = Spec::parse(text).unwrap_err();
            assert!(error.contains(why) && error.contains("BIND"), "{text}: {error}");
        }
        assert!(Spec::parse("stdio:web").unwrap_err().starts_with("\"-:web\""));
    }
}
