//! Selects lessons for a coming call of a tool: every pinned one, and the few that fit best.

use std::cmp::Reverse;

use super::{Lesson, LessonKind, Lessons};

/// Most lessons that are told without being pinned.
pub const MAX_SELECTED: usize = 5;

const SAME_TOOL: i64 = 1000;
const EACH_TIME: i64 = 10;
const MOST_TIMES: i64 = 100;
const SUCCEEDED: i64 = 5;
const MOST_MINUTES: i64 = 60;
const MILLIS_PER_MINUTE: i64 = 60_000;

/// A call that is about to be made.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The tool, if it is known.
    pub tool: Option<&'a str>,
    /// The turn that it is made in.
    pub turn: u64,
    /// The moment, in milliseconds since the Unix epoch.
    pub now_millis: i64,
}

/// The lessons for a call, by their keys: pinned ones, newest first, then at most [`MAX_SELECTED`] of
/// the others, best first. A lesson about the tool counts most; what happened often, what worked and
/// what is new a little. Equal ones come newest first.
#[must_use]
pub fn select<'a>(lessons: &'a Lessons, call: &Call<'_>) -> Vec<(&'a str, &'a Lesson)> {
    let live = lessons.iter().filter(|(_, lesson)| lesson.is_live(call.turn));
    let (mut pinned, mut others): (Vec<_>, Vec<_>) = live.partition(|(_, lesson)| lesson.pinned);
    let newest = |(key, lesson): &(&'a str, &'a Lesson)| {
        (Reverse((lesson.captured_at, lesson.turn_id)), *key)
    };
    pinned.sort_by_key(newest);
    others.sort_by_key(|entry| (Reverse(score(entry.1, call)), newest(entry)));
    others.truncate(MAX_SELECTED);
    pinned.extend(others);
    pinned
}

/// Scores the fit of a lesson.
fn score(lesson: &Lesson, call: &Call<'_>) -> i64 {
    let is_same = call.tool.is_some() && lesson.tool_name.as_deref() == call.tool;
    let tool = if is_same { SAME_TOOL } else { 0 };
    let times = match lesson.kind {
        LessonKind::Infrastructure => {
            let count = i64::try_from(lesson.count.unwrap_or(1)).unwrap_or(i64::MAX);
            count.saturating_mul(EACH_TIME).min(MOST_TIMES)
        }
        _ => 0,
    };
    let succeeded = if lesson.succeeded == Some(true) { SUCCEEDED } else { 0 };
    let age = call.now_millis.saturating_sub(lesson.captured_at) / MILLIS_PER_MINUTE;
    tool + times + succeeded - age.clamp(0, MOST_MINUTES)
}
