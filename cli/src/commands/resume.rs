//! `resume`: writes a turn as a new session of an agent.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use clap_complete::{ArgValueCandidates, ArgValueCompleter};
use turntree::context::Context;
use turntree::context::sections::{FILES, META};
use turntree::local::random_bytes;
use turntree::object::{Kind, ObjectId, ObjectSource, Time};
use turntree::platform::{private, private_folders};
use turntree::repo::{BranchName, Repository, SnapshotRevision};
use turntree::{Error, ErrorKind};
use turntree_exchange::agents::{ResumePlace, ResumedSession, resume_place, session_name};
use turntree_exchange::render::native::{
    NativeAgent, NativeFacts, NativeTranscript, native_transcript,
};
use turntree_exchange::{Ledger, enumeration, ledger, return_before};

use super::Verb;
use crate::hook::worktree::carry_settings;
use crate::platform::{commands_in, replace_this, shell_word};
use crate::porcelain::read::revision::resolve;
use crate::porcelain::workspace::rewind::{
    PlannedRewind, RestoreRequest, RewindRun, checked, end, own_directory, unknown_workspace,
};
use crate::porcelain::workspace::worktree::{
    MadeWorktree, MadeWorktrees, PlannedWorktree, plan_worktrees,
};
use crate::program::complete::{resuming_agents, revisions};
use crate::program::here::worktree_around;
use crate::program::invocation::{Invocation, stamp, whole_path};
use crate::program::moved_project::MovedProject;
use crate::view::error::{Answer, Failure, Hint, Result};
use crate::view::output::{FAINT, warn};
#[cfg(feature = "ui")]
use crate::view::render::ID_DIGITS;
use crate::view::render::effects::write_effects;
use crate::view::render::{count, harmless, one_line};
use crate::view::{clock, json};

/// Branches of a session that are looked at for turns after the resumed one.
const MAX_TIPS: usize = 64;

/// Longest title of a session, in characters.
const TITLE_CHARS: usize = 60;

/// Resume from any turn in an agent
///
/// Writes the conversation of REV as a new session into the agent's own session storage, and prints
/// the command that resumes it. Existing files of the agent are not overwritten. If the session
/// came from the same agent, its original records are written; otherwise calls and results are
/// converted to the agent's format. The new session is a branch of the store that begins at REV: a
/// hook or 'turntree adopt' imports the agent's new turns into it.
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

