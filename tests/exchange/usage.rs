//! `usage` on recorded sessions: its sums equal those that the test counts in the files.

use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::{Value, json};
use turntree::repo::{BranchName, Repository};
use turntree_exchange::{
    PriceTable, TokenUsage, UsageBy, UsageGaps, UsageQuery, UsageReport, UsageScope, compare,
    usage_gaps, usage_report,
};
use turntree_tests::{Sandbox, claude_code_turn, recorded_sessions, stamp};

/// The recorded sessions of an agent, if any.
fn recorded(agent: &str) -> Vec<PathBuf> {
    let is_of = |file: &PathBuf| file.parent().is_some_and(|folder| folder.ends_with(agent));
    let files: Vec<PathBuf> = recorded_sessions().into_iter().filter(is_of).collect();
    if files.is_empty() {
        eprintln!("skipped: no recorded sessions of {agent}");
    }
    files
}

fn report(repo: &Repository, scope: UsageScope<'_>, by: UsageBy) -> UsageReport {
    let prices = PriceTable::built_in();
    let day = |time: turntree::object::Time| (time.micros / 86_400_000_000).to_string();
    let query = UsageQuery { scope, by, since: None, prices: &prices, day: &day };
    usage_report(repo, &query).unwrap()
}

/// The records of a file, even if several are on one line.
fn records(text: &str) -> impl Iterator<Item = Value> {
    let on_line = |line| serde_json::Deserializer::from_str(line).into_iter().map_while(Result::ok);
    text.lines().flat_map(on_line)
}

