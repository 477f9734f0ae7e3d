//! Random histories: branches that fork and merge, with entries that are set, removed and set
//! again. The content of each turn is kept next to the store.

use std::collections::BTreeMap;

use proptest::prelude::*;
use turntree::context::{Builder, FileMode, MessageEntry, Role};
use turntree::object::{Commit, Kind, ObjectId, ObjectSink, Time};
use turntree::repo::{BranchName, Repository};

use crate::{Sandbox, stamp};

/// The words of values: few, so that they repeat.
const WORDS: [&str; 6] = ["alpha", "beta", "gamma", "say \"beta\"", "été\nalpha", ""];
const KEYS: [&str; 4] = ["a", "b", "dir/c", "dir/d"];
const BRANCHES: [&str; 3] = ["main", "one", "two"];

/// A change in a turn.
#[derive(Debug, Clone)]
pub enum Act {
    /// Sets a key of the scratchpad, or removes it.
    Note(usize, Option<usize>),
    /// Writes a file of lines, or removes it.
    File(usize, Option<Vec<usize>>),
    /// Adds a message.
    Say(usize),
    /// Removes a message.
    Unsay(usize),
}

/// A turn on a branch, optionally with the tip of another branch as a second parent.
#[derive(Debug, Clone)]
pub struct Step {
    branch: usize,
    merge: Option<usize>,
    acts: Vec<Act>,
}

/// The content of a context.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    /// The scratchpad.
    pub notes: BTreeMap<String, String>,
    /// The files.
    pub files: BTreeMap<String, String>,
    /// The messages as text. Equal messages are one blob.
    pub messages: Vec<String>,
}

/// A turn and its expected content.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The commit.
    pub id: ObjectId,
    /// The sort key of turns.
    pub order: (u64, Time, ObjectId),
    /// The parents, as positions in the history.
    pub parents: Vec<usize>,
    /// The content.
    pub content: Content,
}

/// A history in a store.
pub struct RandomHistory {
    /// The store.
    pub sandbox: Sandbox,
    /// The turns, in the order in which they were made.
    pub turns: Vec<Turn>,
    /// The newest turn of each branch.
    pub tips: BTreeMap<String, usize>,
}

/// Steps at random.
pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let word = 0..WORDS.len();
    let act = prop_oneof![
        (0..KEYS.len(), prop::option::of(word.clone()))
            .prop_map(|(key, word)| Act::Note(key, word)),
        (0..KEYS.len(), prop::option::of(prop::collection::vec(word.clone(), 0..6)))
            .prop_map(|(key, words)| Act::File(key, words)),
        word.prop_map(Act::Say),
        (0..4_usize).prop_map(Act::Unsay),
    ];
    let merge = prop::option::weighted(0.3, 0..BRANCHES.len());
    let step = (0..BRANCHES.len(), merge, prop::collection::vec(act, 0..4))
        .prop_map(|(branch, merge, acts)| Step { branch, merge, acts });
    prop::collection::vec(step, 1..14)
}

impl RandomHistory {
    /// Commits the steps.
    ///
    /// # Panics
    /// If the library fails.
    #[must_use]
    pub fn new(steps: &[Step]) -> Self {
        let (sandbox, turns) = (Sandbox::new(), Vec::new());
        let mut history = Self { sandbox, turns, tips: BTreeMap::new() };
        for step in steps {
            history.take(step);
        }
        history
    }

    /// The positions of some turns and all their ancestors, unsorted.
    #[must_use]
    pub fn reachable(&self, from: &[usize]) -> Vec<usize> {
        let (mut seen, mut open) = (Vec::new(), from.to_vec());
        while let Some(at) = open.pop() {
            if !seen.contains(&at) {
                seen.push(at);
                open.extend(&self.turns[at].parents);
            }
        }
        seen
    }

    /// The position of a commit.
    ///
    /// # Panics
    /// If it is not in this history.
    #[must_use]
    pub fn position(&self, id: &ObjectId) -> usize {
        self.turns.iter().position(|turn| turn.id == *id).unwrap()
    }

