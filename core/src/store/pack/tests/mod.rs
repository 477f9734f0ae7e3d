//! Tests of packs: intact, damaged, and crafted ones, and disks that fail.

pub(super) mod damage;
mod failing;
mod hostile;
pub(super) mod round_trip;
mod without_ids;
