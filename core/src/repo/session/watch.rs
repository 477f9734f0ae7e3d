//! Decides when to take automatic snapshots: when the used share of the context window rises past a
//! level.
//!
//! ```text
//! usage   0.80  0.86  0.88  0.97   0.99  0.70  0.86
//! fires         auto        before-overflow    auto, when its cooldown is over
//! ```
//!
//! A level fires once when usage rises to it, and again only after usage was below it. It does not
//! fire within the cooldown after its own last firing or that of a higher level. A level that was
//! crossed in the cooldown and is still crossed at its end fires with the next observation. Higher
//! levels never wait for lower ones.
//!
//! ```
//! use turntree::repo::watch::{Decision, Watch, WatchState};
//!
//! let (watch, mut state) = (Watch::default(), WatchState::default());
//! assert_eq!(watch.observe(&mut state, 0.80, 0), Decision::Below);
//! let Decision::Fire(level) = watch.observe(&mut state, 0.86, 1) else { panic!() };
//! assert_eq!(level.name, "auto");
//! assert!(matches!(watch.observe(&mut state, 0.88, 2), Decision::Fired(_)));
//! ```
//!
//! The state of a branch is a JSON blob behind `refs/watch/<session>/<branch>`, written only when
//! it changes:
//!
//! ```text
//! {"version":1,"levels":{"auto":{"crossed":true,"fired_micros":1769000000000000}}}
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::object::{Kind, ObjectSink, ObjectSource, RefValue, Trigger};
use crate::repo::{BranchName, Repository, Transaction, decode_versioned};
use crate::store::Expected;

/// The prefix of refs to the state of each branch.
pub(in crate::repo) const WATCHES: &str = "refs/watch/";

const VERSION: u64 = 1;
const DEFAULT_COOLDOWN: i64 = 60 * 1_000_000;

/// A used share of the context window that triggers a snapshot.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct UsageLevel {
    /// The name, under which its state is stored.
    pub name: &'static str,
    /// The share at which it fires, 1 for a full window.
    pub at: f64,
    /// The trigger that its snapshot records.
    pub trigger: Trigger,
}

/// The levels, and the time between two snapshots.
#[derive(Debug, Clone, PartialEq)]
pub struct Watch {
    /// The levels, in any order.
    pub levels: Vec<UsageLevel>,
    /// The microseconds in which a level does not fire again.
    pub cooldown: i64,
}

impl Default for Watch {
    /// Returns `auto` at 0.85, `before-overflow` at 0.95 and `emergency` at 1, with a cooldown of
    /// 60 seconds.
    fn default() -> Self {
        let level = |name, at, trigger| UsageLevel { name, at, trigger };
        Self {
            levels: vec![
                level("auto", 0.85, Trigger::Threshold),
                level("before-overflow", 0.95, Trigger::Threshold),
                level("emergency", 1.0, Trigger::Emergency),
            ],
            cooldown: DEFAULT_COOLDOWN,
        }
    }
}

/// The decision after an observation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Decision<'w> {
    /// This level was crossed: a snapshot is due.
    Fire(&'w UsageLevel),
    /// Usage is below all levels.
    Below,
    /// Usage is over this highest level, which has already fired.
    Fired(&'w UsageLevel),
    /// This level was crossed within the cooldown, which ends at the moment `until`, in
    /// microseconds.
    Cooling {
        /// The level.
        level: &'w UsageLevel,
        /// The time from which on it may fire.
        until: i64,
    },
}

/// The state of the levels; empty at first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchState(BTreeMap<String, LevelState>);

/// The state of a level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LevelState {
    /// True if this level or a higher one has fired since usage was below it.
    crossed: bool,
    /// The time when it last fired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fired_micros: Option<i64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredWatch {
    version: u64,
    levels: BTreeMap<String, LevelState>,
}

impl Watch {
    /// Applies an observation: the share `usage` of the window is used at the moment `now`, in
    /// microseconds since the Unix epoch.
    pub fn observe(&self, state: &mut WatchState, usage: f64, now: i64) -> Decision<'_> {
        let mut levels: Vec<&UsageLevel> = self.levels.iter().collect();
        levels.sort_by(|a, b| b.at.total_cmp(&a.at));
        let (over, below): (Vec<&UsageLevel>, Vec<&UsageLevel>) =
            levels.iter().partition(|level| usage >= level.at);
        for level in below {
            if let Some(seen) = state.0.get_mut(level.name) {
                seen.crossed = false;
            }
        }
        let is_crossed = |level: &UsageLevel, state: &WatchState| {
            state.0.get(level.name).is_some_and(|seen| seen.crossed)
        };
        let Some(highest) = over.first() else { return Decision::Below };
        let Some(level) = over.iter().find(|level| !is_crossed(level, state)) else {
            return Decision::Fired(highest);
        };
        // A lower level that is new to the state: the higher level has fired for it.
        if over.iter().any(|other| other.at > level.at && is_crossed(other, state)) {
            return Decision::Fired(highest);
        }
        let fired = levels.iter().filter(|other| other.at >= level.at);
        let fired = fired.filter_map(|other| state.0.get(other.name)?.fired_micros).max();
        // A clock that was set back does not extend the cooldown.
        if let Some(fired) = fired.filter(|fired| *fired <= now) {
            let until = fired.saturating_add(self.cooldown);
            if now < until {
                return Decision::Cooling { level, until };
            }
        }
        for lower in &over {
            state.0.entry(lower.name.to_owned()).or_default().crossed = true;
        }
        state.0.entry(level.name.to_owned()).or_default().fired_micros = Some(now);
        Decision::Fire(level)
    }
}

