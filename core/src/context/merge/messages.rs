//! Merges conversations that both sides continued: the messages of both, ordered by time.
//!
//! ```text
//! base    q  a
//! ours    q  a  o1 o2 ------ o3          o3 was added after t1 and t2
//! theirs  q  a  ----- t1 t2
//! merged  q  a  o1 o2 t1't2' o3          ' marks the origin
//! ```
//!
//! Messages added by one commit stay together, and a tool call stays with its results. If a side
//! replaced messages (a compaction), its replacement comes first and is not mixed with the other
//! side's additions, and the replaced messages stay dropped; but a call whose result the other side
//! added is restored with it. A message that one side took from the other before, according to its
//! origin, is the same message and stays in place. So is a base message that both sides moved, and
//! a message that both sides have from another common snapshot, where their histories cross: it
//! stays at its position in ours. A message that one side moved and the other dropped stays at the
//! new position, because the first side repeated it.
//!
//! Equal messages that both sides added independently are two messages, such as "go on" on both
//! sides. Of equal messages in the base, each side may have dropped a different one: then both are
//! dropped.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::units::{ReadToolUse, SideMessage, is_waiting, missing_calls, units};
use super::{Added, align};
use crate::context::entry::{with_origin, without_origin};
use crate::error::Result;
use crate::object::{ObjectSource, Time};
use crate::tree::{Item, List, ListChange, Region, diff_lists, regions};

/// Maximum messages before a range to search for the call of a result in it.
const MAX_LOOK_BACK: u64 = 128;

/// The replacement of a range of ours.
pub(super) type Edit = (std::ops::Range<u64>, Vec<Item>);

/// One side of a conversation.
struct Side<'a> {
    list: &'a List,
    /// Changes against the base; a message with another origin is the same message.
    changes: Vec<ListChange>,
    /// The end of the messages that each commit added, and its time.
    ends: Vec<(u64, Time)>,
}

/// The inputs for reading conversations.
#[derive(Clone, Copy)]
pub(super) struct ConversationInputs<'a> {
    pub(super) source: &'a dyn ObjectSource,
    pub(super) tools: ReadToolUse<'a>,
    /// The origin of messages taken from theirs.
    pub(super) origin: &'a str,
}

/// Returns the edits that turn ours into the merged conversation, last first, and the number of
/// messages taken from theirs. Messages in `also`, other common snapshots, are not additions of
/// either side.
pub(super) fn append(
    reading: ConversationInputs<'_>,
    base: &List,
    also: &[List],
    (ours, own_added): (&List, Vec<Added>),
    (theirs, other_added): (&List, Vec<Added>),
) -> Result<(Vec<Edit>, u64)> {
    let source = reading.source;
    let side = |list, added: Vec<Added>| {
        let mut end = 0;
        let ends = added.into_iter().map(|added| {
            end += added.messages;
            (end, added.time)
        });
        let ends = ends.collect();
        Ok::<_, crate::Error>(Side { list, changes: changes(source, base, list)?, ends })
    };
    let (ours, theirs) = (side(ours, own_added)?, side(theirs, other_added)?);
    let copies = SharedMessages::find(source, base, also, [&ours, &theirs])?;
    let mut merge =
        MessageMerge { reading, ours: &ours, theirs: &theirs, copies, back: BTreeSet::new() };
    let mut edits = Vec::new();
    let (mut came, end) = (0, base.len());
    for region in regions(&ours.changes, &theirs.changes) {
        let (items, taken) = merge.merge_region(&region, region.base.end == end)?;
        came += taken;
        if let Some(items) = items {
            edits.push((region.ours, items));
        }
    }
    edits.reverse();
    Ok((edits, came))
}

/// Returns the position for new messages at the end of `list`: before a call that waits for its
/// result.
pub(super) fn end(reading: ConversationInputs<'_>, list: &List) -> Result<u64> {
    let side = Side { list, changes: Vec::new(), ends: Vec::new() };
    let start = list.len().saturating_sub(MAX_LOOK_BACK);
    let mut last = Vec::new();
    for at in start..list.len() {
        last.extend(side.read(reading, at)?);
    }
    let unit = units(&last, false).pop().unwrap_or_default();
    let waits = is_waiting(last.get(unit.clone()).unwrap_or_default());
    Ok(if waits { start + unit.start as u64 } else { list.len() })
}

