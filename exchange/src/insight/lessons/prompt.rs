//! Formats lessons as text for a prompt, within a byte budget.
//!
//! ```text
//! ## Active lessons (auto-injected)
//!
//! ### semantic
//! - [fs.replace] avoid: matching on white space
//!   instead: replace the whole block
//!
//! ## End of lessons
//! ```
//!
//! The text of a lesson is included unchanged except that its lines are indented, so no text can
//! pass for the end of the block.

use std::fmt::Write as _;

use super::{Lesson, LessonKind};

/// Maximum size of a block in bytes.
pub const PROMPT_BYTES: usize = 8192;

const HEADER: &str = "## Active lessons (auto-injected)";
const FOOTER: &str = "## End of lessons";

/// A block of lessons, for insertion before the instruction of the user.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LessonPrompt {
    /// The text, at most [`PROMPT_BYTES`]. Empty without lessons.
    pub text: String,
    /// The keys of the included lessons.
    pub included: Vec<String>,
    /// The keys of the lessons that did not fit.
    pub left_out: Vec<String>,
}

impl std::fmt::Debug for LessonPrompt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (included, left_out) = (self.included.len(), self.left_out.len());
        write!(f, "Prompt({} bytes, {included} told, {left_out} left out)", self.text.len())
    }
}

/// Returns the block for `selected`, grouped by kind. Lessons that do not fit are left out, and the
/// block states their number.
#[must_use]
pub fn prompt(selected: &[(&str, &Lesson)]) -> LessonPrompt {
    let mut included: Vec<(&str, &Lesson)> = Vec::new();
    let mut left_out = Vec::new();
    let fits = |included: &[(&str, &Lesson)]| {
        block(included, selected.len() - included.len()).len() <= PROMPT_BYTES
    };
    if fits(selected) {
        included = selected.to_vec();
    } else {
        for entry in selected {
            included.push(*entry);
            if !fits(&included) {
                included.pop();
                left_out.push(entry.0.to_owned());
            }
        }
    }
    let text = block(&included, left_out.len());
    LessonPrompt {
        text,
        included: included.into_iter().map(|(key, _)| key.to_owned()).collect(),
        left_out,
    }
}

fn block(included: &[(&str, &Lesson)], left_out: usize) -> String {
    if included.is_empty() && left_out == 0 {
        return String::new();
    }
    let mut text = format!("{HEADER}\n");
    for kind in LessonKind::ALL {
        let mut group = included.iter().filter(|(_, lesson)| lesson.kind == kind).peekable();
        if group.peek().is_some() {
            let _ = write!(text, "\n### {}\n", kind.name());
        }
        for (_, lesson) in group {
            text.push_str(&line(lesson));
        }
    }
    if left_out > 0 {
        let lessons = if left_out == 1 { "lesson" } else { "lessons" };
        let _ = write!(text, "\n({left_out} more {lessons} left out: over {PROMPT_BYTES} bytes)\n");
    }
    let _ = write!(text, "\n{FOOTER}\n");
    text
}

/// Formats a lesson as a list item.
fn line(lesson: &Lesson) -> String {
    let mut parts = Vec::new();
    let mut say = |lead: &str, text: Option<&String>| {
        parts.extend(text.map(|text| format!("{lead}{}", indented(text))));
    };
    if let (Some(from), Some(to)) = (&lesson.from_model, &lesson.to_model) {
        say("", Some(&infrastructure(lesson, from, to)));
    }
    if let Some(tokens) = lesson.estimated_tokens_remaining {
        say("", Some(&format!("about {tokens} tokens left")));
    }
    say("task: ", lesson.task_category.as_ref());
    say("avoid: ", lesson.mistake_pattern.as_ref());
    say("instead: ", lesson.correct_pattern.as_ref());
    say("note: ", lesson.user_note.as_ref());
    let about = [&lesson.tool_name, &lesson.artifact_type].into_iter().flatten();
    let about: String = about.map(|name| format!("[{}] ", indented(name))).collect();
    format!("- {about}{}\n", parts.join("\n  "))
}

fn infrastructure(lesson: &Lesson, from: &str, to: &str) -> String {
    let mut text = format!("from {from} to {to}");
    if let Some(failed) = &lesson.failed_with {
        let _ = write!(text, ": failed with {failed}");
    }
    match lesson.succeeded {
        Some(true) => text.push_str(", then it worked"),
        Some(false) => text.push_str(", and that failed too"),
        None => {}
    }
    if let Some(count) = lesson.count.filter(|count| *count > 1) {
        let _ = write!(text, ", {count} times");
    }
    text
}

/// Indents all lines but the first, and removes control characters.
fn indented(text: &str) -> String {
    let is_shown = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    let lines = text.trim().lines().map(|line| line.chars().filter(is_shown).collect::<String>());
    lines.collect::<Vec<_>>().join("\n  ")
}
