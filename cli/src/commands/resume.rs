//! `resume`: writes a turn as a new session of an agent.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use clap_complete::{ArgValueCandidates, ArgValueCompleter};
use turntree::context::sections::FILES;
use turntree::object::ObjectId;
use turntree::repo::{BranchName, Repository, SnapshotRevision};
use turntree::{Error, ErrorKind};
use turntree_exchange::render::native::NativeAgent;
use turntree_exchange::{Ledger, enumeration, ledger, return_before};

use super::Verb;
use crate::hook::worktree::carry_settings;
use crate::porcelain::read::revision::resolve;
use crate::porcelain::workspace::agent_session::{AgentSession, session_fact};
use crate::porcelain::workspace::rewind::{
    PlannedRewind, RestoreRequest, RewindRun, checked, end, own_directory, unknown_workspace,
};
use crate::porcelain::workspace::worktree::{
    MadeWorktree, MadeWorktrees, PlannedWorktree, plan_worktrees,
};
use crate::program::complete::{resuming_agents, revisions};
use crate::program::here::worktree_around;
use crate::program::invocation::{Invocation, has_own_branch, whole_path};
use crate::program::moved_project::MovedProject;
use crate::view::error::{Answer, Failure, Hint, Result};
use crate::view::json;
use crate::view::output::{FAINT, warn};
#[cfg(feature = "ui")]
use crate::view::render::ID_DIGITS;
use crate::view::render::effects::write_effects;
use crate::view::render::{count, harmless};

/// Branches of a session that are looked at for turns after the resumed one.
const MAX_TIPS: usize = 64;

/// Resume from any turn in an agent
///
/// Writes the conversation of REV as a new session into the agent's own session storage, and prints
/// the command that resumes it. Existing files of the agent are not overwritten. If the session
/// came from the same agent, its original records are written; otherwise calls and results are
/// converted to the agent's format. The new session is a branch of the store that begins at REV: a
/// hook or 'turntree adopt' imports the agent's new turns into it. If TURNTREE_BRANCH names a branch
/// and REV is its tip, the session continues that branch.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree resume
  turntree resume turn:12 --run
  turntree resume plan-b --in codex
  turntree resume turn:12 --worktree ../try-1
  turntree resume nightly~3 --cwd ../other --files --dry-run")]
pub(crate) struct Resume {
    /// The snapshot
    #[arg(value_name = "REV", default_value = "HEAD", add = ArgValueCompleter::new(revisions))]
    revision: String,
    #[arg(long = "in", value_name = "AGENT", help = agent_help(), add = ArgValueCandidates::new(resuming_agents))]
    agent: Option<String>,
    /// The working directory of the new session; that of REV by default
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    cwd: Option<PathBuf>,
    /// Create a directory for the new session, like 'turntree fork --worktree', with the files of
    /// REV
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath,
        conflicts_with_all = ["cwd", "files"])]
    worktree: Option<PathBuf>,
    /// Also restore the files of REV in that directory
    #[arg(long)]
    files: bool,
    /// Allow the home directory, a directory above it, or / for --files
    #[arg(long, requires = "files")]
    allow_broad: bool,
    /// Start the agent
    #[arg(long, conflicts_with = "dry_run")]
    run: bool,
    /// Print the plan without writing anything
    #[arg(short = 'n', long)]
    dry_run: bool,
}

/// A planned session, and the effects of turns that it does not have.
struct Planned {
    session: AgentSession,
    effects: Ledger,
}

impl Verb for Resume {
    fn reads_only(&self) -> bool {
        self.dry_run
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        // The content was imported before, so its secrets are not reported again.
        run.keep_quiet();
        let repo = run.open()?;
        let revision = resolve(&repo, &self.revision)?;
        let from = revision.commit;
        let worktree = self.planned_worktree(&repo, &from)?;
        let cwd = match &worktree {
            Some(worktree) => worktree.workspace(),
            None => self.directory(&repo, &from, revision.branch.as_ref())?,
        };
        let planned = self.plan(&repo, &revision, cwd)?;
        if self.files {
            // Refused before anything is written.
            self.writable(&repo, &planned.session.cwd)?;
        }
        if self.dry_run {
            let branch = match revision.branch {
                Some(branch) => branch,
                None => repo.head()?.branch,
            };
            let files = match self.files {
                true => self.planned_files(&repo, &planned, branch)?,
                false => None,
            };
            self.show(run, &planned, files, worktree.as_ref().map(|_| "directory"))?;
            return Ok(Answer::Yes);
        }
        let mut worktrees = MadeWorktrees::default();
        if let Some(worktree) = worktree {
            worktrees.make(&repo, &from, worktree.of_branch(planned.session.branch.clone()))?;
        }
        planned.session.write(&repo, &mut worktrees)?;
        let made = worktrees.keep(&repo);
        let kind = made.first().map(MadeWorktree::kind);
        made.iter().for_each(carry_settings);
        let (files, ended) = match self.files.then(|| self.restore_files(&repo, &planned)) {
            None => (None, Ok(Answer::Yes)),
            Some(Ok((files, ended))) => (files, ended),
            Some(Err(failure)) => (None, Err(failure)),
        };
        self.show(run, &planned, files, kind)?;
        if ended.is_err() {
            let branch = &planned.session.branch;
            warn(&format!("{branch} is laid out, but not all of its files are restored"));
        }
        let answer = ended?;
        if self.run {
            // The agent replaces this process, so its output is flushed first.
            run.out.flush()?;
            return planned.session.start();
        }
        Ok(answer)
    }
}

