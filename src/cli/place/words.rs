//! Words of a command line.

/// The words of a command line, as a shell reads them that knows quotes and backslashes and nothing
/// else.
pub(super) fn split(line: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), closing) if open == closing => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => {
                let next = characters.next().ok_or("a backslash ends the command")?;
                let is_literal = quote.is_some() && !matches!(next, '"' | '\\' | '$' | '`');
                let word = word.get_or_insert_default();
                if is_literal {
                    word.push('\\');
                }
                word.push(next);
            }
            (None, blank) if blank.is_ascii_whitespace() => words.extend(word.take()),
            (_, other) => word.get_or_insert_default().push(other),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed");
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        for (line, expected) in [
            ("docker exec -i c /ta", vec!["docker", "exec", "-i", "c", "/ta"]),
            ("  a  'b c'\"d e\"f  ", vec!["a", "b cd ef"]),
            (r#"a\ b "c\"d\e" '\' ''"#, vec!["a b", "c\"d\\e", "\\", ""]),
            ("", vec![]),
        ] {
            assert_eq!(split(line).unwrap(), expected, "{line}");
        }
        assert!(split("a 'b").is_err() && split("a\\").is_err());
    }
}
