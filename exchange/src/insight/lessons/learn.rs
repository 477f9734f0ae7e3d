//! Derives lessons from spirals.

use super::{Lesson, LessonKind};
use crate::insight::spiral::{Sign, SignKind, SpiralReport, SpiralVerdict};

/// Returns the lesson of a spiral, without its time and links. `None` if there is no spiral.
/// Progress, which is equal calls that each changed something, gives no lesson.
#[must_use]
pub fn learn(found: &SpiralReport) -> Option<Lesson> {
    if found.verdict < SpiralVerdict::Suspected {
        return None;
    }
    let is_bad = |verdict: SpiralVerdict| verdict >= SpiralVerdict::Suspected;
    let streak = found.streak.as_ref().filter(|streak| is_bad(streak.verdict));
    let signs: Vec<&Sign> = found.signs.iter().filter(|sign| is_bad(sign.verdict)).collect();
    let mut mistakes: Vec<String> = Vec::new();
    mistakes.extend(streak.map(|streak| {
        let (tool, times) = (&streak.tool, streak.turns.len());
        format!("called {tool} {times} times with the same arguments and got nowhere")
    }));
    mistakes.extend(signs.iter().map(|sign| mistake(sign)));
    let streaks = streak.iter().flat_map(|streak| &streak.turns);
    let last = signs.iter().flat_map(|sign| &sign.turns).chain(streaks).max();
    let correct = match found.rollback_to {
        Some(turn) => format!("stop, go back to turn {turn}, and do it in another way"),
        None => "stop, and do it in another way".to_owned(),
    };
    Some(Lesson {
        kind: LessonKind::Spiral,
        turn_id: last.copied().unwrap_or_default(),
        tool_name: streak.map(|streak| streak.tool.clone()),
        mistake_pattern: Some(mistakes.join("; ")),
        correct_pattern: Some(correct),
        ..Lesson::default()
    })
}

fn mistake(sign: &Sign) -> String {
    let (path, times) = (sign.path.as_deref().unwrap_or("a file"), sign.turns.len());
    match sign.kind {
        SignKind::SameTree => format!("all files were what they had been {times} turns before"),
        SignKind::Oscillation => format!("{path} swung between contents in {times} turns"),
        SignKind::SameFile => format!("edited {path} differently in each of {times} turns"),
    }
}
