//! Which member of an object a place in its text belongs to.
//!
//! Whoever reads JSON knows only the byte at which it stopped. The names that lead there are found
//! by going through the text once more, which costs nothing as long as nothing is wrong.

/// The path to the value that ends, or goes on, or is about to begin at a byte of this JSON, as in
/// `env.A` or `args[2]`; empty for the whole. A member's name itself belongs to the object around it.
pub(super) fn path(json: &str, at: usize) -> String {
    let mut open: Vec<Container<'_>> = Vec::new();
    let before = json.as_bytes().get(..at).unwrap_or(json.as_bytes());
    let mut index = 0;
    let mut string = "";
    while let Some(byte) = before.get(index) {
        match (byte, open.last_mut()) {
            (b'"', _) => {
                let end = string_end(before, index + 1);
                string = json.get(index + 1..end).unwrap_or_default();
                index = end;
            }
            (b'{', _) => open.push(Container::Object(None)),
            (b'[', _) => open.push(Container::Array(0)),
            (b'}' | b']', _) => drop(open.pop()),
            (b':', Some(Container::Object(member))) => *member = Some(string),
            (b',', Some(Container::Object(member))) => *member = None,
            (b',', Some(Container::Array(element))) => *element += 1,
            _ => {}
        }
        index += 1;
    }
    let mut path = String::new();
    for container in open {
        match container {
            Container::Object(Some(member)) if path.is_empty() => path.push_str(member),
            Container::Object(Some(member)) => path.extend([".", member]),
            Container::Object(None) => {}
            Container::Array(element) => path.push_str(&format!("[{element}]")),
        }
    }
    path
}

/// Where line and column, as serde_json tells them, are in a text.
pub(super) fn offset(text: &str, line: usize, column: usize) -> usize {
    let before = text.split_inclusive('\n').take(line.saturating_sub(1));
    before.map(str::len).sum::<usize>() + column
}

enum Container<'a> {
    /// And the member that is being read.
    Object(Option<&'a str>),
    /// And the element.
    Array(usize),
}

/// The index of the quote that closes the string whose content begins at `start`.
fn string_end(json: &[u8], start: usize) -> usize {
    let mut index = start;
    while let Some(byte) = json.get(index) {
        match byte {
            b'"' => break,
            b'\\' => index += 2,
            _ => index += 1,
        }
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_the_text_has_a_path() {
        let json = r#"{"a": 1, "b\"{": {"c": [10, {"d": "x"}], "e": null}}"#;
        for (after, expected) in [
            ("{", ""),
            ("\"a\"", ""),
            ("\"a\": ", "a"),
            ("\"a\": 1", "a"),
            ("1,", ""),
            (": {\"c\": [", r#"b\"{.c[0]"#),
            ("[10", r#"b\"{.c[0]"#),
            ("[10, ", r#"b\"{.c[1]"#),
            ("\"x", r#"b\"{.c[1].d"#),
            ("\"x\"}", r#"b\"{.c[1]"#),
            ("]", r#"b\"{.c"#),
            ("null", r#"b\"{.e"#),
            ("null}", r#"b\"{"#),
            ("null}}", ""),
        ] {
            let at = json.find(after).unwrap() + after.len();
            assert_eq!(path(json, at), expected, "after {after}");
        }
        assert_eq!(path("", 7), "");
        assert_eq!(path("\u{e4}\u{e4}", 1), "");
    }

    #[test]
    fn lines_and_columns_are_those_of_the_parser() {
        for text in ["{\"a\":\n [1,\n2, x]}", "{\"a\": x}", "\n\nx", "{\n\"\u{e4}\": x}"] {
            let error = serde_json::from_str::<serde_json::Value>(text).unwrap_err();
            let found = offset(text, error.line(), error.column());
            assert_eq!(text.find('x'), Some(found - 1), "{text}");
        }
    }
}
