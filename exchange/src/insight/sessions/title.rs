//! The title of a session without one: its first prompt, shortened at a word.
//!
//! Some clients begin each plan with the same sentence. The title is then the first heading of the
//! prompt.

use turntree::context::{MAIN_AGENT, MessageEntry, Role};
use turntree::error::{ErrorKind, Result};
use turntree::object::{Commit, Kind, ObjectSource};
use turntree::repo::Repository;

use crate::formats::view;

/// The sentence with which the plan mode of Claude Code begins a session.
const PLAN: &str = "Implement the following plan:";

/// The characters of a commit message that an import may have cut.
const CUT_CHARS: usize = 100;

/// Most messages of a turn that are searched for its prompt.
const MAX_MESSAGES: u64 = 16;

/// Returns the title of a session whose first prompt is the turn `first`, and true if it comes from
/// the content of that turn.
///
/// # Errors
/// The errors of reading the prompt. A prompt that expired has the title of its commit.
pub(super) fn prompt_title(repo: &Repository, first: &Commit) -> Result<(String, bool)> {
    if first.message.trim_end() == PLAN
        && let Some(heading) = heading_of_prompt(repo, first)?
    {
        return Ok((shortened(&heading), true));
    }
    Ok((shortened(&first.message), false))
}

/// Returns the first heading in the prompt of a turn.
fn heading_of_prompt(repo: &Repository, turn: &Commit) -> Result<Option<String>> {
    let store = repo.store();
    let read = || -> Result<Option<String>> {
        let context = turntree::context::Context::open(store, &turn.tree)?;
        let messages = context.messages(store, MAIN_AGENT)?;
        let end = messages.len();
        for index in (end.saturating_sub(MAX_MESSAGES)..end).rev() {
            let Some(item) = messages.get(store, index)? else { continue };
            let entry = MessageEntry::from_item(&item)?;
            if entry.role != Role::User {
                continue;
            }
            let message = view(&entry.media, &store.read_as(Kind::Blob, &entry.blob)?);
            if let Some(heading) = heading_in(&message.text) {
                return Ok(Some(heading));
            }
        }
        Ok(None)
    };
    match read() {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::Expired | ErrorKind::NotFound | ErrorKind::Redacted
            ) =>
        {
            Ok(None)
        }
        found => found,
    }
}

/// Returns the text of the first Markdown heading, without a label such as `Plan:`.
fn heading_in(text: &str) -> Option<String> {
    let heading = text.lines().find_map(|line| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start_matches('#');
        let heading = rest.strip_prefix(' ')?.trim();
        (!heading.is_empty()).then_some(heading)
    })?;
    let plain = heading.strip_prefix("Plan:").map_or(heading, str::trim_start);
    Some(if plain.is_empty() { heading } else { plain }.to_owned())
}

/// Returns a title that shows that it was cut, at a word.
fn shortened(text: &str) -> String {
    if text.chars().count() < CUT_CHARS {
        return text.to_owned();
    }
    let cut: String = text.chars().take(CUT_CHARS - 1).collect();
    let end = cut.rfind(' ').filter(|end| *end > cut.len() / 2).unwrap_or(cut.len());
    let words = cut.get(..end).unwrap_or(&cut).trim_end_matches([' ', ',', '.', ';', ':']);
    format!("{words}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_cut_at_a_word_and_say_so() {
        assert_eq!(shortened("fix the parser"), "fix the parser");
        let long = "word ".repeat(40);
        let title = shortened(&long);
        assert!(title.ends_with("word…") && title.chars().count() <= CUT_CHARS, "{title}");
        assert_eq!(shortened(&"é".repeat(300)).chars().count(), CUT_CHARS);
    }

    #[test]
    fn the_first_heading_of_a_plan_is_found() {
        for (text, expected) in [
            (
                "Implement the following plan:\n\n# Plan: Split the parser\n\n## Why",
                "Split the parser",
            ),
            ("Implement the following plan:\n## Two levels ##x", "Two levels ##x"),
            ("# Plan:", "Plan:"),
        ] {
            assert_eq!(heading_in(text).as_deref(), Some(expected));
        }
        assert_eq!(heading_in("no heading\n#tag\n#\n"), None);
    }
}
