//! Sessions: finds the named one, and lists them.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use turntree::object::Time;
use turntree::repo::{Repository, SessionLabels, Transaction};
use turntree::workspace::AdoptionCache;
use turntree::{Error, ErrorKind};
use turntree_exchange::{
    KnownSessions, SessionBrief, SessionRow, SessionSummary, TurnKind, find_session, session_brief,
};

use super::prices::Prices;
use crate::program::here::Here;
use crate::program::invocation::stamp;
use crate::program::live::live_sessions;
use crate::program::moved_project::MovedProject;
use crate::view::advice::Advice;
use crate::view::clock;
use crate::view::error::{Failure, Result};
use crate::view::output::{ADDED, FAINT, NAME, Output, STRONG};
use crate::view::render::spending::cost;
use crate::view::render::table::{Cell, Column, Table};
use crate::view::render::{one_line, short_number};
use crate::view::short_names::ShortNames;

/// The columns that a list leaves to titles, by which people recognise sessions.
pub(crate) const TITLE_COLUMNS: usize = 36;

/// The width of a terminal from which a list shows what sessions did and cost.
const BRIEF_COLUMNS: usize = 120;

/// The most sessions, and turns of each, that are read for it.
const MAX_BRIEFS: usize = 60;
const BRIEF_TURNS: usize = 200;

/// The most bars of a picture.
const SPARK_COLUMNS: usize = 14;

/// Conditions for a session; all given ones must hold.
#[derive(Debug, Default)]
pub(crate) struct Wanted<'w> {
    /// Recorded in this directory or above.
    pub(crate) here: Option<&'w Here>,
    /// Recorded by this agent.
    pub(crate) agent: Option<&'w str>,
    /// With a snapshot after this time.
    pub(crate) since: Option<i64>,
    /// With all of these labels.
    pub(crate) labels: &'w [String],
    /// With a file that was adopted and no longer exists.
    pub(crate) is_gone: bool,
}

/// A session in a list.
#[derive(Debug)]
pub(crate) struct ListedSession {
    pub(crate) summary: SessionSummary,
    /// The short name for people, which also finds the session.
    pub(crate) handle: String,
    /// True if a client probably writes it now.
    pub(crate) is_live: bool,
}

/// The sessions of a list.
#[derive(Debug)]
pub(crate) struct ListedSessions {
    /// Newest first.
    pub(crate) sessions: Vec<ListedSession>,
    /// The number of matching sessions, and of all sessions.
    pub(crate) matching: usize,
    pub(crate) all: usize,
}

impl Wanted<'_> {
    fn admits(
        &self,
        session: &SessionRow<'_>,
        moved: &MovedProject,
        gone: &HashSet<String>,
    ) -> bool {
        let is_here = |here: &Here| {
            let directories: Vec<_> =
                session.directories().map(|dir| moved.present(Path::new(dir))).collect();
            here.is_place_of(&directories)
        };
        self.since.is_none_or(|since| session.time().micros > since)
            && self.agent.is_none_or(|agent| is_of_agent(session.agent(), agent))
            && self.labels.iter().all(|label| session.labels().any(|it| it == label))
            && self.here.is_none_or(is_here)
            && (!self.is_gone || gone.contains(session.name()))
    }
}