/// Compares two lists, ignoring origins.
fn changes(source: &dyn ObjectSource, base: &List, side: &List) -> Result<Vec<ListChange>> {
    let mut changes = Vec::new();
    for change in diff_lists(base, side, source)? {
        if change.old.is_empty() || change.new.is_empty() {
            changes.push(change);
            continue;
        }
        let plain = |list: &List, range| {
            let items = list.iter(source, range).map(|item| Ok(without_origin(&item?)));
            items.collect::<Result<Vec<Item>>>()
        };
        let old = plain(base, change.old.clone())?;
        let new = plain(side, change.new.clone())?;
        for inner in align::changes(old.iter(), new.iter()) {
            let at = |range: std::ops::Range<u64>, from: u64| range.start + from..range.end + from;
            changes.push(ListChange {
                old: at(inner.old, change.old.start),
                new: at(inner.new, change.new.start),
            });
        }
    }
    Ok(changes)
}

impl Side<'_> {
    /// Returns true if this side dropped any message of the base.
    fn has_dropped_any(&self) -> bool {
        self.changes.iter().any(|change| !change.old.is_empty())
    }

    /// Returns true if this side dropped the message `at` of the base.
    fn has_dropped(&self, at: u64) -> bool {
        let next = self.changes.partition_point(|change| change.old.end <= at);
        self.changes.get(next).is_some_and(|change| change.old.contains(&at))
    }

    /// Returns true if this side dropped a message within `merge_region`.
    fn has_dropped_in(&self, region: &Region) -> bool {
        let inside = |change: &&ListChange| {
            change.old.start >= region.base.start && change.old.end <= region.base.end
        };
        self.changes.iter().filter(inside).any(|change| !change.old.is_empty())
    }

    /// Returns the position in the base of this side's message `at`; `None` for an added one.
    fn base_of(&self, at: u64) -> Option<u64> {
        let next = self.changes.partition_point(|change| change.new.end <= at);
        if self.changes.get(next).is_some_and(|change| change.new.contains(&at)) {
            return None;
        }
        match next.checked_sub(1).and_then(|last| self.changes.get(last)) {
            Some(last) => Some(last.old.end + (at - last.new.end)),
            None => Some(at),
        }
    }

    /// Returns the commit that added this side's message `at`, and its time.
    fn commit_of(&self, at: u64) -> (usize, Time) {
        let commit = self.ends.partition_point(|(end, _)| *end <= at);
        (commit, self.ends.get(commit).map(|(_, time)| *time).unwrap_or_default())
    }

    fn read(&self, reading: ConversationInputs<'_>, at: u64) -> Result<Option<SideMessage>> {
        let Some(item) = self.list.get(reading.source, at)? else { return Ok(None) };
        SideMessage::read(reading.source, item, at, self.commit_of(at), reading.tools).map(Some)
    }

    /// Returns this side's added messages in a range.
    fn added_in(
        &self,
        reading: ConversationInputs<'_>,
        range: &std::ops::Range<u64>,
    ) -> Result<Vec<SideMessage>> {
        let mut messages = Vec::new();
        for change in &self.changes {
            let (start, end) = (change.new.start.max(range.start), change.new.end.min(range.end));
            for (at, item) in (start..end).zip(self.list.iter(reading.source, start..end)) {
                let commit = self.commit_of(at);
                messages.push(SideMessage::read(reading.source, item?, at, commit, reading.tools)?);
            }
        }
        Ok(messages)
    }
}

/// Messages of theirs that ours already has.
struct SharedMessages {
    /// Messages of ours from another origin.
    foreign: HashSet<Item>,
    /// All messages that ours added, with their counts.
    own: HashMap<Item, usize>,
    /// The number of these that both sides already shared: from another place in the base, or from
    /// another common snapshot.
    known: HashMap<Item, usize>,
}

impl SharedMessages {
    fn find(
        source: &dyn ObjectSource,
        base: &List,
        also: &[List],
        [ours, theirs]: [&Side<'_>; 2],
    ) -> Result<Self> {
        let (foreign, own, known) = (HashSet::new(), HashMap::new(), HashMap::new());
        let mut copies = Self { foreign, own, known };
        for change in &ours.changes {
            for item in ours.list.iter(source, change.new.clone()) {
                let item = item?;
                let plain = without_origin(&item);
                if plain != item {
                    copies.foreign.insert(plain.clone());
                }
                *copies.own.entry(plain).or_default() += 1;
            }
        }
        let dropped = |side: &Side<'_>| {
            count_items(source, base, side.changes.iter().map(|change| change.old.clone()))
        };
        let (by_ours, by_theirs) = (dropped(ours)?, dropped(theirs)?);
        let moved = by_ours.into_iter().map(|(item, count)| {
            let by_theirs = by_theirs.get(&item).copied().unwrap_or_default();
            (item, count.min(by_theirs))
        });
        copies.add_shared(moved);
        for list in also {
            let more = diff_lists(base, list, source)?;
            copies.add_shared(count_items(
                source,
                list,
                more.into_iter().map(|change| change.new),
            )?);
        }
        Ok(copies)
    }

