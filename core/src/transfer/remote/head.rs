//! The two mutable documents of a remote: its root, and the head of each session.
//!
//! ```text
//! turntree                        {"version":1,"remote":"5f...","made":"2026-11-24T04:20:00Z"}
//! heads/<session>                 which remote, which session, generation, push; refs; bundles
//! bundles/<session>/<g>-<salt>    what the push with generation g brought, see transfer/bundle
//! ```
//!
//! Both are JSON, so that people can read a bucket; the order of fields is fixed. All of it is
//! untrusted: no allocation follows a declared size, names are checked before use, and a reference
//! of a head counts only after its target was read and verified.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::bucket::Key;
use super::folder::MAX_CHANGEABLE_BYTES;
use super::hex::Hex;
use super::names::Names;
use crate::error::{Error, ErrorKind, Result};
use crate::object::ObjectId;
use crate::repo::{BranchName, pin_name, tag_name};
use crate::transfer::bundle::{BundledRef, TextId};

/// Maximum bytes of a head: about 5,000 branches.
pub(super) const MAX_HEAD_BYTES: u64 = MAX_CHANGEABLE_BYTES as u64;

/// Maximum bytes of a root.
pub(super) const MAX_ROOT_BYTES: u64 = 64 << 10;

const VERSION: u64 = 1;

/// The permanent id of a remote, whatever its name or place.
pub type RemoteId = Hex<16>;

/// The root of a remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemoteRoot {
    version: u64,
    /// The id, drawn at creation.
    pub remote: RemoteId,
    /// Time of creation, in UTC.
    pub made: String,
}

/// The state of a session on a remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionHead {
    version: u64,
    /// The remote.
    pub remote: RemoteId,
    /// The session.
    pub session: String,
    /// Number of pushes, including this one.
    pub generation: u64,
    /// Random id of this push: a client that lost the answer recognizes its own write by it.
    pub push: Hex<16>,
    /// Hash of the previous head; `None` in the first generation.
    pub before: Option<Hex<32>>,
    /// Branches of the session, and tags and pins on their turns, by their full names.
    pub refs: BTreeMap<String, BundledRef>,
    /// The bundles with all content of these refs; each builds on the previous ones.
    pub bundles: Vec<PushedBundle>,
    /// The actor of the push.
    pub by: String,
    /// Time of the push in UTC, by the clock of that machine.
    pub at: String,
}

/// A bundle of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub(crate) struct PushedBundle {
    /// The last part of its key, which is never reused.
    pub name: String,
    /// The size in bytes.
    pub bytes: u64,
    /// The hash of its bytes.
    pub hash: Hex<32>,
    /// The tips of the bundle: a store that has these does not need the bundle.
    pub tips: Vec<TextId>,
    /// The index for reading a large bundle without fetching it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<PushedIndex>,
}

/// The parts of a bundle object: the ends of the bundle, and the ids appended to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub(crate) struct PushedIndex {
    /// The offset at which the front ends and the frames begin.
    pub front: u64,
    /// The offset at which the history begins.
    pub tail: u64,
    /// Bytes of the ids of its objects, which follow the bundle.
    pub ids: u64,
    /// The hash of the front, then of everything from the tail on.
    pub hash: Hex<32>,
}

impl PushedBundle {
    /// Returns the bytes of the whole object.
    #[must_use]
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.bytes.saturating_add(self.index.as_ref().map_or(0, |index| index.ids))
    }
}

impl RemoteRoot {
    pub(super) const fn new(remote: RemoteId, made: String) -> Self {
        Self { version: VERSION, remote, made }
    }

    /// Returns the key of the root.
    pub(super) fn key() -> Result<Key> {
        Key::new("turntree")
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        encode(self)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        decode("the root of the remote", MAX_ROOT_BYTES, bytes)
    }
}

impl SessionHead {
    /// Returns the head of a session that was never pushed: generation 0, which is never written.
    pub(super) const fn first(remote: RemoteId, session: String) -> Self {
        Self {
            version: VERSION,
            remote,
            session,
            generation: 0,
            push: Hex([0; 16]),
            before: None,
            refs: BTreeMap::new(),
            bundles: Vec::new(),
            by: String::new(),
            at: String::new(),
        }
    }

