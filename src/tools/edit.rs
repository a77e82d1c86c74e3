//! `edit`: exact text replaced in a file, unless somebody else changes it meanwhile.

use std::ops::Range;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{Call, Failure, Outcome, Tools, arguments, diff, path, truncate};
use crate::environment::part;
use crate::error::ErrorKind;
use crate::protocol::{ReadFileParams, WirePath, WriteFileParams};

/// How often it is read and written again when somebody else has been faster.
const TRIES: usize = 10;
/// The largest file: it is held in memory a few times.
const LARGEST: u64 = 64 * 1024 * 1024;
const BOM: &str = "\u{feff}";

#[derive(Deserialize)]
struct Args {
    path: String,
    edits: Vec<Edit>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Edit {
    old_text: String,
    new_text: String,
}

pub(super) fn run(tools: &Tools, raw: Option<&RawValue>, call: &Call) -> Result<Outcome, Failure> {
    let args: Args = arguments::read(raw)?;
    let path = tools.path(&args.path)?;
    let name = path::shown(&path);
    let mut tries = TRIES;
    loop {
        let (content, version) = read_whole(tools, &path, call)?;
        let Ok(text) = String::from_utf8(content) else {
            return Err(Failure(format!("{name} is not UTF-8 text")));
        };
        let changed = apply(&text, &args.edits).map_err(|why| Failure(format!("{name}: {why}")))?;
        let mut params = WriteFileParams::new(path.clone(), changed.text.into_bytes());
        params.if_version = Some(version);
        tries -= 1;
        match tools.environment().write_file(&params) {
            Ok(_) => return Ok(outcome(&name, args.edits.len(), &changed.diff)),
            // Others have changed it since it was read: what they have written stays.
            Err(error) if *error.kind() == ErrorKind::Conflict && tries > 0 => {}
            Err(error) => return Err(error.into()),
        }
        if call.cancel.is_cancelled() {
            return Err(Failure::aborted());
        }
    }
}

fn outcome(name: &str, count: usize, diff: &str) -> Outcome {
    let places = if count == 1 { "place" } else { "places" };
    let shown = truncate::head(diff, truncate::MAX_LINES);
    let cut = if shown.text.len() < diff.len() { "\n[the diff is longer]" } else { "" };
    let mut outcome =
        Outcome::text(format!("edited {name} in {count} {places}\n\n{}{cut}", shown.text));
    outcome.details = Some(json!({"edits": count}));
    outcome
}

/// The whole file, and the version that it had throughout.
fn read_whole(tools: &Tools, path: &WirePath, call: &Call) -> Result<(Vec<u8>, String), Failure> {
    let environment = tools.environment();
    let length = Some(part(&**environment)? as u64);
    let mut all = Vec::new();
    let mut version: Option<String> = None;
    loop {
        let offset = (!all.is_empty()).then_some(all.len() as u64);
        let read = environment.read_file(&ReadFileParams { path: path.clone(), offset, length })?;
        if read.size > LARGEST || all.len() as u64 > LARGEST {
            let (size, most) = (truncate::size(read.size), truncate::size(LARGEST));
            let name = path::shown(path);
            return Err(Failure(format!("{name} has {size}, and what is edited at most {most}")));
        }
        let is_same = version.as_ref().is_none_or(|version| *version == read.version);
        if !is_same {
            all.clear();
            version = None;
        } else {
            let is_over = read.eof || read.data_base64.0.is_empty();
            all.extend_from_slice(&read.data_base64.0);
            let version = version.insert(read.version);
            if is_over {
                return Ok((all, version.clone()));
            }
        }
        if call.cancel.is_cancelled() {
            return Err(Failure::aborted());
        }
    }
}

/// A file with edits made.
#[derive(Debug)]
struct Changed {
    text: String,
    diff: String,
}

/// Makes all edits in a text as it is before any of them.
fn apply(original: &str, edits: &[Edit]) -> Result<Changed, String> {
    if edits.is_empty() {
        return Err("there are no edits".to_owned());
    }
    let body = original.strip_prefix(BOM).unwrap_or(original);
    let view = View::of(body);
    let mut places = Vec::with_capacity(edits.len());
    for (number, edit) in (1..).zip(edits) {
        let range = place(&view.text, edit).map_err(|why| of_edit(number, edits, &why))?;
        places.push((range, number, edit.new_text.replace("\r\n", "\n")));
    }
    places.sort_by_key(|(range, ..)| range.start);
    for pair in places.windows(2) {
        if let [(first, a, _), (second, b, _)] = pair
            && first.end > second.start
        {
            return Err(format!("edits {} and {} overlap: make them one", a.min(b), a.max(b)));
        }
    }
    let changes: Vec<_> = places.into_iter().map(|(range, _, new)| (range, new)).collect();
    if changes.iter().all(|(range, new)| view.text[range.clone()] == **new) {
        return Err("nothing would change: oldText and newText are the same".to_owned());
    }
    let mut text = original[..original.len() - body.len()].to_owned();
    let mut at = 0;
    for (range, new) in &changes {
        let (start, end) = (view.original(range.start), view.original(range.end));
        text.push_str(&body[at..start]);
        text.push_str(&view.with_line_ends(range, new));
        at = end;
    }
    text.push_str(&body[at..]);
    Ok(Changed { text, diff: diff::unified(&view.text, &changes) })
}

fn of_edit(number: usize, edits: &[Edit], why: &str) -> String {
    if edits.len() == 1 { why.to_owned() } else { format!("edit {number}: {why}") }
}

/// Where the old text is, which must be one place.
fn place(text: &str, edit: &Edit) -> Result<Range<usize>, String> {
    let old = edit.old_text.replace("\r\n", "\n");
    if old.is_empty() {
        return Err("oldText is empty (write makes a file)".to_owned());
    }
    let Some(start) = text.find(&old) else {
        return Err("oldText is not in it; it must be exact, white space and all".to_owned());
    };
    // Overlapping ones count too.
    let step = text[start..].chars().next().map_or(1, char::len_utf8);
    if text[start + step..].contains(&old) {
        let count = text.matches(&old).count().max(2);
        return Err(format!("oldText is in it {count} times; it must be more, to be there once"));
    }
    Ok(start..start + old.len())
}

/// A text with LF alone, and where its parts are in the original.
struct View {
    text: String,
    /// Where each line feed is that had a CR before it.
    pairs: Vec<usize>,
    /// The first line of the original ends with CR LF.
    is_crlf: bool,
}

impl View {
    fn of(original: &str) -> Self {
        let mut text = String::with_capacity(original.len());
        let mut pairs = Vec::new();
        for (number, line) in original.split("\r\n").enumerate() {
            if number > 0 {
                pairs.push(text.len());
                text.push('\n');
            }
            text.push_str(line);
        }
        let is_crlf = text.find('\n').is_some_and(|first| pairs.first() == Some(&first));
        Self { text, pairs, is_crlf }
    }

