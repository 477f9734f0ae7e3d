//! Edits JSON that people wrote in one place; every other byte stays the same.
//!
//! A value is inserted as text in the style of the text around it, and removed the same way. A
//! container that was created for it is removed with it, if it holds nothing else. The two cases
//! differ in the text: in a container that existed before, our value is right after the bracket; in
//! a container that we created, there is space between them.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use turntree::{Error, Result};

/// A JSON document as text.
pub(super) struct SettingsDocument {
    text: String,
    /// True if the whole document was created here, and is now empty.
    is_used_up: bool,
}

/// The members of an object, with the ranges of their values.
type Members = Vec<(String, Range<usize>)>;

impl SettingsDocument {
    /// Parses the document in `text`.
    ///
    /// # Errors
    /// `InvalidInput` with line and column for text other than a JSON object. Comments get
    /// their own message, since clients allow them and an edit would misplace them.
    pub(super) fn new(text: String) -> Result<Self> {
        if text.trim().is_empty() {
            return Err(Error::invalid("line 1: found nothing: expected a JSON object, as {}"));
        }
        if text.starts_with('\u{feff}') {
            return Err(Error::invalid("line 1: found a byte order mark: expected JSON"));
        }
        if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(&text) {
            let (line, column) = (error.line(), error.column());
            let at = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
            let rest = at.get(column.saturating_sub(1)..).unwrap_or_default();
            let place = format!("line {line}, column {column}");
            return Err(Error::invalid(match rest.starts_with("//") || rest.starts_with("/*") {
                true => format!("{place}: found a comment: expected JSON without comments"),
                false => format!("{place}: expected JSON"),
            }));
        }
        if !text.trim_start().starts_with('{') {
            return Err(Error::invalid("line 1: expected a JSON object"));
        }
        Ok(Self { text, is_used_up: false })
    }

    /// A new document with an array under `path` that contains `element`.
    pub(super) fn made(path: &[&str], element: &str) -> Self {
        let style = Style::of("{}");
        let mut text = style.array(element, path.len());
        for (at, name) in path.iter().enumerate().rev() {
            text = style.object(name, &text, at + 1);
        }
        Self { text: text + "\n", is_used_up: false }
    }

