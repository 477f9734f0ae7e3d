//! Strict detection of formats: foreign files are refused, a torn line loses one record, and all
//! usage that an agent paid for is counted.

use std::fs;
use std::sync::Arc;

use serde_json::{Value, json};
use turntree::ErrorKind;
use turntree::maintenance::newest_time;
use turntree::object::Time;
use turntree::workspace::AdoptionCache;
use turntree_exchange::agents::{AdoptOptions, Outcome, SessionPlace, adopt, find};
use turntree_exchange::{PriceTable, UsageBy, UsageQuery, UsageReport, UsageScope, usage_report};
use turntree_tests::{Sandbox, claude_code, stamp};

fn lines(records: &[Value]) -> Vec<u8> {
    records.iter().map(|record| format!("{record}\n")).collect::<String>().into_bytes()
}

fn usage_of(sandbox: &Sandbox) -> UsageReport {
    let prices = PriceTable::built_in();
    let day = |_: Time| String::new();
    let (scope, by) = (UsageScope::All, UsageBy::Agent);
    let query = UsageQuery { scope, by, since: None, prices: &prices, day: &day };
    usage_report(&sandbox.repo, &query).unwrap()
}

/// The answers, the input and output tokens, and the cost.
fn sums(sandbox: &Sandbox) -> (u64, u64, u64, Option<f64>) {
    let total = usage_of(sandbox).total;
    (total.answers, total.tokens.input, total.tokens.output, total.cost())
}

fn qwen(id: u32, kind: &str, parts: &Value) -> Value {
    let parent = id.checked_sub(1).filter(|before| *before > 0).map(|before| before.to_string());
    json!({"uuid": id.to_string(), "parentUuid": parent, "sessionId": "s", "type": kind,
        "cwd": "/p", "message": {"role": "user", "parts": parts}})
}

#[test]
fn files_of_another_format_are_rejected_without_store_changes() {
    let sandbox = Sandbox::new();
    let chat: Vec<Value> =
        (1..5).map(|id| qwen(id, "user", &json!([{"text": format!("prompt {id}")}]))).collect();
    let file = lines(&chat);
    assert_eq!(sandbox.import("s", &file).unwrap().format, "qwen-code");

    let sandbox = Sandbox::new();
    let error = sandbox.import_as("s", "claude-code", &file).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let expected = "read as claude-code, 4 of 4 messages have no text: the file has another format";
    assert!(error.to_string().starts_with(expected), "{error}");
    assert!(sandbox.repo.branches().is_empty());

    let pods = lines(&[json!({"type": "user", "sessionId": "s", "text": "hi"})]);
    let error = sandbox.import("s", &pods).unwrap_err().to_string();
    assert!(error.starts_with("unknown format"), "{error}");
}

#[test]
fn chats_with_an_empty_answer_are_accepted() {
    let sandbox = Sandbox::new();
    let said = |role: &str, text: &str| json!({"role": role, "content": text});
    let chat = lines(&[said("user", "go"), said("assistant", ""), said("user", "on")]);
    assert_eq!(sandbox.import("s", &chat).unwrap().messages, 3);
    let odd = |block: &str| json!({"role": "assistant", "content": [{"type": block, "data": 1}]});
    let chat = lines(&[said("user", "go"), odd("x"), said("user", "on")]);
    assert_eq!(sandbox.import("t", &chat).unwrap().messages, 3);
    let silent = lines(&[said("user", "go"), odd("x"), odd("y")]);
    assert!(sandbox.import("u", &silent).is_err());
}

#[test]
fn sessions_with_empty_steps_are_accepted() {
    // Each client writes steps with only calls, and some clients write a step before its calls are
    // known.
    let gemini = |id: u32, more: Value| {
        let mut record = json!({"id": id.to_string(), "timestamp": "2026-11-20T10:00:00.000Z",
            "type": "gemini", "content": ""});
        record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        record
    };
    let mut log = vec![
        json!({"sessionId": "s", "projectHash": "h", "startTime": "2026-11-20T10:00:00.000Z"}),
        json!({"id": "0", "timestamp": "2026-11-20T10:00:00.000Z", "type": "user",
            "content": [{"text": "go"}]}),
    ];
    for id in 1..6 {
        let call = json!({"id": format!("c{id}"), "name": "ls", "args": {}});
        log.extend([gemini(id, json!({})), gemini(id, json!({"toolCalls": [call]}))]);
    }
    let codex: Vec<Value> = [json!({"type": "session_meta", "payload": {"id": "t", "cwd": "/p"}})]
        .into_iter()
        .chain((0..5).map(|_| {
            json!({"type": "response_item",
                "payload": {"type": "reasoning", "summary": [], "encrypted_content": "x"}})
        }))
        .collect();
    let claude: Vec<Value> = (0..5)
        .map(|id| {
            json!({"type": "assistant", "uuid": id.to_string(), "sessionId": "s", "message": {
                "role": "assistant", "id": id.to_string(),
                "content": [{"type": "thinking", "thinking": "", "signature": "x"}]}})
        })
        .collect();
    let copilot: Vec<Value> = (0..5)
        .map(|id| {
            json!({"type": "assistant.message", "id": id.to_string(), "data": {
                "content": "", "toolRequests": []}})
        })
        .collect();
    for (name, records) in [
        ("gemini-cli-log", log),
        ("codex", codex),
        ("claude-code", claude),
        ("copilot-cli", copilot),
    ] {
        let report = Sandbox::new().import("s", &lines(&records)).unwrap();
        assert_eq!(report.format, name);
        assert!(report.messages >= 5, "{name}");
    }
}

