//! `bisect`: searches for the first bad turn.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::{Command, ExitStatus, Stdio};

use clap::{Args, Subcommand};
use clap_complete::ArgValueCompleter;
use turntree::context::sections::FILES_PREFIX;
use turntree::context::{Context, diff};
use turntree::object::ObjectId;
use turntree::repo::{
    Bisect as Search, BisectNote, BisectStatus, BisectVerdict, Candidate, Repository, SkipReason,
};
use turntree::workspace::Scratch;
use turntree::{Error, ErrorKind};

use super::Verb;
use crate::platform::end_by;
use crate::porcelain::read::paths::Paths;
use crate::porcelain::read::revision::resolve;
use crate::porcelain::read::sessions::named_session;
use crate::program::complete::{revisions, sessions};
use crate::program::interrupts::Interrupts;
use crate::program::invocation::{Invocation, stamp};
use crate::view::error::{Answer, Failure, Hint, Result};
use crate::view::output::{FAINT, ID, Output, STRONG, warn};
use crate::view::render::changes::{Changes, write_stats};
use crate::view::render::{ID_DIGITS, count, one_line};
use crate::view::{clock, json};

/// Maximum width before a turn on its line.
const BEFORE_LINE: usize = "the first bad turn is ".len() + 1;

/// The exit code of a command that cannot decide.
const SKIP_CODE: i32 = 125;

/// Exit codes of a shell for a command that it cannot run or cannot find.
const NOT_RUN_CODES: [i32; 2] = [126, 127];

/// From this exit code on, the command gave no answer.
const FIRST_ABORT_CODE: i32 = 128;

const NOT_STARTED: &str = "'turntree bisect start BAD GOOD' begins one";

/// Find the first bad turn by binary search
///
/// Searches the turns between a good and a bad one for the first bad one. The answers are kept in
/// refs/bisect of the session: each is an operation, and 'turntree undo' reverts it. Without a
/// command it shows the state of the search.
///
/// 'run' lets a command answer for each turn, in a directory with the files of that turn: see
/// 'turntree bisect run --help'.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree bisect start HEAD turn:12
  turntree bisect run cargo test --quiet
  turntree bisect run test ! -e PLAN.md
  turntree bisect run sh -c 'turntree cat $TURNTREE_REV:scratchpad/plan | grep -q step'
  turntree bisect good
  turntree bisect log
  turntree bisect reset")]
pub(crate) struct Bisect {
    /// Search this session; HEAD's by default
    #[arg(long, global = true, value_name = "NAME", add = ArgValueCompleter::new(sessions))]
    session: Option<String>,
    #[command(subcommand)]
    action: Option<BisectCommand>,
}

#[derive(Debug, Subcommand)]
enum BisectCommand {
    Start(Start),
    /// Mark a turn as good: it does not have the problem yet
    Good(Mark),
    /// Mark a turn as bad: it has the problem
    Bad(Mark),
    /// Mark a turn as untestable
    Skip(Mark),
    Run(BisectRun),
    Log(BisectLog),
    Reset(Reset),
}

/// Start a search, or start it again
#[derive(Debug, Args)]
struct Start {
    /// A bad turn
    #[arg(value_name = "BAD", add = ArgValueCompleter::new(revisions))]
    bad: Option<String>,
    /// Good turns before it
    #[arg(value_name = "GOOD", add = ArgValueCompleter::new(revisions))]
    good: Vec<String>,
}

/// Mark a turn as good, bad, or untestable
#[derive(Debug, Args)]
struct Mark {
    /// The turn; by default the next one to test
    #[arg(value_name = "REV", add = ArgValueCompleter::new(revisions))]
    revision: Option<String>,
}

