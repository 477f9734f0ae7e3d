//! Ranks the trials of an exploration and decides which ones follow: pure functions of the record.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::{Exploration, MAX_TRIALS, SearchKind, Trial, TrialOutcome};
use crate::error::{Error, Result};
use crate::repo::BranchName;

/// Separates the name of a forked branch from that of the strategy that continues it.
const FORK: &str = ".";

impl Exploration {
    /// Creates the trials of the first round, one per strategy.
    ///
    /// # Errors
    /// `InvalidInput` for a name that a branch cannot have.
    pub fn first_round(&mut self) -> Result<()> {
        for (strategy, planned) in self.plan.strategies.iter().enumerate() {
            let branch = BranchName::new(&self.session, &planned.name)?;
            branch.check_new()?;
            let (round, parent, start, outcome) = (1, None, None, None);
            self.trials.push(Trial { strategy, round, parent, branch, start, outcome });
        }
        Ok(())
    }

    /// Returns the current round.
    #[must_use]
    pub fn round(&self) -> u32 {
        self.trials.last().map_or(0, |trial| trial.round)
    }

    /// Returns true if every trial has ended and the search adds none.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_round_over() && self.round() >= self.plan.rounds
    }

    fn is_round_over(&self) -> bool {
        self.trials.iter().all(|trial| trial.outcome.is_some())
    }

    /// Adds the trials of the next round, if the current one is over and the search goes on. Returns
    /// true if it did.
    ///
    /// # Errors
    /// `LimitExceeded` for too many trials, `InvalidInput` for a name that is too long.
    pub fn next_round(&mut self) -> Result<bool> {
        let round = self.round();
        if !self.is_round_over() || round >= self.plan.rounds {
            return Ok(false);
        }
        let ended: Vec<usize> =
            self.ranked().into_iter().filter(|trial| self.is_of_round(*trial, round)).collect();
        let mut added = Vec::new();
        match self.plan.search {
            SearchKind::BestOf => {}
            SearchKind::Halving => {
                let better = ended.len().div_ceil(2);
                for parent in ended.into_iter().take(better) {
                    let Some(trial) = self.trials.get(parent) else { continue };
                    let (strategy, branch) = (trial.strategy, trial.branch.clone());
                    added.push((strategy, parent, branch));
                }
            }
            SearchKind::Beam => {
                for parent in ended.into_iter().take(self.plan.width as usize) {
                    let Some(trial) = self.trials.get(parent) else { continue };
                    for (strategy, planned) in self.plan.strategies.iter().enumerate() {
                        let name = format!("{}{FORK}{}", trial.branch.branch(), planned.name);
                        added.push((strategy, parent, BranchName::new(&self.session, &name)?));
                    }
                }
            }
        }
        let all = self.trials.len() + added.len();
        if all > MAX_TRIALS {
            return Err(Error::limit("trials of an exploration", MAX_TRIALS as u64, all as u64));
        }
        let went_on = !added.is_empty();
        // Halving continues in the order of the plan, so that equal outcomes stay in that order.
        added.sort_by_key(|(_, parent, _)| *parent);
        self.trials.extend(added.into_iter().map(|(strategy, parent, branch)| Trial {
            strategy,
            round: round + 1,
            parent: Some(parent),
            branch,
            start: None,
            outcome: None,
        }));
        Ok(went_on)
    }

    fn is_of_round(&self, trial: usize, round: u32) -> bool {
        self.trials.get(trial).is_some_and(|trial| trial.round == round)
    }

    /// Returns the newest ended trial of each branch, the best first: those that passed, then by
    /// score, then in order.
    #[must_use]
    pub fn ranked(&self) -> Vec<usize> {
        let mut newest: BTreeMap<&str, (usize, &TrialOutcome)> = BTreeMap::new();
        for (place, trial) in self.trials.iter().enumerate() {
            if let Some(outcome) = &trial.outcome {
                newest.insert(trial.branch.branch(), (place, outcome));
            }
        }
        let mut ranked: Vec<(usize, &TrialOutcome)> = newest.into_values().collect();
        ranked.sort_by(|(a, one), (b, other)| better(one, other).then(a.cmp(b)));
        ranked.into_iter().map(|(place, _)| place).collect()
    }

    /// Returns the best trial that passed.
    #[must_use]
    pub fn best(&self) -> Option<usize> {
        let ranked = self.ranked();
        let passed = |place: &usize| {
            self.trials.get(*place)?.outcome.as_ref().filter(|outcome| outcome.passed)
        };
        ranked.into_iter().find(|place| passed(place).is_some())
    }
}

