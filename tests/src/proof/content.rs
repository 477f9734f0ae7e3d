//! Contents that prove themselves: a number at the beginning determines all bytes, so a reader can
//! check whether it was written.
//!
//! The turns of [`super::worker`] contain nothing else: the message of a commit is the number of
//! its turn, and every entry, file and message in its context is the content of the number in it.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use turntree::context::sections::SOURCE;
use turntree::context::{
    Builder, Context, CopyWriter, FileEntry, FileMode, MAIN_AGENT, MessageEntry, Role, SourceEntry,
    SourceKind, Transcript,
};
use turntree::object::{Commit, Kind, ObjectId, ObjectSink as _, ObjectSource as _};
use turntree::repo::{BranchName, Repository, SnapshotDraft, Transaction};
use turntree::store::RealIo;

use crate::oracle::options;
use crate::sim::Random;
use crate::stamp;

/// The text around a value that the command line has stored from a state document.
const STATE_VALUE: (&str, &str) = (r#"{"content":""#, r#""}"#);

/// The keys and files that turns replace in rotation, so that contexts share content and change.
const SLOTS: u64 = 8;
const FILES: u64 = 4;

/// Every such turn forks the transcript: the records so far become copies with another session.
const FORK_EVERY: u64 = 5;

/// Most records of a transcript; the next one begins a new transcript.
const MAX_RECORDS: u64 = 12;

/// Returns the content of a number: mostly a few hundred bytes, sometimes some ten thousand.
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

/// Returns the number whose content the bytes are.
///
/// # Errors
/// The mismatch, if they are the content of no number.
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
/// Errors of opening.
pub fn open(dir: &Path, seed: u64) -> turntree::Result<Repository> {
    Repository::open(Arc::new(RealIo), dir, options(seed))
}

/// Commits a turn: its content at `scratchpad/turn`, as the newest message, as the newest record of the
/// transcript, and as the new value of one entry and one file.
///
/// # Errors
/// `Conflict` if the branch was moved concurrently, and other errors of committing.
pub fn commit(repo: &Repository, branch: &BranchName, number: u64) -> turntree::Result<ObjectId> {
    let stamp = stamp(1);
    let mut change = repo.begin();
    let mut builder = match change.tip(branch) {
        Some(tip) => Builder::from(repo.context(&tip)?),
        None => Builder::new(),
    };
    let text = Bytes::from(content(number));
    for key in ["turn".to_owned(), format!("slot-{}", number % SLOTS)] {
        builder.set_entry(&mut change, "scratchpad", &key, Some(text.clone()))?;
    }
    let file = Some((FileMode::Regular, text.clone()));
    builder.set_file(&mut change, &format!("{}.txt", number % FILES), file)?;
    let blob = change.write(Kind::Blob, text)?;
    let message = MessageEntry::new(blob, Role::User, "json");
    builder.push_message(&mut change, MAIN_AGENT, &message)?;
    record(&mut change, &mut builder, number)?;
    let tree = builder.write(&mut change)?;
    let id = change.snapshot(branch, SnapshotDraft::new(tree, format!("{number:016x}"), &stamp))?;
    change.commit(&stamp, "snapshot")?;
    Ok(id)
}

/// Adds a record with the content of `number` to the transcript. Some turns fork it first, so that
/// contexts have copied beginnings, also of transcripts that have one.
fn record(
    change: &mut Transaction<'_>,
    builder: &mut Builder,
    number: u64,
) -> turntree::Result<()> {
    let tree = builder.write(change)?;
    let transcript = Transcript::open(change, &Context::open(change, &tree)?)?;
    if transcript.len() >= MAX_RECORDS {
        builder.clear_transcript(change)?;
    } else if number.is_multiple_of(FORK_EVERY) {
        builder.clear_transcript(change)?;
        fork(change, builder, &transcript, number)?;
    }
    let bytes = record_of(number, &content(number));
    let blob = change.write(Kind::Blob, bytes)?;
    let suffix = Bytes::from_static(b"\n");
    let entry = SourceEntry { blob, kind: SourceKind::Record, suffix };
    builder.push(change, SOURCE, entry.to_item()?)
}

/// Copies all records of `transcript` with another session.
fn fork(
    change: &mut Transaction<'_>,
    builder: &mut Builder,
    transcript: &Transcript,
    session: u64,
) -> turntree::Result<()> {
    let pieces = transcript.pieces(change, 0..transcript.len());
    let pieces = pieces.collect::<turntree::Result<Vec<_>>>()?;
    let places = transcript.places(change)?;
    let mut copies = CopyWriter::default();
    for (at, piece) in (0..).zip(pieces) {
        let (_, said) = parts_of(&piece.bytes(change)?).expect("a record of this test");
        let bytes = record_of(session, &said);
        let copy = (piece.kind, &piece.suffix, &bytes);
        let place = usize::try_from(at).ok().and_then(|at| places.get(at));
        match place {
            Some(Some((base, at))) => {
                copies.copy(change, (&transcript.bases()[*base], *at), copy)?;
            }
            Some(None) => copies.whole(change, copy)?,
            None => copies.copy(change, (transcript.own(), at - transcript.copied()), copy)?,
        }
    }
    copies.finish(change, builder)
}

/// A record of a transcript.
fn record_of(session: u64, said: &str) -> Bytes {
    format!(r#"{{"session":"{session:016x}","said":"{said}"}}"#).into()
}

/// Checks every record of a transcript, a line each.
///
/// # Errors
/// The first record that a worker did not write.
pub fn prove_records(transcript: &[u8]) -> Result<(), String> {
    for line in transcript.strip_suffix(b"\n").unwrap_or(transcript).split(|byte| *byte == b'\n') {
        let (_, said) = parts_of(line).ok_or("a line is no record of a worker")?;
        prove(said.as_bytes())?;
    }
    Ok(())
}

/// The session and the content of a record.
fn parts_of(record: &[u8]) -> Option<(u64, String)> {
    let text = std::str::from_utf8(record).ok()?.strip_prefix(r#"{"session":""#)?;
    let (session, said) = text.split_once(r#"","said":""#)?;
    Some((u64::from_str_radix(session, 16).ok()?, said.strip_suffix(r#""}"#)?.to_owned()))
}

/// Reads commits of one store, each object once.
#[derive(Debug)]
pub struct Prover<'r> {
    repo: &'r Repository,
    proved: HashSet<ObjectId>,
}

impl<'r> Prover<'r> {
    /// A reader that has read nothing.
    #[must_use]
    pub fn new(repo: &'r Repository) -> Self {
        Self { repo, proved: HashSet::new() }
    }

    /// Reads the whole context of a commit. Returns the number of its turn.
    ///
    /// # Errors
    /// A wrong or unreadable content.
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
        self.transcript(&context)?;
        Ok(number)
    }

    /// Reads the transcript of a turn. All of its copies are of one session.
    fn transcript(&self, context: &Context) -> Result<(), String> {
        let store = self.repo.store();
        let transcript = Transcript::open(store, context).map_err(|error| full(&error))?;
        let mut fork = None;
        for (at, piece) in (0..).zip(transcript.pieces(store, 0..transcript.len())) {
            let bytes = piece.and_then(|it| it.bytes(store)).map_err(|error| full(&error))?;
            let parts = parts_of(&bytes).ok_or_else(|| format!("record {at} differs"))?;
            prove(parts.1.as_bytes())?;
            if at < transcript.copied() && *fork.get_or_insert(parts.0) != parts.0 {
                return Err(format!("record {at} is a copy of another session"));
            }
        }
        Ok(())
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
