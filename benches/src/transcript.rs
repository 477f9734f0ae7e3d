//! Generates a log in the style of Claude Code: one JSON object per line, each with one content
//! block.

use serde_json::{Value, json};

use crate::text::Text;

/// Number of lines per turn: a prompt or text of the model, a tool call, its result, an answer.
const LINES_IN_TURN: usize = 4;

/// Returns a log with `messages` messages of about 1.7 KB each.
#[must_use]
pub fn claude_code(messages: usize) -> Vec<u8> {
    let mut text = Text::new(30);
    let mut log = Vec::new();
    let mut parent = Value::Null;
    for index in 0..messages {
        let id = format!("{index:08x}-0000-4000-8000-{:012x}", text.below(1 << 48));
        let mut line = record(&mut text, index);
        let moment = format!(
            "2026-01-{:02}T{:02}:{:02}:00.000Z",
            1 + index / 1440,
            index / 60 % 24,
            index % 60
        );
        let envelope = json!({
            "uuid": id,
            "parentUuid": std::mem::replace(&mut parent, json!(id)),
            "sessionId": "5e551010-0000-4000-8000-000000000000",
            "cwd": "/srv/project",
            "version": "2.1.34",
            "isSidechain": false,
            "timestamp": moment,
        });
        if let (Value::Object(line), Value::Object(envelope)) = (&mut line, envelope) {
            line.extend(envelope);
        }
        log.extend_from_slice(line.to_string().as_bytes());
        log.push(b'\n');
    }
    log
}

fn record(text: &mut Text, index: usize) -> Value {
    let turn = index / LINES_IN_TURN;
    let call = format!("toolu_{turn:024}");
    let assistant = |reply: usize, block: Value| {
        let id = format!("msg_{turn:08}{reply:016}");
        let usage = json!({ "input_tokens": 3, "output_tokens": index });
        json!({ "type": "assistant", "message": {
            "id": id, "type": "message", "role": "assistant", "model": "model-1",
            "content": [block], "stop_reason": null, "usage": usage,
        }})
    };
    match index % LINES_IN_TURN {
        0 => json!({ "type": "user", "message": { "role": "user", "content": text.prose(600) } }),
        1 => {
            let input = json!({ "command": text.prose(300), "description": text.prose(40) });
            assistant(0, json!({ "type": "tool_use", "id": call, "name": "Bash", "input": input }))
        }
        2 => {
            let bytes = text.skewed(200, 12_000);
            let content = text.prose(bytes);
            let block = json!({ "type": "tool_result", "tool_use_id": call, "content": content });
            json!({ "type": "user", "message": { "role": "user", "content": [block] },
                "toolUseResult": { "stdout": content, "stderr": "", "interrupted": false } })
        }
        _ => assistant(1, json!({ "type": "text", "text": text.prose(900) })),
    }
}
