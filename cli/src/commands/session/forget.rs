//! `session forget`: removes sessions and frees their space; adoption does not import them again.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::Write;

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree::maintenance::{
    Fullness, Purpose, SessionSize, collect, measure_sessions, newest_time,
};
use turntree::object::{ObjectId, Time};
use turntree::repo::Repository;
use turntree::{Error, ErrorKind};

use crate::porcelain::read::sessions::named_session;
use crate::porcelain::store::maintenance_wait::Patience;
use crate::porcelain::store::store_budget;
use crate::program::complete::sessions;
use crate::program::invocation::{Invocation, stamp};
use crate::program::live::{LiveSession, client_session, live_sessions};
use crate::view::error::{Answer, Failure, Hint, Result};
use crate::view::output::{FAINT, NAME, Output, warn};
use crate::view::render::table::{Cell, Table};
use crate::view::render::{count, size};
use crate::view::units::{duration, parse_duration};
use crate::view::{clock, json};

/// Forget sessions and free their space
///
/// Prints the sessions and the space to free; --yes forgets them. Their branches are deleted in one
/// operation, and the same command frees content that only they have, so an undo cannot restore
/// them. With --grace, the first collection after that time frees it, and 'undo' restores the
/// sessions until then. Turns that another session continues are kept. A session with a pin or a
/// tag on one of its turns is refused, and so is the session of the calling agent.
///
/// 'adopt', 'import', 'bundle unbundle' and hooks leave forgotten sessions out; their option
/// --again imports them again. A remote keeps its copy until 'push --delete' deletes it: 'fetch'
/// fetches that copy only if the session is named.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree session forget old-experiment
  turntree session forget old-experiment another --yes
  turntree session forget --older-than 180d --yes --grace 7d")]
pub(super) struct Forget {
    /// Sessions, by name or title, or by the beginning of one
    #[arg(value_name = "SESSION", required_unless_present = "older_than",
        add = ArgValueCompleter::new(sessions))]
    sessions: Vec<String>,
    /// Also every session whose newest turn is older than this, such as 180d, unless one of its
    /// turns has a pin or a tag; times in the future do not count
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    older_than: Option<i64>,
    /// Do it
    #[arg(long)]
    yes: bool,
    /// Only print the sessions to forget (the default)
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Free nothing until this time has passed, such as 7d
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    grace: Option<i64>,
    #[command(flatten)]
    patience: Patience,
}

/// A session to forget.
struct Leaving {
    session: String,
    branches: u64,
    newest_turn: u64,
    time: Time,
    /// Its size without content shared with kept sessions.
    own: SessionSize,
    /// The remotes that had it when last seen.
    remotes: Vec<String>,
}

impl Forget {
    /// Returns true without --yes.
    pub(super) fn reads_only(&self) -> bool {
        !self.yes
    }

