//! Finds the lines that two texts share, in order.

use std::collections::HashMap;

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// Returns the lines of a text, each with its end.
pub(super) fn split(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

/// Returns for each line of `new` its number in `old`, if it is one of the shared lines.
///
/// The work is bounded: for very different texts, fewer lines count as shared.
pub(super) fn match_lines(old: &[u8], new: &[u8]) -> Vec<Option<usize>> {
    let mut numbers: HashMap<&[u8], u32> = HashMap::new();
    let mut number = |text| -> Vec<u32> {
        let lines = split(text).into_iter();
        lines
            .map(|line| {
                let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
                *numbers.entry(line).or_insert(next)
            })
            .collect()
    };
    let (old, new) = (number(old), number(new));
    let mut shared = vec![None; new.len()];
    for change in capture_diff_slices(Algorithm::Myers, &old, &new) {
        let DiffOp::Equal { old_index, new_index, len } = change else { continue };
        let lines = shared.iter_mut().skip(new_index).take(len);
        lines.zip(old_index..).for_each(|(line, old)| *line = Some(old));
    }
    shared
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    turntree_properties::properties! {
        #[test]
        fn shared_lines_are_equal_and_rise(old in "[ab\n]{0,20}", new in "[ab\n]{0,20}") {
            let found = match_lines(old.as_bytes(), new.as_bytes());
            let (old, new) = (split(old.as_bytes()), split(new.as_bytes()));
            prop_assert_eq!(found.len(), new.len());
            let pairs = found.iter().enumerate().filter_map(|(at, old)| Some((at, (*old)?)));
            let pairs: Vec<_> = pairs.collect();
            prop_assert!(pairs.iter().all(|(at, from)| new[*at] == old[*from]));
            prop_assert!(pairs.is_sorted_by(|(_, a), (_, b)| a < b));
        }
    }

    #[test]
    fn texts_with_nothing_in_common_are_compared_in_no_time() {
        let text = |from: u32| (from..from + 100_000).map(|n| format!("{}\n", n % 90_000));
        let (old, new): (String, String) =
            (text(0).collect(), text(45_000).collect::<Vec<_>>().into_iter().rev().collect());
        assert_eq!(match_lines(old.as_bytes(), new.as_bytes()).len(), 100_000);
    }
}
