//! What goes wrong in a call to a bucket, and what calls are counted as.

use std::iter::Sum;
use std::ops::{Add, Sub};

use crate::sim::Random;

/// Most later calls that a late write waits for, and changes that a listing lags behind, when they are
/// drawn.
const MAX_DELAY: usize = 8;

/// A call of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The client; the first is number 0.
    pub client: usize,
    /// Which of its calls; the first is number 1.
    pub number: u64,
    /// What is asked.
    pub verb: Verb,
    /// The key, the prefix of a listing, or the first key of a deletion.
    pub key: String,
}

/// What a call asks of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// `Bucket::get`.
    Get,
    /// `Bucket::put_new`.
    PutNew,
    /// `Bucket::put_over`.
    PutOver,
    /// `Bucket::upload`.
    Upload,
    /// `Bucket::list`.
    List,
    /// `Bucket::delete`.
    Delete,
}

/// What goes wrong in a call. What cannot go wrong with its verb changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is done, and the answer says so, as 429 and 503 do: `Err(Io)`.
    Refused,
    /// Nothing is done, and there is no answer.
    RequestLost,
    /// It is done, and there is no answer.
    AnswerLost,
    /// There is no answer. A change is done just before the n-th call from now on, of any client, if
    /// its condition holds then.
    Late(u64),
    /// A conditional write is done, and sent again on its way: the second one lost.
    SentTwice,
    /// A conditional write is not done, and has lost although nobody else won.
    LostForNothing,
    /// It ends early. A reading gives a part of what there is, a listing one object and says that there
    /// are more; a deletion fails when some objects are gone.
    Short,
    /// A listing shows each object as it was some changes of the bucket ago: at most so many, drawn for
    /// each one.
    Stale(u64),
}

impl Fault {
    /// Draws one that can happen to a call.
    pub(super) fn draw(random: &mut Random, verb: Verb) -> Self {
        let delay = 1 + random.below(MAX_DELAY) as u64;
        let faults: &[Self] = match verb {
            Verb::Get => &[Self::Refused, Self::RequestLost, Self::Short],
            Verb::PutNew | Verb::PutOver => &[
                Self::Refused,
                Self::RequestLost,
                Self::AnswerLost,
                Self::Late(delay),
                Self::SentTwice,
                Self::LostForNothing,
            ],
            Verb::Upload => {
                &[Self::Refused, Self::RequestLost, Self::AnswerLost, Self::Late(delay)]
            }
            Verb::List => &[Self::Refused, Self::RequestLost, Self::Short, Self::Stale(delay)],
            Verb::Delete => &[
                Self::Refused,
                Self::RequestLost,
                Self::AnswerLost,
                Self::Late(delay),
                Self::Short,
            ],
        };
        faults[random.below(faults.len())]
    }
}

/// Calls that reached a bucket, and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Requests {
    /// Readings, also those of what is missing or the same.
    pub gets: u64,
    /// Conditional writes.
    pub puts: u64,
    /// Uploads.
    pub uploads: u64,
    /// Pages of listings.
    pub lists: u64,
    /// Deletions, of any number of objects.
    pub deletes: u64,
    /// Bytes of objects that were given out.
    pub bytes_read: u64,
    /// Bytes of objects that were sent.
    pub bytes_written: u64,
}

impl Requests {
    /// Requests of every kind.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.gets + self.puts + self.uploads + self.lists + self.deletes
    }

    pub(super) fn count(&mut self, verb: Verb) {
        let count = match verb {
            Verb::Get => &mut self.gets,
            Verb::PutNew | Verb::PutOver => &mut self.puts,
            Verb::Upload => &mut self.uploads,
            Verb::List => &mut self.lists,
            Verb::Delete => &mut self.deletes,
        };
        *count += 1;
    }
}

impl Add for Requests {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            gets: self.gets + other.gets,
            puts: self.puts + other.puts,
            uploads: self.uploads + other.uploads,
            lists: self.lists + other.lists,
            deletes: self.deletes + other.deletes,
            bytes_read: self.bytes_read + other.bytes_read,
            bytes_written: self.bytes_written + other.bytes_written,
        }
    }
}

impl Sum for Requests {
    fn sum<I: Iterator<Item = Self>>(requests: I) -> Self {
        requests.fold(Self::default(), Add::add)
    }
}

impl Sub for Requests {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            gets: self.gets - before.gets,
            puts: self.puts - before.puts,
            uploads: self.uploads - before.uploads,
            lists: self.lists - before.lists,
            deletes: self.deletes - before.deletes,
            bytes_read: self.bytes_read - before.bytes_read,
            bytes_written: self.bytes_written - before.bytes_written,
        }
    }
}
