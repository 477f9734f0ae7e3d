//! The view of a message: the speaker, the text, tool calls and their results.
//!
//! Most formats write content as blocks like the Anthropic or the OpenAI API, with different names
//! for the same data. [`MessageView::add_content`] knows all of them, so a format only specifies
//! where its content is.

use serde_json::Value;
use turntree::context::Role;
use turntree::object::Time;

use super::event::{Content, MessageEvent};
use super::headline::{CallHeadline, Headline};
use super::picture::{PICTURE, Picture};
use super::words::{UserWords, first_line, first_sentence, user_words};

/// Fields in the results of vendor tools, in display order.
const RESULT_FIELDS: [&str; 5] = ["title", "url", "stdout", "stderr", "error_code"];

/// The view of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageView {
    /// The speaker.
    pub role: Role,
    /// True for a message of the user that the client wrote: a summary, a skill, a reminder.
    pub is_added: bool,
    /// The id of the message in its format.
    pub id: Option<String>,
    /// The text, with paragraphs separated by line ends. Images are `[image]`.
    pub text: String,
    /// The text that a person typed, if the client added text around it.
    pub typed: Option<String>,
    /// Pictures with recorded bytes or URL.
    pub pictures: Vec<Picture>,
    /// The readable thinking of the model.
    pub thinking: String,
    /// True if there is thinking, including encrypted thinking.
    pub has_thoughts: bool,
    /// True if there is content of a known kind, even if it is empty.
    pub has_content: bool,
    /// The tool calls of the model.
    pub tool_calls: Vec<ToolCall>,
    /// The results of earlier tool calls.
    pub tool_results: Vec<ToolResult>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The id that pairs the call with its result. Empty if the format has none.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments: JSON text, or plain text for tools that accept it.
    pub input: String,
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The id of the call.
    pub call_id: String,
    /// The output of the tool.
    pub text: String,
    /// Pictures in the output, as in a message.
    pub pictures: Vec<Picture>,
    /// True if the tool failed.
    pub is_error: bool,
}

impl MessageView {
    /// Creates an empty message of `role`.
    #[must_use]
    pub fn new(role: Role) -> Self {
        Self {
            role,
            is_added: false,
            id: None,
            text: String::new(),
            typed: None,
            pictures: Vec::new(),
            thinking: String::new(),
            has_thoughts: false,
            has_content: false,
            tool_calls: Vec::new(),
            tool_results: Vec::new(),
        }
    }

    /// Returns the view of bytes that no format parses: the bytes as text.
    #[must_use]
    pub fn unreadable(bytes: &[u8]) -> Self {
        let mut view = Self::new(Role::Other);
        view.text = String::from_utf8_lossy(bytes).into_owned();
        view
    }

    /// Returns the headline of the message.
    #[must_use]
    pub fn headline(&self) -> Headline {
        let said = !self.text.trim().is_empty();
        match self.role {
            Role::User if said => match user_words(self.typed.as_ref().unwrap_or(&self.text)) {
                UserWords::Prompt(line) if self.is_added => return Headline::Note(line),
                UserWords::Prompt(line) => return Headline::Prompt(line),
                UserWords::Aside(line) => return Headline::Aside(line),
                UserWords::Added(line) => return Headline::Note(line),
            },
            Role::Assistant if said => return Headline::Answer(first_sentence(&self.text)),
            _ => {}
        }
        if !self.tool_calls.is_empty() {
            let calls = self.tool_calls.iter();
            let calls = calls.map(|call| CallHeadline::of(&call.name, &call.input));
            return Headline::Calls(calls.collect());
        }
        if self.role == Role::Tool || !self.tool_results.is_empty() {
            let texts = self.tool_results.iter().map(|result| result.text.as_str());
            let mut lines = texts.chain([self.text.as_str()]).map(first_line);
            return Headline::Results(lines.find(|line| !line.is_empty()).unwrap_or_default());
        }
        match user_words(&self.text) {
            UserWords::Prompt(line) | UserWords::Aside(line) | UserWords::Added(line)
                if !line.is_empty() =>
            {
                Headline::Note(line)
            }
            _ if self.has_thoughts || self.has_content => {
                Headline::Thinking(first_line(&self.thinking))
            }
            _ => Headline::Nothing,
        }
    }

    /// Returns true if the message is a prompt of a person.
    pub(crate) fn is_prompt(&self) -> bool {
        matches!(self.headline(), Headline::Prompt(_))
    }

    /// Returns one line: the first line or sentence of the text, else the calls with their main
    /// arguments, else the first line of a result, else of the thinking, else `[no text]`.
    #[must_use]
    pub fn summary(&self) -> String {
        let line = self.headline().line();
        if line.is_empty() { "[no text]".to_owned() } else { line }
    }

