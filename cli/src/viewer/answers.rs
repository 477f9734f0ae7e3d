//! Answers from the store: sessions, the turns of a session, texts and messages, branches side by
//! side.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::Serialize;
use turntree::object::{ObjectId, ObjectSource, Time};
use turntree::repo::Repository;
use turntree::{Error, ErrorKind};
use turntree_exchange::render::{
    MAX_STARTS, Page, PageBranch, WantedTurns, write_parts, write_turns,
};
use turntree_exchange::{SessionRow, SessionSummary};

use super::briefs;
use super::hits;
use super::lines::Lines;
use super::routes::{Question, StoryPart, WantedSessions};
use super::screens;
use super::store::WatchedStore;
use super::waiting::Waiting;
use crate::porcelain::read::comparison::{Compared, Line, lines_of};
use crate::porcelain::read::prices::Prices;
use crate::program::live::live_sessions;
use crate::view::error::Result;
use crate::view::json::SessionRecord;
use crate::view::{clock, json};

/// The most branches of a story and of a comparison: as many lines as a story continues from.
const MAX_BRANCHES: usize = MAX_STARTS;

/// The largest number of changed sessions that the first list of a page waits for.
const FEW_CHANGED: usize = 64;

/// The text at the foot of a page.
const MADE_BY: &str = concat!("turntree ", env!("CARGO_PKG_VERSION"));

/// Answers a question.
pub(super) fn write(store: &WatchedStore, question: &Question, out: &mut Lines) -> Result<()> {
    store.heed(answer(store, &*store.repo()?, question, out))
}

fn answer(
    store: &WatchedStore,
    repo: &Repository,
    question: &Question,
    out: &mut Lines,
) -> Result<()> {
    match question {
        // Events are sent by the watched store.
        Question::Events => Ok(()),
        Question::Sessions(wanted) => out.put(&sessions(store, repo, wanted)?),
        Question::Briefs { sessions } => briefs::write(store, repo, sessions, out),
        Question::Story(part) => story(store, repo, part, out),
        Question::Parts(parts) => Ok(write_parts(repo, parts, out)?),
        Question::Words { words, from } => hits::words(store, repo, words, *from as u64, out),
        Question::Search { text, session } => {
            hits::text(store, repo, text, session.as_deref(), out)
        }
        Question::Compare { session, is_aligned } => {
            let (lines, more) = branches(store, repo, session)?;
            let (branches, prices) = (lines.len() + more, Prices::of(None)?.table);
            let compared = match is_aligned {
                true => Compared::aligned(repo, lines, &prices)?,
                false => Compared::of(repo, lines, &prices)?,
            };
            out.put(&BranchesCompared { comparison: compared.record(), branches })
        }
        Question::Explorations { session } => {
            store.with_spent(|spent| screens::explorations(repo, session, spent, out))
        }
        Question::Files { at, path, from } => screens::files(repo, at, path, *from, out),
        Question::Blame { at, path } => screens::blame(repo, at, path, out),
        Question::Usage { by } => screens::usage(repo, *by, out),
        Question::Storage => screens::storage(repo, out),
        Question::Operations { before, most } => screens::operations(repo, *before, *most, out),
        Question::Labels { session } => out.put(&labels(repo, session)?),
        Question::Conflicts { branch } => screens::conflicts(repo, branch, out),
    }
}

/// A session of an answer.
#[derive(Serialize)]
struct ListedRow {
    #[serde(flatten)]
    record: SessionRecord,
    /// The number of open conflicts on its newest branches.
    conflicts: u64,
    /// The moment from which it is forgotten, if that is soon.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    /// The number of open secrets that scans found in it.
    secrets: u64,
}

