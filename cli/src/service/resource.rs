//! Resources, read by URI: payloads, and snapshots of sessions with their entries.
//!
//! ```text
//! context://vfs/vfs_<hash>.txt               an offloaded payload, as conversations cite it
//! session://nightly/main@12                  turn 12 of a branch; an id may stand for the branch
//! session://nightly/main@12?path=files/a.rs  an entry of it, or what is below a path
//! ```

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use turntree::context::{MAIN_AGENT, MessageEntry};
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::Repository;
use turntree::repo::vfs::{Pool, VfsUri};
use turntree::{Error, ErrorKind};

use super::Service;
use super::page::{Page, items};
use crate::porcelain::read::entries::{entry_at, list_part, overview};
use crate::porcelain::read::paths::path_in;
use crate::porcelain::read::revision::resolve;
use crate::view::advice::Advice;
use crate::view::error::{Failure, Result};
use crate::view::json;
use crate::view::render::message;

/// Maximum bytes of a resource; `read_vfs` and `show` read longer ones in parts.
const MAX_BYTES: usize = 4 << 20;

/// Bytes shown of the end of a snapshot's conversation.
const CONVERSATION_BYTES: usize = 256 << 10;

/// Resources on a page of the list, and entries of a listing.
const PAGE: usize = 100;

const SESSION: &str = "session://";
const CONTEXT: &str = "context://";

const TEXT: &str = "text/plain";
const JSON: &str = "application/json";
const BYTES: &str = "application/octet-stream";

/// A resource of the list.
pub(crate) struct Resource {
    pub(crate) uri: String,
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) media: &'static str,
    pub(crate) size: Option<u64>,
}

/// A URI template.
#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) template: &'static str,
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
}

/// Every kind of URI.
pub(crate) const TEMPLATES: [Template; 2] = [
    Template {
        template: "context://vfs/{hash}",
        name: "payload",
        about: "A long output that was taken out of the conversation",
    },
    Template {
        template: "session://{+branch}@{turn}{?path}",
        name: "snapshot",
        about: "A turn of a branch: what is in it and what was said last; with a path, an entry",
    },
];

/// The content of a resource.
pub(crate) struct Contents {
    pub(crate) media: &'static str,
    pub(crate) content: Content,
}

/// Text, or base64 for bytes.
pub(crate) enum Content {
    Text(String),
    Base64(String),
}

impl Service {
    /// A page of all resources (the newest turn of each branch, then the payloads of the pool), and
    /// the offset of the next page.
    pub(crate) fn resources(&self, offset: u64) -> Result<(Vec<Resource>, Option<u64>)> {
        self.look(|call| listed(&*call.open()?, offset))
    }

    /// Reads a resource.
    ///
    /// # Errors
    /// `NotFound` if it does not exist, `LimitExceeded` if it is too long for one answer,
    /// `InvalidInput` for other URIs.
    pub(crate) fn read_resource(&self, uri: &str) -> Result<Vec<Contents>> {
        self.look(|call| {
            if uri.starts_with(CONTEXT) {
                let repo = call.open()?;
                let uri: VfsUri = uri.parse()?;
                let bytes = repo.read_as(Kind::Blob, &repo.find_payload(&uri)?.blob)?;
                return Ok(vec![whole(&bytes, "read_vfs reads it in parts")?]);
            }
            let (revision, path) = parse(uri)?;
            let repo = call.open()?;
            let id = resolve(&repo, &revision)?.commit;
            match path {
                Some(path) => at_path(&repo, &id, &path),
                None => snapshot(&repo, &id),
            }
        })
    }
}

fn listed(repo: &Repository, offset: u64) -> Result<(Vec<Resource>, Option<u64>)> {
    let branches = repo.branches();
    let n_branches = branches.len() as u64;
    let Page { part, next, .. } = items(branches, offset, PAGE);
    let mut resources = Vec::new();
    for (name, tip) in part {
        let commit = repo.commit(&tip)?;
        let about = super::page::text(&commit.message, 0, 200).part.to_owned();
        let (name, uri) = (name.to_string(), session_uri(&name.to_string(), commit.turn));
        resources.push(Resource { uri, name, about, media: JSON, size: None });
    }
    if next.is_some() {
        return Ok((resources, next));
    }
    let left = PAGE - resources.len();
    let skip = usize::try_from(offset.saturating_sub(n_branches)).unwrap_or(usize::MAX);
    let pool = Pool::load(repo)?;
    let mut payloads = pool.payloads(repo).skip(skip);
    for payload in payloads.by_ref().take(left) {
        let payload = payload?;
        let size = repo.read_as(Kind::Blob, &payload.blob)?.len() as u64;
        let (uri, name) = (payload.uri.to_string(), payload.uri.path().to_owned());
        let about = "an offloaded payload".to_owned();
        resources.push(Resource { uri, name, about, media: TEXT, size: Some(size) });
    }
    let next = payloads.next().map(|_| offset.saturating_add(PAGE as u64));
    Ok((resources, next))
}

/// The URI of an entry of a snapshot.
pub(super) fn entry_uri(repo: &Repository, id: &ObjectId, path: &str) -> Result<String> {
    let session = session_uri(&id.to_string(), repo.commit(id)?.turn);
    Ok(format!("{session}?path={}", encode(path)))
}

