//! Threads that read the store, so that a key never waits for it.

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

/// A question with the id of its screen.
type Asked = (u64, Question);

/// One thread each for lists, texts and searches, so that no kind waits for another.
#[derive(Debug)]
pub(super) struct Readers {
    lists: Sender<Asked>,
    texts: Sender<Asked>,
    searches: Sender<Asked>,
}

impl Readers {
    /// Starts the threads; answers are sent as events.
    pub(super) fn start(store: &Arc<HeldStore>, events: &Sender<Event>) -> Self {
        let start = || {
            let (sender, asked) = channel();
            let (store, events) = (Arc::clone(store), events.clone());
            thread::spawn(move || read(&store, &asked, &events));
            sender
        };
        Self { lists: start(), texts: start(), searches: start() }
    }

    /// Queues a question. If a screen asks again before it was answered, only its last question is
    /// answered.
    pub(super) fn ask(&self, screen: u64, question: Question) {
        let reader = match question {
            Question::Said(_) | Question::Changes(_) => &self.texts,
            Question::Search { .. } => &self.searches,
            _ => &self.lists,
        };
        // The reader thread lives as long as this sender.
        let _ = reader.send((screen, question));
    }
}

/// Answers questions until the sender is dropped. Of the waiting questions of a screen, only the
/// last one is answered.
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
