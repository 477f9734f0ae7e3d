//! The formats of trainers: JSON documents of messages in the form of OpenAI chats.
//!
//! Every message that is not part of a prompt has `train`: true only for an answer that no other
//! document trains on.

use std::collections::BTreeSet;
use std::io::Write;

use serde_json::{Value, json};
use turntree::error::Result;
use turntree::repo::Repository;

use super::spoken::tools;
use super::tree::{Continuation, Fork, shared};
use super::{Track, Training};
use crate::render::chat::Elements;

/// Messages of a conversation in a document.
struct Passage<'a> {
    track: &'a Track,
    line: usize,
    from: usize,
    end: usize,
    /// How many messages at the beginning other documents have trained on. `None` for a prompt.
    trained: Option<usize>,
}

impl Training {
    pub(super) fn write_sft(&self, repo: &Repository, out: &mut dyn Write) -> Result<()> {
        for track in &self.tracks {
            let mut written: Vec<usize> = Vec::new();
            for (place, own) in track.digests.iter().enumerate() {
                if self.container(track, place).is_some() {
                    continue;
                }
                let Some(line) = self.line(track, place) else { continue };
                let known = written.iter().filter_map(|other| track.digests.get(*other));
                let trained = known.map(|known| shared(known, own)).max().unwrap_or(0);
                written.push(place);
                let head = json!({
                    "id": track.id(line), "session": line.session, "commit": line.tip.to_string(),
                    "agent": track.agent, "parent": track.parent_id(line),
                    "passed": line.outcome.passed, "score": line.outcome.score,
                    "reward": line.outcome.reward(self.options.reward),
                });
                let mut names = BTreeSet::new();
                let whole =
                    Passage { track, line: place, from: 0, end: own.len(), trained: Some(trained) };
                self.messages(repo, &whole, &opened(&head, "messages"), &mut names, out)?;
                text(out, &format!("],\n\"tools\": {}}}\n", tools(&names)))?;
            }
        }
        Ok(())
    }

    pub(super) fn write_grpo(&self, repo: &Repository, out: &mut dyn Write) -> Result<()> {
        for track in self.main_tracks() {
            for (number, fork) in track.forks.iter().enumerate() {
                let rewarded = self.rewarded(track, fork);
                if rewarded.len() < 2 {
                    continue;
                }
                let by = if fork.is_by_answer() { "answer" } else { "prompt" };
                let parent = fork.parent.map(|(before, continuation)| {
                    let rollout = rollout_id(track, before, continuation);
                    json!({"fork": fork_id(track, before), "rollout": rollout})
                });
                let head = json!({"id": fork_id(track, number), "session": track.session,
                    "by": by, "parent": parent});
                let mut names = BTreeSet::new();
                let shared = prompt(track, fork);
                self.messages(repo, &shared, &opened(&head, "prompt"), &mut names, out)?;
                text(out, "],\n\"rollouts\": [\n")?;
                for (at, (place, continuation, reward)) in rewarded.iter().enumerate() {
                    let branches = self.names(track, continuation);
                    let own = json!({"id": rollout_id(track, number, *place),
                        "branches": branches, "reward": reward});
                    let passage = passage(track, fork, continuation);
                    self.messages(repo, &passage, &opened(&own, "messages"), &mut names, out)?;
                    text(out, if at + 1 < rewarded.len() { "]},\n" } else { "]}\n" })?;
                }
                text(out, &format!("],\n\"tools\": {}}}\n", tools(&names)))?;
            }
        }
        Ok(())
    }

    pub(super) fn write_dpo(&self, repo: &Repository, out: &mut dyn Write) -> Result<()> {
        for track in self.main_tracks() {
            for (number, fork) in track.forks.iter().enumerate() {
                if !fork.is_by_answer() {
                    continue;
                }
                for (chosen, rejected) in pairs(self.rewarded(track, fork)) {
                    let [one, other] =
                        [&chosen, &rejected].map(|(place, _, _)| rollout_id(track, number, *place));
                    let head = json!({"id": fork_id(track, number), "session": track.session,
                        "chosen_rollout": one, "rejected_rollout": other,
                        "chosen_reward": chosen.2, "rejected_reward": rejected.2});
                    let mut names = BTreeSet::new();
                    let shared = prompt(track, fork);
                    self.messages(repo, &shared, &opened(&head, "prompt"), &mut names, out)?;
                    for (name, (_, continuation, _)) in
                        [("chosen", &chosen), ("rejected", &rejected)]
                    {
                        let head = format!("],\n\"{name}\": [");
                        let passage = passage(track, fork, continuation);
                        self.messages(repo, &passage, &head, &mut names, out)?;
                    }
                    text(out, &format!("],\n\"tools\": {}}}\n", tools(&names)))?;
                }
            }
        }
        Ok(())
    }

