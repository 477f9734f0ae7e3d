//! Lessons that both sides learned again: count and last time merge automatically.
//!
//! | field | in the merged lesson |
//! |---|---|
//! | `count` | the base's count, plus the increase on each side |
//! | `capturedAt`, `turnId` | the later one, if both sides changed it |
//!
//! Other fields of a lesson are merged as usual. A base lesson without a count was learned once; a
//! lesson missing in the base was never learned.

use std::fmt::Display;

use serde::Deserialize;

/// The count and last time of learning a lesson.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LessonCount {
    count: Option<u64>,
    captured_at: Option<i64>,
    turn_id: Option<u64>,
}

/// Returns the fields of a lesson whose values are computed from all three versions: names that
/// ours and theirs have, with JSON values. Empty if a version has a value of another type in such a
/// field.
pub(super) fn merge_counts(
    base: Option<&str>,
    ours: &str,
    theirs: &str,
) -> Vec<(&'static str, String)> {
    let learned = |json| serde_json::from_str::<LessonCount>(json).ok();
    let old = match base {
        Some(base) => learned(base).map(|old| LessonCount { count: old.count.or(Some(1)), ..old }),
        None => Some(LessonCount::default()),
    };
    let (Some(old), Some(own), Some(other)) = (old, learned(ours), learned(theirs)) else {
        return Vec::new();
    };
    let fields = [
        ("count", count(&old, &own, &other)),
        ("capturedAt", later(old.captured_at, own.captured_at, other.captured_at)),
        ("turnId", later(old.turn_id, own.turn_id, other.turn_id)),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn count(old: &LessonCount, own: &LessonCount, other: &LessonCount) -> Option<String> {
    // With equal time and turn, one side copied the lesson from the other.
    if (own.captured_at, own.turn_id) == (other.captured_at, other.turn_id) {
        return None;
    }
    let both = u128::from(own.count?) + u128::from(other.count?);
    let count = both.saturating_sub(old.count.unwrap_or_default().into());
    Some(count.min(u64::MAX.into()).to_string())
}

fn later<T: Copy + Ord + Display>(
    old: Option<T>,
    own: Option<T>,
    other: Option<T>,
) -> Option<String> {
    let both_changed = own != old && other != old;
    let later = own?.max(other?);
    both_changed.then(|| later.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::fields;

    /// Returns the merged lesson, and the fields in conflict.
    fn merged(base: Option<&Value>, ours: &Value, theirs: &Value) -> (Value, Vec<String>) {
        let base = base.map(Value::to_string);
        let (ours, theirs) = (ours.to_string(), theirs.to_string());
        let decided = super::merge_counts(base.as_deref(), &ours, &theirs);
        let merged = fields::merge(base.as_deref(), &ours, &theirs, &decided).unwrap();
        (serde_json::from_str(&merged.json).unwrap(), merged.conflicts)
    }

    fn lesson(count: u64, at: i64, turn: u64) -> Value {
        json!({"type": "infrastructure", "turnId": turn, "count": count, "capturedAt": at})
    }

    #[test]
    fn every_time_counts_once_and_the_last_one_is_told() {
        let base = lesson(1, 10, 1);
        for (base, ours, theirs, expected) in [
            (Some(&base), lesson(3, 30, 5), lesson(2, 40, 4), lesson(4, 40, 5)),
            (Some(&base), lesson(2, 30, 5), lesson(2, 20, 3), lesson(3, 30, 5)),
            // Each side learned it separately.
            (None, lesson(1, 30, 5), lesson(1, 20, 3), lesson(2, 30, 5)),
            // One side copied it from the other, or did not learn it again.
            (Some(&base), lesson(2, 30, 5), lesson(2, 30, 5), lesson(2, 30, 5)),
            (Some(&base), lesson(1, 10, 1), lesson(2, 30, 5), lesson(2, 30, 5)),
            (
                Some(&base),
                lesson(u64::MAX, 20, 3),
                lesson(u64::MAX, 30, 5),
                lesson(u64::MAX, 30, 5),
            ),
            (Some(&base), lesson(0, 20, 3), lesson(0, 30, 5), lesson(0, 30, 5)),
        ] {
            assert_eq!(merged(base, &ours, &theirs), (expected, Vec::new()));
        }
        let mut uncounted = base.clone();
        uncounted.as_object_mut().unwrap().remove("count");
        let (found, _) = merged(Some(&uncounted), &lesson(2, 20, 3), &lesson(2, 30, 5));
        assert_eq!(found["count"], 3, "a lesson without a count was learned once");
    }

    #[test]
    fn what_is_said_of_it_is_merged_as_other_fields_are() {
        let say = |count: u64, text: &str| {
            let mut lesson = lesson(count, 10 * i64::try_from(count).unwrap(), count);
            lesson["userNote"] = json!(text);
            lesson["nested"] = json!({"count": count});
            lesson
        };
        let (found, conflicts) = merged(Some(&say(1, "a")), &say(2, "b"), &say(3, "a"));
        assert_eq!((&found["userNote"], &found["count"]), (&json!("b"), &json!(4)));
        assert_eq!(conflicts, ["nested.count"], "a field of another object is no count");
        let (found, conflicts) = merged(Some(&say(1, "a")), &say(2, "b"), &say(3, "c"));
        assert_eq!((&found["userNote"], &found["count"]), (&json!("b"), &json!(4)));
        assert_eq!(conflicts, ["userNote", "nested.count"]);
        for other in [json!("3"), json!(1.5), json!(-1), json!([])] {
            let mut odd = lesson(0, 30, 5);
            odd["count"] = other;
            let (_, conflicts) = merged(Some(&lesson(1, 10, 1)), &lesson(2, 20, 3), &odd);
            assert_eq!(conflicts, ["turnId", "count", "capturedAt"], "{odd}");
        }
    }

    fn lessons() -> impl Strategy<Value = Value> {
        let note = prop::sample::select(vec!["a", "b"]);
        let fields = (prop::option::of(0_u64..5), 0_i64..4, 0_u64..4, prop::option::of(note));
        fields.prop_map(|(count, at, turn, note)| {
            let mut lesson = json!({"turnId": turn, "capturedAt": at});
            lesson.as_object_mut().unwrap().extend(count.map(|n| ("count".to_owned(), json!(n))));
            lesson.as_object_mut().unwrap().extend(note.map(|n| ("userNote".to_owned(), json!(n))));
            lesson
        })
    }

    turntree_properties::properties! {
        #[test]
        fn sides_may_be_exchanged_and_a_side_that_changed_nothing_adds_nothing(
            base in lessons(), ours in lessons(), theirs in lessons(), is_new in any::<bool>(),
        ) {
            let from = (!is_new).then_some(&base);
            let (one, mut conflicts) = merged(from, &ours, &theirs);
            let (two, mut others) = merged(from, &theirs, &ours);
            conflicts.sort();
            others.sort();
            prop_assert_eq!(&conflicts, &others);
            for name in ["count", "capturedAt", "turnId", "userNote"] {
                if !conflicts.iter().any(|conflict| conflict == name) {
                    prop_assert_eq!(one.get(name), two.get(name), "{}", name);
                }
            }
            prop_assert!(!conflicts.iter().any(|name| name == "capturedAt" || name == "turnId"));
            for (own, other) in [(&ours, &base), (&base, &ours), (&ours, &ours)] {
                prop_assert_eq!(merged(Some(&base), own, other), (ours.clone(), Vec::new()));
            }
        }
    }
}
