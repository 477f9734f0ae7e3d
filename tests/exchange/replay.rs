//! Replays: a client that sends what was recorded gets every recorded answer, through each interface,
//! and a part that differs is named.

use proptest::prelude::*;
use serde_json::{Value, json};
use turntree::context::MAIN_AGENT;
use turntree::object::ObjectId;
use turntree::repo::Repository;
use turntree_exchange::render::{export_anthropic, export_openai};
use turntree_exchange::replay::{DifferenceKind, Endpoint, Recording, Request, Verdict};
use turntree_tests::{Sandbox, recorded_sessions};

/// The most answers of a session that are asked for; each request has all messages before it.
const ASKED: usize = 24;

/// The size of the largest recorded session to replay. Each request has the whole conversation.
const MOST_BYTES: u64 = 1 << 20;

/// The paths of the interfaces, and the fields of their conversations.
const INTERFACES: [(&str, &str); 4] = [
    ("/v1/messages", "messages"),
    ("/v1/chat/completions", "messages"),
    ("/v1/responses", "input"),
    ("/v1beta/models/g:generateContent", "contents"),
];

/// A request of a client with the recorded answer.
struct Exchange {
    /// The elements that stand before the answer.
    before: usize,
    text: String,
    calls: Vec<(String, Value)>,
}

fn openai(repo: &Repository, tip: &ObjectId) -> Vec<Value> {
    let mut out = Vec::new();
    export_openai(repo, &repo.context(tip).unwrap(), MAIN_AGENT, &mut out).unwrap();
    list(&out)
}

fn anthropic(repo: &Repository, tip: &ObjectId) -> Vec<Value> {
    let mut out = Vec::new();
    export_anthropic(repo, &repo.context(tip).unwrap(), MAIN_AGENT, &mut out).unwrap();
    list(&out)
}

fn list(document: &[u8]) -> Vec<Value> {
    let document: Value = serde_json::from_slice(document).unwrap();
    document["messages"].as_array().unwrap().clone()
}

fn parsed(arguments: &Value) -> Value {
    serde_json::from_str(arguments.as_str().unwrap()).unwrap()
}

/// A chat of OpenAI as items of Responses.
fn responses(chat: &[Value]) -> Vec<Value> {
    let mut items = Vec::new();
    for message in chat {
        if message["role"] == "tool" {
            let (id, output) = (&message["tool_call_id"], &message["content"]);
            items.push(json!({"type": "function_call_output", "call_id": id, "output": output}));
            continue;
        }
        if !message["content"].is_null() {
            items.push(
                json!({"type": "message", "role": message["role"], "content": message["content"]}),
            );
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            items.push(json!({"type": "function_call", "call_id": call["id"],
                "name": function["name"], "arguments": function["arguments"]}));
        }
    }
    items
}

/// A chat of OpenAI as contents of Gemini, without the system prompt.
fn gemini(chat: &[Value]) -> Vec<Value> {
    let mut contents = Vec::new();
    for message in chat {
        let mut parts = Vec::new();
        if message["role"] == "tool" {
            let response = json!({"output": message["content"]});
            parts.push(json!({"functionResponse": {"id": message["tool_call_id"], "name": "x",
                "response": response}}));
        } else if let Some(text) = message["content"].as_str() {
            parts.push(json!({"text": text}));
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            parts.push(json!({"functionCall": {"id": call["id"], "name": function["name"],
                "args": parsed(&function["arguments"])}}));
        }
        let role = if message["role"] == "assistant" { "model" } else { "user" };
        if message["role"] != "system" {
            contents.push(json!({"role": role, "parts": parts}));
        }
    }
    contents
}

/// Sends a conversation up to an answer, and returns what comes.
fn asked(recording: &Recording, interface: usize, before: &[Value]) -> Result<Exchange, String> {
    let (path, field) = INTERFACES[interface];
    let tools = json!([{"type": "function", "name": "x", "function": {"name": "x"}}]);
    let body = json!({"model": "m", field: before, "tools": tools}).to_string();
    let request = Request::parse(&Endpoint::of(path, None).unwrap(), body.as_bytes()).unwrap();
    let (answer, number) = match recording.verdict(&request) {
        Verdict::Recorded { answer, number, results } => {
            assert!(results.is_empty(), "{results:?}");
            (answer, number)
        }
        other => return Err(format!("{other:?}")),
    };
    let body = recording.reply(&request, answer, number).body;
    Ok(spoken(interface, before.len(), &serde_json::from_slice(&body).unwrap()))
}

