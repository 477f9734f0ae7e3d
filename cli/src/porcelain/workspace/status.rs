//! The status: HEAD, unsaved changes of its workspace, and the size of the store.

use std::collections::BTreeSet;
use std::time::Duration;

use turntree::context::open_conflicts;
use turntree::maintenance::auto::{self, Upkeep};
use turntree::maintenance::{LastStep, StepOutcome};
use turntree::object::Time;
use turntree::repo::{Repository, SecretMode};

use super::unsaved_changes::{UnsavedChanges, known_workspace};
use crate::program::invocation::{Location, Way};
use crate::program::trust::{Doubt, standing};
use crate::view::error::Result;
use crate::view::render::size;
use crate::view::{clock, json};

/// The time limit of a status for reading the workspace.
const PATIENCE: Duration = Duration::from_secs(2);

/// The mode for imported secrets, if it is not the default. `fsck` reports settings that cannot be
/// read.
pub(crate) fn secret_mode(repo: &Repository) -> Option<SecretMode> {
    let mode = repo.secret_settings().ok()?.mode;
    (mode != SecretMode::default()).then_some(mode)
}

/// Returns the record of HEAD, of its workspace files and of the size of the store.
pub(crate) fn status(repo: &Repository, location: &Location) -> Result<json::Status> {
    let (head, branches) = (repo.head()?, repo.branches());
    let sessions: BTreeSet<&str> = branches.iter().map(|(name, _)| name.session()).collect();
    let commit = head.commit.map(|id| repo.commit(&id)).transpose()?;
    let (messages, conflicts) = match &head.commit {
        Some(id) => {
            let context = repo.context(id)?;
            let open = open_conflicts(repo, &context)?.len() as u64;
            (context.message_count(repo)?, open)
        }
        None => (0, 0),
    };
    let workspace = match known_workspace(repo)? {
        Some(_) => Some(UnsavedChanges::look(repo, Some(PATIENCE))?),
        None => None,
    };
    Ok(json::Status {
        store: location.dir.display().to_string(),
        session: head.branch.session().to_owned(),
        branch: head.branch.branch().to_owned(),
        at: json::HeadId::new(head.commit.map(|id| id.to_string())),
        turn: commit.as_ref().map(|commit| commit.turn),
        time: commit.as_ref().map(|commit| clock::rfc3339(commit.time)),
        messages,
        sessions: sessions.len() as u64,
        branches: branches.len() as u64,
        conflicts,
        secrets: secret_mode(repo).map(SecretMode::name),
        workspace: workspace.map(|unsaved| json::UnsavedFiles {
            dir: unsaved.dir.display().to_string(),
            differing: unsaved.files(),
            unfinished: unsaved.unfinished,
        }),
        unpushed: unpushed(repo),
        maintenance: maintenance(repo)?,
        untrusted: untrusted(repo, location).map(|doubt| doubt.to_string()),
    })
}

/// Returns why a store is not trusted. If the user named the store it is written to anyway, and
/// only its remotes are in doubt.
fn untrusted(repo: &Repository, location: &Location) -> Option<Doubt> {
    let doubt = standing(repo, location.pointer()).doubt();
    let is_named = location.way == Way::Meant;
    doubt.filter(|doubt| !is_named || matches!(doubt, Doubt::Remote { .. }))
}

/// The last attempt of automatic maintenance, if there was one, and why none is running now.
fn maintenance(repo: &Repository) -> Result<Option<json::Maintenance>> {
    let Some(last) = LastStep::of(repo) else { return Ok(None) };
    let Upkeep { is_due, is_over, fullness, .. } = auto::upkeep(repo)?;
    let waits = if repo.store().is_collected().unwrap_or(false) {
        Some("it is running now".to_owned())
    } else if is_due || is_over {
        Some("it is due, and begins after the next commit".to_owned())
    } else if last.outcome == StepOutcome::Failed {
        let bytes = auto::DUE_BYTES.saturating_mul(last.distances());
        Some(format!("the next try is after {} more in the journal", size(bytes)))
    } else {
        let bound = fullness.bound_bytes.filter(|_| fullness.is_over());
        bound.map(|bound| {
            let taken = size(fullness.file_bytes);
            format!(
                "the store takes {taken}, over its budgets of {}: all of the rest must stay",
                size(bound)
            )
        })
    };
    let began = Time { micros: last.time_micros, offset_minutes: 0 };
    Ok(Some(json::Maintenance {
        time: clock::rfc3339(began),
        began,
        outcome: last.outcome.name(),
        reason: last.reason,
        written_bytes: last.written_bytes,
        expired_turns: last.expired_turns,
        waits,
    }))
}

/// The number of branches that each remote lacks, without contacting it. Commands that use remotes
/// report an unreadable list.
fn unpushed(repo: &Repository) -> Vec<json::Unpushed> {
    let remotes = repo.remotes().unwrap_or_default().into_keys();
    let lacking = remotes.map(|remote| {
        let branches = repo.unpushed(&remote).len() as u64;
        json::Unpushed { remote, branches }
    });
    lacking.filter(|lacking| lacking.branches > 0).collect()
}