/// Returns true if `agent` is `wanted`, or a file format of it: `gemini-cli-log` belongs to
/// `gemini-cli`.
fn is_of_agent(agent: &str, wanted: &str) -> bool {
    agent.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Returns the newest `most` matching sessions, without the first `from`. Unchanged sessions are not
/// read again.
pub(crate) fn list(
    repo: &Repository,
    known: &KnownSessions,
    wanted: &Wanted<'_>,
    now: Time,
    (from, most): (usize, usize),
) -> Result<ListedSessions> {
    let table = known.table(repo)?;
    let (live, moved) = (live_sessions(repo, now)?, MovedProject::of(repo));
    let gone = if wanted.is_gone { gone_sessions(repo) } else { HashSet::new() };
    let admitted = table.listed().filter(|session| wanted.admits(session, &moved, &gone));
    let matching: Vec<SessionRow<'_>> = admitted.collect();
    let shown: Vec<SessionRow<'_>> = matching.iter().skip(from).take(most).copied().collect();
    let names = ShortNames::of(repo.refs(), shown.iter().map(SessionRow::name));
    let listed = shown.iter().map(|session| {
        let summary = known.summary(repo, session)?;
        let handle = names.session(&summary.name).into_owned();
        Ok(ListedSession { is_live: live.contains(&summary.name), summary, handle })
    });
    let sessions = listed.collect::<Result<_>>()?;
    Ok(ListedSessions { sessions, matching: matching.len(), all: table.listed().count() })
}

/// Returns the sessions with an adopted file that no longer exists. Looks for each file.
fn gone_sessions(repo: &Repository) -> HashSet<String> {
    let adopted = AdoptionCache::peek(repo);
    let refs = repo.refs();
    let missing = adopted.missing(&refs);
    missing.map(|(_, branch)| branch.session().to_owned()).collect()
}

/// Returns the session with this name as a list shows it; `None` if no list shows it.
pub(crate) fn listed(repo: &Repository, name: &str, now: Time) -> Result<Option<ListedSession>> {
    let known = KnownSessions::default();
    let table = known.table(repo)?;
    let Some(session) = table.listed().find(|session| session.name() == name) else {
        return Ok(None);
    };
    let handle = ShortNames::of(repo.refs(), [name]).session(name).into_owned();
    let (summary, live) = (known.summary(repo, &session)?, live_sessions(repo, now)?);
    Ok(Some(ListedSession { is_live: live.contains(name), summary, handle }))
}

/// Returns the sessions with these names, by name.
pub(crate) fn described(
    repo: &Repository,
    known: &KnownSessions,
    names: &HashSet<&str>,
) -> Result<HashMap<String, ListedSession>> {
    let table = known.table(repo)?;
    let short = ShortNames::of(repo.refs(), names.iter().copied());
    let shown = table.all().filter(|session| names.contains(session.name()));
    let described = shown.map(|session| {
        let summary = known.summary(repo, &session)?;
        let handle = short.session(session.name()).into_owned();
        Ok((session.name().to_owned(), ListedSession { is_live: false, summary, handle }))
    });
    described.collect()
}

/// The name of the session that the user means, by [`find_session`].
///
/// # Errors
/// `NotFound` if there is none: an empty answer would look like one about an existing
/// session.
pub(crate) fn named_session(repo: &Repository, text: &str) -> Result<String> {
    if let Some(name) = find_session(repo, text)? {
        return Ok(name);
    }
    Err(no_session(text))
}

fn no_session(name: &str) -> Failure {
    let missing = Error::new(ErrorKind::NotFound, format!("there is no session {name}"));
    Failure::hinted(missing, Advice::new("'turntree sessions' lists them", "sessions lists them"))
}

/// [`named_session`], if one is named.
pub(crate) fn named_session_if(repo: &Repository, text: Option<&str>) -> Result<Option<String>> {
    text.map(|text| named_session(repo, text)).transpose()
}

/// Sets the title and labels of a session in a transaction, without committing it.
///
/// # Errors
/// `NotFound` if the session does not exist, `InvalidInput` for a title or label that is
/// not allowed.
pub(crate) fn stage_labels<'r>(
    repo: &'r Repository,
    session: &str,
    labels: &SessionLabels,
) -> Result<Transaction<'r>> {
    if !repo.has_session(session) {
        return Err(no_session(session));
    }
    let mut change = repo.begin();
    change.set_session_labels(session, labels)?;
    Ok(change)
}

/// Sets the title and labels of a session; `verb` names the operation.
///
/// # Errors
/// The errors of [`stage_labels`], and of writing.
pub(crate) fn set_labels(
    repo: &Repository,
    session: &str,
    labels: &SessionLabels,
    verb: &str,
) -> Result<()> {
    let change = stage_labels(repo, session, labels)?;
    change.commit(&stamp()?, &format!("{verb} {session}"))?;
    Ok(())
}

/// Returns the titles of sessions by name.
pub(crate) fn titles(repo: &Repository) -> Result<HashMap<String, String>> {
    let table = KnownSessions::default().table(repo)?;
    let titled = |row: SessionRow<'_>| Some((row.name().to_owned(), row.title()?.to_owned()));
    Ok(table.listed().filter_map(titled).collect())
}

