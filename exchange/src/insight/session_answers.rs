//! Collects the answers of all branches of a session and marks those on abandoned lines.
//!
//! ```text
//! 1 <- 2 <- 3 <- 4 <- R <- 5     R goes back to 2: 3 and 4 are left, unless a branch goes on there
//!      \
//!       6 <- 7                   left, when 3 goes on in the same file with what came before 6
//! ```
//!
//! The result is cached in a note next to the store, keyed by the branches of a session and their
//! tips. The note has numbers and the names of branches, agents, models and tools, but no content.
//! It may be deleted at any time.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use turntree::context::Transcript;
use turntree::context::sections::MAIN_MESSAGES;
use turntree::error::{Error, ErrorKind, Result};
use turntree::object::{Kind, ObjectId};
use turntree::repo::{BranchName, LogEntry, Repository, RollbackTarget};
use turntree::workspace::{read_note, write_note};

use super::answers::{AnswerCounter, Answers, TurnPlace};
use super::turn_diff::{TurnDiff, turn_diff};
use crate::import::rewind::{abandoned_branch, source_start};

/// The name of the note.
const NOTE: &str = "answers";

const VERSION: u32 = 9;

/// The answers of sessions, keyed by the [`key_of`] their branches.
#[derive(Debug, Default, Serialize, Deserialize)]
struct StoredAnswers {
    version: u32,
    sessions: HashMap<String, Answers>,
}

/// A line of turns.
#[derive(Debug, Clone)]
struct AnswerLine {
    branch: String,
    tip: ObjectId,
    is_left: bool,
}

type Branches = Vec<(BranchName, ObjectId)>;

/// Returns the answers of all sessions, or of the session `only`, by name. Reads the history of the
/// sessions that changed since the last call.
///
/// # Errors
/// `NotFound` or `Corrupt`, with the id of the unreadable object.
pub(super) fn session_answers(
    repo: &Repository,
    only: Option<&str>,
) -> Result<Vec<(String, Answers)>> {
    let mut sessions: HashMap<String, Branches> = HashMap::new();
    for (branch, tip) in repo.branches() {
        sessions.entry(branch.session().to_owned()).or_default().push((branch, tip));
    }
    let mut known = read_known(repo);
    let mut found = Vec::new();
    let mut is_new = false;
    let mut keys = HashSet::new();
    let mut sessions: Vec<(String, Branches)> = sessions.into_iter().collect();
    sessions.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    for (session, branches) in sessions {
        let key = key_of(&branches);
        keys.insert(key.clone());
        if only.is_some_and(|only| only != session) {
            continue;
        }
        let answers = match known.remove(&key) {
            Some(answers) => answers,
            None => {
                is_new = true;
                read_session(repo, &branches)?
            }
        };
        found.push((key, session, answers));
    }
    if is_new {
        known.retain(|key, _| keys.contains(key));
        known.extend(found.iter().map(|(key, _, answers)| (key.clone(), answers.clone())));
        // If the write fails, the next call reads the history again.
        let _ = write_known(repo, known);
    }
    Ok(found.into_iter().map(|(_, session, answers)| (session, answers)).collect())
}

/// Returns the answers on the first-parent line of `tip`.
///
/// # Errors
/// `NotFound` or `Corrupt`, with the id of the unreadable object.
pub(super) fn line_answers(repo: &Repository, branch: &str, tip: ObjectId) -> Result<Answers> {
    let line = AnswerLine { branch: branch.to_owned(), tip, is_left: false };
    read_lines(repo, &[line])
}

/// Returns a digest of branches and their tips.
fn key_of(branches: &Branches) -> String {
    let line = |(branch, tip): &(BranchName, ObjectId)| format!("{} {tip}\n", branch.full());
    let mut lines: Vec<String> = branches.iter().map(line).collect();
    lines.sort_unstable();
    ObjectId::of(Kind::Blob, lines.concat().as_bytes()).to_string()
}

fn read_session(repo: &Repository, branches: &Branches) -> Result<Answers> {
    let left = abandoned_tips(repo, branches)?;
    let mut lines: Vec<AnswerLine> = branches
        .iter()
        .map(|(branch, tip)| AnswerLine {
            branch: branch.branch().to_owned(),
            tip: *tip,
            is_left: left.contains(tip),
        })
        .collect();
    // Attribute shared turns to the main branch.
    lines.sort_by_key(|line| (line.is_left, line.branch != "main"));
    read_lines(repo, &lines)
}

fn read_lines(repo: &Repository, lines: &[AnswerLine]) -> Result<Answers> {
    let mut is_live: HashMap<ObjectId, bool> = HashMap::new();
    let mut own = Vec::new();
    for line in lines {
        own.push((line, walk(repo, line, &mut is_live)?));
    }
    let mut counter = AnswerCounter::default();
    let mut expired = 0;
    for (line, entries) in own {
        counter.begin_line();
        for entry in entries.into_iter().rev() {
            let is_left = !is_live.get(&entry.id).copied().unwrap_or(true);
            let turn = TurnPlace { branch: &line.branch, is_left, commit: &entry.commit };
            if !add_turn(repo, &entry, turn, &mut counter)? {
                expired += 1;
            }
        }
    }
    Ok(counter.finish(expired))
}

