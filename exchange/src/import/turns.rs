//! Turns events into commits: each event updates a context, and each turn becomes a snapshot.

mod rewind;
mod side_branches;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use turntree::context::sections::{
    FILES, MAIN_MESSAGES, MESSAGES, META, SCRATCHPAD, SOURCE, SYSTEM_PROMPT, VFS,
};
use turntree::context::{
    Builder, Context, CopyWriter, FileMode, JSON_MEDIA, MAIN_AGENT, MessageEntry, SourceEntry,
    agent_section,
};
use turntree::error::Result;
use turntree::object::{Author, Kind, ObjectId, ObjectSink, ObjectSource, Time, Trigger};
use turntree::platform::path_text;
use turntree::repo::{BranchName, Signature, SnapshotDraft, Transaction};
use turntree::tree::{Item, Link, MAX_KEY_BYTES};

use self::side_branches::SideBranches;
use super::captures::Captures;
use super::flush::flush_if_needed;
use super::resume::AbandonedLine;
use super::rewind::{ABANDONED_BRANCH, SOURCE_START, Timeline};
use super::source::write_piece;
use crate::model::event::{Content, Event, MessageEvent};
use crate::model::format::RecordFormat;
use crate::model::headline::{CallHeadline, Headline};
use crate::secrets::has_mask;
use crate::text::piece::Piece;

/// Adds the workspace to the context and returns the metadata about it for the commit. Empty if
/// nothing changed.
pub(crate) type AddTurnFiles<'f> =
    dyn FnMut(&mut Transaction<'_>, &mut Builder) -> Result<BTreeMap<String, String>> + 'f;

/// Sections that a commit adds to: the format, and the payloads that messages reference.
const ADDED_BY_COMMIT: [&str; 2] = [META, VFS];

/// The fact that holds the working directory of the session.
const DIRECTORY: &str = "cwd";

/// The fact that holds the root of file paths, if it is above the working directory.
pub(crate) const ROOT: &str = "root";

/// Longest name of an agent in bytes.
const MAX_AGENT_BYTES: usize = 200;

/// Longest message of a commit in characters.
const MAX_TITLE_CHARS: usize = 100;

/// Maximum number of calls that the title of a turn considers.
const MAX_CALLS: usize = 64;

/// Turns pieces and events into commits on one branch.
pub(crate) struct TurnWriter<'r> {
    /// The transaction of the commits.
    pub(crate) transaction: Transaction<'r>,
    builder: Builder,
    branch: BranchName,
    format: RecordFormat,
    stamp: Signature,
    pending: PendingTurn,
    /// The number of commits.
    pub(crate) turns: u64,
    /// The number of messages in them.
    pub(crate) messages: u64,
    /// The number of messages without visible content.
    pub(crate) silent: u64,
    /// The time of the newest commit, for turns whose records have no time.
    last_time: Option<Time>,
    /// The captured files that wait for the turns of their calls.
    pub(crate) captures: Captures,
    /// The turns of the session by their position in the file. Set once a conversation rewinds.
    timeline: Option<Timeline>,
    /// The other branches of the session. Set once a conversation rewinds.
    side_branches: Option<SideBranches>,
    /// The branches of abandoned turns.
    pub(crate) left: Vec<BranchName>,
    /// The working directory of the session.
    directory: Option<String>,
    /// The root of file paths, above that directory.
    root: Option<String>,
    /// The pieces of a fork that are copies of another session's pieces.
    copies: CopyWriter,
}

/// The content of the current turn so far.
#[derive(Default, Clone, Serialize, Deserialize)]
pub(crate) struct PendingTurn {
    pieces: u64,
    messages: u64,
    #[serde(with = "moment")]
    time: Option<Time>,
    model: String,
    main: TurnTitle,
    /// The headlines of all other agents. They give the title if no agent is called main.
    others: TurnTitle,
    /// Further metadata of the commit.
    pub(crate) metadata: BTreeMap<String, String>,
    /// The number of pieces of the source before the turn, if the source does not continue the
    /// parent's.
    #[serde(default)]
    begins: Option<u64>,
    /// The branch with the old content of a file that was rewound in place.
    #[serde(default)]
    leaves: Option<String>,
    /// The session whose records the file starts with copies of.
    #[serde(default)]
    copy_of: Option<String>,
}

