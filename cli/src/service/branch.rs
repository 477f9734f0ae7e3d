//! Branches: lists, forks and switches them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use turntree::Error;
use turntree::repo::HEAD;

use super::page::{ITEMS, MAX_ITEMS, Page, items, limit};
use super::{Effect, Request, ServiceCall};
use crate::porcelain::read::branches::{
    ForkStart, branches_of, fork, records, switch, whereabouts,
};
use crate::porcelain::read::revision::with_resolver;
use crate::porcelain::read::sessions::named_session_if;
use crate::program::invocation::check_may_switch;
use crate::view::error::Result;
use crate::view::json;

/// Arguments of `branch`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BranchArguments {
    /// list, fork (create a branch) or switch (act on another); list by default
    #[serde(default)]
    action: BranchAction,
    /// Name of the branch to create or act on; for switch also session/branch or a session
    name: Option<String>,
    /// The start of a new branch, a revision; HEAD by default
    at: Option<String>,
    /// Act on the new branch from now on
    #[serde(default)]
    switch: bool,
    /// List only branches of this session, or fork one in it
    session: Option<String>,
    /// Begin at this branch of the list
    #[serde(default)]
    offset: u64,
    /// Maximum: 1 to 500, 50 by default
    limit: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum BranchAction {
    #[default]
    List,
    Fork,
    Switch,
}

/// The branches, or the changed one.
#[derive(Serialize, JsonSchema)]
pub(super) struct BranchAnswer {
    /// The branches of a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    branches: Option<Vec<json::BranchRecord>>,
    /// Offset of the next call; null at the end.
    next_offset: Option<u64>,
    /// The new branch, or the one that calls act on now.
    #[serde(skip_serializing_if = "Option::is_none")]
    moved: Option<json::Moved>,
}

impl Request for BranchArguments {
    type Answer = BranchAnswer;
    const NAME: &'static str = "branch";
    const TITLE: &'static str = "Branches: list, fork, switch";
    const ABOUT: &'static str = "Lists branches, forks one from any snapshot, or switches later \
        calls to another one. A fork costs the same for any size of context. None of these \
        touches files: restore writes the files of a branch to the workspace.";
    const EFFECT: Effect = Effect::MayAdd;

    fn answer(self, call: &ServiceCall<'_>) -> Result<BranchAnswer> {
        match self.action {
            BranchAction::List => self.list(call),
            BranchAction::Fork => self.fork(call),
            BranchAction::Switch => self.switch(call),
        }
    }
}

impl BranchArguments {
    fn list(&self, call: &ServiceCall<'_>) -> Result<BranchAnswer> {
        let limit = limit(self.limit, ITEMS, MAX_ITEMS)?;
        let repo = call.open()?;
        let session = named_session_if(&repo, self.session.as_deref())?;
        let branches = branches_of(&repo, session.as_deref())?;
        let Page { part, next, .. } = items(branches, self.offset, limit);
        let branches = records(&repo, part)?.into_iter().map(|(record, _)| record).collect();
        Ok(BranchAnswer { branches: Some(branches), next_offset: next, moved: None })
    }

    fn fork(&self, call: &ServiceCall<'_>) -> Result<BranchAnswer> {
        call.check_may_change()?;
        let mut own = call.has_own_branch();
        if self.switch && !own {
            check_may_switch()?;
        }
        let repo = call.open()?;
        let at = self.at.as_deref().unwrap_or(HEAD);
        let (session, name) = (self.session.as_deref(), self.name()?);
        let start = ForkStart::of(&repo, at, session, &[name])?;
        fork(&repo, &start, self.switch && !own)?;
        own &= self.switch;
        let branch = start.branches.into_iter().next();
        let moved = branch.as_ref().map(|branch| whereabouts(&repo, branch)).transpose()?;
        if own {
            call.service.set_own_branch(branch);
        }
        Ok(BranchAnswer { branches: None, next_offset: None, moved })
    }

    /// Switches the server's own branch if it has one, otherwise the shared HEAD.
    fn switch(&self, call: &ServiceCall<'_>) -> Result<BranchAnswer> {
        call.check_may_change()?;
        let own = call.has_own_branch();
        if !own {
            check_may_switch()?;
        }
        let (repo, name) = (call.open()?, self.name()?);
        let name = if name == "-" { "@{-1}" } else { name };
        let branch = with_resolver(&repo, |resolver| resolver.branch(name))?;
        if !own {
            switch(&repo, &branch)?;
        }
        let moved = Some(whereabouts(&repo, &branch)?);
        if own {
            call.service.set_own_branch(Some(branch));
        }
        Ok(BranchAnswer { branches: None, next_offset: None, moved })
    }

    fn name(&self) -> Result<&str> {
        let missing = || Error::invalid("fork and switch take the name of a branch").into();
        self.name.as_deref().ok_or_else(missing)
    }
}
