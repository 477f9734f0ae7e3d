//! Exports a conversation in the request formats of the OpenAI and Anthropic chat APIs.
//!
//! Omits content that neither API accepts: thinking, whose signatures are not stored, and message
//! ids. `docs/reference/formats/exports.md` specifies the treatment of calls without results.

use std::collections::BTreeSet;
use std::io::Write;

use serde_json::{Map, Value, json};
use turntree::context::Context;
use turntree::error::{Error, Result};
use turntree::object::ObjectSource;

use super::dialogue::{Answer, DialogueCall, DialogueMessage, DialogueText, Messages};
use crate::model::picture::{PICTURE, Picture, PictureContent};
use crate::model::view::ToolResult;
use crate::text::json::value;

/// The result of a call that never got one.
pub(super) const NO_RESULT: &str = "[no result: the tool call was interrupted]";

/// The prefix of a result without its call.
const STRAY_PREFIX: &str = "[result of a tool call that is not here]";

/// The prompt before a conversation that starts with an answer.
pub(super) const FIRST_PROMPT: &str = "[the conversation begins here]";

/// Writes the conversation of `agent` as `{"messages": [...]}` for OpenAI chat completions.
///
/// # Errors
/// `InvalidInput` for an invalid agent name, `Io` if `out` fails, and the errors of reading.
pub fn export_openai(
    source: &dyn ObjectSource,
    context: &Context,
    agent: &str,
    out: &mut dyn Write,
) -> Result<()> {
    let mut list = Elements::begin(out, "{\"messages\": [")?;
    for speech in Messages::of(source, context, agent)? {
        match speech? {
            DialogueMessage::System(said) => {
                list.add(&json!({"role": "system", "content": said.text}))?;
            }
            DialogueMessage::User(said) => openai_message(&mut list, &said)?,
            DialogueMessage::Answer(answer) => {
                openai_answer(&mut list, &answer)?;
                let strays = DialogueText { strays: answer.said.strays, ..DialogueText::default() };
                openai_message(&mut list, &strays)?;
            }
        }
    }
    list.end("]}\n")
}

fn openai_message(list: &mut Elements<'_>, said: &DialogueText) -> Result<()> {
    for stray in &said.strays {
        list.add(&json!({"role": "user", "content": stray_note(stray)}))?;
    }
    match said.text.trim().is_empty() && said.pictures.is_empty() {
        true => Ok(()),
        false => list.add(&json!({"role": "user", "content": openai_content(said)})),
    }
}

/// Returns true for the text of a result without its call.
pub(crate) fn is_stray_note(text: &str) -> bool {
    text.starts_with(STRAY_PREFIX)
}

/// Returns the text for a result without its call.
pub(super) fn stray_note(stray: &ToolResult) -> String {
    format!("{STRAY_PREFIX}\n{}", stray.text)
}

fn openai_answer(list: &mut Elements<'_>, answer: &Answer) -> Result<()> {
    if answer.calls.is_empty() && answer.said.text.is_empty() {
        return Ok(());
    }
    let content = Some(&answer.said.text).filter(|text| !text.is_empty());
    let calls: Vec<Value> = answer.calls.iter().map(openai_call).collect();
    list.add(&match calls.is_empty() {
        true => json!({"role": "assistant", "content": content}),
        false => json!({"role": "assistant", "content": content, "tool_calls": calls}),
    })?;
    let mut shown = Vec::new();
    for call in &answer.calls {
        let text = call.result.as_ref().map_or(NO_RESULT, |result| &result.text);
        list.add(&json!({"role": "tool", "tool_call_id": call.id, "content": text}))?;
        // Results are text only, so their pictures follow in a message after all results.
        let pictures = call.result.iter().flat_map(|result| &result.pictures);
        for picture in pictures.filter_map(openai_picture) {
            let text = format!("[image of the result of {}]", call.id);
            shown.extend([json!({"type": "text", "text": text}), picture]);
        }
    }
    match shown.is_empty() {
        true => Ok(()),
        false => list.add(&json!({"role": "user", "content": shown})),
    }
}

fn openai_call(call: &DialogueCall) -> Value {
    let arguments = Value::Object(arguments(&call.arguments)).to_string();
    let function = json!({"name": call.name, "arguments": arguments});
    json!({"id": call.id, "type": "function", "function": function})
}

