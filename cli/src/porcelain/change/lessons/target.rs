//! The lessons of a branch, read or changed in one operation.

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree::context::Builder;
use turntree::object::{Commit, ObjectId};
use turntree::repo::{BranchName, LESSONS_CHANGED, Repository, SnapshotDraft, WORKSPACE};
use turntree::{Error, ErrorKind};
use turntree_exchange::lessons::{Lessons, MergedLessons};

use crate::porcelain::read::revision::{known_branch_of, resolve};
use crate::program::complete::sessions;
use crate::program::invocation::{Invocation, stamp};
use crate::view::advice::Advice;
use crate::view::error::{Answer, Failure, Hint, Result};
use crate::view::json;
use crate::view::render::lessons::write_changes;

/// The branch whose lessons to use.
#[derive(Debug, Default, Args)]
pub(crate) struct LessonBranch {
    /// Use the main branch of this session
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(sessions))]
    pub(crate) session: Option<String>,
    /// Use this branch; HEAD's by default
    #[arg(long, value_name = "BRANCH")]
    pub(crate) on: Option<String>,
}

/// The result of a change.
pub(crate) struct LessonChange {
    branch: BranchName,
    changes: MergedLessons,
    lessons: Lessons,
    /// The new snapshot, and its turn.
    made: Option<(ObjectId, u64)>,
}

impl LessonChange {
    /// The JSON record of the change.
    pub(crate) fn record(self) -> json::LessonsChanged {
        let MergedLessons { added, changed, deprecated } = self.changes;
        json::LessonsChanged {
            session: self.branch.session().to_owned(),
            branch: self.branch.branch().to_owned(),
            at: json::CommitId::new(self.made.map(|(id, _)| id.to_string())),
            turn: self.made.map(|(_, turn)| turn),
            added,
            changed,
            deprecated,
        }
    }
}

/// The lessons of a branch being changed.
pub(crate) struct LessonEdits<'a> {
    pub(crate) repo: &'a Repository,
    pub(crate) branch: BranchName,
    pub(crate) tip: Commit,
    pub(crate) lessons: Lessons,
}

impl LessonBranch {
    pub(crate) fn branch(&self, repo: &Repository) -> Result<BranchName> {
        known_branch_of(repo, self.session.as_deref(), self.on.as_deref())
    }

    /// Changes the lessons of the branch with `act`, in one operation called `verb`, and shows the
    /// result.
    pub(crate) fn change(
        &self,
        run: &mut Invocation,
        verb: &str,
        act: impl FnOnce(&mut LessonEdits<'_>) -> Result<MergedLessons>,
    ) -> Result<Answer> {
        let changed = self.apply(&*run.open()?, verb, act)?;
        show(run, changed)
    }

    /// Changes the lessons of the branch with `act`, in one operation called `verb`.
    pub(crate) fn apply(
        &self,
        repo: &Repository,
        verb: &str,
        act: impl FnOnce(&mut LessonEdits<'_>) -> Result<MergedLessons>,
    ) -> Result<LessonChange> {
        let stamp = stamp()?;
        let branch = self.branch(repo)?;
        let mut transaction = repo.begin();
        let Some(tip) = transaction.tip(&branch) else {
            let hint = Advice::anyone("lessons belong to a session: take a snapshot first");
            let error = Error::not_found(format!("{branch} has no snapshot yet"));
            return Err(Failure::hinted(error, hint));
        };
        let (context, tip) = (repo.context(&tip)?, repo.commit(&tip)?);
        let before = Lessons::read(&transaction, &context)?;
        let mut change = LessonEdits { repo, branch, tip, lessons: before.clone() };
        let changes = act(&mut change)?;
        let LessonEdits { branch, tip, lessons, .. } = change;
        let mut made = None;
        if changes != MergedLessons::default() {
            let mut builder = Builder::from(context);
            lessons.write(&mut transaction, &mut builder, &before)?;
            let tree = builder.write(&mut transaction)?;
            let mut draft = SnapshotDraft::new(tree, format!("lesson {verb}"), &stamp);
            draft.metadata.insert(LESSONS_CHANGED.to_owned(), verb.to_owned());
            // The files did not change, so the snapshot keeps the directory that they came from.
            let workspace = tip.metadata.get_key_value(WORKSPACE);
            draft.metadata.extend(workspace.map(|(name, dir)| (name.clone(), dir.clone())));
            let id = transaction.snapshot(&branch, draft)?;
            made = Some((id, transaction.read_commit(&id)?.turn));
            transaction.commit(&stamp, &format!("lesson {verb} {branch}")).hint(
                ErrorKind::Conflict,
                Advice::anyone("another process has added a snapshot to this branch: try again"),
            )?;
        }
        Ok(LessonChange { branch, changes, lessons, made })
    }
}

/// Shows the result of a change.
pub(crate) fn show(run: &mut Invocation, changed: LessonChange) -> Result<Answer> {
    if run.out.json {
        run.out.record(&changed.record())?;
    } else {
        let LessonChange { branch, changes, lessons, .. } = &changed;
        write_changes(&mut run.out, branch, changes, lessons)?;
    }
    Ok(Answer::Yes)
}

/// The lessons of a snapshot, and its turn.
pub(crate) fn lessons_at(repo: &Repository, revision: &str) -> Result<(Lessons, u64)> {
    let id = resolve(repo, revision)?.commit;
    Ok((Lessons::read(repo, &repo.context(&id)?)?, repo.commit(&id)?.turn))
}
