//! Restores and rollbacks: the request, the plan, the result, and the workspace to write to.

use std::cell::OnceCell;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use turntree::context::Selection;
use turntree::context::sections::{FILES, META, is_of_agent};
use turntree::local::git_places;
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::platform::canonical;
use turntree::repo::{BranchName, Repository, Signature};
use turntree::workspace::{
    AppliedFiles, CaptureOptions, FileChanges, PreparedRewind, RewindChanges, RewindReport,
    RewindRequest, StatCache, WorkspaceBackup, expect_own_directory, prepare_rewind,
};
use turntree::{Error, ErrorKind};
use turntree_exchange::{Ledger, ledger};

use super::capture::{Limits, progress_text, warn_of_git};
use super::plans;
use crate::porcelain::read::revision::known_branch_of;
use crate::program::here::{recorded_cwd, workspace_of};
use crate::program::invocation::{Invocation, stamp};
use crate::program::moved_project::MovedProject;
use crate::view::advice::Advice;
use crate::view::error::{Answer, Failure, Hint, Result};
use crate::view::json;
use crate::view::output::{FAINT, ID};
use crate::view::progress::Working;
use crate::view::render::effects::write_effects;
use crate::view::render::restoration::{kept_workspace, write_files, write_unknown};
use crate::view::render::{ID_DIGITS, harmless};

/// Formats of the clients in which `resume` opens sessions.
const RESUMED: [&str; 3] = ["claude-code", "codex", "pi"];

/// The branch and the workspace to act on.
#[derive(Debug, Default, Args)]
pub(crate) struct RewindPlace {
    /// Directory to restore files in; by default the one of the newest snapshot with files, if
    /// captured here
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) workspace: Option<PathBuf>,
    /// Allow the home directory, a directory above it, or / as the workspace
    #[arg(long)]
    pub(crate) allow_broad: bool,
    /// Act on a branch of this session; main by default
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Act on this branch; HEAD's by default
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
}

impl RewindPlace {
    /// The branch.
    pub(crate) fn branch(&self, repo: &Repository) -> Result<BranchName> {
        known_branch_of(repo, self.session.as_deref(), self.branch.as_deref())
    }

    /// The directory, if one is given or known.
    pub(crate) fn directory(
        &self,
        repo: &Repository,
        branch: &BranchName,
    ) -> Result<Option<PathBuf>> {
        if let Some(dir) = &self.workspace {
            return checked(dir, self.allow_broad).map(Some);
        }
        let Some(tip) = repo.tip(branch) else { return Ok(None) };
        let known = workspace_of(repo, branch, &tip)?;
        known.map(|dir| own_directory(repo, &dir, self.allow_broad)).transpose()
    }
}

/// The directory where the session of a branch was recorded, if this process is in it: its files
/// are meant where a path is named.
pub(crate) fn session_directory_here(
    repo: &Repository,
    branch: &BranchName,
) -> Result<Option<PathBuf>> {
    let Some(tip) = repo.tip(branch) else { return Ok(None) };
    let Some(cwd) = recorded_cwd(repo, &tip)? else { return Ok(None) };
    let dir = MovedProject::of(repo).present(Path::new(&cwd));
    let here = std::env::current_dir().ok().and_then(|here| canonical(&here).ok());
    let dir = canonical(&dir).ok().filter(|dir| here.is_some_and(|here| here.starts_with(dir)));
    dir.map(|dir| checked(&dir, false)).transpose()
}

/// A requested restore.
pub(crate) struct RestoreRequest<'a> {
    pub(crate) branch: BranchName,
    pub(crate) from: ObjectId,
    /// Sections and paths; everything if empty.
    pub(crate) only: &'a [String],
    pub(crate) keep_lessons: bool,
    pub(crate) dry_run: bool,
}

impl RestoreRequest<'_> {
    /// Prepares the restore, with the workspace from `directory` if it includes files.
    ///
    /// # Errors
    /// The error of `unknown` if it includes files and there is no workspace.
    pub(crate) fn bring_back(
        self,
        repo: &Repository,
        directory: impl FnOnce(&BranchName) -> Result<Option<PathBuf>>,
        unknown: impl FnOnce(&BranchName) -> Failure,
    ) -> Result<RewindRun> {
        let Self { branch, from, only, keep_lessons, dry_run } = self;
        let selection = Selection::parse(only);
        let workspace = match selection.reaches_files() {
            true => directory(&branch)?,
            false => None,
        };
        // An empty workspace has no section, and a partial restore may leave a section without
        // files.
        let has_files = !repo.context(&from)?.map(repo, FILES)?.is_empty()
            || repo.whole_workspace(&from)?.is_some();
        if workspace.is_none() && selection.reaches_files() && has_files {
            return Err(unknown(&branch));
        }
        let (turn, short) = (repo.commit(&from)?.turn, from.short(ID_DIGITS));
        let message = format!("restored turn {turn} ({short}){}", part(only));
        let restore = RewindRequest {
            branch,
            from,
            only: selection,
            workspace,
            is_rollback: false,
            keep_lessons,
            audit: false,
            message,
        };
        Ok(RewindRun::new(restore, "restore", dry_run, None))
    }
}

