//! Gives an agent what was merged or picked into its branch while it had the conversation.

use turntree::Result;
use turntree::object::ObjectId;
use turntree::repo::Repository;
use turntree::workspace::{read_note, write_note};
use turntree_exchange::agents::hook::HookEvent;
use turntree_exchange::{Contribution, contributions};

use super::effects::listening_session;
use crate::view::render::harmless;

/// The most characters of the texts of a contribution. Of a longer conversation the end is given,
/// because agents state their result there.
const MAX_CHARS: usize = 4000;

/// The most paths of a contribution.
const MAX_FILES: usize = 20;

/// The note of a client session without a contribution.
const NONE: &str = "none";

/// Returns what merges and cherry-picks brought to the branch since the last prompt of the client
/// session, each once. A session that begins has the context of its branch, so it needs nothing.
pub(super) fn brought(
    repo: &Repository,
    event: &HookEvent,
    tip: &ObjectId,
) -> Result<Option<String>> {
    let Some(session) = listening_session(event) else { return Ok(None) };
    let name = format!("contributions told in {session}");
    let known = read_note(repo, &name);
    let since = known.as_deref().and_then(|id| std::str::from_utf8(id).ok()?.parse().ok());
    let found = contributions(repo, tip, since.as_ref())?;
    let newest = found.first().map(|newest| newest.commit).or(since);
    let newest = newest.map_or_else(|| NONE.to_owned(), |newest| newest.to_string());
    if known.as_deref() != Some(newest.as_bytes()) {
        write_note(repo, &name, newest.as_bytes())?;
    }
    if known.is_none() {
        return Ok(None);
    }
    let told = found.iter().rev().map(described).collect::<Vec<_>>();
    Ok((!told.is_empty()).then(|| told.join("\n")))
}

fn described(brought: &Contribution) -> String {
    let mut told = format!(
        "turntree: the person merged {} into the branch of this conversation (turn {}).",
        harmless(&brought.from),
        brought.turn
    );
    let texts = brought.texts.join("\n\n");
    let skipped = texts.chars().count().saturating_sub(MAX_CHARS);
    if !texts.is_empty() {
        let of = if skipped > 0 { "The end of its messages" } else { "Its messages" };
        told += &format!(" {of}:\n{}\n", texts.chars().skip(skipped).collect::<String>());
    }
    if !brought.files.is_empty() {
        let files: Vec<_> = brought.files.iter().take(MAX_FILES).map(|it| harmless(it)).collect();
        let more = brought.files.len().saturating_sub(MAX_FILES);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        told += &format!(
            " It changed these files: {}{more}. Read them again before you use or edit them.",
            files.join(", ")
        );
    }
    told
}
