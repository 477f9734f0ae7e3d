//! Computes the ids of objects from their bytes, if they are not listed.
//!
//! ```text
//! without links   hashed as it lies, each block by itself
//! with links      hashed when the ids of all that it names are known
//! ```
//!
//! A link may target an earlier or a later object. So objects with links are processed in
//! alternating directions, block by block, until a pass finds nothing new. The few that need
//! another order are resolved recursively. An object in a cycle, which no valid object can be,
//! stays unidentified, and so does an object that links to an unreadable one.

use std::collections::{BTreeMap, HashSet};

use super::frames::Frames;
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId};
use crate::store::io::is_temporary;
use crate::store::pack::format::block::Form;
use crate::store::pack::format::index::IdIndex;
use crate::store::pack::format::layout::{BlockInfo, BlockKind, GONE_ENTRY_BYTES, note};
use crate::store::pack::format::links;
use crate::store::pack::{BlockCache, Tombstone};

/// Most passes over objects with links before the rest is resolved recursively.
const MAX_ROUNDS: usize = 8;

/// The ids of the readable objects in frames.
#[derive(Debug, Default)]
pub(in crate::store::pack) struct IdentifiedObjects {
    /// By the first ordinal of a block.
    ids: BTreeMap<u32, Vec<Option<ObjectId>>>,
    gone: BTreeMap<u32, (Tombstone, Kind)>,
    /// Descriptions of the unreadable objects.
    pub(super) problems: Vec<String>,
    /// True if some may be readable the next time, after a temporary error of the disk.
    pub(super) may_pass: bool,
}

/// The ids and links of one block.
#[derive(Default)]
struct BlockIds {
    ids: Vec<Option<ObjectId>>,
    gone: Vec<(Tombstone, Kind)>,
    /// Ordinals of objects with links.
    linked: Vec<u32>,
    errors: Vec<(u32, Error)>,
}

impl IdentifiedObjects {
    /// Reads and hashes every object. With `known` ids, also decodes objects with links directly,
    /// and skips gone ids.
    pub(in crate::store::pack) fn read(
        frames: &Frames,
        known: Option<&IdIndex>,
        cache: &BlockCache,
    ) -> Self {
        let blocks: Vec<(u32, BlockInfo)> = frames.blocks().map(|(n, block)| (n, *block)).collect();
        let look_at = |(number, block): &(u32, BlockInfo)| match block.kind {
            BlockKind::Parts => Ok(BlockIds::default()),
            BlockKind::Tombstone if known.is_some() => Ok(BlockIds::default()),
            BlockKind::Tombstone => identify_tombstones(frames, *number, block, cache),
            BlockKind::Objects(kind) => {
                identify_block(frames, known, (*number, block, kind), cache)
            }
        };
        let looked: Vec<Result<BlockIds>> = blocks.iter().map(look_at).collect();
        let (mut found, mut linked) = (Self::default(), Vec::new());
        for ((_, block), looked) in blocks.iter().zip(looked) {
            match looked {
                Ok(looked) => {
                    linked.extend(looked.linked);
                    found.gone.extend((block.first..).zip(looked.gone));
                    // Parts are numbered separately and have no ids.
                    if !looked.ids.is_empty() {
                        found.ids.insert(block.first, looked.ids);
                    }
                    for (ordinal, error) in looked.errors {
                        found.report_unreadable(frames, ordinal, &error);
                    }
                }
                Err(error) => {
                    let message = format!("{} objects are lost: {error}", block.objects);
                    found.may_pass |= is_temporary(&error);
                    found.problems.push(message);
                }
            }
        }
        linked.sort_unstable();
        found.resolve(frames, linked, cache);
        found
    }

    /// Returns the id with an ordinal, of an object or a gone one.
    pub(in crate::store::pack) fn id_at(&self, ordinal: u32) -> Option<ObjectId> {
        let (first, ids) = self.ids.range(..=ordinal).next_back()?;
        *ids.get((ordinal - first) as usize)?
    }

    /// Returns the ids that were found, by their ordinals.
    pub(in crate::store::pack) fn ids(&self) -> impl Iterator<Item = (u32, ObjectId)> {
        let blocks = self.ids.iter();
        blocks.flat_map(|(first, ids)| {
            (*first..).zip(ids).filter_map(|(at, id)| id.map(|id| (at, id)))
        })
    }

    /// Returns the reason and the kind of each id without content, by its ordinal.
    pub(in crate::store::pack) fn gone(&self) -> impl Iterator<Item = (u32, (Tombstone, Kind))> {
        self.gone.iter().map(|(at, note)| (*at, *note))
    }

