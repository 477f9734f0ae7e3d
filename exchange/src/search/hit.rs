//! Reads a candidate of the index from the store, which decides whether it is a hit.

use turntree::context::{Context, Shape};
use turntree::error::{Error, ErrorKind, Result};
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::Repository;
use turntree::tree::{List, Map};

use super::answer::SearchHit;
use super::document::text_of;
use super::index::Candidate;
use super::matches::{Matcher, TermPresence, TextMatch};
use super::question::Question;

/// Returns the hit of a candidate if its place in the store still holds its blob and the blob has
/// all required terms and one term, and how it has each term.
pub(super) fn hit_of(
    repo: &Repository,
    candidate: &Candidate,
    (question, matcher): (&Question, &Matcher<'_>),
) -> Result<Option<(SearchHit, Vec<TermPresence>)>> {
    let bytes = repo.read_as(Kind::Blob, &candidate.blob)?;
    let text = text_of(&candidate.format, &bytes);
    let Some(found) = text.and_then(|text| matcher.look_at(&text)) else { return Ok(None) };
    if entry_at(repo, candidate)? != Some(candidate.blob) {
        return Ok(None);
    }
    let TextMatch { snippet, terms } = found;
    let typed = |wanted: TermPresence| {
        let units = question.units.iter().zip(&terms);
        units.filter(|(_, found)| **found == wanted).map(|(unit, _)| unit.typed.clone()).collect()
    };
    let hit = SearchHit {
        session: candidate.session.clone(),
        turn: candidate.turn,
        commit: candidate.commit,
        time: repo.commit(&candidate.commit)?.time,
        section: candidate.section.clone(),
        key: candidate.key.clone(),
        role: candidate.role,
        tools: candidate.tools.clone(),
        blob: candidate.blob,
        snippet,
        missing: typed(TermPresence::Missing),
        varied: typed(TermPresence::Varied),
    };
    Ok(Some((hit, terms)))
}

/// Returns the blob at the place of a candidate.
fn entry_at(repo: &Repository, candidate: &Candidate) -> Result<Option<ObjectId>> {
    let store = repo.store();
    let context: Context = repo.context(&candidate.commit)?;
    let Some(section) = context.section(store, &candidate.section)? else { return Ok(None) };
    let item = match section.shape {
        Shape::Blob => return Ok(Some(section.id)),
        Shape::Map => Map::open(store, &section.id)?.get(store, candidate.key.as_bytes())?,
        Shape::List => match candidate.key.parse() {
            Ok(index) => List::open(store, &section.id)?.get(store, index)?,
            Err(_) => None,
        },
    };
    Ok(item.map(|item| item.link.id))
}

/// Returns true if the content was deleted deliberately.
pub(super) fn is_deleted(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Expired | ErrorKind::Redacted)
}
