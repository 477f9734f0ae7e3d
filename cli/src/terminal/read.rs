//! Answers from the store: rows of sessions, turns, branches, hits and operations, and texts.

use std::cmp::Reverse;
use std::collections::HashMap;

use turntree::context::sections::MAIN_MESSAGES;
use turntree::context::{ContextDiff, diff_by_value};
use turntree::object::{Commit, ObjectId, Time};
use turntree::repo::{
    BranchName, LogEntry, MAIN_BRANCH, OperationEntry, Pin, Repository, RollbackTarget, is_place,
};
use turntree_exchange::{
    IndexPlace, SearchHit, SearchQuery, SessionSummary, is_prompt, search_with_index,
};

use super::content::{Answer, Cell, Question, Row, Span};
use super::said::said;
use super::text::{Line, Tone, difference, lines};
use crate::porcelain::change::operations::{OperationsWanted, each_operation};
use crate::porcelain::change::pins::list;
use crate::porcelain::read::branches::{BranchTip, MainLines, branches_of};
use crate::porcelain::read::explorations::{is_driven, state_of};
use crate::porcelain::read::search::HITS_PER_SESSION;
use crate::program::held_store::HeldStore;
use crate::program::live::live_sessions;
use crate::view::error::Result;
use crate::view::output::Palette;
use crate::view::render::changed_ref;
use crate::view::render::changes::{Changes, path_of};
use crate::view::render::{ID_DIGITS, count, short_number};
use crate::view::short_names::ShortNames;
use crate::view::{clock, json};

/// Rows of an answer.
const ROWS: usize = 200;

/// Hits of one search.
const HITS: u64 = 100;

/// Characters of a time up to the minute.
const MINUTES: usize = 16;

/// Shown if the store has no session.
const NO_SESSION: &str = "No session yet. 'turntree adopt' imports the sessions of the agents on \
    this machine, 'turntree hook install' follows new ones, 'turntree import FILE' reads one.";

/// Shown if the store has no pin.
const NO_PIN: &str = "No turn is pinned: 'p' pins the selected one.";

/// Answers a question.
///
/// # Errors
/// The errors of reading the store; `NotFound` for a deleted branch.
pub(super) fn answer(
    store: &HeldStore,
    repo: &Repository,
    question: &Question,
    now: Time,
) -> Result<Answer> {
    match question {
        Question::Sessions { most } => sessions(store, repo, *most, now),
        Question::Turns { branch, from, every_turn } => turns(repo, branch, *from, *every_turn),
        Question::Said(span) => Ok(Answer::Text(said(repo, span)?)),
        Question::Changes(span) => Ok(Answer::Text(changes(repo, span)?)),
        Question::Branches { session } => branches(repo, session),
        Question::Search { words } => hits(store, repo, words),
        Question::Operations { before } => operations(repo, *before),
        Question::Pins => pins(repo, now),
    }
}

fn rows(rows: Vec<Row>, more: Option<Question>) -> Answer {
    Answer::Rows { rows, more, note: None }
}

/// The span of one turn, from its parent to itself.
fn one_turn(repo: &Repository, session: &str, id: ObjectId, commit: &Commit) -> Result<Span> {
    let base = repo.grafts()?.parents(commit).first().copied();
    Ok(Span { session: session.to_owned(), base, until: id, turn: commit.turn })
}

fn sessions(store: &HeldStore, repo: &Repository, most: usize, now: Time) -> Result<Answer> {
    let (found, all) = store.sessions().newest(repo, most)?;
    let live = live_sessions(repo, now)?;
    let more = found.len() < all;
    let mut listed = Vec::new();
    for session in &found {
        listed.push(session_row(repo, session, live.contains(&session.name))?);
    }
    // Each answer starts at the newest session, so a fixed step would reread all of them each time.
    let more = more.then(|| Question::Sessions { most: most.saturating_mul(2) });
    let note = listed.is_empty().then(|| NO_SESSION.to_owned());
    Ok(Answer::Rows { rows: listed, more, note })
}

