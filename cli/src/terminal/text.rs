//! Lines of text with a tone each, escaped and wrapped for any width.

use anstream::adapter::strip_str;
use unicode_width::UnicodeWidthChar;

use crate::view::render::harmless;

/// Columns of a tab.
const TAB: &str = "    ";

/// Zero-width marks allowed for each column of a line; a line with more is wrapped.
const MARKS: usize = 4;

/// The kind of a line, which decides its style.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Tone {
    #[default]
    Plain,
    Strong,
    Faint,
    Name,
    Id,
    Added,
    Removed,
}

/// A line of text without control characters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Line {
    pub(super) tone: Tone,
    pub(super) text: String,
}

impl Line {
    /// The first line of `text` in a tone.
    pub(super) fn new(tone: Tone, text: impl Into<String>) -> Self {
        let text = shown(&text.into());
        Self { tone, text: text.lines().next().unwrap_or_default().to_owned() }
    }

    /// An empty line.
    pub(super) fn empty() -> Self {
        Self::default()
    }
}

/// All lines of `text` in a tone, each with `indent` before it.
pub(super) fn lines(tone: Tone, indent: &str, text: &str) -> Vec<Line> {
    let line = |line: &str| Line { tone, text: format!("{indent}{line}") };
    shown(text).lines().map(line).collect()
}

/// The lines of a diff between entries, in tones by their first characters.
pub(super) fn difference(text: &str) -> Vec<Line> {
    let tone = |line: &str| match line.as_bytes() {
        [b'+', b'+', b'+', b' ', ..] | [b'-', b'-', b'-', b' ', ..] => Tone::Strong,
        [b'+', ..] => Tone::Added,
        [b'-', ..] => Tone::Removed,
        [b'@', b'@', ..] => Tone::Name,
        _ => Tone::Plain,
    };
    shown(text).lines().map(|line| Line { tone: tone(line), text: line.to_owned() }).collect()
}

/// Wraps lines for a screen of `columns`; continued lines keep the indent of their line.
pub(super) fn wrapped(lines: &[Line], columns: usize) -> Vec<Line> {
    let mut all = Vec::with_capacity(lines.len());
    for line in lines {
        let indent = line.text.len() - line.text.trim_start_matches(' ').len();
        // An indent that leaves no room is dropped.
        let indent = if indent + indent < columns { indent } else { 0 };
        let (mut rest, mut lead) = (line.text.as_str(), 0);
        loop {
            let end = end_of_line(rest, columns.saturating_sub(lead).max(2));
            let (now, later) = rest.split_at(end);
            let text = format!("{:lead$}{}", "", now.trim_end());
            all.push(Line { tone: line.tone, text });
            (rest, lead) = (later.trim_start_matches(' '), indent);
            if rest.is_empty() {
                break;
            }
        }
    }
    all
}

/// Where a line of `columns` ends in `text`: after a space, if there is one in its second half.
fn end_of_line(text: &str, columns: usize) -> usize {
    let (mut taken, mut marks, mut space) = (0, 0, None);
    for (at, c) in text.char_indices() {
        let wide = c.width().unwrap_or(0);
        marks += usize::from(wide == 0);
        taken += wide;
        if (taken > columns || marks > columns.saturating_mul(MARKS)) && at > 0 {
            return space.unwrap_or(at);
        }
        if c == ' ' && taken * 2 > columns {
            space = Some(at + 1);
        }
    }
    text.len()
}

/// Text that a screen can show: tabs expanded, whole escape sequences such as colours removed, and no
/// control characters except line ends.
fn shown(text: &str) -> String {
    // Line by line, so that a sequence without an end hides no other line.
    let lines: Vec<String> = text.split('\n').map(|line| strip_str(line).to_string()).collect();
    harmless(&lines.join("\n")).replace('\t', TAB)
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;

    fn wrap(text: &str, columns: usize) -> Vec<String> {
        let lines = lines(Tone::Plain, "", text);
        wrapped(&lines, columns).into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn long_lines_go_on_below_and_as_far_in() {
        assert_eq!(wrap("one two three four", 10), ["one two", "three four"]);
        assert_eq!(wrap("  one two three", 10), ["  one two", "  three"]);
        assert_eq!(wrap("修复解析器", 6), ["修复解", "析器"]);
        assert_eq!(wrap("abcdefgh", 4), ["abcd", "efgh"]);
        assert_eq!(wrap("a\n\nb", 4), ["a", "", "b"]);
    }

    #[test]
    fn a_terminal_is_given_no_orders() {
        assert_eq!(wrap("a\u{1b}[2Jb\tc\u{7}", 40), ["ab    c"]);
        assert_eq!(wrap("\u{1b}[31m \u{1b}[32m✓\u{1b}[39m passed \u{1b}[", 40), [" ✓ passed"]);
        assert_eq!(wrap("live \u{202e}edirrevo", 40), ["live <U+202E>edirrevo"]);
        assert_eq!(Line::new(Tone::Plain, "a\nb\u{7}").text, "a");
    }

    #[test]
    fn differences_have_tones() {
        let tones: Vec<Tone> = difference("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n z")
            .into_iter()
            .map(|line| line.tone)
            .collect();
        let expected =
            [Tone::Strong, Tone::Strong, Tone::Name, Tone::Removed, Tone::Added, Tone::Plain];
        assert_eq!(tones, expected);
    }

    turntree_properties::properties! {
        #[test]
        fn no_line_is_wider_than_the_screen_and_nothing_is_lost(
            text in "[ a-zé\u{301}修🎉\u{1b}\n]{0,80}", columns in 2_usize..40
        ) {
            let lines = wrap(&text, columns);
            let letters = |text: &str| {
                shown(text).chars().filter(|c| !c.is_whitespace()).collect::<String>()
            };
            proptest::prop_assert_eq!(letters(&lines.join("")), letters(&text));
            for line in lines {
                proptest::prop_assert!(line.width() <= columns, "{:?}", line);
            }
        }
    }
}
