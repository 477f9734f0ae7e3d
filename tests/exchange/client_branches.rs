//! Conversations rewound in their client: rollback records in a log, and files that were truncated.

use std::io::Cursor;

use serde_json::{Value, json};
use turntree::object::{Kind, ObjectSource};
use turntree_exchange::formats::view;
use turntree_exchange::{
    FollowOptions, PriceTable, UsageBy, UsageQuery, UsageReport, UsageScope, follow, usage_report,
};
use turntree_tests::{Sandbox, stamp};

/// A rollout of Codex under construction.
pub(crate) struct Rollout {
    pub(crate) lines: Vec<Value>,
    /// Tokens of all answers so far.
    sum: u64,
    /// The number of the next line, if lines are numbered.
    ordinal: Option<u64>,
}

impl Rollout {
    pub(crate) fn new(meta: &Value) -> Self {
        let mut rollout = Self { lines: Vec::new(), sum: 0, ordinal: None };
        rollout.line("session_meta", meta);
        rollout
    }

    /// A rollout with numbered lines, starting where its base ends.
    pub(crate) fn numbered(meta: &Value, sum: u64) -> Self {
        let first = meta.pointer("/history_base/end_ordinal_exclusive");
        let ordinal = Some(first.and_then(Value::as_u64).unwrap_or(0));
        let mut rollout = Self { lines: Vec::new(), sum, ordinal };
        rollout.line("session_meta", meta);
        rollout
    }

    pub(crate) fn line(&mut self, kind: &str, payload: &Value) -> &mut Self {
        let mut line =
            json!({"timestamp": "2026-06-22T12:00:00Z", "type": kind, "payload": payload});
        if let Some(ordinal) = &mut self.ordinal {
            line["ordinal"] = (*ordinal).into();
            *ordinal += 1;
        }
        self.lines.push(line);
        self
    }

    pub(crate) fn said(&mut self, role: &str, text: &str) -> &mut Self {
        let kind = if role == "assistant" { "output_text" } else { "input_text" };
        let content = json!([{"type": kind, "text": text}]);
        let message = json!({"type": "message", "role": role, "content": content});
        self.line("response_item", &message)
    }

    /// Adds a prompt and its answer, which uses ten tokens.
    pub(crate) fn turn(&mut self, id: &str) -> &mut Self {
        self.line("event_msg", &json!({"type": "task_started", "turn_id": id}));
        self.line("turn_context", &json!({"model": "gpt-5", "turn_id": id}));
        self.said("user", &format!("prompt {id}")).said("assistant", &format!("answer {id}"));
        self.counted(10)
    }

    pub(crate) fn counted(&mut self, tokens: u64) -> &mut Self {
        self.sum += tokens;
        let usage = |tokens: u64| json!({"input_tokens": tokens, "output_tokens": 0});
        let info = json!({"total_token_usage": usage(self.sum), "last_token_usage": usage(tokens)});
        self.line("event_msg", &json!({"type": "token_count", "info": info}))
    }

    /// Continues with the token sum of `other`.
    pub(crate) fn sum_of(&mut self, other: &Self) -> &mut Self {
        self.sum = other.sum;
        self
    }

    fn back(&mut self, turns: u64) -> &mut Self {
        self.line("event_msg", &json!({"type": "thread_rolled_back", "num_turns": turns}))
    }

    pub(crate) fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }
}

/// The texts of the conversation of a branch.
pub(crate) fn said(sandbox: &Sandbox, branch: &str) -> Vec<String> {
    let head = sandbox.repo.resolve(branch).unwrap().commit;
    let format = fact(sandbox, branch, "format").unwrap();
    let messages = sandbox.messages(&head).into_iter();
    messages.map(|message| view(&format, message.as_bytes()).text).collect()
}

/// A fact of the session at a branch.
pub(crate) fn fact(sandbox: &Sandbox, branch: &str, key: &str) -> Option<String> {
    let head = sandbox.repo.resolve(branch).unwrap().commit;
    let store = sandbox.repo.store();
    let facts = sandbox.repo.context(&head).unwrap().map(store, "meta").unwrap();
    let item = facts.get(store, key.as_bytes()).unwrap()?;
    let bytes = store.read_as(Kind::Blob, &item.link.id).unwrap();
    Some(String::from_utf8(bytes.to_vec()).unwrap())
}

pub(crate) fn usage(sandbox: &Sandbox, scope: UsageScope<'_>) -> UsageReport {
    let prices = PriceTable::default();
    let day = |_| String::new();
    let query = UsageQuery { scope, by: UsageBy::Model, since: None, prices: &prices, day: &day };
    usage_report(&sandbox.repo, &query).unwrap()
}

fn follow_file(sandbox: &Sandbox, text: &str) {
    let options = FollowOptions::new("s", stamp(1));
    follow(&sandbox.repo, Cursor::new(text.as_bytes()), None, options).unwrap();
}