    /// Returns the event of this message in the conversation of `agent`.
    pub(crate) fn event(
        &self,
        agent: &str,
        content: Content,
        time: Option<Time>,
        model: Option<&str>,
    ) -> MessageEvent {
        MessageEvent {
            agent: agent.to_owned(),
            role: self.role,
            content,
            time,
            model: model.map(str::to_owned),
            headline: self.headline(),
        }
    }

    /// Adds `content`: text, a block, or a list of blocks.
    pub(crate) fn add_content(&mut self, content: &Value) {
        match content {
            Value::String(text) => {
                self.has_content = true;
                self.add_text(text);
            }
            Value::Array(blocks) => blocks.iter().for_each(|block| self.add_content(block)),
            Value::Object(_) => self.add_block(content),
            _ => {}
        }
    }

    /// Adds a paragraph.
    pub(crate) fn add_text(&mut self, text: &str) {
        add_paragraph(&mut self.text, text);
    }

    /// Adds the placeholder of a picture, and the picture if the block has its bytes or URL.
    pub(crate) fn add_picture(&mut self, block: &Value) {
        self.add_text(PICTURE);
        let at = self.text.len().saturating_sub(PICTURE.len());
        self.pictures.extend(Picture::of(block, at));
    }

    /// Adds a paragraph of thinking.
    pub(crate) fn add_thinking(&mut self, text: &str) {
        self.has_thoughts = true;
        add_paragraph(&mut self.thinking, text);
    }

    /// Adds a call of the tool `name`.
    pub(crate) fn add_call(
        &mut self,
        id: Option<&Value>,
        name: Option<&Value>,
        input: Option<&Value>,
    ) {
        self.tool_calls.push(ToolCall { id: plain(id), name: plain(name), input: plain(input) });
    }

    /// Adds the result of the call `id`.
    pub(crate) fn add_result(&mut self, id: Option<&Value>, content: &Value, is_error: bool) {
        let mut inner = Self::new(Role::Tool);
        inner.add_content(content);
        self.push_result(id, inner, is_error);
    }

    /// Adds a result of the call `id` with the text and pictures of `said`.
    pub(crate) fn push_result(&mut self, id: Option<&Value>, said: Self, is_error: bool) {
        let Self { text, pictures, .. } = said;
        self.tool_results.push(ToolResult { call_id: plain(id), text, pictures, is_error });
    }

    /// Adds calls in the form of the OpenAI API: `[{id, function: {name, arguments}}]`, or with
    /// name and arguments next to the id.
    pub(crate) fn add_tool_calls(&mut self, calls: Option<&Value>) {
        for call in calls.and_then(Value::as_array).into_iter().flatten() {
            let function = call.get("function").unwrap_or(call);
            self.add_call(call.get("id"), function.get("name"), function.get("arguments"));
        }
    }

    /// Adds the fields of a result without text: of a search, a fetch, or a code execution.
    fn add_fields(&mut self, content: &Value) {
        match content {
            Value::Array(parts) => parts.iter().for_each(|part| self.add_fields(part)),
            Value::Object(_) => {
                for name in RESULT_FIELDS {
                    self.add_text(content.get(name).and_then(Value::as_str).unwrap_or_default());
                }
            }
            _ => {}
        }
    }

    fn add_block(&mut self, block: &Value) {
        let text = |name| block.get(name).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "thinking" => self.add_thinking(text("thinking")),
            "reasoning" => self.add_thinking(text("text")),
            "redacted_thinking" => self.has_thoughts = true,
            "tool_use" | "server_tool_use" | "mcp_tool_use" => {
                self.add_call(block.get("id"), block.get("name"), block.get("input"));
            }
            "toolCall" => {
                self.add_call(block.get("id"), block.get("name"), block.get("arguments"));
            }
            kind if is_result(kind) => {
                let content = block.get("content").unwrap_or(&Value::Null);
                let is_error = block.get("is_error").and_then(Value::as_bool);
                let is_error = is_error.unwrap_or_else(|| has_failed(content));
                let mut inner = Self::new(Role::Tool);
                inner.add_content(content);
                if inner.text.is_empty() && kind != "tool_result" {
                    inner.add_fields(content);
                }
                self.push_result(block.get("tool_use_id"), inner, is_error);
            }
            "image" | "image_url" | "input_image" => {
                self.add_picture(block);
            }
            "document" | "file" | "input_file" => self.add_text("[document]"),
            "refusal" => self.add_text(text("refusal")),
            _ => {
                let said =
                    ["text", "content", "result"].into_iter().find_map(|name| block.get(name));
                self.add_content(said.unwrap_or(&Value::Null));
            }
        }
    }
}