/// A restore or rollback of a branch and its workspace.
pub(crate) struct RewindRun {
    pub(crate) restore: RewindRequest,
    /// The verb for the operation log.
    pub(crate) verb: &'static str,
    pub(crate) dry_run: bool,
    /// The prompt to roll back to, if the request was in prompts.
    pub(crate) before_prompt: Option<json::RestoredPrompt>,
    /// The effects of the turns after the restored one, from the time of the plan.
    effects: OnceCell<Ledger>,
    /// True for a rollback by no turn: it only restores the files of the newest snapshot.
    is_of_nothing: bool,
}

/// A planned restore or rollback.
pub(crate) struct PlannedRewind<'r> {
    prepared: PreparedRewind<'r>,
    cache: Option<StatCache>,
    stamp: Signature,
}

impl PlannedRewind<'_> {
    /// Returns the plan.
    pub(crate) fn plan(&self) -> &RewindChanges {
        self.prepared.plan()
    }
}

/// The number of the operation, and the written files.
pub(crate) type RewindResult<'a> = Option<(u64, Option<&'a AppliedFiles>)>;

impl RewindRun {
    pub(crate) fn new(
        restore: RewindRequest,
        verb: &'static str,
        dry_run: bool,
        before_prompt: Option<json::RestoredPrompt>,
    ) -> Self {
        let (effects, is_of_nothing) = (OnceCell::new(), false);
        Self { restore, verb, dry_run, before_prompt, effects, is_of_nothing }
    }

    /// Only restores the files of the newest snapshot, and adds none without a difference.
    pub(crate) fn of_no_turn(self) -> Self {
        Self { is_of_nothing: true, ..self }
    }

    /// Returns the effects of the turns after the restored one, which stay. Read before the branch
    /// moves.
    pub(crate) fn effects(&self, repo: &Repository) -> &Ledger {
        self.effects.get_or_init(|| {
            let tip = repo.tip(&self.restore.branch);
            // Damage in these turns does not prevent going back.
            tip.and_then(|tip| ledger(repo, &tip, &self.restore.from).ok()).unwrap_or_default()
        })
    }

    /// Plans it, carries it out if there is anything to do, and shows the result.
    pub(crate) fn run(&self, run: &mut Invocation, repo: &Repository) -> Result<Answer> {
        let looked = self.look(repo)?;
        // A rollback by a turn or more marks the state of the branch, even if that does not change.
        let is_mark = self.restore.is_rollback && !self.is_of_nothing;
        let is_idle = !is_mark && !looked.plan().changes_anything();
        if self.dry_run || is_idle {
            self.show(run, repo, looked.plan(), None)?;
            return Ok(Answer::Yes);
        }
        let done = self.apply(repo, looked)?;
        let arranged = done.arranged.as_ref();
        self.show(run, repo, &done.plan, Some((done.committed.sequence, arranged)))?;
        end(done.plan.files.as_ref(), arranged)
    }

