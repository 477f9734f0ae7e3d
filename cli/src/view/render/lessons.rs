//! Lessons for people: one per line, and their changes.

use std::io::{self, Write};

use turntree::repo::BranchName;
use turntree_exchange::lessons::{Lesson, Lessons, MergedLessons};

use super::{columns_of, count, harmless, one_line, padded};
use crate::view::output::{FAINT, ID, NAME, Output};

/// Characters of a lesson in a line.
const WIDTH: usize = 100;

/// Writes lessons in order, with their state in the turn `turn`.
pub(crate) fn write_list(
    out: &mut Output,
    lessons: &[(&str, &Lesson)],
    turn: u64,
    others: &[String],
) -> io::Result<()> {
    let width = lessons.iter().map(|(key, _)| columns_of(key)).max().unwrap_or(0);
    for (key, lesson) in lessons {
        write_line(out, key, width, lesson, turn)?;
    }
    for key in others {
        let about = out.paint.paint(FAINT, "is not a lesson, and was left unchanged");
        writeln!(out, "{} {about}", harmless(key))?;
    }
    Ok(())
}

/// Writes the changes of a branch's lessons.
pub(crate) fn write_changes(
    out: &mut Output,
    branch: &BranchName,
    changes: &MergedLessons,
    lessons: &Lessons,
) -> io::Result<()> {
    let MergedLessons { added, changed, deprecated } = changes;
    let all = added.len() + changed.len() + deprecated.len();
    let paint = out.paint;
    if all == 0 {
        return writeln!(out, "the lessons of {} are up to date", paint.paint(NAME, branch));
    }
    for (what, keys) in [("added", added), ("changed", changed), ("deprecated", deprecated)] {
        for key in keys {
            let text = lessons.get(key).map(text).unwrap_or_default();
            let text = one_line(&text, WIDTH);
            writeln!(out, "{what} {}  {text}", paint.paint(ID, harmless(key)))?;
        }
    }
    let live = lessons.iter().filter(|(_, lesson)| !lesson.deprecated).count() as u64;
    writeln!(out, "{} has {}", paint.paint(NAME, branch), count(live, "lesson"))
}

fn write_line(
    out: &mut Output,
    key: &str,
    width: usize,
    lesson: &Lesson,
    turn: u64,
) -> io::Result<()> {
    let state = match lesson {
        Lesson { deprecated: true, .. } => ", deprecated",
        Lesson { pinned: true, .. } => ", pinned",
        _ if !lesson.is_live(turn) => ", expired",
        _ => "",
    };
    let paint = out.paint;
    let tool = lesson.tool_name.as_deref().map(|tool| format!("{tool}: ")).unwrap_or_default();
    let about = format!("{}, turn {}{state}", lesson.kind.name(), lesson.turn_id);
    writeln!(
        out,
        "{}  {}  {}",
        paint.paint(ID, padded(&harmless(key), width)),
        paint.paint(FAINT, about),
        one_line(&format!("{tool}{}", text(lesson)), WIDTH),
    )
}

/// Formats a lesson on a line.
fn text(lesson: &Lesson) -> String {
    let models = lesson.from_model.as_ref().zip(lesson.to_model.as_ref());
    let models = models.map(|(from, to)| match lesson.count {
        Some(count) if count > 1 => format!("from {from} to {to}, {count} times"),
        _ => format!("from {from} to {to}"),
    });
    let correct = lesson.correct_pattern.as_ref().map(|correct| match lesson.mistake_pattern {
        Some(_) => format!("instead: {correct}"),
        None => correct.clone(),
    });
    let abandoned = lesson.abandoned_branch.as_ref().map(|branch| format!("abandoned: {branch}"));
    let tokens = lesson.estimated_tokens_remaining;
    let tokens = tokens.map(|tokens| format!("about {tokens} tokens left"));
    let notes = [lesson.mistake_pattern.clone(), correct, lesson.user_note.clone(), abandoned];
    let parts = [models, tokens].into_iter().chain(notes).flatten();
    parts.collect::<Vec<_>>().join("; ")
}
