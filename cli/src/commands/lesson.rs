//! `lesson`: what an agent learned, kept in its session and told again before a coming call.

use std::io::Write;

use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;
use turntree::repo::Repository;
use turntree::{Error, ErrorKind};
use turntree_exchange::lessons::{Call, Lesson, Lessons, Merged, learn, prompt, select};
use turntree_exchange::{SPIRAL_WINDOW, find_spiral, steps};

use super::Verb;
use super::lesson_fields::LessonFields;
use super::lesson_file::{Export, Import};
use super::lesson_target::{Change, Changed, Target, lessons_at, show};
use crate::complete::{lessons, revisions};
use crate::error::{Answer, Hint, Result};
use crate::invocation::{Invocation, stamp};
use crate::render::lessons::write_list;
use crate::revision::resolve;
use crate::{clock, json};

/// Record lessons, and show the best before the next call
///
/// A lesson belongs to its session: branches that are forked off take it along, 'turntree merge BRANCH
/// --only lessons' carries it on, and no other session sees it. None is ever deleted, only deprecated.
/// Each command that changes lessons is one operation, which 'turntree undo' takes back, and no turn
/// for 'turntree rollback'.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree lesson add --tool fs.replace --mistake 'matched on white space' --correct 'take blocks'
  turntree lesson add --spiral --branch plan-a
  turntree lesson inject --tool fs.replace
  turntree lesson list --all
  turntree lesson export LESSONS.md; $EDITOR LESSONS.md; turntree lesson import LESSONS.md
  turntree lesson rm 3f2a91c0de")]
pub(crate) struct LessonCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Add(Add),
    List(List),
    Edit(Edit),
    Rm(Rm),
    Pin(Pin),
    Unpin(Unpin),
    Inject(Inject),
    Export(Export),
    Import(Import),
}

/// Add a lesson
///
/// One that says the same as one that is there renews it; those about infrastructure fold by the models
/// that they go from and to, and are counted.
#[derive(Debug, Default, Args)]
pub(crate) struct Add {
    #[command(flatten)]
    pub(crate) fields: LessonFields,
    /// Take it from the circle that 'turntree spiral' finds; without one nothing is added, exit code 1
    #[arg(long)]
    pub(crate) spiral: bool,
    /// The turn in which it was learned; that of the newest snapshot by default
    #[arg(long, value_name = "N")]
    pub(crate) turn: Option<u64>,
    /// Link it to the branch, or snapshot, that was given up
    #[arg(long, value_name = "REV", add = ArgValueCandidates::new(revisions))]
    pub(crate) branch: Option<String>,
    /// Pin it: it never expires, and every prompt tells it
    #[arg(long)]
    pub(crate) pin: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// List lessons
#[derive(Debug, Args)]
struct List {
    /// The snapshot
    #[arg(value_name = "REV", default_value = "HEAD", add = ArgValueCandidates::new(revisions))]
    revision: String,
    /// Those that count no more, too
    #[arg(short, long)]
    all: bool,
}

/// Change what a lesson says; an empty text takes a field away
#[derive(Debug, Args)]
struct Edit {
    /// The lesson, or the beginning of its id
    #[arg(value_name = "ID", add = ArgValueCandidates::new(lessons))]
    id: String,
    #[command(flatten)]
    fields: LessonFields,
    #[command(flatten)]
    target: Target,
}

/// Some lessons.
#[derive(Debug, Args)]
struct Chosen {
    /// Lessons, or the beginnings of their ids
    #[arg(value_name = "ID", required = true, add = ArgValueCandidates::new(lessons))]
    ids: Vec<String>,
    #[command(flatten)]
    target: Target,
}

/// Deprecate lessons: they count no more
#[derive(Debug, Args)]
struct Rm {
    #[command(flatten)]
    chosen: Chosen,
}

/// Pin lessons: they never expire, and every prompt tells them
#[derive(Debug, Args)]
struct Pin {
    #[command(flatten)]
    chosen: Chosen,
}

/// Unpin lessons
#[derive(Debug, Args)]
struct Unpin {
    #[command(flatten)]
    chosen: Chosen,
}

/// Print the lessons for a coming call, as text to stand before the prompt
///
/// All pinned ones, newest first, and the five others that fit best: what is about the tool, what
/// happened often, what worked, what is new. At most 8192 bytes; nothing without lessons.
#[derive(Debug, Args)]
struct Inject {
    /// The snapshot
    #[arg(value_name = "REV", default_value = "HEAD", add = ArgValueCandidates::new(revisions))]
    revision: String,
    /// The tool that is about to be called
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// The turn that it is called in; that of the snapshot by default
    #[arg(long, value_name = "N")]
    turn: Option<u64>,
}

impl Verb for LessonCommand {
    fn reads_only(&self) -> bool {
        matches!(self.action, Action::List(_) | Action::Inject(_) | Action::Export(_))
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        match &self.action {
            Action::Add(add) => add.run(run),
            Action::List(list) => list.run(run),
            Action::Edit(edit) => edit.run(run),
            Action::Rm(Rm { chosen }) => chosen.run(run, "rm", |lesson| lesson.deprecated = true),
            Action::Pin(Pin { chosen }) => chosen.run(run, "pin", |lesson| lesson.pinned = true),
            Action::Unpin(Unpin { chosen }) => {
                chosen.run(run, "unpin", |lesson| lesson.pinned = false)
            }
            Action::Inject(inject) => inject.run(run),
            Action::Export(export) => export.run(run),
            Action::Import(import) => import.run(run),
        }
    }
}

impl Add {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        match self.apply(&repo)? {
            Some(changed) => show(run, changed),
            None => self.nothing_to_learn(run, &repo),
        }
    }

