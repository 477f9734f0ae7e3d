//! `adopt --reclaim`: removes transcripts of agents that the store has byte for byte.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::time::{Duration, SystemTime};

use turntree::Error;
use turntree::maintenance::{Fullness, store_budget};
use turntree::repo::{BranchName, Repository};
use turntree_exchange::agents::FoundSession;

use super::originals::{Obstacle, Original, Stored, candidate};
use crate::porcelain::transfer::transcript_sources::all_open_for_writing;
use crate::program::invocation::Invocation;
use crate::program::live::{LiveSession, client_session, live_sessions};
use crate::view::clock;
use crate::view::error::{Answer, Result};
use crate::view::json;
use crate::view::output::{NAME, Output, STRONG, warn};
use crate::view::render::table::{Cell, Table};
use crate::view::render::{count, size};
use crate::view::units::duration;

/// The default age of a file that may be removed: 7 days.
pub(super) const USUAL_AGE: &str = "7d";

/// The least age, in microseconds: an agent may still use a younger file.
const LEAST_AGE: i64 = 60 * 60 * 1_000_000;

/// Which files of the found sessions are removed, and how.
pub(super) struct Reclaim<'a> {
    /// The age of the files that may go, in microseconds.
    age: i64,
    /// Set to do it.
    does_it: bool,
    /// The program with the store, as a user types it.
    program: &'a str,
}

/// The files that go, and those that stay with the reason.
#[derive(Default)]
pub(super) struct Files {
    leaving: Vec<Leaving>,
    staying: Vec<(FoundSession, Obstacle)>,
}

/// A file to remove, and the branch with its content, once it is imported.
struct Leaving {
    found: FoundSession,
    branch: Option<BranchName>,
}

/// Sessions that an agent is in, and the present.
struct Live {
    sessions: HashSet<String>,
    now: SystemTime,
}

impl Files {
    /// Returns the number of sessions whose files are removed, and their bytes.
    pub(super) fn leaving(&self) -> (u64, u64) {
        let bytes = self.leaving.iter().map(|leaving| leaving.found.bytes).sum();
        (self.leaving.len() as u64, bytes)
    }

    /// Warns of files that the system refused to remove; returns whether there are any.
    pub(super) fn warn_of_failures(&self) -> bool {
        let failed = self.staying.iter().filter(|(_, why)| matches!(why, Obstacle::Failed(_)));
        let mut is_any = false;
        for (found, obstacle) in failed {
            warn(&format!("{}: {}", found.path.display(), obstacle.reason()));
            is_any = true;
        }
        is_any
    }
}

impl Live {
    fn in_store(repo: &Repository) -> Result<Self> {
        let mut sessions: HashSet<String> = live_sessions(repo, clock::now()?)?;
        if let Some(LiveSession::Known(name)) =
            client_session().map(|it| LiveSession::find(repo, &it))
        {
            sessions.insert(name);
        }
        Ok(Self { sessions, now: SystemTime::now() })
    }

    /// Without a store no hook has recorded anything, and a session has the name that its client
    /// gives it.
    fn without_store() -> Self {
        Self { sessions: client_session().into_iter().collect(), now: SystemTime::now() }
    }

    /// Returns why a session's file must stay, regardless of the store.
    fn obstacle(&self, found: &FoundSession, age: i64) -> Option<Obstacle> {
        let age = Duration::from_micros(age.unsigned_abs());
        // A time in the future comes from a wrong clock.
        let is_old = self.now.duration_since(found.modified).is_ok_and(|past| past >= age);
        match (self.sessions.contains(&found.session), is_old) {
            (true, _) => Some(Obstacle::Live),
            (false, false) => Some(Obstacle::Recent),
            (false, true) => None,
        }
    }
}

impl<'a> Reclaim<'a> {
    /// Removes files of at least the age `age`, in microseconds, if `does_it`; `program` is the
    /// command line of the program with the store.
    ///
    /// # Errors
    /// `InvalidInput` for an age of less than an hour.
    pub(super) fn new(age: i64, does_it: bool, program: &'a str) -> Result<Self> {
        if age < LEAST_AGE {
            let least = duration(LEAST_AGE);
            let text = format!("--older-than is less than {least}: agents may still write there");
            return Err(Error::invalid(text).into());
        }
        Ok(Self { age, does_it, program })
    }

    /// Finds the files that the store has, and removes them.
    pub(super) fn run(&self, run: &mut Invocation, sessions: Vec<FoundSession>) -> Result<Answer> {
        let repo = run.open()?;
        let mut files = Files::default();
        let originals = self.look(&repo, sessions, false, &mut files)?;
        match self.does_it {
            true => remove(&repo, originals, &mut files),
            false => files.leaving = originals.into_iter().map(Leaving::from).collect(),
        }
        let answer = if files.warn_of_failures() { Answer::No } else { Answer::Yes };
        if run.out.json {
            run.out.record(&self.record(&files))?;
            return Ok(answer);
        }
        let budget = store_budget(&repo, &repo.refs())?;
        self.print(&mut run.out, &files, "the store has each byte")?;
        if !self.does_it && !files.leaving.is_empty() {
            let back = self.back();
            let undone = "nothing was done: --yes removes them, and no undo restores them";
            writeln!(run.out, "{undone}: {back}")?;
        }
        print_budget(&mut run.out, &files, budget)?;
        Ok(answer)
    }

