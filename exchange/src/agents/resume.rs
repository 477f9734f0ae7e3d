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

use super::gemini_project::ProjectFolder;
use super::places::places;
use crate::formats::named;
use crate::import::rewind::SOURCE_START;
use crate::import::rollback::{RESUMED_FROM, RESUMED_PAST};
use crate::import::source::write_piece;
use crate::render::native::{NativeAgent, NativeFacts, NativeTranscript};

/// Longest name of a project's folder of Claude Code, in characters.
const MAX_PROJECT_CHARS: usize = 200;

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
/// file next to it to import. `variable` reads the environment, as for [`places`]. Lists the
/// folders of Gemini CLI, and writes nothing.
///
/// # Errors
/// `InvalidInput` without a `HOME`.
pub fn resume_place(
    agent: NativeAgent,
    facts: &NativeFacts<'_>,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<ResumePlace> {
    let folder = places(variable).into_iter().find(|place| place.agent == agent.name());
    let folder = folder.ok_or_else(|| {
        Error::invalid(format!(
            "the directory of the sessions of {} is unknown: set HOME",
            agent.name()
        ))
    })?;
    let (folder, id) = (folder.path, facts.session);
    let now = (facts.show_time)(facts.now);
    let (mut marker, mut prepare) = (None, None);
    let (path, program, arguments) = match agent {
        NativeAgent::ClaudeCode => {
            let path = folder.join(claude_project(facts.cwd)).join(format!("{id}.jsonl"));
            (path, "claude", &["--resume"][..])
        }
        NativeAgent::Codex => {
            let second = now.get(..19).unwrap_or(&now).replace(':', "-");
            let day: PathBuf = now.get(..10).unwrap_or(&now).split('-').collect();
            let path = folder.join(day).join(format!("rollout-{second}-{id}.jsonl"));
            (path, "codex", &["resume"][..])
        }
        NativeAgent::Gemini => {
            let project = ProjectFolder::find(&folder, facts.cwd);
            marker = project.owner;
            let minute = now.get(..16).unwrap_or(&now).replace(':', "-");
            let short = id.get(..8).unwrap_or(id);
            let path = project.path.join("chats").join(format!("session-{minute}-{short}.jsonl"));
            (path, "gemini", &["--resume"][..])
        }
        NativeAgent::Opencode => {
            let path = folder.join("turntree").join(format!("{id}.json"));
            let words = ["opencode".into(), "import".into(), path.to_string_lossy().into_owned()];
            prepare = Some(Vec::from(words));
            (path, "opencode", &["--session"][..])
        }
        NativeAgent::Pi => {
            let project = facts.cwd.trim_start_matches('/').replace(['/', '\\', ':'], "-");
            let second = now.replace([':', '.'], "-");
            let path = folder.join(format!("--{project}--")).join(format!("{second}_{id}.jsonl"));
            (path, "pi", &["--session"][..])
        }
    };
    let words = [program].into_iter().chain(arguments.iter().copied()).chain([id]);
    Ok(ResumePlace { path, command: words.map(str::to_owned).collect(), prepare, marker })
}

/// Returns the folder of a project: every character that is no letter or digit is a hyphen, and a
/// long name ends with a hash of the whole, as JavaScript computes it (as the SDK of the agent
/// does).
fn claude_project(cwd: &str) -> String {
    let plain = |unit: u16| {
        let c = char::from_u32(unit.into()).filter(char::is_ascii_alphanumeric);
        c.unwrap_or('-')
    };
    let name: String = cwd.encode_utf16().map(plain).collect();
    let Some(short) = name.get(..MAX_PROJECT_CHARS).filter(|_| name.len() > MAX_PROJECT_CHARS)
    else {
        return name;
    };
    let hash = cwd.encode_utf16().fold(0_i32, |hash, unit| {
        hash.wrapping_shl(5).wrapping_sub(hash).wrapping_add(i32::from(unit))
    });
    format!("{short}-{}", base36(hash.unsigned_abs()))
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.extend(char::from_digit(number % 36, 36));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}

/// A session that is laid out for an agent.
#[derive(Clone, Copy)]
pub struct ResumedSession<'a> {
    /// The snapshot that the session continues.
    pub from: &'a ObjectId,
    /// The tip of the branch of `from`, if that has turns since then.
    pub past: Option<&'a ObjectId>,
    /// Its branch, which must not exist yet.
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
    /// `InvalidInput` when the branch exists already; errors of reading `from` and of writing.
    pub fn stage(
        &self,
        repo: &Repository,
        change: &mut Transaction<'_>,
        stamp: &Signature,
    ) -> Result<ObjectId> {
        let Self { from, past, branch, agent, transcript, facts } = *self;
        if repo.tip(branch).is_some() {
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
        change.move_branch(branch, Some(*from));
        change.snapshot(branch, draft)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_projects_are_called_as_the_agent_calls_them() {
        assert_eq!(claude_project("/srv/my.app_2"), "-srv-my-app-2");
        assert_eq!(claude_project("/srv/bücher"), "-srv-b-cher");
        // Computed with the arithmetic of JavaScript.
        let long = claude_project(&format!("/{}", "x".repeat(300)));
        assert_eq!(long, format!("-{}-x8zr69", "x".repeat(199)));
        assert_eq!(base36(0), "0");
        assert_eq!(base36(1_000_000), "lfls");
    }
}