/// Sessions of an answer.
#[derive(Serialize)]
struct Sessions {
    sessions: Vec<ListedRow>,
    /// The offset of the first of these sessions, and of the next answer.
    from: usize,
    next: Option<usize>,
    /// The number of matching sessions, and of all sessions.
    total: usize,
    all: usize,
    /// The agents and labels to filter by, each with its number of sessions; null until they are
    /// counted.
    agents: Option<Vec<(String, usize)>>,
    labels: Option<Vec<(String, usize)>>,
    /// The number of sessions with open conflicts, of those that are forgotten soon, and of those
    /// with secrets; null until they are counted.
    undecided: Option<usize>,
    expiring: Option<usize>,
    secrets: Option<usize>,
}

fn sessions(store: &WatchedStore, repo: &Repository, wanted: &WantedSessions) -> Result<Sessions> {
    let now = clock::now()?;
    let live = live_sessions(repo, now)?;
    let end = wanted.from.saturating_add(wanted.most);
    let known = store.sessions();
    if wanted.is_first && known.changed(repo) > FEW_CHANGED {
        // Agents and labels are counted once all sessions have been read.
        let (newest, all) = known.newest(repo, end)?;
        let page = newest.iter().skip(wanted.from);
        return Ok(Sessions {
            sessions: page.map(|it| listed(it, &live, None)).collect(),
            from: wanted.from,
            next: (end < all).then_some(end),
            total: all,
            all,
            agents: None,
            labels: None,
            undecided: None,
            expiring: None,
            secrets: None,
        });
    }
    let waiting = store.expiries().waiting(repo, now)?;
    let table = known.table(repo)?;
    let by_words = || table.listed().filter(|session| has_words(session, &wanted.words));
    let (mut agents, mut labels) = (BTreeMap::new(), BTreeMap::new());
    for session in by_words() {
        count(&mut agents, session.agent());
        session.labels().for_each(|label| count(&mut labels, label));
    }
    let fits = |session: &SessionRow<'_>| {
        wanted.agent.as_ref().is_none_or(|agent| session.agent() == agent)
            && wanted.label.as_ref().is_none_or(|label| session.labels().any(|it| it == label))
            && (!wanted.live || live.contains(session.name()))
            && (!wanted.undecided || session.conflicts() > 0)
            && (!wanted.expiring || waiting.expiring.contains_key(session.name()))
            && (!wanted.secrets || waiting.secrets.contains_key(session.name()))
    };
    let fitting: Vec<SessionRow<'_>> = by_words().filter(fits).collect();
    let total = fitting.len();
    let around = wanted.around.as_ref();
    let place = around.and_then(|name| fitting.iter().position(|row| row.name() == name));
    let from = place.map_or(wanted.from, |at| at.saturating_sub(wanted.most / 2));
    let end = from.saturating_add(wanted.most);
    let page = fitting.iter().skip(from).take(wanted.most);
    let record = |row| Ok(listed(&known.summary(repo, row)?, &live, Some(&waiting)));
    let many =
        |is_one: &dyn Fn(&SessionRow<'_>) -> bool| Some(table.listed().filter(is_one).count());
    Ok(Sessions {
        sessions: page.map(record).collect::<Result<_>>()?,
        from,
        next: (end < total).then_some(end),
        total,
        all: table.listed().count(),
        agents: Some(most_first(agents)),
        labels: Some(most_first(labels)),
        undecided: many(&|row| row.conflicts() > 0),
        expiring: many(&|row| waiting.expiring.contains_key(row.name())),
        secrets: many(&|row| waiting.secrets.contains_key(row.name())),
    })
}

fn listed(
    session: &SessionSummary,
    live: &HashSet<String>,
    waiting: Option<&Waiting>,
) -> ListedRow {
    let expires = waiting.and_then(|waiting| waiting.expiring.get(&session.name));
    let secrets = waiting.and_then(|waiting| waiting.secrets.get(&session.name));
    ListedRow {
        conflicts: session.conflicts,
        expires: expires.map(|end| clock::rfc3339(*end)),
        secrets: secrets.copied().unwrap_or_default(),
        record: SessionRecord::new(session, live.contains(&session.name)),
    }
}

