//! `session rename` and `session label`: set the title and the labels of a session.

use std::io::Write;

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree::repo::SessionLabels;

use crate::porcelain::read::sessions::{named_session, set_labels};
use crate::program::complete::sessions;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};
use crate::view::json;
use crate::view::output::{NAME, STRONG, note};
use crate::view::render::one_line;

/// Give a session a title that replaces the client's
///
/// Its name and its branches do not change. 'turntree undo' reverts it.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree session rename 3f2a91c0 'the parser, second try'
  turntree session rename 3f2a91c0 --clear")]
pub(super) struct Rename {
    /// The session
    #[arg(value_name = "SESSION", add = ArgValueCompleter::new(sessions))]
    session: String,
    /// The title
    #[arg(value_name = "TITLE", required_unless_present = "clear")]
    title: Option<String>,
    /// Use the title of its client again, or the first prompt
    #[arg(long, conflicts_with = "title")]
    clear: bool,
}

/// Add or remove labels of a session; without any, list them
///
/// A label is one word. 'turntree undo' reverts the change.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree session label 3f2a91c0 draft lexer
  turntree session label 3f2a91c0 --remove draft
  turntree session label 3f2a91c0
  turntree sessions --label lexer")]
pub(super) struct Label {
    /// The session
    #[arg(value_name = "SESSION", add = ArgValueCompleter::new(sessions))]
    session: String,
    /// Labels to add
    #[arg(value_name = "LABEL")]
    add: Vec<String>,
    /// Remove this label; may be given several times
    #[arg(long, value_name = "LABEL")]
    remove: Vec<String>,
}

impl Rename {
    pub(super) fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let session = named_session(&repo, &self.session)?;
        let mut labels = repo.session_labels(&session)?;
        labels.title = self.title.clone();
        set_labels(&repo, &session, &labels, "session rename")?;
        if run.out.json {
            return record(run, session, labels);
        }
        let paint = run.out.paint;
        let name = paint.paint(NAME, &session);
        match &labels.title {
            Some(title) => {
                let title = paint.paint(STRONG, one_line(title, usize::MAX));
                writeln!(run.out, "{name} is '{title}' now")?;
            }
            None => writeln!(run.out, "{name} has the title of its client again")?,
        }
        Ok(Answer::Yes)
    }
}

impl Label {
    pub(super) fn reads_only(&self) -> bool {
        self.add.is_empty() && self.remove.is_empty()
    }

    pub(super) fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let session = named_session(&repo, &self.session)?;
        let before = repo.session_labels(&session)?;
        let mut labels = before.clone();
        labels.labels.extend(self.add.iter().cloned());
        for label in &self.remove {
            if !labels.labels.remove(label) {
                note(&format!("{session} has no label {label}"));
            }
        }
        if labels != before {
            set_labels(&repo, &session, &labels, "session label")?;
        }
        if run.out.json {
            return record(run, session, labels);
        }
        let name = run.out.paint.paint(NAME, &session);
        let list: Vec<&str> = labels.labels.iter().map(String::as_str).collect();
        match list.as_slice() {
            [] => writeln!(run.out, "{name} has no label")?,
            list => writeln!(run.out, "{name}: {}", list.join(", "))?,
        }
        Ok(Answer::Yes)
    }
}

fn record(run: &mut Invocation, session: String, said: SessionLabels) -> Result<Answer> {
    let SessionLabels { title, labels } = said;
    let labels = labels.into_iter().collect();
    run.out.record(&json::SessionLabelled { session, title, labels })?;
    Ok(Answer::Yes)
}
