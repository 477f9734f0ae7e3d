//! Changes between two contexts: filtered by paths, and as JSON records.

use std::collections::BTreeMap;

use turntree::Error;
use turntree::context::sections::{FILES, MEMORY, MESSAGES, SCRATCHPAD, SOURCE, STATE, agent_part};
use turntree::context::{
    Context, ContextDiff, MAIN_AGENT, PathTarget, SectionChange, SectionDiff, Shape, diff_by_value,
    split,
};
use turntree::object::{ObjectId, ObjectSource};
use turntree::repo::{HEAD, Repository};
use turntree::tree::Item;

use super::paths::Paths;
use super::revision::{path_there, resolve_entry};
use crate::view::advice::Advice;
use crate::view::error::{Failure, Result};
use crate::view::json;
use crate::view::render::changes::path_of;

/// Compares two snapshots by the content of entries, at or below some paths, or everywhere.
pub(crate) fn changes(
    repo: &Repository,
    old: &ObjectId,
    new: &ObjectId,
    paths: &[String],
) -> Result<ContextDiff> {
    let mut changed = diff_by_value(repo, &repo.context(old)?, &repo.context(new)?)?;
    keep_below(&mut changed, paths);
    Ok(changed)
}

/// The two sides of a comparison, and their differences.
pub(crate) struct Compared {
    pub(crate) old: ObjectId,
    pub(crate) new: ObjectId,
    pub(crate) changed: ContextDiff,
}

/// Compares two snapshots, or an entry of one with an entry of the other. By default the new side
/// is HEAD, or the entry of HEAD at the same path. Only changes at or below `paths` count; without
/// paths, all changes count.
///
/// # Errors
/// `InvalidInput` if one side is an entry and the other a snapshot, `NotFound` for a
/// missing entry.
pub(crate) fn compared(
    repo: &Repository,
    old: &str,
    new: Option<&str>,
    paths: &[String],
) -> Result<Compared> {
    let before = resolve_entry(repo, old)?;
    let mut after = resolve_entry(repo, new.unwrap_or(HEAD))?;
    if new.is_none() {
        after.path.clone_from(&before.path);
    }
    let (old_id, new_id) = (before.commit, after.commit);
    let mut changed = match (path_there(repo, &before)?, path_there(repo, &after)?) {
        (None, None) => changes(repo, &old_id, &new_id, &[])?,
        (Some(old), Some(new)) => entry_changes(repo, (&old_id, &old), (&new_id, &new))?,
        (of_old, _) => {
            let new = new.unwrap_or(HEAD);
            let (entry, whole) = if of_old.is_some() { (old, new) } else { (new, old) };
            let message = format!("'{entry}' is an entry, but '{whole}' is a snapshot");
            let hint = Advice::anyone("name two snapshots, or an entry of each");
            return Err(Failure::hinted(Error::invalid(message), hint));
        }
    };
    keep_below(&mut changed, &Paths::over(repo, [old_id, new_id]).selecting(paths));
    Ok(Compared { old: old_id, new: new_id, changed })
}

