//! The title of a session without one: its first prompt, shortened at a word.
//!
//! Some clients begin each plan with the same sentence. The title is then the first heading of the
//! prompt. Others begin prompts with markup. The title is then the first line outside of it. A prompt
//! that begins with a pasted terminal usually ends with the request.

use turntree::context::{MAIN_AGENT, MessageEntry, Role};
use turntree::error::{ErrorKind, Result};
use turntree::object::{Commit, Kind, ObjectSource};
use turntree::repo::Repository;

use crate::formats::view;
use crate::model::words::first_line;

/// The sentence with which the plan mode of Claude Code begins a session.
const PLAN: &str = "Implement the following plan:";

/// The line before the words of the user in a prompt that marks its speakers.
const USER: &str = "\n@[User]:\n";

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
    let message = first.message.trim();
    let telling = match message {
        PLAN => found_in_prompt(repo, first, heading_in)?,
        _ if is_markup(message) => found_in_prompt(repo, first, line_in)?,
        _ if is_shell(message) => found_in_prompt(repo, first, request_below)?,
        _ => None,
    };
    Ok(match telling {
        Some(words) => (shortened(&words), true),
        None => (shortened(&first.message), false),
    })
}

/// Returns what `find` finds in the prompt of a turn.
fn found_in_prompt(
    repo: &Repository,
    turn: &Commit,
    find: fn(&str) -> Option<String>,
) -> Result<Option<String>> {
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
            if let Some(found) = find(&message.text) {
                return Ok(Some(found));
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

/// Returns true for a line that is only a tag, a field of a template such as `[[ ## query ## ]]`, or a
/// speaker such as `@[System]:`.
fn is_markup(line: &str) -> bool {
    let is_between = |start, end| line.starts_with(start) && line.ends_with(end);
    tag(line).is_some() || is_between("[[ ##", "## ]]") || is_between("@[", "]:")
}

/// Returns the name in a line that is only a tag, with a stroke before that of a closing one.
fn tag(line: &str) -> Option<&str> {
    let inside = line.strip_prefix('<')?.strip_suffix('>')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-:/".contains(c);
    let name = inside.split(' ').next().unwrap_or(inside);
    (!name.is_empty() && !inside.contains(['<', '>']) && name.chars().all(is_name)).then_some(name)
}

/// Returns the first line of a text outside of markup, of the user if speakers are marked. An element
/// that is not closed is its tag.
fn line_in(text: &str) -> Option<String> {
    let of_user = text.split_once(USER).map_or(text, |(_, words)| words);
    let mut lines = of_user.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if let Some(name) = tag(line) {
            let end = format!("</{name}>");
            if let Some(at) = lines.clone().position(|line| line == end) {
                lines.nth(at);
            }
        } else if !line.is_empty() && !is_markup(line) {
            return Some(first_line(line));
        }
    }
    None
}

/// Returns true for a line of a terminal that begins with the prompt of a shell.
fn is_shell(line: &str) -> bool {
    const PROMPTS: [&str; 5] = ["$ ", "% ", "❯ ", "➜ ", "λ "];
    let is_host = |start: &str| {
        let name = start.rsplit([' ', '(']).next().unwrap_or(start);
        name.split_once('@').is_some_and(|(user, place)| !user.is_empty() && place.contains(':'))
    };
    PROMPTS.iter().any(|prompt| line.starts_with(prompt))
        || (line.starts_with("PS ") && line.contains("> "))
        || ["$ ", "# "]
            .iter()
            .any(|end| line.split_once(end).is_some_and(|(start, _)| is_host(start)))
}

/// Returns the first line of the last paragraph, unless it belongs to the pasted terminal.
fn request_below(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.trim().lines().map(str::trim_end).collect();
    let above = lines.iter().rposition(|line| line.is_empty())?;
    let line = lines.get(above + 1)?;
    (!is_shell(line)).then(|| first_line(line))
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

    #[test]
    fn the_request_below_a_pasted_terminal_is_found() {
        let pasted = "➜  app git:(main) ✗ git push\nerror: no hook\n\nhint: add one\n➜  app ✗ ls\n\n\
                      please fix the hook\nand push";
        assert!(is_shell(pasted));
        assert_eq!(request_below(pasted).as_deref(), Some("please fix the hook"));
        for text in ["$ make\nerror", "$ make\n\n$ make again", "$ make\n\n"] {
            assert_eq!(request_below(text), None, "{text}");
        }
        for line in ["ann@box:~/app$ make", "(venv) ann@box:/# ls", "PS C:\\app> dir", "❯ make"] {
            assert!(is_shell(line), "{line}");
        }
        let others =
            ["it costs 5$ a day", "mail ann@box: what is $ for", "# Heading", "$HOME is wrong"];
        for line in others {
            assert!(!is_shell(line), "{line}");
        }
    }

    #[test]
    fn the_first_line_outside_of_markup_is_found() {
        for (text, expected) in [
            (
                "<uploaded_files>\n/testbed\n</uploaded_files>\nI've uploaded a repository",
                "I've uploaded a repository",
            ),
            ("[[ ## user_query ## ]]\n\nwhy does it fail?", "why does it fail?"),
            ("<task id=\"1\">\nfix it\n", "fix it"),
            ("@[System]:\nRespond with PASS.\n\n@[User]:\nReturn the token.", "Return the token."),
            ("@[System]:\nRespond with PASS.", "Respond with PASS."),
        ] {
            assert!(is_markup(text.lines().next().unwrap()), "{text}");
            assert_eq!(line_in(text).as_deref(), Some(expected));
        }
        assert_eq!(line_in("<a>\n<b>\n[[ ## end ## ]]"), None);
        for line in ["a < b", "<b>bold</b>", "<3", "[[link]]", "why <T>", "<>", "@[x] y:"] {
            assert!(!is_markup(line), "{line}");
        }
        assert_eq!(tag("</div>"), Some("/div"));
    }
}
