//! The store of the model: segments, the newest manifest, the epoch, and the views of handles.

/// A set of segments or of operations: a bit for each.
pub(super) type Set = u8;

/// The epoch of a handle that has not seen the store yet.
pub(super) const NEVER: u8 = u8::MAX;

/// The maximum numbers of handles, segments and operations.
pub(super) const HANDLES: usize = 3;
pub(super) const SEGMENTS: usize = 4;
pub(super) const OPERATIONS: usize = 4;

/// The limits of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Handles, all open at the start.
    pub handles: usize,
    /// Segments that are created.
    pub segments: usize,
    /// Operations that are committed.
    pub operations: usize,
    /// Collections that are started.
    pub collections: u8,
    /// Processes that end at any step and release their locks.
    pub ends: u8,
    /// Processes that start after that.
    pub opens: u8,
}

/// An operation. Operations are numbered from 1; number 0 is a store without operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Operation {
    pub(super) parent: u8,
    /// 0 if the operation does not exist yet.
    pub(super) sequence: u8,
}

/// A segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(super) struct Segment {
    pub(super) made: bool,
    /// True if its file still has its name.
    pub(super) named: bool,
    /// True if it ends in an index, so that no process appends to it.
    pub(super) indexed: bool,
    pub(super) operations: Set,
}

/// A manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(super) struct Manifest {
    pub(super) generation: u8,
    /// The newest operation in its refs.
    pub(super) refs: u8,
    pub(super) sealed: Set,
    pub(super) retired: Set,
    /// Operations in packs.
    pub(super) packed: Set,
}

/// The next step of a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum At {
    Ended,
    /// Idle: with a segment it may place an operation or seal the segment, without a segment it may
    /// look for one; it may collect.
    Rests,
    /// Looks at the epoch.
    Looks(Next),
    /// Loads the manifest, and compares the epoch with this earlier one.
    Loads(u8, Next),
    /// Reuses an idle segment or creates one.
    Chooses,
    /// Has a segment to write to, or to seal.
    Places,
    Seals,
    /// Without the ref lock: appends an operation after the newest one it has seen.
    Writes(u8),
    /// Seals, with the refs that it has seen.
    LoadsToSeal(u8),
    LinksSealed(u8, Manifest),
    /// Collects: locks idle segments, takes stock of them, and writes the pack.
    Packs,
    /// Has the segments that it replaces, and the refs and operations of its stock.
    LoadsToPublish(Stock),
    Announces(Stock, Manifest),
    /// Holds the ref lock, here and in the next step.
    Links(Stock, Manifest),
    /// With the result of the link.
    EndsChange(Stock, bool),
    Unlinks(Set),
}

/// Why a handle looks at the files again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Next {
    /// The handle was opened, is refreshed, or could not place an operation.
    Rest,
    /// The handle collects.
    Collect,
}

/// The segments that a collection replaces, and the content of their replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Stock {
    pub(super) replaced: Set,
    pub(super) packed: Set,
    pub(super) refs: u8,
}

/// A handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Handle {
    pub(super) at: At,
    pub(super) epoch: u8,
    /// The newest operation in its refs.
    pub(super) refs: u8,
    /// Segments that it does not read.
    pub(super) settled: Set,
    /// Sealed segments that it has open.
    pub(super) mapped: Set,
    /// Segments whose locks it holds.
    pub(super) locked: Set,
    /// The segment it writes to, one of the locked ones: a set of one or none.
    pub(super) owned: Set,
}

impl Handle {
    /// A handle that has not looked at the store yet.
    pub(super) const NEW: Self = Self {
        at: At::Looks(Next::Rest),
        epoch: NEVER,
        refs: 0,
        settled: 0,
        mapped: 0,
        locked: 0,
        owned: 0,
    };

    /// A process that has ended and released its locks.
    pub(super) const ENDED: Self = Self { at: At::Ended, ..Self::NEW };

    /// True if it holds the ref lock.
    pub(super) fn has_ref_lock(&self) -> bool {
        matches!(self.at, At::Links(..) | At::EndsChange(..))
    }

