//! Answers from the store: sessions, the turns of one, texts and messages, branches side by side.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use turntree::object::{ObjectId, ObjectSource};
use turntree::repo::Repository;
use turntree::{Error, ErrorKind};
use turntree_exchange::render::{Page, PageBranch, write_parts, write_turns};

use super::hits;
use super::lines::Lines;
use super::routes::{Question, WantedSessions};
use super::screens;
use super::store::WatchedStore;
use crate::porcelain::comparison::{Compared, Line, lines_of};
use crate::porcelain::prices::Prices;
use crate::porcelain::sessions::{ListedSession, Wanted, list};
use crate::view::error::Result;
use crate::view::{clock, json};

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
        // Told by the store itself.
        Question::Events => Ok(()),
        Question::Sessions(wanted) => out.put(&sessions(store, repo, wanted)?),
        Question::Story { session, known } => story(store, repo, session, known, out),
        Question::Parts(parts) => Ok(write_parts(repo, parts, out)?),
        Question::Words { words, from } => hits::words(store, repo, words, *from as u64, out),
        Question::Search { text, session } => {
            hits::text(store, repo, text, session.as_deref(), out)
        }
        Question::Compare { session } => {
            let lines = branches(repo, session)?;
            out.put(&Compared::of(repo, lines, &Prices::of(None)?.table)?.record())
        }
        Question::Files { at, path, from } => screens::files(repo, at, path, *from, out),
        Question::Blame { at, path } => screens::blame(repo, at, path, out),
        Question::Storage => screens::storage(repo, out),
        Question::Operations { before, most } => screens::operations(repo, *before, *most, out),
        Question::Labels { session } => out.put(&labels(repo, session)?),
        Question::Conflicts { branch } => screens::conflicts(repo, branch, out),
    }
}

/// Sessions of an answer.
#[derive(Serialize)]
struct Sessions {
    sessions: Vec<json::SessionRecord>,
    /// Where the next answer goes on.
    next: Option<usize>,
    /// Sessions that are wanted, and all that there are.
    total: usize,
    all: usize,
    /// What can be asked for, with the number of sessions of each.
    agents: Vec<(String, usize)>,
    labels: Vec<(String, usize)>,
}

fn sessions(store: &WatchedStore, repo: &Repository, wanted: &WantedSessions) -> Result<Sessions> {
    let (listed, all) = list(repo, store.sessions(), &Wanted::default(), clock::now()?)?;
    let by_words: Vec<ListedSession> =
        listed.into_iter().filter(|session| has_words(session, &wanted.words)).collect();
    let (mut agents, mut labels) = (BTreeMap::new(), BTreeMap::new());
    for ListedSession { summary, .. } in &by_words {
        *agents.entry(summary.agent.clone()).or_insert(0) += 1;
        for label in &summary.labels.labels {
            *labels.entry(label.clone()).or_insert(0) += 1;
        }
    }
    let fits = |session: &ListedSession| {
        let ListedSession { summary, is_live, .. } = session;
        wanted.agent.as_ref().is_none_or(|agent| summary.agent == *agent)
            && wanted.label.as_ref().is_none_or(|label| summary.labels.labels.contains(label))
            && (*is_live || !wanted.live)
    };
    let fitting: Vec<ListedSession> = by_words.into_iter().filter(fits).collect();
    let total = fitting.len();
    let end = wanted.from.saturating_add(wanted.most);
    let page = fitting.into_iter().skip(wanted.from).take(wanted.most);
    Ok(Sessions {
        sessions: page.map(|it| json::SessionRecord::new(&it.summary, it.is_live)).collect(),
        next: (end < total).then_some(end),
        total,
        all,
        agents: most_first(agents),
        labels: most_first(labels),
    })
}

fn has_words(session: &ListedSession, words: &[String]) -> bool {
    if words.is_empty() {
        return true;
    }
    let summary = &session.summary;
    let title = summary.title().map_or("", |(title, _)| title);
    let mut texts = vec![title, &summary.name, &summary.agent, &summary.model];
    texts.extend(summary.origin.git_branch.as_deref());
    texts.extend(summary.origin.directories.iter().map(String::as_str));
    texts.extend(summary.labels.labels.iter().map(String::as_str));
    let text = texts.join("\n").to_lowercase();
    words.iter().all(|word| text.contains(word.as_str()))
}

fn most_first(counted: BTreeMap<String, usize>) -> Vec<(String, usize)> {
    let mut counted: Vec<_> = counted.into_iter().collect();
    counted.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    counted
}

/// The branches of a session, main first.
fn branches(repo: &Repository, session: &str) -> Result<Vec<Line>> {
    let mut lines = lines_of(repo, session);
    if lines.is_empty() {
        let missing = format!("there is no session {session}");
        return Err(Error::new(ErrorKind::NotFound, missing).into());
    }
    lines.sort_by_key(|line| line.name != turntree::repo::MAIN_BRANCH);
    Ok(lines)
}

fn labels(repo: &Repository, session: &str) -> Result<json::SessionLabelled> {
    let said = repo.session_labels(session)?;
    let labels = said.labels.into_iter().collect();
    Ok(json::SessionLabelled { session: session.to_owned(), title: said.title, labels })
}

fn story(
    store: &WatchedStore,
    repo: &Repository,
    session: &str,
    known: &[ObjectId],
    out: &mut Lines,
) -> Result<()> {
    let lines = branches(repo, session)?;
    let page_branch = |line: &Line| PageBranch { name: line.name.clone(), tip: line.tip };
    let branches: Vec<PageBranch> = lines.iter().map(page_branch).collect();
    let summary = store.sessions().named(repo, &BTreeSet::from([session]))?.remove(session);
    let title = summary.as_ref().and_then(|summary| summary.title()).map(|(title, _)| title);
    let labels: Vec<String> = repo.session_labels(session)?.labels.into_iter().collect();
    let page = Page {
        title: title.unwrap_or(session),
        labels: &labels,
        branches: &branches,
        comparison: None,
        made_by: MADE_BY,
        prices: &Prices::of(None)?.table,
        show_time: &clock::rfc3339,
    };
    // What a page has and this store has no more cannot be left out.
    let is_there = |id: &ObjectId| repo.store().contains(id);
    let known = known.iter().map(|id| Ok((*id, is_there(id)?)));
    let known: Vec<(ObjectId, bool)> = known.collect::<turntree::Result<_>>()?;
    let known: Vec<ObjectId> = known.into_iter().filter(|it| it.1).map(|it| it.0).collect();
    Ok(write_turns(repo, &page, &known, out)?)
}
