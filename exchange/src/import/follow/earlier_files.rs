//! Imports files that are older than the next records: the files that an interrupted call left, and
//! the files that a tool found.
//!
//! No event reports the end of an interrupted call. The next event therefore asks for its files
//! before it imports the new records, which may start another turn. A tool reports the content that
//! it replaced. If the agent did not write that content, a person did, and it belongs to the turn
//! before the call.

use std::collections::BTreeMap;

use bytes::Bytes;
use turntree::context::sections::FILES;
use turntree::context::{Builder, Context, FileEntry, FileMode, Transcript};
use turntree::error::Result;
use turntree::object::{Kind, ObjectId, ObjectSink, ObjectSource, Trigger};
use turntree::repo::SnapshotDraft;

use super::{FollowOptions, store_capture};
use crate::import::captures::contains_call;
use crate::import::turns::TurnWriter;

/// The byte order mark of UTF-8.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Imports the files of an interrupted call and the files that a tool found, before any new record.
/// `tip` is the newest commit. `is_open` is true if its turn was reopened. Returns the root of the
/// context with the files of the interrupted call.
pub(super) fn import_earlier_files(
    writer: &mut TurnWriter<'_>,
    tip: ObjectId,
    is_open: bool,
    options: &mut FollowOptions<'_>,
) -> Result<Option<ObjectId>> {
    let (mut is_new, mut seen) = (false, None);
    if let Some(call) = options.interrupted.clone() {
        seen = Some(store_capture(writer, tip, &call, options)?);
        if call.is_empty() || has_call_in_turn(writer, tip, &call)? {
            writer.captures.assign_all();
            is_new = !is_open;
        }
    }
    let before = std::mem::take(&mut options.before);
    let call = options.call.clone().unwrap_or_default();
    // In the turn of the call, the content that the tool wrote would overwrite it.
    let is_late = !before.is_empty()
        && (writer.captures.has_pending() || is_open && has_call_in_turn(writer, tip, &call)?);
    for (key, reported) in before {
        let newest = writer.captures.newest().unwrap_or(tip);
        let Some(file) = reported_file(writer, newest, &key, &reported)? else { continue };
        if is_late {
            commit_file_below(writer, &key, file, options)?;
        } else {
            writer.set_file(&key, file)?;
            is_new |= !is_open;
        }
    }
    if is_new {
        writer.pause(&mut |_, _| Ok(BTreeMap::new()))?;
    }
    Ok(seen)
}

/// Returns true if the records that `tip` added contain a call.
fn has_call_in_turn(writer: &TurnWriter<'_>, tip: ObjectId, call: &str) -> Result<bool> {
    let change = &writer.transaction;
    let commit = change.read_commit(&tip)?;
    let source = Transcript::open(change, &Context::open(change, &commit.tree)?)?;
    let known = match commit.parents.first() {
        Some(parent) => {
            let tree = change.read_commit(parent)?.tree;
            Context::open(change, &tree)
                .and_then(|it| Transcript::open(change, &it))
                .map_or(0, |it| it.len())
        }
        None => 0,
    };
    for piece in source.pieces(change, known.min(source.len())..source.len()) {
        if contains_call(&piece?.bytes(change)?, call) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the file `key` as a tool found it, or `None` if the context of `newest` has the same
/// content.
fn reported_file(
    writer: &TurnWriter<'_>,
    newest: ObjectId,
    key: &str,
    reported: &Bytes,
) -> Result<Option<(FileMode, Bytes)>> {
    let change = &writer.transaction;
    let tree = change.read_commit(&newest)?.tree;
    let item = Context::open(change, &tree)?.map(change, FILES)?.get(change, key.as_bytes())?;
    let file = match item {
        None => Some((FileMode::Regular, reported.clone())),
        Some(item) => {
            let entry = FileEntry::from_item(&item)?;
            let known = change.read_as(Kind::Blob, &entry.blob)?;
            bytes_on_disk(&known, reported).map(|bytes| (entry.mode, bytes))
        }
    };
    Ok(match file {
        Some((_, bytes)) if change.refuses(&bytes)?.is_some() => None,
        file => file,
    })
}

/// Returns the bytes on disk of the text `reported`, given the previous content `known`. Clients
/// report
/// text without the byte order mark and with LF line ends. Returns `None` for equal texts and for
/// binary data.
fn bytes_on_disk(known: &[u8], reported: &Bytes) -> Option<Bytes> {
    if known == reported {
        return None;
    }
    let (known, reported_text) =
        (std::str::from_utf8(known).ok()?, std::str::from_utf8(reported).ok()?);
    let is_plain = !reported_text.contains('\r') && !reported_text.starts_with(BYTE_ORDER_MARK);
    if !is_plain {
        return Some(reported.clone());
    }
    let body = known.strip_prefix(BYTE_ORDER_MARK).unwrap_or(known);
    if body.replace("\r\n", "\n") == reported_text {
        return None;
    }
    let mark = if body.len() < known.len() { BYTE_ORDER_MARK } else { "" };
    let text = match body.contains("\r\n") {
        true => reported_text.replace('\n', "\r\n"),
        false => reported_text.to_owned(),
    };
    Some(Bytes::from(format!("{mark}{text}")))
}

/// Commits a file in a snapshot below the current turn, unless the branch already has it.
fn commit_file_below(
    writer: &mut TurnWriter<'_>,
    key: &str,
    (mode, content): (FileMode, Bytes),
    options: &FollowOptions<'_>,
) -> Result<()> {
    let branch = writer.branch().clone();
    let change = &mut writer.transaction;
    let below = match change.tip(&branch) {
        Some(base) => Context::open(change, &change.read_commit(&base)?.tree)?,
        None => Context::default(),
    };
    let mut builder = Builder::from(below);
    builder.set_file(change, key, Some((mode, content)))?;
    let tree = builder.write(change)?;
    let is_there = match change.tip(&branch) {
        Some(base) => change.read_commit(&base)?.tree == tree,
        None => false,
    };
    if !is_there {
        let mut draft = SnapshotDraft::new(tree, "a file before a tool", &options.stamp);
        draft.trigger = Trigger::Manual;
        change.snapshot(&branch, draft)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reported_text_keeps_the_byte_order_mark_and_line_ends() {
        let reported = Bytes::from_static(b"a\nb\n");
        for (known, expected) in [
            (&b"a\nb\n"[..], None),
            (b"a\r\nb\r\n", None),
            ("\u{feff}a\nb\n".as_bytes(), None),
            (b"a\n", Some(&b"a\nb\n"[..])),
            (b"a\r\n", Some(b"a\r\nb\r\n")),
            ("\u{feff}a\r\n".as_bytes(), Some("\u{feff}a\r\nb\r\n".as_bytes())),
            (b"\xff\xfea\0", None),
        ] {
            assert_eq!(bytes_on_disk(known, &reported).as_deref(), expected, "{known:?}");
        }
    }
}
