//! A checkout: writes a snapshot as files into a directory, planned first.

use std::fmt;
use std::path::PathBuf;

use super::Repo;
use super::system::home;
use crate::context::Context;
use crate::error::Result;
use crate::workspace::{
    CheckoutReport, FileAction, FilesPlan, PlannedFile, expect_narrow, plan_checkout,
};

/// A checkout under construction.
#[derive(Debug)]
#[must_use = "a checkout does nothing before its plan is applied"]
pub struct Checkout<'s> {
    repo: &'s Repo,
    context: &'s Context,
    dir: PathBuf,
    only: Vec<String>,
    overwrite: bool,
    allow_broad: bool,
}

/// A planned checkout, file by file. Displays as a list for people.
#[derive(Debug)]
pub struct CheckoutPlan<'s> {
    repo: &'s Repo,
    plan: FilesPlan,
    overwrite: bool,
}

impl<'s> Checkout<'s> {
    pub(super) fn new(repo: &'s Repo, context: &'s Context, dir: PathBuf) -> Self {
        Self { repo, context, dir, only: Vec::new(), overwrite: false, allow_broad: false }
    }

    /// Limits the checkout to a section or path, such as `files` or `files/src`; can be called
    /// several times.
    pub fn only(mut self, path: impl Into<String>) -> Self {
        self.only.push(path.into());
        self
    }

    /// Allows overwriting files that differ; otherwise such a plan cannot be applied.
    pub fn overwrite(mut self) -> Self {
        self.overwrite = true;
        self
    }

    /// Allows `/`, the home directory and its ancestors as the directory.
    pub fn allow_broad(mut self) -> Self {
        self.allow_broad = true;
        self
    }

    /// Plans the checkout. Writes nothing.
    ///
    /// # Errors
    /// `NotFound` if the snapshot has nothing at the given paths, `InvalidInput` if a path leaves
    /// the directory or a non-file is in the way, or for `/`, the home directory and its ancestors
    /// unless allowed.
    pub fn plan(self) -> Result<CheckoutPlan<'s>> {
        if !self.allow_broad {
            expect_narrow(&self.dir, home().as_deref())?;
        }
        let plan = plan_checkout(self.repo.inner.store(), self.context, &self.dir, &self.only)?;
        Ok(CheckoutPlan { repo: self.repo, plan, overwrite: self.overwrite })
    }
}

impl CheckoutPlan<'_> {
    /// Returns every file of the plan, ordered by path.
    #[must_use]
    pub fn files(&self) -> &[PlannedFile] {
        &self.plan.files
    }

    /// Writes the files. Each is renamed into place when it is complete and durable.
    ///
    /// # Errors
    /// `InvalidInput` if differing files exist and may not be overwritten: then nothing was
    /// written. `Conflict` if a file changed since it was planned, `Io` if the system refuses.
    pub fn apply(&self) -> Result<CheckoutReport> {
        self.plan.apply(self.repo.inner.store(), self.overwrite)
    }
}

impl fmt::Display for CheckoutPlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "into {}", self.plan.target.display())?;
        for file in self.files() {
            let action = match file.action {
                FileAction::Create => "create",
                FileAction::Overwrite => "overwrite",
                FileAction::Keep => "keep",
            };
            writeln!(f, "  {action:9} {}", file.path.display())?;
        }
        Ok(())
    }
}
