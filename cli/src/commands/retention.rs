//! `retention`: sets which turns of a session are kept, and the budget and parity of the store.

use std::collections::BTreeMap;
use std::io::Write;

use clap::{ArgGroup, Args, Subcommand};
use clap_complete::ArgValueCompleter;
use turntree::Error;
use turntree::maintenance::{
    self, ExpiredSession, Policies, Policy, RetentionPlan, Scope, SessionPlan, Thin,
    plan_expired_sessions, plan_policies, plan_store_budget, remove_policy, set_parity_policy,
    set_policy, set_store_budget,
};
use turntree::object::Time;
use turntree::repo::Repository;
use turntree::store::ParityShare;

use super::Verb;
use crate::porcelain::read::sessions::named_session_if;
use crate::porcelain::store::store_budget;
use crate::program::complete::sessions;
use crate::program::invocation::{Invocation, stamp};
use crate::view::error::{Answer, Failure, Result};
use crate::view::json;
use crate::view::output::{NAME, Output, note, warn};
use crate::view::render::collection::write_expired;
use crate::view::render::{self, columns_of, padded};
use crate::view::units::{duration, parse_duration, parse_size, size};

/// The option for the whole store.
const STORE: &str = "--whole-store";

/// Show or set the retention of a session, or the budget and parity of the store
///
/// Without a policy everything is kept. With a policy, a turn is kept if any of its rules keeps it;
/// the budget then drops the oldest ones. Tips of branches, tags, pins, branch points and merged
/// turns are always kept, and without --strict also the turns that an undo of a recent operation
/// needs. An expired turn loses its content and stays in the log. A policy takes effect with the
/// next collection, and changes of it can be undone.
///
/// A budget counts packed sizes: contexts, commits, operations, ids, index and parity. Content
/// shared by two sessions counts in full for each. Automatic maintenance lets a session be a
/// quarter over its budget; 'turntree gc' brings it within the budget.
///
/// The newest turn of a branch holds its whole conversation, so a policy only limits the additional
/// content of older turns, and a budget below the size of the newest turn cannot be met. A budget
/// of the store (--whole-store) forgets whole sessions, oldest first, but never a session that has
/// a pin or a tag, changed within the last day, is the target of 'switch' in a directory, or is the
/// newest of its directory.
///
/// With a parity of the store, every pack written from then on, including those of automatic
/// maintenance, has that much parity, with which 'turntree repair' restores damaged bytes.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree retention set nightly --keep-last 100 --budget 200MB
  turntree retention set --default --keep-within 30d --thin daily
  turntree retention set nightly --keep-last 10 --thin every:10 --dry-run
  turntree retention set --default --keep-within 1h --expire-session 30d --strict
  turntree retention set archive --keep-all
  turntree retention set --whole-store --budget 500MB --dry-run
  turntree retention set --whole-store --parity 5
  turntree retention show
  turntree retention unset nightly")]
pub(crate) struct Retention {
    #[command(subcommand)]
    action: Option<RetentionCommand>,
}

#[derive(Debug, Subcommand)]
enum RetentionCommand {
    Set(Set),
    Show(ShowPolicy),
    Unset(Unset),
}

/// Set the policy of a session; replaces the current one
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("rules").required(true).multiple(true)
    .args(["keep_last", "keep_within", "thin", "budget", "expire_session", "parity", "keep_all"]))]
struct Set {
    #[command(flatten)]
    target: PolicyTarget,
    /// Keep the newest N turns of each branch; pinned ones do not count
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    keep_last: Option<u64>,
    /// Keep turns up to this age, such as 12h or 30d
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    keep_within: Option<i64>,
    /// Of older turns, keep every n-th (every:<n>), the newest of each hour (hourly), or of each
    /// day (daily); may be given several times
    #[arg(long, value_name = "RULE", value_parser = thin)]
    thin: Vec<Thin>,
    /// Keep at most this size, such as 200MB; the oldest turns expire first, with --whole-store the
    /// oldest sessions
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    budget: Option<u64>,
    /// Forget the whole session once its newest turn and the last change of its branches are older
    /// than this, such as 30d, unless one of its turns has a pin or a tag
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    expire_session: Option<i64>,
    /// Keep no turn for an undo, and free an expired session without a day of grace
    #[arg(long)]
    strict: bool,
    /// With --whole-store, give every new pack at least this much parity; 0 removes the setting
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(..=100))]
    parity: Option<u8>,
    /// Keep everything, regardless of the default policy
    #[arg(long, conflicts_with_all = ["keep_last", "keep_within", "thin", "budget",
        "expire_session", "parity", "strict"])]
    keep_all: bool,
    /// Print the turns that would expire
    #[arg(long)]
    dry_run: bool,
}