fn openai_content(said: &DialogueText) -> Value {
    if !said.pictures.iter().any(|picture| openai_picture(picture).is_some()) {
        return said.text.clone().into();
    }
    let text = |text: &str| json!({"type": "text", "text": text});
    parts(&said.text, &said.pictures, text, openai_picture).into()
}

fn openai_picture(picture: &Picture) -> Option<Value> {
    let url = match &picture.content {
        PictureContent::Inline { media, base64 } => format!("data:{media};base64,{base64}"),
        PictureContent::Address(address) => address.clone(),
    };
    Some(json!({"type": "image_url", "image_url": {"url": url}}))
}

/// Writes the conversation of `agent` as `{"system", "messages", "tools"}` for Anthropic messages.
///
/// # Errors
/// `InvalidInput` for an invalid agent name, `Io` if `out` fails, and the errors of reading.
pub fn export_anthropic(
    source: &dyn ObjectSource,
    context: &Context,
    agent: &str,
    out: &mut dyn Write,
) -> Result<()> {
    let mut system = String::new();
    for speech in Messages::of(source, context, agent)? {
        let DialogueMessage::System(said) = speech? else { break };
        system.push_str(if system.is_empty() { "" } else { "\n\n" });
        system.push_str(&said.text);
    }
    let head = match system.is_empty() {
        true => "{\"messages\": [".to_owned(),
        false => format!("{{\"system\": {},\n\"messages\": [", Value::from(system)),
    };
    let list = Elements::begin(out, &head)?;
    let mut turns = AnthropicMessages { list, held: None, tools: BTreeSet::new() };
    let mut has_begun = false;
    for speech in Messages::of(source, context, agent)? {
        match speech? {
            DialogueMessage::System(_) if !has_begun => {}
            DialogueMessage::System(said) | DialogueMessage::User(said) => {
                has_begun = true;
                turns.add_text(&said)?;
            }
            DialogueMessage::Answer(answer) => {
                if !has_begun {
                    turns.add_content("user", anthropic_content(FIRST_PROMPT, &[]))?;
                }
                has_begun = true;
                turns.add_answer(&answer)?;
                turns.add_text(&DialogueText {
                    strays: answer.said.strays,
                    ..DialogueText::default()
                })?;
            }
        }
    }
    turns.end()
}

/// Writes messages for the Anthropic API, in which roles must alternate.
struct AnthropicMessages<'a> {
    list: Elements<'a>,
    /// The last message, which later content of the same role extends.
    held: Option<(&'static str, Vec<Value>)>,
    tools: BTreeSet<String>,
}

impl AnthropicMessages<'_> {
    fn add_content(&mut self, role: &'static str, mut content: Vec<Value>) -> Result<()> {
        if content.is_empty() {
            return Ok(());
        }
        match &mut self.held {
            Some((held, before)) if *held == role => {
                before.append(&mut content);
                Ok(())
            }
            _ => match self.held.replace((role, content)) {
                Some(held) => self.write(held),
                None => Ok(()),
            },
        }
    }

    fn add_text(&mut self, said: &DialogueText) -> Result<()> {
        for stray in &said.strays {
            self.add_content("user", anthropic_content(&stray_note(stray), &[]))?;
        }
        self.add_content("user", anthropic_content(&said.text, &said.pictures))
    }

    fn add_answer(&mut self, answer: &Answer) -> Result<()> {
        let mut content = anthropic_content(&answer.said.text, &[]);
        let mut results = Vec::new();
        for call in &answer.calls {
            self.tools.insert(call.name.clone());
            let input = arguments(&call.arguments);
            content.push(
                json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input}),
            );
            results.push((call.position, anthropic_result(call)));
        }
        // Clients send results in order of arrival. Missing results come last.
        results.sort_by_key(|(came, _)| (came.is_none(), *came));
        self.add_content("assistant", content)?;
        self.add_content("user", results.into_iter().map(|(_, result)| result).collect())
    }

    fn write(&mut self, (role, content): (&'static str, Vec<Value>)) -> Result<()> {
        self.list.add(&json!({"role": role, "content": content}))
    }

    fn end(mut self) -> Result<()> {
        if let Some((role, mut content)) = self.held.take() {
            if role == "assistant" {
                trim_end(&mut content);
            }
            self.write((role, content))?;
        }
        let tool = |name: &String| json!({"name": name, "input_schema": {"type": "object"}});
        let tools: Vec<Value> = self.tools.iter().map(tool).collect();
        match tools.is_empty() {
            true => self.list.end("]}\n"),
            false => self.list.end(&format!("],\n\"tools\": {}}}\n", Value::from(tools))),
        }
    }
}

