//! Changes that are known, as a unified diff.

use std::fmt::Write as _;
use std::ops::Range;

/// Lines that are shown before and after a change.
const CONTEXT: usize = 3;

/// The diff of a text and of what comes of it by these changes, which are in order and do not overlap.
pub(super) fn unified(text: &str, changes: &[(Range<usize>, String)]) -> String {
    let old = Lines::of(text);
    let blocks = blocks(&old, changes);
    let mut diff = String::new();
    let mut shift = 0_isize;
    let mut rest = &blocks[..];
    while !rest.is_empty() {
        let near = |pair: &[Block]| pair[1].old.start <= pair[0].old.end + 2 * CONTEXT;
        let count = 1 + rest.windows(2).take_while(|pair| near(pair)).count();
        let (hunk, others) = rest.split_at(count);
        shift = write_hunk(&mut diff, &old, hunk, shift);
        rest = others;
    }
    diff
}

/// Lines that are replaced by others.
struct Block {
    old: Range<usize>,
    new: Vec<String>,
}

struct Lines<'a> {
    /// With their ends.
    lines: Vec<&'a str>,
    /// Where each begins.
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        let lines: Vec<_> = text.split_inclusive('\n').collect();
        let start = |at: &mut usize, line: &&str| {
            let start = *at;
            *at += line.len();
            Some(start)
        };
        let starts = lines.iter().scan(0, start).collect();
        Self { lines, starts }
    }

    /// The line that has this byte; behind the last one there is one without a byte.
    fn at(&self, byte: usize) -> usize {
        let line = self.starts.partition_point(|start| *start <= byte).saturating_sub(1);
        let is_behind = self.lines.last().is_some_and(|last| {
            last.ends_with('\n')
                && self.starts.last().is_some_and(|start| start + last.len() <= byte)
        });
        if is_behind { self.lines.len() } else { line }
    }

    fn start(&self, line: usize) -> usize {
        self.starts.get(line).copied().unwrap_or_else(|| self.end(self.lines.len()))
    }

    /// Where what is before this line ends.
    fn end(&self, line: usize) -> usize {
        match line.checked_sub(1) {
            None => 0,
            Some(last) => self.starts.get(last).map_or(0, |start| start + self.lines[last].len()),
        }
    }
}

fn blocks(old: &Lines<'_>, changes: &[(Range<usize>, String)]) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut rest = changes;
    while let Some((first, _)) = rest.first() {
        let start = old.at(first.start);
        let mut end = start;
        let mut count = 0;
        for (range, _) in rest {
            if count > 0 && old.at(range.start) > end {
                break;
            }
            end = (old.at(range.end) + 1).min(old.lines.len()).max(start);
            count += 1;
        }
        let (own, others) = rest.split_at(count);
        blocks.extend(block(old, start..end, own));
        rest = others;
    }
    blocks
}

/// What becomes of these lines, without those that stay at both ends; nothing if all do.
fn block(
    old: &Lines<'_>,
    lines: Range<usize>,
    changes: &[(Range<usize>, String)],
) -> Option<Block> {
    let whole: String = old.lines[lines.clone()].concat();
    let base = old.start(lines.start);
    let (mut text, mut at) = (String::new(), 0);
    for (range, new) in changes {
        text.push_str(whole.get(at..range.start - base).unwrap_or_default());
        text.push_str(new);
        at = range.end - base;
    }
    text.push_str(whole.get(at..).unwrap_or_default());
    let mut new: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    let mut lines = lines;
    let same_end = |(old, new): &(&&str, &String)| **old == **new;
    let kept = old.lines[lines.clone()].iter().rev().zip(new.iter().rev());
    let kept = kept.take_while(same_end).count();
    lines.end -= kept;
    new.truncate(new.len() - kept);
    let kept = old.lines[lines.clone()].iter().zip(new.iter()).take_while(same_end).count();
    lines.start += kept;
    new.drain(..kept);
    (!(lines.is_empty() && new.is_empty())).then_some(Block { old: lines, new })
}

