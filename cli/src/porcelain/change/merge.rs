//! Merges and cherry-picks: makes one, and reports the result.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use schemars::JsonSchema;
use serde::Deserialize;
use turntree::context::{Conflict, MessagePolicy, SectionMerge, Selection};
use turntree::object::ObjectId;
use turntree::repo::{BranchName, MergeKind, MergeReport, MergeRequest, Repository, Transaction};
use turntree::{Error, ErrorKind};
use turntree_exchange::formats::tool_use;

use crate::porcelain::read::paths::Paths;
use crate::porcelain::read::revision::{resolve_snapshot, with_resolver};
use crate::program::complete::{paths, revisions};
use crate::program::invocation::{input_name, read_input, stamp};
use crate::view::advice::Advice;
use crate::view::error::{Answer, Failure, Hint, Result};
use crate::view::json;
use crate::view::output::{ID, NAME, Output};
use crate::view::render::merging::write_report;
use crate::view::render::{ID_DIGITS, count, harmless};

/// The hint if another process has moved the branch.
pub(crate) const RACE: &str = "another process has moved this branch: try again";

/// Merges a revision. Returns the request, the report, and the turn of the merge.
pub(crate) fn merge(
    repo: &Repository,
    revision: &str,
    how: &MergeOptions,
) -> Result<(MergeRequest<'static>, MergeReport, u64)> {
    let (theirs, label) = snapshot_of(repo, revision)?;
    let request = how.request(repo, theirs, label)?;
    let stamp = stamp()?;
    let mut change = repo.begin();
    let staged = change.merge(&request, &stamp).hint(
        ErrorKind::NotFound,
        Advice::new(
            "'turntree branch' lists branches, 'turntree ls REV' the content of a snapshot",
            "branch lists branches, show the content of a snapshot",
        ),
    )?;
    let turn = change.read_commit(&staged.commit)?.turn;
    let reason = format!("merge {} into {}", request.label, request.into);
    how.finish(change, staged.kind != MergeKind::UpToDate, &reason)?;
    Ok((request, staged, turn))
}

/// Refuses to merge unrelated histories: all of theirs would be added, which is usually a mistake.
pub(crate) fn expect_related(repo: &Repository, revision: &str, how: &MergeOptions) -> Result<()> {
    let (theirs, label) = snapshot_of(repo, revision)?;
    let into = how.request(repo, theirs, label.clone())?.into;
    let Some(ours) = repo.tip(&into) else { return Ok(()) };
    if repo.merge_base(&ours, &theirs)?.is_some() {
        return Ok(());
    }
    let apart = Error::invalid(format!("{label} and {into} share no snapshot"));
    Err(Failure::hinted(apart, "--unrelated merges them anyway, --dry-run shows the result"))
}

/// Options of a merge or a cherry-pick.
#[derive(Debug, Default, Args)]
pub(crate) struct MergeOptions {
    /// Merge into this branch; HEAD's by default
    #[arg(long, value_name = "BRANCH", add = ArgValueCompleter::new(revisions))]
    pub(crate) into: Option<String>,
    /// Rule for a conversation that both sides continued
    #[arg(long, value_name = "POLICY", value_enum, default_value_t)]
    pub(crate) messages: MessageRule,
    /// A summary of their messages, for --messages summary
    #[arg(long, value_name = "TEXT", conflicts_with = "summary_file")]
    pub(crate) summary: Option<String>,
    /// Read the summary from a file, or - for standard input
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) summary_file: Option<PathBuf>,
    /// Merge only this: files, conversation, another section, or a path; may be given several times
    #[arg(long, value_name = "PATH", add = ArgValueCompleter::new(paths))]
    pub(crate) only: Vec<String>,
    /// Message of the snapshot
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
    /// Print the outcome without changing anything
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
}

/// The rule for a conversation that both sides continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MessageRule {
    /// Keep the messages of both in the order of time, with the origin of theirs
    #[default]
    Append,
    /// Keep ours
    Ours,
    /// Keep theirs
    Theirs,
    /// Keep ours, and add a message with the summary
    Summary,
}

impl MergeOptions {
    /// The merge request for a commit.
    pub(crate) fn request(
        &self,
        repo: &Repository,
        theirs: ObjectId,
        label: String,
    ) -> Result<MergeRequest<'static>> {
        let into = match &self.into {
            Some(name) => with_resolver(repo, |resolver| resolver.branch(name))?,
            None => repo.head()?.branch,
        };
        let sides: Vec<ObjectId> = repo.tip(&into).into_iter().chain([theirs]).collect();
        let only = Paths::of(repo, &sides).parts(&self.only)?;
        Ok(MergeRequest {
            into,
            theirs,
            label,
            messages: self.policy()?,
            only: Selection::parse(&only),
            tools: &tool_use,
            message: self.message.clone(),
        })
    }

    fn policy(&self) -> Result<MessagePolicy> {
        let summary = match (&self.summary, &self.summary_file) {
            (Some(text), _) => Some(text.clone()),
            (None, Some(path)) => Some(text_of(path)?),
            (None, None) => None,
        };
        match (self.messages, summary) {
            (MessageRule::Summary, Some(text)) => Ok(MessagePolicy::Summary(text)),
            (MessageRule::Summary, None) => {
                let error = Error::invalid(
                    "a merge with messages by summary needs the text of the summary",
                );
                let (command, call) = ("give it with --summary", "give it as summary");
                Err(Failure::hinted(error, Advice::new(command, call)))
            }
            (_, Some(_)) => {
                let error =
                    Error::invalid("a summary is for a merge with messages by summary alone");
                let (command, call) =
                    ("pass --messages summary", "call it with messages = summary");
                Err(Failure::hinted(error, Advice::new(command, call)))
            }
            (MessageRule::Append, None) => Ok(MessagePolicy::Append),
            (MessageRule::Ours, None) => Ok(MessagePolicy::Ours),
            (MessageRule::Theirs, None) => Ok(MessagePolicy::Theirs),
        }
    }

    /// Returns true for a dry run.
    pub(crate) fn dry_run(&self) -> bool {
        self.dry_run
    }

    /// Commits a staged merge, if it changes anything and this is not a dry run.
    pub(crate) fn finish(
        &self,
        change: Transaction<'_>,
        is_changed: bool,
        reason: &str,
    ) -> Result<()> {
        if is_changed && !self.dry_run {
            change.commit(&stamp()?, reason).hint(ErrorKind::Conflict, Advice::anyone(RACE))?;
        }
        Ok(())
    }
}

