//! Lessons: lists them, adds one, selects those for the next call.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use turntree::repo::HEAD;

use super::page::{ITEMS, MAX_ITEMS, Page, items, limit};
use super::{Effect, Request, ServiceCall};
use crate::porcelain::change::lessons::fields::LessonFields;
use crate::porcelain::change::lessons::target::{LessonBranch, LessonChange};
use crate::porcelain::change::lessons::{Add, inject, list};
use crate::view::error::Result;
use crate::view::json;

/// Arguments of `lessons`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LessonsArguments {
    /// inject (the lessons for the next call, as text), list or add; inject by default
    #[serde(default)]
    action: LessonsAction,
    /// The tool that is about to be called, or that a new lesson is about
    tool: Option<String>,
    /// For add: what went wrong
    mistake: Option<String>,
    /// For add: what to do instead
    correct: Option<String>,
    /// For add: a note of the user
    note: Option<String>,
    /// For add: semantic, spiral, infrastructure or budget; semantic by default
    #[serde(rename = "type")]
    kind: Option<String>,
    /// For add: learn it from the loop that spiral finds; adds nothing without one
    #[serde(default)]
    spiral: bool,
    /// For add: the abandoned branch or snapshot
    abandoned: Option<String>,
    /// For add: pin it; it never expires, and every inject has it
    #[serde(default)]
    pin: bool,
    /// For add: number of turns for which it is used; no limit by default
    expires_after: Option<u64>,
    /// For list and inject: the snapshot; HEAD by default
    revision: Option<String>,
    /// For list: deprecated and expired lessons, too
    #[serde(default)]
    all: bool,
    /// For list: start at this lesson; 0 by default
    #[serde(default)]
    offset: u64,
    /// For list: maximum number, 1 to 500, 50 by default
    limit: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum LessonsAction {
    #[default]
    Inject,
    List,
    Add,
}

/// One of three, by action.
#[derive(Default, Serialize, JsonSchema)]
pub(super) struct LessonsAnswer {
    /// The lessons for the next call.
    #[serde(skip_serializing_if = "Option::is_none")]
    injected: Option<json::InjectedLessons>,
    /// Lessons, oldest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    lessons: Option<Vec<json::ListedLesson>>,
    /// Offset of the next call; null at the end.
    next_offset: Option<u64>,
    /// The change by add; null if there was nothing to learn.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<json::LessonsChanged>,
}

impl Request for LessonsArguments {
    type Answer = LessonsAnswer;
    const NAME: &'static str = "lessons";
    const TITLE: &'static str = "What was learned";
    const ABOUT: &'static str = "Records mistakes and the correct way, for the session and all \
        its branches. Ask for the lessons of a tool before you call it, and add one when \
        something failed or a branch is given up.";
    const EFFECT: Effect = Effect::MayAdd;

    fn answer(self, call: &ServiceCall<'_>) -> Result<LessonsAnswer> {
        let revision = self.revision.as_deref().unwrap_or(HEAD);
        match self.action {
            LessonsAction::Inject => {
                let told = inject(&*call.open()?, revision, self.tool.as_deref(), None)?;
                Ok(LessonsAnswer { injected: Some(told), ..LessonsAnswer::default() })
            }
            LessonsAction::List => {
                let limit = limit(self.limit, ITEMS, MAX_ITEMS)?;
                let listed = list(&*call.open()?, revision, self.all)?;
                let Page { part, next, .. } = items(listed.lessons, self.offset, limit);
                let (lessons, next_offset) = (Some(part), next);
                Ok(LessonsAnswer { lessons, next_offset, ..LessonsAnswer::default() })
            }
            LessonsAction::Add => self.add(call),
        }
    }
}

impl LessonsArguments {
    fn add(self, call: &ServiceCall<'_>) -> Result<LessonsAnswer> {
        call.check_may_change()?;
        let fields = LessonFields {
            kind: self.kind.map(|name| name.parse()).transpose()?,
            tool: self.tool,
            mistake: self.mistake,
            correct: self.correct,
            expires_after: self.expires_after,
            note: self.note,
            ..LessonFields::default()
        };
        let add = Add {
            fields,
            spiral: self.spiral,
            turn: None,
            branch: self.abandoned,
            replaces: Vec::new(),
            pin: self.pin,
            target: LessonBranch::default(),
        };
        let changed = add.apply(&*call.open()?)?.map(LessonChange::record);
        Ok(LessonsAnswer { changed, ..LessonsAnswer::default() })
    }
}
