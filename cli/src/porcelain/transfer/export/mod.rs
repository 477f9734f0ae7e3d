//! Exports: an imported transcript, the messages of a snapshot, pages, and documents of other
//! systems.

mod compact;
mod counted;
mod environment;
mod page;
mod salvage;
mod training;

use std::io::Write;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use turntree::Error;
use turntree::context::sections::SOURCE;
use turntree::context::{Context, MAIN_AGENT, Role, Transcript};
use turntree::context::{export_messages, export_source};
use turntree::object::{Commit, ObjectId, ObjectSource};
use turntree::repo::Repository;
use turntree::store::Steps;
use turntree::transfer::bundle::BundleRequest;
use turntree_exchange::formats::codesign::{export_chat, export_designs};
use turntree_exchange::formats::context_chef::{ChefOptions, export_chef};
use turntree_exchange::formats::ollm::{
    SnapshotFacts, TransitionFacts, export_context, export_intent, export_mode, state_snapshot,
};
use turntree_exchange::formats::swarm::{SnapshotOptions, SnapshotVersion, export_snapshot};
use turntree_exchange::render::{
    ContentDetail, PAGE_KEY_BYTES, PageCompressor, PageKey, PageSealer, RunOutcome, Training,
    Trajectory, compress_stream, export_anthropic, export_atif, export_document, export_markdown,
    export_openai,
};

use self::compact::CompactJson;
use self::counted::CountedBlobs;
pub(crate) use self::environment::Environment;
use self::page::Prepared;
pub(crate) use self::salvage::SalvagedTurn;
use self::training::{Runs, TrainingChoice, told};
use super::scrub::{Scrubbed, wanted};
use crate::porcelain::change::compat::Compat;
use crate::porcelain::read::comparison::Line;
use crate::porcelain::read::revision::resolve;
use crate::program::complete::revisions;
use crate::view::clock;
use crate::view::error::Result;
use crate::view::progress::Working;

/// The size in bytes up to which a page is not compressed unless that is asked for.
const MAX_PLAIN_PAGE: usize = 1_000_000;

/// The options of an export.
#[derive(Debug, Clone, Args)]
pub(crate) struct ExportRequest {
    /// A session or any other revision; several for html, codesign and training
    #[arg(
        value_name = "REV",
        required_unless_present = "exploration",
        add = ArgValueCompleter::new(revisions)
    )]
    revisions: Vec<String>,
    /// Format to write
    #[arg(long, value_enum)]
    format: ExportFormat,
    /// Agent whose messages to write, for jsonl, openai, anthropic, atif and training
    #[arg(long, value_name = "NAME", default_value = MAIN_AGENT)]
    agent: String,
    /// Only messages of this role, or with !ROLE of all other roles, for jsonl: system, user,
    /// assistant, tool or other
    #[arg(long, value_name = "ROLE", value_parser = role)]
    role: Option<(Role, bool)>,
    /// The version of a swarm-snapshot: 1.0.0, 2.0.0 or 2.1.0; by default the imported version
    #[arg(long, value_name = "VERSION", value_parser = version, hide_short_help = true)]
    snapshot_version: Option<SnapshotVersion>,
    /// Reproduce bugs of the format's own system, for swarm-snapshot and ollm-context
    #[arg(long, value_enum, hide_short_help = true)]
    compat: Option<Compat>,
    /// Include all branches of the session, not only the history of the revision, for codesign
    #[arg(long)]
    branches: bool,
    /// Leave out expired core memory, as the next compile would, for context-chef
    #[arg(long, hide_short_help = true)]
    sweep: bool,
    /// Write ids and sizes instead of contents and records, for json
    #[arg(long, hide_short_help = true)]
    no_content: bool,
    /// Omit line ends and indents, for formats that are one JSON document
    #[arg(long)]
    compact: bool,
    /// Compress the data in the page, for html: a third of the size, for browsers since 2023; a page
    /// above 1 MB is compressed without it. For sft, dpo, grpo and verifiers, write zstd
    #[arg(long, hide_short_help = true, conflicts_with = "no_compress")]
    compress: bool,
    /// Leave the data in the page as it is, for html
    #[arg(long, hide_short_help = true)]
    no_compress: bool,
    #[command(flatten)]
    training: TrainingChoice,
    /// How each revision ended, for training exports of a scrubbed copy, which lacks explorations.
    #[arg(skip)]
    outcomes: Vec<RunOutcome>,
    /// Intent to write, for ollm-intent; the newest by default
    #[arg(long, value_name = "ID", hide_short_help = true)]
    intent: Option<String>,
    /// The key of an encrypted page.
    #[arg(skip)]
    key: Option<PageKey>,
}

