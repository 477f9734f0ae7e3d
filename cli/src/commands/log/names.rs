//! The names of snapshots in a log: branches, tags and pins, and their short forms for narrow screens.

use std::collections::HashMap;

use turntree::ErrorKind;
use turntree::object::{ObjectId, RefValue};
use turntree::repo::{BranchName, Repository, SESSION_REFS, remote_branch};

use crate::view::error::Result;
use crate::view::render::{columns_of, one_line};
use crate::view::short_names::ShortNames;

/// The width that names have on any screen.
const MIN_NAMES: usize = 8;

/// A name of a snapshot.
struct RefName {
    long: String,
    /// The name inside of its session, that of HEAD with a star; `pinned` for a pin.
    short: String,
}

/// The names of each snapshot.
pub(super) struct Names {
    /// The full names of refs, HEAD's first.
    refs: HashMap<ObjectId, Vec<String>>,
    head: Option<BranchName>,
    short: ShortNames,
}

impl Names {
    /// Reads the names of all snapshots.
    pub(super) fn of(repo: &Repository) -> Result<Self> {
        let head = repo.head_if_any()?.map(|head| head.branch);
        let head_ref = head.as_ref().map(BranchName::full);
        let mut named: HashMap<ObjectId, Vec<String>> = HashMap::new();
        for (full, value) in repo.refs().values.iter() {
            let RefValue::Object(id) = value else { continue };
            // The many refs need no read: branches name commits, and titles of sessions name none.
            if full.starts_with(SESSION_REFS) {
                continue;
            }
            let is_direct = BranchName::from_full(full).is_some() || remote_branch(full).is_some();
            let id = match if is_direct { Ok(*id) } else { repo.peel(id) } {
                Ok(id) => id,
                Err(error) if error.kind() == ErrorKind::Corrupt => return Err(error.into()),
                // A retention policy, or an expired pin on a dropped turn.
                Err(_) => continue,
            };
            let names = named.entry(id).or_default();
            let at = if head_ref.as_deref() == Some(full) { 0 } else { names.len() };
            names.insert(at, full.to_owned());
        }
        Ok(Self { refs: named, head, short: ShortNames::new(repo.refs()) })
    }

    /// Returns true if a snapshot has a name.
    pub(super) fn contains(&self, id: &ObjectId) -> bool {
        self.refs.contains_key(id)
    }

    /// Returns the names of a snapshot; short and cut where they are wider than `room`.
    pub(super) fn shown(&self, id: &ObjectId, room: Option<usize>) -> String {
        let Some(refs) = self.refs.get(id) else { return String::new() };
        let names: Vec<RefName> = refs.iter().map(|full| self.name(full)).collect();
        let long: Vec<&str> = names.iter().map(|name| name.long.as_str()).collect();
        let long = long.join(", ");
        let Some(room) = room.filter(|room| columns_of(&long) > *room) else { return long };
        let mut short: Vec<&str> = names.iter().map(|name| name.short.as_str()).collect();
        short.dedup();
        one_line(&short.join(", "), room.max(MIN_NAMES))
    }

    fn name(&self, full: &str) -> RefName {
        let Some(branch) = BranchName::from_full(full) else { return RefName::other(full) };
        let is_head = Some(&branch) == self.head.as_ref();
        let (lead, star) = if is_head { ("HEAD -> ", "*") } else { ("", "") };
        RefName {
            long: format!("{lead}{}", self.short.branch(&branch)),
            short: format!("{star}{}", branch.branch()),
        }
    }
}

impl RefName {
    /// The name of a ref that is no branch.
    fn other(full: &str) -> Self {
        let rest = full.strip_prefix("refs/remotes/").or(full.strip_prefix("refs/"));
        let long = rest.unwrap_or(full).to_owned();
        let short = match long.split_once('/') {
            Some(("pins", _)) => "pinned".to_owned(),
            Some(("tags", name)) => name.to_owned(),
            _ => long.clone(),
        };
        Self { long, short }
    }
}
