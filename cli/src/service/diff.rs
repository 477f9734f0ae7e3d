//! Changes between two snapshots.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use turntree::context::ContextDiff;
use turntree::repo::Repository;

use super::page::{Bounded, ITEMS, MAX_ITEMS, TEXT_BYTES, limit};
use super::{Effect, Request, ServiceCall};
use crate::porcelain::read::diff::{Compared, compared, records};
use crate::view::error::{Failure, Result};
use crate::view::json;
use crate::view::output::Palette;
use crate::view::render::changes::Changes;

/// Arguments of `diff`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DiffArguments {
    /// The snapshot before, or an entry: REV:PATH
    old: String,
    /// The one after; HEAD by default
    new: Option<String>,
    /// Only changes at or below these, as in files/src
    #[serde(default)]
    paths: Vec<String>,
    /// Also show the changes as text: unified diffs of entries, one line per message
    #[serde(default)]
    text: bool,
    /// Begin at this change
    #[serde(default)]
    offset: u64,
    /// Maximum: 1 to 500, 50 by default
    limit: Option<u64>,
}

/// The changes.
#[derive(Serialize, JsonSchema)]
pub(super) struct DiffAnswer {
    /// The commit before.
    old: String,
    /// The commit after.
    new: String,
    /// Changes by section: added, removed and changed.
    sections: BTreeMap<String, json::SectionDiff>,
    /// The number of all changes.
    total: u64,
    /// Offset of the next call; null at the end.
    next_offset: Option<u64>,
    /// The changes of this answer as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// True if the text was cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    text_cut: Option<bool>,
}

impl Request for DiffArguments {
    type Answer = DiffAnswer;
    const NAME: &'static str = "diff";
    const TITLE: &'static str = "Differences of two snapshots";
    const ABOUT: &'static str = "Lists the changes between two snapshots: messages, notes, \
        memory, files. With text, the changes as a unified diff as well.";
    const EFFECT: Effect = Effect::Looks;

    fn answer(self, call: &ServiceCall<'_>) -> Result<DiffAnswer> {
        let limit = limit(self.limit, ITEMS, MAX_ITEMS)?;
        let repo = call.open()?;
        let Compared { old, new, mut changed } =
            compared(&repo, &self.old, self.new.as_deref(), &self.paths)?;
        let total = changed.values().map(|section| section.changes.len() as u64).sum();
        let next_offset = keep_part(&mut changed, self.offset, limit);
        let sections =
            records(&changed).into_iter().map(|(name, record)| (name.to_owned(), record));
        let sections = sections.collect();
        let (text, text_cut) = match self.text {
            true => write(&repo, &changed).map(|(text, is_cut)| (Some(text), Some(is_cut)))?,
            false => (None, None),
        };
        let (old, new) = (old.to_string(), new.to_string());
        Ok(DiffAnswer { old, new, sections, total, next_offset, text, text_cut })
    }
}

/// Keeps at most `limit` changes from `offset` on; returns the offset of the rest.
fn keep_part(changed: &mut ContextDiff, offset: u64, limit: usize) -> Option<u64> {
    let mut skip = usize::try_from(offset).unwrap_or(usize::MAX);
    let (mut left, mut is_cut) = (limit, false);
    for section in changed.values_mut() {
        let skipped = skip.min(section.changes.len());
        section.changes.drain(..skipped);
        skip -= skipped;
        is_cut |= section.changes.len() > left;
        section.changes.truncate(left);
        left -= section.changes.len();
    }
    changed.retain(|_, section| !section.changes.is_empty());
    is_cut.then(|| offset.saturating_add(limit as u64))
}

/// The changes as text, and whether the text was cut.
fn write(repo: &Repository, changed: &ContextDiff) -> Result<(String, bool)> {
    let changes = Changes { source: repo, paint: Palette::default() };
    let mut out = Bounded::new(usize::try_from(TEXT_BYTES).unwrap_or(usize::MAX));
    let written = changed.iter().try_for_each(|(name, diff)| changes.write(&mut out, name, diff));
    match written {
        Err(Failure::Output(_)) if out.is_cut() => {}
        written => written?,
    }
    let is_cut = out.is_cut();
    Ok((out.into_text(), is_cut))
}
