//! How much a model is shown: so many lines and so many bytes, on whole lines where that can be.

/// The most lines.
pub(super) const MAX_LINES: usize = 2000;
/// The most bytes.
pub(super) const MAX_BYTES: usize = 50 * 1024;

/// The part of a text that is shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part<'a> {
    pub(super) text: &'a str,
    /// Whole lines in it, or one that is not whole.
    pub(super) lines: usize,
    /// It is a part of a line that is too long by itself.
    pub(super) is_of_a_line: bool,
}

/// The beginning of a text, of at most so many lines.
pub(super) fn head(text: &str, most: usize) -> Part<'_> {
    let (mut end, mut lines) = (0, 0);
    for line in text.split_inclusive('\n').take(most.min(MAX_LINES)) {
        if end + line.len() > MAX_BYTES {
            break;
        }
        end += line.len();
        lines += 1;
    }
    if lines == 0 && !text.is_empty() {
        let text = &text[..floor(text, MAX_BYTES)];
        return Part { text, lines: 1, is_of_a_line: true };
    }
    Part { text: &text[..end], lines, is_of_a_line: false }
}

/// The end of a text.
pub(super) fn tail(text: &str) -> Part<'_> {
    let (mut start, mut lines) = (text.len(), 0);
    while lines < MAX_LINES && start > 0 {
        let before = text[..start].strip_suffix('\n').unwrap_or(&text[..start]);
        let line = before.rfind('\n').map_or(0, |feed| feed + 1);
        if text.len() - line > MAX_BYTES {
            break;
        }
        start = line;
        lines += 1;
    }
    if lines == 0 && !text.is_empty() {
        let start = ceil(text, text.len() - MAX_BYTES);
        return Part { text: &text[start..], lines: 1, is_of_a_line: true };
    }
    Part { text: &text[start..], lines, is_of_a_line: false }
}

/// The beginning of a line, of at most so many bytes, and whether that is not all of it.
pub(super) fn line(text: &str, most: usize) -> (&str, bool) {
    if text.len() <= most { (text, false) } else { (&text[..floor(text, most)], true) }
}

/// The last boundary of a character up to there.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The first from there on.
pub(super) fn ceil(text: &str, at: usize) -> usize {
    (at..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

/// A number of bytes as people read it.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KB", "MB", "GB", "TB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let (mut whole, mut tenths, mut unit) = (bytes / 1024, bytes % 1024 * 10 / 1024, 0);
    while whole >= 1024 && unit + 1 < UNITS.len() {
        (whole, tenths) = (whole / 1024, whole % 1024 * 10 / 1024);
        unit += 1;
    }
    if tenths == 0 {
        format!("{whole} {}", UNITS[unit])
    } else {
        format!("{whole}.{tenths} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(text: &str, lines: usize, is_of_a_line: bool) -> Part<'_> {
        Part { text, lines, is_of_a_line }
    }

    #[test]
    fn what_fits_is_shown_whole() {
        for (text, lines) in [("", 0), ("a", 1), ("a\n", 1), ("a\n\nb", 3), ("\n", 1)] {
            assert_eq!(head(text, 2000), part(text, lines, false), "{text:?}");
            assert_eq!(tail(text), part(text, lines, false), "{text:?}");
        }
    }

    #[test]
    fn lines_are_left_out_whole_by_their_number_and_by_their_bytes() {
        let many: String = (1..=2001).map(|line| format!("{line}\n")).collect();
        assert!(head(&many, 5000).text.ends_with("\n2000\n") && head(&many, 5000).lines == 2000);
        assert!(tail(&many).text.starts_with("2\n3\n") && tail(&many).lines == 2000);
        assert_eq!(head(&many, 2), part("1\n2\n", 2, false));
        let long = format!("first\n{}\nlast", "x".repeat(MAX_BYTES - 4));
        assert_eq!(head(&long, 9), part("first\n", 1, false));
        assert_eq!(tail(&long), part("last", 1, false));
    }

    #[test]
    fn a_line_that_is_too_long_is_cut_between_characters() {
        let euros = "\u{20ac}".repeat(MAX_BYTES);
        let fits = "\u{20ac}".repeat(MAX_BYTES / 3);
        assert_eq!(head(&euros, 9), part(&fits, 1, true));
        assert_eq!(tail(&euros), part(&fits, 1, true));
        assert_eq!(tail(&format!("{euros}\n")).lines, 1);
        assert_eq!(line("a\u{20ac}b", 3), ("a", true));
        assert_eq!(line("a\u{20ac}", 4), ("a\u{20ac}", false));
    }

    #[test]
    fn sizes_are_rounded_down() {
        assert_eq!(size(1023), "1023 bytes");
        assert_eq!(size(1536), "1.5 KB");
        assert_eq!(size(50 * 1024), "50 KB");
        assert_eq!(size(5 << 30), "5 GB");
    }
}