    /// Finds the ids of objects with links. `linked` must be sorted.
    fn resolve(&mut self, frames: &Frames, mut linked: Vec<u32>, cache: &BlockCache) {
        for _ in 0..MAX_ROUNDS {
            let before = linked.len();
            // Earlier objects usually link to later ones, so begin with a backward pass.
            linked.reverse();
            linked.retain(|ordinal| !self.resolve_one(frames, *ordinal, cache));
            if linked.is_empty() || linked.len() == before {
                break;
            }
        }
        let mut unknown: HashSet<u32> = linked.iter().copied().collect();
        for ordinal in linked {
            self.follow(frames, ordinal, cache, &mut unknown);
        }
    }

    /// Identifies an object if the ids of all its link targets are known. Returns false if it
    /// should be tried again.
    fn resolve_one(&mut self, frames: &Frames, ordinal: u32, cache: &BlockCache) -> bool {
        let targets = targets(frames, ordinal, cache);
        let is_ready = targets.iter().all(|target| self.id_at(*target).is_some());
        if is_ready {
            self.finish(frames, ordinal, cache);
        }
        is_ready
    }

    /// Identifies an object after all its link targets.
    fn follow(
        &mut self,
        frames: &Frames,
        start: u32,
        cache: &BlockCache,
        unknown: &mut HashSet<u32>,
    ) {
        let mut stack = vec![(start, false)];
        while let Some((ordinal, entered)) = stack.pop() {
            if entered {
                self.finish(frames, ordinal, cache);
            } else if unknown.remove(&ordinal) {
                stack.push((ordinal, true));
                let targets = targets(frames, ordinal, cache).into_iter();
                stack.extend(targets.filter(|t| unknown.contains(t)).map(|t| (t, false)));
            }
        }
    }

    /// Identifies an object whose link targets are all known, or cannot be identified.
    fn finish(&mut self, frames: &Frames, ordinal: u32, cache: &BlockCache) {
        let Some(kind) = frames.kind_at(ordinal) else { return };
        let read = frames.read(ordinal, cache, |link| self.id_at(link));
        match read.map(|bytes| ObjectId::of(kind, &bytes)) {
            Ok(id) => {
                let block = self.ids.range_mut(..=ordinal).next_back();
                let slot = block.and_then(|(at, ids)| ids.get_mut((ordinal - at) as usize));
                if let Some(slot) = slot {
                    *slot = Some(id);
                }
            }
            Err(error) => self.report_unreadable(frames, ordinal, &error),
        }
    }

    fn report_unreadable(&mut self, frames: &Frames, ordinal: u32, error: &Error) {
        let kind = frames.kind_at(ordinal).map_or("object", Kind::name);
        self.may_pass |= is_temporary(error);
        self.problems.push(format!("{kind} {ordinal} is lost: {error}"));
    }
}

/// Returns the ordinals that an object links to; none if it is unreadable, which a later read
/// reports.
fn targets(frames: &Frames, ordinal: u32, cache: &BlockCache) -> Vec<u32> {
    let targets = frames.with_entry(ordinal, cache, |_, body| links::targets(body));
    targets.ok().flatten().unwrap_or_default()
}

/// Identifies the objects of a block. Skips those with links unless `known` is set.
fn identify_block(
    frames: &Frames,
    known: Option<&IdIndex>,
    (number, info, kind): (u32, &BlockInfo, Kind),
    cache: &BlockCache,
) -> Result<BlockIds> {
    let block = frames.decode(number, cache)?;
    let mut found = BlockIds::default();
    for (at, ordinal) in (0..info.objects).zip(info.first..) {
        let form = block.entry(at).map(|(entry, _)| entry.form);
        if form == Some(Form::Links) && known.is_none() {
            found.linked.push(ordinal);
            found.ids.push(None);
            continue;
        }
        let id_at = |link| known.and_then(|known| known.id_at(link));
        let id = match frames.read_in(&block, ordinal, cache, id_at) {
            Ok(bytes) => Some(ObjectId::of(kind, &bytes)),
            Err(error) => {
                found.errors.push((ordinal, error));
                None
            }
        };
        found.ids.push(id);
    }
    Ok(found)
}

fn identify_tombstones(
    frames: &Frames,
    number: u32,
    block: &BlockInfo,
    cache: &BlockCache,
) -> Result<BlockIds> {
    let decoded = frames.decode(number, cache)?;
    let mut found = BlockIds::default();
    for entry in decoded.raw().chunks(GONE_ENTRY_BYTES) {
        let id = entry.get(2..).and_then(ObjectId::from_slice);
        let Some((id, note)) = id.zip(note(entry, 0)) else {
            return Err(frames.damaged(
                number,
                block,
                "the id of a deleted object",
                "invalid bytes",
            ));
        };
        found.ids.push(Some(id));
        found.gone.push(note);
    }
    Ok(found)
}
