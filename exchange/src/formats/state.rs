//! A state document: the JSON that a framework passes once a turn, section by section.
//!
//! ```json
//! {
//!   "agents": {"main": {"messages": [{"role": "user", "content": "hi"}], "state": {"mode": "plan"}}},
//!   "scratchpad": {"note": {"content": "look at the tests"}, "plain": "text"},
//!   "files": {"src/a.rs": "fn main() {}", "run.sh": {"content": "#!/bin/sh", "mode": "executable"}}
//! }
//! ```
//!
//! A section that the document names is replaced, `null` drops it, and all others carry over from the
//! parent; `apply_edits` adds to sections instead, and so does a scratchpad or a memory that is exactly
//! `{"set": {...}}`, `{"remove": [...]}` or both: it changes single entries. Objects become
//! maps, arrays become lists. A string becomes its text; any other value keeps the exact bytes of its
//! JSON. Section names are those of `section_names`.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use turntree::context::sections::{AGENTS, FILES, MESSAGES, facts};
use turntree::context::{Builder, FileMode, JSON_MEDIA, MessageEntry, Role, Shape, agent_section};
use turntree::error::{Error, Result};
use turntree::object::{FileRefusal, Kind, ObjectSink};
use turntree::tree::{Item, Link};

use super::section_names::{check_part, check_section, refuse_source};
use crate::text::json;

pub(super) type StateFields<'a> = BTreeMap<String, &'a RawValue>;

/// Applies a state document to `builder`.
///
/// # Errors
/// `InvalidInput` naming the line and column of bad JSON, or the path of a value that its section
/// does not accept. Nothing is durable before the transaction ends, so no document is half applied.
pub fn apply_state(sink: &mut dyn ObjectSink, builder: &mut Builder, json: &[u8]) -> Result<()> {
    let document: &RawValue = serde_json::from_slice(json).map_err(|source| {
        let (line, column) = (source.line(), source.column());
        let place = format!("state, line {line}, column {column}");
        json::refused(Error::invalid(format!("{place}: expected a JSON object")), source)
    })?;
    for (name, value) in fields("state", document)? {
        match name.as_str() {
            AGENTS => {
                for (agent, value) in fields(AGENTS, value)? {
                    apply_agent(sink, builder, &agent, value)?;
                }
            }
            FILES => apply_files(sink, builder, value)?,
            _ => {
                check_section_name("state", &name)?;
                check_section(sink, builder, "state", &name)?;
                if let Some(change) = EntryChange::of(&name, value) {
                    change.apply(sink, builder, &name)?;
                    continue;
                }
                apply_section(sink, builder, &name, value)?;
            }
        }
    }
    Ok(())
}

fn apply_agent(
    sink: &mut dyn ObjectSink,
    builder: &mut Builder,
    agent: &str,
    value: &RawValue,
) -> Result<()> {
    let place = format!("agents.{agent}");
    for (part, value) in fields(&place, value)? {
        check_section_name(&place, &part)?;
        let section = agent_section(agent, &part)?;
        check_part(sink, builder, &place, &section)?;
        if part == MESSAGES && value.get() != "null" {
            apply_messages(sink, builder, &section, value)?;
        } else {
            apply_section(sink, builder, &section, value)?;
        }
    }
    Ok(())
}

/// Refuses the sections that only an import can write, and names that would be inside of the
/// sections of an agent.
fn check_section_name(place: &str, name: &str) -> Result<()> {
    if place == "state" {
        refuse_source(place, name)?;
    }
    if name.is_empty() || name.contains('/') {
        return Err(Error::invalid(format!(
            "{place}: '{name}' cannot name a section: expected at least one byte and no '/'"
        )));
    }
    Ok(())
}

/// Replaces a conversation from the first message that differs, so a growing one costs its growth.
fn apply_messages(
    sink: &mut dyn ObjectSink,
    builder: &mut Builder,
    section: &str,
    value: &RawValue,
) -> Result<()> {
    let mut items = Vec::new();
    for (index, message) in array(section, value)?.into_iter().enumerate() {
        items.push(message_entry(sink, &format!("{section}/{index}"), message)?.to_item()?);
    }
    if items.is_empty() {
        return builder.set_empty(sink, section, Shape::List);
    }
    builder.set_list(sink, section, items)
}