fn session_row(repo: &Repository, session: &SessionSummary, is_live: bool) -> Result<Row> {
    let title = session.title().map_or(session.name.as_str(), |(title, _)| title);
    let span = one_turn(repo, &session.name, session.tip, &repo.commit(&session.tip)?)?;
    let mut details = lines(Tone::Strong, "", title);
    let mut fact = |name: &str, value: &str| {
        if !value.is_empty() {
            details.push(Line::new(Tone::Plain, format!("{name:<10} {value}")));
        }
    };
    fact("session", &session.name);
    fact("agent", &[&*session.agent, &session.model].join(" "));
    session.origin.directories.iter().for_each(|dir| fact("directory", dir));
    fact("git branch", session.origin.git_branch.as_deref().unwrap_or_default());
    fact("labels", &session.labels.labels.iter().cloned().collect::<Vec<_>>().join(", "));
    let mut counts = vec![count(session.prompts, "prompt"), count(session.turns, "turn")];
    counts.extend(session.files.map(|files| count(files, "file")));
    counts.extend(session.tokens.map(|tokens| format!("{} tokens", short_number(tokens))));
    counts.push(count(session.branches, "branch"));
    fact("", &counts.join(", "));
    if let Some(prompt) = session.first_prompt.as_deref().filter(|prompt| *prompt != title) {
        details.extend(lines(Tone::Faint, "", prompt));
    }
    Ok(Row {
        key: session.name.clone(),
        cells: vec![
            (if is_live { "●" } else { "" }).into(),
            Cell::Age(session.time),
            session.agent.as_str().into(),
            session.project().unwrap_or_default().into(),
            session.prompts.to_string().into(),
            title.into(),
        ],
        tone: Tone::Plain,
        session: Some(session.name.clone()),
        branch: Some(session.branch.clone()),
        span: Some(span),
        operation: None,
        pin: None,
        details,
        speaks: true,
    })
}

/// The turns of one row, while the walk goes from the newest to the oldest.
struct Walked {
    until: LogEntry,
    turns: u64,
}

fn turns(
    repo: &Repository,
    branch: &BranchName,
    from: Option<ObjectId>,
    every_turn: bool,
) -> Result<Answer> {
    let Some(start) = from.or_else(|| repo.tip(branch)) else {
        return Err(turntree::Error::not_found(format!("{branch} was deleted")).into());
    };
    let mut prompts = repo.prompts(Some(&is_prompt))?;
    let (mut found, mut walked, mut gone_above) = (Vec::new(), None::<Walked>, None::<u64>);
    let mut next = None;
    for entry in repo.history(&[start], &[])?.first_parent() {
        let entry = entry?;
        if let Some(back) = RollbackTarget::of(&entry.commit)
            && back.only.reaches(MAIN_MESSAGES)
        {
            let to = repo.commit(&back.to)?.turn;
            gone_above = Some(gone_above.map_or(to, |known| known.min(to)));
        }
        let is_back = gone_above.is_some_and(|to| entry.commit.turn > to);
        let parent = entry.parents.first().copied();
        // A prompt that was rolled back ends before that: the rollback takes back all that it did.
        let ends_prompt = walked.is_none() && parent.is_some() && !every_turn;
        if ends_prompt && RollbackTarget::of(&entry.commit).is_some() {
            continue;
        }
        gone_above = gone_above.filter(|_| is_back);
        let number = prompts.number(&entry)?;
        let part = walked.get_or_insert_with(|| Walked { until: entry.clone(), turns: 0 });
        part.turns += 1;
        if number.is_none() && parent.is_some() && !every_turn {
            continue;
        }
        found.push(turn_row(branch.session(), &entry, part, number, every_turn, is_back));
        walked = None;
        if found.len() >= ROWS {
            next = parent;
            break;
        }
    }
    let more =
        next.map(|from| Question::Turns { branch: branch.clone(), from: Some(from), every_turn });
    Ok(rows(found, more))
}

