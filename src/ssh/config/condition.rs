//! For whom a section of a configuration holds: `Host`, `Match`, or everybody.

use std::iter::Peekable;

use super::pattern::{self, Pattern, Truth};

/// For whom a section holds.
#[derive(Debug)]
pub(super) enum Condition {
    /// What stands before the first section of a file.
    Everybody,
    Host(Vec<Pattern>),
    Match(Vec<Criterion>),
    /// It cannot be read.
    Unreadable,
}

/// One condition of a `Match`.
#[derive(Debug)]
pub(super) struct Criterion {
    negated: bool,
    test: Test,
}

#[derive(Debug)]
enum Test {
    All,
    /// The second pass over the configuration, which `final` asks for.
    Final,
    /// The second pass too: without a canonical name there is nothing else to it.
    Canonical,
    Host(Vec<Pattern>),
    OriginalHost(Vec<Pattern>),
    User(Vec<Pattern>),
    LocalUser(Vec<Pattern>),
    Tagged(Vec<Pattern>),
    /// A command to run, an interface to look at, the version of ssh, what it is called for.
    Undecidable,
}

/// What is known of a connection when a section begins.
pub(super) struct Subject<'a> {
    /// The name that `Host` looks at: as it was given, and in the second pass the one that it led to.
    pub(super) host: Option<&'a [u8]>,
    /// The name as it was given.
    pub(super) original: &'a [u8],
    /// The name that it leads to so far.
    pub(super) target: Option<&'a str>,
    pub(super) user: Option<&'a str>,
    pub(super) local_user: Option<&'a str>,
    pub(super) tag: Option<&'a str>,
    pub(super) is_final: bool,
}

impl Condition {
    pub(super) fn of_host(words: &[Vec<u8>]) -> Self {
        Self::Host(words.iter().map(|word| Pattern::new(word)).collect())
    }

    /// # Errors
    /// What is wrong with it.
    pub(super) fn of_match(words: &[Vec<u8>]) -> Result<Self, &'static str> {
        let mut criteria = Vec::new();
        let mut words = words.iter().map(Vec::as_slice).peekable();
        while let Some(word) = words.next() {
            criteria.push(Criterion::new(word, &mut words)?);
        }
        // What asks for nothing else stands alone, or behind what names the pass.
        let (last, before) = criteria.split_last().ok_or("Match has no criteria")?;
        let is_all = |one: &Criterion| matches!(one.test, Test::All);
        let is_pass = |one: &Criterion| matches!(one.test, Test::Final | Test::Canonical);
        let combined = before.iter().any(is_all) || (is_all(last) && !before.iter().all(is_pass));
        if combined || before.len() > 1 && is_all(last) {
            return Err("all cannot be combined with other criteria of Match");
        }
        Ok(Self::Match(criteria))
    }

    /// Whether it asks for a second pass over the configuration.
    pub(super) fn wants_final_pass(&self) -> bool {
        matches!(self, Self::Match(criteria) if criteria.iter().any(|one| matches!(one.test, Test::Final)))
    }

    /// The names without wildcards that it lists.
    pub(super) fn names(&self) -> impl Iterator<Item = &[u8]> {
        let patterns = match self {
            Self::Host(patterns) => patterns.as_slice(),
            _ => &[],
        };
        patterns.iter().filter_map(Pattern::literal)
    }

    /// The names that it is about, where it is about nothing else.
    pub(super) fn literals(&self) -> Option<Vec<&[u8]>> {
        match self {
            Self::Host(patterns) => {
                let wanted = patterns.iter().filter(|pattern| !pattern.is_negated());
                wanted.map(Pattern::literal).collect()
            }
            _ => None,
        }
    }

    /// How many bytes of patterns a name is compared with.
    pub(super) fn length(&self) -> usize {
        let all = |patterns: &[Pattern]| patterns.iter().map(|one| one.length() + 1).sum();
        match self {
            Self::Everybody | Self::Unreadable => 0,
            Self::Host(patterns) => all(patterns),
            Self::Match(criteria) => criteria.iter().map(|one| all(one.test.patterns())).sum(),
        }
    }

    /// Whether it holds.
    pub(super) fn holds(&self, subject: &Subject<'_>) -> Truth {
        match self {
            Self::Everybody => Truth::Yes,
            Self::Host(patterns) => pattern::any_of(patterns, subject.host),
            Self::Match(criteria) => {
                criteria.iter().fold(Truth::Yes, |truth, one| truth.and(one.holds(subject)))
            }
            Self::Unreadable => Truth::Unknown,
        }
    }
}

