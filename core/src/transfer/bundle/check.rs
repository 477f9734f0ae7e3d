//! Reads a bundle from front to back and verifies every id, link and ref.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use super::manifest::{BundledRef, Counts, Manifest, check_head};
use super::operations::{BundledOperation, NameableObjects, decode};
use super::select::{MAX_TAGS, SessionCounts};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Commit, Kind, Object, ObjectId, Tag};
use crate::repo::{BranchName, check_full_name, links, pin_name, tag_name};
use crate::store::{BundleFile, Outside, Protected, ReadAt, Tombstone};

/// Bytes that always contain the whole first line.
const HEAD_BYTES: usize = 32;

/// Limit of object bytes in a bundle, unless the caller raises it or the file itself is large.
pub(super) const PLAIN_BYTES: u64 = 1 << 30;
pub(super) const PLAIN_RATIO: u64 = 1000;

/// An open bundle. Only its manifest has been verified.
#[derive(Debug)]
pub struct Bundle {
    pub(super) file: BundleFile,
    pub(super) manifest: Manifest,
    /// External objects that objects in the bundle name.
    pub(in crate::transfer) outside: Vec<(ObjectId, Kind, Outside)>,
    /// The objects to use, if the bundle was recovered from a damaged file.
    pub(super) kept: Option<HashSet<ObjectId>>,
}

/// The content of a bundle with every byte verified.
#[derive(Debug, Default)]
pub struct BundleContents {
    /// Number of objects of each kind.
    pub counts: Counts,
    /// Bytes of the objects.
    pub raw_bytes: u64,
    kinds: HashMap<ObjectId, Kind>,
    /// Parents of its commits, with grafts applied, and their turns.
    pub(super) commits: HashMap<ObjectId, (u64, Vec<ObjectId>)>,
    /// Targets of its tags.
    pub(super) tags: HashMap<ObjectId, ObjectId>,
    /// Commits and tags, both internal and external, by their ordinals.
    named: HashMap<u32, ObjectId>,
}

