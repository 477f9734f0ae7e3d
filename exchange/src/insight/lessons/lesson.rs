//! A lesson: its fields, its JSON, and its validation.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use turntree::error::{Error, Result};
use turntree::object::{Kind, ObjectId};

/// Longest lesson in bytes of JSON.
pub const MAX_LESSON_BYTES: usize = 16 << 10;

/// The subject of a lesson, in the order of the prompt.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum LessonKind {
    /// The way to do the work.
    #[default]
    Semantic,
    /// A loop that the agent was in.
    Spiral,
    /// A failure of the infrastructure, and the fallback.
    Infrastructure,
    /// The token budget.
    Budget,
}

impl LessonKind {
    /// All kinds, in the order of the prompt.
    pub const ALL: [Self; 4] = [Self::Semantic, Self::Spiral, Self::Infrastructure, Self::Budget];

    /// Returns the name in JSON and in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Semantic => "semantic",
            Self::Spiral => "spiral",
            Self::Infrastructure => "infrastructure",
            Self::Budget => "budget",
        }
    }
}

impl FromStr for LessonKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::invalid(format!("expected a kind of lesson, one of {names}"))
        })
    }
}

/// The failure: a status code, or text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FailedWith {
    /// A status code.
    Code(i64),
    /// A text.
    Text(String),
}

impl fmt::Display for FailedWith {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => code.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// A lesson. Its JSON has the fields in this order, with the names of open-codesign's proposal, and
/// omits fields without a value.
#[derive(Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lesson {
    /// The subject.
    #[serde(rename = "type")]
    pub kind: LessonKind,
    /// The turn in which it was learned.
    pub turn_id: u64,
    /// The tool that the lesson is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// The failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mistake_pattern: Option<String>,
    /// The correct action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correct_pattern: Option<String>,
    /// The kind of artifact that the tool works on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// The model that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_model: Option<String>,
    /// The fallback model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_model: Option<String>,
    /// The failure of the first model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_with: Option<FailedWith>,
    /// True if the fallback worked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<bool>,
    /// The number of occurrences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The kind of task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_category: Option<String>,
    /// The estimated number of remaining tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_tokens_remaining: Option<i64>,
    /// The time of the lesson, in milliseconds since the Unix epoch.
    pub captured_at: i64,
    /// Number of turns until the lesson expires. `None` for no expiry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_after_turns: Option<u64>,
    /// True if the lesson never expires and is part of every prompt.
    pub pinned: bool,
    /// True if the lesson is disabled. Lessons are never deleted.
    pub deprecated: bool,
    /// A note of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_note: Option<String>,
    /// The abandoned branch, as `session/branch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abandoned_branch: Option<String>,
    /// The newest commit of that branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abandoned_commit: Option<String>,
    /// Fields that turntree does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Shows only the length: the text of agents and users must not appear in logs.
impl fmt::Debug for Lesson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, turn) = (self.kind.name(), self.turn_id);
        write!(
            f,
            "Lesson({kind}, turn {turn}, {} bytes)",
            self.to_json().map_or(0, |json| json.len())
        )
    }
}

impl Lesson {
    /// Returns true if the lesson applies to a call in the turn `turn`: it is not deprecated, and
    /// it is pinned or has not expired.
    #[must_use]
    pub fn is_live(&self, turn: u64) -> bool {
        let age = turn.saturating_sub(self.turn_id);
        let has_expired = self.expires_after_turns.is_some_and(|turns| age > turns);
        !self.deprecated && (self.pinned || !has_expired)
    }

    /// Returns the JSON on one line.
    ///
    /// # Errors
    /// `InvalidInput` if the lesson is empty or lacks a field of its kind, `LimitExceeded` if it is
    /// longer than [`MAX_LESSON_BYTES`].
    pub fn to_json(&self) -> Result<String> {
        self.check()?;
        let json = serde_json::to_string(self)
            .map_err(|source| Error::invalid("a lesson").with_source(source))?;
        let (limit, found) = (MAX_LESSON_BYTES as u64, json.len() as u64);
        if found > limit { Err(Error::limit("bytes of a lesson", limit, found)) } else { Ok(json) }
    }

