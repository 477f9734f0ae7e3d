//! Which interface a path belongs to, and what a request says.

use std::collections::HashMap;

use serde_json::{Map, Value};
use turntree::context::Role;
use turntree::error::{Error, Result};

use crate::formats::named;
use crate::model::view::{MessageView, ToolCall, ToolResult};
use crate::text::json::{text_at, value};

/// An interface of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interface {
    /// Messages of Anthropic.
    Messages,
    /// Chat completions of OpenAI.
    Chat,
    /// Responses of OpenAI.
    Responses,
    /// `generateContent` of Gemini.
    Gemini,
}

/// What a client wants of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// An answer.
    Answer,
    /// The number of tokens of a request.
    Count,
}

/// An address of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The interface.
    pub interface: Interface,
    /// What is wanted.
    pub purpose: Purpose,
    /// The model and whether to stream, if the address says so.
    model: Option<String>,
    streams: Option<bool>,
    /// Gemini streams a list unless events are wanted.
    has_events: bool,
}

/// A part of a conversation, with the number of its message.
#[derive(Debug)]
pub(super) struct Located {
    pub(super) at: usize,
    pub(super) part: Part,
}

/// A part of a conversation.
#[derive(Debug)]
pub(super) enum Part {
    Prompt(String),
    Said(String),
    Call(ToolCall),
    Result(ToolResult),
}

/// How a call of a tool is written in Responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ToolKind {
    /// With arguments as JSON.
    Function,
    /// With plain text.
    Custom,
    /// With arguments as JSON, in a namespace.
    Inside(String),
    /// An item of a kind of its own, as `local_shell_call`.
    Own,
}

/// A request for an answer.
#[derive(Debug)]
pub struct Request {
    pub(super) interface: Interface,
    pub(super) model: String,
    pub(super) streams: bool,
    pub(super) has_events: bool,
    /// The client wants the tokens at the end of a stream of chat completions.
    pub(super) wants_usage: bool,
    pub(super) parts: Vec<Located>,
    /// The field with the messages.
    pub(super) field: &'static str,
    pub(super) tools: HashMap<String, ToolKind>,
    /// The schema of the answer, if it is a JSON value.
    pub(super) schema: Option<Value>,
}

impl Endpoint {
    /// Returns the endpoint of a path, `None` if it has none.
    #[must_use]
    pub fn of(path: &str, query: Option<&str>) -> Option<Self> {
        let new = |interface, purpose| Self {
            interface,
            purpose,
            model: None,
            streams: None,
            has_events: true,
        };
        let ends = |end: &str| path.ends_with(end);
        if ends("/messages/count_tokens") {
            return Some(new(Interface::Messages, Purpose::Count));
        }
        let known = [
            ("/messages", Interface::Messages),
            ("/chat/completions", Interface::Chat),
            ("/responses", Interface::Responses),
        ];
        if let Some((_, interface)) = known.into_iter().find(|(end, _)| ends(end)) {
            return Some(new(interface, Purpose::Answer));
        }
        let (model, action) = path.rsplit_once('/')?.1.split_once(':')?;
        let streams = match action {
            "generateContent" => Some(false),
            "streamGenerateContent" => Some(true),
            "countTokens" => None,
            _ => return None,
        };
        let purpose = if streams.is_some() { Purpose::Answer } else { Purpose::Count };
        let has_events = query.is_some_and(|query| query.split('&').any(|it| it == "alt=sse"));
        let model = Some(model.to_owned());
        Some(Self { model, streams, has_events, ..new(Interface::Gemini, purpose) })
    }
}

