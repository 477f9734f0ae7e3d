//! The effects of the parts of a step on a handle and on the store.

use super::Rules;
use super::state::{At, Handle, Manifest, Operation, Set, State, bit};

impl Handle {
    /// The segments that it reads. A segment that has lost its name is not read, even if it is
    /// open: a handle that sees less is the more dangerous case.
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

    /// `Store::see`: the files are now those of the newest manifest.
    pub(super) fn see(&mut self, state: &State, rules: &Rules) {
        let manifest = &state.manifest;
        // Segments that it sealed since the manifest was loaded stay.
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

    /// Stops writing to segments and releases their locks.
    pub(super) fn give_up(&mut self, segments: Set) {
        self.locked &= !segments;
        self.owned &= !segments;
    }

    /// `Store::publish`: loads the manifest that will list the sealed segment, unless packs have
    /// replaced the segment.
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

    /// Marks its segment as listed in a manifest.
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

    /// The refs of the manifest after one with the refs `known`, written by a handle that has seen
    /// `seen`.
    pub(super) fn newer(&self, known: u8, seen: u8, rules: &Rules) -> u8 {
        let keeps = rules.refs_are_max && self.sequence(known) >= self.sequence(seen);
        if keeps { known } else { seen }
    }
}