/// Show the policies of all sessions, or the one that applies to a session
#[derive(Debug, Args)]
struct ShowPolicy {
    /// The session
    #[arg(value_name = "SESSION", add = ArgValueCompleter::new(sessions))]
    session: Option<String>,
}

/// Remove a policy; expired turns stay expired
#[derive(Debug, Args)]
struct Unset {
    #[command(flatten)]
    target: PolicyTarget,
}

/// The scope of a policy.
#[derive(Debug, Args)]
struct PolicyTarget {
    /// The session; HEAD's by default
    #[arg(value_name = "SESSION", conflicts_with = "default", add = ArgValueCompleter::new(sessions))]
    session: Option<String>,
    /// Every session without its own policy
    #[arg(long)]
    default: bool,
    /// The whole store: its budget, for which the oldest sessions are forgotten, and the parity of
    /// its packs
    #[arg(long, conflicts_with_all = ["session", "default"])]
    whole_store: bool,
}

impl Verb for Retention {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        match &self.action {
            None => ShowPolicy { session: None }.run(run),
            Some(RetentionCommand::Set(set)) => set.run(run),
            Some(RetentionCommand::Show(show)) => show.run(run),
            Some(RetentionCommand::Unset(unset)) => unset.run(run),
        }
    }
}

impl PolicyTarget {
    /// The session; `None` for all sessions without their own policy.
    fn session(&self, repo: &Repository) -> Result<Option<String>> {
        Ok(match &self.session {
            _ if self.default => None,
            Some(session) => Some(session.clone()),
            None => Some(repo.head()?.branch.session().to_owned()),
        })
    }
}

impl Set {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        if self.target.whole_store {
            return self.set_store(run, &repo);
        }
        if self.parity.is_some() {
            let error =
                Error::invalid("--parity is for the whole store: a session cannot have its own");
            let hint = "turntree retention set --whole-store --parity 5";
            return Err(Failure::hinted(error, hint));
        }
        let session = self.target.session(&repo)?;
        let scope = session.as_deref().map_or(Scope::Default, Scope::Session);
        scope.ref_name()?;
        let policy = Policy {
            keep_last: self.keep_last,
            keep_within: self.keep_within,
            thin: self.thin.clone(),
            budget_bytes: self.budget,
            expire_session: self.expire_session,
            strict: self.strict,
        };
        let is_there =
            |session: &str| repo.branches().iter().any(|(name, _)| name.session() == session);
        if let Some(session) = session.as_deref().filter(|session| !is_there(session)) {
            warn(&format!("session {session} has no snapshot yet"));
        }
        let (stamp, reason) = (stamp()?, format!("retention set {}", name_of(session.as_deref())));
        let now = stamp.time;
        let mut change = repo.begin();
        set_policy(&mut change, scope, &policy)?;
        let (planned, expired) = match self.dry_run {
            true => {
                let mut plan = plan_policies(&change, &stamp, &reason)?;
                let expired = expiring(&repo, session.as_deref(), &policy, now, &mut plan)?;
                (Some(plan), Some(expired))
            }
            false => {
                change.commit(&stamp, &reason)?;
                (None, None)
            }
        };
        if run.out.json {
            run.out.record(&json::RetentionSet {
                session,
                policy: record_of(&policy),
                dry_run: self.dry_run,
                sessions: planned
                    .as_ref()
                    .map(|plan| plan.sessions.iter().map(json::SessionPlan::from).collect()),
                notes: planned.map(|plan| plan.notes),
                expired_sessions: expired
                    .map(|expired| expired.iter().map(json::ExpiredSession::from).collect()),
            })?;
            return Ok(Answer::Yes);
        }
        write_policy(&mut run.out, name_of(session.as_deref()), 0, &in_words(&policy))?;
        if let Some(RetentionPlan { sessions, notes, .. }) = &planned {
            for session in sessions {
                writeln!(run.out, "{session}")?;
            }
            for note in notes {
                writeln!(run.out, "{note}")?;
            }
            for SessionPlan { session, bytes, .. } in sessions {
                if let Some(bytes) = bytes {
                    let bytes = render::size(*bytes);
                    writeln!(run.out, "session {session}: kept turns take {bytes}, packed")?;
                }
            }
            write_expired(&mut run.out, expired.as_deref().unwrap_or_default(), now)?;
        }
        Ok(Answer::Yes)
    }
}

