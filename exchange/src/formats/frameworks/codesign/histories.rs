//! Designs become sessions, and snapshots commits with their parents.
//!
//! ```text
//! initial --- edit --- edit        main
//!        \--- fork --- edit        fork-<id>
//! ```
//!
//! A snapshot extends the branch that ends with its parent. A fork, and a snapshot with an earlier
//! parent, begins a branch. So importing a store again adds only its new snapshots, wherever its
//! branches have moved since. Rows of a chat come before the snapshot that they resulted in.

use std::collections::{BTreeSet, HashMap, HashSet};

use bytes::Bytes;
use turntree::context::sections::{
    CHAT_SOURCE, COMMENTS, DESIGN_MESSAGES, DIAGNOSTICS, MAIN_MESSAGES, META, SNAPSHOTS, SOURCE,
    STATE,
};
use turntree::context::{
    Builder, Context, FileMode, MAIN_AGENT, MessageEntry, Role, Shape, agent_section,
};
use turntree::error::Result;
use turntree::object::{Author, Kind, ObjectId, ObjectSink, Time, Trigger};
use turntree::repo::vfs::VfsUri;
use turntree::repo::{BranchName, Repository, SnapshotDraft, Transaction};
use turntree::tree::Item;

use super::archive::{Archive, Artifact, ChatRow, Design, DesignSnapshot, Origin};
use super::chat_progress::ChatProgress;
use super::known_session::{KnownSession, free_session, sessions};
use super::order::{Lineage, ordered};
use super::{
    CHAT, META_CHAT, META_DATABASE, META_DELETED, META_DESIGN, META_ID, META_LOG, META_OTHER, NAME,
    ORDER, SNAPSHOT,
};
use crate::formats::frameworks::json_parts::import_notes;
use crate::formats::frameworks::json_writer::{json_item, quoted};
use crate::import::finish::{finish_import, imported_tip};
use crate::import::flush::flush_if_needed;
use crate::import::rewind::unique_branch;
use crate::import::source::{write_piece, write_source};
use crate::model::format::ImportOptions;
use crate::model::report::{BASE, ImportNote, ImportReport, ImportedBranch};
use crate::model::words::first_line;
use crate::text::{json, lines};

/// Letters of a snapshot's id in the name of the branch that begins with it.
const MAX_BRANCH_CHARS: usize = 8;

/// Imports archives, the oldest first, as one operation.
///
/// # Errors
/// `InvalidInput` for an invalid session name, `Conflict` when another process moved a branch
/// concurrently. After an error the store is unchanged.
pub(super) fn import_archives(
    repo: &Repository,
    archives: Vec<Archive>,
    options: &ImportOptions,
) -> Result<ImportReport> {
    let mut designs: BTreeSet<&str> = BTreeSet::new();
    designs.extend(archives.iter().flat_map(|archive| &archive.designs).map(|d| d.id.as_str()));
    let mut writer = HistoryWriter {
        repo,
        change: repo.begin(),
        options,
        alone: designs.len() <= 1,
        sessions: sessions(repo, &options.session)?,
        names: repo.branches().iter().map(|(branch, _)| branch.session().to_owned()).collect(),
        known: HashMap::new(),
        made: Vec::new(),
        made_at: HashMap::new(),
        notes: Vec::new(),
        input_bytes: 0,
    };
    let mut first = None;
    for archive in archives {
        let main = writer.archive(archive)?;
        first.get_or_insert(main);
    }
    writer.finish(first)
}

struct HistoryWriter<'r> {
    repo: &'r Repository,
    change: Transaction<'r>,
    options: &'r ImportOptions,
    /// There is one design, so the session has the name that it was given.
    alone: bool,
    /// Sessions of designs, by the designs' ids.
    sessions: HashMap<String, String>,
    /// The names of all sessions.
    names: HashSet<String>,
    /// The known sessions of this import, by design.
    known: HashMap<String, KnownSession>,
    /// The branches that got commits, in order.
    made: Vec<ImportedBranch>,
    made_at: HashMap<BranchName, usize>,
    notes: Vec<ImportNote>,
    input_bytes: u64,
}

