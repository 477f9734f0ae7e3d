//! Tags: fixed names for snapshots.
//!
//! A tag is the ref `refs/tags/<name>` to a [`Tag`] with the tagger, the time and the message;
//! plumbing may also set it to a bare commit. A tag keeps its target alive, like a branch.

use super::branch::{check_new_name, tag_name};
use crate::error::{Error, Result};
use crate::object::{Kind, Object, ObjectId, ObjectSink, ObjectSource, RefValue, Tag};
use crate::repo::{Repository, Signature, Transaction, tag_ref};
use crate::store::Expected;

/// A tag with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedTag {
    /// The name, without `refs/tags/`.
    pub name: String,
    /// The tag.
    pub tag: Tag,
}

impl Repository {
    /// Returns every tag, in order of names. Reads one object per tag.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming an unreadable tag.
    pub fn tags(&self) -> Result<Vec<NamedTag>> {
        let refs = self.refs();
        let named = refs.values.iter().filter_map(|(full, value)| match (tag_name(full), value) {
            (Some(name), RefValue::Object(id)) => Some((name, id)),
            _ => None,
        });
        let read = |(name, id): (&str, &ObjectId)| {
            let tag = read_tag(self.store(), name, id)
                .map_err(|error| error.at(format_args!("tag '{name}'")))?;
            Ok(NamedTag { name: name.to_owned(), tag })
        };
        named.map(read).collect()
    }
}

impl Transaction<'_> {
    /// Gives a commit a fixed name.
    ///
    /// # Errors
    /// `InvalidInput` for a name that is not allowed or taken; `NotFound` when the commit does not
    /// exist; `Expired`, like [`Repository::context`], when its content has expired.
    pub fn tag(
        &mut self,
        name: &str,
        commit: &ObjectId,
        message: String,
        stamp: &Signature,
    ) -> Result<()> {
        let full = tag_ref(name)?;
        check_new_name("tag", name)?;
        if self.initial_value(&full).is_some() {
            return Err(Error::invalid(format!("tag '{name}' exists already")));
        }
        let tagged = self.read_commit(commit)?;
        self.read_as(Kind::Node, &tagged.tree)
            .map_err(|error| self.repo().explain(&tagged, error))?;
        let tag = Tag {
            target: *commit,
            target_kind: Kind::Commit,
            name: name.to_owned(),
            tagger: stamp.actor.clone(),
            time_micros: stamp.time.micros,
            message,
            expires_micros: None,
        };
        let id = self.write(Kind::Tag, tag.encode().into())?;
        self.set_ref(&full, Expected::Absent, Some(RefValue::Object(id)));
        Ok(())
    }

    /// Removes a tag.
    ///
    /// # Errors
    /// `NotFound` when there is no tag of this name.
    pub fn untag(&mut self, name: &str) -> Result<()> {
        let full = tag_ref(name)?;
        let Some(value) = self.initial_value(&full).cloned() else {
            return Err(Error::not_found(format!("there is no tag '{name}'")));
        };
        self.set_ref(&full, Expected::Value(value), None);
        Ok(())
    }
}

/// Reads the tag `id`; a bare commit gives a tag without tagger, time and message.
pub(super) fn read_tag(source: &dyn ObjectSource, name: &str, id: &ObjectId) -> Result<Tag> {
    match source.read(id)? {
        Some(Object { kind: Kind::Tag, bytes }) => Tag::decode(&bytes),
        Some(Object { kind: Kind::Commit, .. }) => Ok(Tag {
            target: *id,
            target_kind: Kind::Commit,
            name: name.to_owned(),
            tagger: String::new(),
            time_micros: 0,
            message: String::new(),
            expires_micros: None,
        }),
        Some(Object { kind, .. }) => Err(Error::corrupt(id, "a tag or a commit", kind)),
        None => Err(Error::not_found(format!("object {id} is not in the store"))),
    }
}
