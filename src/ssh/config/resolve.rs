//! What ssh would make of a host: the first value counts, and what cannot be told is said to be so.

use std::collections::HashMap;
use std::net::IpAddr;

use super::condition::Subject;
use super::outline::{Outline, Step};
use super::pattern::Truth;
use super::setting::Setting;

/// What a section or a setting costs, beside what is compared.
const STEP: u64 = 64;
/// Where ssh connects where nothing else is said.
const PORT: u16 = 22;

/// Where a host leads; `None` where only ssh itself can tell.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Resolved {
    pub(super) host_name: Option<String>,
    pub(super) user: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) proxy_jump: Option<Vec<String>>,
}

/// The first value, once there is one.
#[derive(Clone, Debug)]
enum First<T> {
    Unset,
    Known(T),
    Unknown,
}

impl<T: Clone> First<T> {
    /// It is set, certainly or perhaps.
    fn set(&mut self, value: Option<&T>, applies: Truth) {
        if let (Self::Unset, Truth::Yes | Truth::Unknown) = (&self, applies) {
            *self = match (value, applies) {
                (Some(value), Truth::Yes) => Self::Known(value.clone()),
                _ => Self::Unknown,
            };
        }
    }

    /// The value, or what stands for none.
    fn or(&self, default: impl FnOnce() -> Option<T>) -> Option<T> {
        match self {
            Self::Unset => default(),
            Self::Known(value) => Some(value.clone()),
            Self::Unknown => None,
        }
    }
}

/// What is known so far.
struct State<'a> {
    /// As it was given, without the user.
    original: &'a str,
    local_user: Option<&'a str>,
    host_name: First<String>,
    user: First<String>,
    port: First<u16>,
    proxy_jump: First<Vec<String>>,
    canonical: First<bool>,
    permitted_cnames: First<bool>,
    tag: First<String>,
}

/// Where a name of the list leads. It takes from the work that is left what it costs, and where that is
/// not enough, nothing can be told.
pub(super) fn resolve(
    outline: &Outline,
    name: &str,
    local_user: Option<&str>,
    work: &mut u64,
) -> Resolved {
    // ssh takes a URI apart before it looks at the configuration.
    if name.starts_with("ssh://") {
        return Resolved::default();
    }
    // As on a command line.
    let (user, original) = match name.rsplit_once('@') {
        Some(("", _) | (_, "")) => return Resolved::default(),
        Some((user, host)) => (First::Known(user.to_owned()), host),
        None => (First::Unset, name),
    };
    let mut state = State {
        original,
        local_user,
        host_name: First::Unset,
        user,
        port: First::Unset,
        proxy_jump: First::Unset,
        canonical: First::Unset,
        permitted_cnames: First::Unset,
        tag: First::Unset,
    };
    state.pass(outline, Some(original), None, work);
    let host_name = state.target().map(spelled);
    let is_canonical = may_be(&state.canonical);
    let is_looked_up = is_canonical || may_be(&state.permitted_cnames);
    let host_name = host_name.filter(|host| !is_looked_up || host.parse::<IpAddr>().is_ok());
    if outline.wants_final_pass() || is_canonical {
        state.host_name = host_name.clone().map_or(First::Unknown, First::Known);
        let certain = outline.wants_final_pass() || matches!(state.canonical, First::Known(true));
        let comes = if certain { Truth::Yes } else { Truth::Unknown };
        state.pass(outline, host_name.as_deref(), Some(comes), work);
    }
    if *work == 0 {
        return Resolved::default();
    }
    Resolved {
        host_name,
        user: state.user.or(|| local_user.map(str::to_owned)),
        port: state.port.or(|| Some(PORT)),
        proxy_jump: state.proxy_jump.or(|| Some(Vec::new())),
    }
}

fn may_be(flag: &First<bool>) -> bool {
    !matches!(flag, First::Unset | First::Known(false))
}

impl State<'_> {
    /// Goes through the configuration, the second time with whether there is a second time.
    fn pass(
        &mut self,
        outline: &Outline,
        host: Option<&str>,
        second: Option<Truth>,
        work: &mut u64,
    ) {
        let comes = second.unwrap_or(Truth::Yes);
        let is_final = second.is_some();
        let mut holds: HashMap<usize, Truth> = HashMap::new();
        if *work == 0 {
            return;
        }
        for step in outline.steps(host.map(str::as_bytes)) {
            *work = work.saturating_sub(self.cost(&step));
            if *work == 0 {
                return;
            }
            match step {
                Step::Begin { section, parent, condition } => {
                    // A section that was left out is about others.
                    let above = parent
                        .map_or(comes, |parent| holds.get(&parent).copied().unwrap_or(Truth::No));
                    let target = if is_final { host.map(str::to_owned) } else { self.target() };
                    let user = self.user.or(|| self.local_user.map(str::to_owned));
                    let tag = self.tag.or(|| Some(String::new()));
                    let own = condition.holds(&Subject {
                        host: host.map(str::as_bytes),
                        original: self.original.as_bytes(),
                        target: target.as_deref(),
                        user: user.as_deref(),
                        local_user: self.local_user,
                        tag: tag.as_deref(),
                        is_final,
                    });
                    holds.insert(section, above.and(own));
                }
                Step::Set { section, setting } => {
                    let applies = holds.get(&section).copied().unwrap_or(Truth::No);
                    self.set(setting, applies);
                }
            }
        }
    }

    /// The most that a step can cost.
    fn cost(&self, step: &Step<'_>) -> u64 {
        match step {
            Step::Begin { condition, .. } => {
                STEP.saturating_add(condition.length() as u64 * self.original.len() as u64)
            }
            Step::Set { .. } => STEP,
        }
    }

    fn set(&mut self, setting: &Setting, applies: Truth) {
        match setting {
            Setting::HostName(value) => self.host_name.set(value.as_ref(), applies),
            Setting::User(value) => self.user.set(value.as_ref(), applies),
            Setting::Port(value) => self.port.set(value.as_ref(), applies),
            Setting::ProxyJump(value) => self.proxy_jump.set(value.as_ref(), applies),
            Setting::Canonical(value) => self.canonical.set(Some(value), applies),
            Setting::PermittedCnames(value) => self.permitted_cnames.set(Some(value), applies),
            Setting::Tag(value) => self.tag.set(value.as_ref(), applies),
        }
    }

    /// The name that it leads to so far.
    fn target(&self) -> Option<String> {
        match &self.host_name {
            First::Unset => Some(self.original.to_owned()),
            First::Known(template) => expanded(template, self.original),
            First::Unknown => None,
        }
    }
}

/// `%h` is the name as it was given, `%%` a percent sign, and ssh knows no other token here.
fn expanded(template: &str, host: &str) -> Option<String> {
    let mut text = String::new();
    let mut characters = template.chars();
    while let Some(character) = characters.next() {
        match character {
            '%' => match characters.next()? {
                '%' => text.push('%'),
                'h' => text.push_str(host),
                _ => return None,
            },
            other => text.push(other),
        }
    }
    Some(text)
}

/// A name in lower case, an address in its shortest form, as ssh spells them.
fn spelled(host: String) -> String {
    if host.contains('%') {
        // An address with its interface.
        return host;
    }
    match host.parse::<IpAddr>().map(|address| address.to_string()) {
        Ok(address) if address.eq_ignore_ascii_case(&host) => host,
        Ok(address) => address,
        Err(_) => host.to_ascii_lowercase(),
    }
}
