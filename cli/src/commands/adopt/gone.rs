//! Reports sessions whose files their agents deleted after an adoption.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use turntree::repo::Repository;
use turntree::workspace::AdoptionCache;
use turntree_exchange::agents::SessionPlace;

use crate::view::error::Result;
use crate::view::output::{NAME, Output};
use crate::view::render::count;

/// Most sessions that are named for an agent.
const MAX_NAMED: usize = 3;

/// The sessions that the store has and their agents no longer have, by agent.
#[derive(Debug, Default)]
pub(super) struct Gone(BTreeMap<String, Vec<String>>);

impl Gone {
    /// Looks for the files of all adopted sessions in these places.
    pub(super) fn of(repo: &Repository, places: &[SessionPlace]) -> Self {
        let mut gone: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let agent_of = |path: &Path| {
            let is_above = |place: &&SessionPlace| path.starts_with(&place.path);
            places.iter().find(is_above).map(|place| place.agent.clone())
        };
        for (path, branch) in AdoptionCache::peek(repo).missing(&repo.refs()) {
            let Some(agent) = agent_of(path) else { continue };
            gone.entry(agent).or_default().push(branch.session().to_owned());
        }
        for sessions in gone.values_mut() {
            sessions.sort();
            sessions.dedup();
        }
        Self(gone)
    }

    /// Prints a line for each agent.
    pub(super) fn print(&self, out: &mut Output) -> Result<()> {
        for (agent, sessions) in &self.0 {
            let named: Vec<_> =
                sessions.iter().take(MAX_NAMED).map(|name| out.names().session(name)).collect();
            let more = if sessions.len() > MAX_NAMED { ", ..." } else { "" };
            let named = format!("{}{more}", named.join(", "));
            let gone = count(sessions.len() as u64, "session");
            let here = if sessions.len() == 1 { "it is" } else { "all are" };
            let agent = out.paint.paint(NAME, agent);
            writeln!(
                out,
                "{agent} no longer has {gone}, {here} in the store: {named}; 'turntree sessions \
                 --gone' lists them, 'turntree resume SESSION' gives one back"
            )?;
        }
        Ok(())
    }

    /// The agents that lack sessions.
    pub(super) fn agents(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// The number of these sessions of an agent.
    pub(super) fn of_agent(&self, agent: &str) -> u64 {
        self.0.get(agent).map_or(0, |sessions| sessions.len() as u64)
    }
}
