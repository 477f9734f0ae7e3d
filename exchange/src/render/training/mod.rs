//! Conversations as data for training and evaluation: branches that start alike are a tree, and
//! every format gets its prompts, its samples and their rewards from that tree.
//!
//! | file | job |
//! |---|---|
//! | `spoken` | the messages of a conversation, and their JSON in each dialect |
//! | `tree` | where the conversations of an agent part |
//! | `samples` | the formats of trainers: `sft`, `dpo`, `grpo` |
//! | `rollouts` | the formats of readers of finished runs: `verifiers`, `inspect` |
//! | `environment` | a task folder: the files around the trees of a start and an end |
//!
//! A document is written with one message per line, so that a scan of the output never needs a whole
//! conversation in memory. The caller compacts documents to one line each.

mod environment;
mod rollouts;
mod samples;
mod spoken;
mod tree;

use std::collections::BTreeSet;
use std::io::Write;

use turntree::context::MAIN_AGENT;
use turntree::error::Result;
use turntree::object::ObjectId;
use turntree::repo::{LogEntry, Repository};

pub use environment::{TaskFile, TaskFolder};
use spoken::Conversation;
use tree::{Fork, MessageDigest, forks};

use super::ShowTime;
use crate::insight::compare::{checks_of, find_fork};

/// The metadata of the last snapshot of a trial that has its score.
const SCORE: &str = "x-score";

/// The format of an export for training or evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrainingFormat {
    /// A conversation per line, each answer trained once.
    Sft,
    /// A preferred and a rejected continuation of one prompt per line.
    Dpo,
    /// A fork with all of its continuations per line.
    Grpo,
    /// Episodes of `verifiers`, one per line.
    Verifiers,
    /// A log of Inspect.
    Inspect,
}

/// Which outcome becomes the reward.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RewardKind {
    /// 1 if all checks passed, 0 if one failed.
    #[default]
    Check,
    /// The number that the check printed.
    Score,
}

/// How a run ended, as far as that is recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RunOutcome {
    /// True if all checks passed, false if one failed. `None` without checks.
    pub passed: Option<bool>,
    /// The number that the check printed.
    pub score: Option<f64>,
}

impl RunOutcome {
    /// Reads the newest results of checks of branches of one session, in their turns since the newest
    /// snapshot that all of them have.
    ///
    /// # Errors
    /// Errors of reading the history.
    pub fn recorded(repo: &Repository, tips: &[ObjectId]) -> Result<Vec<Self>> {
        let lines: Vec<_> = tips.iter().map(|tip| (None, *tip)).collect();
        let fork = if lines.is_empty() { None } else { find_fork(repo, &lines)? };
        let hide: Vec<ObjectId> = fork.into_iter().map(|(id, _)| id).collect();
        tips.iter().map(|tip| Self::since(repo, tip, &hide)).collect()
    }

    fn since(repo: &Repository, tip: &ObjectId, hide: &[ObjectId]) -> Result<Self> {
        let (mut known, mut passed, mut score) = (BTreeSet::new(), None, None);
        // Newest first, so the first result of a check counts.
        for entry in repo.history(&[*tip], hide)?.first_parent() {
            let LogEntry { commit, .. } = entry?;
            for (name, result) in checks_of(&commit) {
                if known.insert(name.to_owned()) {
                    passed = Some(passed.unwrap_or(true) && result);
                }
            }
            let own = commit.metadata.get(SCORE).and_then(|text| text.parse::<f64>().ok());
            score = score.or(own.filter(|score| score.is_finite()));
        }
        Ok(Self { passed, score })
    }

    fn reward(&self, kind: RewardKind) -> Option<f64> {
        match kind {
            RewardKind::Check => self.passed.map(|passed| if passed { 1.0 } else { 0.0 }),
            RewardKind::Score => self.score,
        }
    }
}

/// A branch to export.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingLine {
    /// Its name with its session, or the id of a snapshot.
    pub name: String,
    /// Its session.
    pub session: String,
    /// Its newest snapshot.
    pub tip: ObjectId,
    /// How it ended.
    pub outcome: RunOutcome,
}

/// What to export.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrainingOptions {
    /// The reward.
    pub reward: RewardKind,
    /// Only branches whose checks passed.
    pub passed_only: bool,
    /// The only agent to export; by default all of them where the format has sub-agents.
    pub agent: Option<String>,
}

