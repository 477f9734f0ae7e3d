//! Tests of packs: intact, damaged, and crafted ones.

pub(super) mod damage;
mod hostile;
pub(super) mod round_trip;
mod without_ids;
