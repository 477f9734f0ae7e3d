//! A snapshot as a new session of an agent: its transcript, and the branch that gets the new turns.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use turntree::context::Context;
use turntree::context::sections::META;
use turntree::local::random_bytes;
use turntree::object::{Kind, ObjectId, ObjectSource, Time};
use turntree::platform::{private, private_folders};
use turntree::repo::{BranchName, Repository};
use turntree::{Error, ErrorKind};
use turntree_exchange::agents::{ResumePlace, ResumedSession, resume_place, session_name};
use turntree_exchange::render::native::{
    NativeAgent, NativeFacts, NativeTranscript, native_transcript,
};

use super::worktree::MadeWorktrees;
use crate::platform::{commands_in, replace_this, shell_word};
use crate::program::invocation::stamp;
use crate::view::clock;
use crate::view::error::{Answer, Failure, Hint, Result};
use crate::view::render::one_line;

/// Longest title of a session, in characters.
const TITLE_CHARS: usize = 60;

/// A planned session.
pub(crate) struct AgentSession {
    pub(crate) from: ObjectId,
    /// The tip of the branch of `from`, if that has turns since then.
    past: Option<ObjectId>,
    pub(crate) turn: u64,
    pub(crate) agent: NativeAgent,
    /// The id that the agent knows it by.
    pub(crate) id: String,
    pub(crate) cwd: PathBuf,
    now: Time,
    title: String,
    pub(crate) transcript: NativeTranscript,
    pub(crate) place: ResumePlace,
    /// The branch that gets the new turns.
    pub(crate) branch: BranchName,
}

impl AgentSession {
    /// Plans a session of `agent`, or of the agent of the snapshot, in the directory `cwd`. New
    /// turns go to the branch `onto`, whose tip the snapshot must be, or to a branch of the new
    /// session.
    ///
    /// # Errors
    /// `InvalidInput` for a snapshot of another agent if none is named.
    pub(crate) fn plan(
        repo: &Repository,
        (from, past): (ObjectId, Option<ObjectId>),
        agent: Option<NativeAgent>,
        onto: Option<BranchName>,
        cwd: PathBuf,
    ) -> Result<Self> {
        let (context, commit) = (repo.context(&from)?, repo.commit(&from)?);
        let agent = match agent {
            Some(agent) => agent,
            None => {
                let format = session_fact(repo, &context, "format")?.unwrap_or_default();
                NativeAgent::of_format(&format)
                    .map_err(Failure::from)
                    .hint(ErrorKind::InvalidInput, "name the agent with --in")?
            }
        };
        let shown_cwd = cwd.to_str().ok_or_else(|| {
            Error::invalid(format!("{}: agents accept only paths in UTF-8", cwd.display()))
        })?;
        let now = clock::now()?;
        let id = agent.session_id(random_bytes(), now);
        let title = format!("{} (turn {})", one_line(&commit.message, TITLE_CHARS), commit.turn);
        let facts = NativeFacts {
            session: &id,
            cwd: shown_cwd,
            now,
            show_time: &clock::rfc3339_millis,
            title: &title,
        };
        let transcript = native_transcript(agent, repo, &context, &facts)?;
        let place = resume_place(agent, &facts, &|name| std::env::var_os(name))?;
        let branch = match onto {
            Some(branch) => branch,
            None => BranchName::main(&session_name(&place.path))?,
        };
        let turn = commit.turn;
        Ok(Self { from, past, turn, agent, id, cwd, now, title, transcript, place, branch })
    }

    /// Writes the transcript to a new file, then moves the branch. Deletes the file if that fails.
    pub(crate) fn write(&self, repo: &Repository, worktrees: &mut MadeWorktrees) -> Result<()> {
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
            session: &self.id,
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
    pub(crate) fn command(&self) -> String {
        let cwd = word_of(&self.cwd.display().to_string());
        let commands = self.place.prepare.iter().chain([&self.place.command]);
        let line = |words: &Vec<String>| {
            words.iter().map(|word| word_of(word)).collect::<Vec<_>>().join(" ")
        };
        let lines: Vec<String> = commands.map(line).collect();
        commands_in(&cwd, &lines)
    }

    /// Lets an agent read the transcript that does not read it by itself.
    ///
    /// # Errors
    /// `Unsupported` if the agent refuses it.
    pub(crate) fn prepare(&self) -> Result<()> {
        let Some([first, rest @ ..]) = self.place.prepare.as_deref() else { return Ok(()) };
        let mut command = Command::new(first);
        // Stdin and stdout are left to the agent.
        command.args(rest).current_dir(&self.cwd).stdin(Stdio::null()).stdout(Stdio::null());
        let failed = |error| Error::io(format!("start {first}"), error);
        let ended = command.status().map_err(failed)?;
        if ended.success() {
            return Ok(());
        }
        let message = format!("{first} did not open the session: {ended}");
        Err(Error::new(ErrorKind::Unsupported, message).into())
    }

    /// Replaces this process with the agent.
    pub(crate) fn start(&self) -> Result<Answer> {
        let [program, arguments @ ..] = self.place.command.as_slice() else {
            return Ok(Answer::Yes);
        };
        self.prepare()?;
        let mut agent = Command::new(program);
        let error = replace_this(agent.args(arguments).current_dir(&self.cwd));
        Err(Error::io(format!("start {program}"), error).into())
    }
}

/// Reads a fact of a session from its transcript.
pub(crate) fn session_fact(
    repo: &Repository,
    context: &Context,
    key: &str,
) -> Result<Option<String>> {
    let store = repo.store();
    let Some(item) = context.map(store, META)?.get(store, key.as_bytes())? else {
        return Ok(None);
    };
    let bytes = store.read_as(Kind::Blob, &item.link.id)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Creates a file for its owner alone.
fn new_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    private(options.write(true).create_new(true)).open(path)
}

/// Quotes a word for the shell, if needed.
fn word_of(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    let is_plain = !word.is_empty() && word.chars().all(is_plain);
    if is_plain { word.to_owned() } else { shell_word(word) }
}