    pub(super) fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let (repo, stamp) = (run.open()?, stamp()?);
        self.patience.apply(&repo);
        let mut leaving = self.leaving(&repo, stamp.time)?;
        let order: Vec<String> = leaving.iter().map(|found| found.session.clone()).collect();
        let sizes = measure_sessions(&repo, &order, stamp.time)?;
        for (found, own) in leaving.iter_mut().zip(sizes.sessions) {
            found.own = own;
        }
        let remotes = repo.remotes()?;
        for found in &mut leaving {
            let has = |name: &&String| !repo.remote_branches(name, Some(&found.session)).is_empty();
            found.remotes = remotes.keys().filter(has).cloned().collect();
        }
        let live = live_sessions(&repo, stamp.time)?;
        for Leaving { session, .. } in leaving.iter().filter(|found| live.contains(&found.session))
        {
            warn(&format!(
                "an agent is in session {session}: turns that it adds later are not recorded"
            ));
        }
        let free_micros = self.grace.map(|grace| stamp.time.micros.saturating_add(grace));
        let (mut freed, mut budget) = (None, None);
        if self.yes && !leaving.is_empty() {
            let mut change = repo.begin();
            for Leaving { session, .. } in &leaving {
                change.forget_session(&repo, session, &stamp, free_micros)?;
            }
            let what = match leaving.as_slice() {
                [only] => format!("session {}", only.session),
                several => count(several.len() as u64, "session"),
            };
            let frees = self.grace.is_none();
            let bound = Fullness::of(&repo)?.bound_bytes;
            let collected = repo.store().with_reserve(bound, || {
                change.commit(&stamp, &format!("forget {what}"))?;
                let collect = || collect(&repo, Purpose::Gc, &stamp, &mut |_| ());
                let hint = "the sessions are forgotten; 'turntree gc' frees their space";
                let collected = frees.then(|| self.patience.again(collect)).transpose();
                collected.hint(ErrorKind::Locked, hint)
            })?;
            if let Some(collected) = collected {
                (freed, budget) = (Some(collected.freed), collected.budget);
            }
        }
        if run.out.json {
            let micros = free_micros.unwrap_or(stamp.time.micros);
            let free_time = Time { micros, ..stamp.time };
            run.out.record(&json::Forgetting {
                dry_run: !self.yes,
                sessions: leaving.iter().map(Leaving::record).collect(),
                free_time: self.yes.then(|| clock::rfc3339(free_time)),
                freed: freed.map(Into::into),
            })?;
            return Ok(Answer::Yes);
        }
        self.write(&mut run.out, &leaving, stamp.time)?;
        for Leaving { session, remotes, .. } in &leaving {
            for remote in remotes {
                let delete = format!("'turntree push --remote {remote} --delete {session}'");
                writeln!(run.out, "{remote} still has {session}: {delete} removes it there")?;
            }
        }
        if let Some(freed) = freed {
            writeln!(run.out, "freed {}, {}", count(freed.objects, "object"), size(freed.bytes))?;
        }
        if let Some(budget) = budget {
            store_budget::write_sum(&mut run.out, &budget.plan, budget.operation)?;
        }
        Ok(Answer::Yes)
    }

    /// The sessions to forget, newest first.
    fn leaving(&self, repo: &Repository, now: Time) -> Result<Vec<Leaving>> {
        let (mut all, mut tips) = (BTreeMap::new(), BTreeMap::<String, Vec<ObjectId>>::new());
        for (branch, tip, commit) in repo.with_commits(repo.branches())? {
            let session = branch.session().to_owned();
            tips.entry(session.clone()).or_default().push(tip);
            let (time, own) = (commit.time, SessionSize::default());
            let remotes = Vec::new();
            let first = Leaving { session, branches: 0, newest_turn: 0, time, own, remotes };
            let known: &mut Leaving = all.entry(first.session.clone()).or_insert(first);
            known.branches += 1;
            known.newest_turn = known.newest_turn.max(commit.turn);
            if time.micros > known.time.micros {
                known.time = time;
            }
        }
        if let Some(age) = self.older_than {
            let young = now.micros.saturating_sub(age)..=now.micros;
            for (session, leaving) in &mut all {
                // The clock at the last record may have been wrong.
                if !young.contains(&leaving.time.micros)
                    && let Some(tips) = tips.get(session)
                    && let Some(time) = newest_time(repo, tips, now)?
                {
                    leaving.time = time;
                }
            }
        }
        let live = match client_session().map(|id| LiveSession::find(repo, &id)) {
            Some(LiveSession::Known(name)) => Some(name),
            _ => None,
        };
        let mut leaving: Vec<Leaving> = Vec::new();
        for text in &self.sessions {
            let name = &named_session(repo, text)?;
            if leaving.iter().any(|known| known.session == *name) {
                continue;
            }
            let Some(found) = all.remove(name) else { continue };
            if let Some(keeper) = repo.names_that_keep(name, now.micros)?.first() {
                let error = Error::invalid(format!("session {name} is kept by {keeper}"));
                let hint = "remove it first: 'turntree unpin', 'turntree tag --delete'";
                return Err(Failure::hinted(error, hint));
            }
            if live.as_ref() == Some(name) {
                let error = Error::invalid(format!("session {name} is the caller"));
                return Err(Failure::hinted(error, "forget it from outside after it has ended"));
            }
            leaving.push(found);
        }
        if let Some(age) = self.older_than {
            for (name, found) in all {
                let is_old = found.time.micros < now.micros.saturating_sub(age);
                if is_old
                    && live.as_ref() != Some(&name)
                    && repo.names_that_keep(&name, now.micros)?.is_empty()
                {
                    leaving.push(found);
                }
            }
        }
        leaving.sort_by_key(|found| Reverse(found.time.micros));
        Ok(leaving)
    }

    fn write(&self, out: &mut Output, leaving: &[Leaving], now: Time) -> Result<()> {
        if leaving.is_empty() {
            writeln!(out, "no session is that old and without a pin or tag")?;
            return Ok(());
        }
        let mut table = Table::new(&["session", "branches", "turns", "newest", "takes"]);
        for found in leaving {
            table.row(vec![
                Cell::styled(NAME, &found.session),
                found.branches.to_string().into(),
                found.own.turns.to_string().into(),
                Cell::styled(FAINT, clock::relative(found.time, now)),
                size(found.own.size.bytes).into(),
            ]);
        }
        table.write(out)?;
        let sessions = count(leaving.len() as u64, "session");
        let turns = count(leaving.iter().map(|found| found.own.turns).sum(), "turn");
        let bytes = size(leaving.iter().map(|found| found.own.size.bytes).sum());
        let undo = "'turntree undo' restores them until then";
        match (self.yes, self.grace.map(duration)) {
            (true, None) => writeln!(
                out,
                "forgot {sessions}: no undo restores them; 'turntree adopt --again' imports transcripts that their agents still have"
            )?,
            (true, Some(grace)) => writeln!(
                out,
                "forgot {sessions}; the first collection after {grace} frees {bytes}: {undo}"
            )?,
            (false, None) => {
                writeln!(out, "would forget {sessions}, {turns}, and free {bytes} immediately")?;
                writeln!(out, "nothing was done: --yes forgets them, and no undo restores them")?;
            }
            (false, Some(grace)) => {
                writeln!(out, "would forget {sessions}, {turns}, and free {bytes} after {grace}")?;
                writeln!(out, "nothing was done: --yes forgets them, and {undo}")?;
            }
        }
        Ok(())
    }
}

impl Leaving {
    fn record(&self) -> json::ForgottenSession {
        json::ForgottenSession {
            session: self.session.clone(),
            branches: self.branches,
            turn: self.newest_turn,
            turns: self.own.turns,
            bytes: self.own.size.bytes,
            time: clock::rfc3339(self.time),
            remotes: self.remotes.clone(),
        }
    }
}
