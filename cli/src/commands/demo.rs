//! `demo`: shows the main features on one screen, with the user's transcript or a built-in one.

use std::collections::HashMap;
use std::fs;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Args;
use tempfile::TempDir;
use turntree::context::sections::{FILES, SCRATCHPAD, SOURCE};
use turntree::context::{Builder, Context, FileMode, JSON_MEDIA, MessageEntry, Role, diff};
use turntree::local::create_repository;
use turntree::object::{Kind, ObjectId, ObjectSink, ObjectSource, Trigger};
use turntree::repo::{BranchName, Repository, Signature, SnapshotDraft};
use turntree::tree::Item;
use turntree::{Error, workspace};
use turntree_exchange::agents::session_name;
use turntree_exchange::{ImportOptions, ImportReport, PriceTable, import};

use super::Verb;
use super::log::Style;
use crate::porcelain::read::history::Walk;
use crate::program::invocation::{Invocation, open_file, stamp};
use crate::view::error::{Answer, Result};
use crate::view::json;
use crate::view::output::{Output, STRONG};
use crate::view::render::changes::Changes;
use crate::view::render::{count, one_line, size};

/// The built-in transcript.
const OWN_TRANSCRIPT: &[u8] = include_bytes!("../../assets/demo.jsonl");

/// Maximum number of snapshots to list.
const SHOWN_TURNS: usize = 6;

/// Maximum number of files to list.
const SHOWN_FILES: usize = 4;

/// The changes of the two strategies to their contexts.
const STRATEGIES: [Strategy; 2] = [
    Strategy {
        branch: "plan-a",
        prompt: "Try the smallest change that works.",
        plan: "1. change one function\n2. run the tests\n",
    },
    Strategy {
        branch: "plan-b",
        prompt: "Redesign it, test first.",
        plan: "1. write a failing test\n2. split the module\n3. run the tests\n",
    },
];

/// Run a self-contained demo
///
/// Imports a transcript, shows its log, forks two strategies, compares them, restores a turn, and
/// measures all of it against one full copy per turn. Without TRANSCRIPT it uses a built-in
/// session. The store is temporary; --store and TURNTREE_STORE have no effect.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree demo
  turntree demo ~/.claude/projects/-work/3f2a91c0.jsonl")]
pub(crate) struct Demo {
    /// A transcript to use
    #[arg(value_hint = clap::ValueHint::FilePath)]
    transcript: Option<PathBuf>,
}

/// A strategy of the demo.
struct Strategy {
    branch: &'static str,
    prompt: &'static str,
    plan: &'static str,
}

/// A demo in progress.
struct Demonstration<'a> {
    repo: &'a Repository,
    out: &'a mut Output,
    stamp: Signature,
    report: ImportReport,
}

impl Verb for Demo {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let folder = TempDir::with_prefix("turntree-demo-")
            .map_err(|error| Error::io("make a temporary directory", error))?;
        let stamp = stamp()?;
        let repo = Arc::new(create_repository(&folder.path().join("store"))?);
        let (report, took) = self.import(&repo, &stamp)?;
        let mut show = Demonstration { repo: &repo, out: &mut run.out, stamp, report };
        let turns = show.turns()?;
        if show.out.json {
            show.record(&turns)?;
            return Ok(Answer::Yes);
        }
        self.write_import(&mut show, took)?;
        show.log()?;
        show.fork()?;
        show.diff()?;
        show.restore(&turns, folder.path())?;
        show.measure(&turns)?;
        Ok(Answer::Yes)
    }
}

impl Demo {
    fn import(&self, repo: &Repository, stamp: &Signature) -> Result<(ImportReport, Duration)> {
        let session = self.transcript.as_deref().map_or_else(|| "demo".to_owned(), session_name);
        let options = ImportOptions {
            format: None,
            session,
            stamp: stamp.clone(),
            switch: true,
            adoption: None,
            branch: None,
        };
        let begin = Instant::now();
        let report = match &self.transcript {
            None => import(repo, OWN_TRANSCRIPT, &options)?,
            Some(path) => import(repo, BufReader::new(open_file(path)?), &options)
                .map_err(|error| error.at(path.display()))?,
        };
        Ok((report, begin.elapsed()))
    }

