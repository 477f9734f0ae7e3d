//! Reads the last turns of a history for the spiral detection.

use std::collections::BTreeMap;

use serde_json::Value;
use turntree::context::sections::{FILES, is_conversation};
use turntree::context::{FileEntry, MessageEntry, changed_sections, diff_section};
use turntree::error::{ErrorKind, Result};
use turntree::object::{Kind, ObjectId, ObjectSource, Trigger};
use turntree::repo::{LESSONS_CHANGED, LogEntry, Repository};

use super::{SPIRAL_TURNS, SpiralStep};
use crate::formats::view;
use crate::import::turns::{ROOT, fact};
use crate::model::view::ToolCall;

/// Names of arguments that hold a path.
const PATHS: [&str; 7] =
    ["file_path", "path", "filePath", "file", "filename", "notebook_path", "target_file"];

/// Returns the last turns of the line of `tip`, oldest first, at most [`SPIRAL_TURNS`]. Stops at a
/// rollback, a merge, a compaction and at expired content. Skips turns that only change lessons.
///
/// # Errors
/// `NotFound` or `Corrupt`, with the id of the unreadable object.
pub fn read_steps(repo: &Repository, tip: &ObjectId) -> Result<Vec<SpiralStep>> {
    let mut steps = Vec::new();
    for entry in repo.history(&[*tip], &[])?.first_parent().take(SPIRAL_TURNS) {
        let entry = entry?;
        if is_restart(entry.commit.trigger) {
            break;
        }
        if entry.commit.metadata.contains_key(LESSONS_CHANGED) {
            continue;
        }
        match step(repo, &entry) {
            Ok(step) => steps.push(step),
            Err(error) if error.kind() == ErrorKind::Expired => break,
            Err(error) => return Err(error),
        }
    }
    steps.reverse();
    Ok(steps)
}

fn is_restart(trigger: Trigger) -> bool {
    matches!(trigger, Trigger::Rollback | Trigger::Merge | Trigger::Compaction)
}

fn step(repo: &Repository, entry: &LogEntry) -> Result<SpiralStep> {
    let source = repo.store();
    let before = entry.parents.first().map(|parent| repo.context(parent)).transpose()?;
    let after = repo.context(&entry.id)?;
    let (mut calls, mut changed) = (Vec::new(), BTreeMap::new());
    let (mut sizes, mut is_prompt) = (BTreeMap::new(), false);
    let before = before.unwrap_or_default().sections(source)?;
    let sections = after.sections(source)?;
    for (section, old, new) in changed_sections(&before, &sections) {
        if section == FILES {
            for change in diff_section(source, old, new)? {
                let content = change.new.as_ref().map(FileEntry::from_item).transpose()?;
                sizes.extend(content.as_ref().map(|file| (change.key.clone(), file.size)));
                changed.insert(change.key, content.map(|file| file.blob));
            }
        } else if is_conversation(section) {
            let changes = diff_section(source, old, new)?;
            for item in changes.iter().filter_map(|change| change.new.as_ref()) {
                let entry = MessageEntry::from_item(item)?;
                let bytes = source.read_as(Kind::Blob, &entry.blob)?;
                let view = view(&entry.media, &bytes);
                is_prompt |= view.is_prompt();
                calls.extend(view.tool_calls);
            }
        }
    }
    let files = sections.get(FILES).map(|section| section.id);
    let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
    let inputs: Vec<String> = calls.iter().map(|call| sort_keys(&call.input)).collect();
    let called = !calls.is_empty();
    let directory = match fact(source, &after, ROOT)? {
        Some(root) => Some(root),
        None => fact(source, &after, "cwd")?,
    };
    Ok(SpiralStep {
        turn: entry.commit.turn,
        tool: called.then(|| names.join("+")),
        arguments: called
            .then(|| ObjectId::of(Kind::Blob, inputs.join("\n").as_bytes()).to_string()),
        artifact: files.map(|id| id.to_string()),
        path: common_path(&calls).map(|path| relative_path(&path, directory.as_deref())),
        files,
        changed,
        sizes,
        is_prompt,
    })
}

/// Returns a path relative to the root of file paths.
fn relative_path(path: &str, directory: Option<&str>) -> String {
    let below = directory.and_then(|directory| path.strip_prefix(directory)?.strip_prefix('/'));
    below.unwrap_or(path).to_owned()
}

/// Returns the file that all calls are about, if it is a single one.
fn common_path(calls: &[ToolCall]) -> Option<String> {
    let mut paths = calls.iter().map(path);
    let first = paths.next()??;
    paths.all(|path| path.as_ref() == Some(&first)).then_some(first)
}

fn path(call: &ToolCall) -> Option<String> {
    let input: Value = serde_json::from_str(&call.input).ok()?;
    PATHS.iter().find_map(|name| input.get(name)?.as_str()).map(str::to_owned)
}

/// Normalizes the order of the keys of JSON arguments.
fn sort_keys(input: &str) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(input) else { return input.to_owned() };
    value.sort_all_objects();
    value.to_string()
}
