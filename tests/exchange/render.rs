//! `export` for people and other tools: the output satisfies the interfaces' rules, and nothing is
//! lost.

use std::collections::HashSet;

use proptest::prelude::*;
use serde_json::{Value, json};
use turntree::context::{MAIN_AGENT, MessageEntry};
use turntree::object::{Kind, ObjectId, ObjectSource, Time};
use turntree::repo::Repository;
use turntree_exchange::MessageView;
use turntree_exchange::formats::view;
use turntree_exchange::render::{
    ContentDetail, Trajectory, export_anthropic, export_atif, export_document, export_markdown,
    export_openai,
};
use turntree_tests::random_history::{RandomHistory, steps};
use turntree_tests::{Sandbox, recorded_sessions};

fn show_time(time: Time) -> String {
    let seconds = time.micros.rem_euclid(60_000_000) / 1_000_000;
    format!("2026-01-01T00:00:{seconds:02}Z")
}

/// Exports the conversation of `main` in a form.
fn exported(repo: &Repository, id: &ObjectId, form: &str) -> Vec<u8> {
    let (source, context) = (repo, repo.context(id).unwrap());
    let commit = repo.commit(id).unwrap();
    let mut out = Vec::new();
    match form {
        "openai" => export_openai(source, &context, MAIN_AGENT, &mut out).unwrap(),
        "anthropic" => export_anthropic(source, &context, MAIN_AGENT, &mut out).unwrap(),
        "json" => {
            let snapshot = (id, &commit);
            export_document(source, snapshot, &context, ContentDetail::Whole, &show_time, &mut out)
                .unwrap();
        }
        "markdown" => export_markdown(repo, id, &show_time, None, &mut out).unwrap(),
        _ => {
            let trajectory =
                Trajectory { commit: &commit, agent: MAIN_AGENT, show_time: &show_time };
            export_atif(source, &context, &trajectory, &mut out).unwrap();
        }
    }
    out
}

fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], |list| list.as_slice())
}

/// Checks the rules of the OpenAI chat completions API.
fn check_openai(document: &Value) {
    let mut open: Vec<String> = Vec::new();
    let mut ids = HashSet::new();
    for message in list(document, "messages") {
        let role = message["role"].as_str().unwrap();
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap();
            let at = open.iter().position(|open| open == id);
            open.remove(at.expect("a result of a call right before it"));
            assert!(message["content"].is_string());
            continue;
        }
        assert!(open.is_empty(), "calls without results: {open:?}");
        assert!(["system", "user", "assistant"].contains(&role));
        for call in list(message, "tool_calls") {
            assert_eq!(role, "assistant");
            let id = call["id"].as_str().unwrap().to_owned();
            assert!(ids.insert(id.clone()), "{id} twice");
            open.push(id);
            let arguments = call["function"]["arguments"].as_str().unwrap();
            assert!(parsed(arguments.as_bytes()).is_object());
            check_name(&call["function"]["name"]);
        }
        let is_said = message["content"].is_string() || message["content"].is_array();
        assert!(is_said || !list(message, "tool_calls").is_empty(), "{message}");
    }
    assert!(open.is_empty());
}

/// Checks the rules of the Anthropic messages API.
fn check_anthropic(document: &Value) {
    let mut before = "assistant";
    let mut calls: Vec<String> = Vec::new();
    let mut ids = HashSet::new();
    let tools: Vec<&Value> = list(document, "tools").iter().map(|tool| &tool["name"]).collect();
    let messages = list(document, "messages");
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap();
        assert_ne!(role, before, "roles take turns, and the user begins");
        before = role;
        let blocks = list(message, "content");
        assert!(!blocks.is_empty());
        let kinds: Vec<&str> = blocks.iter().map(|block| block["type"].as_str().unwrap()).collect();
        let results = kinds.iter().take_while(|kind| **kind == "tool_result").count();
        assert_eq!(kinds.iter().filter(|kind| **kind == "tool_result").count(), results);
        let mut answered: Vec<String> = blocks[..results]
            .iter()
            .map(|block| block["tool_use_id"].as_str().unwrap().to_owned())
            .collect();
        // Results of parallel calls are in the order in which the calls ended.
        answered.sort_unstable();
        calls.sort_unstable();
        assert_eq!(answered, calls, "every call has its result right behind it");
        calls.clear();
        for block in blocks {
            match block["type"].as_str().unwrap() {
                "text" => assert!(!block["text"].as_str().unwrap().trim().is_empty()),
                "tool_use" => {
                    assert_eq!(role, "assistant");
                    check_name(&block["name"]);
                    assert!(tools.contains(&&block["name"]) && block["input"].is_object());
                    let id = block["id"].as_str().unwrap().to_owned();
                    assert!(ids.insert(id.clone()), "{id} twice");
                    calls.push(id);
                }
                "image" | "tool_result" => assert_eq!(role, "user"),
                other => panic!("{other}"),
            }
        }
        if at + 1 == messages.len() {
            let text = blocks.last().unwrap()["text"].as_str().unwrap_or_default();
            assert!(role == "user" || text.trim_end() == text);
        }
    }
    assert!(calls.is_empty());
}