/// Run a command to test each turn
///
/// The files of a turn are written to a temporary directory, and CMD runs in that directory:
/// files/src/a.rs of a revision is src/a.rs there. TURNTREE_REV and TURNTREE_TURN name the turn,
/// and TURNTREE_STORE is the store, for the rest of the context.
///
/// Exit code 0 means good, 125 that the turn cannot be tested, other codes up to 127 bad; any other
/// code stops the run, which continues when it is started again. If CMD exits with 126 or 127, it
/// is also run on a good turn: with the same exit code there the command cannot be run, and nothing
/// is recorded. Turns with the same files are tested once; turns without files are compared by
/// their whole context. If all remaining turns are untestable, the exit code is 1.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree bisect run cargo test --quiet
  turntree bisect run test ! -e PLAN.md
  turntree bisect run sh -c 'turntree cat $TURNTREE_REV:scratchpad/plan | grep -q step'")]
struct BisectRun {
    /// Treat turns as equal only if their whole contexts are equal, not just their files
    #[arg(long)]
    whole: bool,
    /// The command
    #[arg(
        value_name = "CMD",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<OsString>,
}

/// List the answers, in order
#[derive(Debug, Args)]
struct BisectLog {}

/// End the search
#[derive(Debug, Args)]
struct Reset {}

impl Verb for Bisect {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let session = match &self.session {
            Some(session) => named_session(&repo, session)?,
            None => repo.head()?.branch.session().to_owned(),
        };
        match &self.action {
            None => tell(run, &repo, &going_on(&repo, &session)?, Vec::new()),
            Some(BisectCommand::Start(start)) => start.run(run, &repo, &session),
            Some(BisectCommand::Good(mark)) => mark.run(run, &repo, &session, BisectVerdict::Good),
            Some(BisectCommand::Bad(mark)) => mark.run(run, &repo, &session, BisectVerdict::Bad),
            Some(BisectCommand::Skip(mark)) => mark.run(run, &repo, &session, BisectVerdict::Skip),
            Some(BisectCommand::Run(trial)) => trial.run(run, &repo, &session),
            Some(BisectCommand::Log(_)) => log(run, &repo, &session),
            Some(BisectCommand::Reset(_)) => reset(run, &repo, &session),
        }
    }
}

impl Start {
    fn run(&self, run: &mut Invocation, repo: &Repository, session: &str) -> Result<Answer> {
        let mut search = Search::new(session);
        if let Some(bad) = &self.bad {
            search.mark(repo, &resolve(repo, bad)?.commit, BisectVerdict::Bad)?;
        }
        for good in &self.good {
            search.mark(repo, &resolve(repo, good)?.commit, BisectVerdict::Good)?;
        }
        keep(repo, &search, "bisect start")?;
        tell(run, repo, &search, Vec::new())
    }
}

impl Mark {
    fn run(
        &self,
        run: &mut Invocation,
        repo: &Repository,
        session: &str,
        verdict: BisectVerdict,
    ) -> Result<Answer> {
        let mut search = going_on(repo, session)?;
        let id = match &self.revision {
            Some(revision) => resolve(repo, revision)?.commit,
            None => asked_about(repo, &search, verdict)?,
        };
        search.mark(repo, &id, verdict)?;
        let turn = repo.commit(&id)?.turn;
        keep(repo, &search, &format!("bisect {verdict} turn {turn}"))?;
        tell(run, repo, &search, Vec::new())
    }
}

/// The turn of an answer without a revision.
fn asked_about(repo: &Repository, search: &Search, verdict: BisectVerdict) -> Result<ObjectId> {
    match search.outlook(repo)? {
        BisectStatus::Next { turn, .. } => Ok(turn.id),
        BisectStatus::Waiting { bad: false, .. } if verdict == BisectVerdict::Bad => {
            Ok(resolve(repo, "HEAD")?.commit)
        }
        _ => {
            Err(Error::invalid("no turn is being tested: name one, as in 'bisect good turn:12'")
                .into())
        }
    }
}

