//! Reports sessions that an agent deletes automatically within days, and whether the store has
//! them.

use std::io::Write;
use std::time::{Duration, SystemTime};

use turntree_exchange::agents::{FoundSession, swept_after};

use crate::view::error::Result;
use crate::view::json;
use crate::view::output::{NAME, Output};
use crate::view::render::count;
use crate::view::units::duration;

/// Sessions that are deleted within this time are reported.
const SOON: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The sessions that an agent deletes soon.
#[derive(Debug)]
pub(super) struct Sweep {
    /// The time for which the agent keeps an unchanged session.
    keeps: Duration,
    /// The current time: files have their times from the same clock.
    now: SystemTime,
    sessions: u64,
    /// Number of these whose current content is not in the store.
    missing: u64,
}

impl Sweep {
    /// Returns the rule of an agent; `None` when it deletes no sessions.
    pub(super) fn of(agent: &str) -> Option<Self> {
        let keeps = swept_after(agent, &|name| std::env::var_os(name))?;
        Some(Self { keeps, now: SystemTime::now(), sessions: 0, missing: 0 })
    }

    pub(super) fn add(&mut self, found: &FoundSession, is_here: bool) {
        let age = self.now.duration_since(found.modified).unwrap_or_default();
        if age.saturating_add(SOON) >= self.keeps {
            self.sessions += 1;
            self.missing += u64::from(!is_here);
        }
    }

    /// Prints it. `compared` is true if every session was compared with the store: a dry run only
    /// knows those that are unchanged since their adoption.
    pub(super) fn print(&self, out: &mut Output, agent: &str, compared: bool) -> Result<()> {
        if self.sessions == 0 {
            return Ok(());
        }
        let agent = out.paint.paint(NAME, agent);
        let (goes, soon) = (count(self.sessions, "session"), words(SOON));
        let here = match (self.missing, self.sessions) {
            (0, 1) => "it is in the store".to_owned(),
            (0, _) => "all are in the store".to_owned(),
            (1, 1) if !compared => "it was not compared with the store".to_owned(),
            (missing, all) if missing == all && !compared => {
                "none was compared with the store".to_owned()
            }
            (1, _) if !compared => "1 was not compared with the store".to_owned(),
            (missing, _) if !compared => format!("{missing} were not compared with the store"),
            (1, 1) => "it is not in the store".to_owned(),
            (missing, all) if missing == all => "none is in the store".to_owned(),
            (1, _) => "1 is not in the store".to_owned(),
            (missing, _) => format!("{missing} are not in the store"),
        };
        writeln!(
            out,
            "{agent} deletes {goes} within {soon}, as it keeps them for {}: {here}",
            words(self.keeps)
        )?;
        Ok(())
    }

    pub(super) fn record(self) -> json::Sweep {
        json::Sweep {
            after_seconds: self.keeps.as_secs(),
            within_seconds: SOON.as_secs(),
            sessions: self.sessions,
            missing: self.missing,
        }
    }
}

fn words(time: Duration) -> String {
    duration(i64::try_from(time.as_micros()).unwrap_or(i64::MAX))
}