/// Trims the end of the last answer. The API rejects a final answer with trailing whitespace.
fn trim_end(content: &mut [Value]) {
    if let Some(text) = content.last_mut().and_then(|block| block.get_mut("text")) {
        *text = text.as_str().unwrap_or_default().trim_end().into();
    }
}

pub(super) fn anthropic_result(call: &DialogueCall) -> Value {
    let (content, is_error) = match &call.result {
        Some(result) => (anthropic_content(&result.text, &result.pictures), result.is_error),
        None => (anthropic_content(NO_RESULT, &[]), true),
    };
    match is_error {
        false => json!({"type": "tool_result", "tool_use_id": call.id, "content": content}),
        true => {
            json!({"type": "tool_result", "tool_use_id": call.id, "content": content, "is_error": true})
        }
    }
}

pub(super) fn anthropic_content(text: &str, pictures: &[Picture]) -> Vec<Value> {
    let text_block = |text: &str| json!({"type": "text", "text": text});
    parts(text, pictures, text_block, anthropic_picture)
}

fn anthropic_picture(picture: &Picture) -> Option<Value> {
    let source = match &picture.content {
        PictureContent::Inline { media, base64 } => {
            json!({"type": "base64", "media_type": media, "data": base64})
        }
        PictureContent::Address(address) => json!({"type": "url", "url": address}),
    };
    Some(json!({"type": "image", "source": source}))
}

/// Splits a text at its pictures. A picture that model APIs or `as_picture` reject remains text.
/// Parts of only whitespace are omitted.
pub(super) fn parts(
    text: &str,
    pictures: &[Picture],
    as_text: impl Fn(&str) -> Value,
    as_picture: impl Fn(&Picture) -> Option<Value>,
) -> Vec<Value> {
    let mut parts = Vec::new();
    let mut rest = (0, text);
    let add_text = |parts: &mut Vec<Value>, text: &str| {
        if !text.trim().is_empty() {
            parts.push(as_text(text));
        }
    };
    for picture in pictures.iter().filter(|picture| picture.is_accepted()) {
        let Some(block) = as_picture(picture) else { continue };
        let Some((before, after)) =
            picture.at.checked_sub(rest.0).and_then(|at| rest.1.split_at_checked(at))
        else {
            continue;
        };
        add_text(&mut parts, before.trim_end_matches('\n'));
        parts.push(block);
        let after = after.strip_prefix(PICTURE).unwrap_or(after);
        let after = after.strip_prefix('\n').unwrap_or(after);
        rest = (text.len() - after.len(), after);
    }
    add_text(&mut parts, rest.1);
    parts
}

/// Returns the arguments of a call as an object, which both APIs require.
pub(crate) fn arguments(input: &str) -> Map<String, Value> {
    match value(input.as_bytes()) {
        Some(Value::Object(fields)) => fields,
        _ if input.trim().is_empty() => Map::new(),
        other => {
            let plain = other.unwrap_or_else(|| input.into());
            Map::from_iter([("input".to_owned(), plain)])
        }
    }
}

/// Writes an array element by element, one per line.
pub(super) struct Elements<'a> {
    out: &'a mut dyn Write,
    is_first: bool,
}

impl<'a> Elements<'a> {
    pub(super) fn begin(out: &'a mut dyn Write, head: &str) -> Result<Self> {
        let mut elements = Self { out, is_first: true };
        elements.text(head)?;
        Ok(elements)
    }

    pub(super) fn add(&mut self, element: &Value) -> Result<()> {
        let separator = if std::mem::take(&mut self.is_first) { "\n" } else { ",\n" };
        self.text(&format!("{separator}{element}"))
    }

    pub(super) fn end(mut self, tail: &str) -> Result<()> {
        self.text("\n")?;
        self.text(tail)
    }

    fn text(&mut self, text: &str) -> Result<()> {
        self.out.write_all(text.as_bytes()).map_err(|error| Error::io("write the export", error))
    }
}