/// An unfinished turn that was committed and may still grow.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct OpenTurn {
    pending: PendingTurn,
    /// The time of the previous commit.
    #[serde(with = "moment")]
    last_time: Option<Time>,
}

/// Serializes a time as two numbers.
mod moment {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use turntree::object::Time;

    pub(crate) fn serialize<S: Serializer>(
        time: &Option<Time>,
        to: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        time.map(|time| (time.micros, time.offset_minutes)).serialize(to)
    }

    pub(crate) fn deserialize<'d, D: Deserializer<'d>>(
        from: D,
    ) -> std::result::Result<Option<Time>, D::Error> {
        let numbers = Option::<(i64, i16)>::deserialize(from)?;
        Ok(numbers.map(|(micros, offset_minutes)| Time { micros, offset_minutes }))
    }
}

/// The headlines of the messages of a turn, for its title: the first of each kind, and all calls.
#[derive(Default, Clone, Serialize, Deserialize)]
#[serde(default)]
struct TurnTitle {
    prompt: String,
    aside: String,
    answer: String,
    called: Vec<CallHeadline>,
    note: String,
    /// True if the turn has tool results or thinking.
    has_results: bool,
    has_thoughts: bool,
}

impl<'r> TurnWriter<'r> {
    pub(crate) fn new(
        transaction: Transaction<'r>,
        builder: Builder,
        branch: BranchName,
        format: RecordFormat,
        stamp: Signature,
        captures: Captures,
    ) -> Self {
        Self {
            transaction,
            builder,
            branch,
            format,
            stamp,
            pending: PendingTurn::default(),
            turns: 0,
            messages: 0,
            silent: 0,
            last_time: None,
            captures,
            timeline: None,
            side_branches: None,
            left: Vec::new(),
            directory: None,
            root: None,
            copies: CopyWriter::default(),
        }
    }

    /// Sets the root of file paths, above the working directory of the session.
    pub(crate) fn set_root(&mut self, root: &str) -> Result<()> {
        self.root = Some(root.to_owned());
        let root = Some(Bytes::copy_from_slice(root.as_bytes()));
        self.builder.set_entry(&mut self.transaction, META, ROOT, root)
    }

    /// Applies the events of one piece. `to_source` is false for a piece that `source` already has.
    pub(crate) fn apply(
        &mut self,
        piece: &Piece,
        events: Vec<Event>,
        to_source: bool,
    ) -> Result<()> {
        let starts_turn = |event: &Event| {
            matches!(
                event,
                Event::Turn
                    | Event::Compact { .. }
                    | Event::Rearrange { .. }
                    | Event::Rewind { .. }
            )
        };
        // Facts before the start of a turn belong to the turn, like the bytes of their piece.
        let says = |event: &&Event| {
            !matches!(event, Event::Meta { .. } | Event::Unread { .. } | Event::Unknown { .. })
        };
        let first = events.iter().find(says);
        if first.is_some_and(starts_turn) {
            self.end_turn(Trigger::Turn)?;
        }
        if to_source {
            let entry = write_piece(&mut self.transaction, self.format.side_paths, piece)?;
            self.builder.push(&mut self.transaction, SOURCE, entry.to_item()?)?;
        }
        self.pending.pieces += 1;
        self.captures.scan_record(&piece.bytes);
        for (at, event) in events.into_iter().enumerate() {
            if at > 0 && starts_turn(&event) {
                self.end_turn(Trigger::Turn)?;
            }
            self.apply_event(piece, event)?;
        }
        Ok(())
    }

    /// Marks the next turn as the first one after the file was rewound in place.
    pub(crate) fn mark_rewound(&mut self, line: &AbandonedLine) {
        self.pending.leaves = Some(format!("{} {}", line.branch.branch(), line.pieces));
        self.left.push(line.branch.clone());
    }

    /// Returns the format of the transcript.
    pub(crate) fn format(&self) -> RecordFormat {
        self.format
    }

    /// Replaces the pieces of `source` from `from` on.
    pub(crate) fn replace_source(&mut self, from: u64, entries: &[SourceEntry]) -> Result<()> {
        let items = entries.iter().map(SourceEntry::to_item).collect::<Result<Vec<Item>>>()?;
        let mut copied = self.builder.copied_pieces(&self.transaction)?;
        if from < copied {
            self.builder.expand_copies(&mut self.transaction)?;
            copied = 0;
        }
        let (from, len) = (from - copied, self.builder.list_len(&self.transaction, SOURCE)?);
        if from < len || !items.is_empty() {
            self.pending.pieces += 1;
            self.builder.splice(&mut self.transaction, SOURCE, from.min(len)..len, items)?;
        }
        Ok(())
    }

