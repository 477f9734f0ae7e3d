//! Documents part by part: values with their places in the bytes, and notes of their faults.
//!
//! Values stay the JSON they are, by their range in the document, so that numbers and escapes are
//! written back unchanged. Errors and notes name places, and never quote content.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use turntree::error::{Error, Result};

use crate::model::report::{ImportNote, MAX_NOTES};
use crate::text::json::{self, Text};

/// A value of the document: its JSON and its place.
#[derive(Debug, Clone)]
pub(super) struct JsonPart<'a> {
    pub(super) json: &'a RawValue,
    pub(super) range: Range<usize>,
}

/// Names and values in the order of the document.
pub(super) type JsonParts<'a> = Vec<(String, JsonPart<'a>)>;

/// Checks a document part by part.
pub(super) struct Checker<'a> {
    text: &'a Text<'a>,
    bytes: &'a Bytes,
    notes: Vec<(usize, String)>,
}

impl<'a> Checker<'a> {
    /// Creates a checker of `bytes`, whose text is `text`.
    pub(super) fn new(text: &'a Text<'a>, bytes: &'a Bytes) -> Self {
        Self { text, bytes, notes: Vec::new() }
    }

    /// Returns the whole value; `what` names it in an error.
    pub(super) fn whole(&self, what: &str) -> Result<JsonPart<'a>> {
        let whole: &'a RawValue = self.text.parse().map_err(|source| {
            let (line, column) = (source.line(), source.column());
            let message = format!("line {line}, column {column}: expected {what}");
            json::refused(Error::invalid(message), source)
        })?;
        self.part(whole)
    }

    /// Returns tolerated oddities with their places; unpaired surrogates included.
    pub(super) fn into_notes(mut self) -> Vec<(usize, String)> {
        self.note_halves();
        self.notes.truncate(MAX_NOTES);
        self.notes
    }

    /// Adds a note about the whole document.
    pub(super) fn note_whole(&mut self, what: impl Into<String>) {
        self.notes.push((0, what.into()));
    }

    /// Adds a note about a value.
    pub(super) fn note(&mut self, part: &JsonPart<'_>, what: impl Into<String>) {
        self.notes.push((part.range.start, what.into()));
    }

    /// Refuses a key that holds half of a character: another key would be stored in its place.
    pub(super) fn check_key(&self, key: &str, value: &JsonPart<'_>, place: &str) -> Result<()> {
        if !key.contains('\u{fffd}') {
            return Ok(());
        }
        // The key comes before its value; both texts are compared from its quote on.
        let before = value.range.start;
        let mended = self.text.as_str().get(..before).unwrap_or_default();
        let key_end = mended.rfind('"').unwrap_or_default();
        let key_start = key_start(mended, key_end);
        let original = self.bytes.get(key_start..key_end);
        if original == mended.as_bytes().get(key_start..key_end) {
            return Ok(());
        }
        let line = line_of(self.bytes, key_start);
        Err(Error::invalid(format!(
            "{place}, line {line}: key contains an unpaired surrogate: expected both halves of the pair"
        )))
    }

    /// Notes every unpaired surrogate in a text.
    fn note_halves(&mut self) {
        let mended = self.text.as_str().as_bytes();
        let mut at = 0;
        while self.notes.len() < MAX_NOTES
            && let Some(found) = differs(mended, self.bytes, at)
        {
            let what = "a text holds half of a surrogate pair, which is kept and shown as U+FFFD";
            self.notes.push((found, what.to_owned()));
            at = found + 4;
        }
    }

    /// The exact text of a value.
    pub(super) fn raw(&self, part: &JsonPart<'_>) -> String {
        let bytes = self.bytes.get(part.range.clone()).unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// A value with its place.
    fn part(&self, json: &'a RawValue) -> Result<JsonPart<'a>> {
        let range = self.text.range_of(json);
        let range = range.ok_or_else(|| Error::invalid("a value that is not in the document"))?;
        Ok(JsonPart { json, range })
    }

    /// The fields of an object, in their order.
    pub(super) fn fields(&self, place: &str, part: &JsonPart<'a>) -> Result<JsonParts<'a>> {
        expect(part, Kind::Object, place)?;
        let Fields(fields) = serde_json::from_str(part.json.get()).map_err(|source| {
            json::refused(Error::invalid(format!("{place}: expected an object")), source)
        })?;
        fields.into_iter().map(|(name, json)| Ok((name, self.part(json)?))).collect()
    }

    /// The elements of an array.
    pub(super) fn elements(&self, place: &str, part: &JsonPart<'a>) -> Result<Vec<JsonPart<'a>>> {
        expect(part, Kind::Array, place)?;
        let elements: Vec<&'a RawValue> =
            serde_json::from_str(part.json.get()).map_err(|source| {
                json::refused(Error::invalid(format!("{place}: expected an array")), source)
            })?;
        elements.into_iter().map(|json| self.part(json)).collect()
    }
}

/// Returns the text of a document.
///
/// # Errors
/// `InvalidInput`, naming the line of the first invalid UTF-8.
pub(super) fn text_of(bytes: &Bytes) -> Result<Text<'_>> {
    Text::new(bytes).ok_or_else(|| {
        let at = std::str::from_utf8(bytes).err().map_or(0, |error| error.valid_up_to());
        let line = line_of(bytes, at);
        Error::invalid(format!("line {line}, byte {at}: expected UTF-8"))
    })
}

/// Returns notes in the order of the document, with their lines.
pub(super) fn import_notes(notes: &[(usize, String)], bytes: &[u8]) -> Vec<ImportNote> {
    let mut found: Vec<&(usize, String)> = notes.iter().collect();
    found.sort_by_key(|(offset, _)| *offset);
    let (mut line, mut counted) = (1, 0);
    let note = |(offset, what): &(usize, String)| {
        let between = bytes.get(counted..*offset).unwrap_or_default();
        line += between.iter().filter(|byte| **byte == b'\n').count() as u64;
        counted = *offset;
        ImportNote { line, offset: *offset as u64, what: what.clone() }
    };
    found.into_iter().map(note).collect()
}

/// The expected kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Number,
    /// A non-negative integer.
    Count,
    Truth,
    Object,
    Array,
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Number => "a number",
            Self::Count => "a whole number of 0 or more",
            Self::Truth => "true or false",
            Self::Object => "an object",
            Self::Array => "an array",
        }
    }
}

