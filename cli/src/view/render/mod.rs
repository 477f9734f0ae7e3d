//! Text for people: sizes, counts and one-line texts.

pub(crate) mod alignment;
pub(crate) mod changed_ref;
pub(crate) mod changes;
pub(crate) mod collection;
mod conversation;
pub(crate) mod effects;
pub(crate) mod graph;
pub(crate) mod lessons;
pub(crate) mod merging;
pub(crate) mod message;
pub(crate) mod restoration;
pub(crate) mod spending;
pub(crate) mod table;

use std::borrow::Cow;
use std::fmt::Write as _;
use turntree::context::sections::{FILES, MESSAGES, SOURCE};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Hex digits shown of an id.
pub(crate) const ID_DIGITS: usize = 12;

/// A size with three digits and a binary unit.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut scaled, mut unit) = (bytes, UNITS[0]);
    let mut rest = 0;
    for next in UNITS {
        (rest, scaled, unit) = (scaled % 1024, scaled / 1024, next);
        if scaled < 1024 {
            break;
        }
    }
    if scaled < 100 {
        format!("{scaled}.{} {unit}", rest * 10 / 1024)
    } else {
        format!("{scaled} {unit}")
    }
}

/// A number in three or four digits with its unit, as `12.7M`.
pub(crate) fn short_number(number: u64) -> String {
    let (scale, unit) = match number {
        0..10_000 => return number.to_string(),
        10_000..1_000_000 => (1_000, "k"),
        1_000_000..1_000_000_000 => (1_000_000, "M"),
        _ => (1_000_000_000, "G"),
    };
    match number / scale {
        whole @ 100.. => format!("{whole}{unit}"),
        whole => format!("{whole}.{}{unit}", number % scale * 10 / scale),
    }
}

/// A count with its noun.
pub(crate) fn count(n: u64, noun: &str) -> String {
    match noun.strip_suffix('y') {
        _ if n == 1 => format!("1 {noun}"),
        Some(stem) => format!("{n} {stem}ies"),
        None if noun.ends_with("ch") => format!("{n} {noun}es"),
        None => format!("{n} {noun}s"),
    }
}

/// Returns the noun for the entries of a section.
pub(crate) fn entries_of(section: &str) -> &'static str {
    match section.rsplit('/').next().unwrap_or(section) {
        MESSAGES => "message",
        FILES => "file",
        SOURCE => "piece",
        _ => "entry",
    }
}

/// The width of a text on a screen.
pub(crate) fn columns_of(text: &str) -> usize {
    text.width()
}

/// A text padded with spaces to this width.
pub(crate) fn padded(text: &str, columns: usize) -> String {
    format!("{text}{:1$}", "", columns.saturating_sub(columns_of(text)))
}

/// Text on one line of at most `columns`, without control characters. Cut text ends with an
/// ellipsis.
pub(crate) fn one_line(text: &str, columns: usize) -> String {
    cut(text.trim_start(), columns)
}

/// Like [`one_line`], but keeps the spaces at the beginning of the text.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    let text = visible(text);
    let mut chars = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    // Combining marks have no width, so their number is bounded too.
    let bound = columns.saturating_mul(4);
    let (mut line, mut taken) = (String::new(), 0_usize);
    let mut is_cut = false;
    for (number, c) in chars.by_ref().enumerate() {
        taken += c.width().unwrap_or(0);
        is_cut = taken > columns || number >= bound;
        if is_cut {
            break;
        }
        line.push(c);
    }
    if is_cut {
        while columns_of(&line) >= columns && line.pop().is_some() {}
        line.push('…');
    }
    line.truncate(line.trim_end().len());
    line
}

/// Text without control characters; tabs and line ends stay.
pub(crate) fn harmless(text: &str) -> String {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    if text.bytes().all(is_plain) {
        return text.to_owned();
    }
    let harmless = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    visible(text).chars().map(|c| if harmless(c) { c } else { '\u{fffd}' }).collect()
}

/// Replaces bidirectional control characters with their numbers: a terminal applies them invisibly,
/// so the shown text would differ from the stored text.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(turns_direction) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if turns_direction(c) {
            // Writing to a string does not fail.
            let _ = write!(shown, "<U+{:04X}>", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// The marks, embeddings, overrides and isolates of the bidirectional algorithm.
pub(crate) fn turns_direction(c: char) -> bool {
    matches!(
        c,
        '\u{61c}'
            | '\u{200e}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short_and_exact_enough() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (150 << 10, "150 KiB"),
            (5 << 20, "5.0 MiB"),
            (u64::MAX, "16383 PiB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
    }

    #[test]
    fn numbers_are_short() {
        for (number, expected) in [
            (0, "0"),
            (9_999, "9999"),
            (12_345, "12.3k"),
            (999_999, "999k"),
            (12_735_398, "12.7M"),
            (u64::MAX, "18446744073G"),
        ] {
            assert_eq!(short_number(number), expected);
        }
    }

    #[test]
    fn counts_speak_english() {
        assert_eq!(count(1, "entry"), "1 entry");
        assert_eq!(count(2, "entry"), "2 entries");
        assert_eq!(count(0, "file"), "0 files");
        assert_eq!(count(3, "branch"), "3 branches");
    }

    #[test]
    fn a_terminal_is_never_given_orders() {
        assert_eq!(one_line("a\u{1b}[2Jb\nc", 80), "a [2Jb c");
        assert_eq!(one_line("abcdef", 4), "abc…");
        assert_eq!(harmless("a\u{1b}[2J\tb\n"), "a\u{fffd}[2J\tb\n");
    }

    #[test]
    fn texts_are_cut_by_columns_of_the_screen() {
        assert_eq!(one_line("修复解析器", 10), "修复解析器");
        assert_eq!(one_line("修复解析器", 9), "修复解析…");
        assert_eq!(one_line("修复解析器", 8), "修复解…");
        assert_eq!(one_line("🎉🎉🎉", 5), "🎉🎉…");
        assert_eq!(one_line("a", usize::MAX), "a");
        assert_eq!(columns_of(&padded("ü界", 6)), 6);
        let marks = format!("a{}", "\u{301}".repeat(1000));
        assert!(one_line(&marks, 5).len() < 100);
    }

    #[test]
    fn text_that_runs_backwards_shows_why() {
        assert_eq!(harmless("live \u{202e}edirrevo"), "live <U+202E>edirrevo");
        assert_eq!(one_line("\u{2066}ab\u{2069}cd", 11), "<U+2066>ab…");
        assert_eq!(harmless("\u{61c}\u{200e}\u{200f}"), "<U+061C><U+200E><U+200F>");
        // Joiners between letters and emoji stay.
        assert_eq!(harmless("\u{5d0}\u{200d}\u{1f469}"), "\u{5d0}\u{200d}\u{1f469}");
    }
}
