//! Finished runs for the readers of `verifiers` and Inspect: each branch is one run, and the branches
//! of a session are a group.

use std::io::Write;

use serde_json::{Map, Value, json};
use turntree::error::Result;
use turntree::repo::Repository;

use super::samples::{opened, text};
use super::spoken::SpokenKind;
use super::{RewardKind, Track, Training, TrainingLine};
use crate::render::ShowTime;
use crate::render::chat::Elements;

/// The version of the traces, and of `verifiers` that reads them.
const TRACE_VERSION: u64 = 1;
const VERIFIERS: &str = "0.4.0";

/// The version of the logs of Inspect.
const LOG_VERSION: u64 = 2;

impl RewardKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Score => "score",
        }
    }
}

impl Training {
    /// Writes an episode per branch, with a trace for each agent.
    pub(super) fn write_verifiers(&self, repo: &Repository, out: &mut dyn Write) -> Result<()> {
        for (number, line) in self.lines.iter().enumerate() {
            if !self.is_run(number) {
                continue;
            }
            let of_line = self.tracks.iter().filter_map(|track| {
                Some((track, track.lines.iter().position(|own| *own == number)?))
            });
            let mut of_line = of_line.peekable();
            let Some((first, place)) = of_line.peek().copied() else { continue };
            let task = self.task(repo, first, place)?;
            let head = json!({"id": id_of(line, "episode"), "env": {"id": "turntree"}, "task": task,
                "group": {"id": line.session}, "ok": true});
            text(out, &opened(&head, "traces"))?;
            let mut is_first = true;
            for (track, place) in of_line {
                text(out, if is_first { "\n" } else { ",\n" })?;
                is_first = false;
                self.trace(repo, line, (track, place), out)?;
            }
            text(out, "]}\n")?;
        }
        Ok(())
    }

    fn trace(
        &self,
        repo: &Repository,
        line: &TrainingLine,
        (track, place): (&Track, usize),
        out: &mut dyn Write,
    ) -> Result<()> {
        let (kind, outcome) = (self.options.reward, &line.outcome);
        let reward = outcome.reward(kind).map(|reward| json!({"score": reward}));
        let mut metrics = Map::new();
        for other in [RewardKind::Check, RewardKind::Score] {
            if let (true, Some(value)) = (other != kind, outcome.reward(other)) {
                metrics.insert(other.name().to_owned(), value.into());
            }
        }
        let head = json!({
            "version": TRACE_VERSION, "id": id_of(line, &track.agent),
            "verifiers": {"version": VERIFIERS}, "task": self.task(repo, track, place)?,
            "agent": {"config": {}, "name": track.agent, "trainable": true},
            "rewards": {kind.name(): reward}, "metrics": metrics,
            "info": {"branch": line.name, "commit": line.tip.to_string(),
                "parent": track.parent_id(line)},
            "is_completed": true, "ok": true, "timing": {"start": 0.0},
        });
        let mut nodes = Elements::begin(out, &opened(&head, "nodes"))?;
        let prompt = track.prompt_len();
        let Some(conversation) = self.conversation(repo, track, place)? else { return Ok(()) };
        for (at, said) in conversation.enumerate() {
            let said = said?;
            let seconds = said.time.map_or(0.0, |time| time.micros as f64 / 1e6);
            nodes.add(&json!({
                "parent": at.checked_sub(1), "message": said.verifiers(),
                "sampled": said.is_answer() && at >= prompt, "timestamp": seconds,
            }))?;
        }
        nodes.end("]}")
    }

    fn task(&self, repo: &Repository, track: &Track, place: usize) -> Result<Value> {
        let prompt = self.first_prompt(repo, track, place)?;
        let data = json!({"name": track.session, "prompt": prompt});
        Ok(json!({"type": "Task", "key": track.session, "data": data}))
    }

    /// The first text of the user.
    fn first_prompt(&self, repo: &Repository, track: &Track, place: usize) -> Result<String> {
        for said in self.conversation(repo, track, place)?.into_iter().flatten() {
            if let SpokenKind::User(text) = said?.kind {
                return Ok(text);
            }
        }
        Ok(String::new())
    }

