//! Matches as grep(1) shows them.

use crate::protocol::GrepMatch;

/// What a person reads of what was found, in order.
#[derive(Debug, PartialEq)]
pub(crate) enum Shown<'a> {
    /// Lines are left out here, or another file begins.
    Break,
    /// A line around a match, with its number.
    Around(&'a GrepMatch, u64, &'a str),
    Match(&'a GrepMatch),
}

/// Tells each line once, in order: one that matches is shown as that, and one that is around two
/// matches is around the first.
pub(crate) fn show<'a>(matches: &'a [GrepMatch], mut put: impl FnMut(Shown<'a>)) {
    let has_context = matches.iter().any(|it| !(it.before.is_empty() && it.after.is_empty()));
    // The file and the line that were shown last.
    let mut last: Option<(&GrepMatch, u64)> = None;
    for (at, found) in matches.iter().enumerate() {
        let first = found.line.saturating_sub(found.before.len() as u64);
        let shown_to = last.filter(|(other, _)| other.path == found.path).map(|(_, line)| line);
        if has_context && last.is_some() && shown_to.is_none_or(|line| first > line + 1) {
            put(Shown::Break);
        }
        let shown_to = shown_to.unwrap_or(0);
        for (line, text) in (first..).zip(&found.before).filter(|(line, _)| *line > shown_to) {
            put(Shown::Around(found, line, text));
        }
        put(Shown::Match(found));
        let next = matches.get(at + 1).filter(|next| next.path == found.path);
        let end = next.map_or(u64::MAX, |next| next.line);
        let mut shown_to = found.line;
        for (line, text) in (found.line + 1..end).zip(&found.after) {
            put(Shown::Around(found, line, text));
            shown_to = line;
        }
        last = Some((found, shown_to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::WirePath;

    fn found(path: &str, line: u64, before: &[&str], after: &[&str]) -> GrepMatch {
        let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        GrepMatch {
            path: WirePath::try_from(path).unwrap(),
            line,
            text: format!("l{line}"),
            before: lines(before),
            after: lines(after),
            cut: false,
        }
    }

    fn text(matches: &[GrepMatch]) -> String {
        let mut words = Vec::new();
        let name = |found: &GrepMatch| found.path.as_path().display().to_string();
        show(matches, |shown| {
            words.push(match shown {
                Shown::Break => "--".to_owned(),
                Shown::Around(found, line, text) => {
                    assert_eq!(text, format!("l{line}"));
                    format!("{}-{line}", name(found))
                }
                Shown::Match(found) => format!("{}:{}", name(found), found.line),
            });
        });
        words.join(" ")
    }

    #[test]
    fn a_line_is_shown_once() {
        let matches = [
            found("f", 2, &["l1"], &["l3"]),
            found("f", 4, &["l3"], &["l5"]),
            found("f", 5, &["l4"], &["l6"]),
            found("f", 9, &["l8"], &[]),
            found("g", 1, &[], &["l2"]),
        ];
        assert_eq!(text(&matches), "f-1 f:2 f-3 f:4 f:5 f-6 -- f-8 f:9 -- g:1 g-2");
        assert_eq!(text(&[found("f", 2, &[], &[]), found("f", 9, &[], &[])]), "f:2 f:9");
        assert_eq!(text(&[]), "");
    }
}