    /// Plans it.
    pub(crate) fn look<'r>(&self, repo: &'r Repository) -> Result<PlannedRewind<'r>> {
        let (restore, stamp) = (&self.restore, stamp()?);
        self.effects(repo);
        let (prepared, cache) = capturing(repo, restore.workspace.as_deref(), |options| {
            prepare_rewind(repo, restore, options, &stamp)
        })?;
        if let Some(before) = &prepared.plan().before {
            warn_of_git(&before.captured);
        }
        Ok(PlannedRewind { prepared, cache, stamp })
    }

    /// The id of a plan: the tip of the branch, the restored state, and the workspace.
    pub(crate) fn plan_id(&self, repo: &Repository, plan: &RewindChanges) -> String {
        let RewindRequest { branch, from, only, workspace, keep_lessons, .. } = &self.restore;
        let tip = repo.tip(branch).map(|id| id.to_string()).unwrap_or_default();
        let (only, sections) = (only.to_text(), plan.sections.join("\0"));
        let text = format!("{branch}\0{tip}\0{from}\0{only}\0{keep_lessons}\0{sections}");
        plans::id(text, workspace.as_deref(), Some(plan))
    }

    /// Carries out a plan.
    pub(crate) fn apply(
        &self,
        repo: &Repository,
        looked: PlannedRewind<'_>,
    ) -> Result<RewindReport> {
        let PlannedRewind { prepared, cache, stamp } = looked;
        let reason = format!("{} {}", self.verb, self.restore.branch);
        let done = prepared.apply(&stamp, &reason).hint(
            ErrorKind::Conflict,
            Advice::anyone(
                "another process has changed the branch, and nothing was done: try again",
            ),
        )?;
        remember(repo, cache.as_ref(), done.plan.before.as_ref());
        Ok(done)
    }

    /// Returns the JSON record of a plan, and of its result.
    pub(crate) fn record(
        &self,
        repo: &Repository,
        plan: &RewindChanges,
        made: RewindResult<'_>,
    ) -> Result<json::Restoration> {
        let RewindRequest { branch, from, .. } = &self.restore;
        let from_turn = repo.commit(from)?.turn;
        let (state, arranged) = (format!("turn {from_turn}"), made.and_then(|(_, done)| done));
        let turn = made.map(|_| repo.commit(&plan.commit)).transpose()?.map(|commit| commit.turn);
        let before = plan.before.as_ref().filter(|_| made.is_some());
        let before = before.map(|kept| kept.commit.to_string());
        let workspace = plan.files.as_ref();
        Ok(json::Restoration {
            from: from.to_string(),
            from_turn,
            session: branch.session().to_owned(),
            branch: branch.branch().to_owned(),
            dry_run: self.dry_run,
            at: json::CommitId::new(made.map(|_| plan.commit.to_string())),
            turn,
            message: plan.message.clone(),
            sections: plan.sections.clone(),
            operation: made.map(|(operation, _)| operation),
            workspace: workspace
                .map(|it| json::WorkspaceChanges::new(it, &state, before, arranged)),
            workspace_kept: plan.kept.map(|kept| kept_workspace(kept, &state)),
            before_prompt: self.before_prompt.clone(),
            left: self.effects(repo).into(),
        })
    }

    fn show(
        &self,
        run: &mut Invocation,
        repo: &Repository,
        plan: &RewindChanges,
        made: RewindResult<'_>,
    ) -> Result<()> {
        let record = self.record(repo, plan, made)?;
        if run.out.json {
            run.out.record(&record)?;
            return Ok(());
        }
        let branch = &self.restore.branch;
        let (state, arranged) =
            (format!("turn {}", record.from_turn), made.and_then(|(_, done)| done));
        if let Some(files) = &plan.files {
            let paint = run.out.paint;
            write_files(&mut run.out, paint, files, &state, arranged)?;
        }
        if let Some(why) = &record.workspace_kept {
            writeln!(run.out, "workspace left unchanged: {why}")?;
        }
        let out = &mut run.out;
        let sections = match plan.sections.as_slice() {
            [] => "no section changes".to_owned(),
            names => format!("sections: {}", harmless(&names.join(", "))),
        };
        let branch = out.branch(branch);
        match record.turn {
            Some(turn) => {
                let id = out.paint.paint(ID, plan.commit.short(ID_DIGITS));
                writeln!(out, "{id} turn {turn} of {branch}: {}", harmless(&plan.message))?;
                if let Some(prompt) = &self.before_prompt {
                    let text = format!("to before prompt {}: {}", prompt.number, prompt.words);
                    writeln!(out, "{}", harmless(&text))?;
                }
                let is_said = plan.sections.iter().any(|name| is_of_agent(name));
                if let Some(client) = client(repo, &self.restore.from)?.filter(|_| is_said) {
                    let hint = format!(
                        "{client} still has the rolled-back turns: 'turntree resume {}' opens a \
                         session of it that ends here",
                        out.names().branch(&self.restore.branch)
                    );
                    writeln!(out, "{}", out.paint.paint(FAINT, harmless(&hint)))?;
                }
            }
            None if self.dry_run => {
                writeln!(
                    out,
                    "would continue from {state} on {branch}{} ({sections}); nothing was done",
                    before_prompt(self.before_prompt.as_ref())
                )?;
            }
            None => writeln!(out, "{branch} and its files are as in {state}: nothing to do")?,
        }
        if record.turn.is_some() || self.dry_run {
            let paint = out.paint;
            write_effects(out, paint, self.effects(repo), record.turn.is_some())?;
        }
        Ok(write_unknown(out, plan.files.as_ref(), arranged, "undo")?)
    }
}

/// Describes the target of a plan in prompts.
fn before_prompt(prompt: Option<&json::RestoredPrompt>) -> String {
    let text = |prompt: &json::RestoredPrompt| {
        format!(", to before prompt {} '{}'", prompt.number, harmless(&prompt.words))
    };
    prompt.map(text).unwrap_or_default()
}

