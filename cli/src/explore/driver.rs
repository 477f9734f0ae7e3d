//! Drives an exploration: starts trials within the limits, watches them, and adds rounds.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use turntree::Error;
use turntree::repo::{Exploration, Repository, TrialEnd, TrialOutcome};
use turntree::workspace::Claim;

use super::child::{CheckOutput, Child};
use super::lock::DriverLock;
use super::show::Events;
use super::trial;
use crate::hook::recording::is_recording;
use crate::platform::SignalWatch;
use crate::porcelain::read::explorations::{Amount, Spent, checking_name};
use crate::porcelain::read::prices::Prices;
use crate::program::invocation::{Invocation, stamp};
use crate::view::error::Result;
use crate::view::output::warn;

/// The interval between two looks at running commands: short next to any command of an agent, and
/// without a cost that counts.
const LOOK: Duration = Duration::from_millis(10);

/// The interval between two looks at what was spent.
const COUNT: Duration = Duration::from_secs(1);

/// How driving an exploration ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Driven {
    /// Every trial has ended.
    Over,
    /// The budget is spent before every trial began.
    Spent,
    /// This signal asked the process to end. Its trials begin again when it continues.
    Interrupted(i32),
}

/// A running trial.
struct Running {
    trial: usize,
    began: Instant,
    child: Child,
    phase: Phase,
}

enum Phase {
    Command,
    /// The check runs; the command had this end. Others see by the lock that it runs.
    Check(TrialEnd, CheckOutput, Option<Claim>),
}

struct Driver<'a> {
    repo: &'a Repository,
    store: PathBuf,
    lock: DriverLock,
    running: Vec<Running>,
    waiting: VecDeque<usize>,
    spent: Spent,
    counted: Instant,
    is_spent: bool,
    events: Events,
}

/// Runs all trials of an exploration that have not ended, and shows each event.
///
/// # Errors
/// `Locked` if another process drives it. Errors of the store end the running commands; their trials
/// begin again when the exploration is continued.
pub(crate) fn drive(
    run: &mut Invocation,
    repo: &Repository,
    exploration: &mut Exploration,
) -> Result<Driven> {
    let caught = Arc::new(AtomicI32::new(0));
    let seen = Arc::clone(&caught);
    let _watch = SignalWatch::begin(move |signal| seen.store(signal, Ordering::SeqCst))
        .map_err(|error| Error::io("watch for signals", error))?;
    let signal = || Some(caught.load(Ordering::SeqCst)).filter(|signal| *signal != 0);
    let lock = DriverLock::take(repo, exploration, &|| signal().is_some())?;
    // Another process may have driven it further since it was read.
    repo.refresh()?;
    if let Some(newest) = repo.exploration(&exploration.session, &exploration.name)? {
        let plan = std::mem::replace(exploration, newest).plan;
        exploration.plan = plan;
    }
    let mut driver = Driver {
        repo,
        // Commands run in other directories.
        store: std::path::absolute(run.store_dir()?)
            .map_err(|error| Error::io("find the working directory", error))?,
        lock,
        running: Vec::new(),
        waiting: VecDeque::new(),
        spent: Spent::new(Prices::of(None)?.table),
        counted: Instant::now(),
        is_spent: false,
        events: Events::begin(),
    };
    driver.is_spent = driver.spent.is_over(repo, exploration)?;
    driver.queue(exploration);
    loop {
        if let Some(signal) = signal() {
            driver.stop()?;
            return Ok(Driven::Interrupted(signal));
        }
        driver.start_waiting(run, exploration)?;
        driver.look(run, exploration)?;
        driver.count(exploration)?;
        driver.events.show(exploration, driver.running.iter().map(|it| (it.trial, it.began)));
        if !driver.running.is_empty() {
            sleep(LOOK);
            continue;
        }
        if driver.is_spent && !driver.waiting.is_empty() {
            return Ok(Driven::Spent);
        }
        if driver.waiting.is_empty() && !driver.add_round(exploration)? {
            return Ok(Driven::Over);
        }
    }
}