    /// Ends the last turn, including trailing pieces without a message.
    pub(crate) fn finish(&mut self) -> Result<()> {
        if self.pending.messages > 0 || self.pending.pieces > 0 {
            self.commit(Trigger::Turn)?;
        }
        Ok(())
    }

    /// Restores the facts about the session's directories from `context`.
    pub(crate) fn continue_from(&mut self, context: &Context) -> Result<()> {
        self.directory = fact(&self.transaction, context, DIRECTORY)?;
        self.root = fact(&self.transaction, context, ROOT)?;
        Ok(())
    }

    /// Returns the key of a file: its path relative to the root, or absolute outside of the root.
    /// Without a root, the path as recorded.
    fn key_of(&self, path: String) -> String {
        let Some(root) = &self.root else { return path };
        let path = match (Path::new(&path).is_absolute(), &self.directory) {
            (true, _) => PathBuf::from(&path),
            (false, Some(directory)) => Path::new(directory).join(&path),
            (false, None) => return path,
        };
        let key = path.strip_prefix(root).unwrap_or(&path);
        path_text(key).unwrap_or_else(|| key.to_string_lossy()).into_owned()
    }

    /// Reopens an unfinished turn that was committed. The branch must be at the commit before it.
    pub(crate) fn reopen(&mut self, turn: OpenTurn) {
        self.pending = turn.pending;
        self.last_time = turn.last_time;
    }

    /// Rebuilds a turn that was committed with `metadata`. `time` is the fallback for records
    /// without a time.
    pub(crate) fn rebuild(&mut self, time: Option<Time>, metadata: BTreeMap<String, String>) {
        self.last_time = time;
        self.pending.metadata = metadata;
    }

    /// Copies the files of `context`.
    pub(crate) fn copy_files(&mut self, context: &Context) -> Result<()> {
        self.builder.set_as_in(&mut self.transaction, FILES, context)
    }

    /// Returns true if the current context has every section of `context` unchanged. Ignores the
    /// sections that a commit adds to.
    pub(crate) fn has_sections_of(&mut self, context: &Context) -> Result<bool> {
        let tree = self.builder.write(&mut self.transaction)?;
        let mine = Context::open(&self.transaction, &tree)?.sections(&self.transaction)?;
        let theirs = context.sections(&self.transaction)?;
        let mut theirs =
            theirs.iter().filter(|(name, _)| !ADDED_BY_COMMIT.contains(&name.as_str()));
        Ok(theirs.all(|(name, section)| mine.get(name) == Some(section)))
    }

    /// Sets a file in the current context.
    pub(crate) fn set_file(&mut self, path: &str, file: (FileMode, Bytes)) -> Result<()> {
        self.builder.set_file(&mut self.transaction, path, Some(file))
    }

    /// Returns the branch that gets the turns.
    pub(crate) fn branch(&self) -> &BranchName {
        &self.branch
    }

    /// Commits the unfinished turn after `files` updated the workspace in the context. Commits
    /// nothing if the turn is empty and the context is unchanged. Returns the unfinished turn, if
    /// it was committed.
    pub(crate) fn pause(&mut self, files: &mut AddTurnFiles<'_>) -> Result<Option<OpenTurn>> {
        let before = self.transaction.tip(&self.branch);
        self.add_captured_files()?;
        let metadata = files(&mut self.transaction, &mut self.builder)?;
        if !metadata.is_empty() {
            self.pending.metadata = metadata;
        }
        if self.pending.messages == 0 && self.pending.pieces == 0 {
            let tree = self.builder.write(&mut self.transaction)?;
            let same = match before {
                Some(tip) => self.transaction.read_commit(&tip)?.tree == tree,
                None => true,
            };
            if same {
                return Ok(None);
            }
        }
        if self.pending.time.or(self.last_time).is_none() {
            self.pending.time = Some(self.stamp.time);
        }
        let turn = OpenTurn { pending: self.pending.clone(), last_time: self.last_time };
        self.commit(Trigger::Turn)?;
        Ok(Some(turn))
    }

