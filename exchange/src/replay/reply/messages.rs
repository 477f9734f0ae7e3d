//! Answers as messages of Anthropic.

use serde_json::{Value, json};

use super::{Called, Reply, Spoken};

pub(super) fn write(spoken: &Spoken<'_>, streams: bool) -> Reply {
    let reason = if spoken.calls.is_empty() { "end_turn" } else { "tool_use" };
    let tokens = spoken.usage;
    let cached = tokens.cache_read.saturating_add(tokens.cache_write);
    let usage = json!({
        "input_tokens": tokens.input.saturating_sub(cached),
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_read_input_tokens": tokens.cache_read,
        "output_tokens": tokens.output,
    });
    let message = |content: Value, reason: Option<&str>| {
        json!({
            "id": format!("msg_{}", spoken.id), "type": "message", "role": "assistant",
            "model": spoken.model, "content": content, "stop_reason": reason,
            "stop_sequence": null, "usage": usage,
        })
    };
    let text = (!spoken.text.trim().is_empty()).then_some(spoken.text.as_str());
    if !streams {
        let text = text.map(|text| json!({"type": "text", "text": text}));
        let calls = spoken.calls.iter().map(|call| block(call, &Value::Object(call.input.clone())));
        let content: Vec<Value> = text.into_iter().chain(calls).collect();
        return Reply::document(&message(content.into(), Some(reason)));
    }
    let begun = message(json!([]), None);
    let mut events = vec![json!({"type": "message_start", "message": begun})];
    let mut add = |begin: Value, delta: Value| {
        let index = (events.len() - 1) / 3;
        events.extend([
            json!({"type": "content_block_start", "index": index, "content_block": begin}),
            json!({"type": "content_block_delta", "index": index, "delta": delta}),
            json!({"type": "content_block_stop", "index": index}),
        ]);
    };
    if let Some(text) = text {
        add(json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": text}));
    }
    for call in &spoken.calls {
        let input = Value::Object(call.input.clone()).to_string();
        let delta = json!({"type": "input_json_delta", "partial_json": input});
        add(block(call, &json!({})), delta);
    }
    let end = json!({"stop_reason": reason, "stop_sequence": null});
    events.push(json!({"type": "message_delta", "delta": end, "usage": usage}));
    events.push(json!({"type": "message_stop"}));
    Reply::named_events(&events)
}

fn block(call: &Called, input: &Value) -> Value {
    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
}
