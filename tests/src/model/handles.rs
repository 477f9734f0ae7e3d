//! What the parts of a step do to a handle and to the store.

use super::Rules;
use super::state::{At, Handle, Manifest, Operation, Set, State, bit};

impl Handle {
    /// Segments that it reads. One that has lost its name is not read any more, though it may be open:
    /// who sees less is not less of a danger.
    pub(super) fn journal(&self, state: &State) -> Set {
        state.named() & !self.settled
    }

    /// `Journal::catch_up`.
    pub(super) fn catch_up(&mut self, state: &State) {
        self.refs = state.follow(self.refs, self.journal(state));
    }

    /// `Store::lock_idle`: reads only the segments that it locks.
    pub(super) fn lock_idle(&mut self, state: &State, segments: Set) {
        self.locked |= segments;
        self.refs = state.follow(self.refs, segments);
    }

    /// `Store::see`: from now on the files are those of the newest manifest.
    pub(super) fn see(&mut self, state: &State, rules: &Rules) {
        let manifest = &state.manifest;
        // What it has sealed since the manifest was loaded stays.
        self.mapped = manifest.sealed | (self.mapped & state.named());
        self.settled = self.mapped;
        if rules.retired_are_refused {
            self.settled |= manifest.retired;
        }
        if state.sequence(manifest.refs) > state.sequence(self.refs) {
            self.refs = manifest.refs;
        }
        self.epoch = state.epoch;
        self.give_up(self.owned & self.settled);
    }

    /// Writes to some segments no longer, and holds their locks no longer.
    pub(super) fn give_up(&mut self, segments: Set) {
        self.locked &= !segments;
        self.owned &= !segments;
    }

    /// `Store::publish`: loads the manifest that the sealed segment comes into, unless packs have
    /// replaced it.
    pub(super) fn load_to_seal(&mut self, state: &State, refs: u8) {
        let manifest = state.manifest;
        if manifest.retired & self.owned != 0 {
            self.give_up(self.owned);
            self.at = At::Rests;
        } else if manifest.sealed & self.owned != 0 {
            self.has_sealed();
        } else {
            self.at = At::LinksSealed(refs, manifest);
        }
    }

    /// Knows its segment as one that a manifest lists.
    fn has_sealed(&mut self) {
        self.mapped |= self.owned;
        self.settled |= self.owned;
        self.give_up(self.owned);
        self.at = At::Rests;
    }
}

impl State {
    /// Appends an operation to the segment of a handle.
    pub(super) fn append(&mut self, handle: &mut Handle, parent: u8) {
        handle.at = At::Rests;
        let number = self.next_operation();
        let sequence = self.sequence(parent) + 1;
        self.operations_left -= 1;
        self.operations[usize::from(number)] = Operation { parent, sequence };
        let segment = handle.owned.trailing_zeros();
        self.segments[segment as usize].operations |= bit(number);
        handle.refs = number;
    }

    /// Makes this the newest manifest.
    pub(super) fn publish(&mut self, manifest: Manifest) {
        let generation = self.manifest.generation.max(manifest.generation) + 1;
        self.manifest = Manifest { generation, ..manifest };
    }

    /// Publishes a manifest with a sealed segment.
    pub(super) fn link_sealed(
        &mut self,
        handle: &mut Handle,
        refs: u8,
        mut manifest: Manifest,
        rules: &Rules,
    ) {
        let sealed = handle.owned;
        manifest.sealed |= sealed;
        manifest.refs = self.newer(manifest.refs, refs, rules);
        self.publish(manifest);
        handle.has_sealed();
    }

    /// The refs of a manifest that follows one with refs after `known`, made by who has seen `seen`.
    pub(super) fn newer(&self, known: u8, seen: u8, rules: &Rules) -> u8 {
        let keeps = rules.refs_are_max && self.sequence(known) >= self.sequence(seen);
        if keeps { known } else { seen }
    }
}