/// Functions for the terminal interface.
#[cfg(feature = "ui")]
impl Resume {
    /// Resumes from a snapshot immediately, in its own agent and directory.
    pub(super) fn at(id: &ObjectId) -> Self {
        Self {
            revision: id.to_string(),
            agent: None,
            cwd: None,
            worktree: None,
            files: false,
            allow_broad: false,
            run: true,
            dry_run: false,
        }
    }

    /// Describes the files to write, and the commands.
    pub(super) fn preview(&self, repo: &Repository) -> Result<String> {
        let revision = resolve(repo, &self.revision)?;
        let cwd = self.directory(repo, &revision.commit, revision.branch.as_ref())?;
        let planned = self.plan(repo, &revision, cwd)?;
        let AgentSession { turn, agent, place, transcript, .. } = &planned.session;
        let (what, agent) = (count(transcript.messages, "message"), agent.name());
        Ok(format!(
            "turntree resume {} --run\n\nwould write {what} of turn {turn} to {}\nand start \
             {agent}:\n{}\nnew turns of {agent} are added to {}\n",
            revision.commit.short(ID_DIGITS),
            place.path.display(),
            planned.session.command(),
            planned.session.branch,
        ))
    }
}

impl Resume {
    fn plan(
        &self,
        repo: &Repository,
        revision: &SnapshotRevision,
        cwd: PathBuf,
    ) -> Result<Planned> {
        let from = revision.commit;
        let agent = self.agent.as_deref().map(NativeAgent::of_format).transpose()?;
        let past = past_of(repo, revision)?;
        // The hooks of an agent that has a branch of its own record there, whatever its session.
        let own = repo.head().ok().filter(|head| has_own_branch() && head.commit == Some(from));
        let onto = own.filter(|_| self.worktree.is_none()).map(|head| head.branch);
        let session = AgentSession::plan(repo, (from, past), agent, onto, cwd)?;
        let left = match past {
            Some(past) => Some((past, from)),
            None => return_before(repo, &from)?.map(|back| (back.past, back.target)),
        };
        // Turns that were forgotten since are no reason to fail.
        let effects = left.and_then(|(past, target)| ledger(repo, &past, &target).ok());
        Ok(Planned { session, effects: effects.unwrap_or_default() })
    }

    /// The working directory, which must exist; for a branch with a worktree, the worktree that
    /// contains the caller.
    fn directory(
        &self,
        repo: &Repository,
        from: &ObjectId,
        of: Option<&BranchName>,
    ) -> Result<PathBuf> {
        if let Some(dir) = &self.cwd {
            return Ok(whole_path(dir)?);
        }
        if let Some((dir, branch)) = worktree_around(repo, Path::new("."))
            && of.is_none_or(|of| *of == branch)
            && repo.commit(from)?.session == branch.session()
        {
            return Ok(dir);
        }
        let hint = "name the working directory with --cwd DIR; of another computer, 'turntree session \
                    map OLD=NEW' maps all of its directories";
        let known = session_fact(repo, &repo.context(from)?, "cwd")?.or(repo.workspace_of(from)?);
        let moved = MovedProject::of(repo);
        let known = known.map(|cwd| moved.present(Path::new(&cwd)));
        let known = known.filter(|cwd| cwd.is_absolute());
        let Some(known) = known else {
            let unknown = Error::invalid("the session does not record its working directory");
            return Err(Failure::hinted(unknown, hint));
        };
        whole_path(&known).hint(ErrorKind::NotFound, hint)
    }

    /// Plans the worktree of the new session, if requested.
    fn planned_worktree(
        &self,
        repo: &Repository,
        from: &ObjectId,
    ) -> Result<Option<PlannedWorktree>> {
        let Some(dir) = &self.worktree else { return Ok(None) };
        // The session gets its name together with the place of its transcript.
        let unnamed = BranchName::main("resumed")?;
        Ok(plan_worktrees(repo, from, vec![(unnamed, dir.clone())])?.pop())
    }

    /// The directory to restore files in; a directory named by a session must be from this machine.
    fn writable(&self, repo: &Repository, cwd: &Path) -> Result<PathBuf> {
        match &self.cwd {
            Some(_) => checked(cwd, self.allow_broad),
            None => own_directory(repo, cwd, self.allow_broad),
        }
    }