/// Writes a message, the exact bytes of its JSON, and returns its entry.
pub(super) fn message_entry(
    sink: &mut dyn ObjectSink,
    place: &str,
    message: &RawValue,
) -> Result<MessageEntry> {
    #[derive(Deserialize)]
    struct Spoken {
        role: Option<String>,
    }
    let spoken: Spoken = serde_json::from_str(message.get()).map_err(|source| {
        json::refused(Error::invalid(format!("{place}: expected a message object")), source)
    })?;
    let role = spoken.role.as_deref().map_or(Role::Other, Role::from_name);
    let blob = sink.write(Kind::Blob, raw(message))?;
    Ok(MessageEntry::new(blob, role, JSON_MEDIA))
}

fn apply_files(sink: &mut dyn ObjectSink, builder: &mut Builder, value: &RawValue) -> Result<()> {
    if value.get() == "null" {
        return builder.clear(sink, FILES);
    }
    builder.set_empty(sink, FILES, Shape::Map)?;
    for (path, value) in fields(FILES, value)? {
        let file = file_content(&format!("files.{path}"), value)?;
        put_file(sink, builder, &path, file)?;
    }
    Ok(())
}

/// Puts a file unchanged, or fails: a read must not return other content.
pub(super) fn put_file(
    sink: &mut dyn ObjectSink,
    builder: &mut Builder,
    path: &str,
    file: (FileMode, Bytes),
) -> Result<()> {
    if sink.refuses(&file.1)? == Some(FileRefusal::Masked) {
        return Err(Error::invalid(format!("files.{path}: {}", FileRefusal::Masked)));
    }
    builder.set_file(sink, path, Some(file))
}

/// A change of single entries in the place of a section.
#[derive(Default)]
struct EntryChange<'a> {
    set: StateFields<'a>,
    remove: Vec<String>,
}

impl<'a> EntryChange<'a> {
    /// Returns the change that a section describes, if it is one: an object with only an object
    /// `set` and an array of names `remove`.
    fn of(section: &str, value: &'a RawValue) -> Option<Self> {
        if !facts(section).is_shared {
            return None;
        }
        let fields: StateFields<'a> = serde_json::from_str(value.get()).ok()?;
        let mut change = Self::default();
        for (name, value) in &fields {
            match name.as_str() {
                "set" => change.set = serde_json::from_str(value.get()).ok()?,
                "remove" => change.remove = serde_json::from_str(value.get()).ok()?,
                _ => return None,
            }
        }
        (!fields.is_empty()).then_some(change)
    }

    fn apply(self, sink: &mut dyn ObjectSink, builder: &mut Builder, section: &str) -> Result<()> {
        let shape = builder.shape(sink, section)?.unwrap_or(Shape::Map);
        if shape != Shape::Map {
            return Err(Error::invalid(format!(
                "{section}: the section is a {shape} and has no entries with names to set or remove"
            )));
        }
        for key in &self.remove {
            if !builder.has_entry(sink, section, key)? {
                return Err(Error::invalid(format!("{section}.remove: '{key}' does not exist")));
            }
            builder.set(sink, section, key, None)?;
        }
        for (key, value) in self.set {
            let item = value_item(sink, value)?;
            builder.set(sink, section, &key, Some(item))?;
        }
        Ok(())
    }
}

/// Parses a file: its text, or an object with its content and mode.
pub(super) fn file_content(place: &str, value: &RawValue) -> Result<(FileMode, Bytes)> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        content: String,
        mode: Option<String>,
    }
    if let Some(content) = text(value) {
        return Ok((FileMode::Regular, content));
    }
    let expected = || {
        Error::invalid(format!(
            "{place}: expected a string, or an object with content and mode (regular, executable, symlink)"
        ))
    };
    let file: File =
        serde_json::from_str(value.get()).map_err(|source| json::refused(expected(), source))?;
    let mode = match file.mode.as_deref() {
        None | Some("regular") => FileMode::Regular,
        Some("executable") => FileMode::Executable,
        Some("symlink") => FileMode::Symlink,
        Some(_) => return Err(expected()),
    };
    Ok((mode, file.content.into()))
}

fn apply_section(
    sink: &mut dyn ObjectSink,
    builder: &mut Builder,
    section: &str,
    value: &RawValue,
) -> Result<()> {
    match value.get().as_bytes().first() {
        Some(b'n') => builder.clear(sink, section),
        Some(b'{') => {
            builder.set_empty(sink, section, Shape::Map)?;
            for (key, value) in fields(section, value)? {
                let item = value_item(sink, value)?;
                builder.set(sink, section, &key, Some(item))?;
            }
            Ok(())
        }
        Some(b'[') => {
            builder.set_empty(sink, section, Shape::List)?;
            for value in array(section, value)? {
                let item = value_item(sink, value)?;
                builder.push(sink, section, item)?;
            }
            Ok(())
        }
        _ => {
            let blob = value_item(sink, value)?.link.id;
            builder.set_blob(sink, section, blob)
        }
    }
}

