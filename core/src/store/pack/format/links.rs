//! Encodes structured objects without their links: an id that the pack knows is replaced by its
//! ordinal.
//!
//! ```text
//! body | number of links | per link: bytes in front of it, those bytes, its ordinal | the rest |
//! ```
//!
//! Nodes and commits are mostly ids, which do not compress, and the index of the pack contains them
//! anyway. The encoding ignores the meaning of the bytes: any 32 bytes that equal an id of this
//! pack are replaced. The hash of the object proves that it was decoded correctly.
//!
//! An ordinal is encoded as its distance from the previous link, plus one: objects that are
//! referenced together are stored together.

use crate::object::{ID_BYTES, ObjectId, push_varint, take_varint, unzigzag, zigzag};

/// Encodes the body of a structured object; returns `None` if no id in it has an ordinal.
pub(in crate::store::pack) fn encode(
    object: &[u8],
    mut ordinal_of: impl FnMut(&ObjectId) -> Option<u32>,
) -> Option<Vec<u8>> {
    let (mut links, mut body) = (0_u64, Vec::new());
    let (mut rest, mut at) = (object, 0);
    let mut previous = 0;
    while let Some(candidate) = rest.get(at..).and_then(|rest| rest.first_chunk::<ID_BYTES>()) {
        let Some(ordinal) = ordinal_of(&ObjectId::from_bytes(*candidate)) else {
            at += 1;
            continue;
        };
        let (literal, link) = rest.split_at(at);
        push_varint(&mut body, literal.len() as u64);
        body.extend_from_slice(literal);
        push_varint(&mut body, zigzag(i64::from(ordinal) - previous));
        previous = i64::from(ordinal) + 1;
        links += 1;
        rest = link.get(ID_BYTES..)?;
        at = 0;
    }
    let mut whole = Vec::with_capacity(body.len() + rest.len() + 2);
    push_varint(&mut whole, links);
    whole.append(&mut body);
    whole.extend_from_slice(rest);
    (links > 0).then_some(whole)
}

/// Decodes a body to an object of exactly `raw_bytes`; returns `None` if the body is malformed, or
/// `id_at` does not know a link target.
pub(in crate::store::pack) fn decode(
    body: &[u8],
    raw_bytes: u32,
    id_at: impl Fn(u32) -> Option<ObjectId>,
) -> Option<Vec<u8>> {
    // The size of structured objects is limited, which is checked where `raw_bytes` is read.
    let raw_bytes = raw_bytes as usize;
    let mut object = Vec::with_capacity(raw_bytes);
    let mut links = Links::new(body)?;
    for link in &mut links {
        let (literal, ordinal) = link?;
        if object.len() + literal.len() + ID_BYTES > raw_bytes {
            return None;
        }
        object.extend_from_slice(literal);
        object.extend_from_slice(id_at(ordinal)?.as_bytes());
    }
    object.extend_from_slice(links.rest);
    (object.len() == raw_bytes).then_some(object)
}

/// Returns the ordinals that a body links to; `None` if it is malformed.
pub(in crate::store::pack) fn targets(body: &[u8]) -> Option<Vec<u32>> {
    Links::new(body)?.map(|link| link.map(|(_, ordinal)| ordinal)).collect()
}

/// The links of a body, each with the bytes before it; iteration ends at a malformed one.
struct Links<'a> {
    left: u64,
    rest: &'a [u8],
    previous: i64,
}

impl<'a> Links<'a> {
    fn new(mut body: &'a [u8]) -> Option<Self> {
        let left = take_varint(&mut body)?;
        Some(Self { left, rest: body, previous: 0 })
    }

    fn take(&mut self) -> Option<(&'a [u8], u32)> {
        let literal_bytes = usize::try_from(take_varint(&mut self.rest)?).ok()?;
        let (literal, rest) = self.rest.split_at_checked(literal_bytes)?;
        self.rest = rest;
        let distance = unzigzag(take_varint(&mut self.rest)?);
        let ordinal = u32::try_from(self.previous.checked_add(distance)?).ok()?;
        self.previous = i64::from(ordinal) + 1;
        Some((literal, ordinal))
    }
}

impl<'a> Iterator for Links<'a> {
    type Item = Option<(&'a [u8], u32)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let link = self.take();
        if link.is_none() {
            self.left = 0;
        }
        Some(link)
    }
}
