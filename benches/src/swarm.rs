//! Generates a swarm log in the style of SwarmSDK: one event per line, two agents that delegate.

use serde_json::json;

use crate::text::Text;

/// Number of events per step: the answer of the model, a call, its result, sometimes a scratchpad
/// note, and a delegation.
const STEP: usize = 5;

/// Returns a log with `events` events of about 440 bytes each.
#[must_use]
pub fn swarm_log(events: usize) -> Vec<u8> {
    let mut text = Text::new(40);
    let mut log = Vec::new();
    for index in 0..events {
        let (step, agent) =
            (index / STEP, if index / STEP % 4 == 3 { "tester@lead" } else { "lead" });
        let call = format!("call_{step}");
        let path = format!("/srv/app/part_{}.rb", step % 300);
        let event = match index % STEP {
            0 if step % 20 == 0 => {
                json!({"type": "user_prompt", "metadata": {"prompt": text.prose(300)}})
            }
            0 => json!({"type": "context_threshold_hit", "threshold": 60 + 10 * (step % 4)}),
            1 => json!({
                "type": "agent_step", "model": "model-1", "content": text.prose(300),
                "tool_calls": [{"id": call, "name": "Read", "arguments": {"file_path": path}}],
                "finish_reason": "tool_calls",
                "usage": {"input_tokens": index, "output_tokens": 40, "total_tokens": index + 40},
            }),
            2 => json!({
                "type": "tool_call", "tool_call_id": call, "tool": "Read",
                "arguments": {"file_path": path}, "metadata": {},
            }),
            3 => json!({
                "type": "tool_result", "tool_call_id": call, "tool": "Read",
                "result": text.prose(600),
                "metadata": {"read_digest": format!("{index:064x}"), "read_path": path},
            }),
            _ => json!({
                "type": "tool_call", "tool_call_id": format!("{call}-pad"), "tool": "ScratchpadWrite",
                "arguments": {"file_path": format!("notes/{}", step % 50), "content": text.prose(200),
                    "title": "note"},
            }),
        };
        let moment = format!(
            "2026-03-{:02}T{:02}:{:02}:{:02}.{:06}Z",
            1 + index / 86_400,
            index / 3600 % 24,
            index / 60 % 60,
            index % 60,
            index
        );
        let head = format!(
            r#"{{"timestamp":"{moment}","execution_id":"exec_review_1a2b3c4d5e6f7a8b","agent":"{agent}","swarm_id":"main","#
        );
        log.extend_from_slice(head.as_bytes());
        log.extend_from_slice(event.to_string().trim_start_matches('{').as_bytes());
        log.push(b'\n');
    }
    log
}