/// The answer in a reply.
fn spoken(interface: usize, before: usize, reply: &Value) -> Exchange {
    let (mut text, mut calls) = (String::new(), Vec::new());
    let mut call =
        |name: &Value, input: Value| calls.push((name.as_str().unwrap().to_owned(), input));
    match interface {
        0 => {
            for block in reply["content"].as_array().unwrap() {
                match block["type"].as_str() {
                    Some("text") => text.push_str(block["text"].as_str().unwrap()),
                    _ => call(&block["name"], block["input"].clone()),
                }
            }
        }
        1 => {
            let message = &reply["choices"][0]["message"];
            text.push_str(message["content"].as_str().unwrap_or_default());
            for made in message["tool_calls"].as_array().into_iter().flatten() {
                call(&made["function"]["name"], parsed(&made["function"]["arguments"]));
            }
        }
        2 => {
            for item in reply["output"].as_array().unwrap() {
                match item["type"].as_str().unwrap() {
                    "message" => text.push_str(item["content"][0]["text"].as_str().unwrap()),
                    "function_call" => call(&item["name"], parsed(&item["arguments"])),
                    _ => call(&item["name"], json!({"input": item["input"]})),
                }
            }
        }
        _ => {
            for part in reply["candidates"][0]["content"]["parts"].as_array().unwrap() {
                text.push_str(part["text"].as_str().unwrap_or_default());
                if let Some(made) = part.get("functionCall") {
                    call(&made["name"], made["args"].clone());
                }
            }
        }
    }
    Exchange { before, text, calls }
}

/// The answers of a chat of OpenAI: the number of messages before each, and what it says.
fn answers(chat: &[Value]) -> Vec<Exchange> {
    let is_answer = |(_, message): &(usize, &Value)| message["role"] == "assistant";
    let read = |(before, message): (usize, &Value)| {
        let reply = json!({"choices": [{"message": message}]});
        spoken(1, before, &reply)
    };
    chat.iter().enumerate().filter(is_answer).map(read).collect()
}

/// Asks for answers of a session through each interface. Returns how many of them were right.
fn replay(repo: &Repository, tip: &ObjectId) -> Result<usize, String> {
    let recording = Recording::read(repo, tip, None).unwrap();
    let chat = openai(repo, tip);
    let expected = answers(&chat);
    let step = expected.len().div_ceil(ASKED).max(1);
    let mut right = 0;
    for answer in expected.iter().step_by(step) {
        let before = &chat[..answer.before];
        for (interface, sent) in [(1, before.to_vec()), (2, responses(before)), (3, gemini(before))]
        {
            let found = asked(&recording, interface, &sent)?;
            let (is, should) = ((&found.text, &found.calls), (&answer.text, &answer.calls));
            // A text of spaces alone is not sent by every interface.
            if is != should && (is.1 != should.1 || is.0.trim() != should.0.trim()) {
                return Err(format!("{interface}: {is:?}, expected {should:?}"));
            }
        }
        right += 1;
    }
    // The interface of Anthropic has instructions only before the first message.
    if chat.iter().skip(1).any(|message| message["role"] == "system") {
        return Ok(right);
    }
    let messages = anthropic(repo, tip);
    let starts = messages.iter().enumerate().filter(|(_, it)| it["role"] == "assistant");
    let starts: Vec<usize> = starts.map(|(at, _)| at).collect();
    let step = starts.len().div_ceil(ASKED).max(1);
    for at in starts.into_iter().step_by(step) {
        if messages[0].to_string().contains("[the conversation begins here]") {
            break;
        }
        let found = asked(&recording, 0, &messages[..at])?;
        let should = spoken(0, at, &messages[at]);
        if found.calls != should.calls || found.text.trim() != should.text.trim() {
            // Answers that follow each other are one message of this interface.
            if !should.text.starts_with(&found.text) {
                return Err(format!("0: {:?}, expected {:?}", found.text, should.text));
            }
        }
        right += 1;
    }
    Ok(right)
}

