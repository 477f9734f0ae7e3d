//! The parts of a blame, each with its author: the turn that wrote it, the time, and its text.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use turntree::context::sections::is_conversation;
use turntree::context::{MessageEntry, Role};
use turntree::object::{Commit, Kind, ObjectId, ObjectSource};
use turntree::repo::{Blame, BlameKind, BlamedPart, Repository};

use crate::view::error::Result;
use crate::view::render::{message, one_line};
use crate::view::{clock, json};

/// Width of the beginning of an entry.
const ENTRY_WIDTH: usize = 60;

/// A part with the turn that wrote it.
#[derive(Debug)]
pub(crate) struct PartWithAuthor<'a> {
    pub(crate) part: &'a BlamedPart,
    pub(crate) commit: &'a Commit,
    /// The role of a message.
    pub(crate) role: Option<Role>,
    /// A line, or the beginning of an entry; `None` if it is not text.
    pub(crate) text: Option<String>,
}

/// Calls `visit` with each part of a blamed section, in order. Reads the commit of each turn once,
/// and each entry.
pub(crate) fn each_part(
    repo: &Repository,
    section: &str,
    blamed: &Blame,
    visit: &mut dyn FnMut(PartWithAuthor<'_>) -> Result<()>,
) -> Result<()> {
    let mut commits: HashMap<ObjectId, Commit> = HashMap::new();
    for part in &blamed.parts {
        let commit = match commits.entry(part.commit) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(repo.commit(&part.commit)?),
        };
        let (role, text) = said(repo, section, blamed.kind, part)?;
        visit(PartWithAuthor { part, commit, role, text })?;
    }
    Ok(())
}

/// The role of a part if it is a message, and its text.
fn said(
    repo: &Repository,
    section: &str,
    kind: BlameKind,
    part: &BlamedPart,
) -> Result<(Option<Role>, Option<String>)> {
    let text_of = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    match (&part.item, kind) {
        (None, BlameKind::Lines) => {
            let text = String::from_utf8_lossy(&part.text);
            Ok((None, Some(text.strip_suffix('\n').unwrap_or(&text).to_owned())))
        }
        (None, _) => Ok((None, text_of(&part.text).filter(|text| !text.is_empty()))),
        (Some(item), BlameKind::Items) if is_conversation(section) => {
            let entry = MessageEntry::from_item(item)?;
            Ok((Some(entry.role), Some(message::summary(repo, &entry)?)))
        }
        (Some(item), _) if item.link.kind == Kind::Blob => {
            let bytes = repo.read_as(Kind::Blob, &item.link.id)?;
            let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
            Ok((None, text_of(first).map(|text| one_line(&text, ENTRY_WIDTH))))
        }
        (Some(_), _) => Ok((None, None)),
    }
}

impl PartWithAuthor<'_> {
    /// The JSON record of the part.
    pub(crate) fn record(self) -> json::BlamedPart {
        let Self { part, commit, role, text } = self;
        json::BlamedPart {
            name: part.name.clone(),
            session: commit.session.clone(),
            turn: part.turn,
            id: part.commit.to_string(),
            time: clock::rfc3339(commit.time),
            author: json::Author {
                agent: commit.author.agent.clone(),
                model: commit.author.model.clone(),
            },
            before: part.gap,
            role: role.map(Role::name),
            blob: part.item.as_ref().map(|item| item.link.id.to_string()),
            text,
        }
    }
}
