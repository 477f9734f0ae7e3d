//! Counts prompts: the turns in which a person asked for something, along the first parents of a
//! branch.
//!
//! A turn is a prompt if it adds a message of a person to the conversation of the main agent.
//! Compactions, merges, rollbacks and restores repeat earlier messages, so they are not prompts.
//! Numbers count first parents from the beginning. They stay the same while the branch grows,
//! whatever contexts still exist.
//!
//! A writer that knows its messages records the number in the metadata of the commit: [`PROMPT`] in
//! a prompt, [`PROMPTS`] in every other turn. Without either, the turn is compared with its parent
//! and its new messages are read; these counts are cached next to the store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::earlier_turns::TurnWalk;
use super::prompt_cache::{CountBasis, PromptPlace};
use crate::context::sections::MAIN_MESSAGES;
use crate::context::{Context, MessageEntry, Role, Section, Selection};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Commit, Kind, ObjectId, ObjectSource, Trigger};
use crate::repo::{BranchName, Grafts, LogEntry, RESTORED_FROM, Repository, Transaction};
use crate::tree::{Item, List, diff_lists};

/// The metadata key of a prompt: its number, starting at 1.
pub const PROMPT: &str = "prompt";

/// The metadata key of every other turn: the number of prompts before it.
pub(crate) const PROMPTS: &str = "prompts";

/// Returns true if a message with the role of the user is by a person, given the format of its
/// record and its bytes. The caller supplies it, because this layer knows no transcript formats.
pub type IsPrompt<'r> = &'r dyn Fn(&str, &[u8]) -> bool;

/// Counts by commit.
#[derive(Debug, Default)]
struct CountedPrompts {
    places: HashMap<ObjectId, PromptPlace>,
    /// The basis of the counts when the cached ones were loaded.
    basis: Option<CountBasis>,
}

/// The counts of a handle, valid until history is freed.
#[derive(Debug, Default)]
pub(in crate::repo) struct KnownPrompts {
    grafts: Arc<Grafts>,
    epoch: u64,
    counted: Arc<Mutex<CountedPrompts>>,
}

/// Counts prompts and remembers the counts.
#[expect(missing_debug_implementations, reason = "it holds the caller's function")]
pub struct Prompts<'r> {
    repo: &'r Repository,
    grafts: Arc<Grafts>,
    is_prompt: Option<IsPrompt<'r>>,
    counted: Arc<Mutex<CountedPrompts>>,
    /// True if counts are cached for other processes.
    is_kept: bool,
    /// The conversation of the context read last, by its tree.
    last_section: Option<(ObjectId, Option<Section>)>,
    /// The list read last, by its root.
    last_list: Option<(ObjectId, List)>,
}

impl Repository {
    /// Returns a counter of prompts. `is_prompt` tells messages of persons from those of clients;
    /// without it every message of the user counts. Counts made with it are remembered for the life
    /// of this handle and cached by [`Repository::keeping_notes`], so all calls must pass the same
    /// function. A later count does not walk back to the beginning again.
    ///
    /// # Errors
    /// Errors of reading the grafts.
    pub fn prompts<'r>(&'r self, is_prompt: Option<IsPrompt<'r>>) -> Result<Prompts<'r>> {
        let prompts = Prompts::new(self, is_prompt)?;
        if is_prompt.is_none() {
            return Ok(prompts);
        }
        let counted = self.known_prompts(&prompts.grafts);
        Ok(Prompts { counted, is_kept: self.note_keeper().is_some(), ..prompts })
    }
}

impl Repository {
    /// Returns the counts of this handle. Starts over when commits or contexts may have been freed,
    /// so that a server answers like a process that just opened the store.
    fn known_prompts(&self, grafts: &Arc<Grafts>) -> Arc<Mutex<CountedPrompts>> {
        let mut known = self.prompts.lock().unwrap_or_else(PoisonError::into_inner);
        let epoch = self.store().epoch();
        if known.epoch != epoch || known.grafts != *grafts {
            let grafts = Arc::clone(grafts);
            *known = KnownPrompts { grafts, epoch, counted: Arc::default() };
        }
        Arc::clone(&known.counted)
    }
}

impl Transaction<'_> {
    /// Returns the metadata about prompts for the next turn of `branch`.
    ///
    /// # Errors
    /// Errors of [`Prompts::count`].
    pub fn prompt_note(
        &self,
        branch: &BranchName,
        is_prompt: bool,
        reads: IsPrompt<'_>,
    ) -> Result<(String, String)> {
        let mut before = 0;
        let mut next = self.tip(branch);
        while let Some(id) = next {
            let commit = self.read_commit(&id)?;
            if let Some(place) = recorded_place(&commit) {
                before = place.count;
                break;
            }
            if self.repo().store().contains(&id)? {
                // An importer knows the prompts of its own format only, so its counts are not
                // shared.
                before = Prompts::new(self.repo(), Some(reads))?.count(&id)?;
                break;
            }
            next = commit.parents.first().copied();
        }
        let (key, number) = if is_prompt { (PROMPT, before + 1) } else { (PROMPTS, before) };
        Ok((key.to_owned(), number.to_string()))
    }
}