/// The parts of the history that an export omits, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Continuations of forks without a recorded reward.
    pub without_reward: usize,
    /// Forks at which prompts differ, and not answers.
    pub prompts_differ: usize,
    /// Why the export has no document at all.
    pub empty: Option<NothingFound>,
}

/// Why an export has no document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NothingFound {
    /// Only branches whose checks passed are wanted, and there is none.
    NonePassed,
    /// No branch has a message.
    NoMessages,
    /// The branches do not part, and the format compares continuations.
    NoFork,
}

/// The conversations of some branches, ready to be written.
#[derive(Debug)]
pub struct Training {
    lines: Vec<TrainingLine>,
    options: TrainingOptions,
    tracks: Vec<Track>,
}

/// The conversations of one agent on the branches of one session.
#[derive(Debug)]
struct Track {
    session: String,
    agent: String,
    /// The branches that have the agent.
    lines: Vec<usize>,
    /// The messages of each of these branches.
    digests: Vec<Vec<MessageDigest>>,
    forks: Vec<Fork>,
}

impl Training {
    /// Reads the conversations of branches, and finds where they part. Keeps 16 bytes per message.
    ///
    /// # Errors
    /// Errors of reading, `InvalidInput` for an invalid agent name.
    pub fn of(
        repo: &Repository,
        lines: Vec<TrainingLine>,
        options: TrainingOptions,
    ) -> Result<Self> {
        let is_wanted =
            |line: &TrainingLine| !options.passed_only || line.outcome.passed == Some(true);
        let lines: Vec<TrainingLine> = lines.into_iter().filter(is_wanted).collect();
        let mut tracks: Vec<Track> = Vec::new();
        for (number, line) in lines.iter().enumerate() {
            let context = repo.context(&line.tip)?;
            let agents = match &options.agent {
                Some(agent) => vec![agent.clone()],
                None => {
                    let mut agents = context.agents(repo)?;
                    agents.sort_by_key(|agent| agent != MAIN_AGENT);
                    agents
                }
            };
            for agent in agents {
                let said = Conversation::of(repo, &context, &agent)?;
                let digests =
                    said.map(|said| Ok(MessageDigest::of(&said?))).collect::<Result<Vec<_>>>()?;
                if digests.is_empty() {
                    continue;
                }
                let own = tracks
                    .iter_mut()
                    .find(|track| track.session == line.session && track.agent == agent);
                match own {
                    Some(track) => {
                        track.lines.push(number);
                        track.digests.push(digests);
                    }
                    None => tracks.push(Track {
                        session: line.session.clone(),
                        agent,
                        lines: vec![number],
                        digests: vec![digests],
                        forks: Vec::new(),
                    }),
                }
            }
        }
        for track in &mut tracks {
            track.forks = forks(&track.digests);
        }
        Ok(Self { lines, options, tracks })
    }

    /// Counts what an export in this format leaves out.
    #[must_use]
    pub fn left_out(&self, format: TrainingFormat) -> LeftOut {
        let mut left = LeftOut { empty: self.nothing_found(format), ..LeftOut::default() };
        if !matches!(format, TrainingFormat::Dpo | TrainingFormat::Grpo) {
            return left;
        }
        for track in self.main_tracks() {
            for fork in &track.forks {
                let rewards = fork.continuations.iter().map(|it| self.reward(track, it));
                left.without_reward += rewards.filter(Option::is_none).count();
                let is_prompt = format == TrainingFormat::Dpo && !fork.is_by_answer();
                left.prompts_differ += usize::from(is_prompt);
            }
        }
        left
    }

    fn nothing_found(&self, format: TrainingFormat) -> Option<NothingFound> {
        let compares = matches!(format, TrainingFormat::Dpo | TrainingFormat::Grpo);
        match (self.lines.is_empty(), self.tracks.is_empty()) {
            (true, _) if self.options.passed_only => Some(NothingFound::NonePassed),
            (_, true) => Some(NothingFound::NoMessages),
            _ if compares && self.main_tracks().all(|track| track.forks.is_empty()) => {
                Some(NothingFound::NoFork)
            }
            _ => None,
        }
    }