    /// Adds the lesson, unless it was to be that of a spiral and there is none.
    pub(crate) fn apply(&self, repo: &Repository) -> Result<Option<Changed>> {
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
            let added = change.lessons.add(lesson)?;
            let mut merged = Merged::default();
            let list = if added.folded { &mut merged.changed } else { &mut merged.added };
            list.push(added.key);
            Ok(merged)
        })?;
        Ok(Some(changed))
    }

    /// What there is to learn from the last turns of the branch, or of the one that was given up.
    fn learn(&self, repo: &Repository) -> Result<Option<Lesson>> {
        let branch = self.target.branch(repo)?;
        let revision = self.branch.clone().unwrap_or_else(|| branch.to_string());
        let steps = steps(repo, &resolve(repo, &revision)?.commit)?;
        Ok(learn(&find_spiral(&steps, SPIRAL_WINDOW)))
    }

    fn nothing_to_learn(&self, run: &mut Invocation, repo: &Repository) -> Result<Answer> {
        let branch = self.target.branch(repo)?;
        if run.out.json {
            let (session, branch) = (branch.session().to_owned(), branch.branch().to_owned());
            let none = json::LessonsChanged::nothing(session, branch);
            run.out.record(&none)?;
        } else {
            writeln!(run.out, "no spiral: nothing to learn")?;
        }
        Ok(Answer::No)
    }
}

/// Links a lesson to what was given up.
fn abandon(change: &Change<'_>, revision: &str, lesson: &mut Lesson) -> Result<()> {
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

impl Edit {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let edit = |lesson: &mut Lesson| self.fields.apply(lesson);
        change_each(&self.target, std::slice::from_ref(&self.id), run, "edit", edit)
    }
}

impl Chosen {
    fn run(&self, run: &mut Invocation, verb: &str, edit: impl Fn(&mut Lesson)) -> Result<Answer> {
        change_each(&self.target, &self.ids, run, verb, edit)
    }
}

/// Edits some lessons of a branch.
fn change_each(
    target: &Target,
    ids: &[String],
    run: &mut Invocation,
    verb: &str,
    edit: impl Fn(&mut Lesson),
) -> Result<Answer> {
    target.change(run, verb, |change| {
        let mut merged = Merged::default();
        for id in ids {
            let key = change.lessons.find(id).map_err(|error| error.at(format_args!("'{id}'")));
            let key = key.hint(ErrorKind::NotFound, "'turntree lesson list --all' shows them")?;
            let Some(old) = change.lessons.get(&key).cloned() else { continue };
            let mut lesson = old.clone();
            edit(&mut lesson);
            if lesson == old {
                continue;
            }
            let list = match lesson.deprecated && !old.deprecated {
                true => &mut merged.deprecated,
                false => &mut merged.changed,
            };
            list.push(key.clone());
            change.lessons.set(&key, lesson)?;
        }
        Ok(merged)
    })
}

impl List {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        if run.out.json {
            run.out.record(&list(&repo, &self.revision, self.all)?)?;
            return Ok(Answer::Yes);
        }
        let (lessons, turn) = lessons_at(&repo, &self.revision)?;
        write_list(&mut run.out, &shown(&lessons, turn, self.all), turn, lessons.others())?;
        Ok(Answer::Yes)
    }
}

/// Lessons that are listed in a turn: those that count then, or all.
fn shown(lessons: &Lessons, turn: u64, all: bool) -> Vec<(&str, &Lesson)> {
    let is_shown = |(_, lesson): &(&str, &Lesson)| all || lesson.is_live(turn);
    let mut shown: Vec<(&str, &Lesson)> = lessons.iter().filter(is_shown).collect();
    shown.sort_by_key(|(key, lesson)| (lesson.turn_id, lesson.captured_at, *key));
    shown
}

/// The lessons of a snapshot that count, or all, for programs.
pub(crate) fn list(repo: &Repository, revision: &str, all: bool) -> Result<json::Lessons> {
    let (lessons, turn) = lessons_at(repo, revision)?;
    let record = |(key, lesson): (&str, &Lesson)| json::ListedLesson {
        id: key.to_owned(),
        live: lesson.is_live(turn),
        lesson: lesson.clone(),
    };
    let others = lessons.others().to_vec();
    let lessons = shown(&lessons, turn, all).into_iter().map(record).collect();
    Ok(json::Lessons { turn, lessons, others })
}

impl Inject {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let told = inject(&repo, &self.revision, self.tool.as_deref(), self.turn)?;
        if run.out.json {
            run.out.record(&told)?;
        } else {
            write!(run.out, "{}", told.prompt)?;
        }
        Ok(Answer::Yes)
    }
}

/// The lessons for a coming call, in a turn or that of the snapshot.
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
    let (prompt, lessons, left_out) = (block.text, block.told, block.left_out);
    Ok(json::InjectedLessons { prompt, lessons, left_out })
}