impl Driver<'_> {
    /// Lines up the trials that have not ended.
    fn queue(&mut self, exploration: &Exploration) {
        let trials = exploration.trials.iter().enumerate();
        let open = trials.filter(|(_, trial)| trial.outcome.is_none()).map(|(place, _)| place);
        self.waiting = open.collect();
    }

    /// Adds the trials of the next round, if there is one.
    fn add_round(&mut self, exploration: &mut Exploration) -> Result<bool> {
        if !exploration.next_round()? {
            return Ok(false);
        }
        let mut change = self.repo.begin();
        change.set_exploration(exploration)?;
        let round = exploration.round();
        change.commit(&stamp()?, &format!("explore {}: round {round}", exploration.name))?;
        self.queue(exploration);
        Ok(true)
    }

    fn start_waiting(&mut self, run: &mut Invocation, exploration: &mut Exploration) -> Result<()> {
        while !self.is_spent && self.running.len() < exploration.plan.jobs.max(1) as usize {
            let Some(place) = self.waiting.pop_front() else { break };
            self.repo.refresh()?;
            let start = trial::begin(self.repo, exploration, place)?;
            self.events.begins(run, exploration, place, &start.dir)?;
            let began = Instant::now();
            let child =
                trial::start_command(self.repo, exploration, place, &self.store, &self.lock);
            match child {
                Ok(child) => {
                    self.running.push(Running {
                        trial: place,
                        began,
                        child,
                        phase: Phase::Command,
                    });
                }
                Err(failure) => {
                    warn(&failure.message());
                    let end = TrialEnd::NotStarted;
                    self.finish(run, exploration, place, (end, false, None), began)?;
                }
            }
        }
        Ok(())
    }

    /// Looks which commands and checks have ended.
    fn look(&mut self, run: &mut Invocation, exploration: &mut Exploration) -> Result<()> {
        let mut place = 0;
        while let Some(running) = self.running.get_mut(place) {
            let branch = &trial::at(exploration, running.trial)?.branch;
            let is_command = matches!(running.phase, Phase::Command);
            let records = || is_command && is_recording(&self.store, branch);
            let ended = running.child.poll(&records);
            let Some(end) = ended.map_err(|error| Error::io("wait for a command", error))? else {
                place += 1;
                continue;
            };
            let Running { trial, began, phase, .. } = self.running.swap_remove(place);
            match phase {
                Phase::Command => {
                    let check = trial::start_check(exploration, trial, &self.store, &self.lock)?;
                    match check {
                        Some((child, output)) => {
                            let branch = &trial::at(exploration, trial)?.branch;
                            let lock = Claim::take(&self.store, &checking_name(branch));
                            let phase = Phase::Check(end, output, lock);
                            self.running.push(Running { trial, began, child, phase });
                        }
                        None => {
                            let passed = end == TrialEnd::Exit(0);
                            self.finish(run, exploration, trial, (end, passed, None), began)?;
                        }
                    }
                }
                Phase::Check(of_command, output, _lock) => {
                    let log = trial::log_of(
                        trial::at(exploration, trial)?.start.as_ref().map_or("", |it| &*it.dir),
                    );
                    let score = output.score(&log);
                    let score = score.map_err(|error| Error::io("read the score", error))?;
                    let passed = end == TrialEnd::Exit(0);
                    self.finish(run, exploration, trial, (of_command, passed, score), began)?;
                }
            }
        }
        Ok(())
    }

    fn finish(
        &mut self,
        run: &mut Invocation,
        exploration: &mut Exploration,
        place: usize,
        (end, passed, score): (TrialEnd, bool, Option<f64>),
        began: Instant,
    ) -> Result<()> {
        self.repo.refresh()?;
        let trial = trial::at(exploration, place)?;
        let amount = match &trial.start {
            Some(start) => self.spent.since(self.repo, &trial.branch, start.commit)?,
            None => Amount::default(),
        };
        let elapsed = began.elapsed().as_millis();
        let elapsed_ms = u64::try_from(elapsed).unwrap_or(u64::MAX);
        let outcome = TrialOutcome { end, passed, score, elapsed_ms, tokens: amount.tokens };
        trial::end(self.repo, exploration, place, &outcome)?;
        self.events.ends(run, exploration, place)
    }

    /// Ends the commands of an exploration whose budget is spent. Their checks still run.
    fn count(&mut self, exploration: &Exploration) -> Result<()> {
        if exploration.plan.budget.is_none() || self.is_spent || self.counted.elapsed() < COUNT {
            return Ok(());
        }
        self.counted = Instant::now();
        self.repo.refresh()?;
        self.is_spent = self.spent.is_over(self.repo, exploration)?;
        if self.is_spent {
            for running in &mut self.running {
                if matches!(running.phase, Phase::Command) {
                    running.child.end(TrialEnd::Budget);
                }
            }
        }
        Ok(())
    }

    /// Ends all commands, and waits until they have ended.
    fn stop(&mut self) -> Result<()> {
        for running in &mut self.running {
            running.child.end(TrialEnd::Signal);
        }
        while let Some(running) = self.running.first_mut() {
            let ended = running.child.poll(&|| false);
            match ended.map_err(|error| Error::io("wait for a command", error))? {
                Some(_) => drop(self.running.swap_remove(0)),
                None => sleep(LOOK),
            }
        }
        Ok(())
    }
}
