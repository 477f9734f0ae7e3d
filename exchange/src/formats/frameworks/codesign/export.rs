//! Any sessions become a design store, as upstream writes it.
//!
//! Imported values are written as they were imported. Each later turn that changed the artifact
//! adds a snapshot.

use std::collections::{HashMap, HashSet};
use std::io::Write;

use bytes::Bytes;
use turntree::context::sections::{DIAGNOSTICS, FILES, META, SNAPSHOTS};
use turntree::context::{Context, FileEntry, MAIN_AGENT, MessageEntry, Role};
use turntree::error::{Error, Result};
use turntree::object::{Commit, Kind, ObjectId, ObjectSource, Time};
use turntree::repo::{LogEntry, Repository};

use super::super::iso_millis::iso_millis;
use super::super::json_parts::Fields;
use super::super::json_writer::{Formatted, Json, quoted};
use super::archive::{Artifact, Origin};
use super::known_session::text;
use super::{META_DESIGN, META_ID, META_OTHER, NAME, ORDER, SNAPSHOT};
use crate::formats::view;
use crate::text::json::{self, Text};

/// Writes a design for each of `sessions`, given by its tips: with all snapshots that are reachable
/// from any tip. The first tip provides the facts of the design.
///
/// Reads every reachable commit; memory for the values of each, without contents.
///
/// # Errors
/// `InvalidInput` when a session has no tip, or two are the same design; `Io` when `out` refuses,
/// and errors of reading.
pub fn export_designs(
    repo: &Repository,
    sessions: &[Vec<ObjectId>],
    out: &mut dyn Write,
) -> Result<()> {
    let (mut designs, mut snapshots) = (Vec::new(), Vec::new());
    let mut ids = HashSet::new();
    for tips in sessions {
        let (design, of_design) = Design::read(repo, tips)?;
        if !ids.insert(design.id.clone()) {
            return Err(Error::invalid("two of these sessions are the same design"));
        }
        snapshots.extend(of_design.into_iter().map(|snapshot| (designs.len(), snapshot)));
        designs.push(design);
    }
    snapshots.sort_by(|(_, a), (_, b)| a.rank.cmp(&b.rank));
    let mut formatted = Formatted::new(out, true);
    let mut writer = StoreWriter { repo, json: Json::new(&mut formatted) };
    writer.store(&designs, &snapshots)?;
    out.write_all(b"\n").map_err(|error| Error::io("write the design store", error))
}

/// A design to write.
struct Design {
    id: String,
    context: Context,
    commit: Commit,
    /// When the first and the last of its commits were made.
    span: (Time, Time),
    /// The time of the newest snapshot that was not imported.
    changed: Option<i64>,
    has_snapshots: bool,
}

impl Design {
    /// Reads the history of `tips`, and its snapshots.
    fn read(repo: &Repository, tips: &[ObjectId]) -> Result<(Self, Vec<DesignExport>)> {
        let Some(tip) = tips.first() else { return Err(Error::invalid("no snapshot to export")) };
        let mut history = History::new(repo);
        let mut entries = repo.history(tips, &[])?.collect::<Result<Vec<LogEntry>>>()?;
        entries.reverse();
        for entry in &entries {
            history.take(entry)?;
        }
        let (context, commit) = (repo.context(tip)?, repo.commit(tip)?);
        let id = text(repo, &context, META_ID)?;
        let id = id.unwrap_or_else(|| uuid(&ObjectId::of(Kind::Blob, commit.session.as_bytes())));
        let time = |entry: Option<&LogEntry>| entry.map_or(commit.time, |entry| entry.commit.time);
        let span = (time(entries.first()), time(entries.last()));
        let changed = history.snapshots.iter().filter_map(|snapshot| snapshot.design_changed).max();
        let has_snapshots = !history.snapshots.is_empty();
        let design = Self { id, context, commit, span, changed, has_snapshots };
        Ok((design, history.snapshots))
    }
}

/// A snapshot to write.
struct DesignExport {
    /// The sort key: moment, place in its file, turn, id.
    rank: (i64, u64, u64, String),
    design_changed: Option<i64>,
    parent: Option<String>,
    is_first: bool,
    is_fork: bool,
    artifact: Artifact,
    content: ObjectId,
    commit: ObjectId,
    /// The snapshot as it was imported; `None` for one that was made here.
    record: Option<Bytes>,
}