impl BisectRun {
    fn run(&self, run: &mut Invocation, repo: &Repository, session: &str) -> Result<Answer> {
        let mut search = going_on(repo, session)?;
        if let BisectStatus::Waiting { .. } = search.outlook(repo)? {
            let waiting = Error::invalid("a run needs a bad turn and a good one before it");
            return Err(Failure::hinted(waiting, NOT_STARTED));
        }
        let known = self.known(repo, &search)?;
        self.check_paths(repo, &search)?;
        let interrupts = Interrupts::catch()?;
        let folder = tempfile::Builder::new().prefix("turntree-bisect-").tempdir();
        let folder = folder.map_err(|error| Error::io("make a directory for the files", error))?;
        let mut trial = Trial {
            run: self,
            scratch: Scratch::new(folder.path().join("turn")),
            store: run.store_dir()?,
            known,
            answers: Vec::new(),
            can_run: search.notes().iter().any(|note| note.is_tree),
        };
        let result = trial.go_on(run, repo, &mut search, &interrupts);
        let answers = trial.answers;
        if let Err(error) = folder.close() {
            warn(&format!("the files of the command could not be removed: {error}"));
        }
        let signal = interrupts.caught();
        drop(interrupts);
        if let Some(signal) = signal {
            warn("interrupted: 'turntree bisect run' continues from here");
            run.out.flush()?;
            end_by(signal).map_err(|error| Error::io("end", error))?;
        }
        result?;
        warn_if_all_alike(&answers);
        tell(run, repo, &search, answers)
    }

    /// Refuses a command that names a file as in a revision: the directory of a turn has no
    /// `files/...`, so the command would give every turn the same answer.
    fn check_paths(&self, repo: &Repository, search: &Search) -> Result<()> {
        let ends: Vec<ObjectId> = search.bad().into_iter().chain(search.good()).collect();
        let known = Paths::of(repo, &ends);
        for word in self.command.iter().filter_map(|word| word.to_str()) {
            let parts = word.split(|c: char| c.is_whitespace() || "'\"`;|&()<>".contains(c));
            for part in parts {
                let Some(path) = part.trim_start_matches("./").strip_prefix(FILES_PREFIX) else {
                    continue;
                };
                let meant = format!("{FILES_PREFIX}{path}");
                let named = format!("{FILES_PREFIX}{meant}");
                let at_an_end = |path: &str| known.has(path);
                if !path.is_empty() && at_an_end(&meant) && !at_an_end(&named) {
                    let message =
                        format!("the command uses '{part}', which is {path} in its directory");
                    let hint = "it runs in the directory of the turn's files: leave 'files/' out";
                    return Err(Failure::hinted(Error::invalid(message), hint));
                }
            }
        }
        Ok(())
    }

    /// The verdicts on trees, from turns that are already judged.
    fn known(&self, repo: &Repository, search: &Search) -> Result<Vec<(ObjectId, BisectVerdict)>> {
        let tree =
            |id: ObjectId, verdict| repo.tested_tree(&id, self.whole).map(|tree| (tree, verdict));
        let mut known = Vec::new();
        for (id, verdict) in search
            .bad()
            .map(|bad| (bad, BisectVerdict::Bad))
            .into_iter()
            .chain(search.good().map(|good| (good, BisectVerdict::Good)))
        {
            match tree(id, verdict) {
                Ok(tree) => known.push(tree),
                // Dropped content cannot be compared.
                Err(error) if error.kind() == ErrorKind::Expired => {}
                Err(error) => return Err(error.into()),
            }
        }
        let bad =
            known.iter().find(|(_, verdict)| *verdict == BisectVerdict::Bad).map(|(tree, _)| *tree);
        if known.iter().any(|(tree, verdict)| *verdict == BisectVerdict::Good && Some(*tree) == bad)
        {
            let same = Error::invalid(
                "a good turn has the same files as the bad one: no command that reads files can \
                 distinguish them",
            );
            return Err(Failure::hinted(same, "--whole compares whole contexts"));
        }
        Ok(known)
    }
}

/// A run in progress.
struct Trial<'a> {
    run: &'a BisectRun,
    scratch: Scratch,
    store: std::path::PathBuf,
    /// The verdicts on the trees of turns that were already judged.
    known: Vec<(ObjectId, BisectVerdict)>,
    answers: Vec<json::BisectAnswer>,
    /// Set once the command has given an answer.
    can_run: bool,
}