    fn apply_event(&mut self, piece: &Piece, event: Event) -> Result<()> {
        match event {
            Event::Turn | Event::Unread { .. } | Event::Unknown { .. } => Ok(()),
            // Maps reject these keys. The content is still in the source.
            Event::Scratchpad { key, .. }
            | Event::File { path: key, .. }
            | Event::Entry { key, .. }
            | Event::Meta { key, .. }
                if !(1..=MAX_KEY_BYTES).contains(&key.len()) =>
            {
                Ok(())
            }
            Event::Message(message) => {
                self.note_message(&message);
                let item = self.message_item(piece, &message)?;
                let section = agent_section(&agent_name(&message.agent), MESSAGES)?;
                self.builder.push(&mut self.transaction, &section, item)
            }
            Event::LateMessage { message, back } => {
                self.note_message(&message);
                let item = self.message_item(piece, &message)?;
                let section = agent_section(&agent_name(&message.agent), MESSAGES)?;
                let len = self.builder.list_len(&self.transaction, &section)?;
                let at = len.saturating_sub(back);
                self.builder.splice(&mut self.transaction, &section, at..at, vec![item])
            }
            Event::ReplaceMessage { message, back } => {
                if back < self.pending.messages {
                    self.title_of(&message.agent).note_rewritten(&message.headline);
                }
                let item = self.message_item(piece, &message)?;
                let section = agent_section(&agent_name(&message.agent), MESSAGES)?;
                let len = self.builder.list_len(&self.transaction, &section)?;
                let end = len.saturating_sub(back);
                let at = end.saturating_sub(1);
                self.builder.splice(&mut self.transaction, &section, at..end, vec![item])
            }
            Event::Rewind { at, to } => self.rewind(at, to),
            Event::Compact { agent, summary, keep } => {
                self.compact(piece, &agent, &summary, keep)?;
                self.commit(Trigger::Compaction)
            }
            Event::Rearrange { agent, before, summary, after } => {
                self.rearrange(piece, &agent, (&before, &summary, &after))?;
                self.commit(Trigger::Compaction)
            }
            Event::SystemPrompt { agent, content } => {
                let section = agent_section(&agent_name(&agent), SYSTEM_PROMPT)?;
                let blob = self.write_content(piece, &content)?;
                self.builder.set_blob(&mut self.transaction, &section, blob)
            }
            Event::Scratchpad { key, content } => {
                let value = content.map(|content| content.bytes_in(piece));
                self.builder.set_entry(&mut self.transaction, SCRATCHPAD, &key, value)
            }
            Event::Entry { section, key, content, is_json } => {
                let item = match content {
                    None => None,
                    Some(content) => {
                        let id = self.write_content(piece, &content)?;
                        let media = if is_json { JSON_MEDIA } else { "" };
                        let link = Link { kind: Kind::Blob, id };
                        Some(Item { link, meta: Bytes::from_static(media.as_bytes()) })
                    }
                };
                self.builder.set(&self.transaction, &section, &key, item)
            }
            Event::Clear { section } => self.builder.clear(&mut self.transaction, &section),
            Event::File { path, content } => {
                let content = content.map(|content| content.bytes_in(piece));
                if piece.original.is_some() && content.as_deref().is_some_and(has_mask) {
                    return Ok(());
                }
                let file = content.map(|content| (FileMode::Regular, content));
                let path = self.key_of(path);
                self.builder.set_file(&mut self.transaction, &path, file)
            }
            Event::Meta { key, value } => {
                if key == DIRECTORY {
                    self.directory = Some(value.clone());
                }
                self.builder.set_entry(&mut self.transaction, META, &key, Some(value.into()))
            }
        }
    }

    fn compact(
        &mut self,
        piece: &Piece,
        agent: &str,
        summary: &[MessageEvent],
        keep: Range<u64>,
    ) -> Result<()> {
        let section = agent_section(&agent_name(agent), MESSAGES)?;
        let items = self.summary_items(piece, summary)?;
        let len = self.builder.list_len(&self.transaction, &section)?;
        let (start, end) = (keep.start.min(len), keep.end.min(len));
        self.builder.splice(&mut self.transaction, &section, end.max(start)..len, vec![])?;
        self.builder.splice(&mut self.transaction, &section, 0..start, items)
    }

