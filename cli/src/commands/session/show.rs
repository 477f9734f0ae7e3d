//! `session show`: shows the facts about a whole session.

use std::io::Write;

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree_exchange::TitleSource;

use crate::porcelain::read::sessions::{ListedSession, listed, named_session};
use crate::program::complete::sessions;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};
use crate::view::output::{FAINT, ID, NAME, Output, STRONG};
use crate::view::render::table::{Cell, Column, Table};
use crate::view::render::{ID_DIGITS, count, one_line, short_number};
use crate::view::{clock, json};

/// Show the origin of a session, its title and labels, and its size
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree session show 3f2a91c0
  turntree session show 'the parser' --json | jq -r .title")]
pub(super) struct Show {
    /// The session; HEAD's by default
    #[arg(value_name = "SESSION", add = ArgValueCompleter::new(sessions))]
    session: Option<String>,
}

impl Show {
    pub(super) fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let name = match &self.session {
            Some(text) => named_session(&repo, text)?,
            None => named_session(&repo, repo.head()?.branch.session())?,
        };
        let now = clock::now()?;
        if let Some(session) = listed(&repo, &name, now)? {
            if run.out.json {
                let record = json::SessionRecord::new(&session.summary, session.is_live);
                run.out.record(&record)?;
            } else {
                write(&mut run.out, &session, &clock::relative(session.summary.time, now))?;
            }
        }
        Ok(Answer::Yes)
    }
}

fn write(out: &mut Output, session: &ListedSession, age: &str) -> Result<()> {
    let ListedSession { summary, is_live, .. } = session;
    let paint = out.paint;
    let (title, source) = match summary.title() {
        None => ("no title", ""),
        Some((title, TitleSource::Person)) => (title, "by 'session rename'"),
        Some((title, TitleSource::Client)) => (title, "by its client"),
        Some((title, TitleSource::Prompt)) => (title, "its first prompt"),
    };
    let left = out.width.left(source.len() + 4);
    let title = paint.paint(STRONG, one_line(title, left));
    match source {
        "" => writeln!(out, "{title}")?,
        source => writeln!(out, "{title}  {}", paint.paint(FAINT, format!("({source})")))?,
    }
    let mut table = Table::of(vec![Column::text(""), Column::title("")]);
    let mut row = |fact: &str, value: Cell| {
        table.row(vec![Cell::styled(FAINT, fact), value]);
    };
    row("session", Cell::styled(NAME, &summary.name));
    if let Some(id) = summary.origin.client_id.as_ref().filter(|id| **id != summary.name) {
        row("id of its client", one_line(id, usize::MAX).into());
    }
    let labels: Vec<&str> = summary.labels.labels.iter().map(String::as_str).collect();
    if !labels.is_empty() {
        row("labels", labels.join(", ").into());
    }
    let model = one_line(&summary.model, usize::MAX);
    let agent = one_line(&summary.agent, usize::MAX);
    row("agent", if model.is_empty() { agent } else { format!("{agent}, {model}") }.into());
    for directory in &summary.origin.directories {
        row("directory", one_line(directory, usize::MAX).into());
    }
    let git = [&summary.origin.git_branch, &summary.origin.git_remote];
    let git: Vec<String> = git.into_iter().flatten().map(|it| one_line(it, usize::MAX)).collect();
    if !git.is_empty() {
        row("git", git.join(" of ").into());
    }
    let newest = summary.tip.short(ID_DIGITS);
    row("newest", Cell::styled(ID, format!("{newest} on {}, {age}", summary.branch)));
    let mut sizes = vec![count(summary.prompts, "prompt"), count(summary.turns, "turn")];
    sizes.extend(summary.files.map(|files| count(files, "file")));
    sizes.extend(summary.tokens.map(|tokens| format!("{} tokens", short_number(tokens))));
    sizes.push(count(summary.branches, "branch"));
    row("holds", sizes.join(", ").into());
    if *is_live {
        row("live", "a hook has recorded turns of it within the last ten minutes".into());
    }
    table.write(out)?;
    Ok(())
}