/// Writes one hunk; answers how far lines behind it have moved.
fn write_hunk(diff: &mut String, old: &Lines<'_>, blocks: &[Block], shift: isize) -> isize {
    let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else { return shift };
    let start = first.old.start.saturating_sub(CONTEXT);
    let end = (last.old.end + CONTEXT).min(old.lines.len());
    let grown: isize = blocks.iter().map(Block::growth).sum();
    let (count, new_count) = (end - start, (end - start).saturating_add_signed(grown));
    let place = |start: usize, count: usize| {
        // Of no lines it is the line before them.
        let line = if count == 0 { start } else { start + 1 };
        if count == 1 { line.to_string() } else { format!("{line},{count}") }
    };
    let new_start = start.saturating_add_signed(shift);
    let _ = writeln!(diff, "@@ -{} +{} @@", place(start, count), place(new_start, new_count));
    let mut at = start;
    for block in blocks {
        old.lines[at..block.old.start].iter().for_each(|line| put(diff, ' ', line));
        old.lines[block.old.clone()].iter().for_each(|line| put(diff, '-', line));
        block.new.iter().for_each(|line| put(diff, '+', line));
        at = block.old.end;
    }
    old.lines[at..end].iter().for_each(|line| put(diff, ' ', line));
    shift + grown
}

impl Block {
    fn growth(&self) -> isize {
        // (No text has so many lines that these would not fit.)
        let (new, old) = (self.new.len(), self.old.len());
        isize::try_from(new).unwrap_or(0) - isize::try_from(old).unwrap_or(0)
    }
}

fn put(diff: &mut String, mark: char, line: &str) {
    diff.push(mark);
    diff.push_str(line);
    if !line.ends_with('\n') {
        diff.push_str("\n\\ No newline at end of file\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(text: &str, changes: &[(&str, &str)]) -> String {
        let change = |(old, new): &(&str, &str)| {
            let start = text.find(old).unwrap();
            (start..start + old.len(), (*new).to_owned())
        };
        let changes: Vec<_> = changes.iter().map(change).collect();
        unified(text, &changes)
    }

    #[test]
    fn a_change_is_shown_with_three_lines_around_it() {
        let text = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let expected = "@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n+5.5\n 6\n 7\n 8\n";
        assert_eq!(diff(text, &[("5", "five\n5.5")]), expected);
        assert_eq!(diff(text, &[("1\n", "")]), "@@ -1,4 +1,3 @@\n-1\n 2\n 3\n 4\n");
        assert_eq!(diff(text, &[("9\n", "")]), "@@ -6,4 +6,3 @@\n 6\n 7\n 8\n-9\n");
        assert_eq!(
            diff("a", &[("a", "b\n")]),
            "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n"
        );
        assert_eq!(diff("a\n", &[("a\n", "")]), "@@ -1 +0,0 @@\n-a\n");
    }

    #[test]
    fn changes_that_are_near_are_one_hunk_and_others_move_on() {
        let text: String = (1..=30).map(|line| format!("l{line:02}\n")).collect();
        let near = diff(&text, &[("l05", "x\ny"), ("l11", "z")]);
        assert_eq!(near.matches("@@ ").count(), 1, "{near}");
        assert!(near.starts_with("@@ -2,13 +2,14 @@\n"), "{near}");
        let far = diff(&text, &[("l05", "x\ny"), ("l25", "z")]);
        assert!(far.contains("@@ -2,7 +2,8 @@\n") && far.contains("@@ -22,7 +23,7 @@\n"), "{far}");
        let joined = diff("a\nb\nc\n", &[("a\n", "a"), ("b", "B")]);
        assert_eq!(joined, "@@ -1,3 +1,2 @@\n-a\n-b\n+aB\n c\n");
    }
}
