//! Turns messages and changed files into steps.

use serde_json::Value;
use turntree::object::{Kind, ObjectId};

use super::AlignedStep;
use super::noise::without_noise;
use crate::model::headline::CallHeadline;
use crate::model::view::{MessageView, ToolCall, ToolResult};

/// Arguments that describe a call for people, or repeat its id.
const REMARKS: [&str; 5] =
    ["description", "explanation", "justification", "tool_call_id", "call_id"];

/// The most files that the label of a step names.
const NAMED_FILES: usize = 3;

/// Reads the steps of a run, message by message.
#[derive(Debug, Default)]
pub(crate) struct StepReader {
    steps: Vec<AlignedStep>,
    /// The steps whose results are missing, with the ids of their calls.
    open: Vec<(String, usize)>,
    /// The step from which on the files of the turn are not known yet.
    turn_begins: usize,
}

impl StepReader {
    /// Adds a message of a turn. `directory` is that of the run.
    pub(crate) fn message(&mut self, turn: u64, message: &MessageView, directory: Option<&str>) {
        for call in &message.tool_calls {
            self.open.push((call.id.clone(), self.steps.len()));
            self.steps.push(step_of(turn, call, directory));
        }
        for result in &message.tool_results {
            let open = self.open.iter();
            let own = open.clone().position(|(id, _)| !id.is_empty() && *id == result.call_id);
            // Without ids, results come in the order of the calls.
            let next = || open.clone().position(|(id, _)| id.is_empty());
            let Some(place) = own.or_else(next) else { continue };
            let (_, step) = self.open.remove(place);
            if let Some(step) = self.steps.get_mut(step) {
                step.result = Some(result_of(result, directory));
            }
        }
    }

    /// Ends a turn, after which the files have the root `files`. `changed` are the files that it
    /// changed, with their new contents.
    pub(crate) fn end_turn(
        &mut self,
        turn: u64,
        files: Option<ObjectId>,
        changed: impl FnOnce() -> turntree::Result<Vec<(String, Option<ObjectId>)>>,
    ) -> turntree::Result<()> {
        let before = self.steps.last().and_then(|step| step.files);
        let calls = self.steps.get_mut(self.turn_begins..).unwrap_or_default();
        if calls.is_empty() {
            let changed = if before == files && before.is_some() { Vec::new() } else { changed()? };
            if !changed.is_empty() {
                self.steps.push(edit_of(turn, files, &changed));
            }
        } else {
            calls.iter_mut().for_each(|step| step.files = files);
        }
        self.turn_begins = self.steps.len();
        Ok(())
    }

    /// The number of steps so far.
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Drops the steps from `length` on: the run went back.
    pub(crate) fn go_back(&mut self, length: usize) {
        self.steps.truncate(length);
        self.open.retain(|(_, step)| *step < length);
        self.turn_begins = self.steps.len();
    }

    /// The steps.
    pub(crate) fn finish(self) -> Vec<AlignedStep> {
        self.steps
    }
}

fn step_of(turn: u64, call: &ToolCall, directory: Option<&str>) -> AlignedStep {
    let headline = CallHeadline::of(&call.name, &call.input);
    let label = CallHeadline::line(&[headline], directory);
    let arguments = match serde_json::from_str::<Value>(&call.input) {
        Ok(mut value) => {
            if let Some(fields) = value.as_object_mut().filter(|fields| fields.len() > 1) {
                fields.retain(|name, _| !REMARKS.contains(&name.as_str()));
            }
            value.sort_all_objects();
            value.to_string()
        }
        Err(_) => call.input.clone(),
    };
    let choice = digest([call.name.as_str(), without_noise(&arguments, directory).as_str()]);
    AlignedStep { turn, label, choice, result: None, files: None }
}

fn result_of(result: &ToolResult, directory: Option<&str>) -> ObjectId {
    let failed = if result.is_error { "failed" } else { "" };
    digest([failed, without_noise(&result.text, directory).as_str()])
}

/// The step of a turn that changed files without a call.
fn edit_of(
    turn: u64,
    files: Option<ObjectId>,
    changed: &[(String, Option<ObjectId>)],
) -> AlignedStep {
    let named: Vec<&str> =
        changed.iter().take(NAMED_FILES).map(|(path, _)| path.as_str()).collect();
    let more = changed.len().saturating_sub(named.len());
    let named = named.join(", ");
    let label = if more > 0 {
        format!("changed {named} and {more} more")
    } else {
        format!("changed {named}")
    };
    let contents: Vec<String> = changed
        .iter()
        .map(|(path, content)| {
            let content = content.map_or_else(|| "deleted".to_owned(), |id| id.to_string());
            format!("{path}\n{content}")
        })
        .collect();
    let choice = digest(contents.iter().map(String::as_str));
    AlignedStep { turn, label, choice, result: None, files }
}

/// A digest of several parts.
fn digest<'p>(parts: impl IntoIterator<Item = &'p str>) -> ObjectId {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    ObjectId::of(Kind::Blob, &bytes)
}
