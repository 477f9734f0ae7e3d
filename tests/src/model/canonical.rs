//! Merges equivalent states: clears state that no handle reads again, and ignores the order of
//! handles and segments.

use super::Rules;
use super::state::{At, Manifest, SEGMENTS, Segment, Set, State};

impl State {
    /// Returns one state for all states from which the same losses are reachable.
    pub(super) fn canonical(mut self, rules: &Rules) -> Self {
        self.forget_numbers(rules);
        self.forget_segments();
        self.sort_segments();
        self.handles.sort_unstable();
        self
    }

    /// Epochs and generations are only compared with the newest ones.
    fn forget_numbers(&mut self, rules: &Rules) {
        let (epoch, newest) = (self.epoch, self.manifest.generation);
        let is_newest = |known: u8| u8::from(known == epoch);
        for handle in &mut self.handles {
            handle.epoch = is_newest(handle.epoch);
            // A user of its refs has read all segments just before, from the newest view.
            if rules.place_checks_epoch && rules.seal_checks_epoch && rules.seal_reads_everything {
                handle.refs = 0;
            }
            if let At::Loads(known, _) = &mut handle.at {
                *known = is_newest(*known);
            }
            if let At::LinksSealed(_, loaded) | At::Announces(_, loaded) | At::Links(_, loaded) =
                &mut handle.at
            {
                let generation = u8::from(loaded.generation == newest);
                if generation == 0 && rules.generations_are_taken_once {
                    // Publishing it will fail: the generation is taken.
                    *loaded = Manifest::default();
                }
                loaded.generation = generation;
            }
        }
        self.epoch %= 2;
        self.manifest.generation = 0;
    }

    /// No handle reads a segment without a name.
    fn forget_segments(&mut self) {
        let named = self.named();
        for handle in &mut self.handles {
            handle.settled &= named;
            handle.mapped &= named;
        }
        self.manifest.retired &= named;
        for segment in self.segments.iter_mut().filter(|segment| !segment.named) {
            *segment = Segment { made: segment.made, ..Segment::default() };
        }
    }

    fn sort_segments(&mut self) {
        let mut order: [usize; SEGMENTS] = std::array::from_fn(|at| at);
        order.sort_by_key(|at| std::cmp::Reverse(self.segments[*at]));
        if order.is_sorted() {
            return;
        }
        self.segments = order.map(|at| self.segments[at]);
        let renumber = |set: &mut Set| {
            let old = *set;
            let new = order.iter().enumerate().filter(|(_, at)| old & 1 << **at != 0);
            *set = new.fold(0, |set, (at, _)| set | 1 << at);
        };
        let renumber_manifest = |manifest: &mut Manifest| {
            renumber(&mut manifest.sealed);
            renumber(&mut manifest.retired);
        };
        renumber_manifest(&mut self.manifest);
        for handle in &mut self.handles {
            for set in
                [&mut handle.settled, &mut handle.mapped, &mut handle.locked, &mut handle.owned]
            {
                renumber(set);
            }
            match &mut handle.at {
                At::LinksSealed(_, manifest) => renumber_manifest(manifest),
                At::Announces(stock, manifest) | At::Links(stock, manifest) => {
                    renumber(&mut stock.replaced);
                    renumber_manifest(manifest);
                }
                At::LoadsToPublish(stock) | At::EndsChange(stock, _) => {
                    renumber(&mut stock.replaced);
                }
                At::Unlinks(replaced) => renumber(replaced),
                _ => {}
            }
        }
    }
}
