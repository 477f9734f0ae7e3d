//! Where an agent looks for a session that is laid out for it, and how it resumes that session.
//!
//! The new session is a branch of the store from the beginning: its first snapshot has the context
//! that it continues, and as its source the transcript that was laid out. When an import reads the
//! longer transcript later, it finds this beginning and adds the new turns.

use std::ffi::OsString;
use std::path::PathBuf;

use bytes::Bytes;
use turntree::context::Builder;
use turntree::context::sections::{META, SOURCE};
use turntree::error::{Error, Result};
use turntree::object::{Author, ObjectId, Trigger};
use turntree::repo::{BranchName, Repository, Signature, SnapshotDraft, Transaction};

use super::environment::Environment;
use super::layout::{ResumeForm, SessionLayout};
use super::table::AGENTS;
use crate::formats::named;
use crate::import::rewind::SOURCE_START;
use crate::import::rollback::{RESUMED_FROM, RESUMED_PAST};
use crate::import::source::write_piece;
use crate::render::native::{NativeAgent, NativeFacts, NativeTranscript};

/// The place of a session that is laid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumePlace {
    /// The file of the transcript.
    pub path: PathBuf,
    /// The program and its arguments that take it up, in its working directory.
    pub command: Vec<String>,
    /// The program and its arguments that read the file first, if the agent does not do so itself.
    pub prepare: Option<Vec<String>>,
    /// A file that the agent needs to find the session, with its content; `None` if it exists
    /// already.
    pub marker: Option<(PathBuf, String)>,
}

/// Returns the place of a session of `agent`. opencode keeps its sessions in a database, and gets a
/// file next to it to import. `variable` reads the environment, as for [`places`](super::places()). Lists the
/// folders of Gemini CLI, and writes nothing.
///
/// # Errors
/// `InvalidInput` without a `HOME`.
pub fn resume_place(
    agent: NativeAgent,
    facts: &NativeFacts<'_>,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<ResumePlace> {
    let unknown = || {
        Error::invalid(format!(
            "the directory of the sessions of {} is unknown: set HOME",
            agent.name()
        ))
    };
    let is_of = |form: &&ResumeForm| form.agent == agent;
    let known = AGENTS.iter().find_map(|row| Some((row, row.resume.as_ref().filter(is_of)?)));
    let (row, form) = known.ok_or_else(unknown)?;
    let environment = Environment::new(variable).ok_or_else(unknown)?;
    let folder = (row.places)(&environment).into_iter().next().ok_or_else(unknown)?;
    let SessionLayout { path, prepare, marker } = (form.layout)(&folder, facts);
    let command = form.command.iter().copied().chain([facts.session]).map(str::to_owned);
    Ok(ResumePlace { path, command: command.collect(), prepare, marker })
}

/// Returns the agent whose sessions the program called `program` resumes.
#[must_use]
pub fn resuming_agent(program: &str) -> Option<NativeAgent> {
    let forms = AGENTS.iter().filter_map(|row| row.resume.as_ref());
    let mut is_of = forms.filter(|form| form.command.first() == Some(&program));
    is_of.next().map(|form| form.agent)
}

/// A session that is laid out for an agent.
#[derive(Clone, Copy)]
pub struct ResumedSession<'a> {
    /// The snapshot that the session continues.
    pub from: &'a ObjectId,
    /// The tip of the branch of `from`, if that has turns since then.
    pub past: Option<&'a ObjectId>,
    /// Its branch. If it exists, its tip is `from`, and the session continues it.
    pub branch: &'a BranchName,
    /// The agent.
    pub agent: NativeAgent,
    /// The transcript in the form of the agent.
    pub transcript: &'a NativeTranscript,
    /// The facts in the transcript.
    pub facts: &'a NativeFacts<'a>,
}

impl ResumedSession<'_> {
    /// Stages the snapshot with which the session begins: the context of `from`, with the
    /// transcript as its source.
    ///
    /// # Errors
    /// `InvalidInput` when the branch exists and its tip is another one; errors of reading `from` and of writing.
    pub fn stage(
        &self,
        repo: &Repository,
        change: &mut Transaction<'_>,
        stamp: &Signature,
    ) -> Result<ObjectId> {
        let Self { from, past, branch, agent, transcript, facts } = *self;
        if repo.tip(branch).is_some_and(|tip| tip != *from) {
            return Err(Error::invalid(format!("session {branch} exists already")));
        }
        let mut builder = Builder::from(repo.context(from)?);
        let records = named(agent.format())?.records()?;
        let mut items = Vec::new();
        for piece in (records.split)(Box::new(transcript.bytes.as_slice())) {
            items.push(write_piece(change, records.side_paths, &piece?)?.to_item()?);
        }
        let pieces = items.len();
        builder.clear_transcript(change)?;
        builder.set_list(change, SOURCE, items)?;
        for (key, value) in
            [("format", agent.format()), ("session_id", facts.session), ("cwd", facts.cwd)]
        {
            builder.set_entry(change, META, key, Some(Bytes::copy_from_slice(value.as_bytes())))?;
        }
        let metadata = [(SOURCE_START, pieces.to_string()), (RESUMED_FROM, from.to_string())];
        let past = past.map(|past| (RESUMED_PAST, past.to_string()));
        let metadata = metadata.into_iter().chain(past);
        let draft = SnapshotDraft {
            tree: builder.write(change)?,
            author: Author { agent: agent.name().to_owned(), model: String::new() },
            time: stamp.time,
            trigger: Trigger::Manual,
            message: format!("resumed turn {} in {}", repo.commit(from)?.turn, agent.name()),
            metadata: metadata.map(|(key, value)| (key.to_owned(), value)).collect(),
        };
        if repo.tip(branch).is_none() {
            change.move_branch(branch, Some(*from));
        }
        change.snapshot(branch, draft)
    }
}
