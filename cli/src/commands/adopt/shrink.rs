//! `shrink`: imports the sessions of agents, removes their files, and repacks the store.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use turntree::maintenance::{Fullness, Purpose};
use turntree::store::Tier;

use super::reclaim::USUAL_AGE;
use super::{Adopt, ReclaimWhen};
use crate::commands::Verb;
use crate::commands::gc::{Wanted, collect_or_plan};
use crate::porcelain::store::maintenance_wait::Patience;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};
use crate::view::render::{count, size};
use crate::view::units::parse_duration;

/// Free the disk space of agents' sessions
///
/// Imports the sessions, reads each file back from the store, removes it, and repacks the store at
/// the end. Every session can still be resumed, read and exported byte for byte. Without --yes it
/// prints which files would go, why others stay, and about how much the store would take.
///
/// It is 'turntree adopt --reclaim=each' followed by 'turntree repack'. A run that is interrupted
/// loses nothing: each file is on the disk, in the store, or both, and the next run continues.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree shrink
  turntree shrink --yes
  turntree shrink --yes --older-than 30d ~/.codex/sessions
  turntree resume SESSION")]
pub(crate) struct Shrink {
    /// Directories or files instead of the places of all agents
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    paths: Vec<PathBuf>,
    /// Only files that were last written longer ago than this; at least 1h
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = USUAL_AGE)]
    older_than: i64,
    /// Import the sessions and remove their files
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    patience: Patience,
}

impl Verb for Shrink {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let adopt = Adopt {
            action: None,
            paths: self.paths.clone(),
            dry_run: false,
            again: false,
            watch: false,
            reclaim: Some(ReclaimWhen::Each),
            older_than: Some(self.older_than),
            yes: self.yes,
            live: false,
        };
        let (answer, files) = adopt.adopt(run)?;
        let (sessions, bytes) = files.map_or((0, 0), |files| files.leaving());
        if !self.yes || sessions == 0 {
            return Ok(answer);
        }
        let wanted = Wanted {
            purpose: Purpose::Repack(Tier::Compacted),
            dry_run: false,
            patience: self.patience,
            parity: None,
            without_ids: false,
            forgotten: None,
        };
        collect_or_plan(run, wanted)?;
        if !run.out.json {
            let takes = size(Fullness::of(&*run.open()?)?.file_bytes);
            let (sessions, bytes) = (count(sessions, "session"), size(bytes));
            writeln!(
                run.out,
                "freed the {bytes} of {sessions}; the store takes {takes} in all, and every session can be resumed"
            )?;
        }
        Ok(answer)
    }
}