/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// The imported transcript, byte for byte
    Source,
    /// Messages of one agent, one per line
    Jsonl,
    /// A SwarmSDK snapshot
    SwarmSnapshot,
    /// A ContextChef 4.2 snapshot document
    ContextChef,
    /// An OLLM CLI context snapshot
    OllmContext,
    /// An OLLM CLI mode transition
    OllmMode,
    /// An OLLM CLI intent
    OllmIntent,
    /// The text of a mode transition, as OLLM CLI adds it to a prompt
    OllmState,
    /// An open-codesign design store
    Codesign,
    /// The chat of an open-codesign design, with its comments
    CodesignSession,
    /// A readable transcript, turn by turn
    Markdown,
    /// One self-contained page: branches, turns, diffs, search, compare
    Html,
    /// The whole context of a snapshot
    Json,
    /// Messages of one agent for the OpenAI chat completions API
    Openai,
    /// Messages of one agent for the Anthropic messages API
    Anthropic,
    /// The conversation of one agent as an ATIF trajectory
    Atif,
    /// Conversations to train on, one per line, each answer once
    Sft,
    /// Pairs of continuations with different rewards, one per line
    Dpo,
    /// Forks with their continuations and rewards, one per line
    Grpo,
    /// Episodes of the Python package verifiers, one per line
    Verifiers,
    /// A log of the Python package inspect-ai
    Inspect,
    /// A task folder for Harbor and other runners: files, task, check, solution
    Environment,
}

/// The exported session or snapshot.
pub(crate) struct Subject<'r> {
    repo: &'r Repository,
    pub(crate) id: ObjectId,
    context: Context,
    commit: Commit,
    /// The page, for html.
    page: Option<Prepared>,
    /// The tips of each session, for codesign.
    designs: Vec<Vec<ObjectId>>,
    /// The conversations of all revisions, for training.
    training: Option<Training>,
    /// The task folder, for environment.
    pub(crate) environment: Option<Environment>,
    /// True if a bar shows how much is written.
    pub(crate) shows_steps: bool,
}

impl ExportRequest {
    /// An export with default options.
    pub(crate) fn new(revisions: Vec<String>, format: ExportFormat, agent: String) -> Self {
        Self {
            revisions,
            format,
            agent,
            role: None,
            snapshot_version: None,
            compat: None,
            branches: false,
            sweep: false,
            no_content: false,
            compact: false,
            compress: false,
            no_compress: false,
            training: TrainingChoice::default(),
            outcomes: Vec::new(),
            intent: None,
            key: None,
        }
    }

    /// An export of an encrypted page.
    ///
    /// # Errors
    /// `Io` if the system has no random bytes.
    pub(crate) fn shared(revisions: Vec<String>) -> turntree::Result<Self> {
        let page = Self::new(revisions, ExportFormat::Html, MAIN_AGENT.to_owned());
        Ok(Self { key: Some(new_page_key()?), ..page })
    }

    /// The same export, with a key that encrypted nothing yet.
    ///
    /// # Errors
    /// `Io` if the system has no random bytes.
    pub(crate) fn with_new_key(&self) -> turntree::Result<Self> {
        let key = self.key.as_ref().map(|_| new_page_key()).transpose()?;
        Ok(Self { key, ..self.clone() })
    }

    /// The key of an encrypted page.
    pub(crate) fn key(&self) -> Option<&PageKey> {
        self.key.as_ref()
    }

    /// The same export with a revision for each branch that it contains: a session has several for
    /// training.
    ///
    /// # Errors
    /// `NotFound` for a revision or an exploration that does not exist.
    pub(crate) fn expanded(&self, repo: &Repository) -> Result<Self> {
        self.check_options()?;
        if self.format.training().is_none() {
            return Ok(self.clone());
        }
        let exploration = self.training.exploration.as_deref();
        let Runs { revisions, outcomes } = Runs::of(repo, &self.revisions, exploration)?;
        let training = TrainingChoice { exploration: None, ..self.training.clone() };
        Ok(Self { revisions, outcomes, training, ..self.clone() })
    }

