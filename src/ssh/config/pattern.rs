//! Patterns of names, and what can be said of a name without looking it up.

/// What is known of a condition. To know, ssh would have to run a command or to ask a name server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Truth {
    Yes,
    No,
    Unknown,
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }
}

impl Truth {
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Yes, Self::Yes) => Self::Yes,
            _ => Self::Unknown,
        }
    }

    pub(super) fn or(self, other: Self) -> Self {
        self.not().and(other.not()).not()
    }

    pub(super) fn not(self) -> Self {
        match self {
            Self::Yes => Self::No,
            Self::No => Self::Yes,
            Self::Unknown => Self::Unknown,
        }
    }
}

/// One pattern: `*` is any number of bytes, `?` is one, and there is no other wildcard.
#[derive(Debug)]
pub(super) struct Pattern {
    text: Vec<u8>,
    negated: bool,
}

impl Pattern {
    pub(super) fn new(text: &[u8]) -> Self {
        let negated = text.first() == Some(&b'!');
        Self { text: text[usize::from(negated)..].to_vec(), negated }
    }

    /// The name that it stands for, if it is one: neither a wildcard nor an exception.
    pub(super) fn literal(&self) -> Option<&[u8]> {
        let is_literal = !self.negated && !self.text.iter().any(|byte| matches!(byte, b'*' | b'?'));
        is_literal.then_some(&self.text)
    }

    /// How many bytes it has.
    pub(super) fn length(&self) -> usize {
        self.text.len()
    }

    /// Whether it takes a name away.
    pub(super) fn is_negated(&self) -> bool {
        self.negated
    }

    /// Whether the name is meant, apart from the negation. A name that is not known has to be any.
    fn covers(&self, name: Option<&[u8]>) -> Truth {
        match name {
            Some(name) => matches(&self.text, name).into(),
            None if self.text.iter().all(|byte| *byte == b'*') => {
                Truth::from(!self.text.is_empty())
            }
            None => Truth::Unknown,
        }
    }
}

/// Whether one of the patterns means the name, and no negated one does.
pub(super) fn any_of(patterns: &[Pattern], name: Option<&[u8]>) -> Truth {
    let (mut wanted, mut excepted) = (Truth::No, Truth::No);
    for pattern in patterns {
        let covered = pattern.covers(name);
        let side = if pattern.negated { &mut excepted } else { &mut wanted };
        *side = side.or(covered);
    }
    wanted.and(excepted.not())
}

/// The patterns of a list with commas.
pub(super) fn list(text: &[u8]) -> Vec<Pattern> {
    text.split(|byte| *byte == b',').map(Pattern::new).collect()
}

/// After a star it is enough to remember the last one: what an earlier one could take more, this one
/// can take too. So the time is bounded by the product of both lengths.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut last_star = None;
    while from < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                last_star = Some((at, from));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[from] => {
                at += 1;
                from += 1;
            }
            _ => {
                let Some((star, taken)) = last_star else { return false };
                last_star = Some((star, taken + 1));
                at = star + 1;
                from = taken + 1;
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_number_and_a_question_mark_is_one() {
        for (pattern, name, expected) in [
            ("web", "web", true),
            ("web", "Web", false),
            ("*", "", true),
            ("?", "", false),
            ("w?b*", "web1", true),
            ("*.example.*", "a.b.example.org", true),
            ("a*b*c", "axbxbxc", true),
            ("a*b*c", "axbxbx", false),
            ("[ab]", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
        let (pattern, name) = ("a*".repeat(2000) + "b", "a".repeat(20_000));
        assert!(!matches(pattern.as_bytes(), name.as_bytes()), "and does not take for ever");
    }

    #[test]
    fn a_negated_pattern_only_takes_away() {
        let of = |text: &str, name| any_of(&list(text.as_bytes()), name);
        assert_eq!(of("*,!web", Some(b"web")), Truth::No);
        assert_eq!(of("!web,*", Some(b"db")), Truth::Yes);
        assert_eq!(of("!web", Some(b"db")), Truth::No);
    }

    #[test]
    fn of_an_unknown_name_only_what_holds_for_all_is_known() {
        let of = |text: &str| any_of(&list(text.as_bytes()), None);
        assert_eq!(of("*"), Truth::Yes);
        assert_eq!(of("web"), Truth::Unknown);
        assert_eq!(of("*,!web"), Truth::Unknown);
        assert_eq!(of("web,!*"), Truth::No);
    }
}
