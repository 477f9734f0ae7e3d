//! Usage thresholds: a snapshot is due when usage crosses a share of the context window.

use clap::Args;
use turntree::object::{Time, Trigger};
use turntree::repo::watch::{Decision, UsageLevel, Watch, WatchState};
use turntree::repo::{BranchName, Repository, Signature, SnapshotDraft, Transaction};
use turntree::{Error, ErrorKind};
use turntree_exchange::TOKENS;

use crate::view::error::{Hint, Result};
use crate::view::units::parse_duration;
use crate::view::{clock, json};

/// Shares of a context window at which a snapshot is due.
#[derive(Debug, Default, Args)]
pub(crate) struct Thresholds {
    /// The lowest share that counts, instead of 0.85
    #[arg(long, value_name = "SHARE", value_parser = share)]
    auto_at: Option<f64>,
    /// Take no further snapshot for the same share within this time; 60s by default
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    cooldown: Option<i64>,
}

/// Usage of a context window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContextUsage {
    share: f64,
    /// Tokens, if they were given.
    tokens: Option<u64>,
}

/// The result of a check.
pub(crate) struct DueCheck {
    /// The crossed level; `None` if no snapshot is due.
    pub(crate) level: Option<UsageLevel>,
    /// Tokens of the context, if they were given.
    pub(crate) tokens: Option<u64>,
    /// The observations, if they should be stored.
    pub(crate) state: Option<WatchState>,
    /// The JSON record of the check.
    pub(crate) told: json::Watched,
}

impl Thresholds {
    /// Checks whether a snapshot of `branch` is due at this usage.
    pub(crate) fn check(
        &self,
        ContextUsage { share, tokens }: ContextUsage,
        repo: &Repository,
        branch: &BranchName,
        is_empty: bool,
        stamp: &Signature,
    ) -> Result<DueCheck> {
        let mut watch = Watch::default();
        if let Some(at) = self.auto_at {
            // Lower levels would be crossed together with the lowest one.
            watch.levels.retain(|level| level.at > at || level.name == "auto");
            watch
                .levels
                .iter_mut()
                .filter(|level| level.name == "auto")
                .for_each(|level| level.at = at);
        }
        watch.cooldown = self.cooldown.unwrap_or(watch.cooldown);
        let before = WatchState::load(repo, branch)?;
        let mut state = before.clone();
        let told = |reason, level: Option<&UsageLevel>, until: Option<i64>| json::Watched {
            taken: reason == "crossed",
            reason,
            usage: share,
            level: level.map(|level| level.name),
            at: level.map(|level| level.at),
            until: until.map(|micros| clock::rfc3339(Time { micros, offset_minutes: 0 })),
        };
        if is_empty {
            let told = told("empty", None, None);
            return Ok(DueCheck { level: None, tokens, state: None, told });
        }
        let decision = watch.observe(&mut state, share, stamp.time.micros);
        let (level, told) = match decision {
            Decision::Fire(level) => (Some(level.clone()), told("crossed", Some(level), None)),
            Decision::Below => (None, told("below", None, None)),
            Decision::Fired(level) => (None, told("above", Some(level), None)),
            Decision::Cooling { level, until } => (None, told("cooling", Some(level), Some(until))),
        };
        Ok(DueCheck { level, tokens, state: (state != before).then_some(state), told })
    }
}

impl DueCheck {
    /// Stores the observations if no snapshot is taken.
    pub(crate) fn keep(
        &self,
        repo: &Repository,
        branch: &BranchName,
        stamp: &Signature,
    ) -> Result<()> {
        let Some(state) = &self.state else { return Ok(()) };
        let mut change = repo.begin();
        state.keep(&mut change, branch)?;
        change.commit(stamp, "watch").hint(ErrorKind::Conflict, "try again")?;
        Ok(())
    }

    /// Records the reason in the snapshot, and stores the observations with it.
    pub(crate) fn apply(
        &self,
        change: &mut Transaction<'_>,
        branch: &BranchName,
        draft: &mut SnapshotDraft,
    ) -> Result<()> {
        if let Some(level) = self.level.as_ref().filter(|_| draft.trigger == Trigger::Manual) {
            draft.trigger = level.trigger;
        }
        draft.metadata.insert("usage".to_owned(), self.told.usage.to_string());
        if let Some(tokens) = self.tokens {
            draft.metadata.insert(TOKENS.to_owned(), tokens.to_string());
        }
        match &self.state {
            Some(state) => Ok(state.keep(change, branch)?),
            None => Ok(()),
        }
    }

    /// Explains why a snapshot was or was not taken.
    pub(crate) fn words(&self) -> String {
        let json::Watched { reason, usage, at, until, .. } = &self.told;
        let (usage, at) = (percent(*usage), at.map(percent).unwrap_or_default());
        match *reason {
            "crossed" => format!("usage {usage} has crossed {at}"),
            "above" => {
                format!("no snapshot: usage {usage} has stayed over {at} since the last one")
            }
            "cooling" => {
                let until = until.as_deref().unwrap_or_default();
                format!(
                    "no snapshot: usage {usage} has crossed {at} again within the cooldown, which ends at {until}"
                )
            }
            "empty" => "no snapshot: the conversation has no messages yet".to_owned(),
            _ => format!("no snapshot: usage {usage} is below the lowest threshold"),
        }
    }
}

fn percent(share: f64) -> String {
    let tenths = format!("{:.1}", share * 100.0);
    format!("{} %", tenths.strip_suffix(".0").unwrap_or(&tenths))
}

fn share(text: &str) -> turntree::Result<f64> {
    let share: Option<f64> = text.parse().ok();
    share
        .filter(|share| (0.0..=1000.0).contains(share))
        .ok_or_else(|| Error::invalid(format!("'{text}': expected a share such as 0.87")))
}

/// Parses a share such as 0.87, or tokens such as 7000/8192.
pub(crate) fn parse_usage(text: &str) -> turntree::Result<ContextUsage> {
    let Some((used, size)) = text.split_once('/') else {
        return Ok(ContextUsage { share: share(text)?, tokens: None });
    };
    let (used, size): (Option<u32>, Option<u32>) = (used.parse().ok(), size.parse().ok());
    match (used, size) {
        (Some(used), Some(size)) if size > 0 => {
            Ok(ContextUsage { share: f64::from(used) / f64::from(size), tokens: Some(used.into()) })
        }
        _ => Err(Error::invalid(format!("'{text}': expected tokens such as 7000/8192"))),
    }
}
