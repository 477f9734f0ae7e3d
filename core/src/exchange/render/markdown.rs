//! A transcript to read: a heading a turn, what was said as quotes, tools and files folded.
//!
//! What others wrote stands in quotes and in fences that are longer than any run of backticks in
//! them, so it cannot end the place where it stands; see `escape`.

use std::io::Write;

use similar::TextDiff;

use super::ShowTime;
use super::escape::{fenced, html, line_of, quoted};
use super::story::{Changes, Chapter, Entry, Splice, Story};
use crate::context::{MAIN_AGENT, MessageEntry, agent_section};
use crate::error::{Error, Result};
use crate::exchange::formats::view;
use crate::exchange::json;
use crate::exchange::view::MessageView;
use crate::object::{Kind, ObjectId, ObjectSource};
use crate::repo::Repository;
use crate::tree::Item;

/// Most lines of a difference, a call or a result that are shown.
const MAX_LINES: usize = 400;

/// Lines around a change.
const CONTEXT_LINES: usize = 3;

/// Largest content that is compared line by line, in bytes.
const MAX_COMPARED_BYTES: usize = 256 << 10;

/// Writes the line of snapshots that ends in `tip` as Markdown, oldest turn first.
///
/// # Errors
/// `Io` when `out` refuses, else what reading reports.
pub fn export_markdown(
    repo: &Repository,
    tip: &ObjectId,
    show_time: ShowTime<'_>,
    out: &mut dyn Write,
) -> Result<()> {
    let newest = repo.commit(tip)?;
    let mut writing = Writing { source: repo.store(), show_time, out };
    writing.line(&format!("# {}", line_of(&newest.session)))?;
    let mut story = Story::of_line(repo, tip)?.peekable();
    let mut before = None;
    while let Some(chapter) = story.next() {
        let chapter = chapter?;
        let after = match story.peek() {
            Some(Ok(next)) => Some(next.entry.commit.turn),
            _ => None,
        };
        writing.turn(&chapter, before, after)?;
        before = Some(chapter.entry.commit.turn);
    }
    Ok(())
}

struct Writing<'a> {
    source: &'a dyn ObjectSource,
    show_time: ShowTime<'a>,
    out: &'a mut dyn Write,
}

