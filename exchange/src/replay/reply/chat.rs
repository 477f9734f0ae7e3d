//! Answers as chat completions of OpenAI.

use serde_json::{Value, json};

use super::{Called, Reply, Spoken};

pub(super) fn write(spoken: &Spoken<'_>, streams: bool, wants_usage: bool) -> Reply {
    let reason = if spoken.calls.is_empty() { "stop" } else { "tool_calls" };
    let tokens = spoken.usage;
    let usage = json!({
        "prompt_tokens": tokens.input, "completion_tokens": tokens.output,
        "total_tokens": tokens.input.saturating_add(tokens.output),
        "prompt_tokens_details": {"cached_tokens": tokens.cache_read},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
    });
    let of_kind = |kind: &str, choices: Value, usage: Option<&Value>| {
        json!({
            "id": format!("chatcmpl-{}", spoken.id), "object": kind, "created": 0,
            "model": spoken.model, "choices": choices, "usage": usage,
        })
    };
    let text = (!spoken.text.is_empty()).then_some(spoken.text.as_str());
    if !streams {
        let calls: Vec<Value> = spoken.calls.iter().map(function).collect();
        let mut message = json!({"role": "assistant", "content": text, "refusal": null});
        if let (false, Some(fields)) = (calls.is_empty(), message.as_object_mut()) {
            fields.insert("tool_calls".to_owned(), calls.into());
        }
        let choice =
            json!({"index": 0, "message": message, "logprobs": null, "finish_reason": reason});
        return Reply::document(&of_kind("chat.completion", json!([choice]), Some(&usage)));
    }
    let chunk = |delta: Value, reason: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        of_kind("chat.completion.chunk", json!([choice]), None)
    };
    let mut events = vec![chunk(json!({"role": "assistant", "content": ""}), None)];
    events.extend(text.map(|text| chunk(json!({"content": text}), None)));
    for (index, call) in spoken.calls.iter().enumerate() {
        let mut call = function(call);
        if let Some(fields) = call.as_object_mut() {
            fields.insert("index".to_owned(), index.into());
        }
        events.push(chunk(json!({"tool_calls": [call]}), None));
    }
    events.push(chunk(json!({}), Some(reason)));
    if wants_usage {
        events.push(of_kind("chat.completion.chunk", json!([]), Some(&usage)));
    }
    Reply::events(&events, "data: [DONE]\n\n")
}

fn function(call: &Called) -> Value {
    let arguments = Value::Object(call.input.clone()).to_string();
    let function = json!({"name": call.name, "arguments": arguments});
    json!({"id": call.id, "type": "function", "function": function})
}
