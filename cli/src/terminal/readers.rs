//! Threads that read the store, so that no key ever waits for it.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::content::Question;
use super::event::Event;
use super::read::answer;
use crate::program::held_store::HeldStore;
use crate::view::clock;
use crate::view::error::Failure;

/// A question of a screen.
type Asked = (u64, Question);

/// A thread each for lists, for texts and for searches: none waits for another kind.
#[derive(Debug)]
pub(super) struct Readers {
    lists: Sender<Asked>,
    texts: Sender<Asked>,
    searches: Sender<Asked>,
}

impl Readers {
    /// Begins to read; answers are events.
    pub(super) fn start(store: &Arc<HeldStore>, events: &Sender<Event>) -> Self {
        let start = || {
            let (sender, asked) = channel();
            let (store, events) = (Arc::clone(store), events.clone());
            thread::spawn(move || read(&store, &asked, &events));
            sender
        };
        Self { lists: start(), texts: start(), searches: start() }
    }

    /// Asks; who asks again before there was an answer is only answered once.
    pub(super) fn ask(&self, screen: u64, question: Question) {
        let reader = match question {
            Question::Said(_) | Question::Changes(_) => &self.texts,
            Question::Search { .. } => &self.searches,
            _ => &self.lists,
        };
        // A reader lives as long as this.
        let _ = reader.send((screen, question));
    }
}

/// Answers questions until nobody asks any more. Of those of one screen that wait, the last one counts.
fn read(store: &HeldStore, asked: &Receiver<Asked>, events: &Sender<Event>) {
    while let Ok(first) = asked.recv() {
        let mut waiting: Vec<Asked> = std::iter::once(first).chain(asked.try_iter()).collect();
        let mut screens = HashSet::new();
        waiting.reverse();
        waiting.retain(|(screen, _)| screens.insert(*screen));
        for (screen, question) in waiting.into_iter().rev() {
            let answered =
                store.repo(Ok).and_then(|repo| answer(store, &repo, &question, clock::now()?));
            let answer = Box::new(answered.map_err(|failure: Failure| failure.with_advice()));
            if events.send(Event::Answer { screen, question, answer }).is_err() {
                return;
            }
        }
    }
}