    /// Writes a log with a sample for each conversation.
    pub(super) fn write_inspect(
        &self,
        repo: &Repository,
        show_time: ShowTime<'_>,
        out: &mut dyn Write,
    ) -> Result<()> {
        let samples: Vec<(&Track, usize, &TrainingLine)> = self
            .tracks
            .iter()
            .flat_map(|track| {
                let places = 0..track.lines.len();
                let is_run = move |place: &usize| {
                    track.lines.get(*place).is_some_and(|line| self.is_run(*line))
                };
                let places = places.filter(is_run);
                places.filter_map(move |place| Some((track, place, self.line(track, place)?)))
            })
            .collect();
        let mut newest = None;
        for line in &self.lines {
            let commit = repo.commit(&line.tip)?;
            if newest.as_ref().is_none_or(|(time, _)| *time < commit.time.micros) {
                newest = Some((commit.time.micros, commit));
            }
        }
        let Some((_, newest)) = newest else {
            return Err(turntree::error::Error::not_found("no branch is left to export"));
        };
        let created = show_time(newest.time);
        let named = |name: &str| if name.is_empty() { "unknown" } else { name }.to_owned();
        let ids: Vec<String> = samples.iter().map(|(track, _, line)| track.id(line)).collect();
        let session = self.lines.first().map_or("", |line| line.session.as_str());
        let rewards: Vec<f64> = samples
            .iter()
            .filter_map(|(_, _, line)| line.outcome.reward(self.options.reward))
            .collect();
        let name = self.options.reward.name();
        let scores: Vec<Value> = match rewards.len() {
            0 => Vec::new(),
            number => {
                let mean = rewards.iter().sum::<f64>() / number as f64;
                vec![json!({"name": name, "scorer": name, "params": {},
                    "scored_samples": number, "unscored_samples": samples.len() - number,
                    "metrics": {"mean": {"name": "mean", "value": mean}}})]
            }
        };
        let eval = json!({
            "eval_id": session, "run_id": session, "created": created, "task": session,
            "task_id": session, "model": named(&newest.author.model), "config": {},
            "dataset": {"name": session, "samples": samples.len(), "sample_ids": ids},
            "metadata": {"exported_by": "turntree"},
        });
        let count = samples.len();
        let results = json!({"total_samples": count, "completed_samples": count, "scores": scores});
        // The reader wants the fields in this order.
        text(
            out,
            &format!(
                "{{\"version\": {LOG_VERSION},\n\"status\": \"success\",\n\"eval\": {eval},\n\
                 \"plan\": {},\n\"results\": {results},\n\"stats\": {},\n\"samples\": [",
                json!({"name": "plan", "steps": []}),
                json!({"started_at": created, "completed_at": created}),
            ),
        )?;
        for (at, (track, place, line)) in samples.iter().enumerate() {
            text(out, if at == 0 { "\n" } else { ",\n" })?;
            self.sample(repo, (track, *place), line, &named(&newest.author.model), out)?;
        }
        text(out, "\n]}\n")
    }

    fn sample(
        &self,
        repo: &Repository,
        (track, place): (&Track, usize),
        line: &TrainingLine,
        model: &str,
        out: &mut dyn Write,
    ) -> Result<()> {
        let head = json!({"id": track.id(line), "epoch": 1,
            "input": self.first_prompt(repo, track, place)?, "target": ""});
        let mut list = Elements::begin(out, &opened(&head, "messages"))?;
        let Some(conversation) = self.conversation(repo, track, place)? else { return Ok(()) };
        let (prompt, mut last) = (track.prompt_len(), None);
        for (at, said) in conversation.enumerate() {
            let said = said?;
            let message = said.inspect(said.is_answer() && at >= prompt);
            list.add(&message)?;
            if said.is_answer() {
                last = Some(said);
            }
        }
        let output = match &last {
            Some(said) => {
                let completion = match &said.kind {
                    SpokenKind::Assistant { text, .. } => text.as_str(),
                    _ => "",
                };
                json!({"model": model, "completion": completion,
                    "choices": [{"message": said.inspect(true), "stop_reason": "stop"}]})
            }
            None => json!({"model": model, "choices": []}),
        };
        let mut scores = Map::new();
        for kind in [RewardKind::Check, RewardKind::Score] {
            if let Some(value) = line.outcome.reward(kind) {
                scores.insert(kind.name().to_owned(), json!({"value": value}));
            }
        }
        let metadata = json!({"session": line.session, "commit": line.tip.to_string(),
            "agent": track.agent, "parent": track.parent_id(line)});
        list.end(&format!(
            "],\n\"output\": {output},\n\"scores\": {},\n\"metadata\": {metadata}}}",
            Value::Object(scores)
        ))
    }
}

/// An id of hexadecimal digits that follows from the snapshot and `part` of it.
fn id_of(line: &TrainingLine, part: &str) -> String {
    let text = format!("{}\n{}\n{part}", line.tip, line.name);
    let id = turntree::object::ObjectId::of(turntree::object::Kind::Blob, text.as_bytes());
    id.to_string().chars().take(32).collect()
}
