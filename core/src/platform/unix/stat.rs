//! The stat of an entry.

pub(crate) use rustix::fs::Stat as RawStat;