impl Set {
    /// Sets the budget of the store and the parity of its packs, or shows their effect.
    fn set_store(&self, run: &mut Invocation, repo: &Repository) -> Result<Answer> {
        let is_other = self.keep_last.is_some()
            || self.keep_within.is_some()
            || !self.thin.is_empty()
            || self.expire_session.is_some()
            || self.strict
            || self.keep_all;
        if is_other {
            let error =
                Error::invalid("the store can have a budget and a parity, but no other rule");
            return Err(Failure::hinted(
                error,
                "turntree retention set --whole-store --budget 500MB",
            ));
        }
        let (stamp, dry_run) = (stamp()?, self.dry_run);
        let (budget_bytes, parity_percent) = (self.budget, self.parity);
        if !dry_run {
            let mut change = repo.begin();
            if budget_bytes.is_some() {
                set_store_budget(&mut change, budget_bytes)?;
            }
            if let Some(percent) = parity_percent {
                let share = (percent > 0).then(|| ParityShare::new(percent)).transpose()?;
                set_parity_policy(&mut change, share)?;
            }
            change.commit(&stamp, "retention set --whole-store")?;
        }
        let planned = budget_bytes.filter(|_| dry_run);
        let plan = planned.map(|budget| plan_store_budget(repo, budget, stamp.time)).transpose()?;
        if run.out.json {
            let plan = plan.as_ref().map(|plan| store_budget::record(plan, None));
            run.out.record(&json::StorePolicySet {
                budget_bytes,
                parity_percent,
                dry_run,
                plan,
            })?;
            return Ok(Answer::Yes);
        }
        let words = store_in_words(budget_bytes, parity_percent);
        write_policy(&mut run.out, STORE, 0, &words)?;
        if let Some(plan) = plan {
            store_budget::write_sessions(&mut run.out, &plan, stamp.time)?;
            store_budget::write_sum(&mut run.out, &plan, None)?;
        }
        Ok(Answer::Yes)
    }
}

impl ShowPolicy {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let policies = Policies::load(&repo, &repo.refs())?;
        let budget = maintenance::store_budget(&repo, &repo.refs())?;
        let parity = repo.store().parity_policy()?.map(ParityShare::percent);
        let named = match self.session.as_ref() {
            Some(name) if policies.sessions.contains_key(name) => Some(name.clone()),
            session => named_session_if(&repo, session.map(String::as_str))?,
        };
        let shown: BTreeMap<&str, Option<&Policy>> = match &named {
            Some(session) => BTreeMap::from([(session.as_str(), policies.of(session))]),
            None => policies.sessions.iter().map(|(name, p)| (name.as_str(), Some(p))).collect(),
        };
        if run.out.json {
            let sessions = shown.iter().map(|(session, policy)| json::SessionPolicy {
                session: (*session).to_owned(),
                own: policies.sessions.contains_key(*session),
                policy: policy.map(record_of),
            });
            let default = policies.default.as_ref().map(record_of);
            run.out.record(&json::RetentionShow {
                store_budget_bytes: budget,
                store_parity_percent: parity,
                default,
                sessions: sessions.collect(),
            })?;
            return Ok(Answer::Yes);
        }
        let of_store = store_in_words(budget, parity);
        if shown.is_empty() && policies.default.is_none() && of_store.is_empty() {
            note(&format!("no policy in {}: everything is kept", run.store_dir()?.display()));
        }
        if self.session.is_none() && !of_store.is_empty() {
            write_policy(&mut run.out, STORE, 0, &of_store)?;
        }
        let default = (self.session.is_none()).then_some(policies.default.as_ref()).flatten();
        let names = shown.keys().map(|name| columns_of(name));
        let width = names.chain(default.map(|_| name_of(None).len())).max().unwrap_or(0);
        if let Some(policy) = default {
            write_policy(&mut run.out, name_of(None), width, &in_words(policy))?;
        }
        for (session, policy) in shown {
            let own = policies.sessions.contains_key(session);
            let words = match policy {
                None => "keep-all, because there is no policy".to_owned(),
                Some(policy) if own => in_words(policy),
                Some(policy) => format!("{}, as is the default", in_words(policy)),
            };
            write_policy(&mut run.out, session, width, &words)?;
        }
        Ok(Answer::Yes)
    }
}

