//! Edits of a context: appends messages, sets and unsets entries; all other content stays.
//!
//! ```json
//! {
//!   "append": {"agents": {"main": [{"role": "user", "content": "hi"}]}, "checkpoints": ["built"]},
//!   "set": {"scratchpad/todo": "t", "agents/main/state/mode": "plan", "files/src/a.rs": "fn a() {}"},
//!   "unset": ["scratchpad/old"]
//! }
//! ```
//!
//! So the cost of a turn is that of its additions, however long the conversation is. Values are
//! those of a state document: a string is its text, any other value keeps the exact bytes of its
//! JSON.

use serde::Deserialize;
use serde_json::value::RawValue;
use turntree::context::sections::{AGENTS, FILES, MESSAGES, is_conversation, is_of_agent};
use turntree::context::{Builder, Shape, agent_section, split};
use turntree::error::{Error, Result};
use turntree::object::ObjectSink;

use super::section_names::{check_part, check_section, refuse_source};
use super::state::{StateFields, array, fields, file_content, message_entry, put_file, value_item};
use crate::text::json;

/// The three kinds of edits.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edits<'a> {
    #[serde(borrow)]
    append: Option<&'a RawValue>,
    #[serde(borrow)]
    set: Option<&'a RawValue>,
    #[serde(default)]
    unset: Vec<String>,
}

/// Applies a document of edits to `builder`: first `unset`, then `set`, then `append`.
///
/// # Errors
/// `InvalidInput` naming the path of a value that its section does not accept, an unknown section,
/// or a missing entry to unset.
pub fn apply_edits(sink: &mut dyn ObjectSink, builder: &mut Builder, edits: &[u8]) -> Result<()> {
    let edits: Edits<'_> = serde_json::from_slice(edits).map_err(|source| {
        let message = "edits: expected an object with append, set and unset";
        json::refused(Error::invalid(message), source)
    })?;
    for path in &edits.unset {
        unset(sink, builder, path)?;
    }
    if let Some(entries) = edits.set {
        for (path, value) in fields("set", entries)? {
            set(sink, builder, &path, value)?;
        }
    }
    if let Some(lists) = edits.append {
        append(sink, builder, fields("append", lists)?)?;
    }
    Ok(())
}

fn append(sink: &mut dyn ObjectSink, builder: &mut Builder, lists: StateFields<'_>) -> Result<()> {
    for (name, value) in lists {
        if name == AGENTS {
            for (agent, value) in fields("append.agents", value)? {
                append_messages(sink, builder, &agent, value)?;
            }
            continue;
        }
        refuse_source("append", &name)?;
        check_section(sink, builder, "append", &name)?;
        if let Some(shape) = builder.shape(sink, &name)?.filter(|shape| *shape != Shape::List) {
            return Err(Error::invalid(format!(
                "append.{name}: the section is a {shape}, not a list: set changes its entries"
            )));
        }
        for value in array(&format!("append.{name}"), value)? {
            let item = value_item(sink, value)?;
            builder.push(sink, &name, item)?;
        }
    }
    Ok(())
}

fn append_messages(
    sink: &mut dyn ObjectSink,
    builder: &mut Builder,
    agent: &str,
    value: &RawValue,
) -> Result<()> {
    // Refuses a name that leads elsewhere.
    agent_section(agent, MESSAGES)?;
    let place = format!("append.agents.{agent}");
    if !value.get().starts_with('[') {
        return Err(Error::invalid(format!(
            r#"{place}: expected an array of messages, as in {{"agents": {{"{agent}": [{{"role": "user", "content": "hi"}}]}}}}"#
        )));
    }
    for (index, message) in array(&place, value)?.into_iter().enumerate() {
        let entry = message_entry(sink, &format!("{place}.{index}"), message)?;
        builder.push_message(sink, agent, &entry)?;
    }
    Ok(())
}

fn set(
    sink: &mut dyn ObjectSink,
    builder: &mut Builder,
    path: &str,
    value: &RawValue,
) -> Result<()> {
    let (section, key) = entry_path(sink, builder, "set", path)?;
    if section == FILES {
        let file = file_content(&format!("set.{path}"), value)?;
        return put_file(sink, builder, key, file);
    }
    let item = value_item(sink, value)?;
    builder.set(sink, section, key, Some(item))
}

fn unset(sink: &mut dyn ObjectSink, builder: &mut Builder, path: &str) -> Result<()> {
    let (section, key) = entry_path(sink, builder, "unset", path)?;
    if !builder.has_entry(sink, section, key)? {
        return Err(Error::invalid(format!("unset: '{path}' does not exist")));
    }
    builder.set(sink, section, key, None)
}

