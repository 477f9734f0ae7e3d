//! `blame`: shows which turn wrote each line, entry or message.

use std::io::Write;
use std::ops::RangeInclusive;

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree::context::split;
use turntree::repo::{Blame as Blamed, BlameKind, Repository};
use turntree::{Error, ErrorKind};

use super::Verb;
use crate::porcelain::read::blame::{PartWithAuthor, each_part};
use crate::porcelain::read::paths::with_similar;
use crate::porcelain::read::place::resolve_place;
use crate::porcelain::read::search::warn_of_gaps;
use crate::program::complete::entries;
use crate::program::invocation::Invocation;
use crate::view::clock;
use crate::view::error::{Answer, Failure, Hint, Result};
use crate::view::output::{FAINT, ID, NAME, Output};
use crate::view::render::{ID_DIGITS, columns_of, cut, harmless, padded};

/// Screen width from which the age of a line is shown.
const WITH_AGE: usize = 100;

const NO_PATH: &str = "name an entry or section, as in HEAD:files/src/main.rs or HEAD:scratchpad";

/// Show which turn wrote each line of an entry, each entry of a section, or each message
///
/// A line marked with ^ is at least as old as the oldest kept turn: an earlier turn may have
/// written it.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree blame src/main.rs
  turntree blame HEAD:files/src/main.rs -L 40,60
  turntree blame nightly:scratchpad
  turntree blame HEAD:agents/main/messages
  turntree blame HEAD:agents/main/state/budget --fields")]
pub(crate) struct Blame {
    /// The entry to show; a path alone is a file of the newest snapshot
    #[arg(value_name = "REV:PATH", add = ArgValueCompleter::new(entries))]
    place: String,
    /// Only these lines, from 1: A,B or A, or ,B
    #[arg(short = 'L', long = "lines", value_name = "A,B")]
    lines: Option<String>,
    /// Show the fields of a JSON object separately
    #[arg(long)]
    fields: bool,
}

impl Verb for Blame {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let lines = self.lines.as_deref().map(parse_lines).transpose()?;
        let repo = run.open()?;
        let revision = resolve_place(&repo, &self.place)?;
        let Some(path) = revision.path.filter(|path| !path.is_empty()) else {
            let missing = Error::invalid(format!("'{}' has no path", self.place));
            return Err(Failure::hinted(missing, NO_PATH));
        };
        let blamed = repo
            .blame(&revision.commit, &path, self.fields)
            .hint(ErrorKind::InvalidInput, "leave out --fields to blame line by line");
        let mut blamed = with_similar(&repo, &revision.commit, &path, blamed)?;
        if let Some(lines) = lines {
            let mut numbers = 1..;
            blamed.parts.retain(|_| numbers.next().is_some_and(|number| lines.contains(&number)));
        }
        if !run.out.json {
            run.out.page();
        }
        write(&mut run.out, &repo, split(&path).0, &blamed)?;
        if !run.out.json && blamed.parts.iter().any(|part| part.gap) {
            warn_of_gaps(&blamed.gaps);
        }
        Ok(Answer::Yes)
    }
}

/// Parses a range of lines `A,B`.
fn parse_lines(text: &str) -> Result<RangeInclusive<u64>> {
    let wrong = || Error::invalid(format!("'{text}': expected lines from 1 as A,B"));
    let number = |side: &str, otherwise| match side {
        "" => Ok(otherwise),
        digits => digits.parse().ok().filter(|number| *number > 0).ok_or_else(wrong),
    };
    let (first, last) = match text.split_once(',') {
        Some((first, last)) => (number(first, 1)?, number(last, u64::MAX)?),
        None => (number(text, 0)?, number(text, 0)?),
    };
    if first == 0 || first > last {
        return Err(wrong().into());
    }
    Ok(first..=last)
}

fn write(out: &mut Output, repo: &Repository, section: &str, blamed: &Blamed) -> Result<()> {
    let now = clock::now()?;
    let width = blamed.parts.iter().map(|part| columns_of(&part.name)).max().unwrap_or(0);
    let turns = blamed.parts.iter().map(|part| part.turn).max().unwrap_or(0).to_string().len();
    each_part(repo, section, blamed, &mut |told| {
        if out.json {
            out.record(&told.record())?;
            return Ok(());
        }
        let PartWithAuthor { part, commit, role, text } = told;
        let paint = out.paint;
        let gap = if part.gap { "^" } else { " " };
        let id = paint.paint(ID, part.commit.short(ID_DIGITS));
        let mut about = format!("turn {:>turns$}", part.turn);
        if !out.width.is_below(WITH_AGE) {
            about.push_str(&format!("  {:<14}", clock::relative(commit.time, now)));
        }
        let name = harmless(&part.name);
        let name = match blamed.kind {
            BlameKind::Lines | BlameKind::Items => format!("{name:>width$}"),
            BlameKind::Fields | BlameKind::Entries => padded(&name, width),
        };
        let role = role.map_or(String::new(), |role| format!("  {:<9}", role.name()));
        let text = harmless(&text.unwrap_or_default());
        let used = ID_DIGITS
            + 6
            + [&*about, &*name, &*role].iter().map(|text| columns_of(text)).sum::<usize>();
        let text = match out.width.columns() {
            Some(_) => cut(&text, out.width.left(used)),
            None => text,
        };
        let line = format!(
            "{gap}{id} {}  {}{role}  {text}",
            paint.paint(FAINT, about),
            paint.paint(NAME, name)
        );
        writeln!(out, "{}", line.trim_end())?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_named_from_one_on() {
        for (text, expected) in [
            ("3,5", Some(3..=5)),
            ("7", Some(7..=7)),
            (",2", Some(1..=2)),
            ("9,", Some(9..=u64::MAX)),
            ("0", None),
            ("", None),
            ("5,3", None),
            ("a,b", None),
        ] {
            assert_eq!(parse_lines(text).ok(), expected, "{text}");
        }
    }
}