impl Bundle {
    /// Opens a bundle and reads its manifest and indexes: some kilobytes. Reads the whole file only
    /// if the bundle has parity and needs repair; the repaired content is then used.
    ///
    /// # Errors
    /// `InvalidInput` if the file is not a bundle, `Unsupported` for a later version, `Corrupt` if
    /// the file is incomplete, `Io` if it cannot be read.
    pub fn open(file: Arc<dyn ReadAt>) -> Result<Self> {
        // A bundle with parity does not end at the end of the file, and its head may be damaged.
        let refused = match Self::open_plain(Arc::clone(&file)) {
            Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::InvalidInput) => {
                error
            }
            opened => return opened,
        };
        let protected = Protected::open(file)?;
        match protected.damage() {
            Some(_) => Self::open_plain(protected.content()),
            None => Err(refused),
        }
    }

    fn open_plain(file: Arc<dyn ReadAt>) -> Result<Self> {
        let mut head = [0; HEAD_BYTES];
        // `BundleFile::open` reports read errors better.
        if let Ok(read) = file.read_at(&mut head, 0) {
            check_head(head.get(..read).unwrap_or_default())?;
        }
        let file = BundleFile::open(file)?;
        let manifest = Manifest::decode(file.front())?;
        let found = usize::try_from(manifest.outside).unwrap_or(usize::MAX);
        if found != file.outside().len() {
            return Err(malformed("as many ids outside as it says"));
        }
        let outside = file.outside().to_vec();
        Ok(Self { file, manifest, outside, kept: None })
    }

    /// Returns the manifest.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the checksum of the whole file.
    #[must_use]
    pub fn checksum(&self) -> ObjectId {
        self.file.checksum()
    }

    /// Returns the size of the file, decrypted.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.file.file_bytes()
    }

    /// Returns the total bytes of the objects, as recorded in the file.
    #[must_use]
    pub fn raw_bytes(&self) -> u64 {
        self.file.raw_bytes()
    }

    /// Verifies every byte: the frames, the hash of every object, that everything reachable from an
    /// object or ref is included, required or has a tombstone, that operations name only valid refs
    /// and objects, and that the manifest matches.
    ///
    /// Accepts at most `max_bytes` of objects. The default is 1 GiB or a thousand times the file
    /// size, whichever is larger. Memory: three blocks, the largest object, and 120 bytes per
    /// object.
    ///
    /// # Errors
    /// `LimitExceeded` if the objects exceed the limit, `Corrupt` if any check fails.
    pub fn verify(&self, max_bytes: Option<u64>) -> Result<BundleContents> {
        self.check_size(max_bytes)?;
        let mut check = Verification::new(self)?;
        self.visit(&mut |id, object| check.object(id, &object))?;
        check.finish()
    }

    /// Visits each object with its id, dependencies first.
    pub(in crate::transfer) fn visit(
        &self,
        visit: &mut dyn FnMut(ObjectId, Object) -> Result<()>,
    ) -> Result<()> {
        match &self.kept {
            None => self.file.visit(visit),
            Some(kept) => self.file.salvage(u64::MAX, &mut |_, id, object| {
                if kept.contains(&id) { visit(id, object) } else { Ok(()) }
            }),
        }
    }

    /// Returns the recorded operations on the bundle's refs, oldest first. Returns none if the
    /// bundle was recovered from a damaged file.
    ///
    /// Memory: ten times the encoded size, which is at most 16 MiB.
    ///
    /// # Errors
    /// `Corrupt` if `contents` belongs to another bundle.
    pub fn operations(&self, contents: &BundleContents) -> Result<Vec<BundledOperation>> {
        let mut operations = Vec::new();
        self.read_operations(contents, &mut |operation| operations.push(operation))?;
        Ok(operations)
    }

    fn read_operations(
        &self,
        contents: &BundleContents,
        visit: &mut dyn FnMut(BundledOperation),
    ) -> Result<u64> {
        if self.kept.is_some() {
            return Ok(0);
        }
        let outside = u32::try_from(self.outside.len()).unwrap_or(u32::MAX);
        let sessions = self.manifest.branch_sessions();
        let count = self.file.len().saturating_add(outside);
        let places = NameableObjects { ids: &contents.named, count, sessions };
        decode(&self.file.operations()?, &places, visit)
    }

    fn check_size(&self, max_bytes: Option<u64>) -> Result<()> {
        let plain = PLAIN_BYTES.max(self.file_bytes().saturating_mul(PLAIN_RATIO));
        match max_bytes.unwrap_or(plain) {
            limit if self.raw_bytes() > limit => {
                Err(Error::limit("bytes in the bundle", limit, self.raw_bytes()))
            }
            _ => Ok(()),
        }
    }
}

/// A verification in progress.
struct Verification<'b> {
    bundle: &'b Bundle,
    outside: HashMap<ObjectId, (Kind, Outside)>,
    /// External objects named by an object.
    named: HashSet<ObjectId>,
    grafts: BTreeMap<ObjectId, Option<ObjectId>>,
    required: HashMap<ObjectId, u64>,
    sessions: SessionCounts,
    contents: BundleContents,
}

impl<'b> Verification<'b> {
    fn new(bundle: &'b Bundle) -> Result<Self> {
        let manifest = &bundle.manifest;
        let outside = bundle.outside.iter();
        let outside: HashMap<_, _> = outside.map(|(id, kind, why)| (*id, (*kind, *why))).collect();
        if outside.len() != bundle.outside.len() {
            return Err(refuse("each id outside once", "a duplicate"));
        }
        let grafts = manifest.grafts.iter();
        let grafts: BTreeMap<_, _> =
            grafts.map(|graft| (graft.forgotten.0, graft.next.map(|next| next.0))).collect();
        let rises = manifest.grafts.is_sorted_by(|a, b| a.forgotten < b.forgotten);
        let required = manifest.prerequisites.iter();
        let required: HashMap<_, _> = required.map(|known| (known.commit.0, known.turn)).collect();
        if !rises || required.len() != manifest.prerequisites.len() {
            return Err(refuse("each graft and prerequisite once", "a duplicate"));
        }
        let outside_at = (bundle.file.len()..).zip(&bundle.outside);
        let named = outside_at.filter(|(_, (_, kind, _))| is_nameable(*kind));
        let named = named.map(|(ordinal, (id, ..))| (ordinal, *id)).collect();
        Ok(Self {
            bundle,
            outside,
            named: HashSet::new(),
            grafts,
            required,
            sessions: SessionCounts::default(),
            contents: BundleContents { named, ..BundleContents::default() },
        })
    }

