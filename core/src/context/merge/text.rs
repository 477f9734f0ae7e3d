//! Merges text by line: changes of one side are taken; where both changed a range, both versions
//! are shown.

use super::Labels;
use super::align;
use crate::tree::{ListChange, Region, regions};

/// Maximum bytes of a version to merge by line or by field. Larger ones conflict as a whole.
pub(super) const MAX_MERGED_BYTES: usize = 4 << 20;

/// A merged text of three versions.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MergedText {
    /// The lines; conflicting ranges are between markers.
    pub(super) text: String,
    /// Number of conflicting ranges.
    pub(super) conflicts: usize,
}

/// Returns the text in `bytes`; `None` if they are not text or too long.
pub(super) fn as_text(bytes: &[u8]) -> Option<&str> {
    let is_text = bytes.len() <= MAX_MERGED_BYTES && !bytes.contains(&0);
    is_text.then(|| std::str::from_utf8(bytes).ok()).flatten()
}

/// Merges three versions of a text.
pub(super) fn merge(base: &str, ours: &str, theirs: &str, labels: Labels<'_>) -> MergedText {
    let [base, ours, theirs] = [base, ours, theirs].map(LineIndex::of);
    let by_ours = base.changes(&ours);
    let by_theirs = base.changes(&theirs);
    let mut merged = MergedText { text: String::new(), conflicts: 0 };
    let mut at = 0;
    for region in regions(&by_ours, &by_theirs) {
        merged.text.push_str(base.text(at..region.base.start));
        at = region.base.end;
        merged.add(&region, &ours, &theirs, labels);
    }
    merged.text.push_str(base.text(at..base.lines.len() as u64));
    merged
}

impl MergedText {
    fn add(
        &mut self,
        region: &Region,
        ours: &LineIndex<'_>,
        theirs: &LineIndex<'_>,
        labels: Labels<'_>,
    ) {
        let own = ours.text(region.ours.clone());
        let other = theirs.text(region.theirs.clone());
        if !region.theirs_changed || own == other {
            self.text.push_str(own);
        } else if !region.ours_changed {
            self.text.push_str(other);
        } else {
            self.conflicts += 1;
            let end = if own.ends_with("\r\n") || other.ends_with("\r\n") { "\r\n" } else { "\n" };
            self.add_marker("<<<<<<< ", labels.ours, end);
            self.text.push_str(own);
            self.add_marker("=======", "", end);
            self.text.push_str(other);
            self.add_marker(">>>>>>> ", labels.theirs, end);
        }
    }

    /// Adds a marker on its own line.
    fn add_marker(&mut self, marker: &str, label: &str, end: &str) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push_str(end);
        }
        self.text.push_str(marker);
        self.text.push_str(label);
        self.text.push_str(end);
    }
}

/// A text, and the offsets of its lines.
struct LineIndex<'a> {
    text: &'a str,
    lines: Vec<&'a str>,
    /// The offset of each line, and the end of the last one.
    starts: Vec<usize>,
}

impl<'a> LineIndex<'a> {
    fn of(text: &'a str) -> Self {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let mut end = 0;
        let ends = lines.iter().map(|line| {
            end += line.len();
            end
        });
        let starts = std::iter::once(0).chain(ends).collect();
        Self { text, lines, starts }
    }

    fn changes(&self, new: &LineIndex<'_>) -> Vec<ListChange> {
        align::changes(self.lines.iter().copied(), new.lines.iter().copied())
    }

    fn text(&self, lines: std::ops::Range<u64>) -> &'a str {
        let place =
            |line: u64| usize::try_from(line).ok().and_then(|line| self.starts.get(line)).copied();
        let (start, end) = (place(lines.start), place(lines.end));
        start.zip(end).and_then(|(start, end)| self.text.get(start..end)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LABELS: Labels<'static> = Labels { ours: "main", theirs: "plan-b" };

    fn merged(base: &str, ours: &str, theirs: &str) -> (String, usize) {
        let MergedText { text, conflicts } = merge(base, ours, theirs, LABELS);
        (text, conflicts)
    }

    #[test]
    fn changes_in_different_places_come_together() {
        let base = "a\nb\nc\nd\ne\n";
        let (text, conflicts) = merged(base, "A\nb\nc\nd\ne\n", "a\nb\nc\nd\nE\nf");
        assert_eq!((text.as_str(), conflicts), ("A\nb\nc\nd\nE\nf", 0));
        let (text, conflicts) = merged(base, "b\nc\nd\ne\n", "a\nb\nc\nnew\nd\ne\n");
        assert_eq!((text.as_str(), conflicts), ("b\nc\nnew\nd\ne\n", 0));
    }

    #[test]
    fn a_line_that_both_changed_stands_between_markers_on_lines_of_their_own() {
        let (text, conflicts) = merged("a\nb", "a\nours", "a\ntheirs");
        let expected = "a\n<<<<<<< main\nours\n=======\ntheirs\n>>>>>>> plan-b\n";
        assert_eq!((text.as_str(), conflicts), (expected, 1));
        let (text, conflicts) = merged("", "x\r\n", "y\r\n");
        let expected = "<<<<<<< main\r\nx\r\n=======\r\ny\r\n>>>>>>> plan-b\r\n";
        assert_eq!((text.as_str(), conflicts), (expected, 1));
    }

    #[test]
    fn of_two_lines_alike_each_side_may_remove_another_one() {
        assert_eq!(merged("b\n1\nb\n", "b\n1\n", "1\nb\n"), ("1\n".to_owned(), 0));
        let (text, conflicts) = merged("b\n\nb\n\n", "b\n\n\n", "\nb\n\nc");
        assert_eq!((text.as_str(), conflicts), ("\n\nc", 0));
    }

    #[test]
    fn what_is_no_text_or_too_much_is_not_merged_by_lines() {
        assert_eq!(as_text(b"\xff"), None);
        assert_eq!(as_text(b"a\0b"), None);
        assert_eq!(as_text(&vec![b'a'; MAX_MERGED_BYTES + 1]), None);
        assert_eq!(as_text(b"a\n"), Some("a\n"));
    }

    turntree_properties::properties! {
        #[test]
        fn what_one_side_left_alone_is_as_the_other_made_it(
            base in "[abc\\n]{0,40}", ours in "[abc\\n]{0,40}", theirs in "[abc\\n]{0,40}"
        ) {
            prop_assert_eq!(merged(&base, &base, &theirs), (theirs.clone(), 0));
            prop_assert_eq!(merged(&base, &ours, &base), (ours.clone(), 0));
            prop_assert_eq!(merged(&base, &ours, &ours), (ours.clone(), 0));
        }

        #[test]
        fn a_line_is_lost_only_where_a_side_removed_it(
            base in "[abc\\n]{0,40}", ours in "[abc\\n]{0,40}", theirs in "[abc\\n]{0,40}"
        ) {
            let (text, _) = merged(&base, &ours, &theirs);
            let count = |text: &str, line: &str| text.lines().filter(|l| *l == line).count();
            for line in [&base, &ours, &theirs].into_iter().flat_map(|text| text.lines()) {
                let [b, o, t] = [&base, &ours, &theirs].map(|text| count(text, line));
                // Of several equal lines in the base, each side may have removed a different one.
                let least = match b {
                    0 => o.max(t),
                    1 => o.min(t).min(1),
                    _ => 0,
                };
                prop_assert!(count(&text, line) >= least, "{:?} in {:?}", line, text);
            }
        }
    }
}
