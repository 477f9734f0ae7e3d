//! The options that limit an exploration.

use std::time::Duration;

use clap::Args;
use turntree::repo::ExplorationBudget;
use turntree::{Error, ErrorKind};

use super::plan::Overrides;
use crate::view::units::{parse_count, parse_time};

/// Limits of an exploration.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct LimitOptions {
    /// The number of strategies to run at a time; one per processor by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    jobs: Option<u32>,
    /// The longest time of a command or a check, such as 90s or 20m
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    timeout: Option<Duration>,
    /// End commands when all together have spent this: tokens such as 400k, or money such as $5
    #[arg(long, value_name = "AMOUNT", value_parser = budget)]
    budget: Option<ExplorationBudget>,
}

impl LimitOptions {
    /// The settings of a plan that they replace.
    pub(crate) fn overrides(&self) -> Overrides {
        Overrides { jobs: self.jobs, timeout: self.timeout, budget: self.budget }
    }
}

fn budget(text: &str) -> Result<ExplorationBudget, Error> {
    let wrong = || {
        Error::new(
            ErrorKind::InvalidInput,
            format!("'{text}': expected tokens such as 400k, or money such as $5 or 5usd"),
        )
    };
    let money = text.strip_prefix('$').or_else(|| {
        let lower = text.to_ascii_lowercase();
        lower.ends_with("usd").then(|| text.get(..text.len() - 3)).flatten()
    });
    match money {
        Some(money) => {
            let money: f64 = money.trim().parse().map_err(|_| wrong())?;
            let is_amount = money.is_finite() && money > 0.0;
            is_amount.then_some(ExplorationBudget::Dollars(money)).ok_or_else(wrong)
        }
        None => parse_count(text).map(ExplorationBudget::Tokens).map_err(|_| wrong()),
    }
}
