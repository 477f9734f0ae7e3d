//! What was said in turns, as lines: prompts and answers whole, calls and results by their beginnings.

use turntree::context::{MAIN_AGENT, MessageEntry, Role, agent_section, diff_section};
use turntree::object::{Kind, ObjectSource};
use turntree::repo::Repository;
use turntree_exchange::formats::view;
use turntree_exchange::{Headline, MessageView, is_prompt};

use super::content::Span;
use super::text::{Line, Tone, lines};
use crate::view::error::Result;
use crate::view::render::{ID_DIGITS, count};

/// Lines of a result of a tool that are shown.
const RESULT_LINES: usize = 8;

/// Lines of what was thought that are shown.
const THOUGHT_LINES: usize = 6;

/// Lines of all that are shown: who wants more has the page of `view` and `export`.
const MOST_LINES: usize = 4000;

/// What is said stands behind this.
const INDENT: &str = "  ";

/// What was said to the main agent and by it in turns, in its order.
///
/// # Errors
/// Those of reading: `Expired` for what retention has dropped.
pub(super) fn said(repo: &Repository, span: &Span) -> Result<Vec<Line>> {
    let (source, section) = (repo.store(), agent_section(MAIN_AGENT, "messages")?);
    let before = match &span.base {
        Some(base) => repo.context(base)?.section(source, &section)?,
        None => None,
    };
    let after = repo.context(&span.until)?.section(source, &section)?;
    let mut all = Vec::new();
    for change in diff_section(source, before, after)? {
        let Some(item) = &change.new else { continue };
        if all.len() > MOST_LINES {
            let more = format!("… more follows: turntree show {}", span.until.short(ID_DIGITS));
            all.push(Line::new(Tone::Faint, more));
            return Ok(all);
        }
        let entry = MessageEntry::from_item(item)?;
        let bytes = source.read_as(Kind::Blob, &entry.blob)?;
        let is_of_person = entry.role == Role::User && is_prompt(&entry.media, &bytes);
        let view = view(&entry.media, &bytes);
        write(&mut all, &view, entry.role, is_of_person);
    }
    if all.is_empty() {
        all.push(Line::new(Tone::Faint, "no messages"));
    }
    Ok(all)
}

/// Writes a message behind the others.
fn write(all: &mut Vec<Line>, view: &MessageView, role: Role, is_of_person: bool) {
    if !view.text.trim().is_empty() {
        let (who, tone) = match role {
            Role::User if is_of_person => ("you", Tone::Strong),
            Role::Assistant => ("agent", Tone::Plain),
            role => (role.name(), Tone::Faint),
        };
        part(all, if is_of_person { Tone::Name } else { Tone::Faint }, who);
        all.extend(lines(tone, INDENT, view.text.trim_end()));
    }
    if !view.thinking.trim().is_empty() {
        part(all, Tone::Faint, "thoughts");
        beginning(all, Tone::Faint, &view.thinking, THOUGHT_LINES);
    }
    if !view.tool_calls.is_empty()
        && let Headline::Calls(calls) = headline_of_calls(view)
    {
        for call in calls {
            let text = format!("{INDENT}[{}] {}", call.name, call.argument);
            all.push(Line::new(Tone::Id, text));
        }
    }
    for result in &view.tool_results {
        let tone = if result.is_error { Tone::Removed } else { Tone::Faint };
        beginning(all, tone, &result.text, RESULT_LINES);
    }
}

/// The headline of the calls of a message alone.
fn headline_of_calls(view: &MessageView) -> Headline {
    let calls = view.tool_calls.clone();
    let only = MessageView { tool_calls: calls, ..MessageView::new(Role::Assistant) };
    only.headline()
}

fn part(all: &mut Vec<Line>, tone: Tone, who: &str) {
    if !all.is_empty() {
        all.push(Line::empty());
    }
    all.push(Line::new(tone, who));
}

/// Writes the first lines of a text, and how many follow.
fn beginning(all: &mut Vec<Line>, tone: Tone, text: &str, most: usize) {
    let text = text.trim_end();
    let all_lines = text.lines().count();
    let shown: Vec<&str> = text.lines().take(most).collect();
    all.extend(lines(tone, "    ", &shown.join("\n")));
    if all_lines > most {
        let more = count((all_lines - most) as u64, "line");
        all.push(Line::new(Tone::Faint, format!("    … {more} more")));
    }
}
