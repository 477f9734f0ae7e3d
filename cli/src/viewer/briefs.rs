//! Sends briefs of sessions that a list shows: a picture of their newest turns, the outcome, the
//! cost.
//!
//! Each session costs a bounded number of turns, once for each of its snapshots.

use std::collections::BTreeSet;

use serde::Serialize;
use turntree::repo::Repository;
use turntree_exchange::session_brief;

use super::known_briefs::BriefRecord;
use super::lines::Lines;
use super::store::WatchedStore;
use crate::porcelain::read::prices::Prices;
use crate::view::error::Result;

/// The newest turns of a session that are read. A longer session costs at least as much as these.
const MAX_TURNS: usize = 500;

/// A line of an answer.
#[derive(Serialize)]
struct BriefLine<'a> {
    session: &'a str,
    #[serde(flatten)]
    brief: BriefRecord,
}

/// Sends briefs of sessions, each as soon as it is read, in the order asked for. Leaves out those
/// that the store does not have, and those that cannot be read: their own page says why.
pub(super) fn write(
    store: &WatchedStore,
    repo: &Repository,
    sessions: &[String],
    out: &mut Lines,
) -> Result<()> {
    let prices = Prices::of(None)?.table;
    let names: BTreeSet<&str> = sessions.iter().map(String::as_str).collect();
    let summaries = store.sessions().named(repo, &names)?;
    for (session, summary) in sessions.iter().filter_map(|name| summaries.get_key_value(name)) {
        if out.is_left() {
            break;
        }
        let brief = match store.briefs().get(&summary.tip) {
            Some(brief) => brief,
            None => {
                let Ok(read) = session_brief(repo, &summary.tip, &prices, MAX_TURNS) else {
                    continue;
                };
                let brief = BriefRecord::of(&read);
                store.briefs().keep(summary.tip, brief.clone());
                brief
            }
        };
        out.put_line(&BriefLine { session, brief })?;
    }
    Ok(())
}
