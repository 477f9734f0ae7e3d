//! Content that clients send to the model or omit, in formats other than those of Claude Code and
//! Codex.

use serde_json::{Value, json};
use turntree_exchange::UsageScope;
use turntree_exchange::render::export_openai;
use turntree_tests::Sandbox;

use crate::client_branches::{said, usage};

fn lines(records: &[Value]) -> Vec<u8> {
    records.iter().map(|record| format!("{record}\n")).collect::<String>().into_bytes()
}

#[test]
fn a_conversation_that_gemini_loads_is_context_without_new_prompts() {
    let said_at = |id: &str, text: &str| {
        json!({"id": id, "timestamp": "2026-11-20T10:00:00.000Z", "type": "user",
            "content": [{"text": text}]})
    };
    let answer = |id: &str, text: &str| {
        json!({"id": id, "timestamp": "2026-11-20T10:00:00.000Z", "type": "gemini",
            "content": [{"text": text}], "thoughts": [], "model": "m",
            "tokens": {"input": 10, "output": 2, "cached": 0, "thoughts": 0, "tool": 0, "total": 12}})
    };
    let again = |id: &str, text: &str| {
        json!({"id": id, "timestamp": "2026-11-20T10:00:00.000Z", "type": "gemini",
            "content": [{"text": text}], "thoughts": [], "tokens": null})
    };
    let context = "<session_context>\nThis is the Gemini CLI.\n</session_context>";
    let header = json!({"sessionId": "s", "projectHash": "h", "startTime": "t", "kind": "main"});
    let mut log = vec![header, said_at("0", context), said_at("1", "one"), answer("2", "1")];
    log.extend([said_at("3", "two"), answer("4", "2")]);
    let loaded = [said_at("5", context), said_at("6", "one"), again("7", "1")];
    log.extend(loaded.clone());
    log.push(json!({"$set": {"messages": loaded}}));
    log.extend([said_at("8", "/home/me/x.log says why"), answer("9", "3")]);
    let sandbox = Sandbox::new();
    // An import may happen at any time.
    for end in 2..=log.len() {
        sandbox.import("s", &lines(&log[..end])).unwrap();
    }
    let context = "This is the Gemini CLI.";
    let said: Vec<_> = said(&sandbox, "s").into_iter().skip(1).collect();
    assert_eq!(said, ["one", "1", "/home/me/x.log says why", "3"], "{context}");
    let found = usage(&sandbox, UsageScope::All).total;
    assert_eq!((found.answers, found.tokens.input), (3, 30));
}

/// The messages of a session in the form of the OpenAI API.
fn openai(sandbox: &Sandbox, session: &str) -> Value {
    let head = sandbox.repo.resolve(session).unwrap().commit;
    let context = sandbox.repo.context(&head).unwrap();
    let mut out = Vec::new();
    export_openai(&sandbox.repo, &context, "main", &mut out).unwrap();
    serde_json::from_slice::<Value>(&out).unwrap()["messages"].take()
}

#[test]
fn pictures_that_apis_reject_are_exported_as_text() {
    let file = |media: &str, url: &str| json!({"type": "file", "mime": media, "url": url});
    let session = json!({"info": {"id": "ses"}, "messages": [
        {"info": {"id": "1", "role": "user"}, "parts": [{"type": "text", "text": "look"},
            file("image/svg+xml", "data:image/svg+xml;base64,PHN2Zz4="),
            file("image/png", "file:///p/a.png"),
            file("image/jpg", "data:image/jpg;base64,AAAA")]},
        {"info": {"id": "2", "role": "assistant"}, "parts": [{"type": "text", "text": "ok"}]},
    ]});
    let sandbox = Sandbox::new();
    sandbox.import("s", session.to_string().as_bytes()).unwrap();
    let sent = openai(&sandbox, "s");
    let parts = sent[0]["content"].as_array().unwrap();
    let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
    let pictures: Vec<&str> =
        parts.iter().filter_map(|part| part["image_url"]["url"].as_str()).collect();
    assert_eq!(texts, ["look\n[image]\n[image]"]);
    assert_eq!(pictures, ["data:image/jpeg;base64,AAAA"]);
}