/// Stores a value as a blob: the text of a string, the exact JSON of anything else.
pub(super) fn value_item(sink: &mut dyn ObjectSink, value: &RawValue) -> Result<Item> {
    let (bytes, media) = match text(value) {
        Some(text) => (text, Bytes::new()),
        None => (raw(value), Bytes::from_static(JSON_MEDIA.as_bytes())),
    };
    let id = sink.write(Kind::Blob, bytes)?;
    Ok(Item { link: Link { kind: Kind::Blob, id }, meta: media })
}

fn text(value: &RawValue) -> Option<Bytes> {
    serde_json::from_str::<String>(value.get()).ok().map(Bytes::from)
}

fn raw(value: &RawValue) -> Bytes {
    Bytes::copy_from_slice(value.get().as_bytes())
}

pub(super) fn fields<'a>(place: &str, value: &'a RawValue) -> Result<StateFields<'a>> {
    serde_json::from_str(value.get()).map_err(|source| {
        json::refused(Error::invalid(format!("{place}: expected a JSON object")), source)
    })
}

pub(super) fn array<'a>(place: &str, value: &'a RawValue) -> Result<Vec<&'a RawValue>> {
    serde_json::from_str(value.get()).map_err(|source| {
        json::refused(Error::invalid(format!("{place}: expected a JSON array")), source)
    })
}

#[cfg(test)]
mod tests {
    use turntree::context::{Context, FileEntry};
    use turntree::object::{Memory, ObjectSource};

    use super::*;

    fn applied(documents: &[&str]) -> (Memory, Context) {
        let (mut objects, mut builder) = (Memory::new(), Builder::new());
        for document in documents {
            apply_state(&mut objects, &mut builder, document.as_bytes()).unwrap();
            let tree = builder.write(&mut objects).unwrap();
            builder = Builder::from(Context::open(&objects, &tree).unwrap());
        }
        let tree = builder.write(&mut objects).unwrap();
        let context = Context::open(&objects, &tree).unwrap();
        (objects, context)
    }

    fn value(objects: &Memory, context: &Context, section: &str, key: &str) -> Option<Bytes> {
        let item = context.map(objects, section).unwrap().get(objects, key.as_bytes()).unwrap()?;
        Some(objects.read_as(Kind::Blob, &item.link.id).unwrap())
    }

    #[test]
    fn a_named_section_is_replaced_and_the_others_carry_over() {
        let (objects, context) = applied(&[
            r#"{"scratchpad": {"a": {"content":  1}, "b": "text"}, "memory": {"m": 1}}"#,
            r#"{"scratchpad": {"c": [2]}, "x-framework": [1, "two"], "x-note": "x"}"#,
        ]);
        assert_eq!(value(&objects, &context, "scratchpad", "a"), None);
        assert_eq!(value(&objects, &context, "scratchpad", "c").unwrap(), "[2]");
        assert_eq!(value(&objects, &context, "memory", "m").unwrap(), "1");
        assert_eq!(context.count(&objects, "x-framework").unwrap(), 2);
        assert_eq!(context.count(&objects, "x-note").unwrap(), 1);
    }

