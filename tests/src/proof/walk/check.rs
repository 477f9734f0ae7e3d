//! Checks a merge: no content of either side is lost, none is doubled, and incompatible changes by
//! both sides are an open conflict with both versions.

use std::collections::BTreeSet;

use turntree::context::{MergeSide, MessagePolicy, OpenConflict};
use turntree::object::{Kind, ObjectId};

use super::model::{Content, MAPS};

/// The inputs and the result of a merge.
pub(super) struct Merged<'a> {
    pub(super) base: &'a Content,
    /// The contents of the other best common ancestors.
    pub(super) also: Vec<&'a Content>,
    pub(super) ours: &'a Content,
    pub(super) theirs: &'a Content,
    pub(super) found: &'a Content,
    /// Paths that the merge reported as conflicts.
    pub(super) conflicts: BTreeSet<String>,
    /// All open conflicts of the inputs.
    pub(super) open: Vec<OpenConflict>,
}

impl Merged<'_> {
    /// Checks the maps and the conversation.
    pub(super) fn check(&self, policy: &MessagePolicy) {
        for map in MAPS {
            self.map(map);
        }
        self.conversation(policy);
    }

    fn map(&self, map: &str) {
        let sides = [self.base, self.ours, self.theirs, self.found];
        let keys: BTreeSet<&String> =
            sides.iter().filter_map(|side| side.maps.get(map)).flat_map(|map| map.keys()).collect();
        for key in keys {
            let [base, ours, theirs, found] = sides.map(|side| side.entry(map, key));
            let path = format!("{map}/{key}");
            if ours == theirs || theirs == base {
                assert_eq!(found, ours, "{path} is as in ours");
            } else if ours == base {
                assert_eq!(found, theirs, "{path} is as in theirs");
            } else if self.conflicts.contains(&path) {
                self.conflict(&path, [ours, theirs]);
            } else {
                let sides = [base, ours, theirs, found].map(|text| text.map_or("", |text| text));
                assert!(ours.is_some() && theirs.is_some(), "{path} is missing without a conflict");
                lines(&path, sides);
            }
        }
    }

    fn conflict(&self, path: &str, [ours, theirs]: [Option<&String>; 2]) {
        let open = self.open.iter().find(|open| open.path == path);
        let open = open.unwrap_or_else(|| panic!("the conflict of {path} is open"));
        for (version, text) in [(MergeSide::Ours, ours), (MergeSide::Theirs, theirs)] {
            let kept = open.item(version).map(|item| item.link.id);
            let text = text.map(|text| ObjectId::of(Kind::Blob, text.as_bytes()));
            assert_eq!(kept, text, "{path} as in {version:?}");
        }
    }

    fn conversation(&self, policy: &MessagePolicy) {
        let sides = [self.base, self.ours, self.theirs, self.found];
        let [base, ours, theirs, found] = sides.map(|side| &side.messages);
        let one_side = if ours == base {
            Some((theirs, MessagePolicy::Ours, ours))
        } else if theirs == base || theirs == ours {
            Some((ours, MessagePolicy::Theirs, theirs))
        } else {
            None
        };
        if let Some((changed, other_policy, other)) = one_side {
            // A side whose messages differ only in their origin may count as changed.
            let is_other = *policy == other_policy && found == other;
            assert!(found == changed || is_other, "one side changed: {sides:#?}");
            return;
        }
        // If one side dropped the conversation, the result is the other side's. A conversation
        // without messages counts as dropped.
        let other = if ours.is_empty() { theirs } else { ours };
        if found == other && (ours.is_empty() || theirs.is_empty()) {
            return;
        }
        match policy {
            MessagePolicy::Ours => assert_eq!(found, ours),
            MessagePolicy::Theirs => assert_eq!(found, theirs),
            MessagePolicy::Append | MessagePolicy::Summary(_) => self.appended(),
        }
    }

    /// Checks a conversation that both sides continued.
    fn appended(&self) {
        let (ours, theirs, found) = (self.ours, self.theirs, self.found);
        let all = [self.base, ours, theirs, found];
        let words: BTreeSet<&String> = all.iter().flat_map(|side| &side.messages).collect();
        for word in words {
            let [base, own, other, found] = all.map(|side| side.count(word));
            let also = self.also.iter().map(|also| also.count(word)).max().unwrap_or(0);
            let says = || format!("{word}: {base}, {own}, {other} and {also} are {found}");
            assert!(own + other > 0 || found == 0, "no side wrote {}", says());
            if base.max(own).max(other).max(also) > 1 {
                // Of several equal messages, each side may drop or move a different one.
                assert!(found <= own + other, "too often: {}", says());
                continue;
            }
            let must_stay = own + other == 2 || base == 0;
            assert!(found > 0 || !must_stay, "lost: {}", says());
            // A message that both sides added independently appears twice, even if both are equal.
            let is_two = base + also == 0 && own + other == 2;
            assert!(found < 2 || is_two, "doubled: {}", says());
        }
        for (side, other) in [(ours, theirs), (theirs, ours)] {
            let is_own = |word: &&String| {
                side.count(word) == 1 && self.base.count(word) + other.count(word) == 0
            };
            let order: Vec<&String> = side.messages.iter().filter(is_own).collect();
            let kept: Vec<&String> = found.messages.iter().filter(is_own).collect();
            assert_eq!(order, kept, "messages of one side keep their order");
        }
    }
}

/// Checks a text that was merged by lines without a conflict.
fn lines(path: &str, sides: [&str; 4]) {
    let all: BTreeSet<&str> = sides.iter().flat_map(|text| text.lines()).collect();
    for line in all {
        let count = |text: &str| text.lines().filter(|own| *own == line).count();
        let [base, own, other, found] = sides.map(count);
        // Of several equal lines in the base, each side may have removed a different one.
        let least = match base {
            0 => own.max(other),
            1 => own.min(other).min(1),
            _ => 0,
        };
        assert!(found >= least, "{path}: the line {line:?} is lost: {sides:#?}");
        assert!(
            own + other > 0 || found == 0,
            "{path}: the line {line:?} is from no side: {sides:#?}"
        );
    }
}
