//! Ranks titles of a Claude Code session by their source: the user, the client, or a summary.

use serde::{Deserialize, Serialize};

/// The rank of a title: a title does not replace one of a higher rank.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum TitleRank {
    /// No title.
    #[default]
    None,
    /// A summary of the conversation up to a record.
    Summary,
    /// The client made it from the conversation.
    Made,
    /// The user gave it.
    Given,
}