/// Returns true if a block is the result of a call: of a client tool, or of a vendor tool, such as
/// `web_search_tool_result`, `advisor_tool_result` and `mcp_tool_result`.
fn is_result(kind: &str) -> bool {
    kind == "tool_result" || kind.ends_with("_tool_result")
}

/// Returns true if the content of a result is an error of a vendor tool.
fn has_failed(content: &Value) -> bool {
    let kind = content.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| kind.ends_with("_tool_result_error"))
}

fn add_paragraph(to: &mut String, text: &str) {
    if text.is_empty() {
        return;
    }
    if !to.is_empty() && !to.ends_with('\n') {
        to.push('\n');
    }
    to.push_str(text);
}

/// Returns `value` as text: a string as it is, other values as JSON.
fn plain(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn view_of(content: &Value) -> MessageView {
        let mut view = MessageView::new(Role::Assistant);
        view.add_content(content);
        view
    }

    #[test]
    fn blocks_of_every_api_become_text_calls_and_results() {
        let view = view_of(&json!([
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "one"},
            {"type": "output_text", "text": "two"},
            {"type": "image", "source": {}},
            {"type": "tool_use", "id": "1", "name": "Read", "input": {"path": "a"}},
            {"type": "toolCall", "id": "2", "name": "bash", "arguments": {"command": "ls"}},
            {"type": "tool_result", "tool_use_id": "1", "is_error": true,
             "content": [{"type": "text", "text": "no"}, {"type": "text", "text": "file"}]},
            17,
        ]));
        assert_eq!((view.text.as_str(), view.thinking.as_str()), ("one\ntwo\n[image]", "hm"));
        assert_eq!(view.tool_calls[0].input, r#"{"path":"a"}"#);
        assert_eq!(view.tool_calls[1].name, "bash");
        let (call_id, text) = ("1".into(), "no\nfile".into());
        let result = ToolResult { call_id, text, pictures: Vec::new(), is_error: true };
        assert_eq!(view.tool_results, [result]);
    }

    #[test]
    fn vendor_tool_results_belong_to_their_calls() {
        let result = |kind: &str, content: &Value| {
            let block = json!({"type": kind, "tool_use_id": "s", "content": content});
            let mut view = view_of(&json!([block]));
            let result = view.tool_results.pop().unwrap();
            assert_eq!((view.text.as_str(), result.call_id.as_str()), ("", "s"), "{kind}");
            (result.text, result.is_error)
        };
        let told = |text: &str| (text.to_owned(), false);
        let advice = json!({"type": "advisor_result", "text": "Go north."});
        assert_eq!(result("advisor_tool_result", &advice), told("Go north."));
        let text = json!([{"type": "text", "text": "done"}]);
        assert_eq!(result("mcp_tool_result", &text), told("done"));
        let found = json!([{"type": "web_search_result", "title": "T", "url": "https://t"}]);
        assert_eq!(result("web_search_tool_result", &found), told("T\nhttps://t"));
        let output = json!({"type": "bash_code_execution_result", "stdout": "out", "stderr": "err",
            "return_code": 0});
        assert_eq!(result("bash_code_execution_tool_result", &output), told("out\nerr"));
        let failed = json!({"type": "web_search_tool_result_error", "error_code": "unavailable"});
        let expected = ("unavailable".to_owned(), true);
        assert_eq!(result("web_search_tool_result", &failed), expected);
    }

    #[test]
    fn summaries_show_the_most_relevant_part() {
        let call = json!({"type": "tool_use", "id": "1", "name": "Read", "input": {}});
        assert_eq!(view_of(&json!("\nhello\nworld")).summary(), "hello");
        assert_eq!(view_of(&json!([call, call])).summary(), "Read");
        let result = json!([{"type": "tool_result", "tool_use_id": "1", "content": "ok\n"}]);
        assert_eq!(view_of(&result).summary(), "ok");
        assert_eq!(view_of(&json!([{"type": "thinking", "thinking": "hm"}])).summary(), "hm");
        assert_eq!(view_of(&json!([{"type": "redacted_thinking"}])).summary(), "[no text]");
    }

    #[test]
    fn openai_calls_keep_their_arguments_verbatim() {
        let mut view = MessageView::new(Role::Assistant);
        view.add_tool_calls(Some(&json!([
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}},
            {"id": "d", "name": "g", "arguments": {"a": 1}},
        ])));
        let calls: Vec<_> =
            view.tool_calls.iter().map(|call| (&*call.name, &*call.input)).collect();
        assert_eq!(calls, [("f", "{\"a\": 1}"), ("g", "{\"a\":1}")]);
    }
}
