//! The answers of a whole session: of its branches, with those that were left behind told apart.
//!
//! ```text
//! 1 <- 2 <- 3 <- 4 <- R <- 5     R goes back to 2: 3 and 4 are left, unless a branch goes on there
//!      \
//!       6 <- 7                   left, when 3 goes on in the same file with what came before 6
//! ```
//!
//! What was found is kept in a note beside the store, by the branches of a session and where they
//! are. It has numbers and names of branches, agents, models and tools, no content, and may be
//! deleted at any time.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use turntree::context::Transcript;
use turntree::error::{Error, ErrorKind, Result};
use turntree::object::{Kind, ObjectId};
use turntree::repo::{BranchName, LogEntry, Repository, RollbackTarget};
use turntree::workspace::{read_note, write_note};

use super::answers::{AnswerCounter, Answers, TurnPlace};
use super::turn_diff::{TurnDiff, turn_diff};
use crate::import::rewind::{begins, left_with};

/// The name of the note.
const NOTE: &str = "answers";

const VERSION: u32 = 8;

/// The section of the conversation that rollbacks take back.
const CONVERSATION: &str = "agents/main/messages";

/// The answers of sessions by [`key_of`] these.
#[derive(Debug, Default, Serialize, Deserialize)]
struct StoredAnswers {
    version: u32,
    sessions: HashMap<String, Answers>,
}

/// A line that answers are on.
#[derive(Debug, Clone)]
struct AnswerLine {
    branch: String,
    tip: ObjectId,
    is_left: bool,
}

type Branches = Vec<(BranchName, ObjectId)>;

/// Returns the answers of sessions by name: of all of them, or of `only` one. Reads the history of
/// those that are not as they were the last time.
///
/// # Errors
/// `NotFound` or `Corrupt`, naming what cannot be read.
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
        // Without it the next one looks again.
        let _ = write_known(repo, known);
    }
    Ok(found.into_iter().map(|(_, session, answers)| (session, answers)).collect())
}

/// Returns the answers of the line of first parents that ends in `tip`.
///
/// # Errors
/// `NotFound` or `Corrupt`, naming what cannot be read.
pub(super) fn line_answers(repo: &Repository, branch: &str, tip: ObjectId) -> Result<Answers> {
    let line = AnswerLine { branch: branch.to_owned(), tip, is_left: false };
    read_lines(repo, &[line])
}

/// What stands for branches and where they are.
fn key_of(branches: &Branches) -> String {
    let line = |(branch, tip): &(BranchName, ObjectId)| format!("{} {tip}\n", branch.full());
    let mut lines: Vec<String> = branches.iter().map(line).collect();
    lines.sort_unstable();
    ObjectId::of(Kind::Blob, lines.concat().as_bytes()).to_string()
}

fn read_session(repo: &Repository, branches: &Branches) -> Result<Answers> {
    let left = left_tips(repo, branches)?;
    let mut lines: Vec<AnswerLine> = branches
        .iter()
        .map(|(branch, tip)| AnswerLine {
            branch: branch.branch().to_owned(),
            tip: *tip,
            is_left: left.contains(tip),
        })
        .collect();
    // What several branches have is told of the main one.
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

/// Returns the turns of a line that no earlier one had, the newest first, and says of each whether
/// it is on a line that goes on.
fn walk(
    repo: &Repository,
    line: &AnswerLine,
    is_live: &mut HashMap<ObjectId, bool>,
) -> Result<Vec<LogEntry>> {
    let mut own = Vec::new();
    // The turn that a rollback went back to, until that is reached.
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
        // Below a turn that is known for what it is here, everything is.
        if back.is_none() && before.is_some_and(|before| before || !lives) {
            break;
        }
        if before.is_none() {
            own.push(entry);
        }
        if let Some(target) = target.filter(|target| target.only.reaches(CONVERSATION)) {
            match repo.commit(&target.to) {
                Ok(commit) => back = Some(back.map_or(commit.turn, |it| it.min(commit.turn))),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Expired) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(own)
}

/// Adds a turn; false when its content, or that before it, was dropped.
fn add_turn(
    repo: &Repository,
    entry: &LogEntry,
    turn: TurnPlace<'_>,
    counter: &mut AnswerCounter,
) -> Result<bool> {
    let Some(TurnDiff { after, changed }) = turn_diff(repo, entry)? else { return Ok(false) };
    counter.add_turn(repo.store(), turn, &after, &changed)?;
    Ok(true)
}

/// The tips of branches that a conversation left: another line goes on in the same file, with all
/// that the file had of the branch before it, or after the file was cut back.
fn left_tips(repo: &Repository, branches: &Branches) -> Result<HashSet<ObjectId>> {
    let mut left = HashSet::new();
    if branches.len() < 2 {
        return Ok(left);
    }
    let mut tips = Vec::new();
    let mut ends = HashMap::new();
    for (branch, tip) in branches {
        let agent = repo.commit(tip)?.author.agent;
        if let Some((pieces, last)) = end_of_source(repo, tip, None)? {
            tips.push((*tip, agent, pieces, last));
            ends.insert((branch.session(), branch.branch(), pieces), *tip);
        }
    }
    let all: Vec<ObjectId> = branches.iter().map(|(_, tip)| *tip).collect();
    for entry in repo.history(&all, &[])? {
        let LogEntry { id, commit, .. } = entry?;
        let line = left_with(&commit).map(|(branch, pieces)| (&*commit.session, branch, pieces));
        left.extend(line.and_then(|line| ends.get(&line)));
        let Some(begins) = begins(&commit) else { continue };
        for (tip, agent, pieces, last) in &tips {
            let may_be = *pieces <= begins && *agent == commit.author.agent && *tip != id;
            if may_be && !left.contains(tip) {
                let there = end_of_source(repo, &id, Some(*pieces))?;
                if there.is_some_and(|(_, there)| there == *last) {
                    left.insert(*tip);
                }
            }
        }
    }
    Ok(left)
}

/// The number of pieces of the source at a commit, or the first `pieces` of it, with the last of
/// them; `None` where there are none.
fn end_of_source(
    repo: &Repository,
    id: &ObjectId,
    pieces: Option<u64>,
) -> Result<Option<(u64, ObjectId)>> {
    let context = match repo.context(id) {
        Err(error) if error.kind() == ErrorKind::Expired => return Ok(None),
        context => context?,
    };
    let transcript = Transcript::open(repo.store(), &context)?;
    let pieces = pieces.unwrap_or_else(|| transcript.len());
    let Some(last) = pieces.checked_sub(1) else { return Ok(None) };
    let piece = transcript.pieces(repo.store(), last..pieces).next().transpose()?;
    Ok(piece.map(|piece| (pieces, piece.entry().blob)))
}

fn read_known(repo: &Repository) -> HashMap<String, Answers> {
    let stored = read_note(repo.store(), NOTE)
        .and_then(|bytes| serde_json::from_slice::<StoredAnswers>(&bytes).ok());
    stored.filter(|stored| stored.version == VERSION).unwrap_or_default().sessions
}

fn write_known(repo: &Repository, sessions: HashMap<String, Answers>) -> Result<()> {
    let stored = StoredAnswers { version: VERSION, sessions };
    let bytes = serde_json::to_vec(&stored)
        .map_err(|source| Error::invalid("answers").with_source(source))?;
    write_note(repo.store(), NOTE, &bytes)
}
