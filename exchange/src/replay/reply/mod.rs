//! Answers in the forms of the interfaces, as documents and as streams of events.
//!
//! A stream has each text as one piece: clients join the pieces.

mod chat;
mod gemini;
mod messages;
mod responses;

use serde_json::{Map, Value, json};

use super::recording::{RecordedAnswer, Recording};
use super::request::{Interface, Request};
use crate::insight::usage::TokenUsage;
use crate::model::view::ToolCall;
use crate::render::arguments;

/// The text of an answer to a side request, such as one for a title.
const ASIDE: &str = "Replay of a recorded session";

/// The media types of replies.
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// Bytes of a request per token, for counts.
const BYTES_PER_TOKEN: usize = 4;

/// A reply to a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    /// The media type.
    pub media: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

/// An answer to write, in the current directory.
struct Spoken<'a> {
    /// Distinguishes this answer in ids: letters, digits and `_`.
    id: String,
    model: &'a str,
    text: String,
    calls: Vec<Called>,
    usage: TokenUsage,
}

/// A call to write.
struct Called {
    id: String,
    name: String,
    input: Map<String, Value>,
    /// The input as recorded.
    plain: String,
}

impl Recording {
    /// Writes a recorded answer as the request wants it. Its tokens are the recorded ones.
    #[must_use]
    pub fn reply(
        &self,
        request: &Request,
        answer: &RecordedAnswer,
        number: Option<usize>,
    ) -> Reply {
        let called = |call: &ToolCall| {
            let mut input = Value::Object(arguments(&call.input));
            self.place.move_here(&mut input);
            let input = match input {
                Value::Object(fields) => fields,
                _ => Map::new(),
            };
            let (id, name) = (call.id.clone(), call.name.clone());
            Called { id, name, input, plain: self.place.to_here(&call.input).into_owned() }
        };
        let spoken = Spoken {
            id: format!("{}_{}", self.name, number.unwrap_or_default()),
            model: &request.model,
            text: self.place.to_here(&answer.text).into_owned(),
            calls: answer.calls.iter().map(called).collect(),
            usage: answer.usage.unwrap_or_default(),
        };
        write(request, &spoken)
    }

    /// Writes an answer to a request that is none of the conversation: a short text, or the simplest
    /// value of the schema that it wants.
    #[must_use]
    pub fn reply_aside(&self, request: &Request) -> Reply {
        let text = match &request.schema {
            Some(schema) => simplest(schema, 0).to_string(),
            None => ASIDE.to_owned(),
        };
        let spoken = Spoken {
            id: format!("{}_aside", self.name),
            model: &request.model,
            text,
            calls: Vec::new(),
            usage: TokenUsage::default(),
        };
        write(request, &spoken)
    }
}

impl Reply {
    /// The number of tokens of a request of `bytes`, roughly.
    #[must_use]
    pub fn count(interface: Interface, bytes: usize) -> Self {
        let tokens = bytes / BYTES_PER_TOKEN;
        Self::document(&match interface {
            Interface::Gemini => json!({"totalTokens": tokens}),
            _ => json!({"input_tokens": tokens}),
        })
    }

    fn document(value: &Value) -> Self {
        Self { media: JSON, body: value.to_string().into_bytes() }
    }

    /// Events with their names, as Anthropic and Responses have them.
    fn named_events(events: &[Value]) -> Self {
        let mut body = String::new();
        for event in events {
            let name = event.get("type").and_then(Value::as_str).unwrap_or_default();
            body.push_str(&format!("event: {name}\ndata: {event}\n\n"));
        }
        Self { media: EVENTS, body: body.into_bytes() }
    }

    /// Events without names.
    fn events(events: &[Value], end: &str) -> Self {
        let mut body = String::new();
        for event in events {
            body.push_str(&format!("data: {event}\n\n"));
        }
        body.push_str(end);
        Self { media: EVENTS, body: body.into_bytes() }
    }
}

/// The body of an error that refuses a request, in the form that its interface shows to a user.
#[must_use]
pub fn refusal(interface: Option<Interface>, message: &str) -> Reply {
    Reply::document(&match interface {
        Some(Interface::Gemini) => {
            json!({"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}})
        }
        _ => {
            let error = json!({"type": "invalid_request_error", "message": message});
            json!({"type": "error", "error": error})
        }
    })
}

/// The list of models, for clients that ask for it before they start: empty in every form.
#[must_use]
pub fn models() -> Reply {
    Reply::document(&json!({"object": "list", "data": [], "models": [], "has_more": false}))
}

fn write(request: &Request, spoken: &Spoken<'_>) -> Reply {
    match request.interface {
        Interface::Messages => messages::write(spoken, request.streams),
        Interface::Chat => chat::write(spoken, request.streams, request.wants_usage),
        Interface::Responses => responses::write(spoken, request.streams, &request.tools),
        Interface::Gemini => gemini::write(spoken, request.streams, request.has_events),
    }
}

/// The simplest value of a schema.
fn simplest(schema: &Value, depth: usize) -> Value {
    if let Some(last) = schema.get("enum").and_then(Value::as_array).and_then(|all| all.last()) {
        return last.clone();
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str),
        kind => kind.and_then(Value::as_str),
    };
    match kind.unwrap_or("object").to_ascii_lowercase().as_str() {
        "string" => json!(ASIDE),
        "number" | "integer" => json!(0),
        "boolean" => json!(false),
        "array" => json!([]),
        "null" => Value::Null,
        _ => {
            let fields = schema.get("properties").and_then(Value::as_object);
            let fields = fields.filter(|_| depth < 8).into_iter().flatten();
            fields.map(|(name, inner)| (name.clone(), simplest(inner, depth + 1))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simplest_value_of_a_schema_has_all_of_its_fields() {
        let schema = json!({"type": "object", "properties": {
            "next_speaker": {"type": "string", "enum": ["model", "user"]},
            "score": {"type": ["integer", "null"]}, "list": {"type": "ARRAY"},
            "inner": {"properties": {"is": {"type": "boolean"}}},
        }});
        let expected =
            json!({"next_speaker": "user", "score": 0, "list": [], "inner": {"is": false}});
        assert_eq!(simplest(&schema, 0), expected);
    }
}
