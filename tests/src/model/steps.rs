//! The steps that a handle can take.

use std::fmt;

use super::Rules;
use super::state::{At, Handle, Manifest, Next, Segment, State, Stock, bit, members};

/// A step of a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Step {
    handle: u8,
    what: &'static str,
    /// The segment, operation, epoch or generation that it concerns.
    number: Option<u8>,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = char::from(b'A' + self.handle);
        write!(f, "{letter} {}", self.what)?;
        self.number.map_or(Ok(()), |number| write!(f, " {number}"))
    }
}

/// The steps of one handle from a state.
struct Steps<'s> {
    state: &'s State,
    rules: &'s Rules,
    number: usize,
    handle: Handle,
    found: &'s mut Vec<(Step, State)>,
}

impl State {
    /// Finds every step from this state and the state after it.
    pub(super) fn steps(&self, rules: &Rules, found: &mut Vec<(Step, Self)>) {
        for (number, handle) in self.handles.iter().enumerate() {
            Steps { state: self, rules, number, handle: *handle, found }.all();
        }
    }
}

impl Steps<'_> {
    /// Adds a step to the state that `change` makes.
    fn step(
        &mut self,
        what: &'static str,
        number: impl Into<Option<u8>>,
        change: impl FnOnce(&mut State, &mut Handle),
    ) {
        let (mut state, mut handle) = (*self.state, self.handle);
        change(&mut state, &mut handle);
        state.handles[self.number] = handle;
        let by = u8::try_from(self.number).expect("few handles");
        self.found.push((Step { handle: by, what, number: number.into() }, state));
    }

    fn all(&mut self) {
        let is_free = !self.state.is_ref_locked();
        if self.handle.at != At::Ended && self.state.ends_left > 0 {
            self.step("ends", None, |state, handle| {
                state.ends_left -= 1;
                *handle = Handle::ENDED;
            });
        }
        match self.handle.at {
            At::Ended => self.opens(),
            At::Rests => self.rests(is_free),
            At::Looks(next) => self.looks(next, is_free),
            At::Loads(epoch, next) => self.loads(epoch, next),
            At::Chooses => self.chooses(),
            At::Places if is_free => self.places(),
            At::Seals if is_free => self.seals(),
            At::Writes(parent) => self.writes(parent),
            At::LoadsToSeal(refs) => {
                self.step("loads the manifest to seal", None, |state, handle| {
                    handle.load_to_seal(state, refs);
                });
            }
            At::LinksSealed(refs, manifest) => self.links_sealed(refs, manifest),
            At::Packs => self.packs(),
            At::LoadsToPublish(stock) => self.loads_to_publish(stock),
            At::Announces(stock, manifest) if is_free => self.announces(stock, manifest),
            // Waits for the ref lock.
            At::Places | At::Seals | At::Announces(..) => {}
            At::Links(stock, manifest) => self.links(stock, manifest),
            At::EndsChange(stock, linked) => self.ends_change(stock, linked),
            At::Unlinks(replaced) => self.unlinks(replaced),
        }
    }

    fn opens(&mut self) {
        if self.state.opens_left > 0 {
            self.step("opens the store", None, |state, handle| {
                state.opens_left -= 1;
                *handle = Handle::NEW;
            });
        }
    }

    fn rests(&mut self, is_free: bool) {
        let commits = self.state.operations_left > 0;
        if self.handle.owned == 0 && commits {
            self.step("reads all segments", None, |state, handle| {
                handle.catch_up(state);
                handle.at = At::Chooses;
            });
        }
        if self.handle.owned != 0 && is_free {
            self.places();
            self.seals();
        }
        let collects = self.state.handles.iter().any(Handle::collects);
        if self.state.collections_left > 0 && !collects {
            self.step("begins a collection", None, |state, handle| {
                state.collections_left -= 1;
                handle.at = match handle.epoch == state.epoch {
                    true => At::Packs,
                    false => At::Looks(Next::Collect),
                };
            });
        }
        if self.handle.epoch != self.state.epoch {
            self.step("looks again", None, |_, handle| handle.at = At::Looks(Next::Rest));
        }
    }

    /// `load::load`: reads the epoch before the manifest is loaded.
    fn looks(&mut self, next: Next, is_free: bool) {
        let (epoch, rules) = (self.state.epoch, *self.rules);
        if epoch % 2 == 0 || !rules.odd_epoch_waits {
            self.step("sees epoch", epoch, |_, handle| handle.at = At::Loads(epoch, next));
        } else if is_free {
            self.step("loads the manifest under the lock at epoch", epoch, |state, handle| {
                handle.see(state, &rules);
                handle.at = after(next);
            });
        }
    }

    fn loads(&mut self, epoch: u8, next: Next) {
        let rules = *self.rules;
        if self.state.epoch == epoch {
            let generation = self.state.manifest.generation;
            self.step("loads manifest", generation, |state, handle| {
                handle.see(state, &rules);
                handle.at = after(next);
            });
        } else {
            self.step("sees another epoch than", epoch, |_, handle| handle.at = At::Looks(next));
        }
    }

    /// `Store::acquire`. The code chooses by numbers, which the model leaves out, which segments a
    /// handle takes over and which it seals: here it takes any, and may seal it.
    fn chooses(&mut self) {
        let state = self.state;
        let idle = self.handle.journal(state) & !state.locked();
        let indexed = state.segments_where(|segment| segment.indexed);
        for segment in members(idle) {
            let mut take = |what, at| {
                self.step(what, segment, |state, handle| {
                    handle.lock_idle(state, bit(segment));
                    handle.owned = bit(segment);
                    handle.at = at;
                });
            };
            if indexed & bit(segment) == 0 {
                take("takes over segment", At::Places);
            }
            take("locks, to seal it, segment", At::Seals);
        }
        let made = state.segments.iter().filter(|segment| segment.made).count();
        if state.segments_left > 0 {
            let segment = u8::try_from(made).expect("few segments");
            self.step("makes segment", segment, |state, handle| {
                state.segments_left -= 1;
                state.segments[made] = Segment { made: true, named: true, ..Segment::default() };
                handle.locked |= bit(segment);
                handle.owned = bit(segment);
                handle.at = At::Places;
            });
        }
    }

    /// `Store::place`, completely under the ref lock.
    fn places(&mut self) {
        let epoch = self.state.epoch;
        if self.state.operations_left == 0 {
            // There is nothing to commit.
        } else if self.rules.place_checks_epoch && self.handle.epoch != epoch {
            self.step("may not commit at epoch", epoch, |_, handle| {
                handle.at = At::Looks(Next::Rest);
            });
        } else if self.rules.place_under_ref_lock {
            self.step("commits operation", self.state.next_operation(), |state, handle| {
                handle.catch_up(state);
                state.append(handle, handle.refs);
            });
        } else {
            self.step("looks at the refs to commit", None, |state, handle| {
                handle.catch_up(state);
                handle.at = At::Writes(handle.refs);
            });
        }
    }

    fn writes(&mut self, parent: u8) {
        if self.state.operations_left > 0 {
            self.step("appends an operation behind", parent, |state, handle| {
                state.append(handle, parent);
            });
        }
    }

    /// `Store::seal`: writes the index and the refs.
    fn seals(&mut self) {
        let rules = *self.rules;
        let segment = self.handle.owned.trailing_zeros() as u8;
        if rules.seal_checks_epoch && self.handle.epoch != self.state.epoch {
            self.step("may not seal segment", segment, |state, handle| {
                state.segments[usize::from(segment)].indexed = true;
                handle.give_up(handle.owned);
                handle.at = At::Rests;
            });
            return;
        }
        let what = match rules.seal_under_ref_lock {
            true => "seals under the ref lock segment",
            false => "writes the index and looks at the refs to seal segment",
        };
        self.step(what, segment, |state, handle| {
            state.segments[usize::from(segment)].indexed = true;
            if rules.seal_reads_everything {
                handle.catch_up(state);
            }
            handle.at = At::LoadsToSeal(handle.refs);
            if rules.seal_under_ref_lock {
                handle.load_to_seal(state, handle.refs);
                if let At::LinksSealed(refs, manifest) = handle.at {
                    state.link_sealed(handle, refs, manifest, &rules);
                }
            }
        });
    }

    fn links_sealed(&mut self, refs: u8, manifest: Manifest) {
        let rules = *self.rules;
        let taken = manifest.generation != self.state.manifest.generation;
        if taken && rules.generations_are_taken_once {
            self.step("is too late to seal", None, |_, handle| {
                handle.at = At::LoadsToSeal(refs);
            });
        } else {
            self.step("links a manifest with the sealed segment", None, |state, handle| {
                state.link_sealed(handle, refs, manifest, &rules);
            });
        }
    }

    /// `Store::collect`: locks idle segments, reads them, and writes a pack that no process reads
    /// yet.
    fn packs(&mut self) {
        let locks = self.rules.collection_locks;
        self.step("locks idle segments and writes a pack", None, |state, handle| {
            handle.catch_up(state);
            let there = handle.journal(state) | (handle.mapped & state.named());
            let idle = there & !(state.locked() & !handle.locked);
            handle.owned = 0;
            handle.lock_idle(state, idle);
            let replaced = if locks { idle } else { there };
            let packed = state.operations_in(replaced);
            handle.at = At::LoadsToPublish(Stock { replaced, packed, refs: handle.refs });
        });
    }

    /// `Collection::publish`, up to the temporary name.
    fn loads_to_publish(&mut self, stock: Stock) {
        let rules = *self.rules;
        let generation = self.state.manifest.generation;
        self.step("prepares what follows manifest", generation, |state, handle| {
            let mut manifest = state.manifest;
            manifest.retired = (manifest.retired | stock.replaced) & state.named();
            manifest.sealed &= !stock.replaced;
            manifest.packed |= stock.packed;
            manifest.refs = state.newer(manifest.refs, stock.refs, &rules);
            handle.at = At::Announces(stock, manifest);
        });
    }

    fn announces(&mut self, stock: Stock, manifest: Manifest) {
        let before = self.rules.announced_before;
        self.step("locks the refs and announces a change", None, |state, handle| {
            if before {
                state.epoch = (state.epoch | 1) + 2;
            }
            handle.at = At::Links(stock, manifest);
        });
    }

    fn links(&mut self, stock: Stock, manifest: Manifest) {
        let taken = manifest.generation != self.state.manifest.generation;
        let linked = !(taken && self.rules.generations_are_taken_once);
        let what = if linked { "links a manifest with the pack" } else { "is too late to link" };
        self.step(what, None, |state, handle| {
            if linked {
                state.publish(manifest);
            }
            handle.at = At::EndsChange(stock, linked);
        });
    }

    fn ends_change(&mut self, stock: Stock, linked: bool) {
        let rules = *self.rules;
        self.step("ends the change and unlocks the refs", None, |state, handle| {
            // Without the first half, the epoch is even before and after.
            let by = if rules.announced_before { 1 } else { 2 };
            state.epoch += if rules.announced_after { by } else { 0 };
            handle.at = At::LoadsToPublish(stock);
            if linked {
                // No other process changes the epoch in this step.
                handle.see(state, &rules);
                handle.at = At::Unlinks(stock.replaced);
            }
        });
    }

    fn unlinks(&mut self, replaced: u8) {
        match members(replaced).next() {
            Some(segment) => self.step("unlinks segment", segment, |state, handle| {
                state.segments[usize::from(segment)].named = false;
                handle.at = At::Unlinks(replaced & !bit(segment));
            }),
            None => self.step("has collected", None, |_, handle| {
                handle.locked = 0;
                handle.at = At::Rests;
            }),
        }
    }
}

/// The step after the files were read.
fn after(next: Next) -> At {
    match next {
        Next::Rest => At::Rests,
        Next::Collect => At::Packs,
    }
}