fn number(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

/// The usage in a file of Claude Code: the largest counts of each answer, including those of
/// sub-agents.
fn of_claude_code(text: &str) -> (u64, TokenUsage) {
    let mut answers: HashMap<(String, String), [u64; 4]> = HashMap::new();
    for record in records(text) {
        let line = match record["type"].as_str() {
            Some("progress") => &record["data"]["message"],
            Some("user" | "assistant") => &record,
            _ => continue,
        };
        let usage = &line["message"]["usage"];
        if !usage.is_object() {
            continue;
        }
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let counts = answers.entry((word(&line["message"]["id"]), word(&line["requestId"])));
        let names = [
            "/input_tokens",
            "/cache_creation_input_tokens",
            "/cache_read_input_tokens",
            "/output_tokens",
        ];
        for (count, name) in counts.or_default().iter_mut().zip(names) {
            *count = (*count).max(number(usage, name));
        }
    }
    // Answers without tokens are not answers of a model.
    answers.retain(|_, counts| counts.iter().any(|count| *count > 0));
    let sum = |at: usize| answers.values().map(|counts| counts[at]).sum::<u64>();
    let tokens = TokenUsage {
        input: sum(0) + sum(1) + sum(2),
        cache_write: sum(1),
        cache_read: sum(2),
        output: sum(3),
        ..TokenUsage::default()
    };
    (answers.len() as u64, tokens)
}

#[test]
fn answers_rewritten_without_a_request_id_are_counted_once() {
    let line = |uuid: &str, parent: Option<&str>, kind: &str, message: Value| json!({"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s", "message": message});
    let said = |id: &str| {
        json!({"role": "assistant", "id": id, "model": "m",
        "content": [{"type": "text", "text": "yes"}],
        "usage": {"input_tokens": 10, "output_tokens": 2, "iterations": [
            {"type": "advisor_message", "model": "a", "input_tokens": 100, "output_tokens": 7}]}})
    };
    let asked = |mut line: Value, request: &str| {
        line["requestId"] = request.into();
        line
    };
    let prompt = |text: &str| json!({"role": "user", "content": text});
    // Like 1.0.51 when its SDK continues: the last answer starts the new file, without a request.
    let lines = [
        line("1", None, "user", prompt("first")),
        asked(line("2", Some("1"), "assistant", said("msg_1")), "req_1"),
        line("3", None, "assistant", said("msg_1")),
        line("4", Some("3"), "user", prompt("second")),
        asked(line("5", Some("4"), "assistant", said("msg_2")), "req_2"),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let sandbox = Sandbox::new();
    sandbox.import("s", text.as_bytes()).unwrap();
    let total = report(&sandbox.repo, UsageScope::Session("s"), UsageBy::Model).total;
    // Each of the two answers has consulted an advisor.
    assert_eq!((total.answers, total.tokens.input, total.tokens.output), (4, 220, 18));
}

#[test]
fn claude_code_answers_are_counted_once() {
    for file in recorded("claude-code") {
        let text = std::fs::read_to_string(&file).unwrap();
        let (answers, tokens) = of_claude_code(&text);
        let sandbox = Sandbox::new();
        sandbox.import("s", text.as_bytes()).unwrap();
        let found = report(&sandbox.repo, UsageScope::Session("s"), UsageBy::Model);
        let total = TokenUsage { cache_write_hour: 0, ..found.total.tokens };
        assert_eq!((found.total.answers, total), (answers, tokens), "{}", file.display());

        // Rows of any kind have the same sum.
        for by in [UsageBy::Branch, UsageBy::Agent, UsageBy::Day, UsageBy::Tool] {
            let rows = report(&sandbox.repo, UsageScope::Session("s"), by).rows;
            let sum = rows
                .iter()
                .map(|(_, row)| row.tokens)
                .fold(TokenUsage::default(), TokenUsage::plus);
            assert_eq!(sum, found.total.tokens, "{by:?}");
        }
        // A copy in another session has the same answers.
        sandbox.import("copy", text.as_bytes()).unwrap();
        let all = report(&sandbox.repo, UsageScope::All, UsageBy::Session);
        assert_eq!(all.total, found.total, "{}", file.display());
    }
}

#[test]
fn sub_agents_have_separate_usage_rows() {
    for file in recorded("claude-code") {
        let text = std::fs::read_to_string(&file).unwrap();
        if !text.contains("\"agent_progress\"") {
            continue;
        }
        let sandbox = Sandbox::new();
        sandbox.import("s", text.as_bytes()).unwrap();
        let found = report(&sandbox.repo, UsageScope::Session("s"), UsageBy::Agent);
        let of_sub_agents = |(name, _): &&(String, _)| name.ends_with("@main");
        assert!(found.rows.iter().filter(of_sub_agents).count() > 0, "{}", file.display());
        assert!(found.rows.iter().any(|(name, _)| name == "claude-code/main"));
    }
}

#[test]
fn codex_usage_equals_the_final_running_total() {
    for file in recorded("codex") {
        let text = std::fs::read_to_string(&file).unwrap();
        let sums = records(&text)
            .filter_map(|record| record.pointer("/payload/info/total_token_usage").cloned());
        let sum = sums.last().unwrap();
        let sandbox = Sandbox::new();
        let tip = sandbox.import("s", text.as_bytes()).unwrap().head;
        let found = report(&sandbox.repo, UsageScope::Session("s"), UsageBy::Model).total.tokens;
        let expected = TokenUsage {
            input: number(&sum, "/input_tokens"),
            cache_read: number(&sum, "/cached_input_tokens"),
            output: number(&sum, "/output_tokens"),
            reasoning: number(&sum, "/reasoning_output_tokens"),
            ..TokenUsage::default()
        };
        assert_eq!(found, expected, "{}", file.display());

        // A comparison of strategies has the same sum, from the first turn on.
        let main = Some(BranchName::main("s").unwrap());
        let first = sandbox.repo.history(&[tip], &[]).unwrap().first_parent().last().unwrap();
        let lines = [(main, tip), (None, first.unwrap().id)];
        let compared = compare(&sandbox.repo, &lines, &PriceTable::default()).unwrap();
        assert_eq!(compared.strategies[0].spending.unwrap().tokens, expected);
    }
}

#[test]
fn pi_cost_equals_the_recorded_cost() {
    for file in recorded("pi") {
        let text = std::fs::read_to_string(&file).unwrap();
        let cost = |record: Value| record.pointer("/message/usage/cost/total")?.as_f64();
        let sum: f64 = records(&text).filter_map(cost).sum();
        let sandbox = Sandbox::new();
        sandbox.import("s", text.as_bytes()).unwrap();
        let total = report(&sandbox.repo, UsageScope::All, UsageBy::Session).total;
        let found = total.recorded_cost.unwrap();
        assert!((found - sum).abs() < 1e-6, "{}: {found}, not {sum}", file.display());
        assert_eq!((total.priced_cost, total.unpriced_tokens), (None, 0));
    }
}

/// The records of a Claude Code turn with its usage, after another record.
fn record(turn: usize, parent: Option<&str>, answer: &str, output: u64) -> Vec<String> {
    let usage = format!(
        r#""id":"{answer}","usage":{{"input_tokens":1,"output_tokens":{output}}},"model":"claude-opus-4-5""#
    );
    let parent = parent.map_or_else(|| "null".to_owned(), |parent| format!("\"{parent}\""));
    let mut chain = parent;
    let mut told = Vec::new();
    for (part, line) in claude_code_turn(turn).into_iter().enumerate() {
        let line = line.replace(&format!(r#""id":"msg-{turn}","model":"model-1""#), &usage);
        let line = line.replacen("{\"type\"", &format!("{{\"parentUuid\":{chain},\"type\""), 1);
        let uuid = if turn.is_multiple_of(4) { 0 } else { part + 1 };
        chain = format!("\"u-{turn}-{uuid}\"");
        told.push(line);
    }
    told
}

#[test]
fn usage_of_abandoned_branches_is_separate_until_they_continue() {
    let mut lines = record(0, None, "", 0);
    lines.extend(record(1, Some("u-0-0"), "m1", 100));
    lines.extend(record(2, Some("u-1-2"), "m2", 20));
    // A rewind to turn 1.
    lines.extend(record(3, Some("u-1-2"), "m3", 3));
    let sandbox = Sandbox::new();
    sandbox.import("s", (lines.join("\n") + "\n").as_bytes()).unwrap();
    assert_eq!(sandbox.repo.branches().len(), 2, "main and its abandoned branch");
    let found = report(&sandbox.repo, UsageScope::Session("s"), UsageBy::Branch);
    assert_eq!(found.total.tokens.output, 123);
    assert_eq!(found.left_behind.tokens.output, 20);

    // The user continues on the abandoned line.
    lines.extend(record(5, Some("u-2-2"), "m5", 5));
    sandbox.import("s", (lines.join("\n") + "\n").as_bytes()).unwrap();
    let found = report(&sandbox.repo, UsageScope::Session("s"), UsageBy::Branch);
    assert_eq!(found.total.tokens.output, 128);
    assert_eq!(found.left_behind.tokens.output, 3);
}

#[test]
fn manual_forks_do_not_count_as_abandoned() {
    let mut lines = record(0, None, "", 0);
    lines.extend(record(1, Some("u-0-0"), "m1", 100));
    lines.extend(record(2, Some("u-1-2"), "m2", 20));
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let tip = sandbox.import("s", (lines.join("\n") + "\n").as_bytes()).unwrap().head;
    let mut change = repo.begin();
    let plan = BranchName::new("s", "plan").unwrap();
    change.move_branch(&plan, Some(repo.commit(&tip).unwrap().parents[0]));
    change.commit(&stamp(2), "fork").unwrap();
    let found = report(repo, UsageScope::Session("s"), UsageBy::Branch);
    assert_eq!((found.total.tokens.output, found.left_behind.answers), (120, 0));
}

/// A session of Claude Code with one answer that has `usage` and `more`.
fn answered(usage: Value, more: &Value) -> String {
    let mut line = serde_json::json!({"type": "assistant", "uuid": "a", "sessionId": "s",
        "parentUuid": "u", "message": {"role": "assistant", "id": "m", "model": "claude-opus-4-6",
        "content": [{"type": "text", "text": "So."}], "usage": usage}});
    line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let prompt = serde_json::json!({"type": "user", "uuid": "u", "sessionId": "s",
        "parentUuid": null, "message": {"role": "user", "content": "Well?"}});
    format!("{prompt}\n{line}\n{line}\n")
}

#[test]
fn extra_charges_are_priced_or_reported_as_missing() {
    use serde_json::json;
    let usage = |more: Value| {
        let mut usage = json!({"input_tokens": 1_000_000, "output_tokens": 0});
        usage.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        usage
    };
    let advisor = json!({"iterations": [
        {"type": "message", "input_tokens": 1_000_000, "output_tokens": 0},
        {"type": "advisor_message", "model": "claude-opus-4-1", "input_tokens": 100_000,
            "output_tokens": 0}]});
    let cases = [
        ("tokens alone", usage(json!({})), json!({}), (1, 5.0, true)),
        (
            "the usual way",
            usage(json!({"speed": "standard", "service_tier": "standard"})),
            json!({}),
            (1, 5.0, true),
        ),
        ("an advisor", usage(advisor), json!({}), (2, 6.5, true)),
        (
            "searches",
            usage(json!({"server_tool_use": {"web_search_requests": 100}})),
            json!({}),
            (1, 6.0, true),
        ),
        ("served fast", usage(json!({"speed": "fast"})), json!({}), (1, 30.0, true)),
        (
            "served before others",
            usage(json!({"service_tier": "priority"})),
            json!({}),
            (1, 5.0, false),
        ),
        (
            "a cost of its own",
            usage(json!({"speed": "fast"})),
            json!({"costUSD": 0.25}),
            (1, 0.25, true),
        ),
    ];
    for (what, usage, more, expected) in cases {
        let sandbox = Sandbox::new();
        sandbox.import("s", answered(usage, &more).as_bytes()).unwrap();
        let total = report(&sandbox.repo, UsageScope::Session("s"), UsageBy::Model).total;
        let cents = (total.cost().unwrap() * 100.0).round() / 100.0;
        assert_eq!((total.answers, cents, total.is_whole()), expected, "{what}");
    }
}

#[test]
fn answers_without_usage_are_found_in_every_format() {
    let codex = |count: &str| {
        let message = r#"{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"So."}]}}"#;
        let meta = r#"{"type":"session_meta","payload":{"id":"c","cwd":"/p"}}"#;
        let turn = r#"{"type":"turn_context","payload":{"model":"gpt-5","cwd":"/p"}}"#;
        let prompt = r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Well?"}]}}"#;
        format!("{meta}\n{turn}\n{prompt}\n{message}\n{count}")
    };
    let count = r#"{"type":"event_msg","payload":{"type":"token_count","info":{"last_token_usage":{"input_tokens":5,"output_tokens":1},"total_token_usage":{"input_tokens":5,"output_tokens":1}}}}"#;
    let chat =
        r#"{"messages":[{"role":"user","content":"Well?"},{"role":"assistant","content":"So."}]}"#;
    let claude = |usage| answered(usage, &serde_json::json!({}));
    let cases = [
        ("claude-code", claude(serde_json::json!({"input_tokens": 1, "output_tokens": 1})), [0, 0]),
        ("claude-code without", claude(Value::Null), [1, 0]),
        ("claude-code, output", claude(serde_json::json!({"output_tokens": 1})), [0, 1]),
        ("codex", codex(count), [0, 0]),
        ("codex without", codex(""), [1, 0]),
        ("openai-chat", chat.to_owned(), [1, 0]),
    ];
    for (what, text, expected) in cases {
        let sandbox = Sandbox::new();
        sandbox.import("s", text.as_bytes()).unwrap();
        let prices = PriceTable::default();
        let day = |_| String::new();
        let (scope, by) = (UsageScope::All, UsageBy::Model);
        let query = UsageQuery { scope, by, since: None, prices: &prices, day: &day };
        let gaps = usage_gaps(&sandbox.repo, &query).unwrap();
        let sum = |of: fn(&UsageGaps) -> u64| gaps.iter().map(of).sum::<u64>();
        assert_eq!([sum(|it| it.without_tokens), sum(|it| it.output_alone)], expected, "{what}");
        let total = usage_report(&sandbox.repo, &query).unwrap().total;
        assert_eq!(total.answers, 1 - expected[0], "{what}");
    }
}

#[test]
fn cline_window_requests_count_as_answers_with_cost() {
    let request = |usage: Value| {
        json!({"ts": 2, "type": "say", "say": "api_req_started", "text": usage.to_string(),
            "modelInfo": {"providerId": "v", "modelId": "m"}})
    };
    let say = |kind: &str, text: &str| json!({"ts": 3, "type": "say", "say": kind, "text": text});
    let window = json!([
        say("task", "go"),
        request(json!({"request": "...", "tokensIn": 10, "tokensOut": 5, "cacheWrites": 20,
            "cacheReads": 70, "cost": 0.25})),
        say("text", "I will"),
        say("tool", "{\"tool\":\"readFile\"}"),
        request(json!({"request": "...", "tokensIn": 1, "tokensOut": 2, "cost": 0})),
        say("completion_result", "done"),
        request(json!({"request": "interrupted"})),
    ]);
    let sandbox = Sandbox::new();
    sandbox.import("s", window.to_string().as_bytes()).unwrap();
    let found = crate::client_branches::usage(&sandbox, UsageScope::All).total;
    assert_eq!((found.answers, found.tokens.input, found.tokens.output), (2, 11 + 90, 7));
    assert_eq!((found.tokens.cache_read, found.tokens.cache_write), (70, 20));
}

#[test]
fn copied_steps_count_only_in_their_original_trajectory() {
    // Harbor 0.26.0 writes copied steps without metrics (terminus-2) or with them (Kimi Code).
    let step = |number: u32, source: &str, copied: bool| {
        let mut step = json!({"step_id": number, "source": source, "message": format!("said {number}"),
            "timestamp": "2026-05-01T10:00:00Z"});
        if source == "agent" {
            step["metrics"] = json!({"prompt_tokens": 10, "completion_tokens": 2});
        }
        if copied {
            step["is_copied_context"] = true.into();
        }
        step
    };
    let trajectory = |session: &str, steps: &[Value]| {
        json!({"schema_version": "ATIF-v1.7", "session_id": session, "agent": {"name": "a",
            "version": "1", "model_name": "m"}, "steps": steps})
        .to_string()
    };
    let first = [step(1, "user", false), step(2, "agent", false)];
    let mut bare = step(2, "agent", true);
    bare.as_object_mut().unwrap().remove("metrics");
    let second = [step(1, "user", true), bare, step(2, "agent", true), step(3, "agent", false)];
    let sandbox = Sandbox::new();
    sandbox.import("first", trajectory("s", &first).as_bytes()).unwrap();
    let head = sandbox.import("second", trajectory("s-cont-1", &second).as_bytes()).unwrap().head;
    let found = crate::client_branches::usage(&sandbox, UsageScope::All).total;
    assert_eq!((found.answers, found.tokens.input, found.tokens.output), (2, 20, 4));
    assert_eq!(sandbox.messages(&head).len(), 4, "they are sent");
}
