//! `lesson`: lessons of an agent, kept in its session and shown before its next call.

mod file;

use std::io::Write;

use clap::{Args, Subcommand};
use clap_complete::{ArgValueCandidates, ArgValueCompleter};
use turntree::ErrorKind;
use turntree::repo::Repository;
use turntree_exchange::lessons::{Lesson, MergedLessons};

use self::file::{Export, Import};
use super::Verb;
use crate::porcelain::change::lessons::fields::LessonFields;
use crate::porcelain::change::lessons::target::{LessonBranch, lessons_at, show};
use crate::porcelain::change::lessons::{Add, inject, list, shown};
use crate::program::complete::{lessons, revisions};
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Hint, Result};
use crate::view::json;
use crate::view::output::note;
use crate::view::render::lessons::write_list;

/// Record lessons, and print those that fit the next call
///
/// A lesson belongs to its session: forked branches have it, 'turntree merge BRANCH --only lessons'
/// merges it, and no other session sees it. Lessons are never deleted, only deprecated. Each
/// command that changes lessons is one operation, which 'turntree undo' reverts; 'turntree
/// rollback' does not count it as a turn.
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
    action: Option<LessonAction>,
}

#[derive(Debug, Subcommand)]
enum LessonAction {
    Add(Add),
    #[command(alias = "ls")]
    List(List),
    Edit(EditLesson),
    Rm(Rm),
    Pin(PinLessons),
    Unpin(Unpin),
    Inject(Inject),
    Export(Export),
    Import(Import),
}

/// List lessons
#[derive(Debug, Args)]
struct List {
    /// The snapshot
    #[arg(value_name = "REV", default_value = "HEAD", add = ArgValueCompleter::new(revisions))]
    revision: String,
    /// List deprecated and expired lessons, too
    #[arg(short, long)]
    all: bool,
}

/// Change fields of a lesson; an empty text clears a field
#[derive(Debug, Args)]
struct EditLesson {
    /// The lesson, or the beginning of its id
    #[arg(value_name = "ID", add = ArgValueCandidates::new(lessons))]
    id: String,
    #[command(flatten)]
    fields: LessonFields,
    #[command(flatten)]
    target: LessonBranch,
}

/// Some lessons.
#[derive(Debug, Args)]
struct Chosen {
    /// Lessons, or the beginnings of their ids
    #[arg(value_name = "ID", required = true, add = ArgValueCandidates::new(lessons))]
    ids: Vec<String>,
    #[command(flatten)]
    target: LessonBranch,
}

/// Deprecate lessons: they are not used again
#[derive(Debug, Args)]
struct Rm {
    #[command(flatten)]
    chosen: Chosen,
}

/// Pin lessons: they never expire, and every prompt includes them
#[derive(Debug, Args)]
struct PinLessons {
    #[command(flatten)]
    chosen: Chosen,
}

/// Unpin lessons
#[derive(Debug, Args)]
struct Unpin {
    #[command(flatten)]
    chosen: Chosen,
}

/// Print the lessons for the next call, as text to put before the prompt
///
/// Prints all pinned lessons, newest first, and the five others that fit best: about the tool,
/// frequent, successful, recent. At most 8192 bytes; nothing without lessons.
#[derive(Debug, Args)]
struct Inject {
    /// The snapshot
    #[arg(value_name = "REV", default_value = "HEAD", add = ArgValueCompleter::new(revisions))]
    revision: String,
    /// The tool that is about to be called
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// The turn of the call; by default the turn of the snapshot
    #[arg(long, value_name = "N")]
    turn: Option<u64>,
}

impl Verb for LessonCommand {
    fn reads_only(&self) -> bool {
        matches!(
            self.action,
            None | Some(LessonAction::List(_) | LessonAction::Inject(_) | LessonAction::Export(_))
        )
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        match &self.action {
            None => List { revision: "HEAD".to_owned(), all: false }.run(run),
            Some(LessonAction::Add(add)) => add_lesson(add, run),
            Some(LessonAction::List(list)) => list.run(run),
            Some(LessonAction::Edit(edit)) => edit.run(run),
            Some(LessonAction::Rm(Rm { chosen })) => {
                chosen.run(run, "rm", |lesson| lesson.deprecated = true)
            }
            Some(LessonAction::Pin(PinLessons { chosen })) => {
                chosen.run(run, "pin", |lesson| lesson.pinned = true)
            }
            Some(LessonAction::Unpin(Unpin { chosen })) => {
                chosen.run(run, "unpin", |lesson| lesson.pinned = false)
            }
            Some(LessonAction::Inject(inject)) => inject.run(run),
            Some(LessonAction::Export(export)) => export.run(run),
            Some(LessonAction::Import(import)) => import.run(run),
        }
    }
}

fn add_lesson(add: &Add, run: &mut Invocation) -> Result<Answer> {
    let repo = run.open()?;
    match add.apply(&repo)? {
        Some(changed) => show(run, changed),
        None => nothing_to_learn(add, run, &repo),
    }
}

fn nothing_to_learn(add: &Add, run: &mut Invocation, repo: &Repository) -> Result<Answer> {
    let branch = add.target.branch(repo)?;
    if run.out.json {
        let (session, branch) = (branch.session().to_owned(), branch.branch().to_owned());
        let none = json::LessonsChanged::nothing(session, branch);
        run.out.record(&none)?;
    } else {
        writeln!(run.out, "no spiral: nothing to learn")?;
    }
    Ok(Answer::No)
}

impl EditLesson {
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

/// Edits lessons of a branch.
fn change_each(
    target: &LessonBranch,
    ids: &[String],
    run: &mut Invocation,
    verb: &str,
    edit: impl Fn(&mut Lesson),
) -> Result<Answer> {
    target.change(run, verb, |change| {
        let mut merged = MergedLessons::default();
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
        if shown(&lessons, turn, self.all).is_empty() {
            let also = if self.all { "" } else { ": --all lists deprecated and expired ones, too" };
            note(&format!("no lesson at {}{also}", self.revision));
        }
        write_list(&mut run.out, &shown(&lessons, turn, self.all), turn, lessons.others())?;
        Ok(Answer::Yes)
    }
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