#[test]
fn recorded_sessions_of_each_client_replay_through_each_interface() {
    let sessions = recorded_sessions();
    if sessions.is_empty() {
        return eprintln!("skipped: no recorded sessions");
    }
    let (mut all, mut longest, mut wrong) = (0, 0, Vec::new());
    for file in sessions {
        let bytes = file.metadata().map_or(0, |found| found.len());
        if bytes > MOST_BYTES {
            continue;
        }
        longest = longest.max(bytes);
        let sandbox = Sandbox::new();
        let Ok(report) = sandbox.import("s", &std::fs::read(&file).unwrap()) else { continue };
        match replay(&sandbox.repo, &report.head) {
            Ok(right) => all += right,
            Err(why) => wrong.push(format!("{}: {why}", file.display())),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(all > 200 && longest > MOST_BYTES / 2, "{all} answers, {longest} bytes");
}

/// A chat: prompts, answers with and without calls, and the results of all calls.
fn chats() -> impl Strategy<Value = Vec<Value>> {
    let word = || prop::sample::select(vec!["go", "see /w/a", "two\nlines", "ä <b>", "é\u{301}"]);
    let round = (prop::option::of(word()), word(), prop::collection::vec(word(), 0..3));
    prop::collection::vec(round, 1..8).prop_map(|rounds| {
        let mut chat = vec![json!({"role": "user", "content": "begin"})];
        let mut id = 0;
        for (prompt, said, calls) in rounds {
            if let Some(prompt) = prompt {
                chat.push(json!({"role": "user", "content": prompt}));
            }
            let ids: Vec<usize> = calls
                .iter()
                .map(|_| {
                    id += 1;
                    id
                })
                .collect();
            let made = calls.iter().zip(&ids).map(|(input, id)| {
                let arguments = json!({"k": input}).to_string();
                json!({"id": format!("c{id}"), "type": "function",
                    "function": {"name": "run", "arguments": arguments}})
            });
            let made: Vec<Value> = made.collect();
            chat.push(match made.is_empty() {
                true => json!({"role": "assistant", "content": format!("{said} {id}")}),
                false => json!({"role": "assistant", "content": said, "tool_calls": made}),
            });
            for (input, id) in calls.iter().zip(ids) {
                let content = format!("did {input}");
                chat.push(
                    json!({"role": "tool", "tool_call_id": format!("c{id}"), "content": content}),
                );
            }
        }
        chat
    })
}

fn recorded(chat: &[Value]) -> (Sandbox, ObjectId) {
    let sandbox = Sandbox::new();
    let report = sandbox.import("s", json!({"messages": chat}).to_string().as_bytes()).unwrap();
    let head = report.head;
    (sandbox, head)
}

turntree_properties::properties! {
    #[test]
    fn any_chat_replays_through_each_interface(chat in chats()) {
        let (sandbox, head) = recorded(&chat);
        replay(&sandbox.repo, &head).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn a_prompt_that_differs_is_named_where_it_is(chat in chats(), which in 0_usize..8) {
        let (sandbox, head) = recorded(&chat);
        let recording = Recording::read(&sandbox.repo, &head, None).unwrap();
        let mut sent = openai(&sandbox.repo, &head);
        while sent.last().is_some_and(|last| last["role"] != "user") {
            sent.pop();
        }
        let prompts: Vec<usize> =
            sent.iter().enumerate().filter(|(_, it)| it["role"] == "user").map(|(at, _)| at).collect();
        let at = prompts[which % prompts.len()];
        sent[at]["content"] = "something else".into();
        let body = json!({"messages": sent, "tools": [{"function": {"name": "run"}}]}).to_string();
        let endpoint = Endpoint::of("/v1/chat/completions", None).unwrap();
        let request = Request::parse(&endpoint, body.as_bytes()).unwrap();
        match recording.verdict(&request) {
            Verdict::Differs(difference) => {
                prop_assert_eq!(difference.kind, DifferenceKind::Prompt);
                prop_assert_eq!(difference.place, format!("messages[{at}]"));
                let before = sent[..at].iter().filter(|it| it["role"] == "assistant").count();
                prop_assert_eq!(difference.answers, before);
            }
            other => return Err(TestCaseError::fail(format!("{other:?}"))),
        }
    }
}