/// The client whose transcript a session was imported from, if it can resume a session.
fn client(repo: &Repository, from: &ObjectId) -> Result<Option<String>> {
    let context = repo.context(from)?;
    let format = context.map(repo, META)?.get(repo, b"format")?;
    let Some(format) = format else { return Ok(None) };
    let name = repo.read_as(Kind::Blob, &format.link.id)?;
    let name = String::from_utf8(name.to_vec()).ok();
    Ok(name.filter(|name| RESUMED.contains(&name.as_str())))
}

/// Lists the restored parts, for a message.
pub(crate) fn part(only: &[String]) -> String {
    if only.is_empty() { String::new() } else { format!(", only {}", only.join(", ")) }
}

/// The error if files are wanted and their directory is unknown.
pub(crate) fn unknown_workspace(branch: &BranchName) -> Failure {
    let unknown = format!("no snapshot of {branch} names the directory of its files");
    let hint = "name it with --workspace DIR, or leave files out with --only conversation";
    Failure::hinted(Error::invalid(unknown), hint)
}

/// The canonical path of a directory to write to.
pub(crate) fn checked(dir: &Path, allow_broad: bool) -> Result<PathBuf> {
    let place = |error: Error| error.at("the workspace");
    Limits::broad(allow_broad).check(dir).map_err(|failure| match failure {
        Failure::Library { error, hint, name } => {
            let for_calls = "start the server with another directory";
            let named = || Advice::new("--workspace names where it is now", for_calls);
            let hint = Some(hint.unwrap_or_else(named));
            Failure::Library { error: place(error), hint, name }
        }
        failure => failure,
    })?;
    canonical(dir).map_err(|error| Error::io(format!("find {}", dir.display()), error).into())
}

/// The canonical path of a directory that a snapshot names. Unless the user names it too, it may be
/// written to only if this machine captured it, or if it contains the working directory.
pub(crate) fn own_directory(repo: &Repository, dir: &Path, allow_broad: bool) -> Result<PathBuf> {
    own_directory_from(repo, dir, std::env::current_dir().ok().as_deref(), allow_broad)
}

/// Like [`own_directory`], for a client whose working directory is `here`.
pub(crate) fn own_directory_from(
    repo: &Repository,
    dir: &Path,
    here: Option<&Path>,
    allow_broad: bool,
) -> Result<PathBuf> {
    let whole = checked(dir, allow_broad)?;
    let hint = || {
        Advice::new(
            format!(
                "--workspace {} writes there anyway; a snapshot may come from another user",
                whole.display()
            ),
            "start the server in that directory",
        )
    };
    expect_own_directory(repo, &whole, here).hint(ErrorKind::InvalidInput, hint())?;
    Ok(whole)
}

/// Captures a workspace of this store, with the stat cache of earlier captures.
pub(crate) fn capturing<T>(
    repo: &Repository,
    dir: Option<&Path>,
    look: impl FnOnce(&CaptureOptions<'_>) -> turntree::Result<T>,
) -> Result<(T, Option<StatCache>)> {
    // Without the cache every file is read, but nothing is lost.
    let cache = dir.and_then(|dir| StatCache::open(repo, dir).ok());
    let never = [repo.dir().to_owned()];
    let working = Working::new("lists files");
    let options = CaptureOptions {
        never: &never,
        cache: cache.as_ref(),
        progress: &|progress| working.say(progress_text(progress)),
        git: &git_places(),
        ..CaptureOptions::default()
    };
    let found = look(&options)?;
    Ok((found, cache))
}

/// Saves the stat cache of a capture for the next one, once the capture is in the store.
pub(crate) fn remember(
    repo: &Repository,
    cache: Option<&StatCache>,
    kept: Option<&WorkspaceBackup>,
) {
    if let Some((cache, kept)) = cache.zip(kept) {
        // Everything is done: without the cache the next capture only takes longer.
        let _ = cache.save(&kept.captured, repo, &kept.tree);
    }
}

/// Ends a command that has written files: with an error if some could not be written.
pub(crate) fn end(files: Option<&FileChanges>, arranged: Option<&AppliedFiles>) -> Result<Answer> {
    let Some((files, (arranged, (path, worst)))) =
        files.zip(arranged.and_then(|arranged| Some((arranged, arranged.worst()?))))
    else {
        return Ok(Answer::Yes);
    };
    let place = files.dir.join(path);
    let (failed, all) = (arranged.failed.len(), files.files.len());
    let kind = match worst.kind() {
        kind @ (ErrorKind::Io | ErrorKind::Locked | ErrorKind::Corrupt) => kind,
        _ => ErrorKind::Conflict,
    };
    let message = format!(
        "{failed} of {all} files were not restored, the first is {}: {worst}",
        place.display()
    );
    let hint = Advice::new(
        "run the same restore, undo or redo again to finish, or 'turntree restore HEAD' after a rollback",
        "call the same restore again with a new plan_id to finish",
    );
    Err(Failure::hinted(Error::new(kind, message), hint))
}
