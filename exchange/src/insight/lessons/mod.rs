//! Lessons that an agent learned. They are stored in its session and injected before later tool
//! calls.
//!
//! Each lesson is an entry of the section `lessons`: a key, and a JSON object. Lessons are
//! therefore versioned like all content, are part of forks, and merge by key and field. They leave
//! their session only by a merge. A lesson is never deleted, only *deprecated*. Equal lessons are
//! folded into one. Lessons about infrastructure are equal if their models are, and have a count.
//!
//! ```text
//! Lessons  read from a context -> add, edit -> write the entries that changed
//! select   the lessons for a coming call: pinned ones, then the five that fit best
//! prompt   these as text, within 8192 bytes
//! Document LESSONS.md: what people edit, and what that changes      docs/reference/formats/lessons.md
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
mod prompt;
mod select;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

pub use document::{DocumentEntry, LessonsDocument, MAX_DOCUMENT_BYTES, MergedLessons};
pub use learn::learn;
pub use lesson::{FailedWith, Lesson, LessonKind, MAX_LESSON_BYTES};
pub use prompt::{LessonPrompt, PROMPT_BYTES, prompt};
pub use select::{Call, MAX_SELECTED, select};

use turntree::context::sections::LESSONS;
use turntree::context::{Builder, Context, JSON_MEDIA};
use turntree::error::{Error, ErrorKind, Result};
use turntree::object::{Kind, ObjectId, ObjectSink, ObjectSource};
use turntree::tree::{Item, Link, Map};

use crate::text::unique_name::unique_name;

/// Number of hex digits in the key of a lesson.
const KEY_DIGITS: usize = 10;

/// Longest key of a lesson in bytes.
const MAX_KEY_BYTES: usize = 100;

/// The key of a new lesson in a document. No stored lesson has this key.
const NEW_KEY: &str = "new";

/// The lessons of a context.
#[derive(Clone, Default, PartialEq)]
pub struct Lessons {
    entries: BTreeMap<String, Lesson>,
    /// The keys of entries that are not lessons. They are kept unchanged.
    others: Vec<String>,
    /// The root of the section.
    section: Option<ObjectId>,
}

/// The result of adding a lesson.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedLesson {
    /// The key of the lesson.
    pub key: String,
    /// True if the lesson was folded into an equal one.
    pub folded: bool,
}

impl fmt::Debug for Lessons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lessons({}, {} others)", self.entries.len(), self.others.len())
    }
}

impl Lessons {
    /// Reads the section of a context. A plain text becomes a lesson with a correct pattern. Other
    /// entries that are not lessons are ignored.
    ///
    /// # Errors
    /// `InvalidInput` if the section is not a map, and the errors of reading.
    pub fn read(source: &dyn ObjectSource, context: &Context) -> Result<Self> {
        let section = context.section(source, LESSONS)?.map(|section| section.id);
        Self::read_map(source, &context.map(source, LESSONS)?, section)
    }

    /// Reads a section by its root: the lessons that a document was written from.
    ///
    /// # Errors
    /// The errors of reading.
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

    /// Writes the entries that differ from `before` to the context.
    ///
    /// # Errors
    /// The errors of [`Lesson::to_json`] and of the sink.
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

    /// Returns all lessons with their keys, including deprecated ones.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Lesson)> {
        self.entries.iter().map(|(key, lesson)| (key.as_str(), lesson))
    }

    /// Returns the keys of the entries that are not lessons.
    #[must_use]
    pub fn others(&self) -> &[String] {
        &self.others
    }

    /// Returns the root of the section that the lessons were read from.
    #[must_use]
    pub fn section(&self) -> Option<ObjectId> {
        self.section
    }

    /// Returns the key that equals `text` or has the unique prefix `text`.
    ///
    /// # Errors
    /// `NotFound` if no key matches, `Ambiguous` if several keys have the prefix.
    pub fn find(&self, text: &str) -> Result<String> {
        if self.entries.contains_key(text) {
            return Ok(text.to_owned());
        }
        let mut keys = self.entries.keys().filter(|key| !text.is_empty() && key.starts_with(text));
        match (keys.next(), keys.next()) {
            (Some(key), None) => Ok(key.clone()),
            (None, _) => Err(Error::not_found("there is no lesson with this id")),
            _ => {
                Err(Error::new(ErrorKind::Ambiguous, "several lessons have an id with this prefix"))
            }
        }
    }

    /// Returns the lesson with a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Lesson> {
        self.entries.get(key)
    }

    /// Sets the lesson of a key.
    ///
    /// # Errors
    /// The errors of [`Lesson::to_json`]. `InvalidInput` for an invalid key, or a key of an entry
    /// that is not a lesson.
    pub fn set(&mut self, key: &str, lesson: Lesson) -> Result<()> {
        if !is_key(key) || self.others.iter().any(|other| other == key) {
            return Err(Error::invalid(format!(
                "a lesson cannot have this id: expected 1 to {MAX_KEY_BYTES} bytes without white \
                 space at the ends or control characters, and not the name of an entry that is \
                 not a lesson"
            )));
        }
        lesson.to_json()?;
        self.entries.insert(key.to_owned(), lesson);
        Ok(())
    }

    /// Adds a lesson. If an equal lesson exists, updates it, and increments the count of a lesson
    /// about infrastructure.
    ///
    /// # Errors
    /// The errors of [`Lesson::to_json`].
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

/// Folds a new lesson into an equal old one. The fields of the new one win.
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

/// Returns the lesson in an entry, if it is one.
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

/// Returns true if a key is valid as a heading of a document.
fn is_key(key: &str) -> bool {
    (1..=MAX_KEY_BYTES).contains(&key.len())
        && key.trim() == key
        && key != NEW_KEY
        && !key.chars().any(char::is_control)
}
