//! The events of OpenHands that are sent to the model, and what a condensation leaves of them.

use std::ops::Range;

use turntree::context::MAIN_AGENT;

use crate::model::event::{Event, MessageEvent};

/// An event that a condensation may forget.
#[derive(Debug)]
struct Seen {
    id: String,
    /// False for the system prompt, which is a section of its own.
    is_message: bool,
}

/// The events that are sent to the model, in order.
#[derive(Debug, Default)]
pub(super) struct SentEvents(Vec<Seen>);

/// The summary of a condensation.
pub(super) struct Summary {
    /// Its position among the events that stay.
    pub(super) offset: u64,
    /// The id for later condensations.
    pub(super) id: String,
    pub(super) message: MessageEvent,
}

impl SentEvents {
    /// Adds an event, which is a message of the conversation or the system prompt.
    pub(super) fn add(&mut self, id: String, is_message: bool) {
        self.0.push(Seen { id, is_message });
    }

    /// Returns the number of messages.
    pub(super) fn messages(&self) -> u64 {
        self.0.iter().filter(|seen| seen.is_message).count() as u64
    }

    /// Keeps the events up to the first `messages` messages.
    pub(super) fn truncate(&mut self, messages: u64) {
        let mut passed = 0;
        let stays = |seen: &&Seen| {
            passed += u64::from(seen.is_message);
            passed <= messages
        };
        let len = self.0.iter().take_while(stays).count();
        self.0.truncate(len);
    }

    /// Removes the forgotten events and inserts the summary.
    pub(super) fn condense(
        &mut self,
        is_forgotten: impl Fn(&str) -> bool,
        summary: Option<Summary>,
    ) -> Event {
        let (mut kept, mut sent, mut at) = (Vec::new(), Vec::new(), 0);
        for seen in std::mem::take(&mut self.0) {
            let place = seen.is_message.then_some(at);
            at += u64::from(seen.is_message);
            if !is_forgotten(&seen.id) {
                kept.push(place);
                sent.push(seen);
            }
        }
        let offset = |summary: &Summary| usize::try_from(summary.offset).unwrap_or(usize::MAX);
        let offset = summary.as_ref().map_or(kept.len(), offset).min(kept.len());
        let (before, after) = kept.split_at(offset);
        let (before, after) = (ranges(before), ranges(after));
        let mut messages = Vec::new();
        if let Some(Summary { id, message, .. }) = summary {
            sent.insert(offset, Seen { id, is_message: true });
            messages.push(message);
        }
        self.0 = sent;
        let agent = MAIN_AGENT.to_owned();
        Event::Rearrange { agent, before, summary: messages, after }
    }
}

/// The places of messages, as ranges.
fn ranges(places: &[Option<u64>]) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for at in places.iter().flatten() {
        match ranges.last_mut().filter(|range| range.end == *at) {
            Some(range) => range.end += 1,
            None => ranges.push(*at..at + 1),
        }
    }
    ranges
}
