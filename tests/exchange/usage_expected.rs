//! `usage` on rebuilt cases from the tests of a popular token counter, with their published sums.

use serde_json::{Value, json};
use turntree_exchange::{
    PriceTable, TokenUsage, UsageBy, UsageQuery, UsageReport, UsageScope, usage_report,
};
use turntree_tests::Sandbox;

fn lines(records: &[Value]) -> Vec<u8> {
    records.iter().map(|record| format!("{record}\n")).collect::<String>().into_bytes()
}

/// The report on sessions with these records.
fn report(sessions: &[(&str, Vec<u8>)]) -> UsageReport {
    let sandbox = Sandbox::new();
    for (session, bytes) in sessions {
        sandbox.import(session, bytes).unwrap();
    }
    let prices = PriceTable::built_in();
    let day = |_| String::new();
    let (scope, by) = (UsageScope::All, UsageBy::Session);
    let query = UsageQuery { scope, by, since: None, prices: &prices, day: &day };
    usage_report(&sandbox.repo, &query).unwrap()
}

/// The answers, the input tokens, the cached ones among them, and the output tokens.
fn sums(report: &UsageReport) -> [u64; 4] {
    let TokenUsage { input, cache_read, output, .. } = report.total.tokens;
    [report.total.answers, input, cache_read, output]
}

const START: &str = "2026-05-12T08:00:00.000Z";
const LATER: &str = "2026-05-12T08:04:00.000Z";

fn codex(time: &str, kind: &str, payload: Value) -> Value {
    json!({"timestamp": time, "type": kind, "payload": payload})
}

/// An event with the sum of all requests so far, and the counts of the last request if given.
fn count(time: &str, sum: [u64; 3], last: Option<[u64; 3]>) -> Value {
    let counts = |[input, cached, output]: [u64; 3]| {
        json!({"input_tokens": input, "cached_input_tokens": cached, "output_tokens": output,
            "total_tokens": input + output})
    };
    let mut info = json!({"total_token_usage": counts(sum)});
    if let Some(last) = last {
        info["last_token_usage"] = counts(last);
    }
    codex(time, "event_msg", json!({"type": "token_count", "info": info}))
}

/// A prompt, its answer, and the usage event after it.
fn asked(time: &str, text: &str, counted: Value) -> Vec<Value> {
    let said = |role: &str, kind: &str| {
        let content = json!([{"type": kind, "text": text}]);
        codex(time, "response_item", json!({"type": "message", "role": role, "content": content}))
    };
    vec![said("user", "input_text"), said("assistant", "output_text"), counted]
}

fn rollout(id: &str, more: Value, parts: &[Vec<Value>]) -> Vec<u8> {
    let mut meta = json!({"id": id, "cwd": "/p", "timestamp": START});
    meta.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let model = codex(START, "turn_context", json!({"model": "gpt-5.2", "cwd": "/p"}));
    let mut all = vec![codex(START, "session_meta", meta), model];
    all.extend(parts.concat());
    lines(&all)
}

#[test]
fn codex_forks_count_the_growth_of_the_running_total() {
    let history = asked(START, "one", count(START, [1000, 100, 200], None));
    let more = asked(LATER, "two", count(LATER, [1600, 300, 450], None));
    let parent = rollout("a", json!({}), std::slice::from_ref(&history));
    let fork = rollout("b", json!({"forked_from_id": "a"}), &[history, more]);
    let found = report(&[("a", parent.clone()), ("b", fork.clone())]);
    assert_eq!(sums(&found), [2, 1600, 300, 450]);
    assert_eq!(sums(&report(&[("b", fork), ("a", parent)])), [2, 1600, 300, 450]);
}

#[test]
fn codex_sub_agents_do_not_count_repeated_history() {
    let replay = |time| {
        let first = asked(time, "one", count(time, [1000, 100, 200], Some([1000, 100, 200])));
        let second = asked(time, "two", count(time, [1500, 150, 300], Some([500, 50, 100])));
        [first, second]
    };
    let parent = rollout("a", json!({}), &replay(START));
    let agent = |id: &str, own: Vec<Value>| {
        let spawn = json!({"parent_thread_id": "a", "depth": 1});
        let source = json!({"subagent": {"thread_spawn": spawn}});
        let [first, second] = replay("2026-05-12T08:03:00.000Z");
        rollout(id, json!({"forked_from_id": "a", "source": source}), &[first, second, own])
    };
    // The sum starts at zero in the first, continues in the second, and is the only count in the third.
    let new = asked(LATER, "new", count(LATER, [100, 10, 20], Some([100, 10, 20])));
    let on = asked(LATER, "on", count(LATER, [1550, 155, 310], Some([50, 5, 10])));
    let sum = asked(LATER, "sum", count(LATER, [1600, 160, 320], None));
    let agents = [("b", agent("b", new)), ("c", agent("c", on)), ("d", agent("d", sum))];
    let found = report(&[&[("a", parent)][..], &agents].concat());
    assert_eq!(sums(&found), [5, 1500 + 100 + 50 + 100, 150 + 10 + 5 + 10, 300 + 20 + 10 + 20]);
}

/// A line of Claude Code; `answer` is the message id, the cached input and the output of an assistant message.
fn claude(uuid: &str, parent: Option<&str>, text: &str, answer: Option<(&str, u64, u64)>) -> Value {
    let (kind, mut message) = match answer {
        None => ("user", json!({"role": "user", "content": text})),
        Some(_) => (
            "assistant",
            json!({"role": "assistant", "type": "message",
            "content": [{"type": "text", "text": text}]}),
        ),
    };
    if let Some((id, cached, output)) = answer {
        message["id"] = id.into();
        message["model"] = "claude-sonnet-4-5".into();
        message["usage"] =
            json!({"input_tokens": 0, "cache_read_input_tokens": cached, "output_tokens": output});
    }
    json!({"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s-1", "cwd": "/p",
        "requestId": format!("request of {uuid}"), "isSidechain": false, "message": message,
        "timestamp": "2026-03-29T07:00:00.000Z"})
}