    /// Sets the messages of an agent to ranges of the old list, a summary, and further ranges.
    fn rearrange(
        &mut self,
        piece: &Piece,
        agent: &str,
        (before, summary, after): (&[Range<u64>], &[MessageEvent], &[Range<u64>]),
    ) -> Result<()> {
        let section = agent_section(&agent_name(agent), MESSAGES)?;
        let list = self.context()?.messages(&self.transaction, &agent_name(agent))?;
        let mut next = 0;
        let mut kept = |change: &Transaction<'_>, ranges: &[Range<u64>]| {
            let mut items = Vec::new();
            for range in ranges {
                let range = range.start.max(next)..range.end.min(list.len());
                next = range.end.max(next);
                for item in list.iter(change, range.start.min(range.end)..range.end) {
                    items.push(item?);
                }
            }
            Ok::<_, turntree::Error>(items)
        };
        let mut items = kept(&self.transaction, before)?;
        let behind = kept(&self.transaction, after)?;
        items.extend(self.summary_items(piece, summary)?);
        items.extend(behind);
        self.builder.set_list(&mut self.transaction, &section, items)
    }

    fn summary_items(&mut self, piece: &Piece, summary: &[MessageEvent]) -> Result<Vec<Item>> {
        let mut items = Vec::with_capacity(summary.len());
        for message in summary {
            // A part of a record repeats an earlier message. A whole record is a new message.
            if message.content == Content::Piece {
                self.note_message(message);
            }
            items.push(self.message_item(piece, message)?);
        }
        Ok(items)
    }

    fn note_message(&mut self, message: &MessageEvent) {
        let pending = &mut self.pending;
        pending.messages += 1;
        self.silent += u64::from(message.headline == Headline::Nothing);
        pending.time = message.time.or(pending.time);
        if let Some(model) = &message.model {
            pending.model.clone_from(model);
        }
        self.title_of(&message.agent).note(&message.headline);
    }

    /// Returns the title of the current turn for an agent.
    fn title_of(&mut self, agent: &str) -> &mut TurnTitle {
        match agent == MAIN_AGENT {
            true => &mut self.pending.main,
            false => &mut self.pending.others,
        }
    }

    fn message_item(&mut self, piece: &Piece, message: &MessageEvent) -> Result<Item> {
        let blob = self.write_content(piece, &message.content)?;
        MessageEntry::new(blob, message.role, self.format.name).to_item()
    }

    fn write_content(&mut self, piece: &Piece, content: &Content) -> Result<ObjectId> {
        self.transaction.write(Kind::Blob, content.bytes_in(piece))
    }

    /// Ends the current turn if it has a message. Pieces before the first message belong to the
    /// first turn.
    fn end_turn(&mut self, trigger: Trigger) -> Result<()> {
        if self.pending.messages > 0 { self.commit(trigger) } else { Ok(()) }
    }

    /// Adds the files that were captured after the calls of the current turn.
    fn add_captured_files(&mut self) -> Result<()> {
        let metadata = self.captures.take_files(&mut self.transaction, &mut self.builder)?;
        self.pending.metadata.extend(metadata);
        Ok(())
    }

    fn commit(&mut self, trigger: Trigger) -> Result<()> {
        self.add_captured_files()?;
        let mut pending = std::mem::take(&mut self.pending);
        if let Some(begins) = pending.begins {
            pending.metadata.insert(SOURCE_START.to_owned(), begins.to_string());
        }
        if let Some(left) = pending.leaves {
            pending.metadata.insert(ABANDONED_BRANCH.to_owned(), left);
        }
        let is_copy = pending.messages == 0 && pending.copy_of.is_some();
        if self.turns == 0 {
            let format = Bytes::from_static(self.format.name.as_bytes());
            self.builder.set_entry(&mut self.transaction, META, "format", Some(format))?;
        }
        let known_time = pending.time.or(self.last_time);
        // A file of copies alone gets the time of the turn that it copies.
        let copied_time = match self.transaction.tip(&self.branch) {
            Some(tip) if known_time.is_none() && is_copy => {
                Some(self.transaction.read_commit(&tip)?.time)
            }
            _ => None,
        };
        let time = known_time.or(copied_time).unwrap_or(self.stamp.time);
        let has_main = self.builder.list_len(&self.transaction, MAIN_MESSAGES)? > 0;
        let said = if has_main { &pending.main } else { &pending.others };
        let asks = trigger == Trigger::Turn && !pending.main.prompt.is_empty();
        let format = self.format;
        let reads = |media: &str, bytes: &[u8]| format.is_prompt(media, bytes);
        pending.metadata.extend([self.transaction.prompt_note(&self.branch, asks, &reads)?]);
        let snapshot = SnapshotDraft {
            tree: self.builder.write(&mut self.transaction)?,
            author: Author { agent: self.format.name.to_owned(), model: pending.model.clone() },
            time,
            trigger,
            message: match pending.pieces + pending.messages {
                0 if trigger == Trigger::Turn => FILES.to_owned(),
                _ if is_copy => {
                    format!("copy of {}", pending.copy_of.unwrap_or_default())
                }
                _ => said.line(trigger, self.directory.as_deref()),
            },
            metadata: pending.metadata,
        };
        let turn = self.transaction.snapshot(&self.branch, snapshot)?;
        if let Some(timeline) = &mut self.timeline {
            let own = self.builder.list_len(&self.transaction, SOURCE)?;
            timeline.add(self.builder.copied_pieces(&self.transaction)? + own, turn);
        }
        self.last_time = Some(time);
        self.turns += 1;
        self.messages += pending.messages;
        flush_if_needed(&mut self.transaction)?;
        Ok(())
    }
}