    fn object(&mut self, id: ObjectId, object: &Object) -> Result<()> {
        let place = |error: Error| error.at(format_args!("the bundle, {id}"));
        if self.outside.contains_key(&id) || self.required.contains_key(&id) {
            return Err(refuse("an object either inside or outside", "it in both"));
        }
        match object.kind {
            Kind::Blob => {}
            Kind::Node => {
                for link in links(object).map_err(place)? {
                    self.check_link(link.id, link.kind, &[Outside::Required]).map_err(place)?;
                }
            }
            Kind::Commit => {
                let commit = Commit::decode(&object.bytes).map_err(place)?;
                self.commit(id, &commit).map_err(place)?;
            }
            Kind::Tag => {
                let tag = Tag::decode(&object.bytes).map_err(place)?;
                self.check_link(tag.target, tag.target_kind, &[Outside::Required])
                    .map_err(place)?;
                self.contents.tags.insert(id, tag.target);
            }
            Kind::Operation => return Err(place(refuse("no operation", "one"))),
        }
        if is_nameable(object.kind) {
            let ordinal = u32::try_from(self.contents.kinds.len()).unwrap_or(u32::MAX);
            self.contents.named.insert(ordinal, id);
        }
        self.contents.counts.add(object.kind);
        self.contents.raw_bytes += object.bytes.len() as u64;
        match self.contents.kinds.insert(id, object.kind) {
            None => Ok(()),
            Some(_) => Err(place(refuse("each object once", "a duplicate"))),
        }
    }

    fn commit(&mut self, id: ObjectId, commit: &Commit) -> Result<()> {
        let gone = [Tombstone::Elided, Tombstone::Redacted].map(Outside::Tombstone);
        let trees = [gone.as_slice(), &[Outside::Required]].concat();
        self.check_link(commit.tree, Kind::Node, &trees)?;
        let elided = matches!(self.outside.get(&commit.tree), Some((_, Outside::Tombstone(_))));
        self.sessions.add(&commit.session, commit.turn, commit.time.micros, elided);
        let mut parents = Vec::new();
        for parent in &commit.parents {
            let known = [Outside::Required, Outside::Forgotten];
            self.check_link(*parent, Kind::Commit, &known)?;
            let next = match self.outside.get(parent) {
                Some((_, Outside::Forgotten)) => self.grafts.get(parent).copied(),
                _ => Some(Some(*parent)),
            };
            let next = next.ok_or_else(|| refuse("a graft for each forgotten commit", "none"))?;
            let Some(next) = next else { continue };
            let turn = self.contents.commits.get(&next).map(|(turn, _)| *turn);
            let turn = turn.or_else(|| self.required.get(&next).copied());
            match turn {
                Some(turn) if turn < commit.turn => parents.push(next),
                Some(_) => return Err(malformed("ascending turns")),
                None => {
                    return Err(refuse("a parent in the bundle or its prerequisites", "neither"));
                }
            }
        }
        self.contents.commits.insert(id, (commit.turn, parents));
        Ok(())
    }