#[test]
fn codex_rollback_marks_abandon_prompts_on_a_branch() {
    let mut rollout = Rollout::new(&json!({"id": "a", "cwd": "/p"}));
    rollout.turn("1").turn("2").turn("3");
    let before = rollout.text();
    rollout.back(1).back(1).turn("4");
    let sandbox = Sandbox::new();
    sandbox.import("s", before.as_bytes()).unwrap();
    let report = sandbox.import("s", rollout.text().as_bytes()).unwrap();
    let living = ["prompt 1", "answer 1", "prompt 4", "answer 4"];
    assert_eq!(said(&sandbox, "s/main"), living);
    assert_eq!(said(&sandbox, "s/main-2").last().unwrap(), "answer 3");
    assert!(sandbox.repo.resolve("s/main-3").is_err(), "both marks are one step back");
    assert!(sandbox.source(&report.head) == rollout.text().as_bytes());
    let found = usage(&sandbox, UsageScope::Session("s"));
    assert_eq!((found.total.answers, found.total.tokens.input), (4, 40));
    assert_eq!((found.left_behind.answers, found.left_behind.tokens.input), (2, 20));

    // Importing the whole file gives the same commits as importing it while it grows.
    let whole = Sandbox::new();
    let at_once = whole.import("s", rollout.text().as_bytes()).unwrap();
    assert_eq!(sandbox.messages(&report.head), whole.messages(&at_once.head));
    let followed = Sandbox::new();
    let text = rollout.text();
    for end in text.match_indices('\n').map(|(at, _)| at + 1) {
        follow_file(&followed, &text[..end]);
    }
    assert_eq!(said(&followed, "s/main"), living);
    assert_eq!(said(&followed, "s/main-2").last().unwrap(), "answer 3");

    // A later rollback may remove a prompt before the last remaining one.
    rollout.back(2).turn("5");
    let report = sandbox.import("s", rollout.text().as_bytes()).unwrap();
    assert_eq!(said(&sandbox, "s/main"), ["prompt 5", "answer 5"]);
    assert_eq!(sandbox.import("s", rollout.text().as_bytes()).unwrap().head, report.head);
}

#[test]
fn codex_rollback_marks_can_precede_a_compaction() {
    let summary = json!({"message": "", "replacement_history": [{"type": "message",
        "role": "user", "content": [{"type": "input_text", "text": "summary"}]}]});
    let context = "<environment_context>\n  <cwd>/p</cwd>\n</environment_context>";
    for (turns, expected) in [
        (1, vec![context, "prompt 1", "answer 1", "prompt 2", "answer 2", "end"]),
        (2, vec![context, "prompt 1", "answer 1", "end"]),
        (3, vec![context, "end"]),
    ] {
        let mut rollout = Rollout::new(&json!({"id": "a"}));
        rollout.said("user", context).turn("1").turn("2");
        rollout.said("user", context).said("user", "prompt 3").line("compacted", &summary);
        rollout.said("assistant", "answer 3").back(turns).said("user", "end");
        let sandbox = Sandbox::new();
        sandbox.import("s", rollout.text().as_bytes()).unwrap();
        assert_eq!(said(&sandbox, "s/main"), expected, "{turns} taken back");
    }
}

/// Files of several formats with three prompts, as lines: the first lines belong to no prompt, and
/// each prompt has the same number. Also a later prompt.
fn logs() -> Vec<(&'static str, Vec<String>, usize, String)> {
    let mut rollout = Rollout::new(&json!({"id": "a", "cwd": "/p"}));
    rollout.turn("1").turn("2").turn("3").said("user", "prompt end");
    let claude = |id: u8, parent: Option<u8>, role: &str, text: &str| {
        json!({"type": role, "uuid": format!("u{id}"), "parentUuid": parent.map(|it| format!("u{it}")),
            "sessionId": "s", "cwd": "/p", "message": {"role": role, "id": format!("m{id}"),
            "content": [{"type": "text", "text": text}]}})
    };
    let copilot =
        |kind: &str, text: &str| json!({"type": kind, "id": text, "data": {"content": text}});
    let pi = |id: u8, parent: Option<u8>, role: &str, text: &str| {
        json!({"type": "message", "id": id.to_string(), "parentId": parent.map(|it| it.to_string()),
            "message": {"role": role, "content": [{"type": "text", "text": text}]}})
    };
    let gemini = |id: u8, kind: &str, text: &str| json!({"id": id.to_string(), "type": kind, "content": text});
    let mut all: Vec<(&str, Vec<Value>, usize)> = vec![
        ("codex", rollout.lines, 5),
        ("claude-code", Vec::new(), 2),
        ("copilot-cli", vec![json!({"type": "session.start", "data": {"sessionId": "s"}})], 2),
        ("pi", vec![json!({"type": "session", "id": "s", "timestamp": "t", "cwd": "/p"})], 2),
        ("gemini-cli-log", vec![json!({"sessionId": "s", "projectHash": "h"})], 2),
    ];
    for turn in 1..=4 {
        let id = 2 * turn;
        let before = (turn > 1).then_some(id - 1);
        let name = if turn < 4 { turn.to_string() } else { "end".to_owned() };
        let (prompt, answer) = (format!("prompt {name}"), format!("answer {name}"));
        all[1].1.push(claude(id, before, "user", &prompt));
        all[2].1.push(copilot("user.message", &prompt));
        all[3].1.push(pi(id, before, "user", &prompt));
        all[4].1.push(gemini(id, "user", &prompt));
        if turn < 4 {
            all[1].1.push(claude(id + 1, Some(id), "assistant", &answer));
            all[2].1.push(copilot("assistant.message", &answer));
            all[3].1.push(pi(id + 1, Some(id), "assistant", &answer));
            all[4].1.push(gemini(id + 1, "gemini", &answer));
        }
    }
    let logs = all.into_iter().map(|(format, lines, each)| {
        let mut lines: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
        let end = lines.pop().unwrap();
        (format, lines, each, end)
    });
    logs.collect()
}