/// Returns the turns of a line that no earlier line has, the newest first, and records for each
/// turn whether it is on a live line.
fn walk(
    repo: &Repository,
    line: &AnswerLine,
    is_live: &mut HashMap<ObjectId, bool>,
) -> Result<Vec<LogEntry>> {
    let mut own = Vec::new();
    // The target of a rollback, until the walk reaches it.
    let mut back: Option<u64> = None;
    for entry in repo.history(&[line.tip], &[])?.first_parent() {
        let entry = entry?;
        if back.is_some_and(|turn| entry.commit.turn <= turn) {
            back = None;
        }
        let lives = !line.is_left && back.is_none();
        let target = RollbackTarget::of(&entry.commit);
        let before = is_live.get(&entry.id).copied();
        is_live.insert(entry.id, lives || before == Some(true));
        // All turns below one with a known and equal state are known, too.
        if back.is_none() && before.is_some_and(|before| before || !lives) {
            break;
        }
        if before.is_none() {
            own.push(entry);
        }
        if let Some(target) = target.filter(|target| target.only.reaches(MAIN_MESSAGES)) {
            match repo.commit(&target.to) {
                Ok(commit) => back = Some(back.map_or(commit.turn, |it| it.min(commit.turn))),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Expired) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(own)
}

/// Adds a turn. Returns false if its content, or that of its parent, expired.
fn add_turn(
    repo: &Repository,
    entry: &LogEntry,
    turn: TurnPlace<'_>,
    counter: &mut AnswerCounter,
) -> Result<bool> {
    let Some(TurnDiff { after, changed }) = turn_diff(repo, entry)? else { return Ok(false) };
    counter.add_turn(repo, turn, &after, &changed)?;
    Ok(true)
}

/// Returns the tips of the branches that a conversation abandoned: another line continues the same
/// file, with all pieces that the file had before the branch, or after the file was rewound in
/// place.
fn abandoned_tips(repo: &Repository, branches: &Branches) -> Result<HashSet<ObjectId>> {
    let mut left = HashSet::new();
    if branches.len() < 2 {
        return Ok(left);
    }
    let mut tips = Vec::new();
    let mut ends = HashMap::new();
    for (branch, tip) in branches {
        let agent = repo.commit(tip)?.author.agent;
        if let Some((pieces, last)) = source_end(repo, tip, None)? {
            tips.push((*tip, agent, pieces, last));
            ends.insert((branch.session(), branch.branch(), pieces), *tip);
        }
    }
    tips.sort_by_key(|(.., pieces, _)| *pieces);
    let all: Vec<ObjectId> = branches.iter().map(|(_, tip)| *tip).collect();
    for entry in repo.history(&all, &[])? {
        let LogEntry { id, commit, .. } = entry?;
        let line =
            abandoned_branch(&commit).map(|(branch, pieces)| (&*commit.session, branch, pieces));
        let known = left.len();
        left.extend(line.and_then(|line| ends.get(&line)));
        let Some(begins) = source_start(&commit) else { continue };
        let shorter = tips.partition_point(|(.., pieces, _)| *pieces <= begins);
        for (tip, agent, pieces, last) in tips.iter().take(shorter) {
            if *agent == commit.author.agent && *tip != id && !left.contains(tip) {
                let there = source_end(repo, &id, Some(*pieces))?;
                if there.is_some_and(|(_, there)| there == *last) {
                    left.insert(*tip);
                }
            }
        }
        // A file may have thousands of branches, and nearly all of them are abandoned.
        if left.len() > known {
            tips.retain(|(tip, ..)| !left.contains(tip));
        }
    }
    Ok(left)
}

/// Returns the number of pieces of the source at a commit, at most `pieces`, and the last of these
/// pieces. `None` if there are none.
fn source_end(
    repo: &Repository,
    id: &ObjectId,
    pieces: Option<u64>,
) -> Result<Option<(u64, ObjectId)>> {
    let context = match repo.context(id) {
        Err(error) if error.kind() == ErrorKind::Expired => return Ok(None),
        context => context?,
    };
    let transcript = Transcript::open(repo, &context)?;
    let pieces = pieces.unwrap_or_else(|| transcript.len());
    let Some(last) = pieces.checked_sub(1) else { return Ok(None) };
    let piece = transcript.pieces(repo, last..pieces).next().transpose()?;
    Ok(piece.map(|piece| (pieces, piece.entry().blob)))
}

fn read_known(repo: &Repository) -> HashMap<String, Answers> {
    let stored = read_note(repo, NOTE)
        .and_then(|bytes| serde_json::from_slice::<StoredAnswers>(&bytes).ok());
    stored.filter(|stored| stored.version == VERSION).unwrap_or_default().sessions
}

fn write_known(repo: &Repository, sessions: HashMap<String, Answers>) -> Result<()> {
    let stored = StoredAnswers { version: VERSION, sessions };
    let bytes = serde_json::to_vec(&stored)
        .map_err(|source| Error::invalid("answers").with_source(source))?;
    write_note(repo, NOTE, &bytes)
}