impl<'r> Prompts<'r> {
    /// Starts without counts; results are not cached.
    fn new(repo: &'r Repository, is_prompt: Option<IsPrompt<'r>>) -> Result<Self> {
        let grafts = repo.grafts()?;
        let (last_section, last_list) = (None, None);
        let (counted, is_kept) = (Arc::default(), false);
        Ok(Self { repo, grafts, is_prompt, counted, is_kept, last_section, last_list })
    }

    /// Returns the number of prompts up to and including the commit `id`.
    ///
    /// Reads one commit if its writer recorded the number. Otherwise reads the commits back to one
    /// with a recorded or a known number, and the messages that each added.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming the unreadable object.
    pub fn count(&mut self, id: &ObjectId) -> Result<u64> {
        let commit = self.repo.commit(id)?;
        Ok(self.place(*id, &commit)?.count)
    }

    /// Returns the number of a turn among the prompts; `None` if the turn is not a prompt.
    ///
    /// # Errors
    /// Errors of [`Prompts::count`].
    pub fn number(&mut self, entry: &LogEntry) -> Result<Option<u64>> {
        let place = self.place(entry.id, &entry.commit)?;
        Ok(place.is_prompt.then_some(place.count))
    }

    /// Returns the turn of a prompt: the `number`-th of the line that ends in `from`. A negative
    /// number counts back from the end, without prompts that a rollback of the part `only` undid.
    ///
    /// # Errors
    /// `NotFound` with the number of prompts. `Expired` if even the commit was forgotten.
    pub fn find(&mut self, from: &ObjectId, number: i64, only: &Selection) -> Result<ObjectId> {
        let Ok(wanted) = u64::try_from(number) else {
            return self.nth_last(from, number.unsigned_abs(), only);
        };
        let tip = self.repo.commit(from)?;
        let count = self.place(*from, &tip)?.count;
        let missing = || Error::not_found(format!("there is no prompt {number}: {}", has(count)));
        if wanted > count {
            return Err(missing());
        }
        for entry in self.repo.history(&[*from], &[])?.first_parent() {
            let entry = entry?;
            let place = self.place(entry.id, &entry.commit)?;
            if place.is_prompt && place.count == wanted {
                return Ok(entry.id);
            }
            if place.count < wanted {
                // The commit itself was forgotten.
                return Err(self.repo.expired(entry.commit.turn + 1, &tip.session));
            }
        }
        Err(missing())
    }