    /// Returns the head with the name of its session: a collection that closes an unpushed head
    /// does not know the name.
    pub(super) fn with_session(self, session: &str) -> Self {
        Self { session: session.to_owned(), ..self }
    }

    /// Returns the key of the head of a session.
    pub(super) fn key(names: Names, session: &str) -> Result<Key> {
        Key::new(format!("heads/{}", names.key_part(session)))
    }

    /// Returns the key of one of its bundles.
    pub(super) fn bundle_key(&self, names: Names, name: &str) -> Result<Key> {
        bundle_key(names, &self.session, name)
    }

    /// Returns true if the head has no refs: the session was deleted, or never pushed.
    #[must_use]
    pub(crate) fn is_closed(&self) -> bool {
        self.refs.is_empty()
    }

    /// Returns the branches, ordered by name.
    pub(crate) fn branches(&self) -> impl Iterator<Item = (BranchName, ObjectId)> {
        self.refs
            .iter()
            .filter_map(|(name, value)| Some((BranchName::from_full(name)?, value.id.0)))
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        encode(self)
    }

    /// Decodes a head, and checks that it is valid for this session on this remote.
    ///
    /// # Errors
    /// `Corrupt`, or `Unsupported` for a later version.
    pub(super) fn decode(bytes: &[u8], remote: &RemoteId, session: &str) -> Result<Self> {
        let place = format!("the head of {session} on the remote");
        let head: Self = decode(&place, MAX_HEAD_BYTES, bytes)?;
        head.check(remote, session).map_err(|expected| Error::malformed(&place, expected))?;
        Ok(head)
    }

    /// Returns the session that a head names, unchecked.
    pub(super) fn session_in(bytes: &[u8]) -> Result<String> {
        let head: Self = decode("a head on the remote", MAX_HEAD_BYTES, bytes)?;
        Ok(head.session)
    }

    fn check(&self, remote: &RemoteId, session: &str) -> std::result::Result<(), &'static str> {
        // A collection that closed the head before the first push did not know the name.
        let is_nameless = self.session.is_empty() && self.is_closed();
        if self.remote != *remote || self.session != session && !is_nameless {
            return Err("the head of this session of this remote");
        }
        if (self.generation == 1) != self.before.is_none() || self.generation == 0 {
            return Err("a previous head, except in the first one");
        }
        let is_own = |name: &String| match BranchName::from_full(name) {
            Some(branch) => branch.session() == session,
            None => tag_name(name).is_some() || pin_name(name).is_some(),
        };
        if !self.refs.keys().all(is_own) {
            return Err("branches of the session, tags and pins");
        }
        let names: BTreeSet<&str> = self.bundles.iter().map(|bundle| &*bundle.name).collect();
        let is_part =
            |name: &&str| !name.contains('/') && self.bundle_key(Names::Plain, name).is_ok();
        if self.is_closed() && !names.is_empty() {
            return Err("no bundles without a ref");
        }
        if names.len() != self.bundles.len() || !names.iter().all(is_part) {
            return Err("each bundle once, by its name");
        }
        Ok(())
    }
}

/// Returns the generation in the name of a bundle; `None` for a name that no push creates.
pub(super) fn generation_of(name: &str) -> Option<u64> {
    let (digits, salt) = name.split_once('-')?;
    let generation: u64 = digits.parse().ok()?;
    let is_own = generation > 0 && generation.to_string() == digits;
    (is_own && Hex::<16>::parse(salt).is_some()).then_some(generation)
}

/// Returns the key of a bundle of a session.
pub(super) fn bundle_key(names: Names, session: &str, name: &str) -> Result<Key> {
    Key::new(format!("bundles/{}/{name}", names.key_part(session)))
}

pub(super) fn encode<T: Serialize>(document: &T) -> Result<Vec<u8>> {
    let json = serde_json::to_vec(document);
    json.map_err(|error| Error::invalid("a document that is not JSON").with_source(error))
}

/// The version, which is decoded first because a later version may have other fields.
#[derive(Deserialize)]
struct DocumentVersion {
    version: u64,
}