    /// Where that is in the original: before the CR where it is before its line feed.
    fn original(&self, at: usize) -> usize {
        at + self.pairs.partition_point(|pair| *pair < at)
    }

    /// A new text for that place, with line ends as the place has them, else as the file.
    fn with_line_ends(&self, range: &Range<usize>, new: &str) -> String {
        let first = self.text[range.clone()].find('\n').map(|feed| range.start + feed);
        let is_crlf = match first {
            Some(feed) => self.pairs.binary_search(&feed).is_ok(),
            None => self.is_crlf,
        };
        if is_crlf { new.replace('\n', "\r\n") } else { new.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(original: &str, edits: &[(&str, &str)]) -> Result<String, String> {
        let edit = |(old, new): &(&str, &str)| Edit {
            old_text: (*old).to_owned(),
            new_text: (*new).to_owned(),
        };
        let edits: Vec<_> = edits.iter().map(edit).collect();
        apply(original, &edits).map(|changed| changed.text)
    }

    #[test]
    fn edits_are_made_in_the_text_as_it_was() {
        assert_eq!(edited("a b c", &[("c", "a"), ("a", "c")]).unwrap(), "c b a");
        assert_eq!(edited("a b c", &[("a ", ""), ("b", "x\ny")]).unwrap(), "x\ny c");
        assert_eq!(edited("ab", &[("a", "1"), ("b", "2")]).unwrap(), "12");
    }

    #[test]
    fn what_is_not_there_once_is_refused() {
        assert!(edited("a b", &[("c", "x")]).unwrap_err().contains("not in it"));
        assert!(edited("a b a", &[("a", "x")]).unwrap_err().contains("2 times"));
        assert!(edited("aaa", &[("aa", "x")]).unwrap_err().contains("2 times"));
        assert!(edited("\u{20ac}\u{20ac}", &[("\u{20ac}", "x")]).unwrap_err().contains("2 times"));
        assert!(edited("a", &[("", "x")]).unwrap_err().contains("empty"));
        assert!(edited("a b", &[("a", "x"), ("c", "x")]).unwrap_err().starts_with("edit 2: "));
        assert!(edited("abc", &[("bc", "x"), ("ab", "x")]).unwrap_err().contains("edits 1 and 2"));
        assert!(edited("a", &[("a", "a")]).unwrap_err().contains("nothing would change"));
        assert!(edited("a", &[]).is_err());
    }

    #[test]
    fn a_bom_and_line_ends_stay() {
        let crlf = "\u{feff}one\r\ntwo\r\nthree\r\n";
        let changed = edited(crlf, &[("two\nthree", "2\n2.5\n3")]).unwrap();
        assert_eq!(changed, "\u{feff}one\r\n2\r\n2.5\r\n3\r\n");
        assert_eq!(edited(crlf, &[("one\r\n", "")]).unwrap(), "\u{feff}two\r\nthree\r\n");
        assert_eq!(edited(crlf, &[("two", "2\n2")]).unwrap(), crlf.replace("two", "2\r\n2"));
        let mixed = "a\nb\r\nc\n";
        assert_eq!(edited(mixed, &[("b\n", "B\nB\n")]).unwrap(), "a\nB\r\nB\r\nc\n");
        assert_eq!(edited(mixed, &[("a\nb", "x\ny")]).unwrap(), "x\ny\r\nc\n");
        assert_eq!(edited("a\r\n\nb", &[("\n\n", "-")]).unwrap(), "a-b");
        assert_eq!(edited("a\rb\r\n", &[("a\rb", "c")]).unwrap(), "c\r\n");
    }
}