#[test]
fn damaged_lines_lose_only_the_torn_record() {
    let whole = claude_code(9);
    let told: Vec<&str> = whole.lines().collect();
    let torn = &told[1][..told[1].len() - 20];
    let mut damaged: Vec<String> = told.iter().map(|line| (*line).to_owned()).collect();
    damaged[1].insert_str(0, torn);
    damaged[3].insert_str(0, &"\0".repeat(512));
    let file = format!("{}\n", damaged.join("\n"));
    let sandbox = Sandbox::new();
    let report = sandbox.import("torn", file.as_bytes()).unwrap();
    assert_eq!(report.notes.len(), 2, "{:?}", report.notes);
    assert_eq!(sandbox.source(&report.head), file.as_bytes());
    let expected = sandbox.import("whole", whole.as_bytes()).unwrap();
    assert_eq!((report.turns, report.messages), (expected.turns, expected.messages));

    // Lines after a torn last line continue the same branch.
    let sandbox = Sandbox::new();
    let cut = format!("{}\n{torn}", told[0]);
    sandbox.import("grown", cut.as_bytes()).unwrap();
    let grown = format!("{cut}{}\n", told[1]);
    let report = sandbox.import("grown", grown.as_bytes()).unwrap();
    assert_eq!(report.branch.to_string(), "grown/main");
    assert_eq!(sandbox.source(&report.head), grown.as_bytes());
}

#[test]
fn usage_outside_of_the_context_is_counted() {
    let sandbox = Sandbox::new();
    let reply = |reason: &str, cost: f64| {
        json!({"type": "message", "message": {"role": "assistant", "stopReason": reason, "model": "m",
            "content": [{"type": "text", "text": reason}],
            "usage": {"input": 10, "output": 1, "cost": {"total": cost}}}})
    };
    let zeros = json!({"type": "message", "message": {"role": "assistant", "content": "carried on",
        "usage": {"input": 0, "output": 0, "cost": {"total": 0}}}});
    let pi = lines(&[
        json!({"type": "session", "id": "s", "timestamp": "t", "cwd": "/p"}),
        json!({"type": "message", "message": {"role": "user", "content": "go"}}),
        zeros,
        reply("stop", 0.5),
        reply("aborted", 0.25),
        json!({"type": "usage", "kind": "cache_warm", "model": "m",
            "usage": {"input": 10, "output": 1, "cost": {"total": 0.125}}}),
    ]);
    sandbox.import("pi", &pi).unwrap();
    assert_eq!(sums(&sandbox), (3, 30, 3, Some(0.875)));

    let sandbox = Sandbox::new();
    let step = json!({"type": "step-finish", "cost": 0.25,
        "tokens": {"input": 10, "output": 5, "reasoning": 0, "cache": {"read": 0, "write": 0}}});
    let info = |id: &str| {
        json!({"id": id, "role": "assistant", "modelID": "m", "cost": 0.5, "time": {"created": 1},
            "tokens": step["tokens"]})
    };
    let mut failed = info("3");
    failed["error"] = json!({"name": "APIError"});
    let text = json!({"type": "text", "text": "said"});
    let session = json!({"info": {"id": "ses"}, "messages": [
        {"info": {"id": "1", "role": "user"}, "parts": [text]},
        {"info": info("2"), "parts": [step, text, step]},
        {"info": failed, "parts": [text, step]},
    ]});
    sandbox.import("opencode", session.to_string().as_bytes()).unwrap();
    assert_eq!(sums(&sandbox), (2, 30, 15, Some(1.0)));

    let sandbox = Sandbox::new();
    let answer = |cost: f64| json!({"role": "assistant", "content": "x", "extra": {"cost": cost, "actions": []}});
    let run = json!({"info": {"model_stats": {"instance_cost": 0.75}, "mini_version": "2.4.6"},
        "messages": [{"role": "user", "content": "go"}, answer(0.25), answer(0.5)]});
    sandbox.import("mini", run.to_string().as_bytes()).unwrap();
    assert_eq!(sums(&sandbox), (2, 0, 0, Some(0.75)));
}

