//! Retention rules of a store, and the collections that apply them.

use super::Repo;
use crate::error::{Error, Result};
use crate::maintenance::{
    Collected, Policies, Policy, Purpose, Scope, collect, remove_policy, set_policy,
};
use crate::store::Tier;

const MICROS_PER_SECOND: f64 = 1e6;

/// The retention rules of a session. The default keeps everything.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Retention {
    /// The number of newest turns to keep.
    pub turns: Option<u64>,
    /// The maximum age of turns to keep, in seconds.
    pub seconds: Option<f64>,
    /// The number of bytes that kept turns may take.
    pub budget_bytes: Option<u64>,
}

impl Repo {
    /// Sets the retention rules of a session, or, for `None`, of every session without its own
    /// rules. Collections apply them.
    ///
    /// # Errors
    /// `InvalidInput` for invalid rules or names, and errors of writing.
    pub fn retain(&self, session: Option<&str>, rules: &Retention) -> Result<()> {
        let Retention { turns, seconds, budget_bytes } = *rules;
        let keep_within = seconds.map(micros).transpose()?;
        let policy = Policy { keep_last: turns, keep_within, budget_bytes, ..Policy::default() };
        let scope = session.map_or(Scope::Default, Scope::Session);
        let mut change = self.inner.begin();
        match policy == Policy::default() {
            true => remove_policy(&mut change, scope)?,
            false => set_policy(&mut change, scope, &policy)?,
        }
        change.commit(&self.stamp(), "retention").map(drop)
    }

    /// Returns the retention rules of `session`, or those of sessions without their own; `None` if
    /// there are none.
    ///
    /// # Errors
    /// `Corrupt` if the rules cannot be read.
    pub fn retention(&self, session: Option<&str>) -> Result<Option<Retention>> {
        self.refresh()?;
        let store = self.inner.store();
        let policies = Policies::load(store, &store.refs())?;
        let policy = match session {
            Some(session) => policies.of(session),
            None => policies.default.as_ref(),
        };
        Ok(policy.map(|policy| Retention {
            turns: policy.keep_last,
            seconds: policy.keep_within.map(seconds),
            budget_bytes: policy.budget_bytes,
        }))
    }

    /// Applies retention and frees unreachable content; with `repack` it then recompresses
    /// everything. Other processes can read and write concurrently. Costs a walk through the store,
    /// and writing the kept content.
    ///
    /// # Errors
    /// `Locked` while another collection runs, `Corrupt` if the store is damaged, `Io` if the
    /// system refuses. The store is unchanged after an error.
    pub fn collect(&self, repack: bool) -> Result<Collected> {
        let stamp = self.stamp();
        let mut done = collect(&self.inner, Purpose::Gc, &stamp, &mut |_| ())?;
        if repack {
            let purpose = Purpose::Repack(Tier::Compacted);
            done.written_bytes += collect(&self.inner, purpose, &stamp, &mut |_| ())?.written_bytes;
        }
        Ok(done)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "bounds are checked before")]
fn micros(seconds: f64) -> Result<i64> {
    let micros = seconds * MICROS_PER_SECOND;
    match (0.0..1e18).contains(&micros) {
        true => Ok(micros as i64),
        false => {
            Err(Error::invalid(format!("{seconds} is not an age in seconds: expected 0 or more")))
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "an age of centuries in microseconds is exact")]
fn seconds(micros: i64) -> f64 {
    micros as f64 / MICROS_PER_SECOND
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_session_keeps_what_it_is_told_to_until_it_is_told_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        let repo = Repo::create(folder.path().join("s")).unwrap();
        let session = repo.session("task").unwrap();
        for turn in 0..2 {
            let mut next = session.turn().unwrap();
            next.set("scratchpad/plan", turn.to_string()).unwrap();
            next.commit("turn").unwrap();
        }
        let rules = Retention { turns: Some(9), seconds: Some(1.5), ..Retention::default() };
        repo.retain(Some("task"), &rules).unwrap();
        let policies = || {
            let store = repo.repository().store();
            Policies::load(store, &store.refs()).unwrap()
        };
        let kept = policies().of("task").map(|policy| (policy.keep_last, policy.keep_within));
        assert_eq!(kept, Some((Some(9), Some(1_500_000))));
        assert_eq!(policies().of("other"), None);
        assert_eq!(repo.retention(Some("task")).unwrap(), Some(rules));
        assert_eq!(repo.retention(None).unwrap(), None);
        repo.retain(Some("task"), &Retention::default()).unwrap();
        assert_eq!(policies().of("task"), None);
        assert!(repo.collect(true).unwrap().written_bytes > 0);
        assert_eq!(session.history().unwrap().count(), 2);
        for seconds in [-1.0, f64::NAN, f64::INFINITY, 1e13] {
            let rules = Retention { seconds: Some(seconds), ..Retention::default() };
            let refused = repo.retain(None, &rules).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{seconds}");
        }
    }
}
