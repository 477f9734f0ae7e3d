//! Conversations of OpenHands 1: a folder with a file for each event, read as one document.
//!
//! ```text
//! <conversation>/base_state.json                 what it works with, and what its answers took
//! <conversation>/events/event-00000-<id>.json    its events, in order
//! ```
//!
//! The document is `{conversation, events, stats}`, with the bytes of each event as they are in its file.
//! A file that is no event, because its write was interrupted, is a record of another kind there.
//! Only `events` grows; the rest is no part of the conversation.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::de::IgnoredAny;
use serde_json::Value;
use turntree::error::{Error, Result};
use turntree::workspace::open_regular;

use super::found::{Failure, FoundSession, HeldSessions, SessionReader, SessionSource, modified};
use super::name::session_name;
use crate::formats::named;
use crate::text::json::{self, text_at};

/// The name of the agent.
const AGENT: &str = "openhands";

/// The folder of the events, and the form of their file names.
const EVENTS: &str = "events";
const EVENT: (&str, &str) = ("event-", ".json");

/// The kind of the record that represents a torn event.
const TORN: &str = "torn_event";

/// The file with the state.
const STATE: &str = "base_state.json";

/// Largest file that is read.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The folders of conversations.
pub(super) struct Conversations;

impl SessionSource for Conversations {
    fn is_folder(&self, folder: &Path) -> bool {
        is_conversation(folder)
    }

    fn sessions(&self, holder: &Path) -> Result<Option<HeldSessions>> {
        Ok(Some(HeldSessions { sessions: vec![session(holder)?], odd: None }))
    }

    fn has(&self, found: &FoundSession) -> bool {
        found.entry.is_none() && found.path.is_dir()
    }

    fn reader(&self) -> Box<dyn SessionReader> {
        Box::new(Self)
    }
}

impl SessionReader for Conversations {
    fn document(&self, found: &FoundSession, _: &Failure) -> Result<Option<Box<dyn BufRead>>> {
        if self.has(found) { folder_document(&found.path) } else { Ok(None) }
    }
}

/// Returns true if `folder` is a conversation.
fn is_conversation(folder: &Path) -> bool {
    folder.join(EVENTS).is_dir() && !events(folder).unwrap_or_default().is_empty()
}

/// The session in a folder.
fn session(folder: &Path) -> Result<FoundSession> {
    let (mut bytes, mut last) = (0, SystemTime::UNIX_EPOCH);
    for file in events(folder)? {
        // A file that was deleted since is no event.
        if let Ok(is) = fs::metadata(&file) {
            bytes += is.len();
            last = last.max(modified(&is));
        }
    }
    Ok(FoundSession {
        agent: AGENT.to_owned(),
        path: folder.to_owned(),
        entry: None,
        format: named(AGENT)?,
        session: session_name(folder),
        bytes,
        modified: last,
    })
}

/// Returns the document of the conversation in `folder`; `None` when it is no conversation.
///
/// # Errors
/// `Io` when the folder cannot be read.
pub fn folder_document(folder: &Path) -> Result<Option<Box<dyn BufRead>>> {
    if !is_conversation(folder) {
        return Ok(None);
    }
    let state = state(folder);
    let facts = serde_json::json!({
        "id": text_at(&state, "/id"),
        "model": text_at(&state, "/agent/llm/model"),
        "cwd": text_at(&state, "/workspace/working_dir"),
    });
    let stats = state.get("stats").cloned().unwrap_or(Value::Null);
    let reader = FolderReader {
        events: events(folder)?.into_iter().peekable(),
        end: Some(format!("],\n\"stats\":{stats}}}\n").into_bytes()),
        text: format!("{{\"conversation\":{facts},\n\"events\":[").into_bytes(),
        at: 0,
        is_first: true,
    };
    Ok(Some(Box::new(BufReader::new(reader))))
}

