//! Answers of `generateContent` of Gemini.

use serde_json::{Value, json};

use super::{Reply, Spoken};

/// The signature that the service accepts for a call of another conversation.
const SIGNATURE: &str = "skip_thought_signature_validator";

pub(super) fn write(spoken: &Spoken<'_>, streams: bool, has_events: bool) -> Reply {
    let mut parts = Vec::new();
    if !spoken.text.is_empty() {
        parts.push(json!({"text": spoken.text}));
    }
    for (index, call) in spoken.calls.iter().enumerate() {
        let function = json!({"id": call.id, "name": call.name, "args": call.input});
        parts.push(match index {
            0 => json!({"functionCall": function, "thoughtSignature": SIGNATURE}),
            _ => json!({"functionCall": function}),
        });
    }
    let tokens = spoken.usage;
    let usage = json!({
        "promptTokenCount": tokens.input, "cachedContentTokenCount": tokens.cache_read,
        "candidatesTokenCount": tokens.output.saturating_sub(tokens.reasoning),
        "thoughtsTokenCount": tokens.reasoning,
        "totalTokenCount": tokens.input.saturating_add(tokens.output),
    });
    let content = json!({"role": "model", "parts": parts});
    let whole: Value = json!({
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": usage, "modelVersion": spoken.model, "responseId": spoken.id,
    });
    match (streams, has_events) {
        (false, _) => Reply::document(&whole),
        (true, false) => Reply::document(&json!([whole])),
        (true, true) => Reply::events(&[whole], ""),
    }
}
