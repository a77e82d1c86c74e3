//! A parameter of a host, as one line sets it.
//!
//! ssh2-config reads the value: which types there are, and how a list of jumps is written, is its
//! business. It gets one line at a time, so that a value that it does not like costs no other line, and
//! so that the first of two values counts, as for ssh (within a block it takes the last).

use ssh2_config::{DefaultAlgorithms, HostParams, ParseRule, SshConfig};

use super::line::Line;

/// What a line sets; `None` where it can only be told by ssh itself.
#[derive(Debug)]
pub(super) enum Setting {
    /// With the tokens that are still in it.
    HostName(Option<String>),
    User(Option<String>),
    Port(Option<u16>),
    /// How the host is reached: through these others, one after the other.
    ProxyJump(Option<Vec<String>>),
    /// The name is looked up, may become another, and everything is gone through again with it.
    Canonical(bool),
    /// The name is looked up and may become another.
    PermittedCnames(bool),
    Tag(Option<String>),
}

/// What a line says of a host; `None` for a keyword that is not looked at.
///
/// # Errors
/// What is wrong with it. ssh would stop there.
pub(super) fn setting(line: &Line<'_>) -> Result<Option<Setting>, String> {
    let fault = |fault: super::line::Fault| format!("{}: {fault}", line.keyword);
    let word = || line.word().map_err(fault);
    let setting = match line.keyword.as_str() {
        "hostname" => Setting::HostName(read(line, &word()?, |params| params.host_name)?),
        // Newer versions of ssh replace tokens and variables in it, older ones do not.
        "user" => Setting::User(
            read(line, &word()?, |params| params.user)?
                .filter(|user| !user.contains('%') && !user.contains("${")),
        ),
        "port" => match read(line, &word()?, |params| params.port)? {
            Some(0) => return Err("port 0: there is no such port".to_owned()),
            port => Setting::Port(port),
        },
        "proxyjump" => Setting::ProxyJump(jumps(line)?),
        // Whichever of the two stands first is the one that counts.
        "proxycommand" if line.rest.is_empty() => return Err(fault(super::line::Fault::None)),
        "proxycommand" => Setting::ProxyJump(Some(Vec::new())),
        "canonicalizehostname" => Setting::Canonical(!is_one_of(&word()?, &["no", "false"])),
        "canonicalizepermittedcnames" => {
            let words = line.words().map_err(fault)?;
            Setting::PermittedCnames(!words.iter().all(|word| is_one_of(word, &["none"])))
        }
        "tag" => Setting::Tag(String::from_utf8(word()?).ok()),
        _ => return Ok(None),
    };
    Ok(Some(setting))
}

fn is_one_of(word: &[u8], words: &[&str]) -> bool {
    words.iter().any(|one| word.eq_ignore_ascii_case(one.as_bytes()))
}

/// The value of one line. Bytes that are no text are for ssh alone.
fn read<T>(
    line: &Line<'_>,
    word: &[u8],
    value: impl Fn(HostParams) -> Option<T>,
) -> Result<Option<T>, String> {
    let Ok(word) = std::str::from_utf8(word) else { return Ok(None) };
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"");
    let text = format!("{} \"{escaped}\"\n", line.keyword);
    let config = SshConfig::default()
        .default_algorithms(DefaultAlgorithms::empty())
        // No line with a path comes here, and nobody shall go and look where home is.
        .home_dir("/")
        .parse(&mut text.as_bytes(), ParseRule::STRICT);
    let config = config.map_err(|error| format!("{} {word:?}: {error}", line.keyword))?;
    Ok(value(config.query("")))
}

/// The hosts on the way. What follows the keyword is taken as it is, without quotes, up to a comment.
fn jumps(line: &Line<'_>) -> Result<Option<Vec<String>>, String> {
    let rest = line.rest.split(|byte| *byte == b'#').next().unwrap_or_default().trim_ascii_end();
    if rest.is_empty() {
        return Err(format!("{}: {}", line.keyword, super::line::Fault::None));
    }
    if is_one_of(rest, &["none"]) {
        return Ok(Some(Vec::new()));
    }
    let Some(jumps) = read(line, rest, |params| params.proxy_jump)? else { return Ok(None) };
    let invalid = |jump: &str| format!("{} {jump:?}: this is no [user@]host[:port]", line.keyword);
    jumps
        .iter()
        .map(|jump| hop(jump).ok_or_else(|| invalid(jump)))
        .collect::<Result<_, _>>()
        .map(Some)
}

/// `[USER@]HOST[:PORT]`, also of what is written as `ssh://…`.
fn hop(text: &str) -> Option<String> {
    let text = text.strip_prefix("ssh://").map_or(text, |rest| rest.trim_end_matches('/'));
    let (user, rest) = match text.rsplit_once('@') {
        Some((user, rest)) => (format!("{user}@"), rest),
        None => (String::new(), text),
    };
    let (host, port) = match rest.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
        }
        None => rest.split_once(':').map_or((rest, None), |(host, port)| (host, Some(port))),
    };
    let port = match port {
        Some("") | None => String::new(),
        Some(port) => format!(":{}", port.parse().ok().filter(|port: &u16| *port != 0)?),
    };
    let is_host = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c == '"');
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    (is_host && user != "@").then(|| format!("{user}{host}{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Option<Setting>, String> {
        setting(&Line::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn values_are_those_of_ssh() {
        for (text, expected) in [
            ("HostName \"a b\"", "HostName(Some(\"a b\"))"),
            ("hostname a\\b # c", "HostName(Some(\"a\\\\b\"))"),
            ("USER=x#y", "User(Some(\"x#y\"))"),
            ("User %h", "User(None)"),
            ("Port \"0022\"", "Port(Some(22))"),
            ("Port +22", "Port(Some(22))"),
            ("ProxyJump none", "ProxyJump(Some([]))"),
            ("ProxyCommand nc \"%h", "ProxyJump(Some([]))"),
            ("ProxyJump a,ssh://u@b:22/ # c", "ProxyJump(Some([\"a\", \"u@b:22\"]))"),
            ("ProxyJump u@[::1]:022,[x]", "ProxyJump(Some([\"u@[::1]:22\", \"x\"]))"),
            ("CanonicalizeHostname always", "Canonical(true)"),
            ("CanonicalizeHostname no", "Canonical(false)"),
            ("CanonicalizePermittedCNAMEs a:b c:d", "PermittedCnames(true)"),
        ] {
            assert_eq!(format!("{:?}", of(text).unwrap().unwrap()), expected, "{text}");
        }
        assert!(of("ConnectTimeout 10s").unwrap().is_none());
        assert!(matches!(of("User \"\u{e4}\""), Ok(Some(Setting::User(Some(_))))));
        let latin = setting(&Line::parse(b"User a\xe4").unwrap());
        assert!(matches!(latin, Ok(Some(Setting::User(None)))));
    }

    #[test]
    fn what_ssh_would_not_take_is_said() {
        for (text, part) in [
            ("Port x", "port"),
            ("Port 65536", "65536"),
            ("Port 0", "port 0"),
            ("User a b", "more than one"),
            ("User", "no argument"),
            ("HostName \"\"", "empty"),
            ("HostName \"x", "quote"),
            ("ProxyJump a,,b", "host"),
            ("ProxyJump @b", "host"),
            ("ProxyJump a:0", "a:0"),
            ("ProxyJump \"a\"", "host"),
            ("ProxyJump # none", "no argument"),
            ("ProxyCommand", "no argument"),
        ] {
            let fault = of(text).unwrap_err();
            assert!(fault.contains(part), "{text}: {fault}");
        }
    }
}