    /// Checks that every given option applies to the format: an ignored option would look applied.
    fn check_options(&self) -> turntree::Result<()> {
        use ExportFormat::{
            Anthropic, Atif, Codesign, ContextChef, Dpo, Environment, Grpo, Html, Inspect, Json,
            Jsonl, OllmContext, OllmIntent, OllmMode, Openai, Sft, SwarmSnapshot, Verifiers,
        };
        let documents = [
            SwarmSnapshot,
            ContextChef,
            OllmContext,
            OllmMode,
            OllmIntent,
            Codesign,
            Json,
            Openai,
            Anthropic,
            Atif,
            Inspect,
        ];
        let trained = [Sft, Dpo, Grpo, Verifiers, Inspect];
        let of_agents = [Jsonl, Openai, Anthropic, Atif, Sft, Dpo, Grpo, Verifiers, Inspect];
        let training = &self.training;
        let options: [(&str, bool, &[ExportFormat]); 16] = [
            ("--compact", self.compact, &documents),
            ("--compress", self.compress, &[Html, Sft, Dpo, Grpo, Verifiers]),
            ("--no-compress", self.no_compress, &[Html]),
            ("--agent", self.agent != MAIN_AGENT, &of_agents),
            ("--exploration", training.exploration.is_some(), &trained),
            ("--reward", training.reward.is_some(), &trained),
            ("--passed", training.passed, &[Sft, Verifiers, Inspect]),
            ("--from", training.from.is_some(), &[Environment]),
            ("--check", training.check.is_some(), &[Environment]),
            ("--role", self.role.is_some(), &[Jsonl]),
            ("--snapshot-version", self.snapshot_version.is_some(), &[SwarmSnapshot]),
            ("--compat", self.compat.is_some(), &[SwarmSnapshot, OllmContext]),
            ("--branches", self.branches, &[Codesign]),
            ("--sweep", self.sweep, &[ContextChef]),
            ("--no-content", self.no_content, &[Json]),
            ("--intent", self.intent.is_some(), &[OllmIntent]),
        ];
        for (option, is_given, formats) in options {
            if is_given && !formats.contains(&self.format) {
                let values = formats.iter().filter_map(ValueEnum::to_possible_value);
                let names: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
                return Err(Error::invalid(format!("{option} is for {} only", names.join(", "))));
            }
        }
        Ok(())
    }

    /// Returns true if messages of a role are exported.
    fn is_wanted(&self, role: Role) -> bool {
        self.role.is_none_or(|(wanted, is_it)| (role == wanted) == is_it)
    }

    /// The revisions to export.
    pub(crate) fn revisions(&self) -> &[String] {
        &self.revisions
    }

    /// Returns true for a page for a browser.
    pub(crate) fn is_page(&self) -> bool {
        self.format == ExportFormat::Html
    }

    /// Returns true for a folder.
    pub(crate) fn is_folder(&self) -> bool {
        self.format == ExportFormat::Environment
    }

    /// Describes the parts that the export omits.
    pub(crate) fn left_out(&self, subject: &Subject<'_>) -> Vec<String> {
        match (&subject.training, self.format.training()) {
            (Some(training), Some(format)) => told(training.left_out(format)),
            _ => Vec::new(),
        }
    }

    /// The same export, of one snapshot.
    pub(crate) fn of_commit(&self, id: &ObjectId) -> Self {
        Self { revisions: vec![id.to_string()], ..self.clone() }
    }

    /// The sessions and commits that the export reads. For formats that also show other branches,
    /// whole sessions.
    ///
    /// # Errors
    /// `NotFound` for a revision that does not exist.
    pub(crate) fn wanted(&self, repo: &Repository) -> Result<Vec<BundleRequest>> {
        let whole = |wanted: BundleRequest| match wanted {
            BundleRequest::Branch(name) if self.branches => {
                BundleRequest::Session(name.session().to_owned())
            }
            other => other,
        };
        self.revisions.iter().map(|revision| Ok(whole(wanted(repo, revision)?))).collect()
    }

