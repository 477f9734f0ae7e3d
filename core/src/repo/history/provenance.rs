//! Provenance of messages: the commit of a line that introduced each message of a conversation.

use std::ops::Range;

use crate::context::{Added, Context, Shape};
use crate::error::{ErrorKind, Result};
use crate::object::{Commit, ObjectId, ObjectSource, Time};
use crate::repo::{Grafts, Repository};
use crate::tree::{List, diff_lists};

impl Repository {
    /// Returns the commits that introduced the messages of the list `section` at `tip`, along its
    /// first parents. Messages that existed at turn `until` count as introduced by one commit.
    ///
    /// Reads each commit after that turn with three nodes of its context, and the changes of the
    /// section. The changes of a turn whose context expired count as changes of the next one.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming the unreadable object.
    pub fn added(&self, tip: &ObjectId, until: u64, section: &str) -> Result<Vec<Added>> {
        let grafts = self.grafts()?;
        let mut line = Vec::new();
        let mut next = Some(*tip);
        while let Some(id) = next {
            let commit = self.commit(&id)?;
            let is_start = commit.turn <= until;
            next = first_parent(&grafts, &commit).filter(|_| !is_start);
            line.push((commit.tree, commit.time));
        }
        let mut growth = ListHistory { list: List::new(), id: None, added: Vec::new(), total: 0 };
        for (tree, time) in line.into_iter().rev() {
            growth.commit(self.store(), &tree, time, section)?;
        }
        Ok(growth.added)
    }
}

fn first_parent(grafts: &Grafts, commit: &Commit) -> Option<ObjectId> {
    grafts.parents(commit).first().copied()
}

/// A list at a commit, and the commits that introduced its items.
struct ListHistory {
    list: List,
    /// The root of the list; `None` while the section does not exist.
    id: Option<ObjectId>,
    added: Vec<Added>,
    total: u64,
}

impl ListHistory {
    fn commit(
        &mut self,
        source: &dyn ObjectSource,
        tree: &ObjectId,
        time: Time,
        section: &str,
    ) -> Result<()> {
        let context = match Context::open(source, tree) {
            Ok(context) => context,
            Err(error) if error.kind() == ErrorKind::Expired => return Ok(()),
            Err(error) => return Err(error),
        };
        let found = context.section(source, section)?;
        let id = found.filter(|section| section.shape == Shape::List).map(|section| section.id);
        if id == self.id {
            return Ok(());
        }
        let list = match &id {
            Some(id) => List::open(source, id)?,
            None => List::new(),
        };
        // From the end, so that positions before a change stay.
        for change in diff_lists(&self.list, &list, source)?.into_iter().rev() {
            let messages = change.new.end - change.new.start;
            self.splice(change.old, Added { messages, time });
        }
        (self.list, self.id) = (list, id);
        Ok(())
    }

    /// Replaces a range with the messages that a commit added. Cheap at the end, where lists grow.
    fn splice(&mut self, old: Range<u64>, new: Added) {
        let mut end = self.total;
        let mut after = Vec::new();
        while let Some(last) = self.added.pop() {
            let start = end.saturating_sub(last.messages);
            let part = |from: u64, to: u64| Added { messages: to.saturating_sub(from), ..last };
            after.push(part(old.end.max(start), end));
            end = start;
            if start <= old.start {
                self.added.push(part(start, old.start));
                break;
            }
        }
        self.total = self.total + new.messages - (old.end - old.start).min(self.total);
        self.added.push(new);
        self.added.extend(after.into_iter().rev());
        self.added.retain(|added| added.messages > 0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    turntree_properties::properties! {
        #[test]
        fn a_splice_is_that_of_the_plain_list(
            splices in prop::collection::vec((0_usize..20, 0_usize..5, 0_usize..5), 0..20)
        ) {
            let mut growth = ListHistory { list: List::new(), id: None, added: Vec::new(), total: 0 };
            let mut model: Vec<i64> = Vec::new();
            for (number, (at, remove, insert)) in splices.into_iter().enumerate() {
                let at = at.min(model.len());
                let end = (at + remove).min(model.len());
                model.splice(at..end, std::iter::repeat_n(number as i64, insert));
                let time = Time { micros: number as i64, offset_minutes: 0 };
                growth.splice(at as u64..end as u64, Added { messages: insert as u64, time });
                let written = |a: &Added| std::iter::repeat_n(a.time.micros, usize::try_from(a.messages).unwrap());
                let found: Vec<i64> = growth.added.iter().flat_map(written).collect();
                prop_assert_eq!(&found, &model);
            }
        }
    }
}