    /// The continuations of a fork that have a reward, with their positions.
    fn rewarded<'f>(&self, track: &Track, fork: &'f Fork) -> Vec<Rewarded<'f>> {
        let all = fork.continuations.iter().enumerate();
        all.filter_map(|(place, it)| Some((place, it, self.reward(track, it)?))).collect()
    }

    fn names(&self, track: &Track, continuation: &Continuation) -> Vec<String> {
        let lines = continuation.lines.iter().filter_map(|place| self.line(track, *place));
        lines.map(|line| line.name.clone()).collect()
    }

    /// Writes messages as elements of the array that `head` opens.
    fn messages(
        &self,
        repo: &Repository,
        passage: &Passage<'_>,
        head: &str,
        names: &mut BTreeSet<String>,
        out: &mut dyn Write,
    ) -> Result<()> {
        let mut list = Elements::begin(out, head)?;
        let Some(conversation) = self.conversation(repo, passage.track, passage.line)? else {
            return Ok(());
        };
        let wanted = passage.end.saturating_sub(passage.from);
        for (at, said) in conversation.enumerate().skip(passage.from).take(wanted) {
            let said = said?;
            said.add_tools(names);
            list.add(&match passage.trained {
                Some(trained) => said.sample(said.is_answer() && at >= trained),
                None => said.chat(),
            })?;
        }
        list.end("")
    }
}

/// A continuation with its position and reward.
type Rewarded<'f> = (usize, &'f Continuation, f64);

/// Pairs each of the best continuations with a worse one, and each worse one with one of the best.
fn pairs(mut rewarded: Vec<Rewarded<'_>>) -> Vec<(Rewarded<'_>, Rewarded<'_>)> {
    rewarded.sort_by(|one, other| other.2.total_cmp(&one.2));
    let Some(best) = rewarded.first().map(|it| it.2) else { return Vec::new() };
    let (chosen, rejected): (Vec<_>, Vec<_>) =
        rewarded.into_iter().partition(|it| it.2.total_cmp(&best).is_eq());
    if rejected.is_empty() {
        return Vec::new();
    }
    let number = chosen.len().max(rejected.len());
    let cycled = chosen.iter().cycle().zip(rejected.iter().cycle());
    cycled.take(number).map(|(one, other)| (*one, *other)).collect()
}

fn prompt<'a>(track: &'a Track, fork: &Fork) -> Passage<'a> {
    let line = fork.continuations.first().map_or(0, |first| first.line);
    Passage { track, line, from: 0, end: fork.at, trained: None }
}

fn passage<'a>(track: &'a Track, fork: &Fork, continuation: &Continuation) -> Passage<'a> {
    let Continuation { line, end, .. } = *continuation;
    Passage { track, line, from: fork.at, end, trained: Some(fork.at) }
}

fn rollout_id(track: &Track, fork: usize, continuation: usize) -> String {
    format!("{}.{}", fork_id(track, fork), continuation + 1)
}

fn fork_id(track: &Track, fork: usize) -> String {
    format!("{}#fork-{}", track.session, fork + 1)
}

/// The fields of an object, and the beginning of its array `list`.
pub(super) fn opened(fields: &Value, list: &str) -> String {
    let fields = fields.to_string();
    let fields = fields.strip_suffix('}').unwrap_or(&fields);
    format!("{fields},\n\"{list}\": [")
}

pub(super) fn text(out: &mut dyn Write, text: &str) -> Result<()> {
    let written = out.write_all(text.as_bytes());
    written.map_err(|error| turntree::error::Error::io("write the export", error))
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::fork_of;
    use super::*;

    #[test]
    fn every_continuation_with_another_reward_is_in_a_pair() {
        let all = &fork_of(4).continuations;
        let paired = |rewards: &[f64]| -> Vec<(usize, usize)> {
            let rewarded = all.iter().zip(rewards).enumerate();
            let rewarded = rewarded.map(|(place, (it, reward))| (place, it, *reward)).collect();
            pairs(rewarded).iter().map(|(one, other)| (one.0, other.0)).collect()
        };
        assert_eq!(paired(&[0.0, 1.0, 0.0, 0.0]), [(1, 0), (1, 2), (1, 3)]);
        assert_eq!(paired(&[1.0, 1.0, 0.0, 1.0]), [(0, 2), (1, 2), (3, 2)]);
        assert_eq!(paired(&[1.0, 1.0]), []);
        assert_eq!(paired(&[0.5, 2.0, 1.0]), [(1, 2), (1, 0)]);
        assert_eq!(paired(&[]), []);
    }
}
