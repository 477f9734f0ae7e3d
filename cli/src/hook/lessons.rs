//! Lessons across rollbacks: copies lessons of a rolled-back branch to the branch on which its
//! client continues, and keeps the user's answer after a rollback in the chat as a lesson.

use turntree::context::Builder;
use turntree::object::ObjectId;
use turntree::repo::{BranchName, LESSONS_CHANGED, Repository, SnapshotDraft, WORKSPACE};
use turntree::workspace::{read_note, write_note};
use turntree::{Error, Result};
use turntree_exchange::lessons::{Lesson, Lessons};
use turntree_exchange::rolled_back_branch;

use super::turn::HookTurn;

/// Maximum characters of an answer that becomes a lesson.
const MAX_ANSWER_CHARS: usize = 500;

/// Minimum words of an answer with content.
const LEAST_WORDS: usize = 3;

/// Minimum letters of an answer in a script without spaces between words.
const LEAST_LETTERS: usize = 4;

/// Records that the user was asked what the agent should do differently, after `branch` was rolled
/// back from `given_up`.
pub(super) fn ask(turn: &HookTurn<'_>, branch: &BranchName, given_up: &ObjectId) {
    if let Some(name) = question_of(turn) {
        let _ = write_note(turn.repo, &name, format!("{branch} {given_up}").as_bytes());
    }
}

/// Makes the prompt a lesson of the rolled-back branch, if it answers that question.
pub(super) fn keep_answer(turn: &HookTurn<'_>) -> Result<()> {
    let repo = turn.repo;
    let Some(name) = question_of(turn) else { return Ok(()) };
    let Some(asked) = read_note(repo, &name).filter(|asked| !asked.is_empty()) else {
        return Ok(());
    };
    write_note(repo, &name, b"")?;
    let asked = std::str::from_utf8(&asked).unwrap_or_default().split_once(' ');
    let asked = asked.and_then(|(branch, id)| Some((branch.parse().ok()?, id.to_owned())));
    let answer = turn.event.prompt.as_deref().and_then(answer_in);
    let (Some((branch, given_up)), Some(answer)) = (asked, answer) else { return Ok(()) };
    let branch: BranchName = branch;
    turn.again(|| {
        change(turn, &branch, "add", |lessons, newest| {
            lessons.add(Lesson {
                turn_id: newest,
                captured_at: turn.stamp.time.micros / 1000,
                user_note: Some(answer.clone()),
                abandoned_branch: Some(branch.to_string()),
                abandoned_commit: Some(given_up.clone()),
                ..Lesson::default()
            })?;
            Ok(())
        })
    })
}

/// The name of the note with the question asked in this session.
fn question_of(turn: &HookTurn<'_>) -> Option<String> {
    Some(format!("asked in {}", turn.event.session.as_deref()?))
}

/// Returns the first line of a prompt if it is an instruction: not a command, and more than a word
/// to continue.
fn answer_in(prompt: &str) -> Option<String> {
    let line = prompt.lines().map(str::trim).find(|line| !line.is_empty())?;
    let is_command = line.starts_with(['/', '!', '#', '<']);
    let letters = line.chars().filter(|c| c.is_alphabetic() && !c.is_ascii()).count();
    let says = line.split_whitespace().count() >= LEAST_WORDS || letters >= LEAST_LETTERS;
    (says && !is_command).then(|| line.chars().take(MAX_ANSWER_CHARS).collect())
}

/// Copies the lessons of the rolled-back branches to `line`, on which their client continues. A
/// lesson that `line` has changed itself stays.
pub(super) fn bring(turn: &HookTurn<'_>, line: &BranchName) -> Result<()> {
    let repo = turn.repo;
    let mut above = Vec::new();
    let mut at = line.clone();
    while let Some(back) = rolled_back_branch(repo, &at)? {
        at = back.branch.clone();
        above.push(back.branch);
    }
    for branch in above.into_iter().rev() {
        turn.again(|| bring_from(turn, &branch, line))?;
    }
    Ok(())
}

fn bring_from(turn: &HookTurn<'_>, from: &BranchName, line: &BranchName) -> Result<()> {
    let repo = turn.repo;
    let (Some(tip), Some(own)) = (repo.tip(from), repo.tip(line)) else { return Ok(()) };
    let learned = Lessons::read(repo, &repo.context(&tip)?)?;
    let Some(section) = learned.section() else { return Ok(()) };
    let name = format!("lessons of {from} for {line}");
    let known = read_note(repo, &name);
    let known: Option<ObjectId> =
        known.and_then(|text| std::str::from_utf8(&text).ok()?.parse().ok());
    if known == Some(section) {
        return Ok(());
    }
    let base = match known.map(|known| Lessons::read_section(repo, Some(known))) {
        Some(Ok(base)) => base,
        Some(Err(_)) | None => begun(repo, &tip, &own)?,
    };
    change(turn, line, "merge", |lessons, _| {
        for (key, lesson) in learned.iter().filter(|(key, new)| base.get(key) != Some(new)) {
            if lessons.get(key).is_none_or(|own| base.get(key) == Some(own)) {
                lessons.set(key, lesson.clone())?;
            }
        }
        Ok(())
    })?;
    let _ = write_note(repo, &name, section.to_string().as_bytes());
    Ok(())
}

/// The lessons at the fork point of two branches.
fn begun(repo: &Repository, one: &ObjectId, other: &ObjectId) -> Result<Lessons> {
    match repo.merge_base(one, other)?.map(|base| repo.context(&base)) {
        Some(Ok(context)) => Lessons::read(repo, &context),
        Some(Err(_)) | None => Ok(Lessons::default()),
    }
}

/// Changes the lessons of a branch in one snapshot, which is not a turn.
fn change(
    turn: &HookTurn<'_>,
    branch: &BranchName,
    verb: &str,
    act: impl Fn(&mut Lessons, u64) -> Result<()>,
) -> Result<()> {
    let repo = turn.repo;
    let mut change = repo.begin();
    let Some(tip) = change.tip(branch) else {
        return Err(Error::not_found(format!("{branch} has no snapshot yet")));
    };
    let (context, commit) = (repo.context(&tip)?, repo.commit(&tip)?);
    let before = Lessons::read(&change, &context)?;
    let mut lessons = before.clone();
    act(&mut lessons, commit.turn)?;
    if lessons == before {
        return Ok(());
    }
    let mut builder = Builder::from(context);
    lessons.write(&mut change, &mut builder, &before)?;
    let tree = builder.write(&mut change)?;
    let mut draft = SnapshotDraft::new(tree, format!("lesson {verb}"), &turn.stamp);
    draft.metadata.insert(LESSONS_CHANGED.to_owned(), verb.to_owned());
    let workspace = commit.metadata.get_key_value(WORKSPACE);
    draft.metadata.extend(workspace.map(|(name, dir)| (name.clone(), dir.clone())));
    change.snapshot(branch, draft)?;
    change.commit(&turn.stamp, &format!("lesson {verb} {branch}")).map(drop)
}

#[cfg(test)]
mod tests {
    use super::answer_in;

    #[test]
    fn an_answer_says_what_to_do() {
        for (said, kept) in [
            ("keep the header as it is\nand more", Some("keep the header as it is")),
            ("先读文件再修改", Some("先读文件再修改")),
            ("try again", None),
            ("", None),
            ("/model opus for this one", None),
            ("! ls -la src", None),
        ] {
            assert_eq!(answer_in(said).as_deref(), kept, "{said}");
        }
    }
}
