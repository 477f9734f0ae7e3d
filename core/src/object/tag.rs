//! Tags: a name for an object, with author, time, reason and an optional expiry.

use super::codec::{Reader, Writer};
use super::commit::{open_structure, read_id};
use super::{Kind, ObjectId};
use crate::error::Result;

/// The versions without and with an expiry: a tag uses the lowest that can represent it.
const VERSION_LASTING: u64 = 1;
const VERSION_EXPIRING: usize = 2;

/// Number of items of each version, including the version itself.
const FIELDS: [u64; 2] = [7, 8];

/// An annotated tag. A tag without a description is only a ref and needs no object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// The target.
    pub target: ObjectId,
    /// The kind of the target.
    pub target_kind: Kind,
    /// The name.
    pub name: String,
    /// The author.
    pub tagger: String,
    /// Time in microseconds since the Unix epoch.
    pub time_micros: i64,
    /// The reason.
    pub message: String,
    /// Time of expiry, in microseconds since the Unix epoch; `None` for never.
    pub expires_micros: Option<i64>,
}

impl Tag {
    /// Encodes the bytes that are hashed and stored.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        match self.expires_micros {
            None => writer.array(7).uint(VERSION_LASTING),
            Some(_) => writer.array(8).uint(VERSION_EXPIRING as u64),
        };
        writer.bytes(self.target.as_bytes()).uint(self.target_kind.code().into());
        writer.text(&self.name).text(&self.tagger).int(self.time_micros).text(&self.message);
        if let Some(expires) = self.expires_micros {
            writer.int(expires);
        }
        writer.finish()
    }

    /// Returns true if the tag has expired at the time `now`, in microseconds since the Unix epoch.
    #[must_use]
    pub fn has_expired(&self, now: i64) -> bool {
        self.expires_micros.is_some_and(|expires| expires <= now)
    }

    /// Decodes a tag.
    ///
    /// # Errors
    /// `Corrupt` unless the bytes are exactly what [`Tag::encode`] writes; `Unsupported` for a
    /// newer version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new("tag", bytes);
        let version = open_structure(&mut reader, "tag", &FIELDS)?;
        let tag = Self {
            target: read_id(&mut reader)?,
            target_kind: {
                let code = reader.uint()?;
                u8::try_from(code)
                    .ok()
                    .and_then(Kind::from_code)
                    .ok_or_else(|| reader.refuse("the code of a kind", &code.to_string()))?
            },
            name: reader.text()?.to_owned(),
            tagger: reader.text()?.to_owned(),
            time_micros: reader.int()?,
            message: reader.text()?.to_owned(),
            expires_micros: match version {
                VERSION_EXPIRING => Some(reader.int()?),
                _ => None,
            },
        };
        reader.finish()?;
        Ok(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(expires_micros: Option<i64>) -> Tag {
        Tag {
            target: ObjectId::of(Kind::Commit, b"x"),
            target_kind: Kind::Commit,
            name: "v1".into(),
            tagger: "someone".into(),
            time_micros: -1,
            message: "the first that worked".into(),
            expires_micros,
        }
    }

    #[test]
    fn a_tag_round_trips_with_and_without_expiry_and_nothing_else_is_accepted() {
        for tag in [tag(None), tag(Some(0)), tag(Some(i64::MAX))] {
            let bytes = tag.encode();
            assert_eq!(Tag::decode(&bytes).unwrap(), tag);
            for at in 0..bytes.len() {
                assert!(Tag::decode(&bytes[..at]).is_err());
                let mut changed = bytes.clone();
                changed[at] ^= 1;
                assert!(Tag::decode(&changed).map_or(true, |tag| tag.encode() == changed));
            }
        }
        let mut unknown_kind = tag(None).encode();
        unknown_kind[2 + 2 + 32] = 9;
        let error = Tag::decode(&unknown_kind).unwrap_err();
        assert!(error.to_string().contains("code of a kind"));
    }

    #[test]
    fn the_version_says_whether_there_is_an_expiry() {
        let (lasting, expiring) = (tag(None).encode(), tag(Some(5)).encode());
        assert_eq!((&lasting[..2], &expiring[..2]), (&[0x87, 1][..], &[0x88, 2][..]));
        for (fields, version) in [(0x88, 1), (0x87, 2), (0x87, 0)] {
            let mut bytes = expiring.clone();
            (bytes[0], bytes[1]) = (fields, version);
            assert_eq!(Tag::decode(&bytes).unwrap_err().kind(), crate::ErrorKind::Corrupt);
        }
        let mut newer = expiring;
        newer[1] = 3;
        assert_eq!(Tag::decode(&newer).unwrap_err().kind(), crate::ErrorKind::Unsupported);
    }

    #[test]
    fn a_tag_expires_at_its_moment() {
        assert!(!tag(None).has_expired(i64::MAX));
        assert!(!tag(Some(5)).has_expired(4));
        assert!(tag(Some(5)).has_expired(5));
    }
}