    #[test]
    fn a_change_of_entries_leaves_the_others_and_anything_else_is_a_section() {
        const BEFORE: &str = r#"{"scratchpad": {"a": "1", "b": {"n":  1}}, "memory": {"m": 1}}"#;
        let (objects, context) = applied(&[
            BEFORE,
            r#"{"scratchpad": {"set": {"c": {"n":  3}, "b": "2"}, "remove": ["a"]}}"#,
            r#"{"memory": {"set": {"set": {"x": 1}}}}"#,
            r#"{"scratchpad": {"set": {}}, "goals": {"set": {"a": 1}}}"#,
        ]);
        let entry = |section, key| {
            value(&objects, &context, section, key).map(|it| String::from_utf8(it.into()).unwrap())
        };
        assert_eq!(entry("scratchpad", "a"), None);
        assert_eq!(entry("scratchpad", "b").as_deref(), Some("2"));
        assert_eq!(entry("scratchpad", "c").as_deref(), Some(r#"{"n":  3}"#));
        assert_eq!(context.count(&objects, "scratchpad").unwrap(), 2);
        assert_eq!(entry("memory", "set").as_deref(), Some(r#"{"x": 1}"#), "an entry called set");
        assert_eq!(entry("memory", "m").as_deref(), Some("1"));
        assert_eq!(entry("goals", "set").as_deref(), Some(r#"{"a": 1}"#), "not a shared section");
        for section in [
            r#"{"set": "text"}"#,
            r#"{"remove": "text"}"#,
            r#"{"remove": [1]}"#,
            r#"{"set": {"a": 1}, "c": 1}"#,
            "{}",
        ] {
            let document = format!(r#"{{"scratchpad": {section}}}"#);
            let (objects, context) = applied(&[BEFORE, &document]);
            assert_eq!(value(&objects, &context, "scratchpad", "a"), None, "{section} replaces");
        }
    }

    #[test]
    fn values_keep_their_bytes_and_strings_become_text() {
        let (objects, context) =
            applied(&[r#"{"scratchpad": {"a": {"content":  1.50}, "b": "zeile\n"}}"#]);
        assert_eq!(value(&objects, &context, "scratchpad", "a").unwrap(), r#"{"content":  1.50}"#);
        assert_eq!(value(&objects, &context, "scratchpad", "b").unwrap(), "zeile\n");
    }

    #[test]
    fn a_conversation_grows_shrinks_and_is_rewritten() {
        let one = r#"{"agents":{"main":{"messages":[{"role":"user"}]}}}"#;
        let three = r#"{"agents":{"main":{"messages":[{"role":"user"},{"role":"tool"},{"n":1}]}}}"#;
        for documents in [&[one, three][..], &[three, one, three], &[three]] {
            let (objects, context) = applied(documents);
            let messages = context.messages(&objects, "main").unwrap();
            let roles: Vec<Role> = messages
                .iter(&objects, 0..3)
                .map(|item| MessageEntry::from_item(&item.unwrap()).unwrap().role)
                .collect();
            assert_eq!(roles, [Role::User, Role::Tool, Role::Other]);
        }
        let (objects, context) = applied(&[three, r#"{"agents":{"main":{"messages":[]}}}"#]);
        assert_eq!(context.messages(&objects, "main").unwrap().len(), 0);
    }

    #[test]
    fn files_have_modes_and_null_drops_a_section() {
        let (objects, context) = applied(&[
            r#"{"memory":{"a":1},"files":{"a":"x","b":{"content":"y","mode":"executable"}}}"#,
            r#"{"memory":null}"#,
        ]);
        let files = context.map(&objects, "files").unwrap();
        let file = FileEntry::from_item(&files.get(&objects, b"b").unwrap().unwrap()).unwrap();
        assert_eq!((file.mode, file.size), (FileMode::Executable, 1));
        assert_eq!(context.section(&objects, "memory").unwrap(), None);
    }

    #[test]
    fn bad_documents_are_named_by_place() {
        for (document, place) in [
            ("{\n  \"a\": tru }", "line 2, column 11"),
            ("[]", "state: expected a JSON object"),
            (r#"{"agents":[]}"#, "agents: expected"),
            (r#"{"agents":{"main":{"messages":{}}}}"#, "agents/main/messages: expected"),
            (r#"{"agents":{"main":{"messages":[1]}}}"#, "agents/main/messages/0"),
            (r#"{"agents":{"a/b":{"state":{}}}}"#, "'a/b'"),
            (r#"{"files":{"a":{"content":"x","mode":"odd"}}}"#, "files.a"),
            (r#"{"scratchpad":{"":1}}"#, "a key of scratchpad has 0 bytes"),
            (r#"{"agents/main/messages":{}}"#, "state: 'agents/main/messages' cannot name"),
            (r#"{"agents":{"main":{"x/messages":[]}}}"#, "agents.main: 'x/messages' cannot name"),
            (r#"{"scratchpad":{"remove":["a"]}}"#, "scratchpad.remove: 'a' does not exist"),
            (r#"{"source":["x"]}"#, "state: 'source'"),
            (r#"{"scratchpadd":{}}"#, "unknown section 'scratchpadd': did you mean 'scratchpad'?"),
            (r#"{"todo":{}}"#, "unknown section 'todo': sections are agents, files, scratchpad,"),
            (r#"{"messages":[]}"#, r#"expected {"agents": {"main": {"messages": [...]}}}"#),
            (
                r#"{"agents":{"main":{"mesages":[]}}}"#,
                "unknown part 'mesages': did you mean 'messages'",
            ),
        ] {
            let mut builder = Builder::new();
            let error = apply_state(&mut Memory::new(), &mut builder, document.as_bytes());
            let error = error.unwrap_err();
            assert_eq!(error.kind(), turntree::ErrorKind::InvalidInput, "{document}");
            assert!(error.to_string().contains(place), "{document}: {error}");
        }
    }
}
