//! A directory of open-codesign: stores, databases that were put aside, and chats.
//!
//! ```text
//! designs.db.v0.1.backup, .2, ...   what earlier versions left: the oldest first
//! designs.db, designs.db-wal
//! design-store.json                 what the present one has
//! sessions/<id of design>.jsonl     chats; what is no letter, digit, - or _ in an id is a _
//! ```

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use turntree::context::sections::COMMENTS;
use turntree::error::{Error, Result};

use super::archive::{Archive, Chat, ChatRow, Design};
use super::session::{Chats, split};
use super::{histories, read_store};
use crate::formats::frameworks::read_tree::FolderFile;
use crate::model::event::{Event, Parser};
use crate::model::format::ImportOptions;
use crate::model::report::ImportReport;
use crate::text::json::{self, text_at};

const STORE: &str = "design-store.json";
const DATABASE: &str = "designs.db";
const BACKUP: &str = "designs.db.v0.1.backup";
const LOG: &str = "-wal";
const CHATS: &str = "sessions/";
const CHAT_END: &str = ".jsonl";

/// Returns true if the file at `path`, below a directory, is one of open-codesign's.
#[must_use]
pub fn is_stored(path: &str) -> bool {
    store_rank(path.strip_suffix(LOG).unwrap_or(path)).is_some() || design_of(path).is_some()
}

/// Returns the age of a store, by its name; `None` for other files.
fn store_rank(path: &str) -> Option<(u8, u64)> {
    match path {
        STORE => return Some((2, 0)),
        DATABASE => return Some((1, 0)),
        BACKUP => return Some((0, 1)),
        _ => {}
    }
    let number = path.strip_prefix(BACKUP)?.strip_prefix('.')?;
    number.parse().ok().map(|number| (0, number))
}

/// Returns the design of a chat file, as its id is spelled in file names.
fn design_of(path: &str) -> Option<&str> {
    path.strip_prefix(CHATS)?.strip_suffix(CHAT_END).filter(|id| !id.contains('/'))
}

/// Imports the stores of a directory, the oldest first, each design with its chat, in one
/// operation.
///
/// # Errors
/// `NotFound` when the directory has no store, and the errors of the single files, naming the file.
/// After an error the store is unchanged.
pub fn import_designs(
    repo: &turntree::repo::Repository,
    files: &[FolderFile],
    options: &ImportOptions,
) -> Result<ImportReport> {
    let logs: HashMap<&str, &Bytes> =
        files.iter().filter_map(|file| Some((file.path.strip_suffix(LOG)?, &file.bytes))).collect();
    let mut stores: Vec<(_, &FolderFile)> =
        files.iter().filter_map(|file| Some((store_rank(&file.path)?, file))).collect();
    stores.sort_by_key(|(rank, _)| *rank);
    let mut archives = Vec::new();
    for (_, file) in stores {
        let log = logs.get(file.path.as_str()).filter(|log| !log.is_empty());
        let archive = read_store(file.bytes.clone(), log.map(|log| (*log).clone()));
        archives.push(archive.map_err(|error| error.at(&file.path))?);
    }
    let mut chats = BTreeMap::new();
    for file in files {
        let Some(design) = design_of(&file.path) else { continue };
        let said = read_chat(&file.bytes).map_err(|error| error.at(&file.path))?;
        chats.insert(design.to_owned(), said);
    }
    if archives.is_empty() && chats.is_empty() {
        let message = format!("expected {STORE}, {DATABASE}, {BACKUP} or {CHATS}*{CHAT_END}");
        return Err(Error::not_found(message));
    }
    add_chats(&mut archives, chats);
    histories::import_archives(repo, archives, options)
}

/// Gives chats to their designs, in the newest store that has them; the remaining chats become
/// separate designs.
fn add_chats(archives: &mut Vec<Archive>, mut chats: BTreeMap<String, ChatFile>) {
    for design in archives.iter_mut().rev().flat_map(|archive| &mut archive.designs) {
        if let Some(said) = chats.remove(&file_name(&design.id)) {
            said.give_to(design);
        }
    }
    let alone = chats.into_iter().filter(|(_, said)| !said.chat.rows.is_empty());
    let designs: Vec<Design> = alone
        .map(|(id, said)| {
            let mut design = Design { id, ..Design::default() };
            said.give_to(&mut design);
            design
        })
        .collect();
    if !designs.is_empty() {
        archives.push(Archive { designs, ..Archive::default() });
    }
}

/// An id as it is in the name of a file.
fn file_name(id: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    // JavaScript replaces units of UTF-16, of which some characters have two.
    id.chars().flat_map(|c| std::iter::repeat_n(safe(c), c.len_utf16())).collect()
}

/// The content of a chat file.
struct ChatFile {
    chat: Chat,
    comments: BTreeMap<String, Bytes>,
}

impl ChatFile {
    fn give_to(self, design: &mut Design) {
        design.chat = self.chat;
        design.comments = self.comments.into_iter().collect();
    }
}

/// Reads a whole chat.
fn read_chat(bytes: &Bytes) -> Result<ChatFile> {
    let (mut parser, mut events) = (Chats::default(), Vec::new());
    let mut chat = Chat { origin: "session", source: Some(bytes.clone()), ..Chat::default() };
    let mut comments = BTreeMap::new();
    for piece in split(Box::new(bytes.as_ref())) {
        let piece = piece?;
        parser.piece(&piece, &mut events);
        let mut starts_turn = false;
        for event in events.drain(..) {
            match event {
                Event::Turn => starts_turn = true,
                Event::Message(message) => {
                    let entry = json::value(&piece.bytes).unwrap_or_default();
                    chat.rows.push(ChatRow {
                        bytes: piece.bytes.clone(),
                        role: message.role,
                        time: message.time,
                        summary: message.headline.line(),
                        snapshot: text_at(&entry, "/data/snapshotId").map(str::to_owned),
                        starts_turn,
                    });
                }
                Event::Entry { section, key, content, .. } => {
                    let json = content.map(|content| content.bytes_in(&piece));
                    match (section == COMMENTS, json) {
                        (true, Some(json)) => drop(comments.insert(key, json)),
                        (true, None) => drop(comments.remove(&key)),
                        (false, Some(json)) => {
                            chat.state.retain(|(name, _)| *name != key);
                            chat.state.push((key, json));
                        }
                        (false, None) => {}
                    }
                }
                _ => {}
            }
        }
    }
    Ok(ChatFile { chat, comments })
}
