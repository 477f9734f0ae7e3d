//! Pins: refs that keep a commit regardless of retention, with an actor, a reason and an expiry.
//!
//! A pin is the ref `refs/pins/<name>` to a [`Tag`]. It only protects a commit. Revisions do not
//! look pins up; a name for users is a tag.

use super::branch::pin_name;
use super::tag::read_tag;
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId, ObjectSink, ObjectSource, RefValue, Tag};
use crate::repo::{Repository, Signature, Transaction, pin_ref};
use crate::store::Expected;

/// The number of id digits in the name of a pin without a given name.
const NAME_DIGITS: usize = 12;

/// A stored pin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// The name, without `refs/pins/`.
    pub name: String,
    /// The pinned commit.
    pub commit: ObjectId,
    /// The reason.
    pub reason: String,
    /// The actor who pinned it.
    pub actor: String,
    /// The time, in microseconds since the Unix epoch.
    pub time_micros: i64,
    /// The time from which on it protects nothing, in microseconds since the Unix epoch; `None` for
    /// never.
    pub expires_micros: Option<i64>,
}

/// The fields of a new pin, besides the commit and the actor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewPin {
    /// The name; `None` for the first digits of the commit's id.
    pub name: Option<String>,
    /// The reason.
    pub reason: String,
    /// The time from which on it protects nothing.
    pub expires_micros: Option<i64>,
}

impl Pin {
    /// Returns true if the pin has expired at the moment `now`.
    #[must_use]
    pub fn has_expired(&self, now: i64) -> bool {
        self.expires_micros.is_some_and(|expires| expires <= now)
    }
}

impl Repository {
    /// Returns every pin, including expired ones, in order of names. Reads one object per pin.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming an unreadable pin.
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
    /// Pins a commit. A pin of the same name on the same commit is replaced with the new reason and
    /// expiry.
    ///
    /// # Errors
    /// `InvalidInput` for a name that is not allowed, or that a pin on another commit has;
    /// `NotFound` when the commit does not exist; `Expired`, like [`Repository::context`], when its
    /// content has expired.
    pub fn pin(&mut self, commit: &ObjectId, new: NewPin, stamp: &Signature) -> Result<Pin> {
        let name = new.name.unwrap_or_else(|| commit.short(NAME_DIGITS));
        let full = pin_ref(&name)?;
        let expected = match self.initial_value(&full).cloned() {
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

    /// Removes a pin. Retention then decides about its commit.
    ///
    /// # Errors
    /// `NotFound` when there is no pin of this name.
    pub fn unpin(&mut self, name: &str) -> Result<()> {
        let full = pin_ref(name)?;
        let Some(value) = self.initial_value(&full).cloned() else {
            return Err(Error::not_found(format!("there is no pin '{name}'")));
        };
        self.set_ref(&full, Expected::Value(value), None);
        Ok(())
    }
}

/// Reads the pin `name`, whose ref holds `id`.
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