/// The order of two outcomes: the better one is less.
fn better(one: &TrialOutcome, other: &TrialOutcome) -> Ordering {
    let score = |outcome: &TrialOutcome| outcome.score.unwrap_or(f64::NEG_INFINITY);
    other.passed.cmp(&one.passed).then(score(other).total_cmp(&score(one)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::*;
    use super::*;
    use crate::object::{Kind, ObjectId};

    fn plan(strategies: usize, search: SearchKind, rounds: u32, width: u32) -> Exploration {
        let strategies = (0..strategies).map(|number| ExplorationStrategy {
            name: format!("plan-{number}"),
            prompt: "try".to_owned(),
            command: Vec::new(),
        });
        let mut exploration = Exploration {
            session: "work".to_owned(),
            name: "explore".to_owned(),
            from: ObjectId::of(Kind::Blob, b"from"),
            into: BranchName::main("work").unwrap(),
            began_micros: 7,
            plan: ExplorationPlan {
                strategies: strategies.collect(),
                command: vec!["agent".to_owned(), "{prompt}".to_owned()],
                check: Some("make check".to_owned()),
                search,
                rounds,
                width,
                folder: "/work/explore".to_owned(),
                jobs: 2,
                timeout_ms: Some(1000),
                budget: Some(ExplorationBudget::Dollars(2.5)),
            },
            trials: Vec::new(),
        };
        exploration.first_round().unwrap();
        exploration
    }

    fn end(exploration: &mut Exploration, score: impl Fn(usize, &Trial) -> Option<f64>) {
        for (place, trial) in exploration.trials.iter_mut().enumerate() {
            let score = score(place, trial);
            trial.outcome.get_or_insert_with(|| TrialOutcome {
                end: TrialEnd::Exit(0),
                passed: score.is_some(),
                score,
                elapsed_ms: 10,
                tokens: None,
            });
        }
    }

    fn branches(exploration: &Exploration, round: u32) -> Vec<&str> {
        let trials = exploration.trials.iter().filter(|trial| trial.round == round);
        trials.map(|trial| trial.branch.branch()).collect()
    }

    #[test]
    fn halving_continues_the_better_half_on_their_branches() {
        let mut exploration = plan(5, SearchKind::Halving, 3, 1);
        assert!(!exploration.next_round().unwrap(), "the first round has not ended");
        end(&mut exploration, |place, _| [Some(1.0), None, Some(9.0), Some(3.0), None][place]);
        assert!(exploration.next_round().unwrap());
        assert_eq!(branches(&exploration, 2), ["plan-0", "plan-2", "plan-3"]);
        end(&mut exploration, |_, trial| Some(trial.strategy as f64));
        assert!(exploration.next_round().unwrap());
        assert_eq!(branches(&exploration, 3), ["plan-2", "plan-3"]);
        end(&mut exploration, |_, trial| Some(-(trial.strategy as f64)));
        assert!(!exploration.next_round().unwrap() && exploration.is_over());
        let best = exploration.best().unwrap();
        assert_eq!(exploration.trials[best].branch.branch(), "plan-0");
    }

    #[test]
    fn a_beam_forks_the_best_trials_with_every_strategy() {
        let mut exploration = plan(3, SearchKind::Beam, 2, 2);
        end(&mut exploration, |place, _| [Some(1.0), Some(3.0), Some(2.0)][place]);
        assert!(exploration.next_round().unwrap());
        let forked = [
            "plan-1.plan-0",
            "plan-1.plan-1",
            "plan-1.plan-2",
            "plan-2.plan-0",
            "plan-2.plan-1",
            "plan-2.plan-2",
        ];
        assert_eq!(branches(&exploration, 2), forked);
        assert_eq!(exploration.ranked().len(), 3, "trials without an outcome have no rank");
    }

    #[test]
    fn best_of_has_one_round_and_no_best_trial_without_a_passed_one() {
        let mut exploration = plan(3, SearchKind::BestOf, 1, 1);
        end(&mut exploration, |_, _| None);
        assert!(!exploration.next_round().unwrap() && exploration.is_over());
        assert_eq!((exploration.best(), exploration.ranked()), (None, vec![0, 1, 2]));
    }

    turntree_properties::properties! {
        #[test]
        fn a_record_round_trips(scores in prop::collection::vec(prop::option::of(-9.0..9.0_f64), 1..6)) {
            let mut exploration = plan(scores.len(), SearchKind::Beam, 2, 2);
            exploration.trials[0].start =
                Some(TrialStart { commit: exploration.from, dir: "/work/a b".to_owned() });
            end(&mut exploration, |place, _| scores[place]);
            exploration.next_round().unwrap();
            let bytes = exploration.encode().unwrap();
            let read = Exploration::decode("work", "explore", &bytes).unwrap();
            prop_assert_eq!(read, exploration);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Exploration::decode("s", "e", &bytes);
        }
    }
}