    /// Returns true if a document that was [made](Document::made) is empty now.
    pub(super) fn is_used_up(&self) -> bool {
        self.is_used_up
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Finds the value under `path`.
    fn find(&self, path: &[&str]) -> Result<Option<Range<usize>>> {
        let start = self.text.len() - self.text.trim_start().len();
        let mut at = start..self.text.trim_end().len();
        for name in path {
            let found = self.members(&at)?.into_iter().filter(|(key, _)| key == name);
            let mut found = found.map(|(_, value)| value);
            match (found.next(), found.next()) {
                (Some(value), None) => at = value,
                (None, _) => return Ok(None),
                (Some(_), Some(_)) => {
                    return Err(Error::invalid(format!("'{name}' occurs twice")));
                }
            }
        }
        Ok(Some(at))
    }

    fn members(&self, at: &Range<usize>) -> Result<Members> {
        let text = self.text.get(at.clone()).unwrap_or_default();
        let parsed: Result<Spans<'_>, _> = serde_json::from_str(text);
        let spans = parsed.map_err(|_| Error::invalid("expected a JSON object here"))?;
        Ok(spans.0.into_iter().map(|(key, value)| (key, self.range(value))).collect())
    }

    /// The elements of the array under `path` as text; empty if there is no array.
    pub(super) fn elements(&self, path: &[&str]) -> Result<Vec<(Range<usize>, &str)>> {
        let Some(at) = self.find(path)? else { return Ok(Vec::new()) };
        let text = self.text.get(at).unwrap_or_default();
        let parsed: Result<Vec<&RawValue>, _> = serde_json::from_str(text);
        let name = path.join(".");
        let values = parsed.map_err(|_| Error::invalid(format!("{name}: expected an array")))?;
        Ok(values.into_iter().map(|value| (self.range(value), value.get())).collect())
    }

    /// The names in the object under `path`; empty if there is no object.
    pub(super) fn names(&self, path: &[&str]) -> Result<Vec<String>> {
        let Some(at) = self.find(path)? else { return Ok(Vec::new()) };
        let members = self
            .members(&at)
            .map_err(|_| Error::invalid(format!("{}: expected a JSON object", path.join("."))))?;
        Ok(members.into_iter().map(|(name, _)| name).collect())
    }

    fn range(&self, value: &RawValue) -> Range<usize> {
        let start = value.get().as_ptr().addr().saturating_sub(self.text.as_ptr().addr());
        start..start + value.get().len()
    }

    /// Appends `element` to the array under `path`, and creates the array if it is missing. An
    /// element is written on one line.
    pub(super) fn append(&mut self, path: &[&str], element: &str) -> Result<()> {
        for depth in 1..path.len() + 1 {
            let Some(inner) = path.get(..depth) else { break };
            if self.find(inner)?.is_none() {
                return self.make(path, depth, element);
            }
        }
        self.insert(path, element, "[")
    }

    /// Creates the containers from `depth` of `path` on, with `element` in the innermost one.
    fn make(&mut self, path: &[&str], depth: usize, element: &str) -> Result<()> {
        let (above, new) = path.split_at(depth - 1);
        let style = Style::of(&self.text);
        let Some((name, inner)) = new.split_first() else { return Ok(()) };
        let mut value = style.array(element, path.len());
        for (at, name) in inner.iter().enumerate().rev() {
            value = style.object(name, &value, depth + at + 1);
        }
        let member = format!("{}: {value}", quoted(name));
        self.insert(above, &member, "{")
    }

    /// Appends `text` to the container under `path`.
    fn insert(&mut self, path: &[&str], text: &str, open: &str) -> Result<()> {
        let Some(at) = self.find(path)? else { return Ok(()) };
        let whole = self.text.get(at.clone()).unwrap_or_default();
        if !whole.starts_with(open) {
            let kind = if open == "[" { "an array" } else { "a JSON object" };
            return Err(Error::invalid(format!("{}: expected {kind}", path.join("."))));
        }
        let inside = whole.get(1..whole.len() - 1).unwrap_or_default();
        let end = at.start + 1 + inside.trim_end().len();
        if inside.trim().is_empty() {
            self.text.insert_str(at.start + 1, text);
            return Ok(());
        }
        // Uses the same space before it as before the first element.
        let space = &inside[..inside.len() - inside.trim_start().len()];
        let space = if space.is_empty() && Style::of(&self.text).is_wide { " " } else { space };
        self.text.insert_str(end, &format!(",{space}{text}"));
        Ok(())
    }

    /// Removes the elements for which `is_ours` is true from the array under `path`, and the
    /// containers that were created for them.
    pub(super) fn remove(&mut self, path: &[&str], is_ours: &dyn Fn(&str) -> bool) -> Result<()> {
        loop {
            let elements = self.elements(path)?;
            let Some(at) = elements.iter().rposition(|(_, element)| is_ours(element)) else {
                break;
            };
            let Some((range, _)) = elements.get(at) else { break };
            let (range, alone) = (range.clone(), elements.len() == 1);
            if !alone {
                self.cut(range, at == 0);
            } else if self.is_right_behind_bracket(&range) {
                self.text.replace_range(range, "");
            } else {
                return self.remove_made(path);
            }
        }
        Ok(())
    }

    /// Removes a container that was created for its content, and the containers created for it.
    fn remove_made(&mut self, path: &[&str]) -> Result<()> {
        let Some((name, above)) = path.split_last() else {
            let at = self.find(path)?.unwrap_or_default();
            self.text.replace_range(at, "{}");
            self.is_used_up = true;
            return Ok(());
        };
        let Some(container) = self.find(above)? else { return Ok(()) };
        let members = self.members(&container)?;
        let Some(at) = members.iter().position(|(key, _)| key == name) else { return Ok(()) };
        let Some((_, value)) = members.get(at) else { return Ok(()) };
        let before = match at.checked_sub(1).and_then(|before| members.get(before)) {
            Some((_, before)) => before.end,
            None => container.start + 1,
        };
        let start = before + self.text.get(before..value.start).map_or(0, key_start);
        let member = start..value.end;
        if members.len() > 1 {
            self.cut(member, at == 0);
        } else if self.is_right_behind_bracket(&member) {
            self.text.replace_range(member, "");
        } else {
            return self.remove_made(above);
        }
        Ok(())
    }

    /// Removes a part of a container with the comma and the space before it, or after it for the
    /// first part.
    fn cut(&mut self, part: Range<usize>, is_first: bool) {
        let cut = match is_first {
            true => {
                let rest = self.text.get(part.end..).unwrap_or_default();
                let rest = rest.trim_start().trim_start_matches(',').trim_start();
                part.start..self.text.len() - rest.len()
            }
            false => {
                let before = self.text.get(..part.start).unwrap_or_default();
                before.trim_end().trim_end_matches(',').len()..part.end
            }
        };
        self.text.replace_range(cut, "");
    }

    fn is_right_behind_bracket(&self, part: &Range<usize>) -> bool {
        self.text.get(..part.start).is_some_and(|before| before.ends_with(['[', '{']))
    }
}

/// Finds the key of a member, in the text between the member before and the value.
fn key_start(text: &str) -> usize {
    text.find('"').unwrap_or_default()
}

pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The layout of a document.
struct Style {
    indent: String,
    /// True if the document spans several lines.
    is_wide: bool,
}

impl Style {
    fn of(text: &str) -> Self {
        let indented = text.lines().find(|line| line.starts_with([' ', '\t']));
        let indent = indented.map(|line| line[..line.len() - line.trim_start().len()].to_owned());
        let is_wide = text.trim().contains('\n') || text.trim() == "{}";
        Self { indent: indent.unwrap_or_else(|| "  ".to_owned()), is_wide }
    }

    fn line(&self, depth: usize) -> String {
        if self.is_wide { format!("\n{}", self.indent.repeat(depth)) } else { " ".to_owned() }
    }

    /// An array with one element, whose lines are indented to `depth`.
    fn array(&self, element: &str, depth: usize) -> String {
        format!("[{}{element}{}]", self.line(depth + 1), self.line(depth))
    }

    /// An object with one member, whose lines are indented to `depth - 1`.
    fn object(&self, name: &str, value: &str, depth: usize) -> String {
        let (inner, outer) = (self.line(depth), self.line(depth - 1));
        format!("{{{inner}{}: {value}{outer}}}", quoted(name))
    }
}

/// The members of an object, in order.
struct Spans<'d>(Vec<(String, &'d RawValue)>);

impl<'de> Deserialize<'de> for Spans<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Spans<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Spans(members))
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                _: A,
            ) -> std::result::Result<Self::Value, A::Error> {
                Err(serde::de::Error::custom("an array"))
            }
        }
        from.deserialize_map(InOrder)
    }
}
