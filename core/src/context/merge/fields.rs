//! Merges JSON objects by field, in the bytes of ours: unchanged fields are never rewritten.
//!
//! ```text
//! base    {"title": "plan", "done": false}
//! ours    {"title": "the plan", "done": false}
//! theirs  {"title": "plan", "done": true, "by": "me"}
//! merged  {"title": "the plan", "done": true, "by": "me"}
//! ```
//!
//! Arrays and other values are atomic. Nested objects are merged likewise, down to a maximum depth,
//! beyond which they are atomic too. An object with a repeated field name is atomic.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Maximum depth of nested objects that are merged by field.
const MAX_DEPTH: usize = 16;

/// A merged object of three versions.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MergedFields {
    /// The object; conflicting fields are as in ours.
    pub(super) json: String,
    /// Fields that both sides changed differently: names joined by dots.
    pub(super) conflicts: Vec<String>,
}

/// Merges three versions of an object; without a base every field counts as added. Top-level fields
/// in `decided` get the given value. Returns `None` if a version is not an object, or repeats a
/// field name.
pub(super) fn merge(
    base: Option<&str>,
    ours: &str,
    theirs: &str,
    decided: &[(&str, String)],
) -> Option<MergedFields> {
    let mut conflicts = Vec::new();
    let json = merge_at(base, ours, theirs, decided, &mut Vec::new(), &mut conflicts)?;
    Some(MergedFields { json, conflicts })
}

fn merge_at<'a>(
    base: Option<&'a str>,
    ours: &'a str,
    theirs: &'a str,
    decided: &[(&str, String)],
    place: &mut Vec<String>,
    conflicts: &mut Vec<String>,
) -> Option<String> {
    if place.len() > MAX_DEPTH {
        return None;
    }
    let base = match base {
        Some(base) => JsonObject::parse(base)?,
        None => JsonObject::default(),
    };
    let (ours, theirs) = (JsonObject::parse(ours)?, JsonObject::parse(theirs)?);
    let mut writer = FieldWriter::new(&ours);
    for field in &ours.fields {
        let (own, old) = (field.value, base.value(&field.name));
        let other = theirs.value(&field.name);
        if let Some((_, value)) = decided.iter().find(|(name, _)| *name == field.name) {
            writer.write_field(field, value);
            continue;
        }
        if is_same_value(other, old) || is_same_value(other, Some(own)) {
            writer.write_field(field, own);
            continue;
        }
        match other {
            None if is_same_value(Some(own), old) => {}
            Some(other) if is_same_value(Some(own), old) => writer.write_field(field, other),
            _ => {
                place.push(field.name.clone());
                let found = conflicts.len();
                let merged =
                    other.and_then(|other| merge_at(old, own, other, &[], place, conflicts));
                if merged.is_none() {
                    conflicts.truncate(found);
                    conflicts.push(place.join("."));
                }
                place.pop();
                writer.write_field(field, merged.as_deref().unwrap_or(own));
            }
        }
    }
    for field in theirs.fields.iter().filter(|field| ours.value(&field.name).is_none()) {
        match base.value(&field.name) {
            None => writer.add(field.written),
            Some(old) if is_same_value(Some(field.value), Some(old)) => {}
            Some(_) => {
                place.push(field.name.clone());
                conflicts.push(place.join("."));
                place.pop();
            }
        }
    }
    Some(writer.finish())
}

/// Returns true if two values are equal apart from white space.
fn is_same_value(a: Option<&str>, b: Option<&str>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a == b || tokens(a).eq(tokens(b)),
        (None, None) => true,
        _ => false,
    }
}

/// Returns the bytes of JSON without white space between tokens.
fn tokens(json: &str) -> impl Iterator<Item = u8> + '_ {
    let (mut in_string, mut escaped) = (false, false);
    json.bytes().filter(move |byte| {
        if in_string {
            in_string = escaped || *byte != b'"';
            escaped = *byte == b'\\' && !escaped;
            return true;
        }
        in_string = *byte == b'"';
        !byte.is_ascii_whitespace()
    })
}

/// An object as written.
#[derive(Default)]
struct JsonObject<'a> {
    fields: Vec<Field<'a>>,
    places: HashMap<String, usize>,
    /// The text after the last field, or after the opening brace of an object without fields.
    end: &'a str,
}

struct Field<'a> {
    name: String,
    value: &'a str,
    /// The text between the previous field, or the opening brace, and this one.
    lead: &'a str,
    /// The name as written, up to the value.
    head: &'a str,
    /// The whole field.
    written: &'a str,
}

impl<'a> JsonObject<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let values = FieldIndex::read(text)?;
        let open = text.find('{')? + 1;
        let mut object = Self::default();
        let mut at = open;
        for (name, value) in values {
            let range = range_in(text, value.get())?;
            let between = text.get(at..range.start)?;
            let quote = between.find('"')?;
            let (lead, head) = between.split_at(quote);
            let written = text.get(at + quote..range.end)?;
            let place = object.fields.len();
            if object.places.insert(name.clone(), place).is_some() {
                return None;
            }
            object.fields.push(Field { name, value: value.get(), lead, head, written });
            at = range.end;
        }
        object.end = text.get(at..)?;
        Some(object)
    }

    fn value(&self, name: &str) -> Option<&'a str> {
        let place = self.places.get(name)?;
        self.fields.get(*place).map(|field| field.value)
    }
}

/// Returns the range of `part` in `text`, from which it was parsed.
fn range_in(text: &str, part: &str) -> Option<Range<usize>> {
    let start = part.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    let end = start.checked_add(part.len())?;
    (end <= text.len()).then_some(start..end)
}