fn turn_row(
    session: &str,
    entry: &LogEntry,
    part: &Walked,
    number: Option<u64>,
    every_turn: bool,
    is_back: bool,
) -> Row {
    let commit = &entry.commit;
    let name = match number {
        _ if every_turn => commit.turn.to_string(),
        Some(number) => format!("#{number}"),
        None => "-".to_owned(),
    };
    let words = match number {
        None if !every_turn => "before the first prompt",
        _ => commit.message.as_str(),
    };
    let words = if is_back { format!("(rolled back) {words}") } else { words.to_owned() };
    let time = clock::rfc3339(commit.time);
    let time = time.get(..MINUTES).unwrap_or(&time).replace('T', " ");
    let turns = if every_turn { String::new() } else { part.turns.to_string() };
    let tone = match number {
        _ if is_back => Tone::Faint,
        Some(_) if every_turn => Tone::Strong,
        _ => Tone::Plain,
    };
    Row {
        key: entry.id.to_string(),
        cells: vec![name.into(), Cell::Age(commit.time), time.into(), turns.into(), words.into()],
        tone,
        session: Some(session.to_owned()),
        branch: None,
        span: Some(Span {
            session: session.to_owned(),
            base: entry.parents.first().copied(),
            until: part.until.id,
            turn: part.until.commit.turn,
        }),
        operation: None,
        pin: None,
        details: Vec::new(),
        speaks: true,
    }
}

fn branches(repo: &Repository, session: &str) -> Result<Answer> {
    let head = repo.head_if_any()?.map(|head| head.branch);
    let mut main_lines = MainLines::new(repo);
    let trials = trial_states(repo, session)?;
    let mut listed = Vec::new();
    for BranchTip { name, id: tip, commit } in branches_of(repo, Some(session))? {
        let parted = main_lines.divergence(&name, &tip)?;
        let fork = parted.and_then(|parted| parted.fork);
        let mut span = one_turn(repo, session, tip, &commit)?;
        // A branch shows its own changes, from the fork point on.
        span.base = fork.map_or(span.base, |(id, _)| Some(id));
        let mark = if Some(&name) == head.as_ref() { " (HEAD)" } else { "" };
        let own = parted.map_or_else(String::new, |parted| format!("+{}", parted.own));
        let place = match fork {
            Some((id, turn)) => format!("begins at {}, turn {turn}", id.short(ID_DIGITS)),
            None => "begins without a parent".to_owned(),
        };
        let mut details = vec![
            Line::new(Tone::Name, name.to_string()),
            Line::new(Tone::Plain, format!("{} turn {}", tip.short(ID_DIGITS), commit.turn)),
            Line::new(Tone::Plain, place),
        ];
        let message = match trials.get(&name) {
            Some((state, exploration)) => {
                let strategy = format!("strategy of exploration {exploration}: {state}");
                details.push(Line::new(Tone::Plain, strategy));
                format!("{state}: {}", commit.message)
            }
            None => commit.message,
        };
        let is_main = name.branch() == MAIN_BRANCH;
        let lead = if is_main { "" } else { "├─ " };
        let row = Row {
            key: name.to_string(),
            cells: vec![
                format!("{lead}{}{mark}", name.branch()).into(),
                Cell::Age(commit.time),
                commit.turn.to_string().into(),
                own.into(),
                message.into(),
            ],
            tone: Tone::Plain,
            session: Some(session.to_owned()),
            branch: Some(name),
            span: Some(span),
            operation: None,
            pin: None,
            details,
            speaks: true,
        };
        listed.push(((!is_main, fork.map(|(_, turn)| turn)), row));
    }
    listed.sort_by_key(|(place, _)| *place);
    let mut listed: Vec<Row> = listed.into_iter().map(|(_, row)| row).collect();
    if let [.., last] = listed.as_mut_slice()
        && let Some(Cell::Text(name)) = last.cells.first_mut()
    {
        *name = name.replacen('├', "╰", 1);
    }
    Ok(rows(listed, None))
}