impl Request {
    /// Parses the body of a request.
    ///
    /// # Errors
    /// `InvalidInput` if it is not a request of the interface, or continues a conversation that only
    /// the service has.
    pub fn parse(endpoint: &Endpoint, body: &[u8]) -> Result<Self> {
        let interface = endpoint.interface;
        let not = |expected: &str| Error::invalid(format!("a request: expected {expected}"));
        let body = value(body).filter(Value::is_object).ok_or_else(|| not("a JSON object"))?;
        if let Some(id) = text_at(&body, "/previous_response_id") {
            return Err(Error::invalid(format!(
                "the request continues the response {id}, which is not in it: expected the whole \
                 conversation"
            )));
        }
        let field = match interface {
            Interface::Messages | Interface::Chat => "messages",
            Interface::Responses => "input",
            Interface::Gemini => "contents",
        };
        let parts = match (interface, body.get(field)) {
            (_, Some(Value::Array(messages))) => parts(interface, messages)?,
            (Interface::Responses, Some(Value::String(text))) => {
                vec![Located { at: 0, part: Part::Prompt(text.clone()) }]
            }
            _ => return Err(not(&format!("{field}, an array"))),
        };
        let flag = |path: &str| body.pointer(path).and_then(Value::as_bool).unwrap_or(false);
        Ok(Self {
            interface,
            model: endpoint
                .model
                .as_deref()
                .or(text_at(&body, "/model"))
                .unwrap_or_default()
                .into(),
            streams: endpoint.streams.unwrap_or_else(|| flag("/stream")),
            has_events: endpoint.has_events,
            wants_usage: flag("/stream_options/include_usage"),
            parts,
            field,
            tools: tools(body.get("tools")),
            schema: schema(&body).cloned(),
        })
    }

    /// Returns whether the request lets the model call tools. The requests of an agent do; those for
    /// a title do not.
    pub(super) fn has_tools(&self) -> bool {
        !self.tools.is_empty()
    }
}

/// The tools by their names. Tools without a name are those of the vendor.
fn tools(list: Option<&Value>) -> HashMap<String, ToolKind> {
    let mut tools = HashMap::new();
    let items = |list: Option<&Value>| list.and_then(Value::as_array).cloned().unwrap_or_default();
    for tool in items(list) {
        let kind = text_at(&tool, "/type").unwrap_or("function");
        let name = text_at(&tool, "/name").or_else(|| text_at(&tool, "/function/name"));
        match (kind, name) {
            ("namespace", Some(space)) => {
                for inner in items(tool.get("tools")) {
                    if let Some(name) = text_at(&inner, "/name") {
                        tools.insert(name.to_owned(), ToolKind::Inside(space.to_owned()));
                    }
                }
            }
            ("custom", Some(name)) => drop(tools.insert(name.to_owned(), ToolKind::Custom)),
            (_, Some(name)) => drop(tools.insert(name.to_owned(), ToolKind::Function)),
            (kind, None) => drop(tools.insert(kind.to_owned(), ToolKind::Own)),
        }
        for declared in items(tool.get("functionDeclarations")) {
            if let Some(name) = text_at(&declared, "/name") {
                tools.insert(name.to_owned(), ToolKind::Function);
            }
        }
    }
    tools
}

/// The schema of an answer that is a JSON value.
fn schema(body: &Value) -> Option<&Value> {
    let places = [
        "/generationConfig/responseJsonSchema",
        "/generationConfig/responseSchema",
        "/output_config/format/schema",
        "/output_format/schema",
        "/response_format/json_schema/schema",
        "/text/format/schema",
    ];
    places.into_iter().find_map(|place| body.pointer(place))
}

/// The parts of messages, read by the views of formats.
fn parts(interface: Interface, messages: &[Value]) -> Result<Vec<Located>> {
    let format = match interface {
        Interface::Messages => "anthropic-chat",
        Interface::Chat => "openai-chat",
        Interface::Responses => "codex",
        Interface::Gemini => "gemini-cli",
    };
    let view = named(format)?.view;
    let mut parts = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        for message in of_one_text(interface, message) {
            let view = view(&message);
            let add = |part| parts.push(Located { at, part });
            if view.role == Role::System {
                continue;
            }
            let is_answer = view.role == Role::Assistant || !view.tool_calls.is_empty();
            if is_answer { add_answer(view, add) } else { add_prompt(view, add) }
        }
    }
    Ok(parts)
}