    /// Writes the export. Each document has one message per line, and a line end after it.
    ///
    /// # Errors
    /// `Io` if `out` fails, and the errors of reading.
    pub fn write(
        &self,
        repo: &Repository,
        format: TrainingFormat,
        show_time: ShowTime<'_>,
        out: &mut dyn Write,
    ) -> Result<()> {
        match format {
            TrainingFormat::Sft => self.write_sft(repo, out),
            TrainingFormat::Dpo => self.write_dpo(repo, out),
            TrainingFormat::Grpo => self.write_grpo(repo, out),
            TrainingFormat::Verifiers => self.write_verifiers(repo, out),
            TrainingFormat::Inspect => self.write_inspect(repo, show_time, out),
        }
    }

    /// The tracks whose forks are compared: those of main agents, or of the only wanted agent.
    fn main_tracks(&self) -> impl Iterator<Item = &Track> {
        let wanted = self.options.agent.as_deref().unwrap_or(MAIN_AGENT);
        self.tracks.iter().filter(move |track| track.agent == wanted)
    }

    fn line(&self, track: &Track, place: usize) -> Option<&TrainingLine> {
        self.lines.get(*track.lines.get(place)?)
    }

    /// The reward of a continuation: the mean of the branches that end in it.
    fn reward(&self, track: &Track, continuation: &tree::Continuation) -> Option<f64> {
        let lines = continuation.lines.iter().filter_map(|place| self.line(track, *place));
        let rewards: Vec<f64> =
            lines.filter_map(|line| line.outcome.reward(self.options.reward)).collect();
        (!rewards.is_empty()).then(|| rewards.iter().sum::<f64>() / rewards.len() as f64)
    }

    /// A conversation that has all messages of this one: a longer one, or an equal one that counts
    /// instead, because it has an outcome or comes first.
    fn container<'a>(&self, track: &'a Track, place: usize) -> Option<&'a [MessageDigest]> {
        let own = track.digests.get(place)?;
        let rank = |place: usize| {
            let outcome = self.line(track, place).map(|line| line.outcome);
            (outcome.is_none_or(|outcome| outcome == RunOutcome::default()), place)
        };
        let found = track.digests.iter().enumerate().find(|(other, theirs)| {
            theirs.starts_with(own) && (theirs.len() > own.len() || rank(*other) < rank(place))
        });
        found.map(|(_, theirs)| theirs.as_slice())
    }

    /// Returns true if a branch is a run of its own: its conversation is not only the beginning of
    /// another, or it has an outcome.
    fn is_run(&self, number: usize) -> bool {
        self.tracks.iter().any(|track| {
            let Some(place) = track.lines.iter().position(|line| *line == number) else {
                return false;
            };
            let own = track.digests.get(place).map_or(0, Vec::len);
            let has_outcome =
                self.line(track, place).is_some_and(|line| line.outcome != RunOutcome::default());
            match self.container(track, place) {
                None => true,
                Some(container) => container.len() > own && has_outcome,
            }
        })
    }

    /// The conversation of a branch.
    fn conversation<'r>(
        &self,
        repo: &'r Repository,
        track: &Track,
        place: usize,
    ) -> Result<Option<Conversation<'r>>> {
        let Some(line) = self.line(track, place) else { return Ok(None) };
        Conversation::of(repo, &repo.context(&line.tip)?, &track.agent).map(Some)
    }
}

impl Track {
    /// The id of the conversation on a branch.
    fn id(&self, line: &TrainingLine) -> String {
        match self.agent.as_str() {
            MAIN_AGENT => line.name.clone(),
            agent => format!("{}#{agent}", line.name),
        }
    }

    /// The id of the conversation whose agent called this one: `x@y` was called by `y`.
    fn parent_id(&self, line: &TrainingLine) -> Option<String> {
        if self.agent == MAIN_AGENT {
            return None;
        }
        let caller = self.agent.split_once('@').map_or(MAIN_AGENT, |(_, caller)| caller);
        Some(match caller {
            MAIN_AGENT => line.name.clone(),
            caller => format!("{}#{caller}", line.name),
        })
    }

    /// The number of messages that all branches share: the prompt of their group. Without forks, all
    /// before the first answer.
    fn prompt_len(&self) -> usize {
        if let Some(fork) = self.forks.first() {
            return fork.at;
        }
        let first = self.digests.first().map(Vec::as_slice).unwrap_or_default();
        first.iter().position(MessageDigest::is_answer).unwrap_or(first.len())
    }
}