/// Refuses a value of another kind, naming its place.
pub(super) fn expect(part: &JsonPart<'_>, kind: Kind, place: &str) -> Result<()> {
    let json = part.json.get();
    let first = json.as_bytes().first().copied().unwrap_or_default();
    let found = match first {
        b'"' => Kind::Text,
        b'{' => Kind::Object,
        b'[' => Kind::Array,
        b't' | b'f' => Kind::Truth,
        b'n' => return Err(wrong(place, kind, "null")),
        _ if kind == Kind::Count && json.parse::<u64>().is_ok() => Kind::Count,
        _ => Kind::Number,
    };
    if found == kind { Ok(()) } else { Err(wrong(place, kind, found.name())) }
}

pub(super) fn expect_or_null(part: &JsonPart<'_>, kind: Kind, place: &str) -> Result<()> {
    if part.json.get() == "null" { Ok(()) } else { expect(part, kind, place) }
}

/// The text of a value.
pub(super) fn text(part: &JsonPart<'_>, place: &str) -> Result<String> {
    expect(part, Kind::Text, place)?;
    serde_json::from_str(part.json.get())
        .map_err(|source| json::refused(wrong(place, Kind::Text, "something else"), source))
}

fn wrong(place: &str, expected: Kind, found: &str) -> Error {
    Error::invalid(format!("{place}: expected {}, found {found}", expected.name()))
}

pub(super) fn missing(place: &str, expected: &str) -> Error {
    Error::invalid(format!("{place} is missing: expected {expected}"))
}

/// Takes the last field of this name, which is the one that applies, and drops the others.
pub(super) fn take<'a>(fields: &mut JsonParts<'a>, name: &str) -> Option<JsonPart<'a>> {
    let mut found = None;
    fields.retain(|(field, part)| {
        let is_it = field == name;
        if is_it {
            found = Some(part.clone());
        }
        !is_it
    });
    found
}

/// The line of an offset, from 1.
fn line_of(bytes: &[u8], offset: usize) -> u64 {
    let before = bytes.get(..offset).unwrap_or(bytes);
    before.iter().filter(|byte| **byte == b'\n').count() as u64 + 1
}

/// Returns the beginning of the string that ends before `end`.
fn key_start(text: &str, end: usize) -> usize {
    let before = text.get(..end).unwrap_or_default();
    let is_plain = |quote: &usize| {
        let slashes = before.get(..*quote).unwrap_or_default();
        (slashes.len() - slashes.trim_end_matches('\\').len()) % 2 == 0
    };
    before.rmatch_indices('"').map(|(at, _)| at).find(is_plain).unwrap_or_default()
}

/// The first place from `from` on where two texts of equal length differ.
fn differs(a: &[u8], b: &[u8], from: usize) -> Option<usize> {
    let mut rest = a.get(from..)?.iter().zip(b.get(from..)?);
    rest.position(|(a, b)| a != b).map(|at| from + at)
}

/// An object's fields in the order of the document.
pub(super) struct Fields<'a>(pub(super) Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Vec<(String, &'de RawValue)>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Reader).map(Self)
    }
}