/// The files of the events, in order.
fn events(folder: &Path) -> Result<Vec<PathBuf>> {
    let folder = folder.join(EVENTS);
    let failed = |error| Error::io(format!("read the directory {}", folder.display()), error);
    let mut paths = Vec::new();
    for entry in folder.read_dir().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let number = name.strip_prefix(EVENT.0).filter(|rest| rest.ends_with(EVENT.1));
        let number = number.and_then(|rest| rest.split('-').next()?.parse::<u64>().ok());
        if let Some(number) = number.filter(|_| entry.file_type().is_ok_and(|is| is.is_file())) {
            paths.push((number, entry.path()));
        }
    }
    paths.sort();
    Ok(paths.into_iter().map(|(_, path)| path).collect())
}

/// Returns the state next to the events; null when it cannot be read.
fn state(folder: &Path) -> Value {
    let read = read(&folder.join(STATE)).ok();
    read.and_then(|bytes| json::value(&bytes)).unwrap_or(Value::Null)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let message = format!("{} has more than {MAX_FILE_BYTES} bytes", path.display());
        return Err(io::Error::other(message));
    }
    Ok(bytes)
}

/// Reads the document, with one event in memory.
struct FolderReader {
    events: Peekable<std::vec::IntoIter<PathBuf>>,
    /// The text after the events.
    end: Option<Vec<u8>>,
    /// Bytes that were made and not read yet, from `at` on.
    text: Vec<u8>,
    at: usize,
    is_first: bool,
}

impl FolderReader {
    /// Returns the text of the event in a file. A torn event would make the rest of the document
    /// unreadable, so a record with its text represents it. `None` for a torn last event, which the
    /// client still writes.
    fn event(&mut self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let bytes = read(path)?;
        let text = bytes.trim_ascii();
        if text.starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(text).is_ok() {
            return Ok(Some(text.to_vec()));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let text = String::from_utf8_lossy(&bytes);
        let torn = serde_json::json!({"kind": TORN, "file": name, "text": text});
        Ok(self.events.peek().is_some().then(|| torn.to_string().into_bytes()))
    }
}

impl Read for FolderReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.text.len() {
            let text = match self.events.next() {
                Some(path) => {
                    let Some(event) = self.event(&path)? else { continue };
                    let begin: &[u8] =
                        if std::mem::take(&mut self.is_first) { b"\n" } else { b",\n" };
                    [begin, &event].concat()
                }
                None => match self.end.take() {
                    Some(end) => end,
                    None => return Ok(0),
                },
            };
            (self.text, self.at) = (text, 0);
        }
        let mut rest = self.text.get(self.at..).unwrap_or_default();
        let count = rest.read(buffer)?;
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_the_document_of_its_events_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let events = folder.path().join(EVENTS);
        fs::create_dir(&events).unwrap();
        assert!(folder_document(folder.path()).unwrap().is_none());
        for (name, text) in [
            ("event-100000-b.json", "{\"kind\": \"B\"}\n"),
            ("event-00002-a.json", "{\"kind\": \"A\"}"),
            ("event-00003-c.json", "{\"kind\":"),
            ("event-100001-d.json", ""),
            (".eventlog.lock", ""),
            ("event-x.json", "no"),
        ] {
            fs::write(events.join(name), text).unwrap();
        }
        let state = r#"{"id": "c", "agent": {"llm": {"model": "m"}}, "stats": {"n": 1}}"#;
        fs::write(folder.path().join(STATE), state).unwrap();
        let mut text = String::new();
        let mut document = folder_document(folder.path()).unwrap().unwrap();
        document.read_to_string(&mut text).unwrap();
        assert_eq!(document.read(&mut [0; 8]).unwrap(), 0, "the end stays the end");
        let expected = "{\"conversation\":{\"id\":\"c\",\"model\":\"m\",\"cwd\":null},\n\"events\":[\n\
                        {\"kind\": \"A\"},\n\
                        {\"kind\":\"torn_event\",\"file\":\"event-00003-c.json\",\"text\":\"{\\\"kind\\\":\"},\n\
                        {\"kind\": \"B\"}],\n\"stats\":{\"n\":1}}\n";
        assert_eq!(text, expected);
        assert_eq!(session(folder.path()).unwrap().bytes, 35);
    }
}
