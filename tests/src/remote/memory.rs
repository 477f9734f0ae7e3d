//! A bucket in memory, whose clients are interleaved, failed and killed at any call.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use turntree::store::ReadAt;
use turntree::transfer::remote::{Bucket, Got, Key, Page, Put, Version};
use turntree::{Error, Result};

use super::fault::{Call, Fault, Requests, Verb};
use super::objects::{Change, Condition, Objects, Saved};
use crate::sim::Random;

/// The default number of objects in a page of a listing, as in S3.
const PAGE: usize = 1_000;

type Chooser = Box<dyn FnMut(&Call) -> Option<Fault> + Send>;
type Hook = Box<dyn FnMut(&Call) + Send>;

/// A bucket. Clones are the same bucket. Equal seeds and equal calls give equal answers.
#[derive(Clone)]
pub struct MemoryBucket(Arc<Mutex<State>>);

/// A client of a bucket. Clones are the same client.
#[derive(Debug, Clone)]
pub struct MemoryClient {
    bucket: MemoryBucket,
    number: usize,
}

struct State {
    objects: Objects,
    random: Random,
    /// Delayed changes, each with the call before which it happens.
    late: Vec<(u64, Change)>,
    calls: u64,
    page: usize,
    trouble: Option<usize>,
    chooser: Option<Chooser>,
    clients: Vec<ClientState>,
}

#[derive(Default)]
struct ClientState {
    calls: u64,
    requests: Requests,
    hook: Option<Hook>,
    death: Option<Death>,
}

#[derive(Clone, Copy)]
struct Death {
    call: u64,
    /// True if that call still reaches the bucket.
    is_sent: bool,
}

/// A call that has reached the bucket.
struct Turn<'a> {
    state: MutexGuard<'a, State>,
    client: usize,
    fault: Option<Fault>,
    /// True if the client dies before it gets the answer.
    is_last: bool,
}

impl MemoryBucket {
    /// An empty bucket without faults. `seed` is the seed of drawn faults.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            objects: Objects::default(),
            random: Random(seed),
            late: Vec::new(),
            calls: 0,
            page: PAGE,
            trouble: None,
            chooser: None,
            clients: Vec::new(),
        })))
    }

    /// Adds a client.
    #[must_use]
    pub fn client(&self) -> MemoryClient {
        let mut state = self.lock();
        state.clients.push(ClientState::default());
        MemoryClient { bucket: self.clone(), number: state.clients.len() - 1 }
    }

    /// Draws a fault for one of this many calls. 0 ends that.
    pub fn trouble(&self, one_of: usize) {
        self.lock().trouble = (one_of > 0).then_some(one_of);
    }

    /// Asks `chooser` for the fault of every call. If it returns none, a fault may be drawn. The
    /// chooser cannot use the bucket.
    pub fn choose(&self, chooser: impl FnMut(&Call) -> Option<Fault> + Send + 'static) {
        self.lock().chooser = Some(Box::new(chooser));
    }

    /// Sets how many objects a page of a listing has.
    pub fn set_page(&self, objects: usize) {
        self.lock().page = objects.max(1);
    }

    /// Applies all delayed changes now.
    pub fn settle(&self) {
        self.lock().apply_late(u64::MAX);
    }

    /// The objects in the bucket, regardless of listings.
    #[must_use]
    pub fn objects(&self) -> BTreeMap<Key, Bytes> {
        self.lock().objects.all()
    }

    /// Writes an object directly, like the owner of the bucket.
    pub fn tamper(&self, key: &Key, bytes: Bytes) {
        let change = Change::Put { key: key.clone(), bytes, condition: Condition::None };
        self.lock().objects.apply(change);
    }

    /// Deletes an object directly.
    pub fn remove(&self, key: &Key) {
        self.lock().objects.apply(Change::Delete(vec![key.clone()]));
    }

    /// Saves the objects for [`MemoryBucket::restore`].
    #[must_use]
    pub fn save(&self) -> Saved {
        self.lock().objects.save()
    }

    /// Restores saved objects with their versions, like a bucket that rolls back.
    pub fn restore(&self, saved: &Saved) {
        self.lock().objects.restore(saved);
    }

    /// The requests of all clients.
    #[must_use]
    pub fn requests(&self) -> Requests {
        self.lock().clients.iter().map(|client| client.requests).sum()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without its state: a hook may print a client while that is locked.
        f.debug_struct("MemoryBucket").finish_non_exhaustive()
    }
}

