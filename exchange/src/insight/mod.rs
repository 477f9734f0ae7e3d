//! Analyzes histories without a model: loops, lessons, comparisons, usage.

pub(crate) mod align;
mod answers;
pub(crate) mod brief;
pub(crate) mod compare;
pub(crate) mod contributions;
pub(crate) mod edit;
pub(crate) mod effects;
pub(crate) mod intent;
pub(crate) mod language;
pub mod lessons;
pub(crate) mod offload;
pub(crate) mod origin;
pub(crate) mod outline;
mod phrases;
pub(crate) mod prices;
pub(crate) mod reads;
pub(crate) mod search;
pub(crate) mod secrets;
mod session_answers;
pub(crate) mod sessions;
pub(crate) mod spending;
pub(crate) mod spiral;
mod stats;
pub(crate) mod test_runs;
pub(crate) mod turn_diff;
pub(crate) mod usage;
