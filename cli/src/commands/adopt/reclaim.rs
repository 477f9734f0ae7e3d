//! `adopt --reclaim`: removes transcripts of agents that the store has byte for byte.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::time::{Duration, SystemTime};

use turntree::Error;
use turntree::maintenance::store_budget;
use turntree::repo::Repository;
use turntree_exchange::agents::FoundSession;

use super::originals::{Obstacle, Original, Stored};
use crate::porcelain::sources::all_open_for_writing;
use crate::program::invocation::Invocation;
use crate::program::live::{LiveSession, client_session, live_sessions};
use crate::view::clock;
use crate::view::error::{Answer, Result};
use crate::view::json;
use crate::view::output::{NAME, Output, STRONG, warn};
use crate::view::render::table::{Cell, Table};
use crate::view::render::{count, size};
use crate::view::units::duration;

/// The age of a file that may go, unless another one is said: 7 days.
pub(super) const USUAL_AGE: &str = "7d";

/// The least age, in microseconds: an agent may be at work on what was written later.
const LEAST_AGE: i64 = 60 * 60 * 1_000_000;

/// What of the found sessions goes, and how.
pub(super) struct Reclaim<'a> {
    /// The age of the files that may go, in microseconds.
    pub(super) age: i64,
    /// Set to do it.
    pub(super) does_it: bool,
    /// The program with the store, as a person writes it.
    pub(super) program: &'a str,
}

/// The files that go, and those that stay with the reason.
#[derive(Default)]
struct Files {
    leaving: Vec<Original>,
    staying: Vec<(FoundSession, Obstacle)>,
}

impl Reclaim<'_> {
    pub(super) fn run(self, run: &mut Invocation, sessions: Vec<FoundSession>) -> Result<Answer> {
        if self.age < LEAST_AGE {
            let least = duration(LEAST_AGE);
            let text = format!("--older-than is less than {least}: agents may still write there");
            return Err(Error::invalid(text).into());
        }
        let repo = run.open()?;
        let mut files = self.look(&repo, sessions)?;
        if self.does_it {
            let (planned, written) = (std::mem::take(&mut files.leaving), all_open_for_writing());
            for original in planned {
                match original.remove(&repo, &written) {
                    Ok(()) => files.leaving.push(original),
                    Err(obstacle) => files.staying.push((original.found, obstacle)),
                }
            }
        }
        let failed = files.staying.iter().filter(|(_, why)| matches!(why, Obstacle::Failed(_)));
        let mut answer = Answer::Yes;
        for (found, obstacle) in failed {
            warn(&format!("{}: {}", found.path.display(), obstacle.reason()));
            answer = Answer::No;
        }
        if run.out.json {
            run.out.record(&self.record(&files))?;
            return Ok(answer);
        }
        let budget = store_budget(repo.store(), &repo.refs())?;
        self.print(&mut run.out, &files, budget)?;
        Ok(answer)
    }

    fn look(&self, repo: &Repository, sessions: Vec<FoundSession>) -> Result<Files> {
        let mut live: HashSet<String> = live_sessions(repo, clock::now()?)?;
        if let Some(LiveSession::Known(name)) =
            client_session().map(|it| LiveSession::find(repo, &it))
        {
            live.insert(name);
        }
        let (now, stored) = (SystemTime::now(), Stored::new(repo));
        let age = Duration::from_micros(self.age.unsigned_abs());
        let mut files = Files::default();
        for found in sessions {
            // A time to come is that of a clock that was wrong.
            let is_old = now.duration_since(found.modified).is_ok_and(|past| past >= age);
            let looked = match (live.contains(&found.session), is_old) {
                (true, _) => Err(Obstacle::Live),
                (false, false) => Err(Obstacle::Recent),
                (false, true) => stored.original(&found),
            };
            match looked {
                Ok(original) => files.leaving.push(original),
                Err(obstacle) => files.staying.push((found, obstacle)),
            }
        }
        Ok(files)
    }

    fn print(&self, out: &mut Output, files: &Files, budget: Option<u64>) -> Result<()> {
        let mut table = Table::new(&["agent", "sessions", "there"]);
        let mut agents: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        let mut all = (0, 0);
        for Original { found, .. } in &files.leaving {
            let of_agent = agents.entry(&found.agent).or_default();
            for sum in [of_agent, &mut all] {
                *sum = (sum.0 + 1, sum.1 + found.bytes);
            }
        }
        let several = agents.len() > 1;
        let cells = |agent, (files, bytes): (u64, u64)| {
            vec![agent, files.to_string().into(), size(bytes).into()]
        };
        for (agent, sums) in agents {
            table.row(cells(Cell::styled(NAME, agent), sums));
        }
        if several {
            table.row(cells(Cell::styled(STRONG, "all"), all));
        }
        if all.0 > 0 {
            table.write(out)?;
        }
        let mut reasons: BTreeMap<&Obstacle, u64> = BTreeMap::new();
        for (_, obstacle) in &files.staying {
            *reasons.entry(obstacle).or_default() += 1;
        }
        let reasons = reasons.into_iter().filter(|(why, _)| !matches!(why, Obstacle::Failed(_)));
        for (obstacle, sessions) in reasons {
            let recent = format!("written to within the last {}", duration(self.age));
            let reason = if *obstacle == Obstacle::Recent { recent } else { obstacle.reason() };
            let stay = if sessions == 1 { "stays" } else { "stay" };
            writeln!(out, "{} {stay}: {reason}", count(sessions, "session"))?;
        }
        let (sessions, bytes) = (count(all.0, "session"), size(all.1));
        let back = format!(
            "'{program} resume SESSION' goes on with one in its agent, '{program} export SESSION --format source' gives its file back",
            program = self.program
        );
        match (self.does_it, all.0) {
            (_, 0) => writeln!(out, "no original can go")?,
            (true, _) => {
                writeln!(out, "removed the originals of {sessions}, {bytes}; {back}")?;
            }
            (false, _) => {
                writeln!(
                    out,
                    "would remove the originals of {sessions}, {bytes}: the store has each byte"
                )?;
                writeln!(
                    out,
                    "nothing was done; --yes does it, and no undo brings them back: {back}"
                )?;
            }
        }
        if let Some(budget) = budget.filter(|_| all.0 > 0) {
            let budget = size(budget);
            writeln!(
                out,
                "the store has a budget of {budget} and forgets its oldest sessions beyond it: 'pin' and 'tag' keep one"
            )?;
        }
        Ok(())
    }

    fn record(&self, files: &Files) -> json::Reclaimed {
        let leaving = files.leaving.iter().map(|original| json::ReclaimedOriginal {
            agent: original.found.agent.clone(),
            session: original.branch.session().to_owned(),
            branch: original.branch.branch().to_owned(),
            path: original.found.path.display().to_string(),
            bytes: original.found.bytes,
        });
        let staying = files.staying.iter().map(|(found, obstacle)| json::KeptOriginal {
            agent: found.agent.clone(),
            session: found.session.clone(),
            path: found.path.display().to_string(),
            bytes: found.bytes,
            reason: obstacle.reason(),
        });
        json::Reclaimed {
            dry_run: !self.does_it,
            originals: leaving.collect(),
            kept: staying.collect(),
            bytes: files.leaving.iter().map(|original| original.found.bytes).sum(),
        }
    }
}