/// Returns a fact of a context, if it is set.
pub(crate) fn fact(
    source: &dyn ObjectSource,
    context: &Context,
    name: &str,
) -> Result<Option<String>> {
    let Some(item) = context.map(source, META)?.get(source, name.as_bytes())? else {
        return Ok(None);
    };
    let bytes = source.read_as(Kind::Blob, &item.link.id)?;
    Ok(String::from_utf8(bytes.to_vec()).ok())
}

/// Returns an agent's name as a valid part of a section path.
fn agent_name(name: &str) -> String {
    let safe = |c: char| if c == '/' || c.is_control() { '_' } else { c };
    let fitting = name.char_indices().take_while(|(at, c)| at + c.len_utf8() <= MAX_AGENT_BYTES);
    let name: String = fitting.map(|(_, c)| safe(c)).collect();
    if name.is_empty() { MAIN_AGENT.to_owned() } else { name }
}

impl TurnTitle {
    fn note(&mut self, headline: &Headline) {
        let (line, said) = match headline {
            Headline::Prompt(line) => (&mut self.prompt, line),
            Headline::Aside(line) => (&mut self.aside, line),
            Headline::Answer(line) => (&mut self.answer, line),
            Headline::Note(line) => (&mut self.note, line),
            Headline::Calls(calls) => {
                let room = MAX_CALLS.saturating_sub(self.called.len());
                return self.called.extend(calls.iter().take(room).cloned());
            }
            Headline::Results(_) => return self.has_results = true,
            Headline::Thinking(_) | Headline::Nothing => return self.has_thoughts = true,
        };
        if line.is_empty() {
            line.clone_from(said);
        }
    }

    /// Notes the headline of a message that its client rewrites while it grows: the calls follow
    /// the thinking.
    fn note_rewritten(&mut self, headline: &Headline) {
        let Headline::Calls(calls) = headline else { return self.note(headline) };
        let new = calls.iter().filter(|call| !self.called.contains(call)).cloned().collect();
        self.note(&Headline::Calls(new));
    }

    /// Returns the title of the turn in one line: the prompt, else the answer, else the calls, with
    /// paths relative to `directory`. Never shows thinking or results.
    fn line(&self, trigger: Trigger, directory: Option<&str>) -> String {
        if trigger == Trigger::Compaction {
            return "compaction".to_owned();
        }
        let calls = CallHeadline::line(&self.called, directory);
        let silent = match (self.has_results, self.has_thoughts) {
            (true, _) => "(tool results)",
            (_, true) => "(thinking)",
            _ => "(no messages)",
        };
        let lines = [&self.prompt, &self.aside, &self.answer, &calls, &self.note];
        let line = lines.into_iter().find(|line| !line.is_empty());
        let line = line.map_or(silent, String::as_str);
        line.chars().take(MAX_TITLE_CHARS).collect()
    }
}
