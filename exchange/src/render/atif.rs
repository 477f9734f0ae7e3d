//! Exports a conversation as an ATIF trajectory: one document with a list of steps.
//!
//! A step that was imported from ATIF is exported unchanged except for its number. Importing the
//! export gives the same messages.

use std::io::Write;

use serde_json::{Map, Value, json};
use turntree::context::sections::META;
use turntree::context::{Context, MessageEntry};
use turntree::error::Result;
use turntree::object::{Commit, Kind, ObjectSource};

use super::ShowTime;
use super::chat::{Elements, arguments};
use super::dialogue::{Answer, DialogueMessage, DialogueText, Messages};
use crate::text::json;

/// The version of the output.
const VERSION: &str = "ATIF-v1.7";

/// The name of the format in entries.
const NAME: &str = "atif";

/// The facts of a trajectory besides its steps.
#[derive(Clone, Copy)]
pub struct Trajectory<'a> {
    /// The snapshot.
    pub commit: &'a Commit,
    /// The agent of the conversation.
    pub agent: &'a str,
    /// Formats times as RFC 3339.
    pub show_time: ShowTime<'a>,
}

/// Writes a conversation as an ATIF trajectory.
///
/// # Errors
/// `InvalidInput` for an invalid agent name, `Io` if `out` fails, and the errors of reading.
pub fn export_atif(
    source: &dyn ObjectSource,
    context: &Context,
    trajectory: &Trajectory<'_>,
    out: &mut dyn Write,
) -> Result<()> {
    let writing = TrajectoryWriter { source, context, trajectory };
    let head = format!(
        "{{\"schema_version\": \"{VERSION}\",\n\"session_id\": {},\n\"agent\": {},\n\"steps\": [",
        writing.fact("session_id")?.unwrap_or_else(|| trajectory.commit.session.clone().into()),
        writing.agent()?,
    );
    let mut list = Elements::begin(out, &head)?;
    let mut number = 0_u64;
    let mut totals = [0_u64; 2];
    for speech in Messages::of(source, context, trajectory.agent)? {
        number += 1;
        let mut step = writing.step(&speech?, &mut totals)?;
        step.insert("step_id".to_owned(), number.into());
        list.add(&Value::Object(step))?;
    }
    let [prompt, completion] = totals;
    let sums = json!({"total_prompt_tokens": prompt, "total_completion_tokens": completion,
        "total_steps": number});
    list.end(&format!("],\n\"final_metrics\": {sums}}}\n"))
}

struct TrajectoryWriter<'a> {
    source: &'a dyn ObjectSource,
    context: &'a Context,
    trajectory: &'a Trajectory<'a>,
}

impl TrajectoryWriter<'_> {
    fn agent(&self) -> Result<Value> {
        let author = &self.trajectory.commit.author;
        let name = self.fact("agent")?.unwrap_or_else(|| named(&author.agent));
        let version = self.fact("version")?.unwrap_or_else(|| "unknown".into());
        let model = self.fact("model")?.unwrap_or_else(|| named(&author.model));
        Ok(json!({"name": name, "version": version, "model_name": model}))
    }

    /// Returns a fact about the session.
    fn fact(&self, key: &str) -> Result<Option<Value>> {
        let meta = self.context.map(self.source, META)?;
        let Some(item) = meta.get(self.source, key.as_bytes())? else { return Ok(None) };
        let bytes = self.source.read_as(Kind::Blob, &item.link.id)?;
        Ok(Some(String::from_utf8_lossy(&bytes).into()))
    }

    fn step(&self, speech: &DialogueMessage, totals: &mut [u64; 2]) -> Result<Map<String, Value>> {
        let (source, said) = match speech {
            DialogueMessage::System(said) => ("system", said),
            DialogueMessage::User(said) => ("user", said),
            DialogueMessage::Answer(answer) => ("agent", &answer.said),
        };
        if let DialogueMessage::Answer(Answer { usage: Some(usage), .. }) = speech {
            totals[0] = totals[0].saturating_add(usage.input);
            totals[1] = totals[1].saturating_add(usage.output);
        }
        if let Some(step) = self.own_step(said)? {
            return Ok(step);
        }
        let mut step = Map::new();
        step.insert("step_id".to_owned(), Value::Null);
        if let Some(time) = said.time {
            step.insert("timestamp".to_owned(), (self.trajectory.show_time)(time).into());
        }
        step.insert("source".to_owned(), source.into());
        step.insert("message".to_owned(), said.text.clone().into());
        match speech {
            DialogueMessage::Answer(answer) => add_answer(&mut step, answer),
            _ => add_strays(&mut step, said),
        }
        Ok(step)
    }

    /// Returns the original step of a message that was imported from ATIF.
    fn own_step(&self, said: &DialogueText) -> Result<Option<Map<String, Value>>> {
        let Some(at) = said.entry else { return Ok(None) };
        let list = self.context.messages(self.source, self.trajectory.agent)?;
        let Some(item) = list.get(self.source, at)? else { return Ok(None) };
        let entry = MessageEntry::from_item(&item)?;
        if entry.media != NAME {
            return Ok(None);
        }
        let bytes = self.source.read_as(Kind::Blob, &entry.blob)?;
        match json::value(&bytes) {
            Some(Value::Object(step)) => Ok(Some(step)),
            _ => Ok(None),
        }
    }
}

/// Adds results to a step as text, because only steps of the agent have observations.
fn add_strays(step: &mut Map<String, Value>, said: &DialogueText) {
    let texts = said.strays.iter().map(|stray| stray.text.as_str()).chain([said.text.as_str()]);
    let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
    step.insert("message".to_owned(), texts.join("\n").into());
}

fn add_answer(step: &mut Map<String, Value>, answer: &Answer) {
    if !answer.thinking.is_empty() {
        step.insert("reasoning_content".to_owned(), answer.thinking.clone().into());
    }
    if !answer.calls.is_empty() {
        let calls = answer.calls.iter().map(|call| {
            json!({"tool_call_id": call.id, "function_name": call.name,
                "arguments": arguments(&call.arguments)})
        });
        step.insert("tool_calls".to_owned(), calls.collect());
    }
    let results = answer.calls.iter().filter_map(|call| {
        let result = call.result.as_ref()?;
        Some(json!({"source_call_id": call.id, "content": result.text}))
    });
    let strays = answer.said.strays.iter().map(|stray| json!({"content": stray.text}));
    let results: Vec<Value> = results.chain(strays).collect();
    if !results.is_empty() {
        step.insert("observation".to_owned(), json!({"results": results}));
    }
    if let Some(usage) = answer.usage {
        let metrics = json!({"prompt_tokens": usage.input, "completion_tokens": usage.output});
        step.insert("metrics".to_owned(), metrics);
    }
}

fn named(name: &str) -> Value {
    if name.is_empty() { "unknown".into() } else { name.into() }
}
