//! Exports a transcript as Markdown: a heading per turn, its messages, and folded file changes.
//!
//! Escapes all recorded text, so that it cannot break out of its place; see `escape`.

use std::io::Write;

use similar::TextDiff;
use turntree::context::MessageEntry;
use turntree::context::sections::{MAIN_MESSAGES, Shown, conversation_agent, facts};
use turntree::error::{Error, Result};
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::Repository;
use turntree::store::Steps;
use turntree::tree::Item;

use super::ShowTime;
use super::escape::{escape_html, escape_inline, fence};
use super::history::{ChangedEntry, Changes, History, Splice, TurnChange};
use super::message::{fold, message, shorten};

/// Context lines around a change.
const CONTEXT_LINES: usize = 3;

/// Largest content that is compared by lines, in bytes.
const MAX_COMPARED_BYTES: usize = 256 << 10;

/// Writes the first-parent line of `tip` as Markdown, the oldest turn first. Counts turns in `steps`.
///
/// # Errors
/// `Io` if `out` fails, and the errors of reading.
pub fn export_markdown(
    repo: &Repository,
    tip: &ObjectId,
    show_time: ShowTime<'_>,
    steps: Option<&Steps>,
    out: &mut dyn Write,
) -> Result<()> {
    let newest = repo.commit(tip)?;
    let mut writing = MarkdownWriter { source: repo, show_time, out };
    writing.line(&format!("# {}", escape_inline(&newest.session)))?;
    let story = History::of_line(repo, tip)?;
    steps.inspect(|steps| steps.begin(story.len() as u64));
    let mut story = story.peekable();
    let mut before = None;
    while let Some(turn_change) = story.next() {
        let turn_change = turn_change?;
        let after = match story.peek() {
            Some(Ok(next)) => Some(next.entry.commit.turn),
            _ => None,
        };
        writing.turn(&turn_change, before, after)?;
        before = Some(turn_change.entry.commit.turn);
        steps.inspect(|steps| steps.pass());
    }
    Ok(())
}

struct MarkdownWriter<'a> {
    source: &'a dyn ObjectSource,
    show_time: ShowTime<'a>,
    out: &'a mut dyn Write,
}

impl MarkdownWriter<'_> {
    fn turn(
        &mut self,
        turn_change: &TurnChange,
        before: Option<u64>,
        after: Option<u64>,
    ) -> Result<()> {
        let commit = &turn_change.entry.commit;
        let turn = commit.turn;
        self.line(&format!("\n<a id=\"turn-{turn}\"></a>\n\n## Turn {turn}\n"))?;
        let link = |to: Option<u64>, word: &str| to.map(|to| format!("[{word}](#turn-{to})"));
        let mut facts = vec![(self.show_time)(commit.time)];
        let names = [commit.author.model.as_str(), &commit.author.agent, commit.trigger.name()];
        facts.extend(names.into_iter().filter(|name| !name.is_empty()).map(escape_inline));
        facts.push(format!("`{}`", turn_change.entry.id.short(12)));
        facts.extend(link(before, "turn before"));
        facts.extend(link(after, "turn after"));
        self.line(&facts.join(" · "))?;
        let Some(changes) = &turn_change.changes else {
            return self.line("\nThe content of this turn has expired.");
        };
        self.conversations(changes)?;
        for entry in &changes.entries {
            self.entry(entry)?;
        }
        Ok(())
    }

    fn conversations(&mut self, changes: &Changes) -> Result<()> {
        for (section, splices) in &changes.lists {
            let Some(agent) = conversation_agent(section) else { continue };
            if section != MAIN_MESSAGES {
                self.line(&format!("\n### {}", escape_inline(agent)))?;
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
            self.line(&message(&entry, &bytes, false))?;
        }
        Ok(())
    }

    /// Writes a changed file or entry as a diff.
    fn entry(&mut self, entry: &ChangedEntry) -> Result<()> {
        if facts(&entry.section).shown == Shown::Nothing {
            return Ok(());
        }
        let key = if entry.key.is_empty() { String::new() } else { format!("/{}", entry.key) };
        let path = escape_html(&format!("{}{key}", entry.section));
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
                fence(&shorten(&lines), "diff")
            }
            _ => "not text, or too large to show".to_owned(),
        };
        self.line(&fold(&format!("{word}<code>{path}</code>"), &body))
    }

    /// Returns the text of an entry. `None` for binary or large content.
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

    fn line(&mut self, text: &str) -> Result<()> {
        writeln!(self.out, "{text}").map_err(|error| Error::io("write the transcript", error))
    }
}