/// Writes the table of sessions.
pub(crate) fn write_table(
    out: &mut Output,
    repo: &Repository,
    sessions: &[ListedSession],
    now: Time,
) -> Result<()> {
    let is_wide = out.width.columns().is_some_and(|columns| columns >= BRIEF_COLUMNS);
    let briefs: Vec<Option<SessionBrief>> = match is_wide && sessions.len() <= MAX_BRIEFS {
        true => {
            let prices = Prices::of(None)?.table;
            // What a damaged session did is left out of the list; its own commands say why.
            let brief = |it: &ListedSession| {
                session_brief(repo, &it.summary.tip, &prices, BRIEF_TURNS).ok()
            };
            sessions.iter().map(brief).collect()
        }
        false => Vec::new(),
    };
    let any = |is: fn(&ListedSession) -> bool| sessions.iter().any(is);
    let heading = |is_there: bool, text: &'static str| if is_there { text } else { "" };
    let mut table = Table::of(vec![
        Column::text(""),
        Column::text("age"),
        Column::name("session"),
        Column::text("agent").rank(2),
        Column::name("project").rank(1),
        Column::name(heading(any(|it| it.summary.origin.git_branch.is_some()), "git branch"))
            .rank(7),
        Column::number("prompts").rank(3),
        Column::number("turns").rank(5),
        Column::number("files").rank(4),
        Column::number(heading(any(|it| it.summary.tokens.is_some()), "tokens")).rank(6),
        Column::number(heading(
            briefs.iter().flatten().any(|brief| cost_of(brief).is_some()),
            "cost",
        ))
        .rank(2),
        Column::text(heading(!briefs.is_empty(), "work")).rank(2),
        Column::title("title").at_least(TITLE_COLUMNS),
        Column::text(heading(any(|it| !it.summary.labels.labels.is_empty()), "labels")).rank(1),
    ]);
    for (at, ListedSession { summary, handle, is_live }) in sessions.iter().enumerate() {
        let brief = briefs.get(at).and_then(Option::as_ref);
        let title = summary.title().map_or("", |(title, _)| title);
        let number = |number: Option<u64>| number.map(short_number).unwrap_or_default();
        let labels: Vec<&str> = summary.labels.labels.iter().map(String::as_str).collect();
        let git_branch = summary.origin.git_branch.as_deref().unwrap_or_default();
        table.row(vec![
            Cell::styled(ADDED, if *is_live { "●" } else { "" }),
            Cell::styled(FAINT, clock::age(summary.time, now)),
            Cell::styled(NAME, handle),
            one_line(&summary.agent, usize::MAX).into(),
            one_line(summary.project().unwrap_or_default(), usize::MAX).into(),
            Cell::styled(FAINT, one_line(git_branch, usize::MAX)),
            summary.prompts.to_string().into(),
            summary.turns.to_string().into(),
            number(summary.files).into(),
            number(summary.tokens).into(),
            brief.and_then(cost_of).unwrap_or_default().into(),
            Cell::styled(FAINT, brief.map(spark).unwrap_or_default()),
            Cell::styled(STRONG, one_line(title, usize::MAX)),
            Cell::styled(FAINT, labels.join(",")),
        ]);
    }
    Ok(table.write(out)?)
}

/// The cost of a session, with a sign if older turns cost more.
fn cost_of(brief: &SessionBrief) -> Option<String> {
    let spending = brief.spending.as_ref().filter(|spending| spending.cost().is_some())?;
    let more = if brief.has_older && spending.is_whole() { "+" } else { "" };
    Some(format!("{}{more}", cost(spending)))
}

/// The kinds of the newest turns as bars; two neighbours share a bar if there are many.
fn spark(brief: &SessionBrief) -> String {
    let stride = brief.kinds.len().div_ceil(SPARK_COLUMNS).max(1);
    let highest = brief.kinds.chunks(stride).filter_map(|kinds| kinds.iter().copied().max());
    let bar = |kind: TurnKind| match kind {
        TurnKind::Other => '▁',
        TurnKind::Edit => '▂',
        TurnKind::Passed => '▃',
        TurnKind::Failed => '▅',
        TurnKind::Prompt => '▇',
    };
    highest.map(bar).collect()
}