impl DesignExport {
    fn id(&self) -> &str {
        &self.rank.3
    }
}

/// The place of a snapshot, and the artifact.
type Nearest = (Option<usize>, Option<(Artifact, ObjectId)>);

/// The snapshots of the commits, the oldest first.
struct History<'r> {
    repo: &'r Repository,
    snapshots: Vec<DesignExport>,
    /// The last snapshot up to each commit, and the artifact there.
    nearest: HashMap<ObjectId, Nearest>,
    keys: HashSet<String>,
    /// Snapshots that have children.
    parents: HashSet<String>,
}

impl<'r> History<'r> {
    fn new(repo: &'r Repository) -> Self {
        let (nearest, keys, parents) = (HashMap::new(), HashSet::new(), HashSet::new());
        Self { repo, snapshots: Vec::new(), nearest, keys, parents }
    }

    fn take(&mut self, entry: &LogEntry) -> Result<()> {
        let LogEntry { id, commit, parents } = entry;
        let (before, was) = parents
            .first()
            .and_then(|parent| self.nearest.get(parent))
            .copied()
            .unwrap_or_default();
        if self.repo.tombstone(&commit.tree).is_some() {
            self.nearest.insert(*id, (before, was));
            return Ok(());
        }
        let context = self.repo.context(id)?;
        let found = artifact(self.repo, &context, was.map(|(artifact, _)| artifact))?;
        let mut last = before;
        if let Some((artifact, content)) = found {
            let key = commit.metadata.get(SNAPSHOT).filter(|key| !self.keys.contains(*key));
            let record = match key {
                Some(key) => value(self.repo, &context, SNAPSHOTS, key)?,
                None => None,
            };
            let is_edit = record.is_none() && commit.author.agent != NAME && was != found;
            if let Some(key) = key.filter(|_| record.is_some()) {
                self.keys.insert(key.clone());
            }
            if record.is_some() || is_edit {
                last = Some(self.snapshots.len());
                self.add(entry, before, record, artifact, content);
            }
        }
        self.nearest.insert(*id, (last, found));
        Ok(())
    }

    fn add(
        &mut self,
        entry: &LogEntry,
        before: Option<usize>,
        record: Option<Bytes>,
        artifact: Artifact,
        content: ObjectId,
    ) {
        let LogEntry { id, commit, .. } = entry;
        let before = before.and_then(|at| self.snapshots.get(at));
        let told = record.as_ref().map(|record| ChatProgress::of(record));
        let parent = match &told {
            Some(told) => told.parent.clone(),
            None => before.map(|before| before.id().to_owned()),
        };
        let is_fork = parent.as_ref().is_some_and(|parent| self.parents.contains(parent));
        self.parents.extend(parent.clone());
        let order = commit.metadata.get(ORDER).and_then(|order| order.parse().ok());
        let order = order.filter(|_| told.is_some()).unwrap_or(u64::MAX);
        let micros = told.as_ref().map_or(commit.time.micros, |told| told.micros);
        let design_changed = told.is_none().then_some(commit.time.micros);
        let name = told.map_or_else(|| uuid(id), |told| told.id);
        self.snapshots.push(DesignExport {
            rank: (micros, order, commit.turn, name),
            design_changed,
            is_first: parent.is_none(),
            parent,
            is_fork,
            artifact,
            content,
            commit: *id,
            record,
        });
    }
}

/// The fields of a record that decide its place.
struct ChatProgress {
    id: String,
    parent: Option<String>,
    micros: i64,
}

impl ChatProgress {
    fn of(record: &[u8]) -> Self {
        let value = json::value(record).unwrap_or_default();
        let text = |name: &str| json::text_at(&value, name).map(str::to_owned);
        let created = text("/createdAt").and_then(|text| json::iso_time(&text));
        Self {
            id: text("/id").unwrap_or_default(),
            parent: text("/parentId"),
            micros: created.map_or(i64::MAX, |time| time.micros),
        }
    }
}