/// A planned session.
struct Planned {
    from: ObjectId,
    /// The tip of the branch of `from`, if that has turns since then.
    past: Option<ObjectId>,
    /// The effects of turns that the session does not have.
    effects: Ledger,
    turn: u64,
    agent: NativeAgent,
    session: String,
    cwd: PathBuf,
    now: Time,
    title: String,
    transcript: NativeTranscript,
    place: ResumePlace,
    branch: BranchName,
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
            self.writable(&repo, &planned.cwd)?;
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
            worktrees.make(&repo, &from, worktree.of_branch(planned.branch.clone()))?;
        }
        planned.write(&repo, &mut worktrees)?;
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
            let branch = &planned.branch;
            warn(&format!("{branch} is laid out, but not all of its files are restored"));
        }
        let answer = ended?;
        if self.run {
            // The agent replaces this process, so its output is flushed first.
            run.out.flush()?;
            return planned.start();
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
        let Planned { turn, agent, place, transcript, .. } = &planned;
        let (what, agent) = (count(transcript.messages, "message"), agent.name());
        Ok(format!(
            "turntree resume {} --run\n\nwould write {what} of turn {turn} to {}\nand start \
             {agent}:\n{}\nnew turns of {agent} are added to {}\n",
            revision.commit.short(ID_DIGITS),
            place.path.display(),
            planned.command(),
            planned.branch,
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
        let (context, commit) = (repo.context(&from)?, repo.commit(&from)?);
        let agent = match &self.agent {
            Some(name) => NativeAgent::of_format(name)?,
            None => {
                let format = fact(repo, &context, "format")?.unwrap_or_default();
                NativeAgent::of_format(&format)
                    .map_err(Failure::from)
                    .hint(ErrorKind::InvalidInput, "name the agent with --in")?
            }
        };
        let shown_cwd = cwd.to_str().ok_or_else(|| {
            Error::invalid(format!("{}: agents accept only paths in UTF-8", cwd.display()))
        })?;
        let now = clock::now()?;
        let session = agent.session_id(random_bytes(), now);
        let title = format!("{} (turn {})", one_line(&commit.message, TITLE_CHARS), commit.turn);
        let facts = NativeFacts {
            session: &session,
            cwd: shown_cwd,
            now,
            show_time: &clock::rfc3339_millis,
            title: &title,
        };
        let transcript = native_transcript(agent, repo, &context, &facts)?;
        let place = resume_place(agent, &facts, &|name| std::env::var_os(name))?;
        let branch = BranchName::main(&session_name(&place.path))?;
        let turn = commit.turn;
        let past = past_of(repo, revision)?;
        let left = match past {
            Some(past) => Some((past, from)),
            None => return_before(repo, &from)?.map(|back| (back.past, back.target)),
        };
        // Turns that were forgotten since are no reason to fail.
        let effects = left.and_then(|(past, target)| ledger(repo, &past, &target).ok());
        let effects = effects.unwrap_or_default();
        Ok(Planned {
            from,
            past,
            effects,
            turn,
            agent,
            session,
            cwd,
            now,
            title,
            transcript,
            place,
            branch,
        })
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
        let known = fact(repo, &repo.context(from)?, "cwd")?.or(repo.workspace_of(from)?);
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
        let (from, dry_run) = (planned.from, self.dry_run);
        let request = RestoreRequest { branch, from, only: &only, keep_lessons: false, dry_run };
        let directory = self.writable(repo, &planned.cwd)?;
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
        let files = self.files_of(repo, planned, planned.branch.clone())?;
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
        let Planned { place, transcript, .. } = planned;
        for (what, times) in &transcript.left_out {
            warn(&format!(
                "{times} {what} left out: {} has no place for them",
                planned.agent.name()
            ));
        }
        if run.out.json {
            let record = json::Resumed {
                id: planned.from.to_string(),
                from: planned.from.to_string(),
                turn: planned.turn,
                agent: planned.agent.name().to_owned(),
                session_id: planned.session.clone(),
                session: planned.branch.session().to_owned(),
                path: place.path.display().to_string(),
                cwd: planned.cwd.display().to_string(),
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
                worktree: worktree.map(|_| planned.cwd.display().to_string()),
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
        writeln!(run.out, "{would} {what} of turn {} to {path}", planned.turn)?;
        if let Some(files) = &files {
            let changed = count(files.files.len() as u64, "file");
            let verb = if self.dry_run { "would change" } else { "changed" };
            writeln!(run.out, "{verb} {changed} in {}", harmless(&files.dir))?;
        }
        if let Some(kind) = worktree {
            let verb = if self.dry_run { "would make" } else { "made" };
            let dir = harmless(&planned.cwd.display().to_string());
            writeln!(run.out, "{verb} the {kind} {dir} with the files of the turn")?;
        }
        write_effects(&mut run.out, paint, &planned.effects, !self.dry_run)?;
        if self.dry_run {
            writeln!(run.out, "{}", paint.paint(FAINT, "nothing was done"))?;
            return Ok(());
        }
        let branch = run.out.branch(&planned.branch);
        writeln!(run.out, "new turns of {} are added to {branch}", planned.agent.name())?;
        writeln!(run.out, "{}", planned.command())?;
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

impl Planned {
    /// Writes the transcript to a new file, then creates the branch. Deletes the file if the branch
    /// fails.
    fn write(&self, repo: &Repository, worktrees: &mut MadeWorktrees) -> Result<()> {
        let path = &self.place.path;
        let failed = |error| Error::io(format!("write {}", path.display()), error);
        if let Some(folder) = path.parent() {
            private_folders().recursive(true).create(folder).map_err(failed)?;
        }
        if let Some((marker, owner)) = &self.place.marker {
            // If another process creates the same file, it has the same content, or the agent
            // refuses both.
            let made = new_file(marker);
            made.and_then(|mut file| file.write_all(owner.as_bytes())).map_err(failed)?;
        }
        let mut file = new_file(path).map_err(failed)?;
        let written = file
            .write_all(&self.transcript.bytes)
            .and_then(|()| file.sync_all())
            .map_err(|error| Failure::from(failed(error)))
            .and_then(|()| self.commit(repo, worktrees));
        if written.is_err() {
            // This process has just created it, so no data is lost.
            let _ = fs::remove_file(path);
        }
        written
    }

    fn commit(&self, repo: &Repository, worktrees: &mut MadeWorktrees) -> Result<()> {
        let cwd = self.cwd.to_string_lossy();
        let facts = NativeFacts {
            session: &self.session,
            cwd: &cwd,
            now: self.now,
            show_time: &clock::rfc3339_millis,
            title: &self.title,
        };
        let resumed = ResumedSession {
            from: &self.from,
            past: self.past.as_ref(),
            branch: &self.branch,
            agent: self.agent,
            transcript: &self.transcript,
            facts: &facts,
        };
        let (mut change, stamp) = (repo.begin(), stamp()?);
        resumed.stage(repo, &mut change, &stamp)?;
        worktrees.stage(repo, &mut change, &self.from)?;
        change.commit(&stamp, &format!("resume {}", self.branch))?;
        Ok(())
    }

    /// The shell commands that resume the session.
    fn command(&self) -> String {
        let cwd = word_of(&self.cwd.display().to_string());
        let commands = self.place.prepare.iter().chain([&self.place.command]);
        let line = |words: &Vec<String>| {
            words.iter().map(|word| word_of(word)).collect::<Vec<_>>().join(" ")
        };
        let lines: Vec<String> = commands.map(line).collect();
        commands_in(&cwd, &lines)
    }

    /// Replaces this process with the agent.
    fn start(&self) -> Result<Answer> {
        let [program, arguments @ ..] = self.place.command.as_slice() else {
            return Ok(Answer::Yes);
        };
        if let Some([first, rest @ ..]) = self.place.prepare.as_deref() {
            let mut command = Command::new(first);
            // Stdin and stdout are left to the agent.
            command.args(rest).current_dir(&self.cwd).stdin(Stdio::null()).stdout(Stdio::null());
            let failed = |error| Error::io(format!("start {first}"), error);
            let ended = command.status().map_err(failed)?;
            if !ended.success() {
                let message = format!("{first} did not open the session: {ended}");
                return Err(Error::new(ErrorKind::Unsupported, message).into());
            }
        }
        let mut agent = Command::new(program);
        let error = replace_this(agent.args(arguments).current_dir(&self.cwd));
        Err(Error::io(format!("start {program}"), error).into())
    }
}

fn agent_help() -> String {
    let names = enumeration(NativeAgent::ALL.map(NativeAgent::name), "or");
    format!("The agent: {names}; the one of the session by default")
}

/// Creates a file for its owner alone.
fn new_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    private(options.write(true).create_new(true)).open(path)
}

/// Reads a fact of the session from its transcript.
fn fact(repo: &Repository, context: &Context, key: &str) -> Result<Option<String>> {
    let store = repo.store();
    let Some(item) = context.map(store, META)?.get(store, key.as_bytes())? else {
        return Ok(None);
    };
    let bytes = store.read_as(Kind::Blob, &item.link.id)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Quotes a word for the shell, if needed.
fn word_of(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    let is_plain = !word.is_empty() && word.chars().all(is_plain);
    if is_plain { word.to_owned() } else { shell_word(word) }
}