    fn write_import(&self, show: &mut Demonstration<'_>, took: Duration) -> Result<()> {
        let name = self.transcript.as_deref().and_then(Path::file_name).unwrap_or_default();
        let name = if name.is_empty() { "demo.jsonl".into() } else { name.to_string_lossy() };
        show.command(&format!("import {name}"))?;
        let ImportReport { format, turns, messages, input_bytes, new_bytes, .. } = show.report;
        let (turns, messages) = (count(turns, "turn"), count(messages, "message"));
        let (input, stored, took) = (size(input_bytes), size(new_bytes), millis(took));
        writeln!(
            show.out,
            "{format}: {turns}, {messages}; {input} read, {stored} stored durably in {took}"
        )?;
        Ok(())
    }
}

impl Demonstration<'_> {
    /// Commits of the imported branch, oldest first.
    fn turns(&self) -> Result<Vec<ObjectId>> {
        let history = self.repo.history(&[self.report.head], &[])?.first_parent();
        let mut turns = history
            .map(|entry| entry.map(|entry| entry.id))
            .collect::<turntree::Result<Vec<_>>>()?;
        turns.reverse();
        Ok(turns)
    }

    fn record(&mut self, turns: &[ObjectId]) -> Result<()> {
        let record = json::Demo {
            turns: self.report.turns,
            messages: self.report.messages,
            input_bytes: self.report.input_bytes,
            store_bytes: self.report.new_bytes,
            full_bytes: full_bytes(self.repo, turns)?,
        };
        Ok(self.out.record(&record)?)
    }

    /// Prints the command that a user would type for the next step.
    fn command(&mut self, command: &str) -> Result<()> {
        let line = self.out.paint.paint(STRONG, format!("$ turntree {}", one_line(command, 80)));
        Ok(writeln!(self.out, "{line}")?)
    }

    fn style(&self, graph: bool) -> Style {
        let (paint, now, width) = (self.out.paint, self.stamp.time, self.out.width);
        Style {
            paint,
            now,
            graph,
            oneline: true,
            reverse: false,
            full: true,
            width,
            prices: PriceTable::default(),
        }
    }

    fn log(&mut self) -> Result<()> {
        let branch = self.report.branch.clone();
        self.command(&format!("log -n {SHOWN_TURNS} --oneline"))?;
        let style = self.style(false);
        let walk = Walk::of(&branch, self.report.head);
        style.write(&walk, self.out, self.repo, SHOWN_TURNS, None)
    }

    /// Forks two branches at the newest turn, and adds a snapshot to each.
    fn fork(&mut self) -> Result<()> {
        let mut times = Vec::new();
        for strategy in &STRATEGIES {
            let branch = BranchName::new(self.report.branch.session(), strategy.branch)?;
            let begin = Instant::now();
            let mut change = self.repo.begin();
            change.move_branch(&branch, Some(self.report.head));
            change.commit(&self.stamp, &format!("fork {branch}"))?;
            let forked = begin.elapsed();
            let begin = Instant::now();
            let written = self.go_on(strategy, &branch)?;
            times.push((strategy.branch, forked, begin.elapsed(), written));
        }
        for (branch, forked, took, written) in times {
            self.command(&format!("fork {branch} && turntree snapshot --branch {branch} ..."))?;
            let (forked, written, took) = (millis(forked), size(written), millis(took));
            writeln!(self.out, "forked in {forked}; a turn on it took {written} and {took}")?;
        }
        self.command("log --graph --all -n 3 --oneline")?;
        let style = self.style(true);
        let mut walk = Walk::all(self.repo)?;
        walk.keep_session(self.report.branch.session());
        style.write(&walk, self.out, self.repo, 3, None)
    }

    /// Adds a turn of a strategy, and returns its bytes.
    fn go_on(&self, strategy: &Strategy, branch: &BranchName) -> Result<u64> {
        let mut change = self.repo.begin();
        let mut builder = Builder::from(self.repo.context(&self.report.head)?);
        let prompt = format!(r#"{{"role":"user","content":"{}"}}"#, strategy.prompt);
        let blob = change.write(Kind::Blob, Bytes::from(prompt))?;
        let entry = MessageEntry::new(blob, Role::User, JSON_MEDIA);
        builder.push_message(&mut change, "main", &entry)?;
        builder.set_entry(&mut change, SCRATCHPAD, "plan", Some(strategy.plan.into()))?;
        let file = Some((FileMode::Regular, Bytes::from(strategy.prompt)));
        builder.set_file(&mut change, &format!("notes/{}.md", strategy.branch), file)?;
        let mut snapshot =
            SnapshotDraft::new(builder.write(&mut change)?, strategy.prompt, &self.stamp);
        snapshot.trigger = Trigger::Turn;
        change.snapshot(branch, snapshot)?;
        Ok(change.commit(&self.stamp, "snapshot")?.written.stored_bytes)
    }

    fn diff(&mut self) -> Result<()> {
        let [a, b] = &STRATEGIES;
        let session = self.report.branch.session();
        let context = |strategy: &Strategy| {
            self.repo.context(&self.repo.resolve(&format!("{session}/{}", strategy.branch))?.commit)
        };
        let (old, new) = (context(a)?, context(b)?);
        let begin = Instant::now();
        let changed = diff(self.repo, &old, &new)?;
        let took = millis(begin.elapsed());
        self.command(&format!("diff {} {}  # {took}", a.branch, b.branch))?;
        let changes = Changes { source: self.repo, paint: self.out.paint };
        for (section, diff) in changed.iter().filter(|(section, _)| *section != FILES) {
            changes.write(self.out, section, diff)?;
        }
        let files = changed.get(FILES).map_or(0, |diff| diff.changes.len());
        Ok(writeln!(self.out, "files  {files} changed")?)
    }

    fn restore(&mut self, turns: &[ObjectId], folder: &Path) -> Result<()> {
        let Some(id) = turns.get(turns.len() / 2) else { return Ok(()) };
        let turn = self.repo.commit(id)?.turn;
        let target = folder.join("restored");
        self.command(&format!("restore turn:{turn} --to restored"))?;
        let begin = Instant::now();
        let plan = workspace::plan_checkout(self.repo, &self.repo.context(id)?, &target, &[])?;
        let restored = plan.apply(self.repo, false)?;
        let (took, bytes) = (millis(begin.elapsed()), size(restored.bytes));
        for file in plan.files.iter().take(SHOWN_FILES) {
            let path = file.path.display().to_string();
            let written = fs::metadata(target.join(&file.path)).map_or(0, |found| found.len());
            writeln!(self.out, "  {:<60} {:>10}", one_line(&path, 60), size(written))?;
        }
        let files = count(restored.written, "file");
        Ok(writeln!(self.out, "  {files} in all, {bytes}, verified, in {took}")?)
    }

    fn measure(&mut self, turns: &[ObjectId]) -> Result<()> {
        let full = full_bytes(self.repo, turns)?;
        let stored = self.report.new_bytes;
        let line =
            format!("{} with a full copy each turn, {} in turntree", size(full), size(stored));
        let line = match full.checked_div(stored) {
            None | Some(0 | 1) => line,
            Some(times) => format!("{line}: {times} times smaller"),
        };
        let turns = count(turns.len() as u64, "turn");
        let line = self.out.paint.paint(STRONG, format!("{turns}: {line}"));
        Ok(writeln!(self.out, "{line}")?)
    }
}

