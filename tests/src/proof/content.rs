//! Contents that prove themselves: each follows from the number it begins with, so whoever reads one
//! knows whether it is what somebody wrote.
//!
//! The turns of [`super::worker`] hold nothing else: the message of a commit is the number of its
//! turn, and every entry, file and message in its context is the content of the number it names.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use turntree::context::{Builder, Context, FileEntry, FileMode, MAIN_AGENT, MessageEntry, Role};
use turntree::object::{Commit, Kind, ObjectId, ObjectSink as _, ObjectSource as _};
use turntree::repo::{BranchName, Repository, SnapshotDraft};
use turntree::store::RealIo;

use crate::oracle::options;
use crate::sim::Random;
use crate::stamp;

/// How a value begins that the command line has stored from a state document.
const STATE_VALUE: (&str, &str) = (r#"{"content":""#, r#""}"#);

/// Keys and files that turns replace in rotation, so that contexts share and change.
const SLOTS: u64 = 8;
const FILES: u64 = 4;

/// The content of a number: mostly a few hundred bytes, now and then some ten thousand.
#[must_use]
pub fn content(number: u64) -> String {
    let mut random = Random(number);
    let words = match random.below(64) {
        0 => 1500,
        some => some / 2,
    };
    let mut text = format!("{number:016x}");
    for _ in 0..words {
        write!(text, " {:x}", random.draw()).expect("writing into a string");
    }
    text
}

/// A state document for the command line with one entry, `scratchpad/turn`.
#[must_use]
pub fn state(number: u64) -> String {
    let (before, after) = STATE_VALUE;
    format!(r#"{{"scratchpad":{{"turn":{before}{}{after}}}}}"#, content(number))
}

/// The number that bytes are the content of.
///
/// # Errors
/// What is wrong, when they are the content of none.
pub fn prove(bytes: &[u8]) -> Result<u64, String> {
    let wrong = |what: &str| {
        let begin = String::from_utf8_lossy(bytes.get(..60).unwrap_or(bytes)).into_owned();
        format!("{what}: {} bytes that begin with {begin:?}", bytes.len())
    };
    let text = std::str::from_utf8(bytes).map_err(|_| wrong("no text"))?;
    let (before, after) = STATE_VALUE;
    let text = text.strip_prefix(before).and_then(|t| t.strip_suffix(after)).unwrap_or(text);
    let number = text.get(..16).and_then(|number| u64::from_str_radix(number, 16).ok());
    let number = number.ok_or_else(|| wrong("names no number"))?;
    if text == content(number) { Ok(number) } else { Err(wrong("wrong bytes")) }
}

/// Opens a store with a seed that no other process of the layer has.
///
/// # Errors
/// What opening reports.
pub fn open(dir: &Path, seed: u64) -> turntree::Result<Repository> {
    Repository::open(Arc::new(RealIo), dir, options(seed))
}

/// Commits a turn: its content at `scratchpad/turn`, as the newest message, and in place of one
/// entry and one file of before.
///
/// # Errors
/// `Conflict` when the branch was moved meanwhile, and what else committing reports.
pub fn commit(repo: &Repository, branch: &BranchName, number: u64) -> turntree::Result<ObjectId> {
    let stamp = stamp(1);
    let mut change = repo.begin();
    let mut builder = match change.tip(branch) {
        Some(tip) => Builder::from(repo.context(&tip)?),
        None => Builder::new(),
    };
    let text = bytes::Bytes::from(content(number));
    for key in ["turn".to_owned(), format!("slot-{}", number % SLOTS)] {
        builder.set_entry(&mut change, "scratchpad", &key, Some(text.clone()))?;
    }
    let file = Some((FileMode::Regular, text.clone()));
    builder.set_file(&mut change, &format!("{}.txt", number % FILES), file)?;
    let blob = change.write(Kind::Blob, text)?;
    let message = MessageEntry::new(blob, Role::User, "json");
    builder.push_message(&mut change, MAIN_AGENT, &message)?;
    let tree = builder.write(&mut change)?;
    let id = change.snapshot(branch, SnapshotDraft::new(tree, format!("{number:016x}"), &stamp))?;
    change.commit(&stamp, "snapshot")?;
    Ok(id)
}

/// Reads commits of one store, each object once.
#[derive(Debug)]
pub struct Prover<'r> {
    repo: &'r Repository,
    proved: HashSet<ObjectId>,
}

impl<'r> Prover<'r> {
    /// A reader who has read nothing.
    #[must_use]
    pub fn new(repo: &'r Repository) -> Self {
        Self { repo, proved: HashSet::new() }
    }

    /// Reads all of the context under a commit; returns the number of its turn.
    ///
    /// # Errors
    /// What is wrong or cannot be read.
    pub fn turn(&mut self, id: &ObjectId, commit: &Commit) -> Result<u64, String> {
        self.read(commit).map_err(|wrong| format!("commit {id} of {}: {wrong}", commit.session))
    }

    fn read(&mut self, commit: &Commit) -> Result<u64, String> {
        let number = u64::from_str_radix(&commit.message, 16).map_err(|_| &*commit.message)?;
        let store = self.repo.store();
        let context = Context::open(store, &commit.tree).map_err(|error| full(&error))?;
        let mut blobs = Vec::new();
        let mut turn = None;
        let scratchpad = context.map(store, "scratchpad").map_err(|error| full(&error))?;
        for entry in scratchpad.iter(store) {
            let (key, item) = entry.map_err(|error| full(&error))?;
            blobs.push(item.link.id);
            turn = if key == "turn" { Some(item.link.id) } else { turn };
        }
        let files = context.map(store, "files").map_err(|error| full(&error))?;
        for entry in files.iter(store) {
            let (_, item) = entry.map_err(|error| full(&error))?;
            blobs.push(FileEntry::from_item(&item).map_err(|error| full(&error))?.blob);
        }
        let messages = context.messages(store, MAIN_AGENT).map_err(|error| full(&error))?;
        for index in messages.len().saturating_sub(3)..messages.len() {
            let item = messages.get(store, index).map_err(|error| full(&error))?;
            let item = item.ok_or_else(|| format!("message {index} is missing"))?;
            blobs.push(MessageEntry::from_item(&item).map_err(|error| full(&error))?.blob);
        }
        let turn = turn.ok_or("it has no turn")?;
        for blob in blobs {
            if blob == turn || self.proved.insert(blob) {
                let bytes = store.read_as(Kind::Blob, &blob).map_err(|error| full(&error))?;
                let proved = prove(&bytes)?;
                if blob == turn && proved != number {
                    return Err(format!("it says turn {number:x} and holds turn {proved:x}"));
                }
            }
        }
        Ok(number)
    }
}

/// An error with its causes.
#[must_use]
pub fn full(error: &turntree::Error) -> String {
    let mut text = format!("{error} ({:?})", error.kind());
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