fn session_uri(branch: &str, turn: u64) -> String {
    format!("{SESSION}{}@{turn}", encode(branch))
}

/// Parses a URI into a revision and a path.
fn parse(uri: &str) -> Result<(String, Option<String>)> {
    let expected = || {
        let forms = "expected context://vfs/HASH or session://BRANCH@TURN, perhaps with ?path=PATH";
        Failure::from(Error::invalid(format!("'{uri}' is not a resource: {forms}")))
    };
    let rest = uri.strip_prefix(SESSION).ok_or_else(expected)?;
    let (name, query) =
        rest.split_once('?').map_or((rest, None), |(name, query)| (name, Some(query)));
    let (branch, turn) = name.rsplit_once('@').ok_or_else(expected)?;
    let turn: u64 = turn.parse().map_err(|_| expected())?;
    let branch = decode(branch).filter(|branch| !branch.is_empty()).ok_or_else(expected)?;
    let path = query.map(|query| query.strip_prefix("path=").and_then(decode).ok_or_else(expected));
    Ok((format!("{branch}^{{turn:{turn}}}"), path.transpose()?))
}

/// Percent-encodes a text for a URI.
fn encode(text: &str) -> String {
    let mut coded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                coded.push(char::from(byte));
            }
            // Writing to a string does not fail.
            _ => drop(write!(coded, "%{byte:02X}")),
        }
    }
    coded
}

/// Decodes percent-encoded text; `None` if it is invalid.
fn decode(coded: &str) -> Option<String> {
    let mut parts = coded.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

/// Returns bytes as a whole resource.
fn whole(bytes: &[u8], hint: &str) -> Result<Contents> {
    if bytes.len() > MAX_BYTES {
        let limit = Error::limit("bytes of a resource", MAX_BYTES as u64, bytes.len() as u64);
        return Err(Failure::hinted(limit, Advice::calls(hint)));
    }
    Ok(match std::str::from_utf8(bytes) {
        Ok(text) => Contents { media: TEXT, content: Content::Text(text.to_owned()) },
        Err(_) => Contents { media: BYTES, content: Content::Base64(STANDARD.encode(bytes)) },
    })
}

fn record(record: &impl serde::Serialize) -> Result<Contents> {
    let text = serde_json::to_string(record)
        .map_err(|error| Error::new(ErrorKind::Io, format!("write the answer: {error}")))?;
    Ok(Contents { media: JSON, content: Content::Text(text) })
}

/// An entry, or the first entries below a path.
fn at_path(repo: &Repository, id: &ObjectId, path: &str) -> Result<Vec<Contents>> {
    let (source, context) = (repo, repo.context(id)?);
    let path = &*path_in(repo, id, path)?;
    if let Some(entry) = entry_at(source, id, &context, path)? {
        let hint = "the tool show reads it in parts";
        let contents = match &entry.text {
            Some(text) => whole(text.as_bytes(), hint)?,
            None => {
                let blob = entry.blob.parse()?;
                whole(&source.read_as(Kind::Blob, &blob)?, hint)?
            }
        };
        return Ok(vec![contents]);
    }
    let entries = list_part(source, &context, path, 0, PAGE)?;
    let listing =
        json::Listing { at: json::CommitId::new(id.to_string()), path: path.to_owned(), entries };
    Ok(vec![record(&listing)?])
}

/// The overview of a snapshot, and the end of its conversation.
fn snapshot(repo: &Repository, id: &ObjectId) -> Result<Vec<Contents>> {
    let (source, context) = (repo, repo.context(id)?);
    let overview = overview(id, &repo.commit(id)?, &context, source)?;
    let messages = context.messages(source, MAIN_AGENT)?;
    let (mut said, mut bytes) = (Vec::new(), 0);
    for index in (0..messages.len()).rev() {
        let Some(item) = messages.get(source, index)? else { break };
        let entry = MessageEntry::from_item(&item)?;
        let text = message::full(&message::read(source, &entry)?);
        let text = format!("## {index} {}\n\n{text}\n", entry.role.name());
        bytes += text.len();
        if bytes > CONVERSATION_BYTES {
            break;
        }
        said.push(text);
    }
    said.reverse();
    let conversation = Contents { media: TEXT, content: Content::Text(said.join("\n")) };
    Ok(vec![record(&overview)?, conversation])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_from_their_uris() {
        for name in ["nightly/main", "a b/ü%2F", "x@y/z?", "#/😀"] {
            let uri = session_uri(name, 12);
            assert!(uri.is_ascii());
            assert_eq!(parse(&uri).unwrap(), (format!("{name}^{{turn:12}}"), None));
            let uri = format!("{uri}?path={}", encode("files/a&b=c?d"));
            assert_eq!(parse(&uri).unwrap().1.as_deref(), Some("files/a&b=c?d"));
        }
    }

    #[test]
    fn other_uris_are_refused() {
        for uri in [
            "",
            "session://",
            "session://@1",
            "session://a",
            "session://a@",
            "session://a@x",
            "session://a@-1",
            "session://a@1?p=x",
            "session://a%@1",
            "session://a%zz@1",
            "session://a%+1@1",
            "session://%ff@1",
            "file:///etc/passwd",
        ] {
            assert!(parse(uri).is_err(), "{uri}");
        }
    }
}