impl MemoryClient {
    /// The number.
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }

    /// The calls so far, including those after its death.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.bucket.lock().clients[self.number].calls
    }

    /// The requests of this client that reached the bucket.
    #[must_use]
    pub fn requests(&self) -> Requests {
        self.bucket.lock().clients[self.number].requests
    }

    /// Calls `hook` before every call of this client, with nothing locked, so other clients may
    /// make calls in it. Calls of this client in the hook do not run it again.
    pub fn before_each(&self, hook: impl FnMut(&Call) + Send + 'static) {
        self.bucket.lock().clients[self.number].hook = Some(Box::new(hook));
    }

    /// Ends [`MemoryClient::before_each`].
    pub fn unhook(&self) {
        let hook = self.bucket.lock().clients[self.number].hook.take();
        drop(hook);
    }

    /// Kills the client before its n-th call: this and all later calls fail, and nothing is sent.
    pub fn kill_before(&self, call: u64) {
        self.die(Death { call, is_sent: false });
    }

    /// Kills the client in its n-th call: the call reaches the bucket, with its fault if it has
    /// one, and the answer is lost.
    pub fn kill_in(&self, call: u64) {
        self.die(Death { call, is_sent: true });
    }

    /// True if it was killed.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        let state = self.bucket.lock();
        let client = &state.clients[self.number];
        client.death.is_some_and(|death| client.calls >= death.call)
    }

    fn die(&self, death: Death) {
        self.bucket.lock().clients[self.number].death = Some(death);
    }

    /// Begins a call. Runs the client's hook, and applies the delayed changes that are due before
    /// the call.
    fn begin(&self, verb: Verb, key: &str) -> Result<Turn<'_>> {
        let mut state = self.bucket.lock();
        let client = &mut state.clients[self.number];
        client.calls += 1;
        let number = client.calls;
        let call = Call { client: self.number, number, verb, key: key.to_owned() };
        if let Some(mut hook) = client.hook.take() {
            drop(state);
            hook(&call);
            state = self.bucket.lock();
            state.clients[self.number].hook.get_or_insert(hook);
        }
        let death = state.clients[self.number].death;
        if death.is_some_and(|death| number > death.call || number == death.call && !death.is_sent)
        {
            return Err(failed("the client was killed"));
        }
        state.calls += 1;
        let calls = state.calls;
        state.apply_late(calls);
        let fault = state.fault(&call);
        state.clients[self.number].requests.count(verb);
        let is_last = death.is_some_and(|death| number == death.call);
        Ok(Turn { state, client: self.number, fault, is_last })
    }

    fn put(&self, verb: Verb, key: &Key, bytes: Bytes, condition: Condition) -> Result<Put> {
        let mut turn = self.begin(verb, key.as_str())?;
        turn.requests().bytes_written += bytes.len() as u64;
        let change = Change::Put { key: key.clone(), bytes, condition };
        let put = match turn.fault {
            Some(Fault::Refused) => return Err(refused()),
            Some(Fault::RequestLost) => Put::Unknown,
            Some(Fault::Late(calls)) => {
                turn.state.delay(calls, change);
                Put::Unknown
            }
            Some(Fault::LostForNothing) => Put::Lost,
            fault => match (turn.state.objects.apply(change), fault) {
                (_, Some(Fault::AnswerLost)) => Put::Unknown,
                (None, _) | (_, Some(Fault::SentTwice)) => Put::Lost,
                (Some(version), _) => Put::Done(version),
            },
        };
        turn.heard(put)
    }

    /// Makes a change without a condition.
    fn change(&self, mut turn: Turn<'_>, change: Change) -> Result<()> {
        match turn.fault {
            Some(Fault::Refused) => return Err(refused()),
            Some(Fault::RequestLost) => return Err(no_answer()),
            Some(Fault::Late(calls)) => turn.state.delay(calls, change),
            _ => drop(turn.state.objects.apply(change)),
        }
        match turn.fault {
            Some(Fault::AnswerLost | Fault::Late(_)) => Err(no_answer()),
            _ => turn.heard(()),
        }
    }
}