/// The artifact of a context: of the kind that it was before, or of any.
fn artifact(
    repo: &Repository,
    context: &Context,
    before: Option<Artifact>,
) -> Result<Option<(Artifact, ObjectId)>> {
    let files = context.map(repo, FILES)?;
    for artifact in before.into_iter().chain(Artifact::ALL) {
        if let Some(item) = files.get(repo, artifact.path().as_bytes())? {
            return Ok(Some((artifact, FileEntry::from_item(&item)?.blob)));
        }
    }
    Ok(None)
}

/// The bytes of an entry of a map.
fn value(repo: &Repository, context: &Context, section: &str, key: &str) -> Result<Option<Bytes>> {
    let store = repo.store();
    let item = context.map(store, section)?.get(store, key.as_bytes())?;
    item.map(|item| store.read_as(Kind::Blob, &item.link.id)).transpose()
}

/// Returns a name in upstream's form, derived from an id: version 8 of RFC 9562.
pub(super) fn uuid(id: &ObjectId) -> String {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(id.as_bytes()).for_each(|(byte, from)| *byte = *from);
    let [_, _, _, _, _, _, version, _, variant, ..] = &mut bytes;
    *version = *version & 0x0F | 0x80;
    *variant = *variant & 0x3F | 0x80;
    let mut uuid = String::new();
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            uuid.push('-');
        }
        uuid.push_str(&format!("{byte:02x}"));
    }
    uuid
}

struct StoreWriter<'a, 'w> {
    repo: &'a Repository,
    json: Json<'w>,
}

impl StoreWriter<'_, '_> {
    fn store(&mut self, designs: &[Design], snapshots: &[(usize, DesignExport)]) -> Result<()> {
        self.json.open(b'{')?;
        self.json.raw("schemaVersion", "1")?;
        self.json.key("designs")?;
        self.json.open(b'[')?;
        for design in designs {
            if let Some(row) = self.design(design)? {
                self.json.element(row.as_bytes())?;
            }
        }
        self.json.close(b']')?;
        self.json.key("snapshots")?;
        self.json.open(b'[')?;
        for (at, snapshot) in snapshots {
            let design = designs.get(*at).map_or("", |design| &design.id);
            let row = self.snapshot(design, snapshot)?;
            self.json.element(row.as_bytes())?;
        }
        self.json.close(b']')?;
        self.json.key("diagnosticEvents")?;
        self.json.open(b'[')?;
        designs.iter().try_for_each(|design| self.diagnostics(design))?;
        self.json.close(b']')?;
        let mut names = HashSet::new();
        for design in designs {
            let Some(other) = value(self.repo, &design.context, META, META_OTHER)? else {
                continue;
            };
            for (name, value) in fields(&other)? {
                if names.insert(name.clone()) {
                    self.json.raw(&name, &value)?;
                }
            }
        }
        self.json.close(b'}')
    }

    fn diagnostics(&mut self, design: &Design) -> Result<()> {
        let store = self.repo.store();
        let events = design.context.list(store, DIAGNOSTICS)?;
        for item in events.iter(store, 0..events.len()) {
            self.json.element(&store.read_as(Kind::Blob, &item?.link.id)?)?;
        }
        Ok(())
    }

    /// The design as it was imported, with the time of its newest snapshot. A design of another
    /// system gets the name of its session. `None` for a store without designs.
    fn design(&self, design: &Design) -> Result<Option<String>> {
        let Design { id, context, commit, span: (first, last), changed, has_snapshots } = design;
        if let Some(record) = value(self.repo, context, META, META_DESIGN)? {
            let mut fields = fields(&record)?;
            for (name, value) in &mut fields {
                let told = serde_json::from_str::<String>(value).ok();
                let told = told.and_then(|text| json::iso_time(&text)).map(|time| time.micros);
                if name == "updatedAt"
                    && let Some(changed) =
                        changed.filter(|changed| told.is_none_or(|at| at < *changed))
                {
                    *value = moment(changed);
                }
            }
            return Ok(Some(object(&fields)));
        }
        if id.is_empty() && !has_snapshots {
            return Ok(None);
        }
        let null = || "null".to_owned();
        Ok(Some(object(&[
            ("schemaVersion".to_owned(), "1".to_owned()),
            ("id".to_owned(), quoted(id)),
            ("name".to_owned(), quoted(&commit.session)),
            ("createdAt".to_owned(), moment(first.micros)),
            ("updatedAt".to_owned(), moment(changed.unwrap_or(last.micros))),
            ("thumbnailText".to_owned(), null()),
            ("deletedAt".to_owned(), null()),
            ("workspacePath".to_owned(), null()),
        ])))
    }