    /// Parses a lesson from a JSON object. Errors have the line within `json`.
    pub(super) fn from_json(json: &str) -> Result<Self, (usize, String)> {
        if !json.trim_start().starts_with('{') {
            return Err((1, "expected a JSON object".to_owned()));
        }
        let mut fields = LessonFields::read(json)?;
        let last = json.trim_end().lines().count().max(1);
        if !fields.has("type") {
            return Err((last, "expected a field type".to_owned()));
        }
        let (number, flag) = ("a number of 0 or more", "true or false");
        let lesson = Self {
            kind: fields.take("type", "semantic, spiral, infrastructure or budget")?,
            turn_id: fields.take("turnId", number)?,
            tool_name: fields.text("toolName")?,
            mistake_pattern: fields.text("mistakePattern")?,
            correct_pattern: fields.text("correctPattern")?,
            artifact_type: fields.text("artifactType")?,
            from_model: fields.text("fromModel")?,
            to_model: fields.text("toModel")?,
            failed_with: fields.take("failedWith", "a code or text")?,
            succeeded: fields.take("succeeded", flag)?,
            count: fields.take("count", number)?,
            task_category: fields.text("taskCategory")?,
            estimated_tokens_remaining: fields.take("estimatedTokensRemaining", "a number")?,
            captured_at: fields.take("capturedAt", "milliseconds")?,
            expires_after_turns: fields.take("expiresAfterTurns", number)?,
            pinned: fields.take("pinned", flag)?,
            deprecated: fields.take("deprecated", flag)?,
            user_note: fields.text("userNote")?,
            abandoned_branch: fields.text("abandonedBranch")?,
            abandoned_commit: fields.text("abandonedCommit")?,
            other: Map::new(),
        };
        let mut other = Map::new();
        for name in fields.fields.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            other.insert(name.clone(), fields.take(&name, "a value")?);
        }
        let lesson = Self { other, ..lesson };
        lesson.to_json().map_err(|error| (last, error.to_string()))?;
        Ok(lesson)
    }

    /// Returns true if two lessons are equal, i.e. are folded into one.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.kind == other.kind && self.identity() == other.identity()
    }

    /// Returns the fields that identify a lesson within its kind.
    fn identity(&self) -> [&str; 5] {
        let fields = match self.kind {
            LessonKind::Infrastructure => [&self.from_model, &self.to_model, &None, &None, &None],
            // The lesson has only a note.
            _ if self.mistake_pattern.is_none() && self.correct_pattern.is_none() => {
                [&None, &self.user_note, &self.tool_name, &self.artifact_type, &self.task_category]
            }
            _ => [
                &self.mistake_pattern,
                &self.correct_pattern,
                &self.tool_name,
                &self.artifact_type,
                &self.task_category,
            ],
        };
        fields.map(|field| field.as_deref().unwrap_or_default())
    }

    /// Returns a digest of the identity. Equal for lessons that are folded into one.
    pub(super) fn digest(&self) -> ObjectId {
        let identity = format!("{}\0{}", self.kind.name(), self.identity().join("\0"));
        ObjectId::of(Kind::Blob, identity.as_bytes())
    }

    fn check(&self) -> Result<()> {
        if self.kind == LessonKind::Infrastructure {
            return match (&self.from_model, &self.to_model) {
                (Some(_), Some(_)) => Ok(()),
                _ => {
                    Err(Error::invalid("a lesson about infrastructure needs fromModel and toModel"))
                }
            };
        }
        let texts = [&self.mistake_pattern, &self.correct_pattern, &self.user_note];
        let says_something = texts.into_iter().flatten().any(|text| !text.trim().is_empty());
        if says_something || self.estimated_tokens_remaining.is_some() {
            return Ok(());
        }
        Err(Error::invalid("a lesson needs mistakePattern, correctPattern or userNote"))
    }
}

/// The fields of an object with their source text.
struct LessonFields<'a> {
    json: &'a str,
    fields: Vec<(String, &'a RawValue)>,
}

impl<'a> LessonFields<'a> {
    fn read(json: &'a str) -> Result<Self, (usize, String)> {
        let FieldPairs(fields) = serde_json::from_str(json).map_err(|error| {
            let text = error.to_string();
            let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
            (error.line().max(1), text.to_owned())
        })?;
        let mut names = HashSet::new();
        let twice = fields.iter().find(|(name, _)| !names.insert(name.as_str()));
        let fields = Self { json, fields: fields.clone() };
        match twice {
            Some((_, value)) => Err((fields.line(value), "a field occurs twice".to_owned())),
            None => Ok(fields),
        }
    }

    /// Returns the line of a value.
    fn line(&self, value: &RawValue) -> usize {
        let start = value.get().as_ptr().addr().saturating_sub(self.json.as_ptr().addr());
        1 + self.json.get(..start).map_or(0, |before| before.matches('\n').count())
    }

    /// Takes a field. A missing field has the default value. Errors do not quote the value, which
    /// may be content.
    fn take<T: DeserializeOwned + Default>(
        &mut self,
        name: &str,
        expected: &str,
    ) -> Result<T, (usize, String)> {
        let Some(at) = self.fields.iter().position(|(found, _)| found == name) else {
            return Ok(T::default());
        };
        let (_, value) = self.fields.remove(at);
        serde_json::from_str(value.get())
            .map_err(|_| (self.line(value), format!("expected {name}: {expected}")))
    }

    fn text(&mut self, name: &str) -> Result<Option<String>, (usize, String)> {
        self.take(name, "text")
    }

    /// Returns true if the field exists.
    fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(found, _)| found == name)
    }
}

/// The fields of an object, including duplicates.
struct FieldPairs<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for FieldPairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct FieldPairsVisitor;
        impl<'de> Visitor<'de> for FieldPairsVisitor {
            type Value = FieldPairs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<FieldPairs<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(FieldPairs(fields))
            }
        }
        deserializer.deserialize_map(FieldPairsVisitor)
    }
}