    /// Refuses a link unless its target precedes the object or is a valid external object.
    fn check_link(&mut self, id: ObjectId, kind: Kind, outside: &[Outside]) -> Result<()> {
        if let Some(found) = self.contents.kinds.get(&id) {
            return if *found == kind { Ok(()) } else { Err(Error::corrupt(id, kind, found)) };
        }
        match self.outside.get(&id) {
            Some((found, why)) if *found == kind && outside.contains(why) => {
                self.named.insert(id);
                Ok(())
            }
            Some(_) => Err(Error::corrupt(id, kind, "a different entry outside of the bundle")),
            None => Err(Error::corrupt(
                id,
                format_args!("{kind} before the object that names it"),
                "none",
            )),
        }
    }

    fn finish(self) -> Result<BundleContents> {
        let manifest = &self.bundle.manifest;
        let contents = self.contents;
        if contents.counts != manifest.objects || self.sessions.finish() != manifest.sessions {
            return Err(malformed("the turns and objects that its manifest names"));
        }
        if self.named.len() != self.outside.len() {
            return Err(malformed("outside ids that its objects name"));
        }
        let forgotten = self.outside.values().filter(|(_, why)| *why == Outside::Forgotten).count();
        if self.grafts.len() != forgotten {
            return Err(malformed("as many grafts as forgotten commits"));
        }
        for (id, (kind, why)) in &self.outside {
            if *why == Outside::Required && *kind == Kind::Commit && !self.required.contains_key(id)
            {
                return Err(refuse("a prerequisite for each commit outside", "none"));
            }
        }
        for (name, value) in &manifest.refs {
            check_ref(name, value, &contents, &self.required).map_err(|error| error.at(name))?;
        }
        manifest.check_labels()?;
        if self.bundle.read_operations(&contents, &mut drop)? != manifest.operations {
            return Err(malformed("as many operations as it says"));
        }
        Ok(contents)
    }
}

impl BundleContents {
    /// Returns the ids of all objects.
    pub(super) fn ids(&self) -> impl Iterator<Item = &ObjectId> {
        self.kinds.keys()
    }

    pub(in crate::transfer) fn contains(&self, id: &ObjectId) -> bool {
        self.kinds.contains_key(id)
    }

    /// Returns the commit of a ref, through tags of the bundle.
    pub(super) fn peel(&self, id: &ObjectId) -> Option<ObjectId> {
        let mut at = *id;
        for _ in 0..=MAX_TAGS {
            match self.tags.get(&at) {
                Some(target) => at = *target,
                None => return Some(at),
            }
        }
        None
    }
}

/// Returns true if operations can name objects of this kind.
pub(super) const fn is_nameable(kind: Kind) -> bool {
    matches!(kind, Kind::Commit | Kind::Tag)
}

/// Refuses a ref that a bundle cannot hold, or whose target does not match its recorded kind and
/// turn.
fn check_ref(
    name: &str,
    value: &BundledRef,
    contents: &BundleContents,
    required: &HashMap<ObjectId, u64>,
) -> Result<()> {
    check_full_name(name)?;
    let is_branch = BranchName::from_full(name).is_some();
    let is_name = tag_name(name).is_some() || pin_name(name).is_some();
    let kind = contents.kinds.get(&value.id.0).copied();
    let kind = kind.or_else(|| required.get(&value.id.0).map(|_| Kind::Commit));
    let fits = match kind {
        Some(Kind::Commit) => is_branch || is_name,
        Some(Kind::Tag) => is_name,
        _ => false,
    };
    let target = contents.peel(&value.id.0);
    let turn = target.and_then(|target| match contents.commits.get(&target) {
        Some((turn, _)) => Some(*turn),
        None => required.get(&target).copied(),
    });
    if fits && turn == Some(value.turn) && kind.is_some_and(|kind| kind.name() == value.kind) {
        return Ok(());
    }
    let message = "not a branch, tag or pin of the turn that the manifest names";
    Err(Error::new(ErrorKind::Corrupt, message))
}

fn refuse(expected: impl fmt::Display, found: impl fmt::Display) -> Error {
    Error::corrupt("the bundle", expected, found)
}

fn malformed(expected: impl fmt::Display) -> Error {
    Error::malformed("the bundle", expected)
}
