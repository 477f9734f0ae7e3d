//! What the trials of an exploration have spent, by the answers that their branches record.

use std::collections::HashMap;

use turntree::object::ObjectId;
use turntree::repo::{BranchName, Exploration, ExplorationBudget, Repository};
use turntree_exchange::{PriceTable, compare};

use crate::view::error::Result;

/// The spending on each branch, with the snapshots between which it was read.
pub(crate) struct Spent {
    prices: PriceTable,
    known: HashMap<BranchName, ((ObjectId, ObjectId), Amount)>,
}

/// Tokens, and their cost in US dollars as far as known.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Amount {
    pub(crate) tokens: Option<u64>,
    pub(crate) dollars: Option<f64>,
}

impl Spent {
    pub(crate) fn new(prices: PriceTable) -> Self {
        Self { prices, known: HashMap::new() }
    }

    /// Reads the tokens of a branch since the snapshot `start`.
    pub(crate) fn since(
        &self,
        repo: &Repository,
        branch: &BranchName,
        start: ObjectId,
    ) -> Result<Amount> {
        let Some(tip) = repo.tip(branch) else { return Ok(Amount::default()) };
        let lines = [(None, start), (Some(branch.clone()), tip)];
        let compared = compare(repo, &lines, &self.prices)?;
        let spending = compared.strategies.last().and_then(|strategy| strategy.spending);
        Ok(Amount {
            tokens: spending.map(|spending| spending.tokens.total()),
            dollars: spending.and_then(|spending| spending.cost()),
        })
    }

    /// The spending on a branch since the snapshot `start`, read again only if one of them has
    /// changed since the last call.
    pub(crate) fn of_branch(
        &mut self,
        repo: &Repository,
        branch: &BranchName,
        start: ObjectId,
    ) -> Result<Amount> {
        let Some(tip) = repo.tip(branch) else { return Ok(Amount::default()) };
        if let Some((known, amount)) = self.known.get(branch)
            && *known == (start, tip)
        {
            return Ok(*amount);
        }
        let amount = self.since(repo, branch, start)?;
        self.known.insert(branch.clone(), ((start, tip), amount));
        Ok(amount)
    }

    /// The spending on all branches. Reads those that have moved since the last call.
    pub(crate) fn total(&mut self, repo: &Repository, exploration: &Exploration) -> Result<Amount> {
        // Later rounds continue on the branch of an earlier trial.
        let mut starts: HashMap<&BranchName, ObjectId> = HashMap::new();
        for trial in &exploration.trials {
            if let Some(start) = &trial.start {
                starts.entry(&trial.branch).or_insert(start.commit);
            }
        }
        let mut total = Amount::default();
        for (branch, start) in starts {
            let amount = self.of_branch(repo, branch, start)?;
            if let Some(tokens) = amount.tokens {
                total.tokens = Some(total.tokens.unwrap_or_default().saturating_add(tokens));
            }
            if let Some(dollars) = amount.dollars {
                total.dollars = Some(total.dollars.unwrap_or_default() + dollars);
            }
        }
        Ok(total)
    }

    /// Returns true if the budget is spent.
    pub(crate) fn is_over(&mut self, repo: &Repository, exploration: &Exploration) -> Result<bool> {
        let Some(budget) = exploration.plan.budget else { return Ok(false) };
        let total = self.total(repo, exploration)?;
        Ok(match budget {
            ExplorationBudget::Tokens(most) => total.tokens.is_some_and(|tokens| tokens >= most),
            ExplorationBudget::Dollars(most) => total.dollars.is_some_and(|cost| cost >= most),
        })
    }
}