fn text_of(path: &Path) -> Result<String> {
    let bytes = read_input(path)?;
    let text = String::from_utf8(bytes.into());
    Ok(text.map_err(|_| Error::invalid(format!("{} is not UTF-8", input_name(path))))?)
}

/// The advice for a path where a snapshot is expected.
pub(crate) fn part_of_one() -> Advice {
    Advice::new("'--only PATH' takes a part of one", "only takes a part of one")
}

/// The commit of a revision, and its label: its branch, or its short id.
pub(crate) fn snapshot_of(repo: &Repository, revision: &str) -> Result<(ObjectId, String)> {
    let found = resolve_snapshot(repo, revision, part_of_one())?;
    let label = found.branch.as_ref().map(BranchName::to_string);
    Ok((found.commit, label.unwrap_or_else(|| found.commit.short(ID_DIGITS))))
}

/// Returns [`Answer::No`] if there are conflicts to resolve.
pub(crate) fn answer<'s>(staged: impl IntoIterator<Item = &'s MergeReport>) -> Answer {
    let has_conflicts = |staged: &MergeReport| {
        staged.report.as_ref().is_some_and(|report| !report.conflicts.is_empty())
    };
    if staged.into_iter().any(has_conflicts) { Answer::No } else { Answer::Yes }
}

/// A merge or a cherry-pick to be shown.
pub(crate) struct MergeOutcome<'a> {
    pub(crate) staged: &'a MergeReport,
    pub(crate) request: &'a MergeRequest<'a>,
    pub(crate) turn: u64,
    pub(crate) dry_run: bool,
}

impl MergeOutcome<'_> {
    pub(crate) fn record(&self) -> json::Merged {
        let Self { staged, request, turn, dry_run } = *self;
        let section = |section: &SectionMerge| json::MergedSection {
            taken: section.taken,
            combined: section.combined,
            conflicts: section.conflicts,
        };
        let conflict = |conflict: &Conflict| json::MergeConflict {
            path: conflict.path.clone(),
            kind: conflict.kind.name(),
            fields: conflict.fields.clone(),
            markers: conflict.has_markers,
        };
        let report = staged.report.as_ref();
        let sections: BTreeMap<_, _> = report
            .iter()
            .flat_map(|report| &report.sections)
            .map(|(name, merge)| (name.clone(), section(merge)))
            .collect();
        let is_there = !dry_run || staged.kind == MergeKind::UpToDate;
        json::Merged {
            kind: staged.kind.name(),
            dry_run,
            session: request.into.session().to_owned(),
            branch: request.into.branch().to_owned(),
            id: is_there.then(|| staged.commit.to_string()),
            turn: is_there.then_some(turn),
            base: staged.base.map(|id| id.to_string()),
            ours: staged.ours.to_string(),
            theirs: staged.theirs.to_string(),
            sections,
            conflicts: report.iter().flat_map(|report| &report.conflicts).map(conflict).collect(),
        }
    }

    /// Writes the result, with `done` as its verb, and the merged changes.
    pub(crate) fn write(&self, out: &mut Output, done: &str) -> Result<()> {
        let Self { staged, request, turn, dry_run } = *self;
        let into = out.branch(&request.into);
        let label = out.paint.paint(NAME, out.names().in_text(&request.label));
        let id = out.paint.paint(ID, staged.commit.short(ID_DIGITS));
        let of = match request.only.is_all() {
            true => "all of".to_owned(),
            false => format!("{} of", harmless(&request.only.to_text().replace('\n', ", "))),
        };
        let would = if dry_run { "would be " } else { "" };
        match (staged.kind, dry_run) {
            (MergeKind::UpToDate, _) => writeln!(out, "{into} has {of} {label} already")?,
            (MergeKind::FastForward, false) => {
                writeln!(out, "{into} moves on to {label}: {id}, turn {turn}")?;
            }
            (MergeKind::FastForward, true) => writeln!(out, "{into} would move on to {label}")?,
            (MergeKind::Merged, false) => {
                writeln!(out, "{label} {done} into {into}: {id}, turn {turn}")?;
            }
            (MergeKind::Merged, true) => writeln!(out, "{label} {would}{done} into {into}")?,
        }
        let Some(report) = &staged.report else { return Ok(()) };
        write_report(out, report)?;
        if !report.conflicts.is_empty() && !dry_run {
            let conflicts = count(report.conflicts.len() as u64, "conflict");
            writeln!(out, "{conflicts} to decide: 'turntree resolve' lists them")?;
        }
        Ok(())
    }
}