#[test]
fn ids_of_calls_are_truncated_to_the_limit_of_apis() {
    // pi joins two ids of the responses API into one. Two such ids may differ only at the end.
    let long = |end: &str| format!("call_{}|fc_{}{end}", "a".repeat(24), "b".repeat(50));
    let call =
        |end: &str| json!({"type": "toolCall", "id": long(end), "name": "ls", "arguments": {}});
    let entry = |id: &str, parent: Option<&str>, message: Value| json!({"type": "message", "id": id, "parentId": parent, "message": message});
    let result = |end: &str| json!({"role": "toolResult", "toolCallId": long(end), "content": [{"type": "text", "text": end}]});
    let file = [
        json!({"type": "session", "version": 3, "id": "s", "timestamp": "t", "cwd": "/p"}),
        entry("0000000a", None, json!({"role": "user", "content": "go"})),
        entry(
            "0000000b",
            Some("0000000a"),
            json!({"role": "assistant", "content": [call("1"), call("2")]}),
        ),
        entry("0000000c", Some("0000000b"), result("2")),
        entry("0000000d", Some("0000000c"), result("1")),
    ];
    let sandbox = Sandbox::new();
    sandbox.import("s", &lines(&file)).unwrap();
    let sent = openai(&sandbox, "s");
    let calls: Vec<&str> = sent[1]["tool_calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["id"].as_str().unwrap())
        .collect();
    assert!(calls[0] != calls[1] && calls.iter().all(|id| id.len() <= 40), "{calls:?}");
    let results: Vec<(&str, &str)> = sent.as_array().unwrap()[2..]
        .iter()
        .map(|it| (it["tool_call_id"].as_str().unwrap(), it["content"].as_str().unwrap()))
        .collect();
    assert_eq!(results, [(calls[0], "1"), (calls[1], "2")]);
}

#[test]
fn usage_counts_though_a_record_has_half_a_character_or_no_message() {
    let header = json!({"sessionId": "s", "projectHash": "h", "startTime": "t", "kind": "main"});
    let answer = json!({"id": "2", "type": "gemini", "content": "cut CUT", "model": "m",
        "tokens": {"input": 10, "output": 2, "cached": 0, "thoughts": 0, "tool": 0, "total": 12}});
    let log = String::from_utf8(lines(&[header, answer])).unwrap().replace("CUT", "\\ud83d");
    let sandbox = Sandbox::new();
    sandbox.import("gemini", log.as_bytes()).unwrap();
    let line = |id: &str, parent: Value, kind: &str| json!({"uuid": id, "parentUuid": parent, "sessionId": "q", "type": kind, "cwd": "/p"});
    let mut prompt = line("1", Value::Null, "user");
    prompt["message"] = json!({"role": "user", "parts": [{"text": "go"}]});
    let mut failed = line("2", "1".into(), "assistant");
    failed["usageMetadata"] =
        json!({"promptTokenCount": 50, "candidatesTokenCount": 5, "totalTokenCount": 55});
    sandbox.import("qwen", &lines(&[prompt, failed])).unwrap();
    for (session, expected) in [("gemini", (1, 10, 2)), ("qwen", (1, 50, 5))] {
        let found = usage(&sandbox, UsageScope::Session(session)).total;
        assert_eq!((found.answers, found.tokens.input, found.tokens.output), expected, "{session}");
    }
}

#[test]
fn answers_that_a_revert_took_back_still_cost() {
    let answer = |id: &str| {
        json!({"info": {"id": id, "role": "assistant", "cost": 0.25, "modelID": "m",
            "tokens": {"input": 10, "output": 2, "reasoning": 0, "cache": {"read": 0, "write": 0}}},
            "parts": [{"type": "text", "text": id}]})
    };
    let prompt = |id: &str| json!({"info": {"id": id, "role": "user"}, "parts": [{"type": "text", "text": id}]});
    let mut session = json!({"info": {"id": "ses", "revert": {"messageID": "3"}}, "messages":
        [prompt("1"), answer("2"), prompt("3"), answer("4")]});
    let sandbox = Sandbox::new();
    sandbox.import("s", session.to_string().as_bytes()).unwrap();
    assert_eq!(said(&sandbox, "s"), ["1", "2"]);
    let found = usage(&sandbox, UsageScope::All).total;
    assert_eq!((found.answers, found.cost()), (2, Some(0.5)));
    // The next prompt deletes them; taking the revert back shows them again.
    session["info"]["revert"] = Value::Null;
    sandbox.import("s", session.to_string().as_bytes()).unwrap();
    assert_eq!(said(&sandbox, "s"), ["1", "2", "3", "4"]);
    session["messages"] = json!([prompt("1"), answer("2"), prompt("5")]);
    sandbox.import("s", session.to_string().as_bytes()).unwrap();
    assert_eq!(said(&sandbox, "s"), ["1", "2", "5"]);
    let found = usage(&sandbox, UsageScope::All).total;
    assert_eq!((found.answers, found.cost()), (2, Some(0.5)));
}

#[test]
fn the_usage_of_a_whole_run_counts_if_its_answers_have_none() {
    let step = |id: u64, metrics: Value| {
        let mut step = json!({"step_id": id, "source": "agent", "message": "done"});
        if !metrics.is_null() {
            step["metrics"] = metrics;
        }
        step
    };
    let atif = |metrics: Value| {
        json!({"schema_version": "ATIF-v1.7", "session_id": "a",
            "agent": {"name": "a", "version": "1", "model_name": "m"},
            "steps": [{"step_id": 1, "source": "user", "message": "go"}, step(2, metrics)],
            "final_metrics": {"total_prompt_tokens": 100, "total_completion_tokens": 5,
                "total_cached_tokens": 40, "total_cost_usd": 0.25}})
    };
    let swe = json!({"trajectory": [{"action": "ls", "observation": "a", "response": "r"}],
        "history": [{"role": "user", "content": "fix"}, {"role": "assistant", "content": "done"}],
        "info": {"exit_status": "submitted", "model_stats":
            {"instance_cost": 0.5, "tokens_sent": 1000, "tokens_received": 50, "api_calls": 1}}});
    let mini = json!({"info": {"mini_version": "1.17.0", "model_stats":
            {"instance_cost": 0.75, "api_calls": 1}},
        "messages": [{"role": "user", "content": "fix"}, {"role": "assistant", "content": "done"}]});
    let own = json!({"prompt_tokens": 7, "completion_tokens": 1, "cost_usd": 0.125});
    let sandbox = Sandbox::new();
    for (session, file, expected) in [
        ("atif", atif(Value::Null), (1, 100, 5, Some(0.25))),
        ("steps", atif(own), (1, 7, 1, Some(0.125))),
        ("swe", swe, (1, 1000, 50, Some(0.5))),
        ("mini", mini, (1, 0, 0, Some(0.75))),
    ] {
        sandbox.import(session, file.to_string().as_bytes()).unwrap();
        let found = usage(&sandbox, UsageScope::Session(session)).total;
        let tokens = found.tokens;
        let seen = (found.answers, tokens.input, tokens.output, found.cost());
        assert_eq!(seen, expected, "{session}");
    }
}

#[test]
fn sums_of_two_conversations_of_openhands_are_two() {
    let document = |id: &str, answers: Value| {
        let prompt = json!({"kind": "MessageEvent", "id": id, "source": "user",
            "timestamp": "2026-11-20T10:00:00", "llm_message": {"role": "user",
                "content": [{"type": "text", "text": "go"}]}});
        let metrics = json!({"model_name": "m", "accumulated_cost": 0.25, "costs": [],
            "accumulated_token_usage": {"prompt_tokens": 10, "completion_tokens": 2},
            "token_usages": answers});
        json!({"conversation": {"id": id}, "events": [prompt],
            "stats": {"usage_to_metrics": {"agent": metrics}}})
    };
    let without_id = json!([{"prompt_tokens": 10, "completion_tokens": 2}]);
    for answers in [json!([]), without_id] {
        let sandbox = Sandbox::new();
        for id in ["a", "b"] {
            sandbox.import(id, document(id, answers.clone()).to_string().as_bytes()).unwrap();
        }
        let found = usage(&sandbox, UsageScope::All).total;
        assert_eq!((found.answers, found.tokens.input), (2, 20));
    }
}

#[test]
fn tasks_of_openhands_0_cost_what_their_metrics_say() {
    let task = |id: &str, metrics: Value, usage: Value| {
        let call = json!({"function_name": "run", "tool_call_id": "c",
            "model_response": {"id": "r", "model": "m", "usage": usage}});
        json!({"instance_id": id, "metrics": metrics, "history": [
            {"id": 0, "source": "user", "action": "message", "args": {"content": "go"}},
            {"id": 1, "source": "agent", "action": "run", "args": {"command": "ls"},
                "tool_call_metadata": call}]})
    };
    let own = json!({"prompt_tokens": 10, "completion_tokens": 2});
    let mut of_answer = own.clone();
    of_answer["response_id"] = "r".into();
    let answers =
        json!({"accumulated_cost": 0.5, "costs": [{"cost": 0.5}], "token_usages": [of_answer]});
    let sum = json!({"accumulated_cost": 0.25, "costs": []});
    for (metrics, usage_of_event, expected) in [
        (answers, own.clone(), (1, 10, Some(0.5))),
        (sum.clone(), Value::Null, (1, 0, Some(0.25))),
        (sum, own, (1, 10, None)),
    ] {
        let sandbox = Sandbox::new();
        let file = task("t", metrics, usage_of_event).to_string();
        sandbox.import("s", format!("{file}\n").as_bytes()).unwrap();
        let found = usage(&sandbox, UsageScope::All).total;
        assert_eq!((found.answers, found.tokens.input, found.cost()), expected);
    }
}