impl Trial<'_> {
    /// Tests turn after turn, until nothing is left to test or the user interrupts.
    fn go_on(
        &mut self,
        run: &mut Invocation,
        repo: &Repository,
        search: &mut Search,
        interrupts: &Interrupts,
    ) -> Result<()> {
        while let BisectStatus::Next { turn, .. } = search.outlook(repo)? {
            let tree = repo.tested_tree(&turn.id, self.run.whole)?;
            let before = self.known.iter().find(|(known, _)| *known == tree);
            let known = before.map(|(_, verdict)| *verdict).or_else(|| search.verdict_of(&tree));
            let verdict = match known {
                Some(verdict) => verdict,
                None => self.test(repo, (search, &turn), interrupts)?,
            };
            if interrupts.caught().is_some() {
                return Ok(());
            }
            search.mark(repo, &turn.id, verdict)?;
            if known.is_none() {
                search.mark_tree(&tree, verdict);
            }
            let number = turn.commit.turn;
            keep(repo, search, &format!("bisect {verdict} turn {number}"))?;
            if !run.out.json {
                let same = if known.is_some() { ", as the same files before" } else { "" };
                let left = match search.outlook(repo)? {
                    BisectStatus::Next { left, .. } => format!(" ({left} left to test)"),
                    _ => String::new(),
                };
                writeln!(run.out, "turn {number} is {}{same}{left}", said(verdict))?;
                run.out.flush()?;
            }
            self.answers.push(json::BisectAnswer {
                turn: number,
                id: turn.id.to_string(),
                verdict: verdict.name(),
                tested: known.is_none(),
            });
        }
        Ok(())
    }

    /// Tests a turn. Exit code 126 or 127 counts as bad only if a good turn has another exit code,
    /// as in git: a shell that cannot run the command would call every turn bad.
    fn test(
        &mut self,
        repo: &Repository,
        (search, turn): (&Search, &Candidate),
        interrupts: &Interrupts,
    ) -> Result<BisectVerdict> {
        let number = turn.commit.turn;
        let ended = self.end_of(repo, &turn.id, number, interrupts)?;
        let verdict = match ended.code() {
            Some(0) => BisectVerdict::Good,
            Some(SKIP_CODE) => BisectVerdict::Skip,
            Some(code) if code < FIRST_ABORT_CODE => BisectVerdict::Bad,
            // A command that was interrupted together with this process gave no answer.
            _ if interrupts.caught().is_some() => BisectVerdict::Skip,
            _ => {
                let message = format!("the command gave no answer for turn {number}: {ended}");
                let hint = "the answers are kept: 'turntree bisect run' continues from here";
                return Err(Failure::hinted(Error::invalid(message), hint));
            }
        };
        if let Some(code) = ended.code().filter(|code| NOT_RUN_CODES.contains(code))
            && !self.can_run
            && let Some(good) = search.good().last()
        {
            let number = repo.commit(&good)?.turn;
            if self.end_of(repo, &good, number, interrupts)?.code() == Some(code) {
                let message =
                    format!("the command ends with {code} for turn {number}, which is good");
                let hint = "a shell exits with 126 or 127 if it cannot run a command: no answer was recorded";
                return Err(Failure::hinted(Error::invalid(message), hint));
            }
        }
        self.can_run = true;
        Ok(verdict)
    }

    /// Runs the command on the files of a turn.
    fn end_of(
        &mut self,
        repo: &Repository,
        id: &ObjectId,
        number: u64,
        interrupts: &Interrupts,
    ) -> Result<ExitStatus> {
        self.scratch.show(repo, &repo.context(id)?)?;
        let store = std::path::absolute(&self.store)
            .map_err(|error| Error::io("find the working directory", error))?;
        let variables = [
            ("TURNTREE_REV", id.to_string().into()),
            ("TURNTREE_TURN", number.to_string().into()),
            ("TURNTREE_STORE", store.into_os_string()),
        ];
        let mut words = self.run.command.iter();
        let mut command = Command::new(words.next().cloned().unwrap_or_default());
        command.args(words).current_dir(self.scratch.files()).envs(variables);
        command.stdin(Stdio::null()).stdout(io::stderr());
        interrupts.run(&mut command)
    }
}

