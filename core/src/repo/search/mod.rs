//! Questions about history: what was said where, who wrote this, which turns changed that.
//!
//! All of them rest on one thing: what a turn changed is the diff between its context and those of
//! the turns it continues, and a diff passes over what both have. So an answer costs what changed,
//! however long the turns are alike. A search through most of a store looks at the contents first, if bytes
//! can tell what may match, and asks for the changes only where something may. What the turns of a pack changed is
//! told by an index beside it, see `history_index.rs`; of others it is found by walking.
//!
//! | question | answer |
//! |---|---|
//! | which turns changed this path, or how often this text occurs | [`Repository::touches`](super::Repository::touches) |
//! | where does this occur in all of history | [`Repository::grep`](super::Repository::grep), session by session [`Repository::grep_in_steps`](super::Repository::grep_in_steps) |
//! | what does a reader find in every content, name and message of a history | [`Repository::scan`](super::Repository::scan) |
//! | what did each turn bring | [`Repository::arrivals`](super::Repository::arrivals) |
//! | which turn wrote this line, key or message | [`Repository::blame`](super::Repository::blame) |
//!
//! The contexts of some turns are gone: they expired, or were redacted. Such a turn is passed over,
//! so what it changed counts as changed by the next one that is there, and [`Gaps`] says which
//! turns these are.

mod arrivals;
mod blame;
mod changes;
mod contents;
mod gaps;
mod grep;
mod history_index;
mod index_format;
mod lines;
mod loose;
mod occurrences;
mod pattern;
mod pickaxe;
mod scan;
mod turn_changes;

pub use arrivals::{Arrival, Arrivals, ArrivedAt};
pub use blame::{Blame, BlameKind, BlamedPart};
pub use changes::{Count, GrepProgress, ReadMessage};
pub use contents::MayHold;
pub use gaps::{Gap, Gaps};
pub use grep::{Grep, GrepPlace, GrepQuery, GrepSteps};
pub(crate) use history_index::{complete_history_index, wrong_history_indexes};
pub use loose::LoosePattern;
pub use occurrences::{SearchFilter, SearchScope};
pub use pattern::{
    LinePattern, MAX_LINE_BYTES, MAX_PATTERN_BYTES, MatchedLine, PatternOptions, TextMatches,
};
pub use pickaxe::{Pickaxe, PickaxeMatch, PickaxeQuery};
pub use scan::{FindIn, Scan, ScanPart, ScanPlace};
