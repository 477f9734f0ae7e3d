//! `tag`: names snapshots with names that do not move.

use std::io::Write;

use clap::Args;
use clap_complete::{ArgValueCandidates, ArgValueCompleter};
use turntree::object::Time;
use turntree::repo::{NamedTag, Repository};

use super::Verb;
use crate::porcelain::change::tags::{add, delete, deleted, record_of};
use crate::program::complete::{revisions, tags};
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};
use crate::view::output::{FAINT, ID, NAME, note};
use crate::view::render::table::{Cell, Column, Table};
use crate::view::render::{ID_DIGITS, one_line};
use crate::view::{clock, json};

/// List tags, or give a snapshot a name that does not move
///
/// Without a name, lists tags. A tag keeps its snapshot under any policy.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree tag
  turntree tag tests-pass HEAD -m 'all 400 of them'
  turntree log tests-pass..
  turntree tag --delete tests-pass")]
pub(crate) struct Tag {
    /// The name
    #[arg(value_name = "NAME", conflicts_with = "delete")]
    name: Option<String>,
    /// The snapshot
    #[arg(value_name = "REV", default_value = "HEAD", add = ArgValueCompleter::new(revisions))]
    revision: String,
    /// Purpose of the tag
    #[arg(short, long, value_name = "TEXT", default_value = "", requires = "name")]
    message: String,
    /// Delete tags; a snapshot stays while a branch, tag or pin still references it
    #[arg(short, long, num_args = 1.., value_name = "NAME", add = ArgValueCandidates::new(tags))]
    delete: Vec<String>,
}

impl Verb for Tag {
    fn reads_only(&self) -> bool {
        true
    }

    fn may_write(&self) -> bool {
        self.name.is_some() || !self.delete.is_empty()
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        match (&self.name, &*self.delete) {
            (Some(name), _) => self.create(run, &repo, name),
            (None, []) => list(run, &repo),
            (None, names) => remove(run, &repo, names),
        }
    }
}

impl Tag {
    fn create(&self, run: &mut Invocation, repo: &Repository, name: &str) -> Result<Answer> {
        let made = add(repo, name, &self.revision, &self.message)?;
        let record = record_of(repo, &made)?;
        if run.out.json {
            run.out.record(&record)?;
            return Ok(Answer::Yes);
        }
        let paint = run.out.paint;
        let id = record.id.get(..ID_DIGITS).unwrap_or(&record.id);
        let (name, id) = (paint.paint(NAME, name), paint.paint(ID, id));
        let session = run.out.names().session(&record.session);
        let turn = record.turn;
        writeln!(run.out, "{name} is {id}, turn {turn} of {session}")?;
        Ok(Answer::Yes)
    }
}

fn list(run: &mut Invocation, repo: &Repository) -> Result<Answer> {
    let tags = repo.tags()?;
    if run.out.json {
        let tags = tags.iter().map(|tag| record_of(repo, tag)).collect::<Result<_>>()?;
        run.out.record(&json::Tags { tags })?;
        return Ok(Answer::Yes);
    }
    if tags.is_empty() {
        note(&format!("no tag in {}", run.store_dir()?.display()));
    }
    let mut table = Table::of(vec![
        Column::name(""),
        Column::text("").rank(2),
        Column::text(""),
        Column::name("").rank(3),
        Column::text("").rank(1),
        Column::title(""),
    ]);
    let now = clock::now()?;
    for NamedTag { name, tag } in &tags {
        let commit = repo.commit(&repo.peel(&tag.target)?)?;
        let time = match tag.time_micros {
            0 => commit.time,
            micros => Time { micros, offset_minutes: 0 },
        };
        table.row(vec![
            Cell::styled(NAME, name),
            Cell::styled(ID, tag.target.short(ID_DIGITS)),
            format!("turn {}", commit.turn).into(),
            commit.session.into(),
            Cell::styled(FAINT, clock::relative(time, now)),
            one_line(&tag.message, usize::MAX).into(),
        ]);
    }
    table.write(&mut run.out)?;
    Ok(Answer::Yes)
}

fn remove(run: &mut Invocation, repo: &Repository, names: &[String]) -> Result<Answer> {
    let gone = delete(repo, names)?;
    if run.out.json {
        run.out.record(&json::DeletedTags { deleted: deleted(&gone) })?;
        return Ok(Answer::Yes);
    }
    for (name, id) in gone {
        let paint = run.out.paint;
        let (name, id) = (paint.paint(NAME, name), paint.paint(ID, id.short(ID_DIGITS)));
        writeln!(run.out, "deleted {name}, which was {id}; 'turntree undo' brings it back")?;
    }
    Ok(Answer::Yes)
}
