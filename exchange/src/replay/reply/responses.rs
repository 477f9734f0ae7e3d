//! Answers as responses of OpenAI.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{Called, Reply, Spoken};
use crate::replay::request::ToolKind;

pub(super) fn write(
    spoken: &Spoken<'_>,
    streams: bool,
    tools: &HashMap<String, ToolKind>,
) -> Reply {
    let tokens = spoken.usage;
    let usage = json!({
        "input_tokens": tokens.input,
        "input_tokens_details": {"cached_tokens": tokens.cache_read},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.input.saturating_add(tokens.output),
    });
    let mut items = Vec::new();
    if !spoken.text.trim().is_empty() {
        let said = json!({"type": "output_text", "text": spoken.text, "annotations": []});
        items.push(json!({
            "type": "message", "id": format!("msg_{}", spoken.id), "role": "assistant",
            "status": "completed", "content": [said],
        }));
    }
    for (index, call) in spoken.calls.iter().enumerate() {
        items.push(item(call, &format!("{}_{index}", spoken.id), tools.get(&call.name)));
    }
    let response = |status: &str, output: &[Value], usage: Option<&Value>| {
        json!({
            "id": format!("resp_{}", spoken.id), "object": "response", "created_at": 0,
            "status": status, "model": spoken.model, "output": output, "usage": usage,
            "error": null, "incomplete_details": null, "metadata": {},
        })
    };
    let whole = response("completed", &items, Some(&usage));
    if !streams {
        return Reply::document(&whole);
    }
    let begun = response("in_progress", &[], None);
    let mut events = vec![
        json!({"type": "response.created", "response": begun}),
        json!({"type": "response.in_progress", "response": begun}),
    ];
    for (index, item) in items.iter().enumerate() {
        add_item(&mut events, index, item);
    }
    events.push(json!({"type": "response.completed", "response": whole}));
    for (number, event) in events.iter_mut().enumerate() {
        if let Some(fields) = event.as_object_mut() {
            fields.insert("sequence_number".to_owned(), number.into());
        }
    }
    Reply::named_events(&events)
}

/// Adds the events of an item: its start, its text or arguments, and its end.
fn add_item(events: &mut Vec<Value>, index: usize, item: &Value) {
    let field = |name: &str| item.get(name).cloned().unwrap_or_default();
    let mut begun = item.clone();
    let emptied = [("content", json!([])), ("arguments", json!("")), ("input", json!(""))];
    for (name, empty) in emptied {
        if let Some(value) =
            begun.get_mut(name).filter(|value| value.is_array() || value.is_string())
        {
            *value = empty;
        }
    }
    events
        .push(json!({"type": "response.output_item.added", "output_index": index, "item": begun}));
    let part = json!({"item_id": field("id"), "output_index": index});
    let mut add = |kind: &str, more: Value| {
        let mut event = part.clone();
        if let (Some(fields), Value::Object(more)) = (event.as_object_mut(), more) {
            fields.insert("type".to_owned(), kind.into());
            fields.extend(more);
        }
        events.push(event);
    };
    match item.get("type").and_then(Value::as_str).unwrap_or_default() {
        "message" => {
            let said = item.pointer("/content/0").cloned().unwrap_or_default();
            let text = said.get("text").cloned().unwrap_or_default();
            let empty = json!({"type": "output_text", "text": "", "annotations": []});
            add("response.content_part.added", json!({"content_index": 0, "part": empty}));
            add("response.output_text.delta", json!({"content_index": 0, "delta": text}));
            add("response.output_text.done", json!({"content_index": 0, "text": text}));
            add("response.content_part.done", json!({"content_index": 0, "part": said}));
        }
        "function_call" => {
            let arguments = field("arguments");
            add("response.function_call_arguments.delta", json!({"delta": arguments}));
            add("response.function_call_arguments.done", json!({"arguments": arguments}));
        }
        "custom_tool_call" => {
            let input = field("input");
            add("response.custom_tool_call_input.delta", json!({"delta": input}));
            add("response.custom_tool_call_input.done", json!({"input": input}));
        }
        _ => {}
    }
    events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
}

/// The item of a call, of the kind that the request declares. A tool that it does not declare has
/// plain text if the recorded input is no object.
fn item(call: &Called, id: &str, kind: Option<&ToolKind>) -> Value {
    let is_object = call.plain.trim_start().starts_with('{') || call.plain.trim().is_empty();
    let kind = kind.unwrap_or(if is_object { &ToolKind::Function } else { &ToolKind::Custom });
    let arguments = || Value::Object(call.input.clone());
    let mut item = match kind {
        ToolKind::Function => json!({
            "type": "function_call", "id": format!("fc_{id}"), "name": call.name,
            "arguments": arguments().to_string(),
        }),
        ToolKind::Inside(space) => json!({
            "type": "function_call", "id": format!("fc_{id}"), "name": call.name,
            "namespace": space, "arguments": arguments().to_string(),
        }),
        ToolKind::Custom => json!({
            "type": "custom_tool_call", "id": format!("ctc_{id}"), "name": call.name,
            "input": call.plain,
        }),
        ToolKind::Own if call.name == "local_shell" => json!({
            "type": "local_shell_call", "id": format!("lsh_{id}"), "action": arguments(),
        }),
        ToolKind::Own => json!({
            "type": format!("{}_call", call.name), "id": format!("call_{id}"),
            "execution": "client", "arguments": arguments(),
        }),
    };
    if let Some(fields) = item.as_object_mut() {
        fields.insert("call_id".to_owned(), call.id.clone().into());
        fields.insert("status".to_owned(), "completed".into());
    }
    item
}