#[test]
fn side_questions_do_not_count_copied_answers() {
    let talk =
        [claude("1", None, "Well?", None), claude("2", Some("1"), "So.", Some(("m", 20, 10)))];
    let mut aside = [
        claude("3", None, "Well?", None),
        claude("4", Some("3"), "So.", Some(("m", 50_000, 10))),
        claude("5", Some("4"), "And?", None),
        claude("6", Some("5"), "Or.", Some(("n", 700, 30))),
    ];
    aside.iter_mut().for_each(|line| line["isSidechain"] = true.into());
    for records in [[&talk[..], &aside].concat(), [&aside[..], &talk].concat()] {
        assert_eq!(sums(&report(&[("s-1", lines(&records))])), [2, 720, 720, 40]);
    }
    // If a gateway gives all answers the same id, different answers still count separately.
    aside[3]["message"]["id"] = "m".into();
    let records = [&talk[..], &aside].concat();
    assert_eq!(sums(&report(&[("s-1", lines(&records))])), [2, 720, 720, 40]);
}

#[test]
fn nested_sub_agent_records_are_counted() {
    let mut inner = claude("9", None, "Mine.", Some(("m", 20, 10)));
    inner["isSidechain"] = true.into();
    let mut outer = claude("3", Some("2"), "", None);
    outer["type"] = "progress".into();
    outer["data"] = json!({"type": "agent_progress", "agentId": "a1", "message": inner});
    let records =
        [claude("1", None, "Well?", None), claude("2", Some("1"), "So.", Some(("n", 7, 3))), outer];
    assert_eq!(sums(&report(&[("s-1", lines(&records))])), [2, 27, 27, 13]);
}

#[test]
fn totals_without_input_and_output_are_counted_in_every_format() {
    let pi = lines(&[
        json!({"type": "session", "version": 3, "id": "p", "timestamp": START, "cwd": "/p"}),
        json!({"type": "message", "id": "1", "parentId": null, "timestamp": START,
            "message": {"role": "user", "content": "Well?"}}),
        json!({"type": "message", "id": "2", "parentId": "1", "timestamp": START,
            "message": {"role": "assistant", "model": "gpt-5", "usage": {"totalTokens": 333},
                "content": [{"type": "text", "text": "So."}]}}),
    ]);
    let qwen = |kind: &str, uuid: &str, parent: Option<&str>, text: &str| {
        json!({"uuid": uuid, "parentUuid": parent, "sessionId": "q", "timestamp": START,
            "type": kind, "cwd": "/p", "version": "0.24.4",
            "message": {"role": "user", "parts": [{"text": text}]}})
    };
    let mut answer = qwen("assistant", "2", Some("1"), "So.");
    answer["message"]["role"] = "model".into();
    answer["model"] = "qwen3-coder".into();
    answer["usageMetadata"] = json!({"totalTokenCount": 333});
    let qwen = lines(&[qwen("user", "1", None, "Well?"), answer]);
    let gemini = json!({"sessionId": "g", "projectHash": "p", "startTime": START,
        "lastUpdated": START, "messages": [
            {"id": "1", "timestamp": START, "type": "user", "content": "Well?"},
            {"id": "2", "timestamp": START, "type": "gemini", "content": "So.",
                "model": "gemini-3-pro", "tokens": {"total": 333}}]});
    for (what, bytes) in [
        ("pi", pi),
        ("qwen-code", qwen),
        ("gemini-cli", gemini.to_string().into_bytes()),
        ("opencode", opencode(&json!({"total": 333}), 0.0)),
    ] {
        let found = report(&[("s", bytes)]);
        // Input and output have different prices, so a total has none.
        assert_eq!((sums(&found), found.total.is_whole()), ([1, 0, 0, 333], false), "{what}");
    }
}

fn opencode(tokens: &Value, cost: f64) -> Vec<u8> {
    let part = |text: &str, message: &str| {
        json!({"id": format!("p{message}"), "messageID": message, "sessionID": "ses", "type": "text",
            "text": text})
    };
    let document = json!({"info": {"id": "ses", "directory": "/p", "title": "t",
            "time": {"created": 1, "updated": 2}},
        "messages": [
            {"info": {"id": "1", "sessionID": "ses", "role": "user", "time": {"created": 1}},
                "parts": [part("Well?", "1")]},
            {"info": {"id": "2", "sessionID": "ses", "role": "assistant", "providerID": "openai",
                "modelID": "gpt-5", "time": {"created": 2}, "tokens": tokens, "cost": cost},
                "parts": [part("So.", "2")]}]});
    document.to_string().into_bytes()
}

#[test]
fn recorded_zero_costs_are_ignored_where_a_price_is_known() {
    let tokens = json!({"input": 1_000_000, "output": 0, "cache": {"read": 0, "write": 0}});
    let cost = |recorded| report(&[("s", opencode(&tokens, recorded))]).total.cost();
    assert_eq!(cost(0.25), Some(0.25));
    let prices = PriceTable::built_in();
    let taken = TokenUsage { input: 1_000_000, ..TokenUsage::default() };
    assert_eq!(cost(0.0), prices.cost("gpt-5", &taken));
}