    fn snapshot(&self, design: &str, snapshot: &DesignExport) -> Result<String> {
        let content = self.repo.read_as(Kind::Blob, &snapshot.content)?;
        let content = quoted(&String::from_utf8_lossy(&content));
        if let Some(record) = &snapshot.record {
            let mut fields = fields(record)?;
            for (name, value) in &mut fields {
                if name == "artifactSource" && value == "null" {
                    value.clone_from(&content);
                }
            }
            return Ok(object(&fields));
        }
        let commit = self.repo.commit(&snapshot.commit)?;
        let origin = match (snapshot.is_first, snapshot.is_fork) {
            (true, _) => Origin::Initial,
            (_, true) => Origin::Fork,
            _ => Origin::Edit,
        };
        let text = |text: Option<&String>| text.map_or_else(|| "null".to_owned(), |t| quoted(t));
        let prompt = self.prompt(&snapshot.commit, &commit)?;
        let mut fields = vec![
            ("schemaVersion".to_owned(), "1".to_owned()),
            ("id".to_owned(), quoted(snapshot.id())),
            ("designId".to_owned(), quoted(design)),
            ("parentId".to_owned(), text(snapshot.parent.as_ref())),
            ("type".to_owned(), quoted(origin.name())),
            ("prompt".to_owned(), text(prompt.as_ref())),
            ("artifactType".to_owned(), quoted(snapshot.artifact.name())),
            ("artifactSource".to_owned(), content),
            ("createdAt".to_owned(), moment(commit.time.micros)),
        ];
        if !commit.message.is_empty() {
            fields.push(("message".to_owned(), quoted(&commit.message)));
        }
        Ok(object(&fields))
    }

    /// Returns the last message of the user in a turn.
    fn prompt(&self, id: &ObjectId, commit: &Commit) -> Result<Option<String>> {
        let store = self.repo.store();
        let messages = self.repo.context(id)?.messages(store, MAIN_AGENT)?;
        let before = match commit.parents.first() {
            Some(parent) if self.is_there(parent)? => {
                self.repo.context(parent)?.messages(store, MAIN_AGENT)?.len()
            }
            _ => 0,
        };
        let mut prompt = None;
        for item in messages.iter(store, before.min(messages.len())..messages.len()) {
            let entry = MessageEntry::from_item(&item?)?;
            if entry.role == Role::User {
                let bytes = store.read_as(Kind::Blob, &entry.blob)?;
                prompt = Some(view(&entry.media, &bytes).text);
            }
        }
        Ok(prompt)
    }

    fn is_there(&self, commit: &ObjectId) -> Result<bool> {
        if self.repo.tombstone(commit).is_some() {
            return Ok(false);
        }
        Ok(self.repo.tombstone(&self.repo.commit(commit)?.tree).is_none())
    }
}

fn moment(micros: i64) -> String {
    quoted(&iso_millis(micros))
}

/// The fields of an object, each value as it was written.
pub(super) fn fields(record: &[u8]) -> Result<Vec<(String, String)>> {
    let damaged = || Error::invalid("a record of a design store: expected a JSON object");
    let text = Text::new(record).ok_or_else(damaged)?;
    let Fields(fields) = text.parse().map_err(|source| json::refused(damaged(), source))?;
    let written = |json| {
        let range = text.range_of(json).ok_or_else(damaged)?;
        Ok(String::from_utf8_lossy(record.get(range).unwrap_or_default()).into_owned())
    };
    fields.into_iter().map(|(name, json)| Ok((name, written(json)?))).collect()
}

pub(super) fn object(fields: &[(String, String)]) -> String {
    let mut object = String::from("{");
    for (index, (name, value)) in fields.iter().enumerate() {
        if index > 0 {
            object.push(',');
        }
        object.push_str(&quoted(name));
        object.push(':');
        object.push_str(value);
    }
    object.push('}');
    object
}
