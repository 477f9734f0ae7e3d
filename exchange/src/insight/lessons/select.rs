//! Selects the lessons for a tool call: all pinned lessons, and the few best others.

use std::cmp::Reverse;

use super::{Lesson, LessonKind, Lessons};

/// Maximum number of selected lessons that are not pinned.
pub const MAX_SELECTED: usize = 5;

const SAME_TOOL: i64 = 1000;
const EACH_TIME: i64 = 10;
const MOST_TIMES: i64 = 100;
const SUCCEEDED: i64 = 5;
const MOST_MINUTES: i64 = 60;
const MILLIS_PER_MINUTE: i64 = 60_000;

/// A tool call that an agent is about to make.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The tool, if known.
    pub tool: Option<&'a str>,
    /// The turn of the call.
    pub turn: u64,
    /// The current time, in milliseconds since the Unix epoch.
    pub now_millis: i64,
}

/// Returns the lessons for a call with their keys: pinned ones, newest first, then at most
/// [`MAX_SELECTED`] others, best first. The same tool weighs most. The count, success and recency
/// add a little. Newer lessons win ties.
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
