//! The data of a page: one JSON value per line after a letter for its kind, in
//! [blocks](super::blocks).
//!
//! | line | content |
//! |---|---|
//! | `x` | a text: a string, or a placeholder for a text that is not shown |
//! | `m` | a message view |
//! | `t` | a turn with its changes |
//! | `h` | the head of the page; the last line |
//! | `n` | the ids of the next turns to continue from; only for a served page |
//!
//! Texts, messages and turns are numbered in the order of their lines, from 0, and later lines
//! reference them by number. Each is therefore written once, when it is first needed. A browser
//! parses only the lines that it shows, and more lines can follow: the last head counts. The head
//! states the number of texts and messages, because the browser does not count lines that it does
//! not parse.
//!
//! A served page receives only the head and the turns, newest first, and requests the texts and
//! messages that it shows. Its turns and texts are identified by their ids, and its messages by
//! their id and the metadata of their list item.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde::Serialize;
use turntree::context::sections::{FILES, MAIN_MESSAGES, is_conversation};
use turntree::context::{FileEntry, FileMode, MessageEntry, Role};
use turntree::error::{Error, Result};
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::{Prompts, Repository};
use turntree::tree::{Item, Link};

use super::blocks::Blocks;
use super::{MAX_STARTS, Page, WantedTurns};
use crate::formats::{is_prompt, view};
use crate::insight::outline::{ChangedFile, changed_lines};
use crate::insight::sessions::number_of_conflicts;
use crate::insight::spending::turn_spending;
use crate::insight::turn_diff::{repeats, turn_diff};
use crate::insight::usage::usage;
use crate::model::picture::{Picture, PictureContent};
use crate::render::escape::escape_json;
use crate::render::history::{ChangedEntry, History, ReverseHistory, Splice, TurnChange};

/// The version of the data.
const SCHEMA: u32 = 3;

/// Largest file content or value to show, in bytes.
const MAX_TEXT_BYTES: usize = 512 << 10;

/// Largest picture to show, in base64 digits.
const MAX_PICTURE_BYTES: usize = 2 << 20;

/// Media types of pictures that browsers show and that contain no scripts.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The resolution of costs: parts of a dollar.
const PARTS: f64 = 1e6;

/// Number of hex digits of ids to show.
const ID_DIGITS: usize = 12;

/// Writes the data of a page.
pub(super) struct PageData<'a> {
    repo: &'a Repository,
    out: Blocks<'a>,
    texts: HashMap<ObjectId, usize>,
    messages: HashMap<(ObjectId, Bytes), usize>,
    turns: HashMap<ObjectId, usize>,
    /// The statistics of each message, by its number.
    stats: Vec<MessageStats>,
    /// The names of texts and messages by number, if only turns are written.
    names: Option<Names>,
}

/// The names of texts and messages that a page can request.
#[derive(Debug, Default)]
struct Names {
    texts: Vec<String>,
    messages: Vec<String>,
}

/// The name of a text, message or turn in a line.
#[derive(Serialize)]
#[serde(untagged)]
enum Name {
    Number(usize),
    Id(String),
}

/// The statistics of messages.
#[derive(Debug, Clone, Default)]
struct MessageStats {
    /// The number of calls by tool.
    tools: BTreeMap<String, u64>,
    /// The number of failed tool results.
    failed: u64,
    /// True if the agent wrote text.
    says: bool,
    /// The context size in tokens at the last answer, including the answer.
    context: u64,
}

#[derive(Serialize)]
struct Header<'a> {
    schema: u32,
    title: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    labels: &'a [String],
    #[serde(rename = "madeBy")]
    made_by: &'a str,
    branches: Vec<PageBranch<'a>>,
    #[serde(skip_serializing_if = "is_zero")]
    more: usize,
    texts: usize,
    messages: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    compare: Option<serde_json::Value>,
}

#[derive(Serialize)]
struct PageBranch<'a> {
    name: &'a str,
    tip: Name,
    #[serde(skip_serializing_if = "is_zero")]
    conflicts: usize,
}