fn check_name(name: &Value) {
    let name = name.as_str().unwrap();
    assert!((1..=64).contains(&name.len()));
    assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'), "{name}");
}

/// Checks the rules of ATIF: steps are numbered, and results belong to calls of their step.
fn check_atif(document: &Value) {
    for (at, step) in list(document, "steps").iter().enumerate() {
        assert_eq!(step["step_id"], json!(at + 1));
        let source = step["source"].as_str().unwrap();
        assert!(["system", "user", "agent"].contains(&source));
        let calls: Vec<&Value> =
            list(step, "tool_calls").iter().map(|call| &call["tool_call_id"]).collect();
        assert!(calls.is_empty() || source == "agent");
        for result in list(&step["observation"], "results") {
            let call = &result["source_call_id"];
            assert!(call.is_null() || calls.contains(&call));
        }
    }
}

fn views(repo: &Repository, id: &ObjectId) -> Vec<MessageView> {
    let messages = repo.context(id).unwrap().messages(repo, MAIN_AGENT).unwrap();
    let view_of =
        |entry: MessageEntry| view(&entry.media, &repo.read_as(Kind::Blob, &entry.blob).unwrap());
    let entries = messages.iter(repo, 0..messages.len());
    entries.map(|item| view_of(MessageEntry::from_item(&item.unwrap()).unwrap())).collect()
}

/// All words in a value, without the characters between them.
fn words(value: &Value, into: &mut String) {
    match value {
        Value::String(text) => into.extend(text.chars().filter(|c| c.is_alphanumeric())),
        Value::Array(items) => items.iter().for_each(|item| words(item, into)),
        Value::Object(fields) => fields.values().for_each(|field| words(field, into)),
        _ => {}
    }
}

/// A value in which adjacent texts of a message are joined: they are read as paragraphs.
fn joined(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut list: Vec<Value> = Vec::new();
            for item in items.iter().map(joined) {
                match list
                    .last_mut()
                    .filter(|last| last["type"] == "text" && item["type"] == "text")
                {
                    Some(last) => {
                        let (a, b) =
                            (last["text"].as_str().unwrap(), item["text"].as_str().unwrap());
                        last["text"] = format!("{}\n{b}", a.trim_end_matches('\n')).into();
                    }
                    None => list.push(item),
                }
            }
            list.into()
        }
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), joined(value))).collect()
        }
        other => other.clone(),
    }
}

/// Checks every form of a snapshot, and that each is unchanged after an import and an export.
fn check_all(sandbox: &Sandbox, id: &ObjectId) {
    let repo = &sandbox.repo;
    check_openai(&parsed(&exported(repo, id, "openai")));
    check_anthropic(&parsed(&exported(repo, id, "anthropic")));
    check_atif(&parsed(&exported(repo, id, "atif")));
    for (form, format) in
        [("openai", "openai-chat"), ("anthropic", "anthropic-chat"), ("atif", "atif")]
    {
        let first = exported(repo, id, form);
        let count = |value: &Value| list(value, "messages").len() + list(value, "steps").len();
        if count(&parsed(&first)) == 0 {
            continue;
        }
        let again = Sandbox::new();
        let tip = again.import_as("again", format, &first).unwrap().head;
        let second = exported(&again.repo, &tip, form);
        let (first, second) = (parsed(&first), parsed(&second));
        for part in ["messages", "steps", "tools", "system"] {
            assert_eq!(joined(&first[part]), joined(&second[part]), "{form}: {part}");
        }
    }
    let said = views(repo, id);
    let document = parsed(&exported(repo, id, "json"));
    let messages = list(&document["agents"][MAIN_AGENT], "messages");
    assert_eq!(messages.len(), said.len());
    let (mut all, mut markdown) = (String::new(), String::new());
    words(&parsed(&exported(repo, id, "openai")), &mut all);
    words(&String::from_utf8(exported(repo, id, "markdown")).unwrap().into(), &mut markdown);
    for (message, view) in messages.iter().zip(&said) {
        assert_eq!(message["text"], json!(view.text));
        assert_eq!(list(message, "tool_calls").len(), view.tool_calls.len());
        let results = list(message, "tool_results").iter().map(|result| &result["text"]);
        let known = view.tool_results.iter().map(|result| &result.text);
        assert!(results.eq(known));
        for text in [&view.text].into_iter().chain(view.tool_results.iter().map(|r| &r.text)) {
            let mut said = String::new();
            words(&text.as_str().into(), &mut said);
            // A picture is exported as a picture, not as its placeholder.
            if view.pictures.is_empty() && !text.contains("[image]") {
                assert!(all.contains(&said), "not told: {text}");
            }
        }
    }
}

