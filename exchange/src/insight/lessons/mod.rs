//! Lessons: what an agent learned, kept in its session and told again before a coming tool call.
//!
//! Each lesson is an entry of the section `lessons`: a key, and a JSON object. So lessons are versioned
//! with everything else, go along with forks, merge by key and field, and never leave their session
//! unless somebody merges another one. Nothing is ever deleted: a lesson that counts no more is
//! *deprecated*. Two lessons that say the same are one; those about infrastructure fold by the models
//! that they go from and to, and count.
//!
//! ```text
//! Lessons  read from a context -> add, edit -> write the entries that changed
//! select   the lessons for a coming call: pinned ones, then the five that fit best
//! prompt   these as text, within 8192 bytes
//! Document LESSONS.md: what people edit, and what that changes      docs/formats/lessons.md
//! ```
//!
//! ```
//! use turntree_exchange::lessons::{Call, Lesson, Lessons, prompt, select};
//!
//! let mut lessons = Lessons::default();
//! lessons.add(Lesson {
//!     tool_name: Some("fs.replace".into()),
//!     mistake_pattern: Some("matching on white space".into()),
//!     correct_pattern: Some("replace the whole block".into()),
//!     ..Lesson::default()
//! })?;
//! let call = Call { tool: Some("fs.replace"), turn: 7, now_millis: 0 };
//! let block = prompt(&select(&lessons, &call));
//! assert!(block.text.starts_with("## Active lessons (auto-injected)\n"));
//! assert!(block.text.contains("replace the whole block"));
//! # Ok::<(), turntree::Error>(())
//! ```

mod document;
mod learn;
mod lesson;
mod select;
mod tell;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

pub use document::{DocumentEntry, LessonsDocument, MAX_DOCUMENT_BYTES, MergedLessons};
pub use learn::learn;
pub use lesson::{FailedWith, Lesson, LessonKind, MAX_LESSON_BYTES};
pub use select::{Call, MAX_SELECTED, select};
pub use tell::{PROMPT_BYTES, Prompt, prompt};

use turntree::context::{Builder, Context, JSON_MEDIA, LESSONS};
use turntree::error::{Error, ErrorKind, Result};
use turntree::object::{Kind, ObjectId, ObjectSink, ObjectSource};
use turntree::tree::{Item, Link, Map};

use crate::text::unique_name::unique_name;

/// Hex digits that name a lesson.
const KEY_DIGITS: usize = 10;

/// Longest key of a lesson, in bytes.
const MAX_KEY_BYTES: usize = 100;

/// The key of a new lesson in a document, which no lesson in a store has.
const NEW: &str = "new";

/// The lessons of a context.
#[derive(Clone, Default, PartialEq)]
pub struct Lessons {
    entries: BTreeMap<String, Lesson>,
    /// Keys of entries that are no lessons, which stay as they are.
    others: Vec<String>,
    /// The root of the section.
    section: Option<ObjectId>,
}

/// The outcome of adding a lesson.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedLesson {
    /// Its key.
    pub key: String,
    /// True if there was one that said the same, which it was folded into.
    pub folded: bool,
}

impl fmt::Debug for Lessons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lessons({}, {} others)", self.entries.len(), self.others.len())
    }
}

impl Lessons {
    /// Reads the section of a context. A text that stands alone is a lesson that says what to do;
    /// anything else that is no lesson is left alone.
    ///
    /// # Errors
    /// `InvalidInput` when the section is no map, else what reading reports.
    pub fn read(source: &dyn ObjectSource, context: &Context) -> Result<Self> {
        let section = context.section(source, LESSONS)?.map(|section| section.id);
        Self::read_map(source, &context.map(source, LESSONS)?, section)
    }

    /// Reads a section by its root: the lessons that a document was written from.
    ///
    /// # Errors
    /// As for reading.
    pub fn read_section(source: &dyn ObjectSource, section: Option<ObjectId>) -> Result<Self> {
        let map = section.map(|id| Map::open(source, &id)).transpose()?.unwrap_or_default();
        Self::read_map(source, &map, section)
    }

    fn read_map(source: &dyn ObjectSource, map: &Map, section: Option<ObjectId>) -> Result<Self> {
        let mut lessons = Self { section, ..Self::default() };
        for entry in map.iter(source) {
            let (key, item) = entry?;
            let key = String::from_utf8_lossy(&key).into_owned();
            let bytes = source.read_as(Kind::Blob, &item.link.id)?;
            match lesson_of(&item, &bytes).filter(|_| is_key(&key)) {
                Some(lesson) => _ = lessons.entries.insert(key, lesson),
                None => lessons.others.push(key),
            }
        }
        Ok(lessons)
    }

    /// Puts the entries that are not as in `before` into the context.
    ///
    /// # Errors
    /// As [`Lesson::to_json`], and what the sink reports.
    pub fn write(
        &self,
        sink: &mut dyn ObjectSink,
        builder: &mut Builder,
        before: &Self,
    ) -> Result<()> {
        let is_new = |(key, lesson): &(&String, &Lesson)| before.entries.get(*key) != Some(*lesson);
        for (key, lesson) in self.entries.iter().filter(is_new) {
            let id = sink.write(Kind::Blob, lesson.to_json()?.into())?;
            let item = Item { link: Link { kind: Kind::Blob, id }, meta: JSON_MEDIA.into() };
            builder.set(sink, LESSONS, key, Some(item))?;
        }
        Ok(())
    }

