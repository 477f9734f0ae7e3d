//! Names of snapshots and sessions: tags, pins, titles and labels.

use pyo3::prelude::*;
use pyo3::types::PyFrozenSet;
use turntree::local::Repo;
use turntree::object::ObjectId;
use turntree::repo::{NamedTag, NewPin, Pin, SessionLabels};
use turntree::{Error, Result};

use crate::values::{Answer, datetime_of, named};

/// A tag, with the snapshot that it names.
pub(crate) struct Tagged {
    tag: NamedTag,
    id: ObjectId,
}

/// Returns every tag, ordered by name.
pub(crate) fn tags(repo: &Repo) -> Result<Vec<Tagged>> {
    repo.refresh()?;
    let repository = repo.repository();
    let tags = repository.tags()?.into_iter();
    tags.map(|tag| Ok(Tagged { id: repository.peel(&tag.tag.target)?, tag })).collect()
}

/// Tags a snapshot. Returns false if the name is taken.
pub(crate) fn tag(repo: &Repo, name: &str, at: &str, message: &str) -> Result<bool> {
    let (id, stamp, repository) = (repo.resolve(at)?, repo.stamp(), repo.repository());
    if repository.tags()?.iter().any(|tag| tag.name == name) {
        return Ok(false);
    }
    let mut change = repository.begin();
    change.tag(name, &id, message.to_owned(), &stamp)?;
    change.commit(&stamp, &format!("tag {name}"))?;
    Ok(true)
}

/// Deletes a tag.
pub(crate) fn untag(repo: &Repo, name: &str) -> Result<()> {
    repo.refresh()?;
    let mut change = repo.repository().begin();
    change.untag(name)?;
    change.commit(&repo.stamp(), &format!("delete tag {name}")).map(drop)
}

impl Answer for Tagged {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let NamedTag { name, tag } = self.tag;
        let is_known = tag.time_micros != 0;
        let time = is_known.then(|| datetime_of(py, tag.time_micros)).transpose()?;
        named(py, "Tag", (name, self.id.to_string(), tag.message, tag.tagger, time))
    }
}

/// Returns every pin, ordered by name.
pub(crate) fn pins(repo: &Repo) -> Result<Vec<Pin>> {
    repo.refresh()?;
    repo.repository().pins()
}

/// Pins a snapshot. Returns `None` if a pin on another snapshot has the name.
pub(crate) fn pin(repo: &Repo, at: &str, new: &NewPin) -> Result<Option<Pin>> {
    let (id, stamp) = (repo.resolve(at)?, repo.stamp());
    let is_taken = |pin: &Pin| Some(&pin.name) == new.name.as_ref() && pin.commit != id;
    if repo.repository().pins()?.iter().any(is_taken) {
        return Ok(None);
    }
    if new.expires_micros.is_some_and(|expires| expires <= stamp.time.micros) {
        return Err(Error::invalid("the expiry of the pin is in the past"));
    }
    let mut change = repo.repository().begin();
    let pin = change.pin(&id, new.clone(), &stamp)?;
    change.commit(&stamp, &format!("pin {}", pin.name))?;
    Ok(Some(pin))
}

/// Removes a pin.
pub(crate) fn unpin(repo: &Repo, name: &str) -> Result<()> {
    repo.refresh()?;
    let mut change = repo.repository().begin();
    change.unpin(name)?;
    change.commit(&repo.stamp(), &format!("unpin {name}")).map(drop)
}

impl Answer for Pin {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let expires = self.expires_micros.map(|micros| datetime_of(py, micros)).transpose()?;
        let time = datetime_of(py, self.time_micros)?;
        let id = self.commit.to_string();
        named(py, "Pin", (self.name, id, self.reason, self.actor, time, expires))
    }
}

/// Returns the title and the labels of a session.
pub(crate) fn labels(repo: &Repo, session: &str) -> Result<SessionLabels> {
    repo.refresh()?;
    expect_session(repo, session)?;
    repo.repository().session_labels(session)
}

/// Changes the title and the labels of a session.
pub(crate) fn set_labels(
    repo: &Repo,
    session: &str,
    change: impl Fn(&mut SessionLabels),
    reason: &str,
) -> Result<SessionLabels> {
    let before = labels(repo, session)?;
    let mut after = before.clone();
    change(&mut after);
    if after != before {
        let mut change = repo.repository().begin();
        change.set_session_labels(session, &after)?;
        change.commit(&repo.stamp(), reason)?;
    }
    Ok(after)
}

fn expect_session(repo: &Repo, session: &str) -> Result<()> {
    match repo.repository().branches_of(session).is_empty() {
        true => Err(Error::not_found(format!("there is no session '{session}'"))),
        false => Ok(()),
    }
}

impl Answer for SessionLabels {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let set = PyFrozenSet::new(py, self.labels)?;
        named(py, "SessionLabels", (self.title, set))
    }
}
