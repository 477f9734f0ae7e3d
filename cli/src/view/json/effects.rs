//! Records of effects that no rollback reverts.

use schemars::JsonSchema;
use serde::Serialize;
use turntree_exchange::{Ledger, LedgerEntry};

use super::CommitId;

/// The most effects in a record: the newest.
const MAX_EFFECTS: usize = 50;

/// Effects of turns that a rollback leaves behind, and that it does not revert.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub(crate) struct LeftEffects {
    /// The newest 50, oldest first.
    pub(crate) effects: Vec<LeftEffect>,
    /// How many older ones are not in `effects`.
    pub(crate) more_effects: u64,
    /// Turns that were not read: their content expired, or they are too many.
    pub(crate) unread_turns: u64,
}

/// A tool call that changed something outside of the context and the captured files.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct LeftEffect {
    pub(crate) turn: u64,
    /// The snapshot of the turn.
    #[serde(flatten)]
    pub(crate) at: CommitId,
    /// The name of the tool.
    pub(crate) tool: String,
    /// `repository`, `system`, `request`, `storage`, `machine`, `database`, `deployment`, `forge`,
    /// `push`, `publication`, `message` or `payment`.
    pub(crate) kind: &'static str,
    /// The command, or the tool and its arguments, cut and without secrets.
    pub(crate) call: String,
    /// `done`, `failed` or `unknown`.
    pub(crate) outcome: &'static str,
}

impl From<&Ledger> for LeftEffects {
    fn from(ledger: &Ledger) -> Self {
        let more = ledger.entries.len().saturating_sub(MAX_EFFECTS);
        let effects = ledger.entries.iter().skip(more).map(LeftEffect::from).collect();
        Self { effects, more_effects: more as u64, unread_turns: ledger.unread }
    }
}

impl From<&LedgerEntry> for LeftEffect {
    fn from(entry: &LedgerEntry) -> Self {
        Self {
            turn: entry.turn,
            at: CommitId::new(entry.commit.to_string()),
            tool: entry.tool.clone(),
            kind: entry.kind.name(),
            call: entry.call.clone(),
            outcome: entry.outcome.name(),
        }
    }
}