/// Splits the path of an entry of a map into its section and its key.
fn entry_path<'p>(
    sink: &dyn ObjectSink,
    builder: &Builder,
    place: &str,
    path: &'p str,
) -> Result<(&'p str, &'p str)> {
    let (section, key) = split(path);
    if section == AGENTS || section.matches('/').count() == 1 {
        return Err(Error::invalid(format!(
            "{place}: '{path}' is not the path of an entry: expected one as in agents/main/state/mode"
        )));
    }
    match is_of_agent(section) {
        true => check_part(sink, builder, place, section)?,
        false => {
            refuse_source(place, section)?;
            check_section(sink, builder, place, section)?;
        }
    }
    if is_conversation(section) {
        let message = format!("{place}: '{path}' is in a conversation: append adds to one");
        return Err(Error::invalid(message));
    }
    if key.is_empty() {
        return Err(Error::invalid(format!(
            "{place}: '{path}' names a whole section: expected an entry as in {section}/name; \
             state replaces sections, and null there drops one"
        )));
    }
    match builder.shape(sink, section)? {
        None | Some(Shape::Map) => Ok((section, key)),
        Some(shape) => Err(Error::invalid(format!(
            "{place}: section '{section}' is a {shape} and has no entries with names"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use turntree::context::{Context, FileEntry, FileMode, MessageEntry, Role};
    use turntree::object::{Kind, Memory, ObjectSource};

    use super::*;

    const BEFORE: &str = r#"{"set": {"scratchpad/a": "1", "scratchpad/b": {"n":  1}, "files/x": "x"},
        "append": {"agents": {"main": [{"role": "user", "content": "hi"}]}, "checkpoints": ["one"]}}"#;

    fn applied(documents: &[&str]) -> (Memory, Context) {
        let (mut objects, mut context) = (Memory::new(), Context::default());
        for document in documents {
            let mut builder = Builder::from(context);
            apply_edits(&mut objects, &mut builder, document.as_bytes()).unwrap();
            let tree = builder.write(&mut objects).unwrap();
            context = Context::open(&objects, &tree).unwrap();
        }
        (objects, context)
    }

    fn value(objects: &Memory, context: &Context, section: &str, key: &str) -> Option<String> {
        let item = context.map(objects, section).unwrap().get(objects, key.as_bytes()).unwrap()?;
        let bytes = objects.read_as(Kind::Blob, &item.link.id).unwrap();
        Some(String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[test]
    fn what_edits_do_not_name_stays() {
        let (objects, context) = applied(&[
            BEFORE,
            r#"{"append": {"agents": {"main": [{"role": "assistant"}], "b": [{"n": 1}]},
                    "checkpoints": [2]},
                "set": {"scratchpad/c": "3", "agents/main/state/mode": "plan",
                    "files/run": {"content": "run", "mode": "executable"}},
                "unset": ["scratchpad/a"]}"#,
        ]);
        let entry = |section, key| value(&objects, &context, section, key);
        assert_eq!(entry("scratchpad", "a"), None);
        assert_eq!(entry("scratchpad", "b").as_deref(), Some(r#"{"n":  1}"#));
        assert_eq!(entry("scratchpad", "c").as_deref(), Some("3"));
        assert_eq!(entry("agents/main/state", "mode").as_deref(), Some("plan"));
        assert_eq!(context.count(&objects, "checkpoints").unwrap(), 2);
        let messages = context.messages(&objects, "main").unwrap();
        let roles: Vec<Role> = messages
            .iter(&objects, 0..messages.len())
            .map(|item| MessageEntry::from_item(&item.unwrap()).unwrap().role)
            .collect();
        assert_eq!(roles, [Role::User, Role::Assistant]);
        assert_eq!(context.messages(&objects, "b").unwrap().len(), 1);
        let files = context.map(&objects, "files").unwrap();
        let file = FileEntry::from_item(&files.get(&objects, b"run").unwrap().unwrap()).unwrap();
        assert_eq!((file.mode, files.len()), (FileMode::Executable, 2));
    }

    #[test]
    fn edits_that_do_not_fit_are_refused_by_place() {
        for (document, place) in [
            ("[]", "edits: expected an object"),
            (r#"{"appendd": {}}"#, "edits: expected an object"),
            (r#"{"append": []}"#, "append: expected a JSON object"),
            (r#"{"append": {"messages": []}}"#, r#"expected {"agents": {"main": [...]}}"#),
            (
                r#"{"append": {"agents": {"main": {"messages": []}}}}"#,
                r#"as in {"agents": {"main": ["#,
            ),
            (
                r#"{"append": {"agents": {"main": [1]}}}"#,
                "append.agents.main.0: expected a message",
            ),
            (r#"{"append": {"agents": {"a/b": []}}}"#, "'a/b'"),
            (r#"{"append": {"scratchpad": ["x"]}}"#, "append.scratchpad: the section is a map"),
            (r#"{"append": {"source": ["x"]}}"#, "append: 'source'"),
            (r#"{"append": {"checkpoint": ["x"]}}"#, "did you mean 'checkpoints'?"),
            (r#"{"set": {"scratchpad": {"a": 1}}}"#, "expected an entry as in scratchpad/name"),
            (r#"{"set": {"scratchpadd/a": 1}}"#, "did you mean 'scratchpad'?"),
            (r#"{"set": {"agents/main": 1}}"#, "expected one as in agents/main/state/mode"),
            (r#"{"set": {"agents/main/messages/0": 1}}"#, "append adds to one"),
            (r#"{"set": {"agents/main/stat/x": 1}}"#, "did you mean 'state'?"),
            (r#"{"set": {"checkpoints/0": 1}}"#, "section 'checkpoints' is a list"),
            (r#"{"set": {"files/a": {"content": "x", "mode": "odd"}}}"#, "set.files/a: expected"),
            (r#"{"set": {"source/a": "x"}}"#, "set: 'source'"),
            (r#"{"unset": ["scratchpad/nothing"]}"#, "unset: 'scratchpad/nothing' does not exist"),
            (r#"{"unset": ["files"]}"#, "null there drops one"),
        ] {
            let (mut objects, context) = applied(&[BEFORE]);
            let mut builder = Builder::from(context);
            let error = apply_edits(&mut objects, &mut builder, document.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), turntree::ErrorKind::InvalidInput, "{document}");
            assert!(error.to_string().contains(place), "{document}: {error}");
        }
    }
}