    /// Every lesson by its key, deprecated ones too.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Lesson)> {
        self.entries.iter().map(|(key, lesson)| (key.as_str(), lesson))
    }

    /// Keys of entries of the section that are no lessons.
    #[must_use]
    pub fn others(&self) -> &[String] {
        &self.others
    }

    /// The root of the section that they were read from.
    #[must_use]
    pub fn section(&self) -> Option<ObjectId> {
        self.section
    }

    /// The key that `text` is, or begins.
    ///
    /// # Errors
    /// `NotFound` when no lesson has such a key, `Ambiguous` when several begin so.
    pub fn find(&self, text: &str) -> Result<String> {
        if self.entries.contains_key(text) {
            return Ok(text.to_owned());
        }
        let mut keys = self.entries.keys().filter(|key| !text.is_empty() && key.starts_with(text));
        match (keys.next(), keys.next()) {
            (Some(key), None) => Ok(key.clone()),
            (None, _) => Err(Error::not_found("there is no lesson with this id")),
            _ => Err(Error::new(ErrorKind::Ambiguous, "several lessons have an id that begins so")),
        }
    }

    /// The lesson of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Lesson> {
        self.entries.get(key)
    }

    /// Makes the lesson of a key another one.
    ///
    /// # Errors
    /// As [`Lesson::to_json`]; `InvalidInput` for a key that no lesson can have, or that stands for
    /// something else in the section.
    pub fn set(&mut self, key: &str, lesson: Lesson) -> Result<()> {
        if !is_key(key) || self.others.iter().any(|other| other == key) {
            return Err(Error::invalid(format!(
                "a lesson cannot have this id: expected 1 to {MAX_KEY_BYTES} bytes without white space \
                 at the ends and control characters, which are not of an entry that is no lesson"
            )));
        }
        lesson.to_json()?;
        self.entries.insert(key.to_owned(), lesson);
        Ok(())
    }

    /// Adds a lesson. One that says the same as one that is there renews it, and one about
    /// infrastructure is counted.
    ///
    /// # Errors
    /// As [`Lesson::to_json`].
    pub fn add(&mut self, lesson: Lesson) -> Result<AddedLesson> {
        let known = self.entries.iter().find(|(_, known)| known.is_same(&lesson));
        if let Some((key, known)) = known {
            let (key, folded) = (key.clone(), fold(known, lesson));
            self.set(&key, folded)?;
            return Ok(AddedLesson { key, folded: true });
        }
        let digits = lesson.digest().short(KEY_DIGITS);
        let is_taken = |key: &str| {
            self.entries.contains_key(key) || self.others.iter().any(|other| other == key)
        };
        let key = unique_name(&digits, is_taken);
        let count = (lesson.kind == LessonKind::Infrastructure).then_some(1);
        self.set(&key, Lesson { count: lesson.count.or(count), ..lesson })?;
        Ok(AddedLesson { key, folded: false })
    }
}

/// A lesson that was learned again: what the newer one says, and of the older one the rest.
fn fold(old: &Lesson, new: Lesson) -> Lesson {
    let count = match new.kind {
        LessonKind::Infrastructure => {
            Some(old.count.unwrap_or(1).saturating_add(new.count.unwrap_or(1)))
        }
        _ => new.count.or(old.count),
    };
    let mut other = old.other.clone();
    other.extend(new.other);
    Lesson {
        count,
        tool_name: new.tool_name.or_else(|| old.tool_name.clone()),
        mistake_pattern: new.mistake_pattern.or_else(|| old.mistake_pattern.clone()),
        correct_pattern: new.correct_pattern.or_else(|| old.correct_pattern.clone()),
        artifact_type: new.artifact_type.or_else(|| old.artifact_type.clone()),
        failed_with: new.failed_with.or_else(|| old.failed_with.clone()),
        succeeded: new.succeeded.or(old.succeeded),
        task_category: new.task_category.or_else(|| old.task_category.clone()),
        estimated_tokens_remaining: new
            .estimated_tokens_remaining
            .or(old.estimated_tokens_remaining),
        expires_after_turns: new.expires_after_turns.or(old.expires_after_turns),
        pinned: new.pinned || old.pinned,
        deprecated: false,
        user_note: new.user_note.or_else(|| old.user_note.clone()),
        abandoned_branch: new.abandoned_branch.or_else(|| old.abandoned_branch.clone()),
        abandoned_commit: new.abandoned_commit.or_else(|| old.abandoned_commit.clone()),
        other,
        ..new
    }
}

/// The lesson in an entry, if it is one.
fn lesson_of(item: &Item, bytes: &[u8]) -> Option<Lesson> {
    let text = std::str::from_utf8(bytes).ok()?;
    let lesson = match Lesson::from_json(text) {
        Ok(lesson) => lesson,
        Err(_) if item.meta.is_empty() => {
            Lesson { correct_pattern: Some(text.to_owned()), ..Lesson::default() }
        }
        Err(_) => return None,
    };
    lesson.to_json().is_ok().then_some(lesson)
}

/// Returns true if a key can stand in a heading of a document.
fn is_key(key: &str) -> bool {
    (1..=MAX_KEY_BYTES).contains(&key.len())
        && key.trim() == key
        && key != NEW
        && !key.chars().any(char::is_control)
}
