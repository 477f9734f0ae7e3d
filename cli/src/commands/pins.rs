//! `pins`: lists pins and their expiry.

use clap::Args;

use super::Verb;
use crate::porcelain::change::pins::list;
use crate::porcelain::read::sessions::named_session_if;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};
use crate::view::output::{FAINT, ID, NAME, note};
use crate::view::render::table::{Cell, Column, Table};
use crate::view::render::{ID_DIGITS, one_line};
use crate::view::{clock, json};

/// List pins
///
/// Lists every pin with its snapshot, expiry and reason. An expired pin protects nothing.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree pins
  turntree pins --session nightly
  turntree pins --json | jq -r '.pins[] | select(.expired) | .pin'")]
pub(crate) struct Pins {
    /// Only pins on snapshots of this session
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
}

impl Verb for Pins {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let now = clock::now()?;
        let session = named_session_if(&repo, self.session.as_deref())?;
        let shown = list(&repo, session.as_deref(), now)?;
        if shown.is_empty() && !run.out.json {
            let whose = session
                .as_ref()
                .map_or_else(|| "of any session".to_owned(), |name| format!("of {name}"));
            note(&format!("no pin on a snapshot {whose} in {}", run.store_dir()?.display()));
        }
        if run.out.json {
            let pins = shown.into_iter().map(|(_, record)| record).collect();
            run.out.record(&json::Pins { pins })?;
            return Ok(Answer::Yes);
        }
        let mut table = Table::of(vec![
            Column::name(""),
            Column::text("").rank(3),
            Column::text("").rank(2),
            Column::name(""),
            Column::text("").rank(1),
            Column::title(""),
        ]);
        for (pin, record) in shown {
            let (turn, session) = match (record.turn, record.session) {
                (Some(turn), Some(session)) => (format!("turn {turn}"), session),
                _ => ("missing".to_owned(), String::new()),
            };
            // The default name of a pin is its id.
            let id = pin.commit.short(ID_DIGITS);
            let id = if pin.name == id { String::new() } else { id };
            let expires = match pin.expires_micros {
                None => String::new(),
                Some(_) if record.expired => "expired".to_owned(),
                Some(expires) => format!("expires {}", clock::ahead(expires, now)),
            };
            table.row(vec![
                Cell::styled(NAME, pin.name),
                Cell::styled(ID, id),
                turn.into(),
                session.into(),
                Cell::styled(FAINT, expires),
                one_line(&pin.reason, usize::MAX).into(),
            ]);
        }
        table.write(&mut run.out)?;
        Ok(Answer::Yes)
    }
}
