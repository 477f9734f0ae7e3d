//! Text for people: sizes, counts and one line of anything.

pub(crate) mod changes;
pub(crate) mod collection;
pub(crate) mod graph;
pub(crate) mod lessons;
pub(crate) mod merging;
pub(crate) mod message;
pub(crate) mod restoration;
pub(crate) mod table;

/// Hex digits of an id that people see.
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

/// A count with its noun.
pub(crate) fn count(n: u64, noun: &str) -> String {
    match noun.strip_suffix('y') {
        _ if n == 1 => format!("1 {noun}"),
        Some(stem) => format!("{n} {stem}ies"),
        None if noun.ends_with("ch") => format!("{n} {noun}es"),
        None => format!("{n} {noun}s"),
    }
}

/// Text on one line of at most `width` characters, without anything a terminal would obey.
pub(crate) fn one_line(text: &str, width: usize) -> String {
    let mut line = String::new();
    let mut chars = text.trim_start().chars().map(|c| if c.is_control() { ' ' } else { c });
    line.extend(chars.by_ref().take(width));
    if chars.next().is_some() {
        line.pop();
        line.push('…');
    }
    line.truncate(line.trim_end().len());
    line
}

/// Text without anything a terminal would obey; tabs and line ends stay.
pub(crate) fn harmless(text: &str) -> String {
    let harmless = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    text.chars().map(|c| if harmless(c) { c } else { '\u{fffd}' }).collect()
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
}
