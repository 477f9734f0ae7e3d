//! Section names that users and programs type: known ones, those that the context has already, and
//! those that begin with `x-`. Any other name is refused as a likely typo, since a section that
//! nothing reads would be noticed much later.
//!
//! The library itself writes sections of any name: the rule is for documents.

use std::iter::once;

use turntree::context::Builder;
use turntree::context::sections::{
    AGENTS, Documents, MESSAGES, SOURCE, SectionHolder, facts, known,
};
use turntree::error::{Error, Result};
use turntree::object::ObjectSource;

use crate::text::enumeration::enumeration;

/// Names of this prefix are free for everybody.
const FREE_PREFIX: &str = "x-";

/// Most changes of a name that is taken for a slip of another.
const MAX_SLIPS: usize = 3;

/// Returns the names of the sections that documents may name at least so.
fn section_names(least: Documents) -> impl Iterator<Item = &'static str> {
    once(AGENTS).chain(names_of(SectionHolder::Context, least))
}

/// Returns the names of the parts of an agent that documents may name at least so.
fn part_names(least: Documents) -> impl Iterator<Item = &'static str> {
    names_of(SectionHolder::Agent, least)
}

fn names_of(holder: SectionHolder, least: Documents) -> impl Iterator<Item = &'static str> {
    known(holder).filter(move |facts| facts.documents >= least).map(|facts| facts.name)
}

/// Returns the names of the sections that help lists, as a part of a sentence.
#[must_use]
pub fn listed_sections() -> String {
    enumeration(section_names(Documents::Listed), "and")
}

/// Returns true for the name of a section that a document may name in any context.
#[must_use]
pub fn is_section_name(name: &str) -> bool {
    name.starts_with(FREE_PREFIX) || name == AGENTS || facts(name).documents != Documents::Refused
}

/// Checks the name of a section.
///
/// # Errors
/// `InvalidInput` with the name that is meant, or the form of the document.
pub(super) fn check_section(
    source: &dyn ObjectSource,
    builder: &Builder,
    place: &str,
    name: &str,
) -> Result<()> {
    if is_section_name(name) || builder.shape(source, name)?.is_some() {
        return Ok(());
    }
    if part_names(Documents::Accepted).any(|part| part == name) {
        return Err(Error::invalid(format!(
            "{place}: '{name}' belongs to an agent: expected {}",
            agent_form(place, name)
        )));
    }
    let meant = match nearest(name, section_names(Documents::Accepted)) {
        Some(near) => format!("did you mean '{near}'?"),
        None => {
            let listed: Vec<&str> = section_names(Documents::Listed).collect();
            format!("sections are {}", listed.join(", "))
        }
    };
    Err(unknown(place, "section", name, &meant))
}

/// Checks the part of an agent: the last component of its section.
///
/// # Errors
/// As for [`check_section`].
pub(super) fn check_part(
    source: &dyn ObjectSource,
    builder: &Builder,
    place: &str,
    section: &str,
) -> Result<()> {
    let name = section.rsplit('/').next().unwrap_or(section);
    let is_free =
        name.starts_with(FREE_PREFIX) || part_names(Documents::Accepted).any(|part| part == name);
    if is_free || builder.shape(source, section)?.is_some() {
        return Ok(());
    }
    let meant = match nearest(name, part_names(Documents::Accepted)) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("an agent has {}", enumeration(part_names(Documents::Listed), "and")),
    };
    Err(unknown(place, "part", name, &meant))
}

/// Refuses the section that only an import writes.
///
/// # Errors
/// `InvalidInput` for [`SOURCE`].
pub(super) fn refuse_source(place: &str, name: &str) -> Result<()> {
    match name == SOURCE {
        false => Ok(()),
        true => Err(Error::invalid(format!(
            "{place}: '{SOURCE}' holds an imported transcript, and only that"
        ))),
    }
}

fn unknown(place: &str, what: &str, name: &str, meant: &str) -> Error {
    let free = format!("names that begin with {FREE_PREFIX} are free");
    let colon = if meant.ends_with('?') { "" } else { ";" };
    let name = if is_word(name) { format!(" '{name}'") } else { String::new() };
    Error::invalid(format!("{place}: unknown {what}{name}: {meant}{colon} {free}"))
}

/// Returns true if a name looks like a section name and not like misplaced content.
fn is_word(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_alphabetic() || matches!(letter, '-' | '_' | ' ');
    name.chars().count() <= 24 && name.chars().all(is_letter)
}

/// Shows the place of an agent's section in a document.
fn agent_form(place: &str, name: &str) -> String {
    match (place, name) {
        ("append", _) => r#"{"agents": {"main": [...]}}"#.to_owned(),
        (_, MESSAGES) => r#"{"agents": {"main": {"messages": [...]}}}"#.to_owned(),
        (_, name) => format!(r#"{{"agents": {{"main": {{"{name}": ...}}}}}}"#),
    }
}

/// Returns the known name that `name` is most likely a slip of.
fn nearest(name: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    if name.len() > 64 {
        return None;
    }
    let near = known.map(|known| (slips(name, known), known)).min()?;
    let allowed = name.chars().count().div_ceil(3).min(MAX_SLIPS);
    (near.0 <= allowed).then_some(near.1)
}

/// Counts the characters to insert, remove or replace to make one name of another.
fn slips(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().flat_map(char::to_lowercase).collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.chars().flat_map(char::to_lowercase).enumerate() {
        let mut before = at;
        let mut left = at + 1;
        let mut next = vec![left];
        for (above, wanted) in row.iter().skip(1).zip(&other) {
            let replaced = before + usize::from(*wanted != letter);
            left = replaced.min(above + 1).min(left + 1);
            before = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_a_few_letters_from_a_known_name() {
        assert_eq!(slips("scratchpad", "scratchpad"), 0);
        assert_eq!(slips("scratchpadd", "scratchpad"), 1);
        assert_eq!(slips("Memroy", "memory"), 2);
        assert_eq!(slips("", "git"), 3);
        for (name, near) in [
            ("scratchpadd", Some("scratchpad")),
            ("memories", Some("memory")),
            ("agent", Some("agents")),
            ("file", Some("files")),
            ("todo", None),
            ("system", None),
            ("a", None),
        ] {
            assert_eq!(nearest(name, section_names(Documents::Accepted)), near, "{name}");
        }
        let told = unknown("state", "section", "sk-7f3a9c51", "x").to_string();
        assert!(told.contains("unknown section: x") && !told.contains("7f3a"), "{told}");
    }
}