/// Writes an object in the format of another object.
struct FieldWriter<'a> {
    json: String,
    is_empty: bool,
    /// The separators before a first field, and before any other.
    leads: (&'a str, String),
    end: &'a str,
}

impl<'a> FieldWriter<'a> {
    fn new(like: &JsonObject<'a>) -> Self {
        let first = like.fields.first().map_or("", |field| field.lead);
        let next = match like.fields.get(1) {
            Some(field) => field.lead.to_owned(),
            None if first.is_empty() => ", ".to_owned(),
            None => format!(",{first}"),
        };
        Self { json: "{".to_owned(), is_empty: true, leads: (first, next), end: like.end }
    }

    /// Writes a field of the object, with its own or another value.
    fn write_field(&mut self, field: &Field<'_>, value: &str) {
        // A field that was first has no comma before it, and a field that becomes first needs none.
        let lead = if !self.is_empty && field.lead.contains(',') { Some(field.lead) } else { None };
        self.write_lead(lead);
        self.json.push_str(field.head);
        self.json.push_str(value);
    }

    /// Writes a field of another object.
    fn add(&mut self, written: &str) {
        self.write_lead(None);
        self.json.push_str(written);
    }

    fn write_lead(&mut self, lead: Option<&str>) {
        let usual = if self.is_empty { self.leads.0 } else { &self.leads.1 };
        self.json.push_str(lead.unwrap_or(usual));
        self.is_empty = false;
    }

    fn finish(mut self) -> String {
        self.json.push_str(self.end);
        self.json
    }
}

/// Reads names and values of an object in their order.
struct FieldIndex;

impl FieldIndex {
    fn read(text: &str) -> Option<Vec<(String, &RawValue)>> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let fields = reader.deserialize_map(Self).ok()?;
        reader.end().ok()?;
        Some(fields)
    }
}

impl<'de> Visitor<'de> for FieldIndex {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn merged(base: &str, ours: &str, theirs: &str) -> (String, Vec<String>) {
        let MergedFields { json, conflicts } = merge(Some(base), ours, theirs, &[]).unwrap();
        (json, conflicts)
    }

    #[test]
    fn fields_come_together_in_the_bytes_of_ours() {
        let base = r#"{"a": 1, "b": {"x": 1.50, "y": [1]}, "c": 3}"#;
        let ours = r#"{"a": 1, "b": {"x": 1.50,  "y": [1, 2]}, "c": 3}"#;
        let theirs = r#"{"c":3,"b":{"x":2e0,"y":[1],"z":true},"new":"n"}"#;
        let (json, conflicts) = merged(base, ours, theirs);
        assert_eq!(json, r#"{"b": {"x": 2e0,  "y": [1, 2],  "z":true}, "c": 3, "new":"n"}"#);
        assert!(conflicts.is_empty());
        assert_eq!(merged("{}", "{ }", r#"{"a":1,"b":2}"#).0, r#"{"a":1, "b":2 }"#);
        let lines = "{\n  \"a\": 1\n}\n";
        assert_eq!(merged(lines, lines, "{\"a\":1,\"b\":2}").0, "{\n  \"a\": 1,\n  \"b\":2\n}\n");
        assert_eq!(merged(r#"{"a":1}"#, r#"{"a":1}"#, "{}").0, "{}");
    }

    #[test]
    fn a_field_that_both_changed_is_named_and_stays_as_in_ours() {
        let (json, conflicts) = merged(
            r#"{"a":1,"b":{"c":1},"gone":1,"d":[1]}"#,
            r#"{"a":2,"b":{"c":2},"d":[1,2],"both":1}"#,
            r#"{"a":3,"b":{"c":3},"gone":2,"d":[2],"both":2}"#,
        );
        assert_eq!(json, r#"{"a":2,"b":{"c":2},"d":[1,2],"both":1}"#);
        assert_eq!(conflicts, ["a", "b.c", "d", "both", "gone"]);
    }

    #[test]
    fn what_is_no_object_is_one_value() {
        for other in ["[1]", "1", "", "{", r#"{"a":1,"a":2}"#, r#"{"a":1} x"#] {
            assert_eq!(merge(Some("{}"), "{}", other, &[]), None, "{other}");
        }
        let deep = |value: &str| format!("{}{value}{}", r#"{"a":"#.repeat(100), "}".repeat(100));
        let found = merge(Some(&deep("1")), &deep("2"), &deep("3"), &[]).unwrap();
        assert_eq!((found.json, found.conflicts.len()), (deep("2"), 1));
    }

    type Model = BTreeMap<String, u8>;

    turntree_properties::properties! {
        #[test]
        fn every_field_is_that_of_the_plain_maps(
            models in prop::array::uniform3(prop::collection::btree_map("[a-e]", 0_u8..3, 0..5)),
            spaced in any::<bool>(),
        ) {
            let written = |model: &Model| {
                if spaced { serde_json::to_string_pretty(model) } else { serde_json::to_string(model) }
            };
            let [b, o, t] = models.each_ref().map(|model| written(model).unwrap());
            let (json, conflicts) = merged(&b, &o, &t);
            let found: Value = serde_json::from_str(&json).unwrap();
            let [base, ours, theirs] = models;
            for name in ["a", "b", "c", "d", "e"] {
                let [b, o, t] = [&base, &ours, &theirs].map(|model| model.get(name).copied());
                let expected = if b == o { t } else { o };
                prop_assert_eq!(found.get(name).cloned(), expected.map(Value::from), "{}", &json);
                let differs = o != t && b != o && b != t;
                prop_assert_eq!(conflicts.iter().any(|c| c == name), differs);
            }
        }
    }
}