pub(super) fn decode<T: for<'de> Deserialize<'de>>(
    place: &str,
    limit: u64,
    bytes: &[u8],
) -> Result<T> {
    if bytes.len() as u64 > limit {
        return Err(Error::limit(format!("bytes of {place}"), limit, bytes.len() as u64));
    }
    // The source error would quote untrusted bytes.
    let not_json = |_| Error::malformed(place, "JSON with its fields");
    let DocumentVersion { version } = serde_json::from_slice(bytes).map_err(not_json)?;
    if version > VERSION {
        let message =
            format!("{place} has version {version}: this program knows versions up to {VERSION}");
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    serde_json::from_slice(bytes).map_err(not_json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Kind;
    use crate::transfer::remote::names::hash;

    const REMOTE: RemoteId = Hex([7; 16]);

    fn sample() -> SessionHead {
        let id = TextId(ObjectId::of(Kind::Commit, b"x"));
        let mut head = SessionHead::first(REMOTE, "task".into());
        (head.generation, head.before) = (2, Some(hash(b"before")));
        let value = BundledRef { kind: "commit".into(), id, turn: 3 };
        head.refs.insert("refs/heads/task/main".into(), value);
        let (name, hash) = ("2-00ff".to_owned(), hash(b"a bundle"));
        head.bundles.push(PushedBundle { name, bytes: 12, hash, tips: vec![id], index: None });
        head
    }

    #[test]
    fn a_head_round_trips_and_no_other_one_is_taken_for_it() {
        let bytes = sample().encode().unwrap();
        assert_eq!(SessionHead::decode(&bytes, &REMOTE, "task").unwrap(), sample());
        for (remote, session) in [(Hex([8; 16]), "task"), (REMOTE, "other")] {
            let error = SessionHead::decode(&bytes, &remote, session).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
        let text = String::from_utf8(bytes).unwrap();
        for [from, to] in [
            ["refs/heads/task/main", "refs/heads/other/main"],
            ["refs/heads/task/main", "refs/maintenance/redactions"],
            ["2-00ff", "../2-00ff"],
            ["2-00ff", ""],
            ["\"generation\":2", "\"generation\":0"],
            ["\"generation\":2", "\"generation\":1"],
            ["\"generation\":2", "\"generation\":-2"],
            ["\"bytes\":12", "\"bytes\":1e99"],
            ["\"by\"", "\"extra\":1,\"by\""],
        ] {
            let changed = text.replace(from, to);
            assert_ne!(changed, text, "{from}");
            let error = SessionHead::decode(changed.as_bytes(), &REMOTE, "task").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{to}");
        }
        let later = text.replace("\"version\":1", "\"version\":2");
        let error = SessionHead::decode(later.as_bytes(), &REMOTE, "task").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(SessionHead::decode("[".repeat(100_000).as_bytes(), &REMOTE, "task").is_err());
    }

    #[test]
    fn a_bundle_tells_by_its_name_which_head_it_is_of() {
        let salt = "00".repeat(16);
        assert_eq!(generation_of(&format!("12-{salt}")), Some(12));
        let bad = ["0-", "-", "01-", "+1-", "-1-", "18446744073709551616-", "1_"];
        for name in bad.map(|front| format!("{front}{salt}")).iter().chain([&"1-00".to_owned()]) {
            assert_eq!(generation_of(name), None, "{name}");
        }
    }

    #[test]
    fn sessions_have_keys_of_their_own_whatever_they_are_called() {
        let long = "ä".repeat(127);
        let names = ["task", "Task", ".task", "a.b", "a%2Eb", "ä b", &long, &long[..252], "-x"];
        let keys: BTreeSet<_> = names
            .iter()
            .map(|name| SessionHead::key(Names::Plain, name).unwrap().as_str().to_lowercase())
            .collect();
        // On case-insensitive file systems, two of them may be one.
        assert!(keys.len() >= names.len() - 1, "{keys:?}");
        assert_eq!(SessionHead::key(Names::Plain, "ä b").unwrap().as_str(), "heads/%C3%A4%20b");
        assert!(
            sample()
                .bundle_key(Names::Plain, "2-00ff")
                .unwrap()
                .as_str()
                .starts_with("bundles/task/")
        );
    }
}
