//! LESSONS.md: the lessons of a session in a form that users read and edit. Specified in
//! `docs/reference/formats/lessons.md`.
//!
//! The file names the lessons that it was written from. Reading it back applies only the
//! differences from these lessons, so lessons that were learned in between stay.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use turntree::error::{Error, ErrorKind, Result};
use turntree::object::ObjectId;

use super::{Lesson, Lessons, NEW_KEY, is_key};

/// Largest file in bytes.
pub const MAX_DOCUMENT_BYTES: usize = 4 << 20;

const TITLE: &str = "# Lessons";
const MARK: &str = "<!-- turntree lessons, version 1, written from ";
const MARK_END: &str = " -->";
const NOTHING: &str = "nothing";
const HEADING: &str = "## ";
const OPEN: &str = "```json";
const CLOSE: &str = "```";

/// A file of lessons.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LessonsDocument {
    /// The root of the section that the file was written from. `None` for no section.
    pub base: Option<ObjectId>,
    /// The lessons, in the order of the file.
    pub entries: Vec<DocumentEntry>,
}

/// A lesson in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentEntry {
    /// The key of the lesson. `None` for a new lesson.
    pub key: Option<String>,
    /// The line of the heading, counted from 1.
    pub line: usize,
    /// The lesson.
    pub lesson: Lesson,
}

/// The changes from reading a document back, as keys of lessons.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MergedLessons {
    /// The new lessons.
    pub added: Vec<String>,
    /// The changed lessons.
    pub changed: Vec<String>,
    /// The lessons that were deleted from the file. They are deprecated.
    pub deprecated: Vec<String>,
}

impl LessonsDocument {
    /// Returns a document of the lessons that are not deprecated.
    #[must_use]
    pub fn of(lessons: &Lessons) -> Self {
        let entry = |(key, lesson): (&str, &Lesson)| DocumentEntry {
            key: Some(key.to_owned()),
            line: 0,
            lesson: lesson.clone(),
        };
        let kept = lessons.iter().filter(|(_, lesson)| !lesson.deprecated);
        Self { base: lessons.section(), entries: kept.map(entry).collect() }
    }

    /// Returns the text of the file. Lessons are sorted by turn, then time, then key, so edits do
    /// not move them. New lessons come last.
    ///
    /// # Errors
    /// The errors of [`Lesson::to_json`].
    pub fn to_text(&self) -> Result<String> {
        let base = self.base.map_or_else(|| NOTHING.to_owned(), |id| id.to_string());
        let mut text = format!("{TITLE}\n\n{MARK}{base}{MARK_END}\n");
        let mut entries: Vec<&DocumentEntry> = self.entries.iter().collect();
        entries.sort_by_key(|DocumentEntry { key, lesson, .. }| {
            (key.is_none(), lesson.turn_id, lesson.captured_at, key)
        });
        for DocumentEntry { key, lesson, .. } in entries {
            lesson.to_json()?;
            let json = serde_json::to_string_pretty(lesson)
                .map_err(|source| Error::invalid("a lesson").with_source(source))?;
            let key = key.as_deref().unwrap_or(NEW_KEY);
            let _ = write!(text, "\n{HEADING}{key}\n\n{OPEN}\n{json}\n{CLOSE}\n");
        }
        Ok(text)
    }

    /// Parses a file.
    ///
    /// # Errors
    /// `InvalidInput` with the line, for anything but the title, the line with the origin, and
    /// headings with one JSON block each; `LimitExceeded` for a file over [`MAX_DOCUMENT_BYTES`].
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > MAX_DOCUMENT_BYTES {
            let (limit, found) = (MAX_DOCUMENT_BYTES as u64, text.len() as u64);
            return Err(Error::limit("bytes of a file of lessons", limit, found));
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = FileLines { lines: text.lines().collect(), at: 0 };
        if lines.next_text() != Some(TITLE) {
            return Err(lines.refuse(&format!("'{TITLE}'")));
        }
        let Some(base) = lines.next_text().and_then(base) else {
            return Err(lines.refuse(&format!("'{MARK}...{MARK_END}', as it was written")));
        };
        let (mut entries, mut known) = (Vec::new(), BTreeMap::new());
        while let Some(heading) = lines.next_text() {
            let line = lines.at;
            let key = heading.strip_prefix(HEADING).map(str::trim);
            let key = key.filter(|key| *key == NEW_KEY || is_key(key));
            let Some(key) = key else {
                return Err(
                    lines.refuse(&format!("'{HEADING}' and the id of a lesson or '{NEW_KEY}'"))
                );
            };
            let key = (key != NEW_KEY).then(|| key.to_owned());
            if let Some(first) = key.clone().and_then(|key| known.insert(key, line)) {
                let twice = format!("line {line}: this lesson is already in line {first}");
                return Err(Error::invalid(twice));
            }
            entries.push(DocumentEntry { key, line, lesson: lines.block()? });
        }
        Ok(Self { base, entries })
    }

