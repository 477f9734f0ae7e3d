//! The operation log, newest first: each operation once, an adoption as one, and whether it is in
//! force.

use std::collections::HashSet;

use turntree::object::Operation;
use turntree::repo::{OperationEntry, Repository};

use super::undo::adopted;
use crate::view::error::Result;

/// The names of branches begin with this.
const HEADS: &str = "refs/heads/";

/// A filter of operations.
#[derive(Debug)]
pub(crate) struct OperationsWanted<'a> {
    /// Only those that changed this ref, by its full name.
    pub(crate) name: Option<&'a str>,
    /// Only those with a lower number.
    pub(crate) before: Option<u64>,
    /// The maximum number of them.
    pub(crate) most: usize,
    /// For people: combine the operations of an adoption into its newest one, whose reason then names
    /// all, and name the branch where the reason is one word.
    pub(crate) for_people: bool,
}

/// The reason of an operation; with the branch, if it is one word about one branch, such as
/// `snapshot`.
fn telling(operation: &Operation) -> String {
    let mut branches =
        operation.changes.iter().filter_map(|change| change.name.strip_prefix(HEADS));
    match (branches.next(), branches.next()) {
        (Some(branch), None) if !operation.reason.contains(' ') => {
            format!("{} {branch}", operation.reason)
        }
        _ => operation.reason.clone(),
    }
}

/// Calls `visit` with each matching operation and whether it is in force, newest first. Reads the
/// whole log, and the visited part of it twice.
pub(crate) fn each_operation(
    repo: &Repository,
    wanted: &OperationsWanted<'_>,
    visit: &mut dyn FnMut(&OperationEntry, bool) -> Result<()>,
) -> Result<()> {
    let undone = repo.undone_operations()?;
    let (mut told, mut left) = (HashSet::new(), wanted.most);
    for entry in repo.operations() {
        let mut entry = entry?;
        if told.contains(&entry.id) {
            continue;
        }
        let together = match wanted.for_people {
            true => repo.adoption_of(&entry)?,
            false => Vec::new(),
        };
        if let Some(adopted) = adopted(&together) {
            told.extend(together.iter().map(|entry| entry.id));
            entry.operation.reason = adopted;
        } else if wanted.for_people {
            entry.operation.reason = telling(&entry.operation);
        }
        let touches = |name: &str| entry.operation.changes.iter().any(|c| c.name == name);
        let is_before = wanted.before.is_none_or(|number| entry.operation.sequence < number);
        if !is_before || !wanted.name.is_none_or(touches) {
            continue;
        }
        let Some(rest) = left.checked_sub(1) else { break };
        left = rest;
        visit(&entry, !undone.contains(&entry.id))?;
    }
    Ok(())
}