    /// Returns the turn before the one of [`Prompts::find`], for a caller that restores the part
    /// `only` of its context.
    ///
    /// # Errors
    /// `NotFound` when there are fewer prompts, or no turn before them. `Expired` when even the
    /// commits were forgotten. Both have [`Availability`](crate::repo::Availability) as the source.
    pub fn before(&mut self, from: &ObjectId, number: i64, only: &Selection) -> Result<ObjectId> {
        let prompt = self.find(from, number, only)?;
        self.repo.turns_before(&prompt, 1, only).map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                let nothing = "no turn was recorded before the first prompt";
                match self
                    .repo
                    .commit(&prompt)
                    .and_then(|it| self.repo.oldest_available(&it.session))
                {
                    Ok(available) => Error::not_found(nothing).with_source(available),
                    Err(_) => Error::not_found(nothing),
                }
            }
            _ => error,
        })
    }

    /// Returns the `back`-th prompt from the end, without rolled-back prompts; 1 is the last.
    fn nth_last(&mut self, from: &ObjectId, back: u64, only: &Selection) -> Result<ObjectId> {
        let (repo, grafts) = (self.repo, self.grafts.clone());
        let walk = TurnWalk { repo, grafts: &grafts, only };
        let (mut at, mut commit) = walk.place(*from)?;
        let mut met = 0;
        loop {
            let place = self.place(at, &commit)?;
            met += u64::from(place.is_prompt);
            if place.is_prompt && met == back {
                return Ok(at);
            }
            let parent = if place.count == 0 { None } else { walk.parent(&commit)? };
            let Some(parent) = parent else {
                let message = format!("cannot go back {back} prompts: {}", has(met));
                let error = Error::not_found(message);
                return Err(match repo.oldest_available(&commit.session) {
                    Ok(available) => error.with_source(available),
                    Err(_) => error,
                });
            };
            (at, commit) = walk.place(parent)?;
        }
    }

    fn place(&mut self, id: ObjectId, commit: &Commit) -> Result<PromptPlace> {
        let mut open: Vec<(ObjectId, bool)> = Vec::new();
        let (mut at, mut commit) = (id, commit.clone());
        let mut count = loop {
            // A recorded number needs no cache.
            if let Some(place) = recorded_place(&commit).or_else(|| self.known_place(&at)) {
                if open.is_empty() {
                    return Ok(place);
                }
                break place.count;
            }
            let parent = self.grafts.parents(&commit).first().copied();
            let before = parent.map(|parent| self.repo.commit(&parent)).transpose()?;
            open.push((at, self.has_prompt(&commit, before.as_ref())?));
            match parent.zip(before) {
                Some(next) => (at, commit) = next,
                None => break 0,
            }
        };
        let place = |(id, is_prompt): (ObjectId, bool)| {
            count += u64::from(is_prompt);
            (id, PromptPlace { count, is_prompt })
        };
        let found: Vec<(ObjectId, PromptPlace)> = open.into_iter().rev().map(place).collect();
        let mut counted = self.lock_counts();
        counted.places.extend(found.iter().copied());
        if let Some(basis) = counted.basis {
            self.repo.store_prompt_counts(&self.grafts, basis, &found);
        }
        drop(counted);
        let newest = found.last().map(|(_, place)| *place);
        Ok(newest.unwrap_or(PromptPlace { count: 0, is_prompt: false }))
    }

    fn known_place(&self, id: &ObjectId) -> Option<PromptPlace> {
        let mut counted = self.lock_counts();
        if self.is_kept && counted.basis.is_none() && !counted.places.contains_key(id) {
            let (basis, kept) = self.repo.load_prompt_counts(&self.grafts);
            counted.places.extend(kept);
            counted.basis = Some(basis);
        }
        counted.places.get(id).copied()
    }

    fn lock_counts(&self) -> MutexGuard<'_, CountedPrompts> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a commit adds a message of a person to its parent.
    fn has_prompt(&mut self, commit: &Commit, before: Option<&Commit>) -> Result<bool> {
        let repeats = matches!(
            commit.trigger,
            Trigger::Compaction | Trigger::Merge | Trigger::Rollback | Trigger::BeforeRestore
        );
        if repeats || commit.metadata.contains_key(RESTORED_FROM) {
            return Ok(false);
        }
        let Some(new) = self.messages(commit)? else { return Ok(false) };
        let store = self.repo.store();
        let old = before.map(|before| self.messages(before)).transpose()?.flatten();
        if old.is_some_and(|old| old.id == new.id) {
            return Ok(false);
        }
        let new = self.list(new.id)?;
        let old = old.map_or_else(|| Ok(List::new()), |old| self.list(old.id))?;
        for change in diff_lists(&old, &new, store)? {
            let removed = old.iter(store, change.old.clone()).collect::<Result<Vec<Item>>>()?;
            for item in new.iter(store, change.new.clone()) {
                let item = item?;
                if !removed.contains(&item) && self.is_prompt(&item)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns the conversation of the main agent; `None` without one, or if the context expired.
    fn messages(&mut self, commit: &Commit) -> Result<Option<Section>> {
        if let Some((_, section)) = self.last_section.filter(|(tree, _)| *tree == commit.tree) {
            return Ok(section);
        }
        let store = self.repo.store();
        let section = match store.tombstone(&commit.tree) {
            Some(_) => None,
            None => Context::open(store, &commit.tree)?.section(store, MAIN_MESSAGES)?,
        };
        self.last_section = Some((commit.tree, section));
        Ok(section)
    }

    /// Returns the list with this root. Turns are compared in a row, so the old list of one
    /// comparison is the new list of the next.
    fn list(&mut self, root: ObjectId) -> Result<List> {
        if let Some((_, list)) = self.last_list.as_ref().filter(|(last, _)| *last == root) {
            return Ok(list.clone());
        }
        let list = List::open(self.repo.store(), &root)?;
        self.last_list = Some((root, list.clone()));
        Ok(list)
    }

    fn is_prompt(&self, item: &Item) -> Result<bool> {
        let Ok(entry) = MessageEntry::from_item(item) else { return Ok(false) };
        if entry.role != Role::User {
            return Ok(false);
        }
        let Some(is_prompt) = self.is_prompt else { return Ok(true) };
        match self.repo.store().read_as(Kind::Blob, &entry.blob) {
            Ok(bytes) => Ok(is_prompt(&entry.media, &bytes)),
            // Missing and expired messages count as messages of a person.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Expired) => {
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns the number that the writer of a commit recorded.
fn recorded_place(commit: &Commit) -> Option<PromptPlace> {
    let number = |key| commit.metadata.get(key).and_then(|number: &String| number.parse().ok());
    let prompt = number(PROMPT).map(|count| PromptPlace { count, is_prompt: true });
    prompt.or_else(|| number(PROMPTS).map(|count| PromptPlace { count, is_prompt: false }))
}

fn has(prompts: u64) -> String {
    match prompts {
        0 => "the branch has none".to_owned(),
        1 => "the branch has 1 prompt".to_owned(),
        prompts => format!("the branch has {prompts} prompts"),
    }
}