#[test]
fn recorded_sessions_export_to_valid_api_requests() {
    let mut kinds = HashSet::new();
    let sessions = recorded_sessions();
    if sessions.is_empty() {
        return eprintln!("skipped: no recorded sessions");
    }
    for file in sessions {
        let kind = file.parent().unwrap().to_owned();
        let is_large = file.metadata().is_ok_and(|found| found.len() > 1 << 20);
        if kinds.contains(&kind) || is_large && !kind.ends_with("chat-messages") {
            continue;
        }
        let sandbox = Sandbox::new();
        let Ok(report) = sandbox.import("s", &std::fs::read(&file).unwrap()) else { continue };
        kinds.insert(kind);
        check_all(&sandbox, &report.head);
    }
    assert!(kinds.len() >= 6, "{kinds:?}");
}

/// A message of an odd chat: results that are late, doubled or missing, repeated ids, empty texts.
fn message() -> impl Strategy<Value = Value> {
    let id = || prop::sample::select(vec!["a", "b", "c/ü", "", "a"]);
    let text = || prop::sample::select(vec!["one", "two `x` <b>", " ", "", "three\n```\nx\n"]);
    let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
    let input = prop::sample::select(vec!["{\"k\": 1}", "plain", "", "[1]", "{\"a\": \"b\"}"]);
    let call = (id(), input).prop_map(
        |(id, input)| json!({"id": id, "function": {"name": format!("tool {id}"), "arguments": input}}),
    );
    prop_oneof![
        text().prop_map(|text| json!({"role": "user", "content": text})),
        text().prop_map(move |text| json!({"role": "user", "content": [
            {"type": "text", "text": text}, picture.clone(), {"type": "text", "text": "behind"}]})),
        text().prop_map(|text| json!({"role": "system", "content": text})),
        (text(), prop::collection::vec(call, 0..3)).prop_map(|(text, calls)| {
            json!({"role": "assistant", "content": text, "tool_calls": calls})
        }),
        (id(), text()).prop_map(|(id, text)| {
            json!({"role": "tool", "tool_call_id": id, "content": text})
        }),
        text().prop_map(|text| json!({"role": "other", "content": text})),
    ]
}

turntree_properties::properties! {
    cases = 64;

    #[test]
    fn any_chat_exports_to_valid_api_requests(messages in prop::collection::vec(message(), 1..12)) {
        let sandbox = Sandbox::new();
        let document = json!({"messages": messages}).to_string();
        let tip = sandbox.import_as("s", "openai-chat", document.as_bytes()).unwrap().head;
        check_openai(&parsed(&exported(&sandbox.repo, &tip, "openai")));
        check_anthropic(&parsed(&exported(&sandbox.repo, &tip, "anthropic")));
        check_atif(&parsed(&exported(&sandbox.repo, &tip, "atif")));
        let document = parsed(&exported(&sandbox.repo, &tip, "json"));
        prop_assert_eq!(list(&document["agents"][MAIN_AGENT], "messages").len(), messages.len());
    }

    #[test]
    fn json_exports_have_the_whole_context_and_markdown_the_history(steps in steps()) {
        let history = RandomHistory::new(&steps);
        let repo = &history.sandbox.repo;
        for at in history.tips.values() {
            let turn = &history.turns[*at];
            let document = parsed(&exported(repo, &turn.id, "json"));
            let messages = list(&document["agents"][MAIN_AGENT], "messages").iter();
            let texts: Vec<&str> = messages.map(|message| message["text"].as_str().unwrap()).collect();
            prop_assert_eq!(texts, turn.content.messages.iter().collect::<Vec<_>>());
            let texts = |entries: &Value| {
                let entries = entries.as_object().into_iter().flatten();
                entries.map(|(key, entry)| (key.clone(), entry["text"].as_str().unwrap().to_owned())).collect::<std::collections::BTreeMap<String, String>>()
            };
            prop_assert_eq!(texts(&document["files"]), turn.content.files.clone());
            prop_assert_eq!(texts(&document["sections"]["scratchpad"]["entries"]), turn.content.notes.clone());
            let markdown = String::from_utf8(exported(repo, &turn.id, "markdown")).unwrap();
            prop_assert_eq!(markdown.as_bytes(), exported(repo, &turn.id, "markdown"));
            for link in markdown.split("](#").skip(1) {
                let target = link.split(')').next().unwrap();
                let anchor = format!("<a id=\"{target}\"></a>");
                prop_assert_eq!(markdown.matches(&anchor).count(), 1);
            }
        }
    }
}
