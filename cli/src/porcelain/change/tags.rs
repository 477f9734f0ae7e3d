//! Tags: adds, deletes and lists them.

use turntree::object::{ObjectId, Time};
use turntree::repo::{NamedTag, Repository, Signature, Transaction};
use turntree::{Error, ErrorKind};

use crate::porcelain::read::revision::resolve;
use crate::program::invocation::stamp;
use crate::view::advice::Advice;
use crate::view::error::{Hint, Result};
use crate::view::{clock, json};

/// Tags a revision; returns the tag.
pub(crate) fn add(
    repo: &Repository,
    name: &str,
    revision: &str,
    message: &str,
) -> Result<NamedTag> {
    let stamp = stamp()?;
    let change = stage(repo, name, revision, message, &stamp)?;
    change.commit(&stamp, &format!("tag {name}"))?;
    let made = repo.tags()?.into_iter().find(|tag| tag.name == name);
    made.ok_or_else(|| {
        Error::not_found(format!("tag {name} was deleted by another process")).into()
    })
}

/// Tags a revision in a transaction, without committing it.
pub(crate) fn stage<'r>(
    repo: &'r Repository,
    name: &str,
    revision: &str,
    message: &str,
    stamp: &Signature,
) -> Result<Transaction<'r>> {
    let id = resolve(repo, revision)?.commit;
    let mut change = repo.begin();
    let taken = Advice::new(
        "choose another name, or delete the old one with 'turntree tag --delete'",
        "choose another name, or delete the old one with action = delete",
    );
    change.tag(name, &id, message.to_owned(), stamp).hint(ErrorKind::InvalidInput, taken)?;
    Ok(change)
}

/// Deletes tags; returns their names, and the objects that they named.
pub(crate) fn delete<'n>(
    repo: &Repository,
    names: &'n [String],
) -> Result<Vec<(&'n String, ObjectId)>> {
    let tags = repo.tags()?;
    let target = |name: &String| tags.iter().find(|tag| tag.name == *name).map(|t| t.tag.target);
    let mut change = repo.begin();
    let listing = || Advice::new("'turntree tag' lists them", "action = list lists them");
    for name in names {
        change.untag(name).hint(ErrorKind::NotFound, listing())?;
    }
    change.commit(&stamp()?, &format!("delete tag {}", names.join(", ")))?;
    Ok(names.iter().filter_map(|name| Some((name, target(name)?))).collect())
}

/// The records of deleted tags.
pub(crate) fn deleted(tags: &[(&String, ObjectId)]) -> Vec<json::DeletedTag> {
    let record = |(name, id): &(&String, ObjectId)| json::DeletedTag {
        tag: (*name).clone(),
        id: id.to_string(),
    };
    tags.iter().map(record).collect()
}

/// The JSON record of a tag.
pub(crate) fn record_of(repo: &Repository, NamedTag { name, tag }: &NamedTag) -> Result<json::Tag> {
    let id = repo.peel(&tag.target)?;
    let commit = repo.commit(&id)?;
    let utc = |micros| clock::rfc3339(Time { micros, offset_minutes: 0 });
    Ok(json::Tag {
        tag: name.clone(),
        id: id.to_string(),
        session: commit.session,
        turn: commit.turn,
        message: tag.message.clone(),
        actor: tag.tagger.clone(),
        time: (tag.time_micros != 0).then(|| utc(tag.time_micros)),
    })
}