impl Writing<'_> {
    fn turn(&mut self, chapter: &Chapter, before: Option<u64>, after: Option<u64>) -> Result<()> {
        let commit = &chapter.entry.commit;
        let turn = commit.turn;
        self.line(&format!("\n<a id=\"turn-{turn}\"></a>\n\n## Turn {turn}\n"))?;
        let link = |to: Option<u64>, word: &str| to.map(|to| format!("[{word}](#turn-{to})"));
        let mut facts = vec![(self.show_time)(commit.time)];
        let names = [commit.author.model.as_str(), &commit.author.agent, commit.trigger.name()];
        facts.extend(names.into_iter().filter(|name| !name.is_empty()).map(line_of));
        facts.push(format!("`{}`", chapter.entry.id.short(12)));
        facts.extend(link(before, "turn before"));
        facts.extend(link(after, "turn after"));
        self.line(&facts.join(" · "))?;
        let Some(changes) = &chapter.changes else {
            return self.line("\nWhat this turn held has expired.");
        };
        self.conversations(changes)?;
        for entry in &changes.entries {
            self.entry(entry)?;
        }
        Ok(())
    }

    fn conversations(&mut self, changes: &Changes) -> Result<()> {
        let main = agent_section(MAIN_AGENT, "messages")?;
        for (section, splices) in &changes.lists {
            let Some(agent) = section.strip_suffix("/messages") else { continue };
            if *section != main {
                let agent = agent.strip_prefix("agents/").unwrap_or(agent);
                self.line(&format!("\n### {}", line_of(agent)))?;
            }
            splices.iter().try_for_each(|splice| self.splice(splice))?;
        }
        Ok(())
    }

    fn splice(&mut self, splice: &Splice) -> Result<()> {
        let gone = splice.old.end - splice.old.start;
        if gone > 0 {
            let messages = if gone == 1 { "message" } else { "messages" };
            self.line(&format!("\n*{gone} {messages} left the context.*"))?;
        }
        for item in &splice.new {
            let entry = MessageEntry::from_item(item)?;
            let bytes = self.source.read_as(Kind::Blob, &entry.blob)?;
            self.message(&entry, &view(&entry.media, &bytes))?;
        }
        Ok(())
    }

    fn message(&mut self, entry: &MessageEntry, message: &MessageView) -> Result<()> {
        let origin = entry.origin.as_ref().map(|origin| format!(" (from {})", line_of(origin)));
        self.line(&format!("\n**{}**{}\n", entry.role.name(), origin.unwrap_or_default()))?;
        if !message.thinking.is_empty() {
            self.fold("thinking", &quoted(&message.thinking))?;
        }
        if !message.text.is_empty() {
            self.line(&quoted(&message.text))?;
        }
        for call in &message.tool_calls {
            let title = format!("call <b>{}</b>", html(&call.name));
            let (input, language) = readable(&call.input);
            self.fold(&title, &fenced(&cut(&input), language))?;
        }
        for result in &message.tool_results {
            let failed = if result.is_error { " that failed" } else { "" };
            let lines = match result.text.lines().count() {
                1 => "1 line".to_owned(),
                lines => format!("{lines} lines"),
            };
            let title = format!("result{failed}, {lines}");
            self.fold(&title, &fenced(&cut(&result.text), ""))?;
        }
        Ok(())
    }

    /// A file or entry that changed, as a difference.
    fn entry(&mut self, entry: &Entry) -> Result<()> {
        if entry.section == "meta" {
            return Ok(());
        }
        let key = if entry.key.is_empty() { String::new() } else { format!("/{}", entry.key) };
        let path = html(&format!("{}{key}", entry.section));
        let (old, new) = (self.content(entry.old.as_ref())?, self.content(entry.new.as_ref())?);
        let word = match (&entry.old, &entry.new) {
            (None, _) => "new ",
            (_, None) => "gone ",
            _ => "changed ",
        };
        let body = match (old, new) {
            (Some(old), Some(new)) => {
                let diff = TextDiff::from_lines(&old, &new);
                let lines = diff.unified_diff().context_radius(CONTEXT_LINES).to_string();
                fenced(&cut(&lines), "diff")
            }
            _ => "not text, or too large to show".to_owned(),
        };
        self.fold(&format!("{word}<code>{path}</code>"), &body)
    }

    /// The text of an entry; nothing where there is none to show.
    fn content(&self, item: Option<&Item>) -> Result<Option<String>> {
        let Some(item) = item else { return Ok(Some(String::new())) };
        if item.link.kind != Kind::Blob {
            return Ok(None);
        }
        let bytes = self.source.read_as(Kind::Blob, &item.link.id)?;
        if bytes.len() > MAX_COMPARED_BYTES || bytes.contains(&0) {
            return Ok(None);
        }
        Ok(std::str::from_utf8(&bytes).ok().map(str::to_owned))
    }

    fn fold(&mut self, title: &str, body: &str) -> Result<()> {
        self.line(&format!("\n<details><summary>{title}</summary>\n\n{body}\n\n</details>"))
    }

    fn line(&mut self, text: &str) -> Result<()> {
        writeln!(self.out, "{text}").map_err(|error| Error::io("write the transcript", error))
    }
}

/// Arguments with line ends where people want them, and their language.
fn readable(input: &str) -> (String, &'static str) {
    let value = json::value(input.as_bytes());
    match value.and_then(|value| serde_json::to_string_pretty(&value).ok()) {
        Some(pretty) => (pretty, "json"),
        None => (input.to_owned(), ""),
    }
}

/// The first lines of a text, and how many are left out.
fn cut(text: &str) -> String {
    let more = text.lines().count().saturating_sub(MAX_LINES);
    if more == 0 {
        return text.to_owned();
    }
    let lines: Vec<&str> = text.lines().take(MAX_LINES).collect();
    format!("{}\n... {more} more lines", lines.join("\n"))
}