fn count(counted: &mut BTreeMap<String, usize>, name: &str) {
    match counted.get_mut(name) {
        Some(number) => *number += 1,
        None => drop(counted.insert(name.to_owned(), 1)),
    }
}

fn has_words(session: &SessionRow<'_>, words: &[String]) -> bool {
    if words.is_empty() {
        return true;
    }
    let text = session.text().to_lowercase();
    words.iter().all(|word| text.contains(word.as_str()))
}

fn most_first(counted: BTreeMap<String, usize>) -> Vec<(String, usize)> {
    let mut counted: Vec<_> = counted.into_iter().collect();
    counted.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    counted
}

/// A comparison of branches of a session.
#[derive(Serialize)]
struct BranchesCompared {
    #[serde(flatten)]
    comparison: json::Comparison,
    /// The number of branches of the session, which may be more than are compared.
    branches: usize,
}

/// The branches of a session, main first, and the number of those beyond [`MAX_BRANCHES`]: then
/// they are the newest.
fn branches(store: &WatchedStore, repo: &Repository, session: &str) -> Result<(Vec<Line>, usize)> {
    let mut lines = lines_of(repo, session);
    if lines.is_empty() {
        let missing = format!("there is no session {session}");
        return Err(Error::new(ErrorKind::NotFound, missing).into());
    }
    let is_other = |line: &Line| line.name != turntree::repo::MAIN_BRANCH;
    let more = lines.len().saturating_sub(MAX_BRANCHES);
    if more > 0 {
        let tips = store.sessions().tips(repo, session)?;
        let times: HashMap<ObjectId, Time> = tips.iter().map(|tip| (tip.id, tip.time)).collect();
        lines.sort_by_key(|line| (is_other(line), Reverse(times.get(&line.tip).copied())));
        lines.truncate(MAX_BRANCHES);
        lines.sort_by(|one, other| one.name.cmp(&other.name));
    }
    lines.sort_by_key(is_other);
    Ok((lines, more))
}

fn labels(repo: &Repository, session: &str) -> Result<json::SessionLabelled> {
    let said = repo.session_labels(session)?;
    let labels = said.labels.into_iter().collect();
    Ok(json::SessionLabelled { session: session.to_owned(), title: said.title, labels })
}

fn story(store: &WatchedStore, repo: &Repository, part: &StoryPart, out: &mut Lines) -> Result<()> {
    let session = part.session.as_str();
    let (lines, more) = branches(store, repo, session)?;
    let page_branch = |line: &Line| PageBranch { name: line.name.clone(), tip: line.tip };
    let branches: Vec<PageBranch> = lines.iter().map(page_branch).collect();
    let summary = store.sessions().named(repo, &BTreeSet::from([session]))?.remove(session);
    let title = summary.as_ref().and_then(|summary| summary.title()).map(|(title, _)| title);
    let labels: Vec<String> = repo.session_labels(session)?.labels.into_iter().collect();
    let page = Page {
        title: title.unwrap_or(session),
        description: "",
        labels: &labels,
        branches: &branches,
        more,
        comparison: None,
        made_by: MADE_BY,
        prices: &Prices::of(None)?.table,
        show_time: &clock::rfc3339,
        steps: None,
    };
    // Skips known turns that this store no longer has: they cannot be left out of the answer.
    let is_there = |id: &ObjectId| repo.contains(id);
    let known = part.known.iter().map(|id| Ok((*id, is_there(id)?)));
    let known: Vec<(ObjectId, bool)> = known.collect::<turntree::Result<_>>()?;
    let known: Vec<ObjectId> = known.into_iter().filter(|it| it.1).map(|it| it.0).collect();
    let wanted = WantedTurns { known: &known, from: &part.from, most: part.most };
    Ok(write_turns(repo, &page, &wanted, out)?)
}