    /// Adds messages that both sides already shared, as far as ours has them.
    fn add_shared(&mut self, items: impl IntoIterator<Item = (Item, usize)>) {
        for (item, count) in items {
            let own = self.own.get(&item).copied().unwrap_or_default();
            let known = self.known.entry(item).or_default();
            *known = count.min(own).max(*known);
        }
    }

    /// Returns true if ours already has a message of theirs. Each shared message matches once.
    fn take_match(&mut self, theirs: &Item) -> bool {
        let plain = without_origin(theirs);
        if self.foreign.contains(&plain) || plain != *theirs && self.own.contains_key(&plain) {
            return true;
        }
        let known = self.known.get_mut(&plain).filter(|left| **left > 0);
        known.map(|left| *left -= 1).is_some()
    }
}

/// Counts the messages in some ranges of a list, ignoring origins.
fn count_items(
    source: &dyn ObjectSource,
    list: &List,
    ranges: impl Iterator<Item = std::ops::Range<u64>>,
) -> Result<HashMap<Item, usize>> {
    let mut counts = HashMap::new();
    for range in ranges {
        for item in list.iter(source, range) {
            *counts.entry(without_origin(&item?)).or_default() += 1;
        }
    }
    Ok(counts)
}

/// A range of one side, in two parts: messages pinned to calls before it, and the rest.
struct SideRun {
    pinned: Vec<SideMessage>,
    rest: Vec<SideMessage>,
}

struct MessageMerge<'a> {
    reading: ConversationInputs<'a>,
    ours: &'a Side<'a>,
    theirs: &'a Side<'a>,
    copies: SharedMessages,
    /// Messages of theirs, or of ours, that were restored with a result; each only once.
    back: BTreeSet<(bool, u64)>,
}