#[test]
fn session_age_ignores_a_wrong_clock_in_the_last_record() {
    let said = |time: &str| json!({"role": "user", "content": "go", "timestamp": time});
    let now = Time { micros: 1_780_000_000_000_000, offset_minutes: 0 };
    let week = "2026-05-25T10:00:00Z";
    for (session, last, expected) in [
        ("back", "1970-01-01T00:00:00Z", 1_779_703_200_000_000),
        ("ahead", "2031-01-01T00:00:00Z", 1_779_703_200_000_000),
        ("right", "2026-05-25T11:00:00Z", 1_779_706_800_000_000),
    ] {
        let sandbox = Sandbox::new();
        let chat = lines(&[said("2026-05-24T10:00:00Z"), said(week), said(last), said(last)]);
        let head = sandbox.import(session, &chat).unwrap().head;
        let found = newest_time(&sandbox.repo, &[head], now).unwrap().unwrap();
        assert_eq!(found.micros, expected, "{session}");
    }
    let sandbox = Sandbox::new();
    let head = sandbox.import("old", &lines(&[said("1970-01-02T00:00:00Z")])).unwrap().head;
    assert_eq!(newest_time(&sandbox.repo, &[head], now).unwrap().unwrap().micros, 86_400_000_000);
}

#[test]
fn openhands_conversations_are_found_grow_and_have_costs() {
    let sandbox = Sandbox::new();
    let folder = sandbox.folder().join("conversations/c1");
    let events = folder.join("events");
    fs::create_dir_all(&events).unwrap();
    let write = |number: u32, role: &str| {
        let event = json!({"kind": "MessageEvent", "id": format!("e{number}"), "source": role,
            "timestamp": "2026-05-01T10:00:00", "llm_response_id": format!("r{}", number / 2), "llm_message":
            {"role": role, "content": [{"type": "text", "text": format!("said {number}")}]}});
        fs::write(events.join(format!("event-{number:05}-e{number}.json")), event.to_string())
            .unwrap();
    };
    let state = |answers: u64| {
        let taken = |at| json!({"prompt_tokens": 10, "completion_tokens": 2, "response_id": format!("r{at}")});
        let state = json!({"id": "c1", "stats": {"usage_to_metrics": {"agent": {
            "model_name": "m", "accumulated_cost": 0.5 * answers as f64,
            "costs": (0..answers).map(|_| json!({"cost": 0.5})).collect::<Vec<_>>(),
            "token_usages": (0..answers).map(taken).collect::<Vec<_>>()}}}});
        fs::write(folder.join("base_state.json"), state.to_string()).unwrap();
    };
    let place = SessionPlace {
        agent: "openhands".to_owned(),
        path: sandbox.folder().join("conversations"),
    };
    let adopt_all = || {
        let found = find(std::slice::from_ref(&place));
        assert_eq!((found.sessions.len(), found.odd.len()), (1, 0));
        let options = AdoptOptions {
            stamp: stamp(1),
            adoption: Arc::default(),
            is_live: false,
            head: None,
            passed: &|_| {},
        };
        // Files that changed within the resolution of the clock are not remembered.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let mut seen = AdoptionCache::open(&sandbox.repo);
        let adopted = adopt(&sandbox.repo, found.sessions, &options, &mut seen).unwrap();
        seen.save().unwrap();
        match &adopted[0].outcome {
            Outcome::Imported(report) => (report.turns, report.branch.to_string()),
            Outcome::Unchanged => (0, String::new()),
            Outcome::Failed(error) => panic!("{error}"),
        }
    };
    write(0, "user");
    write(1, "assistant");
    state(1);
    assert_eq!(adopt_all(), (2, "c1/main".to_owned()));
    assert_eq!(sums(&sandbox), (1, 10, 2, Some(0.5)));
    write(2, "user");
    write(3, "assistant");
    state(2);
    assert_eq!(adopt_all(), (2, "c1/main".to_owned()));
    assert_eq!(sums(&sandbox), (2, 20, 4, Some(1.0)));
    assert_eq!(adopt_all().0, 0);
    // A torn event does not hide the ones after it, and a torn last one waits.
    fs::write(events.join("event-00004-e4.json"), "{\"kind\": \"Mess").unwrap();
    assert_eq!(adopt_all().0, 0);
    write(5, "user");
    assert_eq!(adopt_all(), (1, "c1/main".to_owned()));
}
