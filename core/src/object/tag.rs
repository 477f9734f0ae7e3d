//! Tags: a name given to an object, with who gave it, when and why.

use super::codec::{Reader, Writer};
use super::commit::{open_structure, read_id};
use super::{Kind, ObjectId};
use crate::error::Result;

const VERSION: u64 = 1;

/// An annotated tag. A tag without words is only a ref and needs no object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// What it names.
    pub target: ObjectId,
    /// The kind of what it names.
    pub target_kind: Kind,
    /// Its name.
    pub name: String,
    /// Who made it.
    pub tagger: String,
    /// When, in microseconds since the Unix epoch.
    pub time_micros: i64,
    /// Why.
    pub message: String,
}

impl Tag {
    /// The bytes that are hashed and stored.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.array(7).uint(VERSION).bytes(self.target.as_bytes());
        writer.uint(self.target_kind.code().into()).text(&self.name).text(&self.tagger);
        writer.int(self.time_micros).text(&self.message);
        writer.finish()
    }

    /// The tag in `bytes`.
    ///
    /// # Errors
    /// `Corrupt` unless the bytes are exactly what [`Tag::encode`] writes; `Unsupported` for a
    /// newer version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new("tag", bytes);
        open_structure(&mut reader, "tag", VERSION, 7)?;
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
        };
        reader.finish()?;
        Ok(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_round_trips_and_an_unknown_kind_is_refused() {
        let tag = Tag {
            target: ObjectId::of(Kind::Commit, b"x"),
            target_kind: Kind::Commit,
            name: "v1".into(),
            tagger: "someone".into(),
            time_micros: -1,
            message: "the first that worked".into(),
        };
        let mut bytes = tag.encode();
        assert_eq!(Tag::decode(&bytes).unwrap(), tag);
        bytes[2 + 2 + 32] = 9;
        assert!(Tag::decode(&bytes).unwrap_err().to_string().contains("code of a kind"));
    }
}