impl MessageMerge<'_> {
    /// Merges a region of ours. Returns its new items, if it changes, and the number of messages of
    /// theirs in it.
    fn merge_region(&mut self, region: &Region, is_last: bool) -> Result<(Option<Vec<Item>>, u64)> {
        if !region.theirs_changed && !self.theirs.has_dropped_any() {
            return Ok((None, 0));
        }
        let mut own = self.ours.added_in(self.reading, &region.ours)?;
        let mut other = self.theirs.added_in(self.reading, &region.theirs)?;
        let same = |(own, other): &(&SideMessage, &SideMessage)| {
            without_origin(&own.item) == without_origin(&other.item)
        };
        let shared = own.iter().zip(&other).take_while(same).count();
        let both = region.ours_changed && region.theirs_changed;
        // If ours kept base messages here that theirs dropped, the region becomes shorter.
        let kept_any = region.ours.end - region.ours.start > own.len() as u64;
        if both && !kept_any && shared == own.len().max(other.len()) {
            return Ok((None, 0));
        }
        let mut items = plain_items(own.get(..shared).unwrap_or_default());
        own.drain(..shared);
        for message in other.drain(..shared) {
            self.copies.take_match(&message.item);
        }
        let before = own.len();
        let own = self.stretch(true, own)?;
        if !region.theirs_changed && own.pinned.len() + own.rest.len() == before {
            return Ok((None, 0));
        }
        let other = self.without_copies(other);
        let other = self.stretch(false, other)?;
        let taken = (other.pinned.len() + other.rest.len()) as u64;
        let origin = self.reading.origin;
        items.extend(plain_items(&own.pinned));
        items.extend(items_with_origin(&other.pinned, origin)?);
        let (mut own, other) = (own.rest, other.rest);
        // A call that waits for its result ends the conversation.
        let waiting = match units(&own, true).last() {
            Some(last) if is_last && is_waiting(own.get(last.clone()).unwrap_or_default()) => {
                own.split_off(last.start)
            }
            _ => Vec::new(),
        };
        match (self.ours.has_dropped_in(region), self.theirs.has_dropped_in(region)) {
            (false, false) => items.extend(interleave(&own, &other, origin)?),
            (false, true) => {
                items.extend(items_with_origin(&other, origin)?);
                items.extend(plain_items(&own));
            }
            (true, _) => {
                items.extend(plain_items(&own));
                items.extend(items_with_origin(&other, origin)?);
            }
        }
        items.extend(plain_items(&waiting));
        Ok((Some(items), taken))
    }

    /// Returns the messages of theirs that ours lacks. If any message of a call and its results is
    /// new, all are returned.
    fn without_copies(&mut self, other: Vec<SideMessage>) -> Vec<SideMessage> {
        let mut is_new = Vec::with_capacity(other.len());
        for unit in units(&other, false) {
            let unit = other.get(unit).unwrap_or_default();
            let copies = unit.iter().filter(|m| self.copies.take_match(&m.item)).count();
            is_new.resize(is_new.len() + unit.len(), copies < unit.len());
        }
        let new = other.into_iter().zip(is_new).filter(|(_, is_new)| *is_new);
        new.map(|(message, _)| message).collect()
    }

    /// Adds calls to `messages` whose results are in it and that the other side dropped. Also
    /// determines how many messages belong to earlier calls that the other side kept.
    fn stretch(&mut self, is_ours: bool, mut messages: Vec<SideMessage>) -> Result<SideRun> {
        let (side, other) =
            if is_ours { (self.ours, self.theirs) } else { (self.theirs, self.ours) };
        let first = messages.first().map_or(0, |message| message.at);
        let mut wanted = missing_calls(&messages);
        let place = |result: usize| messages.get(result).map_or(0, |message| message.at);
        let last = wanted.iter().map(|(_, result)| place(*result)).max().unwrap_or(0);
        let (mut pinned, mut dropped) = (0, BTreeSet::new());
        for at in (first.saturating_sub(MAX_LOOK_BACK)..last).rev() {
            if wanted.is_empty() {
                break;
            }
            let Some(in_base) = side.base_of(at) else { continue };
            let Some(message) = side.read(self.reading, at)? else { break };
            wanted.retain(|(call, result)| {
                if !message.has_call(call) || place(*result) <= at {
                    return true;
                }
                if other.has_dropped(in_base) {
                    dropped.extend(at..place(*result));
                } else {
                    pinned = pinned.max(result + 1);
                }
                false
            });
        }
        let mut back = Vec::new();
        for at in dropped {
            let is_dropped = side.base_of(at).is_some_and(|in_base| other.has_dropped(in_base));
            if is_dropped && self.back.insert((is_ours, at)) {
                back.extend(side.read(self.reading, at)?);
            }
        }
        // A unit is pinned as a whole.
        let unit = units(&messages, false).into_iter().find(|unit| unit.end >= pinned);
        let pinned = unit.filter(|_| pinned > 0).map_or(0, |unit| unit.end);
        let mut rest = messages.split_off(pinned);
        rest.append(&mut back);
        rest.sort_by_key(|message| message.at);
        Ok(SideRun { pinned: messages, rest })
    }
}

/// Returns the items of messages of ours.
fn plain_items(messages: &[SideMessage]) -> Vec<Item> {
    messages.iter().map(|message| message.item.clone()).collect()
}

/// Returns the items of messages of theirs, marked with their origin.
fn items_with_origin(messages: &[SideMessage], origin: &str) -> Result<Vec<Item>> {
    messages.iter().map(|message| with_origin(&message.item, origin)).collect()
}

/// Merges the messages of both sides by time, unit by unit; ours first at equal times.
fn interleave(own: &[SideMessage], other: &[SideMessage], origin: &str) -> Result<Vec<Item>> {
    let mut items = Vec::with_capacity(own.len() + other.len());
    let mut own_units = timed_units(own).into_iter().peekable();
    for (time, unit) in timed_units(other) {
        while let Some((_, unit)) = own_units.next_if(|(own_time, _)| *own_time <= time) {
            items.extend(plain_items(unit));
        }
        items.extend(items_with_origin(unit, origin)?);
    }
    items.extend(own_units.flat_map(|(_, unit)| plain_items(unit)));
    Ok(items)
}

/// Returns the units of a side with their times, made non-decreasing: the order of a side takes
/// precedence over its clock.
fn timed_units(messages: &[SideMessage]) -> Vec<(Option<Time>, &[SideMessage])> {
    let mut latest = None;
    let timed = units(messages, true).into_iter().map(|unit| {
        let unit = messages.get(unit).unwrap_or_default();
        latest = latest.max(unit.first().map(|message| message.time));
        (latest, unit)
    });
    timed.collect()
}
