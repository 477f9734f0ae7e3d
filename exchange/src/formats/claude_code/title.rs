//! Ranks titles of a Claude Code session by their source: the user, the client, or a summary.

use serde::{Deserialize, Serialize};

/// How much a title counts: one of a higher rank stays.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum TitleRank {
    /// There is none.
    #[default]
    None,
    /// A summary of the conversation up to a record.
    Summary,
    /// The client made it from the conversation.
    Made,
    /// The person gave it.
    Given,
}
