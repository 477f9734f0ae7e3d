//! The prompts of a rollout, and the markers that roll the last ones back.
//!
//! A marker, `thread_rolled_back`, counts prompts only: several markers add up, and a marker after
//! a compaction undoes it if the last remaining prompt precedes it. The context that the client
//! inserts right before a prompt is removed with the prompt. Items before the first prompt remain.

use serde::{Deserialize, Serialize};

use crate::model::event::Event;

/// The part of an item of the conversation in a rollback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemPart {
    /// A prompt, of the user or of another agent.
    Prompt,
    /// Context that the client inserts before a prompt.
    Context,
    /// Any other item.
    Other,
}

/// The prompts that remain.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Prompts {
    /// Pieces seen, with the current one.
    pieces: u64,
    /// For each prompt, the number of pieces that remain when it is rolled back.
    kept: Vec<u64>,
    /// The number of pieces before the context that precedes the current piece.
    before_context: Option<u64>,
}

impl Prompts {
    /// Passes a piece.
    pub(super) fn piece(&mut self) {
        self.pieces += 1;
    }

    /// The current piece is an item of the conversation.
    pub(super) fn item(&mut self, part: ItemPart) {
        let before = self.pieces.saturating_sub(1);
        match part {
            ItemPart::Context => {
                self.before_context.get_or_insert(before);
            }
            ItemPart::Other => self.before_context = None,
            ItemPart::Prompt => {
                let context = self.before_context.take().filter(|_| !self.kept.is_empty());
                self.kept.push(context.unwrap_or(before));
            }
        }
    }

    /// Rolls back the last `count` prompts, as the current piece requests; `None` if there are
    /// none.
    pub(super) fn take_back(&mut self, count: u64) -> Option<Event> {
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(self.kept.len());
        let kept = self.kept.drain(self.kept.len() - count..).next()?;
        self.before_context = None;
        Some(Event::Rewind { at: self.pieces.saturating_sub(1), to: kept.checked_sub(1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays items, of which `-2` is a mark that takes two prompts back; returns where the marks go.
    fn played(items: &str) -> Vec<Option<u64>> {
        let mut prompts = Prompts::default();
        let mut went = Vec::new();
        for item in items.split_whitespace() {
            prompts.piece();
            match item {
                "p" => prompts.item(ItemPart::Prompt),
                "c" => prompts.item(ItemPart::Context),
                "a" => prompts.item(ItemPart::Other),
                "." => {}
                mark => {
                    let count = mark.trim_start_matches('-').parse().unwrap();
                    went.extend(prompts.take_back(count).map(|event| match event {
                        Event::Rewind { to, .. } => to,
                        other => panic!("{other:?}"),
                    }));
                }
            }
        }
        went
    }

    #[test]
    fn marks_count_prompts_and_add_up() {
        for (items, expected) in [
            // The context of the first prompt stays; the context of a later prompt is removed with
            // it.
            (". c p a -1", vec![Some(1)]),
            ("p a -1", vec![None]),
            (". c p a . c c p a -1", vec![Some(4)]),
            // A second prompt while the model works is one of its own.
            (". p a p a -1", vec![Some(2)]),
            (". p a p a p a -2", vec![Some(2)]),
            (". p a p a p a -1 -1", vec![Some(4), Some(2)]),
            (". p a p a -1 p a -1 -1", vec![Some(2), Some(5), Some(0)]),
            (". p a p a -9", vec![Some(0)]),
            (". p a -0", vec![]),
            (". a -1", vec![]),
        ] {
            assert_eq!(played(items), expected, "{items}");
        }
    }
}