    /// The same export, of a scrubbed copy.
    ///
    /// # Errors
    /// `NotFound` for a revision that does not exist.
    pub(crate) fn of_copy(&self, repo: &Repository, copy: &Scrubbed) -> Result<Self> {
        let name = |revision: &String| {
            Ok(match wanted(repo, revision)? {
                BundleRequest::Session(session) => session,
                BundleRequest::Branch(branch) => branch.to_string(),
                BundleRequest::BranchAt(_, id) | BundleRequest::Commit(id) => {
                    copy.commit(&id).to_string()
                }
            })
        };
        let revisions = self.revisions.iter().map(name).collect::<Result<_>>()?;
        Ok(Self { revisions, ..self.clone() })
    }

    /// Resolves the session or snapshot to export.
    pub(crate) fn subject<'r>(&self, repo: &'r Repository) -> Result<Subject<'r>> {
        self.check_options()?;
        let several = self.revisions.len() > 1;
        let Some(first) = self.revisions.first() else {
            return Err(Error::invalid("nothing to export").into());
        };
        let is_training = self.format.training().is_some();
        let takes_several = matches!(self.format, ExportFormat::Html | ExportFormat::Codesign);
        if several && !takes_several && !is_training {
            let message = "this format takes one REV: several are for html, codesign and training";
            return Err(Error::invalid(message).into());
        }
        let named = resolve(repo, first)?;
        let id = named.commit;
        let training = if is_training { Some(self.conversations(repo)?) } else { None };
        let environment = match self.is_folder() {
            true => {
                let branch = named.branch.filter(|branch| repo.tip(branch) == Some(id));
                Some(Environment::of(repo, (first, branch.as_ref()), &id, &self.training)?)
            }
            false => None,
        };
        let page = match self.format {
            ExportFormat::Html => Some(Prepared::of(repo, &self.revisions)?),
            _ => None,
        };
        let designs = match self.format {
            ExportFormat::Codesign => self.designs(repo)?,
            _ => Vec::new(),
        };
        let (context, commit) = (repo.context(&id)?, repo.commit(&id)?);
        Ok(Subject {
            repo,
            id,
            context,
            commit,
            page,
            designs,
            training,
            environment,
            shows_steps: false,
        })
    }

    /// Counts the messages after the imported transcript, if only the transcript is written.
    pub(crate) fn newer_messages(&self, subject: &Subject<'_>) -> Result<Option<u64>> {
        let Subject { repo, id, context, .. } = subject;
        let store = repo.store();
        let source = context.section(store, SOURCE)?;
        if self.format != ExportFormat::Source || source.is_none() {
            return Ok(None);
        }
        let mut imported = context.clone();
        for entry in repo.history(&[*id], &[])?.first_parent() {
            match repo.context(&entry?.id) {
                Ok(before) if before.section(store, SOURCE)? == source => imported = before,
                Err(error) if error.kind() == turntree::ErrorKind::Corrupt => {
                    return Err(error.into());
                }
                _ => break,
            }
        }
        let newer = context.message_count(store)?.saturating_sub(imported.message_count(store)?);
        Ok(Some(newer).filter(|newer| *newer > 0))
    }

    /// The conversations of all revisions.
    fn conversations(&self, repo: &Repository) -> Result<Training> {
        let lines = self.revisions.iter().map(|revision| Line::named(repo, revision));
        let lines = lines.collect::<Result<Vec<_>>>()?;
        let outcomes = self.outcomes.iter().copied();
        let outcomes = outcomes.chain(std::iter::repeat(RunOutcome::default()));
        let runs: Vec<(&Line, RunOutcome)> = lines.iter().zip(outcomes).collect();
        let agent = Some(self.agent.as_str()).filter(|agent| *agent != MAIN_AGENT);
        if let Some(agent) = agent {
            let mut agents = std::collections::BTreeSet::new();
            for line in &lines {
                agents.extend(repo.context(&line.tip)?.agents(repo)?);
            }
            if !agents.contains(agent) {
                return Err(no_agent(agent, &agents.into_iter().collect::<Vec<_>>()).into());
            }
        }
        self.training.prepare(repo, &runs, agent)
    }

    /// Writes the export as [`ExportRequest::finish`] ends it.
    pub(crate) fn write(&self, subject: &Subject<'_>, out: &mut dyn Write) -> turntree::Result<()> {
        self.finish(out, &mut |out| self.write_unfinished(subject, out))
    }

    /// Finishes what `write` writes after it was scanned for secrets: documents of several lines
    /// become one line each and may be compressed, and a large page is compressed, a shared one encrypted.
    pub(crate) fn finish(
        &self,
        out: &mut dyn Write,
        write: &mut dyn FnMut(&mut dyn Write) -> turntree::Result<()>,
    ) -> turntree::Result<()> {
        if let Some(key) = &self.key {
            let mut page = PageSealer::begin(out, key)?;
            write(&mut page)?;
            return page.finish();
        }
        match self.format {
            ExportFormat::Sft
            | ExportFormat::Dpo
            | ExportFormat::Grpo
            | ExportFormat::Verifiers => {
                let mut lines = |out: &mut dyn Write| write(&mut CompactJson::lines(out));
                if self.compress { compress_stream(out, &mut lines) } else { lines(out) }
            }
            ExportFormat::Html if !self.no_compress => {
                let most_plain = if self.compress { 0 } else { MAX_PLAIN_PAGE };
                let mut page = PageCompressor::new(out, most_plain);
                write(&mut page)?;
                page.finish()
            }
            _ => write(out),
        }
    }

    /// Writes the export before [`ExportRequest::finish`], in lines of a bounded length where
    /// possible.
    pub(crate) fn write_unfinished(
        &self,
        subject: &Subject<'_>,
        out: &mut dyn Write,
    ) -> turntree::Result<()> {
        match self.compact {
            true => self.write_document(subject, &mut CompactJson::new(out)),
            false => self.write_document(subject, out),
        }
    }

    fn write_document(&self, subject: &Subject<'_>, out: &mut dyn Write) -> turntree::Result<()> {
        let (context, commit) = (&subject.context, &subject.commit);
        let steps = Arc::new(Steps::default());
        let unit = if self.format == ExportFormat::Markdown { "turns" } else { "messages" };
        // A page shows its own bar.
        let shows = subject.shows_steps && !self.is_page();
        let _working = shows.then(|| Working::counting("exporting", unit, &steps));
        if let Some(messages) = self.number_of_messages(subject)?.filter(|_| shows) {
            steps.begin(messages);
        }
        let source: &dyn ObjectSource = &CountedBlobs::new(subject.repo, &steps);
        match self.format {
            ExportFormat::Source => export_source(source, context, out)?,
            ExportFormat::SwarmSnapshot => {
                // An imported snapshot has its own creation time; an edited one uses the commit's.
                let edited = !commit.author.agent.starts_with("swarm-");
                let (version, compat) = (self.snapshot_version, Compat::of(self.compat));
                let moment = clock::rfc3339(commit.time);
                let options = SnapshotOptions { version, compat, moment, edited };
                export_snapshot(source, context, &options, out)?;
                0
            }
            ExportFormat::Jsonl => {
                self.check_agent(subject)?;
                export_messages(source, context, &self.agent, &|role| self.is_wanted(role), out)?
            }
            ExportFormat::ContextChef => {
                let mut options = ChefOptions::of(commit);
                if self.sweep {
                    options.swept_at = Some(clock::now()?.micros / 1000);
                }
                export_chef(source, context, &options, out)?;
                0
            }
            ExportFormat::OllmContext => {
                let (facts, compat) =
                    (SnapshotFacts::of(&subject.id, commit), Compat::ollm(self.compat));
                export_context(source, context, &facts, compat, out)?;
                0
            }
            ExportFormat::OllmMode => {
                export_mode(source, context, &TransitionFacts::of(&subject.id, commit), out)?;
                0
            }
            ExportFormat::OllmIntent => {
                export_intent(source, context, self.intent.as_deref(), out)?;
                0
            }
            ExportFormat::OllmState => {
                let text = state_snapshot(source, context)?.to_xml();
                out.write_all(text.as_bytes())
                    .map_err(|error| Error::io("write the text", error))?;
                0
            }
            ExportFormat::Codesign => {
                export_designs(subject.repo, &subject.designs, out)?;
                0
            }
            ExportFormat::CodesignSession => {
                export_chat(subject.repo, &subject.id, out)?;
                0
            }
            ExportFormat::Markdown => {
                export_markdown(subject.repo, &subject.id, &clock::rfc3339, Some(&steps), out)?;
                0
            }
            ExportFormat::Json => {
                let contents =
                    if self.no_content { ContentDetail::Ids } else { ContentDetail::Whole };
                let snapshot = (&subject.id, commit);
                export_document(source, snapshot, context, contents, &clock::rfc3339, out)?;
                0
            }
            ExportFormat::Openai => {
                self.check_agent(subject)?;
                export_openai(source, context, &self.agent, out)?;
                0
            }
            ExportFormat::Anthropic => {
                self.check_agent(subject)?;
                export_anthropic(source, context, &self.agent, out)?;
                0
            }
            ExportFormat::Atif => {
                self.check_agent(subject)?;
                let (agent, show_time) = (self.agent.as_str(), &clock::rfc3339);
                let trajectory = Trajectory { commit, agent, show_time };
                export_atif(source, context, &trajectory, out)?;
                0
            }
            ExportFormat::Html => {
                if let Some(page) = &subject.page {
                    page.write(subject.repo, out)?;
                }
                0
            }
            ExportFormat::Sft
            | ExportFormat::Dpo
            | ExportFormat::Grpo
            | ExportFormat::Verifiers
            | ExportFormat::Inspect => {
                if let (Some(training), Some(format)) = (&subject.training, self.format.training())
                {
                    training.write(subject.repo, format, &clock::rfc3339, out)?;
                }
                0
            }
            ExportFormat::Environment => {
                return Err(Error::invalid(
                    "a task folder is no single file: 'turntree export' writes it",
                ));
            }
        };
        Ok(())
    }

    /// Counts the messages that the export writes, for formats that write them one by one.
    fn number_of_messages(&self, subject: &Subject<'_>) -> turntree::Result<Option<u64>> {
        let (repo, context) = (subject.repo, &subject.context);
        Ok(match self.format {
            ExportFormat::Source => Some(Transcript::open(repo, context)?.len()),
            ExportFormat::Jsonl
            | ExportFormat::Openai
            | ExportFormat::Anthropic
            | ExportFormat::Atif => Some(context.messages(repo, &self.agent)?.len()),
            _ => None,
        })
    }

    /// The revisions by session, with all branches of the session if these are requested.
    fn designs(&self, repo: &Repository) -> Result<Vec<Vec<ObjectId>>> {
        let mut sessions: Vec<(String, Vec<ObjectId>)> = Vec::new();
        for revision in &self.revisions {
            let id = resolve(repo, revision)?.commit;
            let session = repo.commit(&id)?.session;
            match sessions.iter_mut().find(|(name, _)| *name == session) {
                Some((_, tips)) => tips.push(id),
                None => sessions.push((session, vec![id])),
            }
        }
        for (branch, tip) in repo.branches().into_iter().filter(|_| self.branches) {
            let of_session = sessions.iter_mut().find(|(name, _)| name == branch.session());
            of_session.into_iter().for_each(|(_, tips)| tips.push(tip));
        }
        Ok(sessions.into_iter().map(|(_, tips)| tips).collect())
    }

    /// Checks that the snapshot has the requested agent.
    fn check_agent(&self, subject: &Subject<'_>) -> turntree::Result<()> {
        let agents = subject.context.agents(subject.repo)?;
        if self.agent == MAIN_AGENT || agents.contains(&self.agent) {
            return Ok(());
        }
        Err(no_agent(&self.agent, &agents))
    }
}

fn new_page_key() -> turntree::Result<PageKey> {
    let mut random = [0; PAGE_KEY_BYTES];
    getrandom::getrandom(&mut random)
        .map_err(|error| Error::io("make a key", std::io::Error::from(error)))?;
    Ok(PageKey::new(random))
}

fn no_agent(agent: &str, agents: &[String]) -> Error {
    let agents = agents.join(", ");
    Error::not_found(format!("there is no agent '{agent}' in this snapshot: it has {agents}"))
}

fn role(text: &str) -> turntree::Result<(Role, bool)> {
    let (name, is_it) = text.strip_prefix('!').map_or((text, true), |name| (name, false));
    let role = Role::from_name(name);
    match role.name() == name {
        true => Ok((role, is_it)),
        false => Err(Error::invalid(format!(
            "'{text}': expected system, user, assistant, tool or other, or one of these behind a !"
        ))),
    }
}

fn version(text: &str) -> turntree::Result<SnapshotVersion> {
    SnapshotVersion::named(text)
        .ok_or_else(|| Error::invalid(format!("'{text}': expected 1.0.0, 2.0.0 or 2.1.0")))
}
