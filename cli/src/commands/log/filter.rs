//! `log`: filters snapshots by their commits.

use clap::Args;
use turntree::object::Trigger;
use turntree::repo::{LogEntry, Pickaxe, PickaxeMatch, Prompts};
use turntree::{Error, Result};
use turntree_exchange::context_tokens;

use crate::view::moment::moment;

/// Conditions for a snapshot; all given ones must hold.
#[derive(Debug, Args)]
pub(crate) struct Filter {
    /// Only snapshots taken later than TIME, such as 2026-01-21T12:00:00Z or 3.hours.ago
    #[arg(long, value_name = "TIME", alias = "after", value_parser = moment)]
    since: Option<i64>,
    /// Only snapshots taken earlier than TIME
    #[arg(long, value_name = "TIME", alias = "before", value_parser = moment)]
    until: Option<i64>,
    /// Only snapshots taken for this reason; see 'snapshot --trigger'
    #[arg(long, value_name = "TRIGGER", value_parser = trigger)]
    trigger: Option<Trigger>,
    /// Only snapshots whose message contains TEXT
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// Only contexts of more than N tokens; those of unknown size are left out
    #[arg(long, value_name = "N")]
    tokens_above: Option<u64>,
    /// Only contexts of fewer than N tokens; those of unknown size are left out
    #[arg(long, value_name = "N")]
    tokens_below: Option<u64>,
    /// Only snapshots with this metadata, such as ollm/id=ID; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = fact)]
    meta: Vec<(String, String)>,
}

impl Filter {
    /// Returns true if any condition is set.
    pub(super) fn is_any(&self) -> bool {
        let Self { since, until, trigger, message, tokens_above, tokens_below, meta } = self;
        since.or(*until).is_some()
            || trigger.is_some()
            || message.is_some()
            || tokens_above.or(*tokens_below).is_some()
            || !meta.is_empty()
    }

    fn admits(&self, entry: &LogEntry) -> bool {
        let commit = &entry.commit;
        let tokens = context_tokens(commit);
        let is = |fact: &(String, String)| {
            let found = commit.metadata.get(&fact.0);
            // An import stores the value as its original JSON.
            found.is_some_and(|found| {
                *found == fact.1
                    || serde_json::from_str::<String>(found).is_ok_and(|text| text == fact.1)
            })
        };
        self.since.is_none_or(|since| commit.time.micros > since)
            && self.until.is_none_or(|until| commit.time.micros < until)
            && self.trigger.is_none_or(|trigger| commit.trigger == trigger)
            && self.message.as_ref().is_none_or(|text| commit.message.contains(text))
            && self.tokens_above.is_none_or(|least| tokens.is_some_and(|tokens| tokens > least))
            && self.tokens_below.is_none_or(|most| tokens.is_some_and(|tokens| tokens < most))
            && self.meta.iter().all(is)
    }
}

/// The snapshots to show: filtered by commits first, then by the changes of turns, which costs
/// more.
pub(crate) struct Wanted<'w, 'r> {
    pub(crate) filter: &'w Filter,
    pub(crate) touches: Option<Pickaxe<'r>>,
    /// Counts prompts, if only prompts are shown.
    pub(crate) prompts: Option<Prompts<'r>>,
    /// True once a snapshot was shown.
    pub(crate) has_shown: bool,
}

impl Wanted<'_, '_> {
    /// Returns true if a snapshot is shown.
    pub(super) fn shows(&mut self, entry: &LogEntry) -> crate::view::error::Result<bool> {
        let is_prompt = match &mut self.prompts {
            Some(prompts) if self.filter.admits(entry) => prompts.number(entry)?.is_some(),
            _ => true,
        };
        let is_shown = match &mut self.touches {
            _ if !is_prompt || !self.filter.admits(entry) => false,
            Some(touches) => touches.of(entry)? == PickaxeMatch::Yes,
            None => true,
        };
        self.has_shown |= is_shown;
        Ok(is_shown)
    }

    /// Returns true if any snapshot may be left out.
    pub(super) fn is_any(&self) -> bool {
        self.touches.is_some() || self.prompts.is_some() || self.filter.is_any()
    }
}

fn trigger(text: &str) -> Result<Trigger> {
    text.parse()
}

fn fact(text: &str) -> Result<(String, String)> {
    let fact = text.split_once('=').filter(|(name, _)| !name.is_empty());
    fact.map(|(name, value)| (name.to_owned(), value.to_owned()))
        .ok_or_else(|| Error::invalid(format!("'{text}': expected NAME=VALUE")))
}