/// The states of the strategies of explorations, by branch, each with the name of its exploration.
fn trial_states(
    repo: &Repository,
    session: &str,
) -> Result<HashMap<BranchName, (&'static str, String)>> {
    let mut states = HashMap::new();
    // The newest exploration, and the newest trial, of a branch count.
    for exploration in repo.explorations(Some(session))?.iter().rev() {
        let is_driven = is_driven(repo, exploration);
        for trial in &exploration.trials {
            let state = state_of(repo, trial, is_driven);
            states.insert(trial.branch.clone(), (state, exploration.name.clone()));
        }
    }
    Ok(states)
}

fn hits(store: &HeldStore, repo: &Repository, words: &str) -> Result<Answer> {
    let query = SearchQuery {
        text: words,
        limit: HITS,
        per_session: HITS_PER_SESSION,
        ..SearchQuery::default()
    };
    let found = search_with_index(repo, &query, &|_, _| {}, store.index())?;
    let names = found.hits.iter().map(|hit| hit.session.as_str()).collect();
    let sessions = store.sessions().named(repo, &names)?;
    let mut listed = Vec::new();
    for hit in &found.hits {
        let title = sessions.get(&hit.session).and_then(|session| Some(session.title()?.0));
        listed.push(hit_row(repo, hit, title)?);
    }
    let mut notes = Vec::new();
    if listed.is_empty() {
        notes.push("Nothing has any of these words: 'turntree grep' finds parts of words.".into());
    }
    notes.extend(found.damage.iter().map(|text| format!("Not searched: {text}.")));
    match &found.place {
        IndexPlace::InStore => {}
        IndexPlace::InMemory(why) => notes.push(format!("The index was made in memory: {why}.")),
        IndexPlace::Filling { indexed, turns } => {
            let turns = count(*turns, "turn");
            notes.push(format!("Another process is indexing: {indexed} of {turns} were searched."));
        }
    }
    let note = (!notes.is_empty()).then(|| notes.join(" "));
    Ok(Answer::Rows { rows: listed, more: None, note })
}

fn hit_row(repo: &Repository, hit: &SearchHit, title: Option<&str>) -> Result<Row> {
    let path = path_of(&hit.section, &hit.key);
    let span = one_turn(repo, &hit.session, hit.commit, &repo.commit(&hit.commit)?)?;
    let mut details = lines(Tone::Strong, "", title.unwrap_or(&hit.session));
    details.push(Line::new(Tone::Name, format!("{}, turn {}, {path}", hit.session, hit.turn)));
    details.extend(lines(Tone::Plain, "", &hit.snippet.text));
    let what = match hit.role {
        Some(role) => role.name(),
        None => section_name(&hit.section),
    };
    Ok(Row {
        key: format!("{}:{path}", hit.commit),
        cells: vec![
            title.unwrap_or(&hit.session).into(),
            hit.turn.to_string().into(),
            Cell::Age(hit.time),
            what.into(),
            hit.snippet.text.as_str().into(),
        ],
        tone: Tone::Plain,
        session: Some(hit.session.clone()),
        branch: None,
        span: Some(span),
        operation: None,
        pin: None,
        details,
        speaks: true,
    })
}

fn section_name(section: &str) -> &str {
    section.rsplit('/').next().unwrap_or(section)
}

fn operations(repo: &Repository, before: Option<u64>) -> Result<Answer> {
    let wanted = OperationsWanted { name: None, before, most: ROWS, for_people: true };
    let (mut listed, mut last) = (Vec::new(), None);
    each_operation(repo, &wanted, &mut |entry, in_force| {
        last = Some(entry.operation.sequence);
        listed.push(operation_row(entry, in_force));
        Ok(())
    })?;
    let more = last.filter(|_| listed.len() >= ROWS);
    Ok(rows(listed, more.map(|last| Question::Operations { before: Some(last) })))
}