impl Bucket for MemoryClient {
    fn get(&self, key: &Key, range: Option<Range<u64>>, unless: Option<&Version>) -> Result<Got> {
        let mut turn = self.begin(Verb::Get, key.as_str())?;
        turn.answers()?;
        let Some(object) = turn.state.objects.get(key).cloned() else {
            return turn.heard(Got::Missing);
        };
        if unless == Some(&object.version) {
            return turn.heard(Got::Same);
        }
        let size = object.bytes.len();
        let place = |at: u64| usize::try_from(at).unwrap_or(size).min(size);
        let asked = range.map_or(0..size, |range| place(range.start)..place(range.end));
        let mut bytes = object.bytes.slice(asked.start..asked.end.max(asked.start));
        if turn.fault == Some(Fault::Short) && !bytes.is_empty() {
            let kept = turn.state.random.below(bytes.len());
            bytes.truncate(kept);
        }
        turn.requests().bytes_read += bytes.len() as u64;
        turn.heard(Got::Bytes { bytes, version: object.version, size: size as u64 })
    }

    fn put_new(&self, key: &Key, bytes: Bytes) -> Result<Put> {
        self.put(Verb::PutNew, key, bytes, Condition::IsMissing)
    }

    fn put_over(&self, key: &Key, bytes: Bytes, seen: &Version) -> Result<Put> {
        self.put(Verb::PutOver, key, bytes, Condition::Is(seen.clone()))
    }

    fn upload(&self, key: &Key, from: &dyn ReadAt) -> Result<()> {
        let bytes = read_all(from)?;
        let mut turn = self.begin(Verb::Upload, key.as_str())?;
        turn.requests().bytes_written += bytes.len() as u64;
        self.change(turn, Change::Put { key: key.clone(), bytes, condition: Condition::None })
    }

    fn list(&self, prefix: &str, after: Option<&Key>) -> Result<Page> {
        let mut turn = self.begin(Verb::List, prefix)?;
        turn.answers()?;
        let (lag, most) = match turn.fault {
            Some(Fault::Stale(changes)) => (changes, turn.state.page),
            Some(Fault::Short) => (0, 1),
            _ => (0, turn.state.page),
        };
        let State { objects, random, .. } = &mut *turn.state;
        let mut objects = objects.list(prefix, after, lag, random);
        let has_more = objects.len() > most;
        objects.truncate(most);
        turn.heard(Page { objects, has_more })
    }

    fn delete(&self, keys: &[Key]) -> Result<()> {
        let first = keys.first().map_or("", Key::as_str);
        let mut turn = self.begin(Verb::Delete, first)?;
        if turn.fault == Some(Fault::Short) {
            let some = turn.state.random.below(keys.len() + 1);
            turn.state.objects.apply(Change::Delete(keys[..some].to_vec()));
            return Err(failed("some objects were not deleted"));
        }
        self.change(turn, Change::Delete(keys.to_vec()))
    }
}

impl Turn<'_> {
    fn requests(&mut self) -> &mut Requests {
        &mut self.state.clients[self.client].requests
    }

    /// Fails if a call that changes nothing has no answer.
    fn answers(&self) -> Result<()> {
        match self.fault {
            Some(Fault::Refused) => Err(refused()),
            Some(Fault::RequestLost | Fault::AnswerLost | Fault::Late(_)) => Err(no_answer()),
            _ => Ok(()),
        }
    }

    /// Returns the answer, if the client is alive.
    fn heard<T>(&self, answer: T) -> Result<T> {
        if self.is_last { Err(failed("the client was killed")) } else { Ok(answer) }
    }
}

impl State {
    fn fault(&mut self, call: &Call) -> Option<Fault> {
        let chosen = self.chooser.as_mut().and_then(|chooser| chooser(call));
        let one_of = self.trouble;
        chosen.or_else(|| {
            let happens = self.random.below(one_of?) == 0;
            happens.then(|| Fault::draw(&mut self.random, call.verb))
        })
    }

    fn delay(&mut self, calls: u64, change: Change) {
        self.late.push((self.calls + calls, change));
    }

    fn apply_late(&mut self, call: u64) {
        let (due, later) = std::mem::take(&mut self.late).into_iter().partition(|at| at.0 <= call);
        self.late = later;
        let due: Vec<(u64, Change)> = due;
        for (_, change) in due {
            self.objects.apply(change);
        }
    }
}

fn read_all(from: &dyn ReadAt) -> Result<Bytes> {
    let error = |error| Error::io("read the upload", error);
    let size = from.size().map_err(error)?;
    let mut bytes = vec![0; usize::try_from(size).expect("it fits into memory")];
    let read = from.read_at(&mut bytes, 0).map_err(error)?;
    assert_eq!(read, bytes.len(), "an upload has its size");
    Ok(bytes.into())
}

fn refused() -> Error {
    failed("503: slow down")
}

fn no_answer() -> Error {
    failed("no answer")
}

fn failed(what: &str) -> Error {
    Error::io("a call to the bucket", io::Error::other(what.to_owned()))
}