    fn files_of(
        &self,
        repo: &Repository,
        planned: &Planned,
        branch: BranchName,
    ) -> Result<RewindRun> {
        let only = [FILES.to_owned()];
        let (from, dry_run) = (planned.session.from, self.dry_run);
        let request = RestoreRequest { branch, from, only: &only, keep_lessons: false, dry_run };
        let directory = self.writable(repo, &planned.session.cwd)?;
        request.bring_back(repo, |_| Ok(Some(directory)), unknown_workspace)
    }

    /// Plans the files of the turn.
    fn planned_files(
        &self,
        repo: &Repository,
        planned: &Planned,
        branch: BranchName,
    ) -> Result<Option<json::WorkspaceChanges>> {
        let files = self.files_of(repo, planned, branch)?;
        let plan: PlannedRewind<'_> = files.look(repo)?;
        Ok(files.record(repo, plan.plan(), None)?.workspace)
    }

    /// Restores the files of the turn, and returns the result.
    fn restore_files(
        &self,
        repo: &Repository,
        planned: &Planned,
    ) -> Result<(Option<json::WorkspaceChanges>, Result<Answer>)> {
        let files = self.files_of(repo, planned, planned.session.branch.clone())?;
        let done = files.apply(repo, files.look(repo)?)?;
        let made = Some((done.committed.sequence, done.arranged.as_ref()));
        let changes = files.record(repo, &done.plan, made)?.workspace;
        Ok((changes, end(done.plan.files.as_ref(), done.arranged.as_ref())))
    }

    fn show(
        &self,
        run: &mut Invocation,
        planned: &Planned,
        files: Option<json::WorkspaceChanges>,
        worktree: Option<&str>,
    ) -> Result<()> {
        let session = &planned.session;
        let AgentSession { place, transcript, .. } = session;
        for (what, times) in &transcript.left_out {
            warn(&format!(
                "{times} {what} left out: {} has no place for them",
                session.agent.name()
            ));
        }
        if run.out.json {
            let record = json::Resumed {
                id: session.from.to_string(),
                from: session.from.to_string(),
                turn: session.turn,
                agent: session.agent.name().to_owned(),
                session_id: session.id.clone(),
                session: session.branch.session().to_owned(),
                path: place.path.display().to_string(),
                cwd: session.cwd.display().to_string(),
                prepare: place.prepare.clone(),
                command: place.command.clone(),
                messages: transcript.messages,
                own_records: transcript.is_own,
                left_out: transcript
                    .left_out
                    .iter()
                    .map(|(what, n)| ((*what).to_owned(), *n))
                    .collect(),
                dry_run: self.dry_run,
                workspace: files,
                worktree: worktree.map(|_| session.cwd.display().to_string()),
                left: (&planned.effects).into(),
            };
            run.out.record(&record)?;
            return Ok(());
        }
        let paint = run.out.paint;
        let (would, path) =
            (if self.dry_run { "would write" } else { "wrote" }, place.path.display());
        let what = count(transcript.messages, "message");
        let path = harmless(&path.to_string());
        writeln!(run.out, "{would} {what} of turn {} to {path}", session.turn)?;
        if let Some(files) = &files {
            let changed = count(files.files.len() as u64, "file");
            let verb = if self.dry_run { "would change" } else { "changed" };
            writeln!(run.out, "{verb} {changed} in {}", harmless(&files.dir))?;
        }
        if let Some(kind) = worktree {
            let verb = if self.dry_run { "would make" } else { "made" };
            let dir = harmless(&session.cwd.display().to_string());
            writeln!(run.out, "{verb} the {kind} {dir} with the files of the turn")?;
        }
        write_effects(&mut run.out, paint, &planned.effects, !self.dry_run)?;
        if self.dry_run {
            writeln!(run.out, "{}", paint.paint(FAINT, "nothing was done"))?;
            return Ok(());
        }
        let branch = run.out.branch(&session.branch);
        writeln!(run.out, "new turns of {} are added to {branch}", session.agent.name())?;
        writeln!(run.out, "{}", session.command())?;
        Ok(())
    }
}

/// Returns the tip of a branch that continues after a revision: of HEAD, or of the first branch of
/// its session. `None` if the revision is a tip.
fn past_of(repo: &Repository, revision: &SnapshotRevision) -> Result<Option<ObjectId>> {
    let (from, session) = (revision.commit, repo.commit(&revision.commit)?.session);
    let head = repo.head().ok().and_then(|head| head.commit);
    let branches = repo.branches().into_iter();
    let its = branches.filter(|(branch, _)| branch.session() == session).map(|(_, tip)| tip);
    let tips: Vec<ObjectId> = head.into_iter().chain(its).take(MAX_TIPS).collect();
    if revision.branch.is_some() || tips.contains(&from) {
        return Ok(None);
    }
    for tip in tips {
        if repo.merge_base(&tip, &from)? == Some(from) {
            return Ok(Some(tip));
        }
    }
    Ok(None)
}

fn agent_help() -> String {
    let names = enumeration(NativeAgent::ALL.map(NativeAgent::name), "or");
    format!("The agent: {names}; the one of the session by default")
}