fn add_answer(view: MessageView, mut add: impl FnMut(Part)) {
    if !view.text.trim().is_empty() {
        add(Part::Said(view.text));
    }
    view.tool_calls.into_iter().for_each(|call| add(Part::Call(call)));
}

fn add_prompt(view: MessageView, mut add: impl FnMut(Part)) {
    view.tool_results.into_iter().for_each(|result| add(Part::Result(result)));
    if !view.text.trim().is_empty() {
        add(Part::Prompt(view.text));
    }
}

/// A message as its format records it. One of a user is cut into its blocks, since clients put what
/// they add into blocks of their own.
fn of_one_text(interface: Interface, message: &Value) -> Vec<Value> {
    let is_gemini = interface == Interface::Gemini;
    let field = if is_gemini { "parts" } else { "content" };
    let role = text_at(message, "/role").unwrap_or("user");
    let mut whole = message.clone();
    if let (true, Some(fields)) = (is_gemini, whole.as_object_mut()) {
        let kind = if role == "model" { "gemini" } else { "user" };
        let content = fields.remove(field).unwrap_or_default();
        fields.insert("type".to_owned(), kind.into());
        fields.insert("content".to_owned(), content);
    }
    match whole.get("content") {
        Some(Value::Array(blocks)) if role == "user" && blocks.len() > 1 => {
            let of = |block: &Value| {
                let mut one = message_without_content(&whole);
                one.insert("content".to_owned(), Value::Array(vec![block.clone()]));
                one.into()
            };
            blocks.iter().map(of).collect()
        }
        _ => vec![whole],
    }
}

fn message_without_content(message: &Value) -> Map<String, Value> {
    let fields = message.as_object().into_iter().flatten();
    let others = fields.filter(|(name, _)| *name != "content");
    others.map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_to_interfaces() {
        let of = |path: &str| Endpoint::of(path, None).map(|it| (it.interface, it.purpose));
        let answer = |interface| Some((interface, Purpose::Answer));
        assert_eq!(of("/v1/messages"), answer(Interface::Messages));
        assert_eq!(of("/v1/chat/completions"), answer(Interface::Chat));
        assert_eq!(of("/v1/responses"), answer(Interface::Responses));
        assert_eq!(of("/v1beta/models/g:generateContent"), answer(Interface::Gemini));
        assert_eq!(of("/v1/messages/count_tokens"), Some((Interface::Messages, Purpose::Count)));
        assert_eq!(of("/v1beta/models/g:countTokens"), Some((Interface::Gemini, Purpose::Count)));
        for other in ["/", "", "/v1/models", "/v1/embeddings", "/v1/messages/batches", "a:b"] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn tools_have_the_kinds_of_their_calls() {
        let list = json!([
            {"type": "function", "name": "exec"}, {"type": "custom", "name": "apply_patch"},
            {"type": "local_shell"}, {"type": "function", "function": {"name": "ls"}},
            {"type": "namespace", "name": "mcp__x", "tools": [{"type": "function", "name": "y"}]},
            {"functionDeclarations": [{"name": "read_file"}]}, {"name": "Read", "input_schema": {}},
        ]);
        let tools = tools(Some(&list));
        for (name, kind) in [
            ("exec", ToolKind::Function),
            ("apply_patch", ToolKind::Custom),
            ("local_shell", ToolKind::Own),
            ("ls", ToolKind::Function),
            ("y", ToolKind::Inside("mcp__x".into())),
            ("read_file", ToolKind::Function),
            ("Read", ToolKind::Function),
        ] {
            assert_eq!(tools.get(name), Some(&kind), "{name}");
        }
    }

    turntree_properties::properties! {
        #[test]
        fn any_body_is_a_request_or_an_error(
            body in r#"(\{|\}|\[|\]|"messages"|"role"|"user"|"assistant"|"content"|"tool_calls"|:|,|1|null|"x"){0,24}"#,
        ) {
            for path in ["/messages", "/chat/completions", "/responses", "/m:generateContent"] {
                let endpoint = Endpoint::of(path, None).unwrap();
                drop(Request::parse(&endpoint, body.as_bytes()));
            }
        }
    }
}