/// Sums the bytes of a full copy of the context for every turn: those of all its entries, without
/// the JSON around them and without the transcript itself.
///
/// Each context is measured by its difference from the previous one, so the cost is proportional to
/// the changes.
fn full_bytes(repo: &Repository, turns: &[ObjectId]) -> Result<u64> {
    let source = repo.store();
    let mut sizes: HashMap<ObjectId, u64> = HashMap::new();
    let mut size_of = |item: &Option<Item>| -> Result<u64> {
        let Some(item) = item else { return Ok(0) };
        if let Some(size) = sizes.get(&item.link.id) {
            return Ok(*size);
        }
        let size = source.read_as(item.link.kind, &item.link.id)?.len() as u64;
        sizes.insert(item.link.id, size);
        Ok(size)
    };
    let (mut sum, mut current, mut before) = (0_u64, 0_u64, Context::default());
    for id in turns {
        let context = repo.context(id)?;
        for (section, changed) in diff(source, &before, &context)? {
            if section == SOURCE {
                continue;
            }
            for change in &changed.changes {
                current = (current + size_of(&change.new)?).saturating_sub(size_of(&change.old)?);
            }
        }
        sum += current;
        before = context;
    }
    Ok(sum)
}

fn millis(took: Duration) -> String {
    let micros = took.as_micros();
    if micros < 10_000 {
        format!("{}.{:02} ms", micros / 1000, micros % 1000 / 10)
    } else {
        format!("{} ms", micros / 1000)
    }
}
