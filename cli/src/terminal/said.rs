//! The messages of turns as lines: prompts and answers in full, the beginnings of calls and
//! results.

use turntree::context::sections::MAIN_MESSAGES;
use turntree::context::{MessageEntry, Role, diff_section};
use turntree::object::{Kind, ObjectSource};
use turntree::repo::Repository;
use turntree_exchange::formats::view;
use turntree_exchange::{Headline, MessageView, is_prompt};

use super::content::Span;
use super::text::{Line, Tone, lines};
use crate::view::error::Result;
use crate::view::render::{ID_DIGITS, count};

/// Lines shown of the result of a tool.
const RESULT_LINES: usize = 8;

/// Lines shown of thoughts.
const THOUGHT_LINES: usize = 6;

/// Lines shown in total. `view` and `export` show everything.
const MOST_LINES: usize = 4000;

/// The indent of a message.
const INDENT: &str = "  ";

/// The messages of the main agent in turns, in order.
///
/// # Errors
/// The errors of reading: `Expired` for turns that retention has dropped.
pub(super) fn said(repo: &Repository, span: &Span) -> Result<Vec<Line>> {
    let source = repo;
    let before = match &span.base {
        Some(base) => repo.context(base)?.section(source, MAIN_MESSAGES)?,
        None => None,
    };
    let after = repo.context(&span.until)?.section(source, MAIN_MESSAGES)?;
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

/// Appends the lines of a message.
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

/// The headline of a message's tool calls alone.
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

/// Appends the first lines of a text, and the number of lines left out.
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
