//! `repack`: rewrites the store into fewer and smaller files.

use clap::Args;
use turntree::maintenance::Purpose;
use turntree::store::{ParityShare, Tier};

use super::Verb;
use super::gc::{Wanted, collect_or_plan};
use crate::porcelain::store::maintenance_wait::Patience;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};

/// Rewrite the store into fewer, smaller packs
///
/// All reachable objects are kept: only their storage changes. Packs of an archive get parity, with
/// which 'turntree repair' restores damaged bytes. Other processes may read and write at the same
/// time, and snapshots do not wait. Objects that are already in a better tier stay there.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree repack
  turntree repack --archive
  turntree repack --archive --parity 10
  turntree repack --archive --without-ids
  turntree repack --tier hot --dry-run")]
pub(crate) struct Repack {
    /// Compress most, for finished sessions: the same as --tier archive
    #[arg(long, conflicts_with = "tier")]
    archive: bool,
    /// Level of compression: smaller takes longer
    #[arg(long, value_name = "TIER", default_value = "compacted", value_parser = tiers())]
    tier: String,
    /// Give packs this much parity, with which damaged bytes are restored; 0 for none. By default
    /// archives have 5 percent, others none
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(..=100))]
    parity: Option<u8>,
    /// Leave out the ids of objects, for a store that is put away: a third less disk until an
    /// object of the archive is needed. Then all of it is read, and the ids are stored next to it.
    /// A bad block beyond the parity then costs its turns and all later ones, and older versions of
    /// the program cannot open the store. Without this option an archive gets its ids back
    #[arg(long, requires = "archive")]
    without_ids: bool,
    /// Print the plan without doing it
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    patience: Patience,
}

impl Verb for Repack {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let named = Tier::ALL.into_iter().find(|tier| tier.name() == self.tier);
        let tier = if self.archive { Tier::Archive } else { named.unwrap_or(Tier::Compacted) };
        let share = |percent: u8| (percent > 0).then(|| ParityShare::new(percent)).transpose();
        let parity = self.parity.map(share).transpose()?;
        let (purpose, dry_run, patience) = (Purpose::Repack(tier), self.dry_run, self.patience);
        let without_ids = self.without_ids;
        let wanted = Wanted { purpose, dry_run, patience, parity, without_ids, forgotten: None };
        collect_or_plan(run, wanted)
    }
}

fn tiers() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(Tier::ALL.map(Tier::name))
}
