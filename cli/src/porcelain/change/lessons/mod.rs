//! Lessons of a session: lists them, adds them, and selects those for the next call.

pub(crate) mod fields;
pub(crate) mod target;

use clap::Args;
use clap_complete::{ArgValueCandidates, ArgValueCompleter};
use turntree::repo::Repository;
use turntree::{Error, ErrorKind};
use turntree_exchange::lessons::{Call, Lesson, Lessons, MergedLessons, learn, prompt, select};
use turntree_exchange::{SPIRAL_WINDOW, find_spiral, read_steps};

use self::fields::LessonFields;
use self::target::{LessonBranch, LessonChange, LessonEdits, lessons_at};
use crate::porcelain::read::revision::resolve;
use crate::program::complete::{lessons as complete_lessons, revisions};
use crate::program::invocation::stamp;
use crate::view::error::{Hint, Result};
use crate::view::{clock, json};

/// Add a lesson
///
/// A lesson that repeats an existing one renews it. Lessons about infrastructure are merged by
/// their two models, and counted.
#[derive(Debug, Default, Args)]
pub(crate) struct Add {
    #[command(flatten)]
    pub(crate) fields: LessonFields,
    /// Learn it from the loop that 'turntree spiral' finds; without a loop nothing is added, exit
    /// code 1
    #[arg(long)]
    pub(crate) spiral: bool,
    /// The turn in which it was learned; by default the turn of the newest snapshot
    #[arg(long, value_name = "N")]
    pub(crate) turn: Option<u64>,
    /// Link it to the abandoned branch or snapshot
    #[arg(long, value_name = "REV", add = ArgValueCompleter::new(revisions))]
    pub(crate) branch: Option<String>,
    /// Deprecate this lesson, which the new one contradicts; may be given several times
    #[arg(long, value_name = "ID", add = ArgValueCandidates::new(complete_lessons))]
    pub(crate) replaces: Vec<String>,
    /// Pin it: it never expires, and every prompt includes it
    #[arg(long)]
    pub(crate) pin: bool,
    #[command(flatten)]
    pub(crate) target: LessonBranch,
}

impl Add {
    /// Adds the lesson; `None` if it should come from a loop and there is none.
    pub(crate) fn apply(&self, repo: &Repository) -> Result<Option<LessonChange>> {
        let mut lesson = Lesson::default();
        if self.spiral {
            let Some(learned) = self.learn(repo)? else { return Ok(None) };
            lesson = learned;
        }
        self.fields.apply(&mut lesson);
        let changed = self.target.apply(repo, "add", |change| {
            lesson.captured_at = stamp()?.time.micros / 1000;
            lesson.pinned = self.pin;
            if let Some(revision) = &self.branch {
                abandon(change, revision, &mut lesson)?;
            }
            lesson.turn_id = match self.turn {
                Some(turn) => turn,
                None if self.spiral => lesson.turn_id,
                None => change.tip.turn,
            };
            let mut merged = MergedLessons::default();
            for id in &self.replaces {
                let key = change.lessons.find(id).map_err(|error| error.at(format_args!("'{id}'")));
                let key =
                    key.hint(ErrorKind::NotFound, "'turntree lesson list --all' shows them")?;
                if let Some(old) = change.lessons.get(&key).filter(|old| !old.deprecated).cloned() {
                    change.lessons.set(&key, Lesson { deprecated: true, ..old })?;
                    merged.deprecated.push(key);
                }
            }
            let added = change.lessons.add(lesson)?;
            merged.deprecated.retain(|key| *key != added.key);
            let list = if added.folded { &mut merged.changed } else { &mut merged.added };
            list.push(added.key);
            Ok(merged)
        })?;
        Ok(Some(changed))
    }

    /// Learns a lesson from the last turns of the branch, or of the abandoned branch.
    fn learn(&self, repo: &Repository) -> Result<Option<Lesson>> {
        let branch = self.target.branch(repo)?;
        let revision = self.branch.clone().unwrap_or_else(|| branch.to_string());
        let steps = read_steps(repo, &resolve(repo, &revision)?.commit)?;
        Ok(learn(&find_spiral(&steps, SPIRAL_WINDOW)))
    }
}

/// Links a lesson to the abandoned branch or snapshot.
fn abandon(change: &LessonEdits<'_>, revision: &str, lesson: &mut Lesson) -> Result<()> {
    let found = resolve(change.repo, revision)?;
    let session = change.repo.commit(&found.commit)?.session;
    if session != change.branch.session() {
        let error = Error::invalid(format!(
            "{revision} is of session {session}: a lesson stays in its own, {}",
            change.branch.session()
        ));
        return Err(error.into());
    }
    lesson.abandoned_branch = found.branch.map(|branch| branch.to_string());
    lesson.abandoned_commit = Some(found.commit.to_string());
    Ok(())
}

/// The lessons to list in a turn: the live ones, or all.
pub(crate) fn shown(lessons: &Lessons, turn: u64, all: bool) -> Vec<(&str, &Lesson)> {
    let is_shown = |(_, lesson): &(&str, &Lesson)| all || lesson.is_live(turn);
    let mut shown: Vec<(&str, &Lesson)> = lessons.iter().filter(is_shown).collect();
    shown.sort_by_key(|(key, lesson)| (lesson.turn_id, lesson.captured_at, *key));
    shown
}

/// The live lessons of a snapshot, or all of them, as JSON.
pub(crate) fn list(repo: &Repository, revision: &str, all: bool) -> Result<json::Lessons> {
    let (lessons, turn) = lessons_at(repo, revision)?;
    let record = |(key, lesson): (&str, &Lesson)| json::ListedLesson {
        id: key.to_owned(),
        live: lesson.is_live(turn),
        lesson: lesson.clone(),
    };
    let others = lessons.others().to_vec();
    let lessons = shown(&lessons, turn, all).into_iter().map(record).collect();
    Ok(json::Lessons { turn, lessons, unrecognized: others })
}

/// The lessons for the next call, in `turn` or in the turn of the snapshot.
pub(crate) fn inject(
    repo: &Repository,
    revision: &str,
    tool: Option<&str>,
    turn: Option<u64>,
) -> Result<json::InjectedLessons> {
    let (lessons, newest) = lessons_at(repo, revision)?;
    let now_millis = clock::now()?.micros / 1000;
    let call = Call { tool, turn: turn.unwrap_or(newest), now_millis };
    let block = prompt(&select(&lessons, &call));
    let (prompt, lessons, left_out) = (block.text, block.included, block.left_out);
    Ok(json::InjectedLessons { prompt, lessons, left_out })
}
