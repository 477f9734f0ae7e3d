//! Identifies objects by their bytes, where nothing says what their ids are.
//!
//! ```text
//! without links   hashed as it lies, each block by itself
//! with links      hashed when the ids of all that it names are known
//! ```
//!
//! What is named may lie in front or behind, so objects with links are gone through to and fro, block
//! by block, as long as that finds more. The few that need another order are followed one by one.
//! What names itself in the end, which no object can, stays unknown, and so does what names something
//! that cannot be read.

use std::collections::{BTreeMap, HashSet};

use super::block::Form;
use super::frames::Frames;
use super::index::Ids;
use super::layout::{BlockInfo, BlockKind, GONE_ENTRY_BYTES, note};
use super::{BlockCache, Tombstone, links};
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId};
use crate::store::io::is_passing;

/// Times that objects with links are gone through, before those that are left are followed.
const MAX_ROUNDS: usize = 8;

/// The ids of the objects in frames, as far as they can be read.
#[derive(Debug, Default)]
pub(super) struct Identified {
    /// By the first ordinal of a block.
    ids: BTreeMap<u32, Vec<Option<ObjectId>>>,
    gone: BTreeMap<u32, (Tombstone, Kind)>,
    /// What cannot be read, and why.
    pub(super) problems: Vec<String>,
    /// True if some of it may be read the next time: the disk refused for a moment.
    pub(super) may_pass: bool,
}

/// What a block tells by itself.
#[derive(Default)]
struct BlockIds {
    ids: Vec<Option<ObjectId>>,
    gone: Vec<(Tombstone, Kind)>,
    /// Ordinals of objects with links.
    linked: Vec<u32>,
    errors: Vec<(u32, Error)>,
}

impl Identified {
    /// Reads and hashes every object. Those with links are read by the ids of `known`, if it is there,
    /// and then gone ids are not looked for.
    pub(super) fn read(frames: &Frames, known: Option<&Ids>, cache: &BlockCache) -> Self {
        let blocks: Vec<(u32, BlockInfo)> = frames.blocks().map(|(n, block)| (n, *block)).collect();
        let look_at = |(number, block): &(u32, BlockInfo)| match block.kind {
            BlockKind::Parts => Ok(BlockIds::default()),
            BlockKind::Tombstone if known.is_some() => Ok(BlockIds::default()),
            BlockKind::Tombstone => take_gone(frames, *number, block, cache),
            BlockKind::Objects(kind) => look(frames, known, (*number, block, kind), cache),
        };
        let looked: Vec<Result<BlockIds>> = blocks.iter().map(look_at).collect();
        let (mut found, mut linked) = (Self::default(), Vec::new());
        for ((_, block), looked) in blocks.iter().zip(looked) {
            match looked {
                Ok(looked) => {
                    linked.extend(looked.linked);
                    found.gone.extend((block.first..).zip(looked.gone));
                    // Parts have numbers of their own, and no ids.
                    if !looked.ids.is_empty() {
                        found.ids.insert(block.first, looked.ids);
                    }
                    for (ordinal, error) in looked.errors {
                        found.lose(frames, ordinal, &error);
                    }
                }
                Err(error) => {
                    let message = format!("{} objects are lost: {error}", block.objects);
                    found.may_pass |= is_passing(&error);
                    found.problems.push(message);
                }
            }
        }
        linked.sort_unstable();
        found.resolve(frames, linked, cache);
        found
    }

    /// The id with an ordinal, of an object or a gone one.
    pub(super) fn id_at(&self, ordinal: u32) -> Option<ObjectId> {
        let (first, ids) = self.ids.range(..=ordinal).next_back()?;
        *ids.get((ordinal - first) as usize)?
    }

    /// The ids that were found, by their ordinals.
    pub(super) fn ids(&self) -> impl Iterator<Item = (u32, ObjectId)> {
        let blocks = self.ids.iter();
        blocks.flat_map(|(first, ids)| {
            (*first..).zip(ids).filter_map(|(at, id)| id.map(|id| (at, id)))
        })
    }

    /// Why and what an id without content was, by its ordinal.
    pub(super) fn gone(&self) -> impl Iterator<Item = (u32, (Tombstone, Kind))> {
        self.gone.iter().map(|(at, note)| (*at, *note))
    }

    /// Finds the ids of objects with links, whose ordinals rise.
    fn resolve(&mut self, frames: &Frames, mut linked: Vec<u32>, cache: &BlockCache) {
        for _ in 0..MAX_ROUNDS {
            let before = linked.len();
            // What was met first lies in front, and names what was met later.
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

    /// Identifies an object if the ids of all that it names are known. Returns false if it is worth
    /// trying again.
    fn resolve_one(&mut self, frames: &Frames, ordinal: u32, cache: &BlockCache) -> bool {
        let targets = targets(frames, ordinal, cache);
        let is_ready = targets.iter().all(|target| self.id_at(*target).is_some());
        if is_ready {
            self.finish(frames, ordinal, cache);
        }
        is_ready
    }

    /// Identifies an object after all that it names.
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

    /// Identifies an object all of whose links are known, or never will be.
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
            Err(error) => self.lose(frames, ordinal, &error),
        }
    }

    fn lose(&mut self, frames: &Frames, ordinal: u32, error: &Error) {
        let kind = frames.kind_at(ordinal).map_or("object", Kind::name);
        self.may_pass |= is_passing(error);
        self.problems.push(format!("{kind} {ordinal} is lost: {error}"));
    }
}

/// The ordinals that an object names; none when it cannot be read, which who reads it finds again.
fn targets(frames: &Frames, ordinal: u32, cache: &BlockCache) -> Vec<u32> {
    let targets = frames.with_entry(ordinal, cache, |_, body| links::targets(body));
    targets.ok().flatten().unwrap_or_default()
}

/// Identifies the objects of a block, but for those with links unless their ids are known.
fn look(
    frames: &Frames,
    known: Option<&Ids>,
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

fn take_gone(
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
            return Err(frames.damaged(number, block, "a gone id", "other bytes"));
        };
        found.ids.push(Some(id));
        found.gone.push(note);
    }
    Ok(found)
}
