//! `sessions`: lists the sessions of a store.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use clap::Args;
use turntree::repo::Repository;

use super::Verb;
use crate::platform::shell_word;
use crate::porcelain::read::sessions::{ListedSession, ListedSessions, Wanted, list, write_table};
use crate::program::invocation::Invocation;
use crate::program::store_keys;
use crate::program::trust::user_store;
use crate::view::error::{Answer, Result};
use crate::view::moment::moment;
use crate::view::output::{FAINT, note};
use crate::view::render::count;
use crate::view::{clock, json};

/// Sessions shown without --all.
const NEWEST: usize = 30;

/// The advice if there is no session.
const NONE_YET: &str = "'turntree adopt' imports the sessions of the agents on this machine, \
    'turntree hook install' follows new ones, 'turntree import FILE' reads one";

/// List sessions, newest first
///
/// Shows for each session its age, its name or the first digits of it, the agent, the last part of
/// its directory, its prompts, turns and files, and its title: that of 'session rename', otherwise
/// the client's own, otherwise the first prompt. Names, ids and titles can be shortened wherever a
/// session or revision is expected, as long as the beginning is unique. A terminal of 120 columns
/// also shows the cost of up to 60 sessions, with '+' if there is more, and what their newest turns
/// did: high bars are prompts, then failures, passed tests, and edits.
///
/// A dot marks a live session: a hook has added turns to it within the last ten minutes, and the
/// client has not reported its end. An agent that works on one call for longer loses the dot, and
/// an agent without hooks never has it.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree sessions
  turntree sessions --here
  turntree sessions --agent codex --since 2.weeks.ago
  turntree sessions --label draft
  turntree sessions --gone
  turntree sessions --json | jq -r '.sessions[] | [.session, .title] | @tsv'")]
pub(crate) struct ListSessions {
    /// Only sessions that were recorded in this directory or above
    #[arg(long)]
    here: bool,
    /// Only sessions of this agent, as claude-code or codex
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Only sessions with a snapshot later than TIME, such as yesterday, monday or 7d
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<i64>,
    /// Only sessions with this label; may be given several times
    #[arg(long, value_name = "LABEL")]
    label: Vec<String>,
    /// Only sessions whose file was deleted after 'turntree adopt' imported it
    #[arg(long)]
    gone: bool,
    /// Show all sessions, not only the newest 30
    #[arg(long)]
    all: bool,
    /// Show at most N
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "all")]
    max_count: Option<usize>,
}

impl Verb for ListSessions {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        self.write(run, &repo)?;
        Ok(Answer::Yes)
    }
}

impl ListSessions {
    /// The newest sessions, without conditions.
    pub(super) const fn newest() -> Self {
        Self {
            here: false,
            agent: None,
            since: None,
            label: Vec::new(),
            gone: false,
            all: false,
            max_count: None,
        }
    }

    pub(super) fn write(&self, run: &mut Invocation, repo: &Repository) -> Result<()> {
        let now = clock::now()?;
        let dir = run.store_dir()?;
        let here = if self.here { run.here(&dir) } else { None };
        let (agent, labels) = (self.agent.as_deref(), self.label.as_slice());
        let is_gone = self.gone;
        let wanted = Wanted { here: here.as_ref(), agent, since: self.since, labels, is_gone };
        let usual = if self.all || run.out.json { usize::MAX } else { NEWEST };
        let most = self.max_count.unwrap_or(usual);
        let known = run.sessions();
        let ListedSessions { sessions, matching, all } =
            list(repo, &known, &wanted, now, (0, most))?;
        if run.out.json {
            let record = |it: ListedSession| json::SessionRecord::new(&it.summary, it.is_live);
            let sessions = sessions.into_iter().map(record).collect();
            run.out.record(&json::Sessions { sessions })?;
            return Ok(());
        }
        match (matching, all) {
            (0, 0) => note(&format!("no session in {}: {NONE_YET}", dir.display())),
            (0, all) => {
                note(&format!("no session matches ({all} in {})", dir.display()));
            }
            _ => {}
        }
        let more = matching.saturating_sub(most);
        run.out.page();
        write_table(&mut run.out, repo, &sessions, now)?;
        if more > 0 {
            let text = format!("{more} older: --all shows all of them");
            let text = run.out.paint.paint(FAINT, text);
            writeln!(run.out, "{text}")?;
        }
        if run.locate()?.is_found() {
            note_own_sessions(&dir);
        }
        Ok(())
    }
}

/// Says how many sessions are in the user's own store, which the store of a project hides.
fn note_own_sessions(shown: &Path) {
    let Ok(own) = user_store() else { return };
    if own == shown || !own.exists() {
        return;
    }
    let Ok(repo) = store_keys::open(&own, false) else { return };
    let branches = repo.branches();
    let sessions: BTreeSet<&str> = branches.iter().map(|(branch, _)| branch.session()).collect();
    if !sessions.is_empty() {
        let more = count(sessions.len() as u64, "session");
        let own = shell_word(&own.display().to_string());
        note(&format!("{more} in your own store: turntree --store {own} sessions"));
    }
}