    /// Applies the changes of the file since it was written from `base` to `lessons`. A new lesson
    /// without a time and turn gets `now_millis` and `turn`.
    ///
    /// # Errors
    /// `InvalidInput` with the line of a lesson that has a new unknown field. `Conflict` with the
    /// line or id of a lesson that was changed in the store, too; `lessons` is then only partly
    /// updated.
    pub fn merge_into(
        &self,
        lessons: &mut Lessons,
        base: &Lessons,
        turn: u64,
        now_millis: i64,
    ) -> Result<MergedLessons> {
        let mut merged = MergedLessons::default();
        for DocumentEntry { key, line, lesson } in &self.entries {
            let at = |error: Error| error.at(format_args!("line {line}"));
            let old = key.as_ref().and_then(|key| base.get(key));
            let is_known = |name: &&String| old.is_some_and(|old| old.other.contains_key(*name));
            if lesson.other.keys().any(|name| !is_known(&name)) {
                return Err(at(Error::invalid("a lesson has no field of this name")));
            }
            if old == Some(lesson) {
                continue;
            }
            let mut lesson = lesson.clone();
            if old.is_none() {
                let is_undated = lesson.turn_id == 0 && lesson.captured_at == 0;
                (lesson.turn_id, lesson.captured_at) = if is_undated {
                    (turn, now_millis)
                } else {
                    (lesson.turn_id, lesson.captured_at)
                };
            }
            let Some(key) = key else {
                merged.added.push(lessons.add(lesson).map_err(at)?.key);
                continue;
            };
            let current = lessons.get(key);
            if current == Some(&lesson) {
                continue;
            }
            if current != old {
                return Err(at(changed_twice()));
            }
            let list = if old.is_none() { &mut merged.added } else { &mut merged.changed };
            list.push(key.clone());
            lessons.set(key, lesson).map_err(at)?;
        }
        let left: BTreeSet<&str> =
            self.entries.iter().filter_map(|entry| entry.key.as_deref()).collect();
        let is_gone = |(key, old): &(&str, &Lesson)| !old.deprecated && !left.contains(key);
        for (key, old) in base.iter().filter(is_gone) {
            match lessons.get(key) {
                Some(current) if current == old => {
                    lessons.set(key, Lesson { deprecated: true, ..old.clone() })?;
                    merged.deprecated.push(key.to_owned());
                }
                Some(current) if current.deprecated => {}
                _ => return Err(changed_twice().at(format_args!("lesson {key}"))),
            }
        }
        Ok(merged)
    }
}

fn changed_twice() -> Error {
    let twice = "it was also changed in the store after this file was exported";
    Error::new(ErrorKind::Conflict, twice)
}

/// Parses the line with the origin of the file.
fn base(line: &str) -> Option<Option<ObjectId>> {
    let name = line.strip_prefix(MARK)?.strip_suffix(MARK_END)?;
    if name == NOTHING { Some(None) } else { name.parse().ok().map(Some) }
}

/// The lines of a file, and the number of lines read.
struct FileLines<'a> {
    lines: Vec<&'a str>,
    at: usize,
}

impl<'a> FileLines<'a> {
    fn next(&mut self) -> Option<&'a str> {
        self.at += 1;
        self.lines.get(self.at - 1).copied()
    }

    /// Returns the next nonempty line.
    fn next_text(&mut self) -> Option<&'a str> {
        loop {
            let line = self.next()?.trim_end();
            if !line.is_empty() {
                return Some(line);
            }
        }
    }

    /// Parses the lesson in the next block.
    fn block(&mut self) -> Result<Lesson> {
        if self.next_text() != Some(OPEN) {
            return Err(self.refuse(&format!("'{OPEN}'")));
        }
        let first = self.at;
        loop {
            match self.next() {
                Some(line) if line.trim_end() == CLOSE => break,
                Some(_) => {}
                None => return Err(self.refuse(&format!("'{CLOSE}', the end of the block"))),
            }
        }
        let json = self.lines.get(first..self.at - 1).unwrap_or_default().join("\n");
        Lesson::from_json(&json)
            .map_err(|(line, found)| Error::invalid(format!("line {}: {found}", first + line)))
    }

    /// Returns the error for the line that was read last.
    fn refuse(&self, expected: &str) -> Error {
        let found = match self.lines.get(self.at - 1) {
            Some(_) => "something else",
            None => "the end",
        };
        Error::invalid(format!("line {}: expected {expected}, found {found}", self.at))
    }
}
