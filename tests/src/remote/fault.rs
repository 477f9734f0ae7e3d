//! The faults of calls to a bucket, and the counts of calls.

use std::iter::Sum;
use std::ops::{Add, Sub};

use crate::sim::Random;

/// The most calls that a late write is delayed by, and the most changes that a listing lags behind,
/// when they are drawn.
const MAX_DELAY: usize = 8;

/// A call of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The client; the first is number 0.
    pub client: usize,
    /// The number of the call at this client, from 1.
    pub number: u64,
    /// The method.
    pub verb: Verb,
    /// The key, the prefix of a listing, or the first key of a deletion.
    pub key: String,
}

/// A method of a bucket.
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

/// A fault of a call. A fault that its method cannot have changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is done, and the answer reports that, like 429 and 503: `Err(Io)`.
    Refused,
    /// Nothing is done, and there is no answer.
    RequestLost,
    /// The call is done, and there is no answer.
    AnswerLost,
    /// There is no answer. The change happens just before the n-th call from now on, of any client,
    /// if its condition holds then.
    Late(u64),
    /// A conditional write is done and then resent by the network. The second one loses.
    SentTwice,
    /// A conditional write is not done, and is reported as lost although no other writer won.
    LostForNothing,
    /// The call ends early. A get returns a part of the bytes, a listing returns one object and a
    /// continuation, and a deletion fails after some objects are deleted.
    Short,
    /// A listing shows each object as it was up to this many changes of the bucket ago, drawn for
    /// each object.
    Stale(u64),
}

impl Fault {
    /// Draws a fault that the method can have.
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
    /// Gets, including those of missing or unchanged objects.
    pub gets: u64,
    /// Conditional writes.
    pub puts: u64,
    /// Uploads.
    pub uploads: u64,
    /// Pages of listings.
    pub lists: u64,
    /// Deletions, of any number of objects.
    pub deletes: u64,
    /// Bytes of objects in answers.
    pub bytes_read: u64,
    /// Bytes of objects in requests.
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