/// The facts that every snapshot of an import shares.
struct SharedFacts {
    /// Holds the sections `source` and `diagnostics`.
    template: Context,
    /// Holds the file of the design's chat.
    chat: Context,
    /// True if the session has had this file already.
    is_known: bool,
    /// True if the design speaks for the whole store.
    is_first: bool,
    facts: Vec<(String, Bytes)>,
}

/// A commit in the making.
struct Draft {
    builder: Builder,
    messages: u64,
    cited: BTreeSet<VfsUri>,
    time: Option<Time>,
    title: String,
}

impl HistoryWriter<'_> {
    /// Puts an archive into the store; returns the main branch of its first design.
    fn archive(&mut self, mut archive: Archive) -> Result<BranchName> {
        if archive.designs.is_empty() {
            archive.designs.push(Design::default());
        }
        let template = self.template(&archive)?;
        let source = template.section(&self.change, SOURCE)?.map(|section| section.id);
        let mut facts: Vec<(String, Bytes)> = archive
            .facts
            .iter()
            .map(|(key, value)| (format!("{META_DATABASE}{key}"), value.clone()))
            .collect();
        facts.extend(archive.log.iter().map(|log| (META_LOG.to_owned(), log.clone())));
        let chat = Context::default();
        let mut frame = SharedFacts { template, chat, is_known: false, is_first: true, facts };
        self.input_bytes += archive.source.as_ref().map_or(0, |bytes| bytes.len() as u64);
        let mut notes = std::mem::take(&mut archive.notes);
        let mut first = None;
        for design in &archive.designs {
            let mut known = self.known(design)?;
            if frame.is_first {
                frame.is_known = source.is_none_or(|source| known.sources.contains(&source));
            }
            frame.chat = self.chat_template(design)?;
            let result = self.design(design, &archive, &frame, &mut known, &mut notes);
            first.get_or_insert_with(|| known.main.clone());
            self.known.insert(design.id.clone(), known);
            result?;
            frame.is_first = false;
        }
        let file = archive.source.unwrap_or_default();
        self.notes.extend(import_notes(&notes, &file));
        match first {
            Some(main) => Ok(main),
            None => BranchName::main(&self.options.session),
        }
    }

    /// Returns a context with the content that all snapshots of an archive share.
    fn template(&mut self, archive: &Archive) -> Result<Context> {
        let mut builder = Builder::new();
        if let Some(source) = &archive.source {
            write_source(&mut self.change, &mut builder, source, &archive.records)?;
        }
        for event in &archive.diagnostics {
            let item = json_item(&mut self.change, event.clone())?;
            builder.push(&mut self.change, DIAGNOSTICS, item)?;
        }
        let tree = builder.write(&mut self.change)?;
        Context::open(&self.change, &tree)
    }

    /// A context with the file of a design's chat.
    fn chat_template(&mut self, design: &Design) -> Result<Context> {
        let Some(source) = &design.chat.source else { return Ok(Context::default()) };
        let (mut builder, mut items) = (Builder::new(), Vec::new());
        for piece in lines::split(Box::new(source.as_ref())) {
            items.push(write_piece(&mut self.change, &[], &piece?)?.to_item()?);
        }
        builder.set_list(&mut self.change, CHAT_SOURCE, items)?;
        let tree = builder.write(&mut self.change)?;
        Context::open(&self.change, &tree)
    }

    /// Returns the known state of a design's session, which is created if it does not exist.
    fn known(&mut self, design: &Design) -> Result<KnownSession> {
        if let Some(known) = self.known.remove(&design.id) {
            return Ok(known);
        }
        let session = match self.sessions.get(&design.id) {
            Some(session) => session.clone(),
            None => {
                let stem = &self.options.session;
                let is_design = |name: &str| self.sessions.values().any(|session| session == name);
                match self.alone && !is_design(stem) {
                    true => stem.clone(),
                    false => free_session(stem, &design.name, &design.id, &self.names),
                }
            }
        };
        self.names.insert(session.clone());
        self.sessions.insert(design.id.clone(), session.clone());
        KnownSession::load(self.repo, session)
    }

    fn design(
        &mut self,
        design: &Design,
        archive: &Archive,
        frame: &SharedFacts,
        known: &mut KnownSession,
        notes: &mut Vec<(usize, String)>,
    ) -> Result<()> {
        if let Some(moment) = &design.deleted {
            let moment = json::iso_time(moment).map_or("", |_| moment);
            notes.push((0, format!("a design was deleted {moment}; it is kept and marked")));
        }
        let mut told = ChatProgress::new(design, known);
        if !frame.is_known {
            for (index, lineage) in ordered(&design.versions) {
                let Some(version) = design.versions.get(index) else { continue };
                if known.commits.contains_key(&version.key) {
                    continue;
                }
                let branch = self.place(version, lineage, known, notes)?;
                let mut draft = self.draft(design, archive, frame, &branch)?;
                let has_chat = branch == known.main && !design.chat.rows.is_empty();
                if has_chat {
                    let cut = told.cut(version);
                    draft = self.say(design, &mut told, cut, draft, &branch, true)?;
                    self.chat_taken(&mut draft, design, &told)?;
                } else {
                    self.seed(version, &mut draft)?;
                }
                let commit = self.version(version, index, &branch, draft)?;
                known.put(&branch, version.parent.as_deref(), &version.key, commit);
            }
        }
        self.rest(design, archive, frame, known, told)
    }

    /// Returns the branch of a snapshot, moved to its starting point.
    fn place(
        &mut self,
        version: &DesignSnapshot,
        lineage: Lineage,
        known: &KnownSession,
        notes: &mut Vec<(usize, String)>,
    ) -> Result<BranchName> {
        let mut note = match lineage {
            Lineage::Circular => Some("its parents form a cycle; it starts a new history"),
            Lineage::Sound => None,
        };
        let parent = version.parent.as_ref().filter(|_| lineage == Lineage::Sound);
        let commit = parent.and_then(|parent| known.commits.get(parent).copied());
        let is_fork = version.origin == Origin::Fork;
        let begins = known.main_head.is_none();
        let branch = match (parent, commit) {
            (Some(parent), Some(_)) if !is_fork => known.heads.get(parent).cloned(),
            // An edit whose parent is missing continues the main branch.
            (_, None) if begins || version.origin == Origin::Edit => Some(known.main.clone()),
            _ => None,
        };
        if parent.is_some() && commit.is_none() {
            note = Some(match &branch {
                Some(_) if !begins => "its parent is missing; it follows the previous snapshot",
                _ => "its parent is missing; it starts a new history",
            });
        }
        if let Some(note) = note {
            notes.push((version.at, format!("a snapshot: {note}")));
        }
        if let Some(branch) = branch {
            return Ok(branch);
        }
        let branch = self.free_branch(&known.session, &version.key)?;
        self.change.move_branch(&branch, commit);
        Ok(branch)
    }

    /// `fork-` and the beginning of the snapshot's id, or with a number if that is taken.
    fn free_branch(&self, session: &str, key: &str) -> Result<BranchName> {
        let id: String =
            key.chars().filter(char::is_ascii_alphanumeric).take(MAX_BRANCH_CHARS).collect();
        unique_branch(session, &format!("fork-{id}"), |name| self.change.tip(name).is_some())
    }

    /// Returns the next commit of a branch, with the facts of this import.
    fn draft(
        &mut self,
        design: &Design,
        archive: &Archive,
        frame: &SharedFacts,
        branch: &BranchName,
    ) -> Result<Draft> {
        let mut builder = self.builder(branch)?;
        if !frame.is_known {
            builder.set_as_in(&mut self.change, SOURCE, &frame.template)?;
        }
        self.facts(&mut builder, design, archive, frame)?;
        Ok(Draft::new(builder))
    }

    /// The context at the tip of a branch; an empty one if it is missing or was elided.
    fn builder(&self, branch: &BranchName) -> Result<Builder> {
        let Some(tip) = self.change.tip(branch) else { return Ok(Builder::new()) };
        let tree = self.change.read_commit(&tip)?.tree;
        if self.repo.tombstone(&tree).is_some() {
            return Ok(Builder::new());
        }
        Ok(Builder::from(Context::open(&self.change, &tree)?))
    }

    fn facts(
        &mut self,
        builder: &mut Builder,
        design: &Design,
        archive: &Archive,
        frame: &SharedFacts,
    ) -> Result<()> {
        let change = &mut self.change;
        let name = Bytes::from_static(NAME.as_bytes());
        builder.set_entry(change, META, "format", Some(name))?;
        builder.set_entry(change, META, BASE, None)?;
        builder.set_entry(change, META, META_ID, Some(design.id.clone().into()))?;
        if design.chat.source.is_some() {
            builder.set_as_in(change, CHAT_SOURCE, &frame.chat)?;
        }
        if frame.is_known {
            return Ok(());
        }
        let record = design.record.clone().map(|record| json_item(change, record)).transpose()?;
        if record.is_some() {
            builder.set(change, META, META_DESIGN, record)?;
            let deleted = design.deleted.clone().map(Bytes::from);
            builder.set_entry(change, META, META_DELETED, deleted)?;
        }
        if frame.is_first {
            builder.set_as_in(change, DIAGNOSTICS, &frame.template)?;
            let other = archive.other.clone().map(|other| json_item(change, other)).transpose()?;
            builder.set(change, META, META_OTHER, other)?;
            for (key, value) in &frame.facts {
                if key.len() <= turntree::tree::MAX_KEY_BYTES {
                    builder.set_entry(change, META, key, Some(value.clone()))?;
                }
            }
        }
        Ok(())
    }

    /// Says the rows of the chat before `cut`: every turn but the last becomes a commit of its own.
    fn say(
        &mut self,
        design: &Design,
        told: &mut ChatProgress,
        cut: usize,
        mut draft: Draft,
        branch: &BranchName,
        keep_last: bool,
    ) -> Result<Draft> {
        let rows = design.chat.rows.get(told.taken..cut.max(told.taken)).unwrap_or_default();
        if rows.is_empty() {
            return Ok(draft);
        }
        if std::mem::take(&mut told.replaces_seeds) {
            draft.builder.set_empty(&mut self.change, MAIN_MESSAGES, Shape::List)?;
        }
        let mut in_turn = 0;
        for row in rows {
            if row.starts_turn && in_turn > 0 {
                draft = self.end_turn(design, told, draft, branch)?;
                in_turn = 0;
            }
            self.row(row, MAIN_MESSAGES, &mut draft)?;
            told.taken += 1;
            in_turn += 1;
        }
        if keep_last { Ok(draft) } else { self.end_turn(design, told, draft, branch) }
    }

    fn row(&mut self, row: &ChatRow, section: &str, draft: &mut Draft) -> Result<()> {
        let blob = self.change.write(Kind::Blob, row.bytes.clone())?;
        let item = MessageEntry::new(blob, row.role, CHAT).to_item()?;
        draft.builder.push(&mut self.change, section, item)?;
        draft.cite(&row.bytes);
        draft.messages += 1;
        draft.time = row.time.or(draft.time);
        if draft.title.is_empty() {
            draft.title.clone_from(&row.summary);
        }
        Ok(())
    }

    /// Commits a turn of the chat; the draft continues from it.
    fn end_turn(
        &mut self,
        design: &Design,
        told: &ChatProgress,
        mut draft: Draft,
        branch: &BranchName,
    ) -> Result<Draft> {
        self.chat_taken(&mut draft, design, told)?;
        let title = std::mem::take(&mut draft.title);
        self.commit(branch, &mut draft, title, [])?;
        Ok(Draft::new(draft.builder))
    }

    fn chat_taken(
        &mut self,
        draft: &mut Draft,
        design: &Design,
        told: &ChatProgress,
    ) -> Result<()> {
        let taken = format!("{} {}", design.chat.origin, told.taken);
        draft.builder.set_entry(&mut self.change, META, META_CHAT, Some(taken.into()))
    }

    fn version(
        &mut self,
        version: &DesignSnapshot,
        index: usize,
        branch: &BranchName,
        mut draft: Draft,
    ) -> Result<ObjectId> {
        let path = version.artifact.path();
        for other in Artifact::ALL.into_iter().map(Artifact::path).filter(|other| *other != path) {
            draft.builder.set_file(&mut self.change, other, None)?;
        }
        if self.change.refuses(&version.content)?.is_none() {
            let content = (FileMode::Regular, version.content.clone());
            draft.builder.set_file(&mut self.change, path, Some(content))?;
        }
        let record = json_item(&mut self.change, version.record.clone())?;
        draft.builder.set(&self.change, SNAPSHOTS, &version.key, Some(record))?;
        draft.cite(&version.content);
        draft.time = version.created.or(draft.time);
        let said = [&version.message, &version.prompt].into_iter().flatten();
        let title = said.map(|text| first_line(text)).find(|line| !line.is_empty());
        let title = title.unwrap_or_else(|| version.origin.name().to_owned());
        let facts = [(SNAPSHOT, version.key.clone()), (ORDER, index.to_string())];
        self.commit(branch, &mut draft, title, facts)
    }

    /// Fills an empty chat as upstream does: with the prompt, and its result.
    fn seed(&mut self, version: &DesignSnapshot, draft: &mut Draft) -> Result<()> {
        let mut rows = Vec::new();
        let when = &version.created_json;
        if let Some(prompt) = version.prompt.as_ref().filter(|prompt| !prompt.trim().is_empty()) {
            let payload = format!("{{\"text\":{}}}", quoted(prompt));
            rows.push((Role::User, "user", payload, "null".to_owned()));
        }
        let payload = format!("{{\"createdAt\":{when}}}");
        rows.push((Role::Other, "artifact_delivered", payload, quoted(&version.key)));
        for (role, kind, payload, snapshot) in rows {
            let row = format!(
                "{{\"kind\":\"{kind}\",\"payload\":{payload},\"snapshotId\":{snapshot},\"createdAt\":{when}}}"
            );
            let blob = self.change.write(Kind::Blob, row.into())?;
            let item = MessageEntry::new(blob, role, CHAT).to_item()?;
            draft.builder.push(&mut self.change, MAIN_MESSAGES, item)?;
            draft.messages += 1;
        }
        Ok(())
    }

    /// Adds the rest of the chat, and everything that is known only as it was at the end.
    fn rest(
        &mut self,
        design: &Design,
        archive: &Archive,
        frame: &SharedFacts,
        known: &KnownSession,
        mut told: ChatProgress,
    ) -> Result<()> {
        let main = known.main.clone();
        let all = design.chat.rows.len();
        if told.taken < all {
            let draft = self.draft(design, archive, frame, &main)?;
            self.say(design, &mut told, all, draft, &main, false)?;
        }
        if frame.is_known && design.chat.rows.is_empty() {
            return Ok(());
        }
        let tip = self.change.tip(&main);
        let before = tip.map(|tip| self.change.read_commit(&tip)).transpose()?;
        let mut draft = Draft::new(self.builder(&main)?);
        if frame.is_first && !frame.is_known {
            draft.builder.set_as_in(&mut self.change, SOURCE, &frame.template)?;
        }
        self.facts(&mut draft.builder, design, archive, frame)?;
        self.as_it_is(design, frame, &mut draft)?;
        let tree = draft.builder.write(&mut self.change)?;
        if before.is_some_and(|before| before.tree == tree) {
            return Ok(());
        }
        if !frame.is_known {
            draft.builder.set_as_in(&mut self.change, SOURCE, &frame.template)?;
        }
        let name = first_line(&design.name);
        let title = if name.is_empty() { "open-codesign design".to_owned() } else { name };
        self.commit(&main, &mut draft, title, []).map(drop)
    }

    /// Comments, files and state as they are now.
    fn as_it_is(&mut self, design: &Design, frame: &SharedFacts, draft: &mut Draft) -> Result<()> {
        let (change, builder) = (&mut self.change, &mut draft.builder);
        if design.chat.source.is_some() {
            builder.clear(change, COMMENTS)?;
        }
        for (id, comment) in &design.comments {
            let item = json_item(change, comment.clone())?;
            builder.set(change, COMMENTS, id, Some(item))?;
        }
        let state = agent_section(MAIN_AGENT, STATE)?;
        for (key, value) in &design.chat.state {
            let item = json_item(change, value.clone())?;
            builder.set(change, &state, key, Some(item))?;
        }
        if frame.is_known {
            return Ok(());
        }
        for (path, content) in &design.files {
            if change.refuses(content)?.is_none() {
                builder.set_file(change, path, Some((FileMode::Regular, content.clone())))?;
            }
        }
        if !design.old_messages.is_empty() {
            let messages = design.old_messages.iter();
            let items = messages.map(|message| json_item(change, message.clone()));
            let items = items.collect::<Result<Vec<Item>>>()?;
            builder.set_list(change, DESIGN_MESSAGES, items)?;
        }
        Ok(())
    }

    fn commit<const N: usize>(
        &mut self,
        branch: &BranchName,
        draft: &mut Draft,
        title: String,
        facts: [(&str, String); N],
    ) -> Result<ObjectId> {
        let cited = std::mem::take(&mut draft.cited);
        self.change.set_cited(cited);
        let snapshot = SnapshotDraft {
            tree: draft.builder.write(&mut self.change)?,
            author: Author { agent: NAME.to_owned(), model: String::new() },
            time: draft.time.unwrap_or(self.options.stamp.time),
            trigger: Trigger::Turn,
            message: title,
            metadata: facts.map(|(key, value)| (key.to_owned(), value)).into(),
        };
        let head = self.change.snapshot(branch, snapshot)?;
        let messages = std::mem::take(&mut draft.messages);
        let at = *self.made_at.entry(branch.clone()).or_insert(self.made.len());
        if at == self.made.len() {
            let branch = branch.clone();
            self.made.push(ImportedBranch { branch, turns: 0, messages: 0, head });
        }
        if let Some(made) = self.made.get_mut(at) {
            made.turns += 1;
            made.messages += messages;
            made.head = head;
        }
        flush_if_needed(&mut self.change)?;
        Ok(head)
    }

    fn finish(self, first: Option<BranchName>) -> Result<ImportReport> {
        let Self { repo, change, options, mut made, notes, input_bytes, .. } = self;
        let branch = match first {
            Some(branch) => branch,
            None => BranchName::main(&options.session)?,
        };
        let is_new = !made.is_empty();
        let head = imported_tip(&change, &branch)?;
        let at = made.iter().position(|made| made.branch == branch);
        let first = at.map(|at| made.remove(at));
        let (turns, messages) = first.map_or((0, 0), |made| (made.turns, made.messages));
        let report = ImportReport {
            turns,
            messages,
            input_bytes,
            notes,
            others: made,
            ..ImportReport::unchanged(branch, head, NAME)
        };
        let reason = format!("import {}", options.session);
        finish_import(repo, change, options, &reason, is_new, report)
    }
}

impl Draft {
    fn new(builder: Builder) -> Self {
        let (cited, title) = (BTreeSet::new(), String::new());
        Self { builder, messages: 0, cited, time: None, title }
    }

    fn cite(&mut self, bytes: &Bytes) {
        self.cited.extend(VfsUri::cited(bytes).map(|(uri, _)| uri));
    }
}