/// Compares the entries of two snapshots at a path each. If the paths differ, entries below them
/// are matched by the rest of their path, and named by the new path.
fn entry_changes(
    repo: &Repository,
    (old_id, old): (&ObjectId, &str),
    (new_id, new): (&ObjectId, &str),
) -> Result<ContextDiff> {
    let source = repo.store();
    let (before, after) = (repo.context(old_id)?, repo.context(new_id)?);
    let (section, old_key) = split(old);
    let (of_new, new_key) = split(new);
    let is_list = before.section(source, section)?.is_some_and(|it| it.shape == Shape::List);
    if old == new && (!is_list || old_key.is_empty()) {
        return changes(repo, old_id, new_id, &[old.to_owned()]);
    }
    if section != of_new || old_key.is_empty() || new_key.is_empty() {
        let apart = format!("'{old}' and '{new}' are of different sections");
        let hint = Advice::anyone("entries of one section can be compared");
        return Err(Failure::hinted(Error::invalid(apart), hint));
    }
    let mut sides: BTreeMap<String, [Option<Item>; 2]> = BTreeMap::new();
    for (side, (context, key)) in [(&before, old_key), (&after, new_key)].into_iter().enumerate() {
        for (rest, item) in below(source, context, section, key)? {
            if let Some(place) = sides.entry(rest).or_default().get_mut(side) {
                *place = Some(item);
            }
        }
    }
    let differ = sides.into_iter().filter(|(_, [old, new])| old != new);
    let changes = differ.map(|(rest, [old, new])| SectionChange {
        key: format!("{}{rest}", new_key.trim_end_matches('/')),
        old,
        new,
    });
    let changes: Vec<SectionChange> = changes.collect();
    let name = section.to_owned();
    Ok((!changes.is_empty()).then_some((name, SectionDiff { changes })).into_iter().collect())
}

/// The entry at a key of a section, or the entries below it, by the rest of their keys.
fn below(
    source: &dyn ObjectSource,
    context: &Context,
    section: &str,
    key: &str,
) -> Result<Vec<(String, Item)>> {
    if let PathTarget::Entry(item) = context.lookup(source, &path_of(section, key))? {
        return Ok(vec![(String::new(), item)]);
    }
    let (folder, map) = (key.trim_end_matches('/'), context.map(source, section)?);
    let entries = map.prefix(source, format!("{folder}/").as_bytes());
    let entries = entries.map(|entry| {
        let (key, item) = entry?;
        let rest = String::from_utf8_lossy(key.get(folder.len()..).unwrap_or_default());
        Ok((rest.into_owned(), item))
    });
    entries.collect()
}

/// Keeps only changes at or below some paths, if there are any paths.
pub(crate) fn keep_below(changed: &mut ContextDiff, paths: &[String]) {
    if paths.is_empty() {
        return;
    }
    for (section, diff) in &mut *changed {
        diff.changes.retain(|change| {
            let path = path_of(section, &change.key);
            paths.iter().any(|wanted| is_below(&path, wanted.trim_end_matches('/')))
        });
    }
    changed.retain(|_, diff| !diff.changes.is_empty());
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The sections that a record always contains.
const ALWAYS: [&str; 5] = [FILES, MEMORY, MESSAGES, SCRATCHPAD, STATE];

/// Returns the records by section. Conversations and states of all agents are combined into one
/// section each.
pub(crate) fn records(changed: &ContextDiff) -> BTreeMap<&str, json::SectionDiff> {
    let mut records = BTreeMap::from(ALWAYS.map(|name| (name, json::SectionDiff::default())));
    for (section, diff) in changed {
        let (name, agent) = match agent_part(section) {
            Some((agent, part)) if ALWAYS.contains(&part) => (part, agent),
            _ => (section.as_str(), MAIN_AGENT),
        };
        let record = records.entry(name).or_default();
        for change in &diff.changes {
            match (&change.old, &change.new) {
                (None, Some(new)) => record.added.push(named(name, agent, change, new)),
                (Some(old), None) => record.removed.push(named(name, agent, change, old)),
                (_, Some(new)) => record.changed.push(named(name, agent, change, new)),
                (None, None) => {}
            }
        }
    }
    records
}

fn named(section: &str, agent: &str, change: &SectionChange, item: &Item) -> json::Changed {
    let blob = item.link.id.to_string();
    match (section, change.key.parse()) {
        (MESSAGES, Ok(index)) => json::Changed::Message { agent: agent.to_owned(), index, blob },
        (SOURCE, Ok(index)) => json::Changed::Item { index, blob },
        _ if change.key.is_empty() => json::Changed::Key(section.to_owned()),
        _ if agent == MAIN_AGENT => json::Changed::Key(change.key.clone()),
        _ => json::Changed::Key(format!("{agent}/{}", change.key)),
    }
}
