//! Pins: a commit that stays whatever retention says, with who wanted that, why, and until when.
//!
//! A pin is the ref `refs/pins/<name>`, which leads to a [`Tag`]. It only protects: revisions do
//! not look among pins, so a name for people is a tag.

use super::branch::pin_name;
use super::tag::read_tag;
use super::{Repository, Signature, Transaction, pin_ref};
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId, ObjectSink, ObjectSource, RefValue, Tag};
use crate::store::Expected;

/// Hex digits of a commit's id that name its pin when nobody else does.
const NAME_DIGITS: usize = 12;

/// A pin as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// Its name, without `refs/pins/`.
    pub name: String,
    /// The commit that stays.
    pub commit: ObjectId,
    /// Why.
    pub reason: String,
    /// The actor who pinned it.
    pub actor: String,
    /// When, in microseconds since the Unix epoch.
    pub time_micros: i64,
    /// From when on it protects nothing, in microseconds since the Unix epoch; `None` for never.
    pub expires_micros: Option<i64>,
}

/// The fields of a new pin, besides the commit and the actor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewPin {
    /// Its name; the first digits of the commit's id when there is none.
    pub name: Option<String>,
    /// Why.
    pub reason: String,
    /// From when on it protects nothing.
    pub expires_micros: Option<i64>,
}

impl Pin {
    /// Returns whether the pin has expired at the moment `now`.
    #[must_use]
    pub fn has_expired(&self, now: i64) -> bool {
        self.expires_micros.is_some_and(|expires| expires <= now)
    }
}

impl Repository {
    /// Every pin, expired ones too, in order of names. One object read for each.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming a pin that cannot be read.
    pub fn pins(&self) -> Result<Vec<Pin>> {
        let refs = self.refs();
        let named = refs.values.iter().filter_map(|(full, value)| match (pin_name(full), value) {
            (Some(name), RefValue::Object(id)) => Some((name, id)),
            _ => None,
        });
        named.map(|(name, id)| read_pin(self.store(), name, id)).collect()
    }
}

impl Transaction<'_> {
    /// Pins a commit. A pin of the same name on the same commit is replaced: its reason and expiry
    /// are renewed.
    ///
    /// # Errors
    /// `InvalidInput` for a name that is not allowed, or that another commit's pin has; `NotFound`
    /// when there is no such commit; `Expired`, as of [`Repository::context`], when retention has
    /// dropped what it would protect.
    pub fn pin(&mut self, commit: &ObjectId, new: NewPin, stamp: &Signature) -> Result<Pin> {
        let name = new.name.unwrap_or_else(|| commit.short(NAME_DIGITS));
        let full = pin_ref(&name)?;
        let expected = match self.begun_with(&full).cloned() {
            None => Expected::Absent,
            Some(value) => {
                let found = match &value {
                    RefValue::Object(id) => Some(read_pin(self, &name, id)?.commit),
                    RefValue::Symbolic(_) => None,
                };
                if found != Some(*commit) {
                    let message = format!("pin '{name}' is on another snapshot already");
                    return Err(Error::invalid(message));
                }
                Expected::Value(value)
            }
        };
        let protected = self.read_commit(commit)?;
        self.read_as(Kind::Node, &protected.tree)
            .map_err(|error| self.repo().explain(&protected, error))?;
        let tag = Tag {
            target: *commit,
            target_kind: Kind::Commit,
            name: name.clone(),
            tagger: stamp.actor.clone(),
            time_micros: stamp.time.micros,
            message: new.reason,
            expires_micros: new.expires_micros,
        };
        let id = self.write(Kind::Tag, tag.encode().into())?;
        self.set_ref(&full, expected, Some(RefValue::Object(id)));
        Ok(pin_of(name, tag))
    }

    /// Removes a pin. What it protected is then for retention to keep or drop.
    ///
    /// # Errors
    /// `NotFound` when there is no pin of this name.
    pub fn unpin(&mut self, name: &str) -> Result<()> {
        let full = pin_ref(name)?;
        let Some(value) = self.begun_with(&full).cloned() else {
            return Err(Error::not_found(format!("there is no pin '{name}'")));
        };
        self.set_ref(&full, Expected::Value(value), None);
        Ok(())
    }
}

/// The pin `name`, whose ref holds `id`.
fn read_pin(source: &dyn ObjectSource, name: &str, id: &ObjectId) -> Result<Pin> {
    let tag = read_tag(source, name, id).map_err(|error| error.at(format_args!("pin '{name}'")))?;
    Ok(pin_of(name.to_owned(), tag))
}

fn pin_of(name: String, tag: Tag) -> Pin {
    Pin {
        name,
        commit: tag.target,
        reason: tag.message,
        actor: tag.tagger,
        time_micros: tag.time_micros,
        expires_micros: tag.expires_micros,
    }
}
