//! Opens and reads stores: files become a view, which returns the place of every object.
//!
//! ```text
//! manifest ── sealed segments and packs ──┐
//!                                         ├── view ── cache ── objects, refs
//! journal ── active segments, by scanning ┘
//! ```
//!
//! Nothing here writes.

pub(super) mod batch_read;
pub(super) mod cache;
pub(super) mod content_cache;
pub(super) mod index;
pub(super) mod inventory;
pub(super) mod journal;
pub(super) mod load;
pub(super) mod operations;
pub(super) mod pages;
mod positions;
pub(super) mod read_guard;
pub(super) mod ref_values;
pub(super) mod refs;
pub(super) mod scan;
pub(super) mod sealed;
pub(super) mod sweep;
pub(super) mod view;
