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

/// The names of each snapshot, HEAD's first.
pub(super) struct Names(HashMap<ObjectId, Vec<RefName>>);

impl Names {
    /// Reads the names of all snapshots.
    pub(super) fn of(repo: &Repository) -> Result<Self> {
        let head = repo.head_if_any()?.map(|head| head.branch);
        let short = ShortNames::new(repo.refs());
        let mut names: HashMap<ObjectId, Vec<RefName>> = HashMap::new();
        for (full, value) in repo.refs().values.iter() {
            let RefValue::Object(id) = value else { continue };
            let branch = BranchName::from_full(full);
            // The many refs need no read: branches name commits, and titles of sessions name none.
            let is_direct = branch.is_some() || remote_branch(full).is_some();
            if full.starts_with(SESSION_REFS) {
                continue;
            }
            let id = match if is_direct { Ok(*id) } else { repo.peel(id) } {
                Ok(id) => id,
                Err(error) if error.kind() == ErrorKind::Corrupt => return Err(error.into()),
                // A retention policy, or an expired pin on a dropped turn.
                Err(_) => continue,
            };
            let named = names.entry(id).or_default();
            match branch {
                Some(branch) => {
                    let is_head = Some(&branch) == head.as_ref();
                    let (lead, star) = if is_head { ("HEAD -> ", "*") } else { ("", "") };
                    let name = RefName {
                        long: format!("{lead}{}", short.branch(&branch)),
                        short: format!("{star}{}", branch.branch()),
                    };
                    let at = if is_head { 0 } else { named.len() };
                    named.insert(at, name);
                }
                None => named.push(RefName::other(full)),
            }
        }
        Ok(Self(names))
    }

    /// Returns true if a snapshot has a name.
    pub(super) fn contains(&self, id: &ObjectId) -> bool {
        self.0.contains_key(id)
    }

    /// Returns the names of a snapshot; short and cut where they are wider than `room`.
    pub(super) fn shown(&self, id: &ObjectId, room: Option<usize>) -> String {
        let Some(names) = self.0.get(id) else { return String::new() };
        let long: Vec<&str> = names.iter().map(|name| name.long.as_str()).collect();
        let long = long.join(", ");
        let Some(room) = room.filter(|room| columns_of(&long) > *room) else { return long };
        let mut short: Vec<&str> = names.iter().map(|name| name.short.as_str()).collect();
        short.dedup();
        one_line(&short.join(", "), room.max(MIN_NAMES))
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
