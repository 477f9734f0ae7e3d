//! Answers questions about history: finds text, the author of a line, and the turns that changed a
//! path.
//!
//! All of them use one mechanism: the changes of a turn are the diff between its context and the
//! contexts of its parents. The diff skips subtrees that both have, so an answer costs the changes,
//! however long the turns agree. A search through most of a store scans the contents first, if
//! their bytes can decide a match, and computes changes only where a match is possible. An index
//! next to each pack holds the changes of its turns, see `history_index.rs`; changes of other turns
//! are found by walking trees.
//!
//! | question | answer |
//! |---|---|
//! | which turns changed this path, or how often this text occurs | [`Repository::touches`](super::Repository::touches) |
//! | where does this occur in all of history | [`Repository::grep`](super::Repository::grep), session by session [`Repository::grep_in_steps`](super::Repository::grep_in_steps) |
//! | matches in contents, names and messages | [`Repository::scan`](super::Repository::scan) |
//! | the entries that each turn added | [`Repository::arrivals`](super::Repository::arrivals) |
//! | which turn wrote this line, key or message | [`Repository::blame`](super::Repository::blame) |
//!
//! The contexts of some turns expired or were redacted. A search skips such a turn, so its changes
//! count as changes of the next turn whose context exists. [`Gaps`] lists the skipped turns.

mod arrivals;
mod blame;
mod changes;
mod contents;
mod gaps;
mod grep;
mod history_index;
mod index_format;
mod line_matching;
mod loose_pattern;
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
pub use loose_pattern::LoosePattern;
pub use occurrences::{SearchFilter, SearchScope};
pub use pattern::{LinePattern, MAX_LINE_BYTES, MatchedLine, PatternOptions, TextMatches};
pub use pickaxe::{Pickaxe, PickaxeMatch, PickaxeQuery};
pub use scan::{FindIn, Scan, ScanPart, ScanPlace, ScopeScan};