fn operation_row(entry: &OperationEntry, in_force: bool) -> Row {
    let OperationEntry { id, operation } = entry;
    let taken_back = if in_force { "" } else { "(taken back) " };
    let time = Time { micros: operation.time_micros, offset_minutes: 0 };
    let mut details = lines(Tone::Strong, "", &operation.reason);
    let about = format!("{} by {}, {}", operation.sequence, operation.actor, clock::rfc3339(time));
    details.push(Line::new(Tone::Faint, about));
    // Places change with HEAD, and their names mean nothing to people.
    let changes = operation.changes.iter().filter(|change| !is_place(&change.name));
    let line = |change| {
        Line::new(
            Tone::Plain,
            changed_ref::line(Palette::default(), change, &ShortNames::default()),
        )
    };
    details.extend(changes.map(line));
    Row {
        key: id.to_string(),
        cells: vec![
            operation.sequence.to_string().into(),
            Cell::Age(time),
            operation.actor.as_str().into(),
            format!("{taken_back}{}", operation.reason).into(),
        ],
        tone: if in_force { Tone::Plain } else { Tone::Faint },
        session: None,
        branch: None,
        span: None,
        operation: Some(operation.sequence),
        pin: None,
        details,
        speaks: false,
    }
}

fn pins(repo: &Repository, now: Time) -> Result<Answer> {
    let mut found = list(repo, None, now)?;
    found.sort_by_key(|(pin, _)| Reverse(pin.time_micros));
    let listed = found.iter().map(|(pin, record)| pin_row(repo, pin, record));
    let listed = listed.collect::<Result<Vec<Row>>>()?;
    let note = listed.is_empty().then(|| NO_PIN.to_owned());
    Ok(Answer::Rows { rows: listed, more: None, note })
}

fn pin_row(repo: &Repository, pin: &Pin, record: &json::PinRecord) -> Result<Row> {
    // The turn of an expired pin may have been dropped.
    let span = match (&record.session, repo.commit(&pin.commit)) {
        (Some(session), Ok(commit)) => Some(one_turn(repo, session, pin.commit, &commit)?),
        _ => None,
    };
    let expiry = record.expires.as_deref().map(|time| match record.expired {
        true => format!("expired {time}"),
        false => format!("expires {time}"),
    });
    let about = [Some(format!("pinned by {}, {}", pin.actor, record.time)), expiry];
    let mut details = vec![Line::new(Tone::Name, pin.name.as_str())];
    details.extend(lines(Tone::Plain, "", &pin.reason));
    details.extend(about.into_iter().flatten().map(|text| Line::new(Tone::Faint, text)));
    let session = record.session.clone();
    Ok(Row {
        key: pin.name.clone(),
        cells: vec![
            pin.name.as_str().into(),
            Cell::Age(Time { micros: pin.time_micros, offset_minutes: 0 }),
            session.clone().unwrap_or_default().into(),
            record.turn.map_or_else(String::new, |turn| turn.to_string()).into(),
            pin.reason.as_str().into(),
        ],
        tone: if record.expired { Tone::Faint } else { Tone::Plain },
        session,
        branch: None,
        span,
        operation: None,
        pin: Some(pin.name.clone()),
        details,
        speaks: true,
    })
}

/// The changes of turns, as `diff` shows them.
fn changes(repo: &Repository, span: &Span) -> Result<Vec<Line>> {
    let before = span.base.as_ref().map(|base| repo.context(base)).transpose()?;
    let after = repo.context(&span.until)?;
    let changed: ContextDiff = diff_by_value(repo, &before.unwrap_or_default(), &after)?;
    let mut text = Vec::new();
    let changes = Changes { source: repo, paint: Palette::default() };
    for (section, diff) in &changed {
        changes.write(&mut text, section, diff)?;
    }
    let mut shown = difference(&String::from_utf8_lossy(&text));
    if shown.is_empty() {
        shown.push(Line::new(Tone::Faint, "nothing is different"));
    }
    Ok(shown)
}