impl Test {
    fn new(name: &str, argument: &[u8]) -> Self {
        match name {
            // Names of hosts have no case here.
            "host" => Self::Host(pattern::list(&argument.to_ascii_lowercase())),
            "originalhost" => Self::OriginalHost(pattern::list(&argument.to_ascii_lowercase())),
            "user" => Self::User(pattern::list(argument)),
            "localuser" => Self::LocalUser(pattern::list(argument)),
            "tagged" => Self::Tagged(pattern::list(argument)),
            _ => Self::Undecidable,
        }
    }

    fn patterns(&self) -> &[Pattern] {
        match self {
            Self::All | Self::Final | Self::Canonical | Self::Undecidable => &[],
            Self::Host(patterns)
            | Self::OriginalHost(patterns)
            | Self::User(patterns)
            | Self::LocalUser(patterns)
            | Self::Tagged(patterns) => patterns,
        }
    }
}

impl Criterion {
    /// `NAME ARGUMENT`, or with a `=` between them, or `NAME` alone for those that ask for nothing.
    fn new<'a>(
        word: &'a [u8],
        rest: &mut Peekable<impl Iterator<Item = &'a [u8]>>,
    ) -> Result<Self, &'static str> {
        let negated = word.first() == Some(&b'!');
        let word = &word[usize::from(negated)..];
        let (name, joined) = match word.iter().position(|byte| *byte == b'=') {
            Some(at) => (&word[..at], Some(&word[at + 1..]).filter(|value| !value.is_empty())),
            None => (word, None),
        };
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let simple = match name.as_str() {
            "all" => Some(Test::All),
            "final" => Some(Test::Final),
            "canonical" => Some(Test::Canonical),
            _ => None,
        };
        if let Some(test) = simple {
            return Ok(Self { negated, test });
        }
        if joined.is_none() {
            rest.next_if(|next| *next == b"=");
        }
        let argument = joined.or_else(|| rest.next());
        let argument = argument.ok_or("a criterion of Match has no argument")?;
        let test = Test::new(&name, argument.strip_prefix(b"=").unwrap_or(argument));
        Ok(Self { negated, test })
    }

    fn holds(&self, subject: &Subject<'_>) -> Truth {
        let text = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
        let lower = |text: Option<&[u8]>| text.map(<[u8]>::to_ascii_lowercase);
        let any = |patterns, name: Option<Vec<u8>>| pattern::any_of(patterns, name.as_deref());
        let truth = match &self.test {
            Test::All => Truth::Yes,
            Test::Final | Test::Canonical => subject.is_final.into(),
            Test::Host(patterns) => any(patterns, lower(subject.target.map(str::as_bytes))),
            Test::OriginalHost(patterns) => any(patterns, lower(Some(subject.original))),
            Test::User(patterns) => any(patterns, text(subject.user)),
            Test::LocalUser(patterns) => any(patterns, text(subject.local_user)),
            Test::Tagged(patterns) => any(patterns, text(subject.tag)),
            Test::Undecidable => Truth::Unknown,
        };
        if self.negated { truth.not() } else { truth }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Condition, &'static str> {
        let words: Vec<_> = text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        Condition::of_match(&words)
    }

    #[test]
    fn a_match_is_known_as_far_as_nothing_has_to_be_asked() {
        let subject = Subject {
            host: Some(b"web"),
            original: b"Web",
            target: Some("WWW.example.org"),
            user: Some("me"),
            local_user: None,
            tag: Some(""),
            is_final: false,
        };
        for (text, expected) in [
            ("all", Truth::Yes),
            ("!all", Truth::No),
            ("final all", Truth::No),
            ("host www.*", Truth::Yes),
            ("HOST=WWW.* !originalhost db", Truth::Yes),
            ("host = db", Truth::No),
            ("user me,you", Truth::Yes),
            ("user Me", Truth::No),
            ("localuser me", Truth::Unknown),
            ("tagged x", Truth::No),
            ("exec true", Truth::Unknown),
            ("!exec true user me", Truth::Unknown),
            ("exec true user you", Truth::No),
            ("something new", Truth::Unknown),
        ] {
            assert_eq!(of(text).unwrap().holds(&subject), expected, "{text}");
        }
    }

    #[test]
    fn all_stands_alone() {
        for text in ["all user me", "user me all", "canonical final all", "all all", "host"] {
            assert!(of(text).is_err(), "{text}");
        }
    }
}
