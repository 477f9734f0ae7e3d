//! Changes between two contexts: below some paths, and as records.

use std::collections::BTreeMap;

use turntree::context::{ContextDiff, MAIN_AGENT, SectionChange, diff_by_value};
use turntree::object::ObjectId;
use turntree::repo::Repository;
use turntree::tree::Item;

use crate::view::error::Result;
use crate::view::json;
use crate::view::render::changes::path_of;

/// Compares two snapshots by what entries say, at or below some paths, or everywhere.
pub(crate) fn changes(
    repo: &Repository,
    old: &ObjectId,
    new: &ObjectId,
    paths: &[String],
) -> Result<ContextDiff> {
    let mut changed = diff_by_value(repo.store(), &repo.context(old)?, &repo.context(new)?)?;
    keep_below(&mut changed, paths);
    Ok(changed)
}

/// Leaves only changes at or below some paths, if there are any.
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

/// The sections that a record has whether they changed or not.
const ALWAYS: [&str; 5] = ["files", "memory", "messages", "scratchpad", "state"];

/// Conversations and states of all agents are one section each.
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

/// The agent and the part of it that a section is.
fn agent_part(section: &str) -> Option<(&str, &str)> {
    section.strip_prefix("agents/")?.split_once('/')
}

fn named(section: &str, agent: &str, change: &SectionChange, item: &Item) -> json::Changed {
    let id = item.link.id.to_string();
    match (section, change.key.parse()) {
        ("messages", Ok(index)) => json::Changed::Message { agent: agent.to_owned(), index, id },
        ("source", Ok(index)) => json::Changed::Item { index, id },
        _ if change.key.is_empty() => json::Changed::Key(section.to_owned()),
        _ if agent == MAIN_AGENT => json::Changed::Key(change.key.clone()),
        _ => json::Changed::Key(format!("{agent}/{}", change.key)),
    }
}