/// Warns if all tested turns got the same answer: the command may check something else.
fn warn_if_all_alike(answers: &[json::BisectAnswer]) {
    let mut tested = answers.iter().filter(|answer| answer.tested).map(|answer| answer.verdict);
    let Some(first) = tested.next() else { return };
    let alike = 1 + tested.clone().filter(|verdict| *verdict == first).count();
    if alike > 1 && alike == 1 + tested.count() && first != BisectVerdict::Skip.name() {
        warn(&format!(
            "all {alike} turns that were tested are {first}: the command runs in the directory of the \
             turn's files"
        ));
    }
}

/// The search in progress in a session.
fn going_on(repo: &Repository, session: &str) -> Result<Search> {
    let missing = || Error::not_found(format!("no bisect in progress in session {session}"));
    repo.bisect(session)?.ok_or_else(missing).hint(ErrorKind::NotFound, NOT_STARTED)
}

/// Commits the state of a search.
fn keep(repo: &Repository, search: &Search, reason: &str) -> Result<()> {
    let mut change = repo.begin();
    change.set_bisect(search)?;
    change.commit(&stamp()?, reason)?;
    Ok(())
}

fn reset(run: &mut Invocation, repo: &Repository, session: &str) -> Result<Answer> {
    let mut change = repo.begin();
    change.end_bisect(session).hint(ErrorKind::NotFound, NOT_STARTED)?;
    change.commit(&stamp()?, "bisect reset")?;
    if run.out.json {
        run.out.record(&json::BisectReset { session: session.to_owned() })?;
    } else {
        writeln!(run.out, "ended the bisect of {session}")?;
    }
    Ok(Answer::Yes)
}

fn log(run: &mut Invocation, repo: &Repository, session: &str) -> Result<Answer> {
    for BisectNote { verdict, id, is_tree } in going_on(repo, session)?.notes() {
        let turn = if *is_tree { None } else { repo.commit(id).ok().map(|commit| commit.turn) };
        if run.out.json {
            let what = if *is_tree { "tree" } else { "commit" };
            let id = id.to_string();
            run.out.record(&json::BisectNote { verdict: verdict.name(), kind: what, id, turn })?;
            continue;
        }
        let id = run.out.paint.paint(ID, id.short(ID_DIGITS));
        match turn {
            Some(turn) => writeln!(run.out, "{verdict:<4} {id} turn {turn}")?,
            None => writeln!(run.out, "{verdict:<4} {id} files")?,
        }
    }
    Ok(Answer::Yes)
}

/// Reports the state of the search.
fn tell(
    run: &mut Invocation,
    repo: &Repository,
    search: &Search,
    answers: Vec<json::BisectAnswer>,
) -> Result<Answer> {
    let outlook = search.outlook(repo)?;
    let answer = match outlook {
        BisectStatus::Stuck(_) => Answer::No,
        _ => Answer::Yes,
    };
    if run.out.json {
        run.out.record(&record(search, &outlook, answers))?;
    } else {
        write(&mut run.out, repo, &outlook)?;
    }
    Ok(answer)
}

