//! `branch`: lists branches.

use std::io::Write;

use clap::Args;

use crate::error::{Answer, Result};
use crate::invocation::Invocation;
use crate::output::{FAINT, ID, NAME};
use crate::render::{ID_DIGITS, one_line};
use crate::{clock, json};

/// List branches
///
/// Shows every branch of every session: where it is, how old its newest snapshot is, and what that
/// says. HEAD's branch has a star.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree branch
  turntree branch --session nightly
  turntree branch --json | jq '.branches[].branch'")]
pub(crate) struct Branch {
    /// Only branches of this session
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
}

impl Branch {
    pub(crate) fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let (head, now) = (repo.head()?.branch, clock::now()?);
        let mut branches = repo.branches();
        branches
            .retain(|(name, _)| self.session.as_deref().is_none_or(|only| only == name.session()));
        let width = branches.iter().map(|(name, _)| name.to_string().chars().count()).max();
        let width = width.unwrap_or(0);
        let mut records = Vec::new();
        for (name, id) in branches {
            let commit = repo.commit(&id)?;
            if run.out.json {
                records.push(json::Branch {
                    session: name.session().to_owned(),
                    branch: name.branch().to_owned(),
                    id: id.to_string(),
                    turn: commit.turn,
                    time: clock::rfc3339(commit.time),
                    message: commit.message,
                    head: name == head,
                });
                continue;
            }
            let paint = run.out.paint;
            writeln!(
                run.out,
                "{} {} {}  turn {:<5} {}  {}",
                if name == head { '*' } else { ' ' },
                paint.paint(NAME, format_args!("{:<width$}", name.to_string())),
                paint.paint(ID, id.short(ID_DIGITS)),
                commit.turn,
                paint.paint(FAINT, format!("{:<14}", clock::relative(commit.time, now))),
                one_line(&commit.message, 60),
            )?;
        }
        if run.out.json {
            run.out.record(&json::Branches { branches: records })?;
        }
        Ok(Answer::Yes)
    }
}