    /// True if it holds the lock that serializes collections.
    pub(super) fn collects(&self) -> bool {
        match self.at {
            At::Looks(next) | At::Loads(_, next) => next == Next::Collect,
            At::Packs
            | At::LoadsToPublish(_)
            | At::Announces(..)
            | At::Links(..)
            | At::EndsChange(..)
            | At::Unlinks(_) => true,
            _ => false,
        }
    }
}

/// The store and its handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct State {
    pub(super) operations: [Operation; OPERATIONS + 1],
    pub(super) segments: [Segment; SEGMENTS],
    pub(super) manifest: Manifest,
    pub(super) epoch: u8,
    pub(super) handles: [Handle; HANDLES],
    pub(super) operations_left: u8,
    pub(super) segments_left: u8,
    pub(super) collections_left: u8,
    pub(super) ends_left: u8,
    pub(super) opens_left: u8,
}

impl State {
    /// A new store that all handles have open.
    #[must_use]
    pub(super) fn new(sizes: &Sizes) -> Self {
        let few = |size: usize, most: usize| u8::try_from(size.min(most)).expect("few");
        let mut handles = [Handle::ENDED; HANDLES];
        handles[..sizes.handles].fill(Handle { at: At::Rests, epoch: 0, ..Handle::NEW });
        Self {
            operations: [Operation::default(); OPERATIONS + 1],
            segments: [Segment::default(); SEGMENTS],
            manifest: Manifest::default(),
            epoch: 0,
            handles,
            operations_left: few(sizes.operations, OPERATIONS),
            segments_left: few(sizes.segments, SEGMENTS),
            collections_left: sizes.collections,
            ends_left: sizes.ends,
            opens_left: sizes.opens,
        }
    }

    /// True if no collection is left or running.
    pub(super) fn is_collected(&self) -> bool {
        self.collections_left == 0 && !self.handles.iter().any(Handle::collects)
    }

    /// The segments that have a name.
    pub(super) fn named(&self) -> Set {
        self.segments_where(|segment| segment.named)
    }

    /// The segments that satisfy a condition.
    pub(super) fn segments_where(&self, holds: impl Fn(&Segment) -> bool) -> Set {
        let all = self.segments.iter().enumerate().filter(|(_, segment)| holds(segment));
        all.fold(0, |set, (at, _)| set | 1 << at)
    }

    /// The operations in some segments.
    pub(super) fn operations_in(&self, segments: Set) -> Set {
        members(segments).fold(0, |set, at| set | self.segments[usize::from(at)].operations)
    }

    /// The segments that a handle has locked.
    pub(super) fn locked(&self) -> Set {
        self.handles.iter().fold(0, |set, handle| set | handle.locked)
    }

    /// True if a handle holds the ref lock.
    pub(super) fn is_ref_locked(&self) -> bool {
        self.handles.iter().any(Handle::has_ref_lock)
    }

    /// The number of the next operation.
    pub(super) fn next_operation(&self) -> u8 {
        let there = self.operations.iter().filter(|it| it.sequence > 0).count();
        1 + u8::try_from(there).expect("few operations")
    }

    /// The number of an operation in its chain.
    pub(super) fn sequence(&self, operation: u8) -> u8 {
        self.operations[usize::from(operation)].sequence
    }

    /// The newest operation of the chain that continues from `refs` in some segments.
    pub(super) fn follow(&self, mut refs: u8, segments: Set) -> u8 {
        let waiting = self.operations_in(segments);
        let parent = |at: u8| self.operations[usize::from(at)].parent;
        while let Some(child) = members(waiting).find(|at| parent(*at) == refs) {
            refs = child;
        }
        refs
    }

    /// An operation and its ancestors.
    pub(super) fn chain(&self, mut newest: u8) -> Set {
        let mut set = 0;
        while newest > 0 {
            set |= bit(newest);
            newest = self.operations[usize::from(newest)].parent;
        }
        set
    }
}

/// A set with one member.
pub(super) fn bit(at: u8) -> Set {
    1 << at
}

/// The members of a set.
pub(super) fn members(set: Set) -> impl Iterator<Item = u8> {
    (0..8).filter(move |at| set & bit(*at) != 0)
}
