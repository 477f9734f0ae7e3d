//! Fields of a lesson, as options of `lesson add` and `lesson edit`.

use clap::Args;
use turntree_exchange::lessons::{FailedWith, Lesson, LessonKind};

/// Fields of a lesson.
#[derive(Debug, Default, Args)]
pub(crate) struct LessonFields {
    /// Kind of lesson: semantic, spiral, infrastructure or budget
    #[arg(long = "type", value_name = "KIND", value_parser = kind)]
    pub(crate) kind: Option<LessonKind>,
    /// The tool that it is about
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// The mistake
    #[arg(long, value_name = "TEXT")]
    pub(crate) mistake: Option<String>,
    /// The correct way
    #[arg(long, value_name = "TEXT")]
    pub(crate) correct: Option<String>,
    /// Kind of artifact that the tool works on
    #[arg(long, value_name = "NAME")]
    pub(crate) artifact_type: Option<String>,
    /// The model that failed
    #[arg(long, value_name = "NAME")]
    pub(crate) from_model: Option<String>,
    /// The model that took over
    #[arg(long, value_name = "NAME")]
    pub(crate) to_model: Option<String>,
    /// The failure of the first model: a code, or words
    #[arg(long, value_name = "CODE")]
    pub(crate) failed_with: Option<String>,
    /// The second model succeeded: true or false
    #[arg(long, value_name = "BOOL")]
    pub(crate) succeeded: Option<bool>,
    /// The kind of task
    #[arg(long, value_name = "NAME")]
    pub(crate) task_category: Option<String>,
    /// Estimate of the tokens that were left
    #[arg(long, value_name = "N")]
    pub(crate) tokens_left: Option<i64>,
    /// Number of turns for which it is used; without a limit by default
    #[arg(long, value_name = "N")]
    pub(crate) expires_after: Option<u64>,
    /// Note of the user
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
}

impl LessonFields {
    /// Sets the given fields of a lesson. An empty text clears a field.
    pub(crate) fn apply(&self, lesson: &mut Lesson) {
        lesson.kind = self.kind.unwrap_or(lesson.kind);
        set(&mut lesson.tool_name, self.tool.as_ref());
        set(&mut lesson.mistake_pattern, self.mistake.as_ref());
        set(&mut lesson.correct_pattern, self.correct.as_ref());
        set(&mut lesson.artifact_type, self.artifact_type.as_ref());
        set(&mut lesson.from_model, self.from_model.as_ref());
        set(&mut lesson.to_model, self.to_model.as_ref());
        set(&mut lesson.task_category, self.task_category.as_ref());
        set(&mut lesson.user_note, self.note.as_ref());
        if let Some(text) = &self.failed_with {
            let failed =
                text.parse().map_or_else(|_| FailedWith::Text(text.clone()), FailedWith::Code);
            lesson.failed_with = (!text.is_empty()).then_some(failed);
        }
        lesson.succeeded = self.succeeded.or(lesson.succeeded);
        lesson.estimated_tokens_remaining = self.tokens_left.or(lesson.estimated_tokens_remaining);
        lesson.expires_after_turns = self.expires_after.or(lesson.expires_after_turns);
    }
}

fn set(field: &mut Option<String>, text: Option<&String>) {
    if let Some(text) = text {
        *field = (!text.is_empty()).then(|| text.clone());
    }
}

fn kind(text: &str) -> Result<LessonKind, turntree::Error> {
    text.parse()
}
