//! A line of a configuration: a keyword and its arguments, with the quotes of ssh(1).

use std::fmt;

/// What stands on a line that is neither empty nor a comment.
pub(super) struct Line<'a> {
    /// In lower case.
    pub(super) keyword: String,
    /// What follows the keyword, without white space around it.
    pub(super) rest: &'a [u8],
}

/// Why a line has no arguments to go by.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    OpenQuote,
    None,
    Empty,
    TooMany,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenQuote => "a quote is not closed",
            Self::None => "there is no argument",
            Self::Empty => "an argument is empty",
            Self::TooMany => "there is more than one argument",
        })
    }
}

impl<'a> Line<'a> {
    /// Keyword and rest; `None` where there is nothing to read. Between them may be white space, one
    /// `=`, or both.
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        // As a C string ends.
        let line = line.split(|byte| *byte == 0).next().unwrap_or_default();
        let line = trimmed(line);
        if line.first() == Some(&b'"') {
            // No `=` is skipped behind a keyword in quotes.
            let end = line[1..].iter().position(|byte| *byte == b'"')? + 1;
            return Self::new(&line[1..end], &line[end + 1..]);
        }
        let end = line.iter().position(|byte| is_blank(*byte) || matches!(byte, b'=' | b'"'));
        let (keyword, rest) = line.split_at(end.unwrap_or(line.len()));
        let rest = trimmed(rest);
        Self::new(keyword, rest.strip_prefix(b"=").unwrap_or(rest))
    }

    fn new(keyword: &[u8], rest: &'a [u8]) -> Option<Self> {
        let is_comment = keyword.first().is_none_or(|first| *first == b'#');
        let keyword = String::from_utf8_lossy(keyword).to_ascii_lowercase();
        (!is_comment).then(|| Self { keyword, rest: trimmed(rest) })
    }

    /// The arguments, at least one, none of them empty.
    pub(super) fn words(&self) -> Result<Vec<Vec<u8>>, Fault> {
        let words = words(self.rest)?;
        match words.iter().any(Vec::is_empty) {
            true => Err(Fault::Empty),
            false if words.is_empty() => Err(Fault::None),
            false => Ok(words),
        }
    }

    /// The only argument.
    pub(super) fn word(&self) -> Result<Vec<u8>, Fault> {
        let mut words = self.words()?;
        match (words.pop(), words.is_empty()) {
            (Some(word), true) => Ok(word),
            (Some(_), false) => Err(Fault::TooMany),
            (None, _) => Err(Fault::None),
        }
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0x0c)
}

fn trimmed(mut text: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = text
        && is_blank(*first)
    {
        text = rest;
    }
    while let [rest @ .., last] = text
        && is_blank(*last)
    {
        text = rest;
    }
    text
}

/// The words up to a comment. Quotes of both kinds may begin and end inside a word; a backslash is
/// for a quote, for itself, and outside of quotes for a space.
fn words(text: &[u8]) -> Result<Vec<Vec<u8>>, Fault> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match (byte, quote) {
            (b' ' | b'\t', None) => words.extend(word.take()),
            (b'#', None) if word.is_none() => break,
            (b'\\', _) => {
                let is_escape = |next: &u8| {
                    matches!(next, b'\'' | b'"' | b'\\') || (*next == b' ' && quote.is_none())
                };
                let escaped = bytes.next_if(is_escape);
                word.get_or_insert_default().push(escaped.unwrap_or(byte));
            }
            (b'"' | b'\'', None) => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (closing, Some(open)) if closing == open => quote = None,
            (other, _) => word.get_or_insert_default().push(other),
        }
    }
    if quote.is_some() {
        return Err(Fault::OpenQuote);
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Option<(String, String)> {
        let line = Line::parse(text.as_bytes())?;
        Some((line.keyword, String::from_utf8(line.rest.to_vec()).unwrap()))
    }

    #[test]
    fn a_keyword_ends_with_white_space_or_one_equals_sign() {
        for text in [
            "Host a b",
            "host=a b",
            "HOST = a b ",
            "\t Host\t=\ta b\r\n",
            "hOsT =a b\x0c",
            "\"Host\" a b",
        ] {
            assert_eq!(line(text), Some(("host".to_owned(), "a b".to_owned())), "{text:?}");
        }
        assert_eq!(line("Host==a").unwrap().1, "=a");
        assert_eq!(line("\"Port\" = 1").unwrap().1, "= 1", "as ssh has it");
        for text in ["", " \t\r\n", "# Host a", "  #Host a", "\"Host a"] {
            assert_eq!(line(text), None, "{text:?}");
        }
    }

    #[test]
    fn words_are_those_of_ssh() {
        for (text, expected) in [
            ("a b\tc", &["a", "b", "c"][..]),
            ("\"a b\" 'c \"d' e\"f g\"h", &["a b", "c \"d", "ef gh"]),
            (r#"a\ b \"c "d\"e" \x \\ '\''"#, &["a b", "\"c", "d\"e", "\\x", "\\", "'"]),
            ("a # b", &["a"]),
            ("a#b c", &["a#b", "c"]),
            ("\"\" a", &["", "a"]),
            ("#", &[]),
        ] {
            let found = words(text.as_bytes()).unwrap();
            let found: Vec<_> = found.iter().map(|word| String::from_utf8_lossy(word)).collect();
            assert_eq!(found, expected, "{text}");
        }
        assert_eq!(words(b"a 'b"), Err(Fault::OpenQuote));
    }
}