#[test]
fn files_truncated_in_place_continue_from_the_remaining_turns() {
    for (format, lines, each, end) in logs() {
        let whole = lines.concat();
        let cut = lines[..lines.len() - 2 * each].concat();
        let grown = format!("{cut}{end}");
        let living = ["prompt 1", "answer 1", "prompt end"];
        for is_followed in [false, true] {
            let sandbox = Sandbox::new();
            let take = |text: &str| match is_followed {
                true => follow_file(&sandbox, text),
                false => drop(sandbox.import("s", text.as_bytes()).unwrap()),
            };
            take(&whole);
            take(&cut);
            assert_eq!(said(&sandbox, "s").last().unwrap(), "answer 3", "a part says nothing new");
            take(&grown);
            assert_eq!(said(&sandbox, "s/main"), living, "{format}");
            let left = said(&sandbox, "s/main-2");
            assert_eq!(left.last().unwrap(), "answer 3", "{format}");
            let head = sandbox.repo.resolve("s").unwrap().commit;
            assert!(sandbox.source(&head) == grown.as_bytes(), "{format}");
            take(&grown);
            assert_eq!(sandbox.repo.resolve("s").unwrap().commit, head, "{format}: nothing new");
            assert!(sandbox.repo.resolve("s/main-3").is_err(), "{format}");
            if format == "codex" {
                let found = usage(&sandbox, UsageScope::Session("s"));
                assert_eq!((found.total.answers, found.left_behind.answers), (3, 2));
            }
        }
    }
}

#[test]
fn different_files_of_one_name_get_separate_branches() {
    let sandbox = Sandbox::new();
    let mut first = Rollout::new(&json!({"id": "a"}));
    let mut other = Rollout::new(&json!({"id": "b"}));
    sandbox.import("s", first.turn("1").text().as_bytes()).unwrap();
    let report = sandbox.import("s", other.turn("2").text().as_bytes()).unwrap();
    assert_eq!(report.branch.branch(), "main-2");
    assert_eq!(said(&sandbox, "s/main"), ["prompt 1", "answer 1"]);
}

#[test]
fn codex_rollbacks_count_prompts_about_the_elements_of_the_client() {
    for prompt in [
        "# AGENTS.md instructions are wrong, fix them",
        "<environment_context> means what?",
        "<reminder>buy milk</reminder>",
    ] {
        let mut rollout = Rollout::new(&json!({"id": "a"}));
        rollout.turn("1").said("user", prompt).said("assistant", "Well.").turn("3").back(2);
        let sandbox = Sandbox::new();
        sandbox.import("s", rollout.text().as_bytes()).unwrap();
        assert_eq!(said(&sandbox, "s/main"), ["prompt 1", "answer 1"], "{prompt}");
    }
    let mut rollout = Rollout::new(&json!({"id": "a"}));
    rollout.turn("1").said("developer", "Answer in French.");
    rollout.said("developer", "<model_switch>\nx").said("user", "two").back(1);
    let sandbox = Sandbox::new();
    sandbox.import("s", rollout.text().as_bytes()).unwrap();
    assert_eq!(said(&sandbox, "s/main"), ["prompt 1", "answer 1", "Answer in French."]);
}

#[test]
fn answers_after_a_rollback_are_the_growth_of_the_total() {
    let mut rollout = Rollout::new(&json!({"id": "a"}));
    rollout.turn("1").turn("2").back(1).turn("3");
    for line in &mut rollout.lines {
        if let Some(info) = line.pointer_mut("/payload/info") {
            info.as_object_mut().unwrap().remove("last_token_usage");
        }
    }
    let sandbox = Sandbox::new();
    sandbox.import("s", rollout.text().as_bytes()).unwrap();
    let total = usage(&sandbox, UsageScope::All).total;
    assert_eq!((total.answers, total.tokens.input), (3, 30));
}