    /// Removes the files of sessions that were just imported, each once all of it was read back from the
    /// store. `repo` was opened since the import.
    pub(super) fn take(
        &self,
        repo: &Repository,
        sessions: Vec<FoundSession>,
        files: &mut Files,
    ) -> Result<()> {
        let originals = self.look(repo, sessions, true, files)?;
        remove(repo, originals, files);
        Ok(())
    }

    /// The files that would go if all of them were imported now.
    pub(super) fn plan(&self, run: &Invocation, sessions: Vec<FoundSession>) -> Result<Files> {
        let live = match run.would_create()? {
            true => Live::without_store(),
            false => Live::in_store(&*run.open()?)?,
        };
        let mut files = Files::default();
        for found in sessions {
            let obstacle = live.obstacle(&found, self.age).or_else(|| candidate(&found).err());
            match obstacle {
                None => files.leaving.push(Leaving { found, branch: None }),
                Some(obstacle) => files.staying.push((found, obstacle)),
            }
        }
        Ok(files)
    }

    /// Prints the outcome for the files, and the size of the store.
    pub(super) fn tell(&self, run: &mut Invocation, files: &Files) -> Result<()> {
        if files.leaving.is_empty() && files.staying.is_empty() {
            return Ok(());
        }
        self.print(&mut run.out, files, "each after the store returned all of its bytes")?;
        if !self.does_it {
            let back = self.back();
            let undone = "nothing was done: --yes imports the sessions and removes these files, and no undo restores them";
            writeln!(run.out, "{undone}: {back}")?;
            return Ok(());
        }
        let repo = run.open()?;
        if !files.leaving.is_empty() {
            let takes = size(Fullness::of(&repo)?.file_bytes);
            let only = "the store has their only copy, which an undo of the import removes";
            writeln!(run.out, "{only}; it takes {takes}")?;
        }
        let budget = store_budget(&repo, &repo.refs())?;
        print_budget(&mut run.out, files, budget)
    }

    /// Returns the files that may be removed, by their age and by the content of the store, or by
    /// the adoption cache for those that were just `imported`; the remaining ones go to `files`.
    fn look(
        &self,
        repo: &Repository,
        sessions: Vec<FoundSession>,
        imported: bool,
        files: &mut Files,
    ) -> Result<Vec<Original>> {
        let (live, stored) = (Live::in_store(repo)?, Stored::new(repo));
        let mut leaving = Vec::new();
        for found in sessions {
            let looked = match live.obstacle(&found, self.age) {
                Some(obstacle) => Err(obstacle),
                None if imported => stored.adopted(&found),
                None => stored.original(&found),
            };
            match looked {
                Ok(original) => leaving.push(original),
                Err(obstacle) => files.staying.push((found, obstacle)),
            }
        }
        Ok(leaving)
    }

    /// Prints which files are removed, `because`, and which stay.
    fn print(&self, out: &mut Output, files: &Files, because: &str) -> Result<()> {
        let mut table = Table::new(&["agent", "sessions", "there"]);
        let mut agents: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        let mut all = (0, 0);
        for Leaving { found, .. } in &files.leaving {
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
        match (self.does_it, all.0) {
            (_, 0) => writeln!(out, "no original can go")?,
            (true, _) => {
                let back = self.back();
                writeln!(out, "removed the originals of {sessions}, {bytes}; {back}")?;
            }
            (false, _) => {
                writeln!(out, "would remove the originals of {sessions}, {bytes}: {because}")?;
            }
        }
        Ok(())
    }

    fn back(&self) -> String {
        let program = self.program;
        format!(
            "'{program} resume SESSION' continues one in its agent, '{program} export SESSION --format source' writes its file"
        )
    }

    pub(super) fn record(&self, files: &Files) -> json::Reclaimed {
        let leaving = files.leaving.iter().map(|Leaving { found, branch }| {
            let session = branch.as_ref().map_or(found.session.as_str(), BranchName::session);
            json::ReclaimedOriginal {
                agent: found.agent.clone(),
                session: session.to_owned(),
                branch: branch.as_ref().map(|branch| branch.branch().to_owned()),
                path: found.path.display().to_string(),
                bytes: found.bytes,
            }
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
            bytes: files.leaving.iter().map(|leaving| leaving.found.bytes).sum(),
        }
    }
}

impl From<Original> for Leaving {
    fn from(Original { found, branch, .. }: Original) -> Self {
        Self { found, branch: Some(branch) }
    }
}

/// Warns that the budget of the store may expire sessions whose files are removed.
fn print_budget(out: &mut Output, files: &Files, budget: Option<u64>) -> Result<()> {
    if let Some(budget) = budget.filter(|_| !files.leaving.is_empty()) {
        let budget = size(budget);
        writeln!(
            out,
            "the store has a budget of {budget} and forgets its oldest sessions beyond it: 'pin' and 'tag' keep one"
        )?;
    }
    Ok(())
}

/// Removes the files that have not changed since they were checked.
fn remove(repo: &Repository, originals: Vec<Original>, files: &mut Files) {
    if originals.is_empty() {
        return;
    }
    let written = all_open_for_writing();
    for original in originals {
        match original.remove(repo, &written) {
            Ok(()) => files.leaving.push(original.into()),
            Err(obstacle) => files.staying.push((original.found, obstacle)),
        }
    }
}