impl WatchState {
    /// Reads the state of `branch`.
    ///
    /// # Errors
    /// `Corrupt` or `Unsupported`, naming the ref.
    pub fn load(repo: &Repository, branch: &BranchName) -> Result<Self> {
        let name = ref_name(branch);
        match repo.refs().value(&name) {
            None => Ok(Self::default()),
            Some(RefValue::Symbolic(_)) => {
                Err(Error::corrupt(name, "observed usage", "a symbolic ref"))
            }
            Some(RefValue::Object(id)) => {
                let bytes = repo.store().read_as(Kind::Blob, id);
                bytes.and_then(|bytes| Self::decode(&bytes)).map_err(|error| error.at(name))
            }
        }
    }

    /// Stores the state of `branch` as part of a change.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn keep(&self, change: &mut Transaction<'_>, branch: &BranchName) -> Result<()> {
        let id = change.write(Kind::Blob, self.encode()?.into())?;
        change.set_ref(&ref_name(branch), Expected::Any, Some(RefValue::Object(id)));
        Ok(())
    }

    /// Returns the bytes to store.
    ///
    /// # Errors
    /// No errors in practice.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let stored = StoredWatch { version: VERSION, levels: self.0.clone() };
        serde_json::to_vec(&stored)
            .map_err(|source| Error::invalid("observed usage").with_source(source))
    }

    /// Decodes a state.
    ///
    /// # Errors
    /// `Unsupported` for a newer version, `Corrupt` for anything else that [`WatchState::encode`]
    /// would not write.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let StoredWatch { levels, .. } = decode_versioned("observed usage", VERSION, bytes)?;
        Ok(Self(levels))
    }
}

fn ref_name(branch: &BranchName) -> String {
    format!("{WATCHES}{branch}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: i64 = 1_000_000;

    /// Returns the names of the fired levels, by observation.
    fn fired(observations: &[(f64, i64)]) -> Vec<&'static str> {
        let (watch, mut state) = (Watch::default(), WatchState::default());
        let decisions = observations.iter().map(|(usage, second)| {
            match watch.observe(&mut state, *usage, second * SECOND) {
                Decision::Fire(level) => level.name,
                Decision::Below => "below",
                Decision::Fired(_) => "fired",
                Decision::Cooling { .. } => "cooling",
            }
        });
        decisions.map(|name| if name.is_empty() { "-" } else { name }).collect()
    }

    #[test]
    fn a_level_fires_when_it_is_crossed_and_not_while_usage_stays_above() {
        assert_eq!(
            fired(&[(0.8, 0), (0.85, 1), (0.9, 100), (0.94, 300), (0.2, 400), (0.9, 500)]),
            ["below", "auto", "fired", "fired", "below", "auto"]
        );
    }

    #[test]
    fn a_higher_level_never_waits_and_stands_for_the_lower_ones() {
        assert_eq!(
            fired(&[(0.86, 0), (0.96, 1), (1.2, 2), (0.86, 3), (0.96, 4)]),
            ["auto", "before-overflow", "emergency", "fired", "cooling"]
        );
        assert_eq!(
            fired(&[(0.97, 0), (0.9, 1), (0.99, 100)]),
            ["before-overflow", "fired", "before-overflow"]
        );
    }

    #[test]
    fn what_is_crossed_while_cooling_fires_afterwards() {
        assert_eq!(
            fired(&[(0.9, 0), (0.5, 10), (0.9, 20), (0.9, 59), (0.9, 60), (0.9, 61)]),
            ["auto", "below", "cooling", "cooling", "auto", "fired"]
        );
        assert_eq!(fired(&[(0.9, 100), (0.5, 101), (0.9, 7)]), ["auto", "below", "auto"]);
    }

    turntree_properties::properties! {
        #[test]
        fn a_level_fires_at_most_once_a_cooldown_and_once_a_crossing(
            steps in prop::collection::vec((0.0..1.2_f64, 0..90_i64), 0..60)
        ) {
            let (watch, mut state) = (Watch::default(), WatchState::default());
            let mut now = 0;
            let mut last: BTreeMap<&str, (i64, bool)> = BTreeMap::new();
            for (usage, after) in steps {
                now += after * SECOND;
                for level in &watch.levels {
                    if usage < level.at && let Some(seen) = last.get_mut(level.name) {
                        seen.1 = true;
                    }
                }
                state = WatchState::decode(&state.encode().unwrap()).unwrap();
                if let Decision::Fire(level) = watch.observe(&mut state, usage, now) {
                    prop_assert!(usage >= level.at);
                    if let Some((before, was_below)) = last.insert(level.name, (now, false)) {
                        prop_assert!(now - before >= watch.cooldown && was_below);
                    }
                }
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = WatchState::decode(&bytes);
        }
    }
}