fn write(out: &mut Output, repo: &Repository, outlook: &BisectStatus) -> Result<()> {
    match outlook {
        BisectStatus::Waiting { bad: false, good: false } => {
            writeln!(out, "waiting for a bad turn and a good one before it")?;
        }
        BisectStatus::Waiting { bad, .. } => {
            let what = if *bad { "good turn before the bad one" } else { "bad turn" };
            writeln!(out, "waiting for a {what}")?;
        }
        BisectStatus::Next { turn, left, steps } => {
            writeln!(out, "next: {}", line(out, turn))?;
            let (left, steps) = (count(*left as u64, "turn"), count((*steps).into(), "step"));
            writeln!(out, "{left} left to test, at most {steps}")?;
        }
        BisectStatus::Found(turn) => {
            writeln!(out, "the first bad turn is {}", line(out, turn))?;
            write_changes(out, repo, turn)?;
        }
        BisectStatus::Stuck(turns) => {
            writeln!(out, "no testable turn is left; the first bad turn is one of")?;
            for turn in turns {
                writeln!(out, "  {}{}", line(out, turn), out.paint.paint(FAINT, why(turn)))?;
            }
        }
    }
    Ok(())
}

fn line(out: &Output, turn: &Candidate) -> String {
    let id = out.paint.paint(ID, turn.id.short(ID_DIGITS));
    let number = out.paint.paint(STRONG, format!("turn {}", turn.commit.turn));
    let used = ID_DIGITS + format!("turn {}: ", turn.commit.turn).len() + BEFORE_LINE;
    let message = one_line(&turn.commit.message, out.width.left(used));
    format!("{id} {number}: {message}").trim_end().to_owned()
}

fn why(turn: &Candidate) -> &'static str {
    match turn.untestable {
        Some(SkipReason::Skipped) => "  (skipped)",
        Some(SkipReason::Gone) => "  (not kept)",
        None => "  (bad)",
    }
}

/// Summarizes the changes of a turn.
fn write_changes(out: &mut Output, repo: &Repository, turn: &Candidate) -> Result<()> {
    let author = one_line(&turn.commit.author.agent, out.width.left(16));
    let time = clock::relative(turn.commit.time, clock::now()?);
    writeln!(out, "{}", out.paint.paint(FAINT, format!("{time}  {author}").trim_end()))?;
    let before = match turn.commit.parents.first() {
        Some(parent) => repo.context(parent),
        None => Ok(Context::default()),
    };
    let (before, after) = match (before, repo.context(&turn.id)) {
        (Ok(before), Ok(after)) => (before, after),
        (Err(error), _) | (_, Err(error)) if error.kind() == ErrorKind::Corrupt => {
            return Err(error.into());
        }
        _ => {
            writeln!(out, "its changes are not kept")?;
            return Ok(());
        }
    };
    let changes = Changes { source: repo, paint: out.paint };
    let mut stats = Vec::new();
    for (section, diff) in diff(repo, &before, &after)? {
        stats.extend(changes.stat(&section, &diff)?);
    }
    let paint = out.paint;
    Ok(write_stats(out, paint, &stats)?)
}

fn said(verdict: BisectVerdict) -> &'static str {
    match verdict {
        BisectVerdict::Good => "good",
        BisectVerdict::Bad => "bad",
        BisectVerdict::Skip => "skipped",
    }
}

fn record(
    search: &Search,
    outlook: &BisectStatus,
    answers: Vec<json::BisectAnswer>,
) -> json::Bisect {
    let turn = |turn: &Candidate| json::BisectTurn {
        turn: turn.commit.turn,
        id: turn.id.to_string(),
        message: turn.commit.message.clone(),
        untestable: turn.untestable.map(|why| match why {
            SkipReason::Skipped => "skipped",
            SkipReason::Gone => "elided",
        }),
    };
    let mut record = json::Bisect::new(search.session(), answers);
    match outlook {
        BisectStatus::Waiting { bad, good } => {
            record.state = "waiting";
            (record.has_bad, record.has_good) = (*bad, *good);
        }
        BisectStatus::Next { turn: next, left, steps } => {
            record.state = "next";
            record.turn = Some(turn(next));
            (record.remaining, record.steps) = (Some(*left as u64), Some(*steps));
        }
        BisectStatus::Found(found) => (record.state, record.turn) = ("found", Some(turn(found))),
        BisectStatus::Stuck(turns) => {
            record.state = "stuck";
            record.remaining = Some(turns.len() as u64);
            record.candidates = turns.iter().map(turn).collect();
        }
    }
    record
}