    fn take(&mut self, step: &Step) {
        let name = BRANCHES[step.branch];
        let own = self.tips.get(name).or_else(|| self.tips.get(BRANCHES[0])).copied();
        let other = step.merge.and_then(|merge| self.tips.get(BRANCHES[merge]).copied());
        let mut parents: Vec<usize> = own.into_iter().chain(other).collect();
        parents.dedup();
        let mut content = own.map(|own| self.turns[own].content.clone()).unwrap_or_default();
        if let Some(other) = other {
            // A merge adds the entries that the branch lacks.
            let other = self.turns[other].content.clone();
            for (key, value) in other.notes {
                content.notes.entry(key).or_insert(value);
            }
            for (key, value) in other.files {
                content.files.entry(key).or_insert(value);
            }
        }
        step.acts.iter().for_each(|act| content.act(act));
        self.add(name, parents, content);
    }

    /// Adds a turn to a branch, and returns its position.
    ///
    /// # Panics
    /// If the library fails.
    pub fn add(&mut self, branch: &str, parents: Vec<usize>, content: Content) -> usize {
        let number = i64::try_from(self.turns.len()).unwrap() + 1;
        let turn = self.commit(branch, number, parents, content);
        self.tips.insert(branch.to_owned(), self.turns.len());
        self.turns.push(turn);
        self.turns.len() - 1
    }

    fn commit(&self, name: &str, number: i64, parents: Vec<usize>, content: Content) -> Turn {
        let repo: &Repository = &self.sandbox.repo;
        let (mut change, stamp) = (repo.begin(), stamp(number));
        let tree = content.write(&mut change);
        let turn = parents.iter().map(|at| self.turns[*at].order.0).max().unwrap_or(0) + 1;
        let commit = Commit {
            tree,
            parents: parents.iter().map(|at| self.turns[*at].id).collect(),
            session: "s".to_owned(),
            turn,
            author: turntree::object::Author::default(),
            time: stamp.time,
            trigger: turntree::object::Trigger::Turn,
            message: format!("turn {number}"),
            metadata: BTreeMap::new(),
        };
        let id = change.write(Kind::Commit, commit.encode().into()).unwrap();
        change.move_branch(&BranchName::new("s", name).unwrap(), Some(id));
        change.commit(&stamp, "turn").unwrap();
        Turn { id, order: (turn, stamp.time, id), parents, content }
    }
}

impl Content {
    fn act(&mut self, act: &Act) {
        match act {
            Act::Note(key, None) => drop(self.notes.remove(KEYS[*key])),
            Act::Note(key, Some(word)) => {
                self.notes.insert(KEYS[*key].to_owned(), WORDS[*word].to_owned());
            }
            Act::File(key, None) => drop(self.files.remove(KEYS[*key])),
            Act::File(key, Some(words)) => {
                let lines = words.iter().map(|word| format!("{}\n", WORDS[*word]));
                self.files.insert(KEYS[*key].to_owned(), lines.collect());
            }
            Act::Say(word) => self.messages.push(WORDS[*word].to_owned()),
            Act::Unsay(at) if *at < self.messages.len() => drop(self.messages.remove(*at)),
            Act::Unsay(_) => {}
        }
    }

    fn write(&self, sink: &mut dyn ObjectSink) -> ObjectId {
        let mut builder = Builder::new();
        for (key, value) in &self.notes {
            builder.set_entry(sink, "scratchpad", key, Some(value.clone().into())).unwrap();
        }
        for (key, value) in &self.files {
            let file = Some((FileMode::Regular, value.clone().into()));
            builder.set_file(sink, key, file).unwrap();
        }
        for text in &self.messages {
            let record = serde_json::json!({"role": "user", "content": text}).to_string();
            let blob = sink.write(Kind::Blob, record.into()).unwrap();
            let entry = MessageEntry::new(blob, Role::User, "json");
            builder.push_message(sink, "main", &entry).unwrap();
        }
        builder.write(sink).unwrap()
    }

    /// The number of each entry, by section, key and text. Entries of lists have no key.
    #[must_use]
    pub fn entries(&self) -> BTreeMap<(&str, &str, &str), usize> {
        let mut entries = BTreeMap::new();
        for (section, map) in [("scratchpad", &self.notes), ("files", &self.files)] {
            for (key, value) in map {
                entries.insert((section, key.as_str(), value.as_str()), 1);
            }
        }
        for text in &self.messages {
            *entries.entry((MESSAGES, "", text.as_str())).or_default() += 1;
        }
        entries
    }
}

/// The section of the messages.
pub const MESSAGES: &str = "agents/main/messages";