impl Unset {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        if self.target.whole_store {
            return unset_store(run, &repo);
        }
        let session = self.target.session(&repo)?;
        let scope = session.as_deref().map_or(Scope::Default, Scope::Session);
        if repo.refs().value(&scope.ref_name()?).is_none() {
            let none = match &session {
                Some(session) => format!("session {session} has no policy of its own"),
                None => "there is no default policy".to_owned(),
            };
            let hint = "'turntree retention show' shows all policies";
            return Err(Failure::hinted(Error::not_found(none), hint));
        }
        let mut change = repo.begin();
        remove_policy(&mut change, scope)?;
        change.commit(&stamp()?, &format!("retention unset {}", name_of(session.as_deref())))?;
        if run.out.json {
            run.out.record(&json::RetentionUnset { session })?;
        } else {
            let name = run.out.paint.paint(NAME, name_of(session.as_deref()));
            writeln!(run.out, "the policy of {name} is removed")?;
        }
        Ok(Answer::Yes)
    }
}

/// Removes the budget and the parity of the store.
fn unset_store(run: &mut Invocation, repo: &Repository) -> Result<Answer> {
    let budget = maintenance::store_budget(repo, &repo.refs())?;
    let parity = repo.store().parity_policy()?;
    let removed = match (budget.is_some(), parity.is_some()) {
        (true, true) => "the budget and the parity of the store are removed",
        (true, false) => "the budget of the store is removed",
        (false, true) => "the parity of the store is removed: existing packs keep their parity",
        (false, false) => {
            let hint = "'turntree retention show' shows all policies";
            let none = Error::not_found("the store has no budget and no parity");
            return Err(Failure::hinted(none, hint));
        }
    };
    let mut change = repo.begin();
    if budget.is_some() {
        set_store_budget(&mut change, None)?;
    }
    if parity.is_some() {
        set_parity_policy(&mut change, None)?;
    }
    change.commit(&stamp()?, "retention unset --whole-store")?;
    if run.out.json {
        run.out.record(&json::RetentionUnset { session: None })?;
    } else {
        writeln!(run.out, "{removed}")?;
    }
    Ok(Answer::Yes)
}

/// Formats the policy of the store as options.
fn store_in_words(budget_bytes: Option<u64>, parity_percent: Option<u8>) -> String {
    let budget = budget_bytes.map(|bytes| format!("budget {}", size(bytes)));
    let parity = parity_percent.map(|percent| format!("parity {percent}"));
    budget.into_iter().chain(parity).collect::<Vec<_>>().join(", ")
}

/// Returns the sessions that would expire under the policy, and keeps in the plan those in its
/// scope.
fn expiring(
    repo: &Repository,
    session: Option<&str>,
    policy: &Policy,
    now: Time,
    plan: &mut RetentionPlan,
) -> Result<Vec<ExpiredSession>> {
    let stored = Policies::load(repo, &repo.refs())?;
    let mut policies = stored.clone();
    match session {
        Some(session) => _ = policies.sessions.insert(session.to_owned(), policy.clone()),
        None => policies.default = Some(policy.clone()),
    }
    let is_meant = |name: &str| match session {
        Some(session) => name == session,
        None => !stored.sessions.contains_key(name),
    };
    plan.sessions.retain(|plan| is_meant(&plan.session));
    let mut expired = plan_expired_sessions(repo, &policies, now)?;
    expired.retain(|expired| is_meant(&expired.session));
    Ok(expired)
}

/// A session, or the option for all sessions without their own policy.
fn name_of(session: Option<&str>) -> &str {
    session.unwrap_or("--default")
}

/// Formats a policy as options.
fn in_words(policy: &Policy) -> String {
    let mut rules = Vec::new();
    rules.extend(policy.keep_last.map(|n| format!("keep-last {n}")));
    rules.extend(policy.keep_within.map(|micros| format!("keep-within {}", duration(micros))));
    rules.extend(policy.thin.iter().map(|thin| format!("thin {thin}")));
    rules.extend(policy.budget_bytes.map(|bytes| format!("budget {}", size(bytes))));
    rules.extend(policy.expire_session.map(|age| format!("expire-session {}", duration(age))));
    rules.extend(policy.strict.then(|| "strict".to_owned()));
    if rules.is_empty() { "keep-all".to_owned() } else { rules.join(", ") }
}

fn write_policy(out: &mut Output, name: &str, width: usize, words: &str) -> Result<()> {
    let name = out.paint.paint(NAME, padded(name, width));
    writeln!(out, "{name}  {words}")?;
    Ok(())
}

fn record_of(policy: &Policy) -> json::Policy {
    json::Policy {
        keep_last: policy.keep_last,
        keep_within_micros: policy.keep_within,
        thin: policy.thin.iter().map(ToString::to_string).collect(),
        budget_bytes: policy.budget_bytes,
        expire_session_micros: policy.expire_session,
        strict: policy.strict,
    }
}

fn thin(text: &str) -> Result<Thin, Error> {
    text.parse()
}
