//! Parses the turns of a workload in the format of the harness, and computes digests of states.

use std::fmt::Write as _;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use turntree::context::Role;

use crate::Result;

/// Prefix of the keys of messages.
const MESSAGE_PREFIX: &str = "m/";

/// A parsed turn.
pub(crate) struct Turn {
    /// The number of the turn, from 1.
    pub(crate) number: u64,
    /// The turn whose state it starts from. 0 for the empty state.
    pub(crate) parent: u64,
    pub(crate) branch: String,
    pub(crate) changes: Vec<Change>,
}

/// A change of the state.
pub(crate) enum Change {
    Message { role: Role, json: Bytes },
    Set { part: Part, key: String, content: Bytes },
    Remove { part: Part, key: String },
}

/// A keyed part of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Scratchpad,
    Memory,
    Files,
    Payloads,
}

impl Part {
    /// All parts, in the order of the digest.
    pub(crate) const ALL: [Self; 4] = [Self::Files, Self::Memory, Self::Payloads, Self::Scratchpad];

    /// Returns the section of the context that holds the part.
    pub(crate) const fn section(self) -> &'static str {
        match self {
            Self::Scratchpad => "scratchpad",
            Self::Memory => "memory",
            Self::Files => "files",
            Self::Payloads => "vfs",
        }
    }

    const fn prefix(self) -> &'static str {
        match self {
            Self::Scratchpad => "s/",
            Self::Memory => "k/",
            Self::Files => "f/",
            Self::Payloads => "p/",
        }
    }
}

#[derive(Deserialize)]
struct TurnLine<'a> {
    turn: u64,
    parent: u64,
    branch: String,
    #[serde(borrow)]
    ops: Vec<OpLine<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Name {
    Msg,
    PadSet,
    PadDel,
    MemSet,
    FileWrite,
    FileDel,
    Payload,
}

#[derive(Deserialize)]
struct OpLine<'a> {
    op: Name,
    #[serde(borrow, default)]
    m: Option<&'a RawValue>,
    #[serde(default, alias = "path", alias = "id")]
    k: String,
    #[serde(default, alias = "content")]
    v: String,
}

impl Turn {
    /// Parses the turn in a line of the workload.
    pub(crate) fn parse(line: &str) -> Result<Self> {
        let TurnLine { turn, parent, branch, ops } = serde_json::from_str(line)?;
        let changes = ops.into_iter().map(OpLine::change).collect::<Result<_>>()?;
        Ok(Self { number: turn, parent, branch, changes })
    }
}

impl OpLine<'_> {
    fn change(self) -> Result<Change> {
        let Self { op, m, k: key, v } = self;
        let set = |part, key| Change::Set { part, key, content: v.into() };
        Ok(match op {
            Name::Msg => {
                let json = m.ok_or("msg: expected m")?.get();
                Change::Message { role: role(json)?, json: Bytes::copy_from_slice(json.as_bytes()) }
            }
            Name::PadSet => set(Part::Scratchpad, key),
            Name::MemSet => set(Part::Memory, key),
            Name::FileWrite => set(Part::Files, key),
            Name::Payload => set(Part::Payloads, key),
            Name::PadDel => Change::Remove { part: Part::Scratchpad, key },
            Name::FileDel => Change::Remove { part: Part::Files, key },
        })
    }
}

fn role(json: &str) -> Result<Role> {
    #[derive(Deserialize)]
    struct Message {
        role: String,
    }
    Ok(Role::from_name(&serde_json::from_str::<Message>(json)?.role))
}

/// The whole content of a context, in memory.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) messages: Vec<Bytes>,
    /// The entries of the other parts: parts in the order of [`Part::ALL`], keys ascending.
    pub(crate) entries: Vec<Entry>,
}

/// A key of a part, with its content.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) part: Part,
    pub(crate) key: Bytes,
    pub(crate) content: Bytes,
}

impl State {
    /// Returns the number of messages and keys.
    pub(crate) fn items(&self) -> usize {
        self.messages.len() + self.entries.len()
    }

    /// Returns the SHA-256 of all keys in byte order, each with its content.
    pub(crate) fn digest(&self) -> String {
        let messages_at =
            self.entries.partition_point(|entry| entry.part.prefix() < MESSAGE_PREFIX);
        let (before, after) = self.entries.split_at(messages_at);
        let mut digest = Sha256::new();
        take_entries(&mut digest, before);
        for (index, message) in self.messages.iter().enumerate() {
            take(&mut digest, format!("{MESSAGE_PREFIX}{index:08}").as_bytes(), message);
        }
        take_entries(&mut digest, after);
        digest.finalize().iter().fold(String::new(), |mut hex, byte| {
            // Writing to a string cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}

fn take_entries(digest: &mut Sha256, entries: &[Entry]) {
    for Entry { part, key, content } in entries {
        take(digest, &[part.prefix().as_bytes(), key].concat(), content);
    }
}

fn take(digest: &mut Sha256, key: &[u8], content: &[u8]) {
    digest.update(key);
    digest.update(format!("\0{}\0", content.len()));
    digest.update(content);
}
