//! Who may connect, as far as the head of a request tells.

use std::net::IpAddr;

/// Who may connect.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    /// The token that an upgrade needs; none is needed without it.
    pub(crate) token: Option<Token>,
    /// Values of `Origin` that are let in.
    pub(crate) origins: Vec<String>,
    /// The Codex dialect is spoken, too.
    pub(crate) codex: bool,
}

/// A secret. It is never shown.
#[derive(Clone)]
pub(crate) struct Token(Vec<u8>);

impl Token {
    pub(crate) fn new(token: impl Into<Vec<u8>>) -> Self {
        Self(token.into())
    }

    /// Takes the same time wherever the first difference is.
    fn matches(&self, given: &[u8]) -> bool {
        let differences = self.0.iter().zip(given).fold(0_u8, |sum, (a, b)| sum | (a ^ b));
        std::hint::black_box(differences) == 0 && self.0.len() == given.len()
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// A request's header fields.
pub(super) struct Headers<'a>(pub(super) &'a [httparse::Header<'a>]);

impl<'a> Headers<'a> {
    /// The values of all fields of that name.
    pub(super) fn all(&self, name: &'static str) -> impl Iterator<Item = &'a [u8]> {
        let named = self.0.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
        named.map(|header| header.value)
    }

    /// Whether this is one of the words of a field.
    pub(super) fn has_word(&self, name: &'static str, wanted: &str) -> bool {
        self.all(name).any(|value| {
            value
                .split(|byte| *byte == b',')
                .any(|item| item.trim_ascii().eq_ignore_ascii_case(wanted.as_bytes()))
        })
    }

    /// Whether a web page asks that is not let in.
    pub(super) fn are_foreign(&self, access: &Access) -> bool {
        let is_known = |origin: &[u8]| access.origins.iter().any(|one| one.as_bytes() == origin);
        self.all("Origin").any(|origin| !is_known(origin))
    }

    /// Whether a proxy says that it asks for somebody else, or the name that was asked for may be
    /// anybody's: a page can have its own name lead to this machine.
    pub(super) fn may_be_of_others(&self) -> bool {
        const PROXIES: [&str; 4] = ["Forwarded", "X-Forwarded-For", "X-Real-IP", "Via"];
        PROXIES.iter().any(|name| self.all(name).next().is_some())
            || self.all("Host").any(|host| !names_this_machine(host))
    }
}

/// Whether the value of a Host field is one of this machine's own names for itself.
fn names_this_machine(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let bare = host.rsplit_once(':').filter(|(_, port)| !port.contains(']'));
    let bare = bare.map_or(host, |(bare, _)| bare);
    let address = bare.strip_prefix('[').and_then(|bare| bare.strip_suffix(']')).unwrap_or(bare);
    bare.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Whether a token has been given and all that were given are right.
pub(super) fn is_authorized<'a>(
    token: &Token,
    headers: impl Iterator<Item = &'a [u8]>,
    query: &str,
) -> bool {
    let bearers = headers.map(|value| match value.split_at_checked(7) {
        Some((scheme, given)) if scheme.eq_ignore_ascii_case(b"Bearer ") => {
            token.matches(given.trim_ascii())
        }
        _ => false,
    });
    let queried = query.split('&').filter_map(|pair| pair.strip_prefix("token="));
    let queried = queried.map(|given| token.matches(&percent_decode(given)));
    let mut given = 0;
    let mut wrong = 0;
    for right in bearers.chain(queried) {
        given += 1;
        wrong += i32::from(!right);
    }
    given > 0 && wrong == 0
}

/// `%2B` and the like. A `+` stays one: tokens in base64 have it, and none has a space.
fn percent_decode(text: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let value = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (byte, value) {
            (b'%', Some(value)) => {
                decoded.push(value);
                rest = &after[2..];
            }
            _ => {
                decoded.push(byte);
                rest = after;
            }
        }
    }
    decoded
}