#[derive(Serialize)]
struct PageTurn<'a> {
    id: String,
    parents: Vec<Name>,
    turn: u64,
    session: &'a str,
    time: String,
    /// Milliseconds since the Unix epoch.
    at: i64,
    #[serde(skip_serializing_if = "str::is_empty")]
    agent: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    model: &'a str,
    trigger: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    meta: &'a BTreeMap<String, String>,
    /// The number of the prompt in the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<u64>,
    /// The number of calls by tool.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tools: BTreeMap<String, u64>,
    /// The number of failed tool results.
    #[serde(skip_serializing_if = "is_none")]
    failed: u64,
    /// True if the agent wrote text.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    says: bool,
    /// The context size in tokens at the last answer, including the answer.
    #[serde(skip_serializing_if = "is_none")]
    context: u64,
    /// The input tokens of its answers, the part that a cache read, and the output tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<(u64, u64, u64)>,
    /// The cost in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
    /// True if the cost is incomplete or unknown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more: bool,
    /// The changes. Missing if the content expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<PageChange>,
}

/// The changed stretches of lists, by section.
type Lists = BTreeMap<String, Vec<Stretch>>;

/// A stretch of a list: its position, the number of removed items, and the new items.
type Stretch = (u64, u64, Vec<usize>);

/// The changes of a turn, relative to the turn `base`.
#[derive(Serialize)]
struct PageChange {
    base: Option<Name>,
    lists: BTreeMap<String, Vec<(u64, u64, Vec<Name>)>>,
    /// The path, the number of added and removed lines, the text, the mode, and the size in bytes.
    /// A deleted file has no text.
    files: Vec<FileChange>,
    /// The section, the key, and the text.
    entries: Vec<(String, String, Option<Name>)>,
    /// The old text of each file and then of each entry. Only for a served page.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Vec<Option<String>>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum FileChange {
    Deleted((String, u64, u64)),
    Written((String, u64, u64, Name, &'static str, u64)),
}

/// The placeholder of a text that is not shown.
#[derive(Serialize)]
struct HiddenText {
    bytes: usize,
    id: String,
    why: &'static str,
}

#[derive(Serialize, Default)]
struct PageMessage {
    role: &'static str,
    format: String,
    id: String,
    /// True for a prompt of a person.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    prompt: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    text: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    thinking: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calls: Vec<(String, String, String)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    results: Vec<(String, String, bool, Vec<ImageAddress>)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pictures: Vec<ImageAddress>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<(u64, u64)>,
}

/// The address of a picture, or `None` if it is too large or of a media type that is not shown.
type ImageAddress = Option<String>;

impl<'a> PageData<'a> {
    pub(super) fn new(repo: &'a Repository, out: &'a mut dyn Write) -> Self {
        Self::with(repo, Blocks::new(out))
    }

    /// Creates a writer of plain lines.
    pub(super) fn plain(repo: &'a Repository, out: &'a mut dyn Write) -> Self {
        Self::with(repo, Blocks::plain(out))
    }

    fn with(repo: &'a Repository, out: Blocks<'a>) -> Self {
        let (texts, messages, turns) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { repo, out, texts, messages, turns, stats: Vec::new(), names: None }
    }

    /// Writes all lines.
    pub(super) fn write(mut self, page: &Page<'_>) -> Result<()> {
        let history = History::of(self.repo, &tips(page))?;
        page.steps.inspect(|steps| steps.begin(history.len() as u64));
        self.turns(page, history)?;
        self.head(page)?;
        self.out.finish().map_err(write_error)
    }

    /// Writes the head and then the wanted turns, newest first, each as soon as it is read. Ends
    /// with the ids to continue from.
    pub(super) fn write_turns(mut self, page: &Page<'_>, wanted: &WantedTurns<'_>) -> Result<()> {
        self.names = Some(Names::default());
        let mut starts = wanted.from.to_vec();
        if starts.is_empty() {
            self.head(page)?;
            starts = tips(page);
        }
        let mut history = ReverseHistory::of(self.repo, &starts, wanted.known)?;
        loop {
            self.turns(page, history.by_ref().take(wanted.most))?;
            let rest: Vec<String> = history.rest().iter().map(ObjectId::to_string).collect();
            match rest.len() {
                0 => return Ok(()),
                // A request cannot hold this many ids, so continue the answer.
                1..=MAX_STARTS => return self.line('n', &rest),
                _ => {}
            }
        }
    }

    /// Writes a text, or a placeholder if it is unreadable.
    pub(super) fn write_text(&mut self, id: &ObjectId) -> Result<()> {
        let item = Item { link: Link { kind: Kind::Blob, id: *id }, meta: Bytes::new() };
        match self.text(&item) {
            Ok(_) => Ok(()),
            Err(_) => self.line('x', &HiddenText { bytes: 0, id: id.to_string(), why: "lost" }),
        }
    }

    /// Writes a message, or the error if it is unreadable.
    pub(super) fn write_message(&mut self, id: &ObjectId, meta: &Bytes) -> Result<()> {
        let item = Item { link: Link { kind: Kind::Blob, id: *id }, meta: meta.clone() };
        match self.message(&item) {
            Ok(_) => Ok(()),
            Err(error) => {
                let text = format!("This message cannot be read: {error}");
                let role = Role::Other.name();
                self.line(
                    'm',
                    &PageMessage { role, id: id.short(ID_DIGITS), text, ..PageMessage::default() },
                )
            }
        }
    }

    fn turns(
        &mut self,
        page: &Page<'_>,
        history: impl Iterator<Item = Result<TurnChange>>,
    ) -> Result<()> {
        let mut prompts = self.repo.prompts(Some(&is_prompt))?;
        for turn_change in history {
            self.turn(&turn_change?, page, &mut prompts)?;
            page.steps.inspect(|steps| steps.pass());
        }
        Ok(())
    }

    fn head(&mut self, page: &Page<'_>) -> Result<()> {
        let mut branches = Vec::with_capacity(page.branches.len());
        for super::PageBranch { name, tip: id } in page.branches {
            let Some(tip) = self.turn_name(id) else { continue };
            branches.push(PageBranch { name, tip, conflicts: number_of_conflicts(self.repo, id)? });
        }
        let compare = page.comparison.map(serde_json::from_str).transpose();
        let compare = compare.map_err(|error| {
            Error::invalid("the comparison of a page: expected JSON").with_source(error)
        })?;
        let header = Header {
            schema: SCHEMA,
            title: page.title,
            labels: page.labels,
            made_by: page.made_by,
            branches,
            more: page.more,
            texts: self.texts.len(),
            messages: self.messages.len(),
            compare,
        };
        self.line('h', &header)
    }

    fn turn(
        &mut self,
        turn_change: &TurnChange,
        page: &Page<'_>,
        prompts: &mut Prompts<'_>,
    ) -> Result<()> {
        let (entry, commit) = (&turn_change.entry, &turn_change.entry.commit);
        let lists = turn_change.changes.as_ref().map(|changes| self.lists(&changes.lists));
        let lists = lists.transpose()?;
        let spending = match turn_diff(self.repo, entry)? {
            Some(diff) => turn_spending(self.repo, commit, &diff, page.prices)?,
            None => None,
        };
        let stats = match &lists {
            Some(lists) if !repeats(commit) => self.stats(lists),
            _ => MessageStats::default(),
        };
        let change = match (&turn_change.changes, lists) {
            (Some(changes), Some(lists)) => Some(PageChange {
                base: changes.base.and_then(|base| self.turn_name(&base)),
                lists: lists.into_iter().map(|(name, list)| self.named(name, list)).collect(),
                files: self.files(&changes.entries)?,
                entries: self.entries(&changes.entries)?,
                before: self.before(&changes.entries),
            }),
            _ => None,
        };
        let turn = PageTurn {
            id: entry.id.to_string(),
            parents: entry.parents.iter().filter_map(|id| self.turn_name(id)).collect(),
            turn: commit.turn,
            session: &commit.session,
            time: (page.show_time)(commit.time),
            at: commit.time.micros / 1000,
            agent: &commit.author.agent,
            model: &commit.author.model,
            trigger: commit.trigger.name(),
            message: &commit.message,
            meta: &commit.metadata,
            prompt: prompts.number(entry)?,
            tools: stats.tools,
            failed: stats.failed,
            says: stats.says,
            context: stats.context,
            tokens: spending.map(|it| (it.tokens.input, it.tokens.cache_read, it.tokens.output)),
            cost: spending.and_then(|it| it.cost()).map(|cost| (cost * PARTS).round() / PARTS),
            more: spending.is_some_and(|it| !it.is_whole()),
            change,
        };
        self.line('t', &turn)?;
        self.turns.insert(entry.id, self.turns.len());
        Ok(())
    }

    /// Returns the statistics of the messages that a turn added.
    fn stats(&self, lists: &Lists) -> MessageStats {
        let mut sum = MessageStats::default();
        for (section, stretches) in lists {
            if !is_conversation(section) {
                continue;
            }
            let added = stretches.iter().flat_map(|(_, _, added)| added);
            for stats in added.filter_map(|number| self.stats.get(*number)) {
                for (tool, calls) in &stats.tools {
                    *sum.tools.entry(tool.clone()).or_default() += calls;
                }
                sum.failed += stats.failed;
                sum.says |= stats.says;
                if section == MAIN_MESSAGES && stats.context > 0 {
                    sum.context = stats.context;
                }
            }
        }
        sum
    }

    fn lists(&mut self, lists: &[(String, Vec<Splice>)]) -> Result<Lists> {
        let mut written = BTreeMap::new();
        for (section, splices) in lists {
            let has_messages = is_conversation(section);
            let mut stretches = Vec::new();
            for splice in splices {
                let number = |item| match has_messages {
                    true => self.message(item),
                    false => self.text(item),
                };
                let new = splice.new.iter().map(number).collect::<Result<_>>()?;
                stretches.push((splice.old.start, splice.old.end - splice.old.start, new));
            }
            written.insert(section.clone(), stretches);
        }
        Ok(written)
    }

    fn files(&mut self, entries: &[ChangedEntry]) -> Result<Vec<FileChange>> {
        let files = entries.iter().filter(|entry| entry.section == FILES);
        files
            .map(|change| {
                let path = change.key.clone();
                let lines = changed_lines(self.repo, change.old.as_ref(), change.new.as_ref())?;
                let ChangedFile { added, removed } = lines;
                let Some(item) = &change.new else {
                    return Ok(FileChange::Deleted((path, added, removed)));
                };
                let file = FileEntry::from_item(item)?;
                let text = self.text(item)?;
                let text = self.text_name(text);
                Ok(FileChange::Written((path, added, removed, text, mode(file.mode), file.size)))
            })
            .collect()
    }

    /// Returns the old text of each file and then of each entry, by name. A page that receives the
    /// newest turns first does not have the older ones. A page with all turns finds the text
    /// itself.
    fn before(&self, entries: &[ChangedEntry]) -> Option<Vec<Option<String>>> {
        self.names.as_ref()?;
        let (files, others): (Vec<_>, Vec<_>) =
            entries.iter().partition(|entry| entry.section == FILES);
        let name = |entry: &ChangedEntry| {
            let old = entry.old.as_ref()?;
            // An item that is not a blob has an empty text, as in the lines of turns.
            Some(match old.link.kind {
                Kind::Blob => old.link.id.to_string(),
                _ => String::new(),
            })
        };
        Some(files.into_iter().chain(others).map(name).collect())
    }

    fn entries(&mut self, entries: &[ChangedEntry]) -> Result<Vec<(String, String, Option<Name>)>> {
        let entries = entries.iter().filter(|entry| entry.section != FILES);
        entries
            .map(|change| {
                let text = change.new.as_ref().map(|item| self.text(item)).transpose()?;
                let text = text.map(|number| self.text_name(number));
                Ok((change.section.clone(), change.key.clone(), text))
            })
            .collect()
    }

    /// Returns the number of a text. Writes the text if it is new.
    fn text(&mut self, item: &Item) -> Result<usize> {
        let id = item.link.id;
        if let Some(number) = self.texts.get(&id) {
            return Ok(*number);
        }
        if let Some(names) = &mut self.names {
            names.texts.push(if item.link.kind == Kind::Blob {
                id.to_string()
            } else {
                String::new()
            });
            self.texts.insert(id, self.texts.len());
            return Ok(self.texts.len() - 1);
        }
        let bytes = match item.link.kind {
            Kind::Blob => self.repo.read_as(Kind::Blob, &id)?,
            _ => Bytes::new(),
        };
        let unshown = |why| HiddenText { bytes: bytes.len(), id: id.to_string(), why };
        match std::str::from_utf8(&bytes) {
            _ if bytes.len() > MAX_TEXT_BYTES => self.line('x', &unshown("large"))?,
            Ok(text) if !text.contains('\0') => self.line('x', &text)?,
            _ => self.line('x', &unshown("binary"))?,
        }
        let number = self.texts.len();
        self.texts.insert(id, number);
        Ok(number)
    }

    /// Returns the number of a message. Writes the message if it is new.
    fn message(&mut self, item: &Item) -> Result<usize> {
        let key = (item.link.id, item.meta.clone());
        if let Some(number) = self.messages.get(&key) {
            return Ok(*number);
        }
        let entry = MessageEntry::from_item(item)?;
        let bytes = self.repo.read_as(Kind::Blob, &entry.blob)?;
        let view = view(&entry.media, &bytes);
        let found = usage(&bytes).map(|found| found.tokens);
        let mut stats = MessageStats {
            failed: view.tool_results.iter().filter(|result| result.is_error).count() as u64,
            says: entry.role == Role::Assistant && !view.text.trim().is_empty(),
            context: found.map_or(0, |tokens| tokens.input + tokens.output),
            ..MessageStats::default()
        };
        for call in &view.tool_calls {
            *stats.tools.entry(call.name.clone()).or_default() += 1;
        }
        self.stats.push(stats);
        if let Some(names) = &mut self.names {
            names.messages.push(format!("{}.{}", entry.blob, URL_SAFE_NO_PAD.encode(&item.meta)));
            self.messages.insert(key, self.messages.len());
            return Ok(self.messages.len() - 1);
        }
        let prompt = entry.role == Role::User && view.is_prompt();
        let calls = view.tool_calls.into_iter().map(|call| (call.id, call.name, call.input));
        let results = view
            .tool_results
            .into_iter()
            .map(|result| (result.call_id, result.text, result.is_error, shown(result.pictures)));
        let message = PageMessage {
            role: entry.role.name(),
            format: entry.media,
            id: entry.blob.short(ID_DIGITS),
            prompt,
            origin: entry.origin,
            text: view.text,
            thinking: view.thinking,
            calls: calls.collect(),
            results: results.collect(),
            pictures: shown(view.pictures),
            tokens: found.map(|tokens| (tokens.input, tokens.output)),
        };
        self.line('m', &message)?;
        let number = self.messages.len();
        self.messages.insert(key, number);
        Ok(number)
    }

    /// Returns the name of a turn in other lines, or `None` if the turn was not written.
    fn turn_name(&self, id: &ObjectId) -> Option<Name> {
        match &self.names {
            Some(_) => Some(Name::Id(id.to_string())),
            None => self.turns.get(id).copied().map(Name::Number),
        }
    }

    fn text_name(&self, number: usize) -> Name {
        let name = self.names.as_ref().and_then(|names| names.texts.get(number));
        name.map_or(Name::Number(number), |name| Name::Id(name.clone()))
    }

    fn message_name(&self, number: usize) -> Name {
        let name = self.names.as_ref().and_then(|names| names.messages.get(number));
        name.map_or(Name::Number(number), |name| Name::Id(name.clone()))
    }

    /// Returns the stretches of a list with the names of their items.
    fn named(
        &self,
        section: String,
        stretches: Vec<Stretch>,
    ) -> (String, Vec<(u64, u64, Vec<Name>)>) {
        let has_messages = is_conversation(&section);
        let name = |number| match has_messages {
            true => self.message_name(number),
            false => self.text_name(number),
        };
        let stretches = stretches.into_iter();
        let stretches = stretches
            .map(|(at, removed, added)| (at, removed, added.into_iter().map(name).collect()));
        (section, stretches.collect())
    }

    fn line(&mut self, letter: char, value: &impl Serialize) -> Result<()> {
        let json = serde_json::to_string(value)
            .map_err(|error| Error::invalid("the data of a page").with_source(error))?;
        self.out.line(letter, &escape_json(&json)).map_err(write_error)
    }
}

/// Returns the tips of the branches of a page.
fn tips(page: &Page<'_>) -> Vec<ObjectId> {
    page.branches.iter().map(|branch| branch.tip).collect()
}

fn write_error(error: std::io::Error) -> Error {
    Error::io("write the page", error)
}

const fn is_zero(number: &usize) -> bool {
    *number == 0
}

const fn is_none(number: &u64) -> bool {
    *number == 0
}

fn mode(mode: FileMode) -> &'static str {
    match mode {
        FileMode::Regular => "file",
        FileMode::Executable => "executable",
        FileMode::Symlink => "link",
    }
}

/// Returns pictures as data URLs.
fn shown(pictures: Vec<Picture>) -> Vec<ImageAddress> {
    let digits = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='))
    };
    let address = |picture: Picture| match picture.content {
        PictureContent::Inline { media, base64 } => {
            let is_shown =
                PICTURES.contains(&&*media) && base64.len() <= MAX_PICTURE_BYTES && digits(&base64);
            is_shown.then(|| format!("data:{media};base64,{base64}"))
        }
        PictureContent::Address(_) => None,
    };
    pictures.into_iter().map(address).collect()
}
