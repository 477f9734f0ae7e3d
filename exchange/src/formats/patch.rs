//! Applies a unified difference to the text it was made from.

/// Returns `before` with the hunks of `difference` applied. `None` if they do not fit exactly:
/// context and removed lines must be where the hunks place them.
pub(super) fn apply(before: &str, difference: &str) -> Option<String> {
    let mut old = before.split_inclusive('\n');
    let mut passed = 0;
    let mut after = String::with_capacity(before.len() + difference.len());
    let mut in_hunk = false;
    let mut last_was_removed = false;
    for line in difference.split_inclusive('\n') {
        if let Some(header) = line.strip_prefix("@@ -") {
            let kept = lines_before(header)?.checked_sub(passed)?;
            for _ in 0..kept {
                after.push_str(old.next()?);
            }
            passed += kept;
            in_hunk = true;
            continue;
        }
        if !in_hunk {
            continue;
        }
        if line.starts_with('\\') {
            // "No newline at end of file" speaks of the line before it.
            if !last_was_removed && after.ends_with('\n') {
                after.pop();
            }
            continue;
        }
        let (mark, text) = line.split_at_checked(1)?;
        last_was_removed = mark == "-";
        match mark {
            "+" => after.push_str(text),
            " " | "-" => {
                let found = old.next()?;
                passed += 1;
                if found.trim_end_matches('\n') != text.trim_end_matches('\n') {
                    return None;
                }
                if mark == " " {
                    after.push_str(found);
                }
            }
            _ => return None,
        }
    }
    after.extend(old);
    in_hunk.then_some(after)
}

/// Lines of the old text before a hunk, from `3,2 +3,4 @@`. A hunk that takes no old line names the
/// line it follows.
fn lines_before(header: &str) -> Option<usize> {
    let old = header.split(' ').next()?;
    let (start, count) = old.split_once(',').unwrap_or((old, "1"));
    let start: usize = start.parse().ok()?;
    if count == "0" { Some(start) } else { start.checked_sub(1) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The difference between two texts, as one hunk without context.
    fn difference(old: &[String], new: &[String]) -> String {
        let start = usize::from(!old.is_empty());
        let header = format!("@@ -{start},{} +1,{} @@\n", old.len(), new.len());
        let marked = |mark, lines: &[String]| {
            lines.iter().map(|line| format!("{mark}{line}\n")).collect::<String>()
        };
        header + &marked('-', old) + &marked('+', new)
    }

    fn text(lines: &[String]) -> String {
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn hunks_change_what_they_name_and_keep_the_rest() {
        let before = "a\nb\nc\nd\ne\n";
        let both = "--- x\n+++ y\n@@ -2 +2,2 @@\n-b\n+B\n+bb\n@@ -4,2 +5 @@ fn\n d\n-e\n";
        assert_eq!(apply(before, both).as_deref(), Some("a\nB\nbb\nc\nd\n"));
        assert_eq!(apply(before, "@@ -2,0 +3 @@\n+x\n").as_deref(), Some("a\nb\nx\nc\nd\ne\n"));
        let ends = "@@ -5 +5 @@\n-e\n+E\n\\ No newline at end of file\n";
        assert_eq!(apply(before, ends).as_deref(), Some("a\nb\nc\nd\nE"));
        let ended = "@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+x\n";
        assert_eq!(apply("x", ended).as_deref(), Some("x\n"));
    }

    #[test]
    fn hunks_that_do_not_fit_change_nothing() {
        for wrong in
            ["", "@@ -1 +1 @@\n-b\n+c\n", "@@ -9 +9 @@\n-a\n", "@@ -x +1 @@\n", "@@ -1 +1 @@\n!a\n"]
        {
            assert_eq!(apply("a\n", wrong), None, "{wrong}");
        }
        assert_eq!(apply("a\nb\n", "@@ -2 +2 @@\n-b\n+c\n@@ -1 +1 @@\n-a\n+c\n"), None);
    }

    turntree_properties::properties! {
        #[test]
        fn a_difference_leads_from_the_old_text_to_the_new(
            old in prop::collection::vec("[a-c]{0,2}", 0..8),
            new in prop::collection::vec("[a-cé]{0,2}", 0..8),
            noise in "(@@ -[0-9,]{0,3} [+]1 @@\n|[ +-][a-c]?\n|[\\\\é]\n){0,6}",
        ) {
            prop_assert_eq!(apply(&text(&old), &difference(&old, &new)), Some(text(&new)));
            let _ = apply(&text(&old), &noise);
        }
    }
}
