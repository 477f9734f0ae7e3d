//! Sessions that are trees in append-only files: rewinds, forks, and compactions that keep a tail.

use std::io::Cursor;

use proptest::prelude::{any, prop};
use proptest::prop_assert_eq;
use serde_json::{Value, json};
use turntree::object::ObjectId;
use turntree::repo::BranchName;
use turntree_exchange::formats::view;
use turntree_exchange::{FollowOptions, ImportReport, follow};
use turntree_tests::{Sandbox, stamp};

/// A Claude Code session under construction. Each line follows the one before by default.
#[derive(Default, Clone)]
struct Claude {
    session: String,
    lines: Vec<Value>,
    last: Option<String>,
}

impl Claude {
    fn new(session: &str) -> Self {
        Self { session: session.to_owned(), ..Self::default() }
    }

    fn line(&mut self, id: &str, mut line: Value) -> &mut Self {
        line["uuid"] = id.into();
        line["parentUuid"] = self.last.clone().into();
        line["sessionId"] = self.session.clone().into();
        line["cwd"] = "/p".into();
        self.lines.push(line);
        self.last = Some(id.to_owned());
        self
    }

    fn prompt(&mut self, id: &str) -> &mut Self {
        let message = json!({"role": "user", "content": format!("prompt {id}")});
        self.line(id, json!({"type": "user", "message": message}))
    }

    fn answer(&mut self, id: &str) -> &mut Self {
        let content = json!([{"type": "text", "text": format!("answer {id}")}]);
        let message = json!({"role": "assistant", "id": format!("m-{id}"), "content": content});
        self.line(id, json!({"type": "assistant", "message": message}))
    }

    /// A step with two parallel calls. The result of the first is between them in the tree.
    fn step(&mut self, id: &str) -> &mut Self {
        let call = |number: u8| {
            let content = json!([{"type": "tool_use", "id": format!("{id}-{number}"),
                "name": "Write", "input": {"file_path": "/p/f", "content": id}}]);
            json!({"type": "assistant", "message":
                {"role": "assistant", "id": format!("m-{id}"), "content": content}})
        };
        let result = |number: u8| {
            let content = json!([{"type": "tool_result", "tool_use_id": format!("{id}-{number}"),
                "content": format!("done {id}-{number}")}]);
            json!({"type": "user", "message": {"role": "user", "content": content},
                "toolUseResult": {"type": "create", "filePath": "/p/f", "content": id}})
        };
        let (first, second) = (format!("{id}c1"), format!("{id}c2"));
        self.line(&first, call(1)).line(&second, call(2));
        self.after(&first).line(&format!("{id}r1"), result(1));
        self.after(&second).line(id, result(2));
        self.lines.push(json!({"type": "mode", "mode": "normal", "sessionId": self.session}));
        self
    }

    fn after(&mut self, id: &str) -> &mut Self {
        self.last = Some(id.to_owned());
        self
    }

    /// A fork like that of `--fork-session`: the lines of the current branch again, with another
    /// session id.
    fn fork(&self, session: &str, ids: &[&str]) -> Self {
        let mut fork = Self::new(session);
        fork.lines.push(json!({"type": "mode", "mode": "normal", "sessionId": session}));
        for id in ids {
            let mut line = self.lines.iter().find(|line| line["uuid"] == *id).unwrap().clone();
            line["sessionId"] = session.into();
            if line["type"] == "assistant" && line.get("requestSessionId").is_none() {
                line["requestSessionId"] = self.session.clone().into();
            }
            fork.lines.push(line);
        }
        fork.last = ids.last().map(|id| (*id).to_owned());
        fork
    }

    fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }

    fn import(&self, sandbox: &Sandbox) -> ImportReport {
        let report = sandbox.import(&self.session, self.text().as_bytes()).unwrap();
        assert!(
            sandbox.source(&report.head) == self.text().as_bytes(),
            "the export equals the file"
        );
        report
    }
}

/// The messages to and from the main agent at `commit`.
fn said(sandbox: &Sandbox, commit: &ObjectId) -> Vec<String> {
    let format = sandbox.repo.context(commit).unwrap();
    let format = format.map(&sandbox.repo, "meta").unwrap();
    let format = format.get(&sandbox.repo, b"format").unwrap().unwrap();
    let store = sandbox.repo.store();
    let format = turntree::object::ObjectSource::read_as(
        store,
        turntree::object::Kind::Blob,
        &format.link.id,
    );
    let format = String::from_utf8(format.unwrap().to_vec()).unwrap();
    let messages = sandbox.messages(commit);
    messages.iter().map(|record| view(&format, record.as_bytes()).summary()).collect()
}

fn commit(sandbox: &Sandbox, revision: &str) -> ObjectId {
    sandbox.repo.resolve(revision).unwrap().commit
}

/// Two turns, a rewind to the first, and a third turn.
fn rewound() -> Claude {
    let mut session = Claude::new("s");
    session.prompt("one").step("work").answer("good").prompt("bad").step("worse").answer("late");
    session.after("good").prompt("two").answer("end");
    session
}

#[test]
fn rewinds_continue_from_the_common_turn_and_branch_off_abandoned_turns() {
    let sandbox = Sandbox::new();
    let report = rewound().import(&sandbox);
    assert_eq!(report.branch.to_string(), "s/main");
    let living =
        ["prompt one", "Write /p/f", "Write /p/f", "done work-1", "done work-2", "answer good"];
    let new = [&living[..], &["prompt two", "answer end"]].concat();
    assert_eq!(said(&sandbox, &report.head), new);

    let left: Vec<_> = report.others.iter().map(|left| left.branch.to_string()).collect();
    assert_eq!(left, ["s/main-2"]);
    let dead = said(&sandbox, &commit(&sandbox, "s/main-2"));
    assert_eq!(dead[..living.len()], living);
    assert_eq!(dead.last().unwrap(), "answer late");
    assert_eq!(commit(&sandbox, "s/main~2"), commit(&sandbox, "s/main-2~3"), "the common turn");
    assert_eq!(sandbox.repo.head().unwrap().commit, Some(report.head));

    let again = rewound().import(&sandbox);
    assert_eq!((again.turns, again.head, sandbox.repo.branches().len()), (0, report.head, 2));
    let mut longer = rewound();
    longer.prompt("three");
    let grown = longer.import(&sandbox);
    assert_eq!((grown.turns, grown.branch.branch()), (1, "main"));
    assert_eq!(sandbox.repo.branches().len(), 2);
}

#[test]
fn rewinds_into_a_turn_keep_its_earlier_messages() {
    let mut session = Claude::new("s");
    session.prompt("one").step("work").prompt("two").answer("end");
    session.after("workc2").prompt("other").answer("fine");
    let sandbox = Sandbox::new();
    let report = session.import(&sandbox);
    let expected = ["prompt one", "Write /p/f", "Write /p/f", "prompt other", "answer fine"];
    assert_eq!(said(&sandbox, &report.head), expected);
    assert_eq!(commit(&sandbox, "s/main~2"), commit(&sandbox, "s/main-2~3"));
}

#[test]
fn resuming_an_abandoned_branch_swaps_it_with_main() {
    let mut session = rewound();
    session.after("late").prompt("back").answer("again");
    let sandbox = Sandbox::new();
    let report = session.import(&sandbox);
    let now = said(&sandbox, &report.head);
    assert_eq!(now[now.len() - 3..], ["answer late", "prompt back", "answer again"]);
    assert_eq!(said(&sandbox, &commit(&sandbox, "s/main-2")).last().unwrap(), "answer end");
    assert_eq!(sandbox.repo.branches().len(), 2);
}

/// Follows `text` as it grows to each of `ends`.
fn followed(sandbox: &Sandbox, session: &str, text: &[u8], ends: &[usize], forgets: u16) {
    let mut notes: Option<Vec<u8>> = None;
    for (number, end) in ends.iter().copied().chain([text.len()]).enumerate() {
        let options = FollowOptions::new(session, stamp(1));
        let known = notes.as_deref().filter(|_| forgets >> (number % 16) & 1 == 0);
        if let Some(now) = follow(&sandbox.repo, Cursor::new(&text[..end]), known, options).unwrap()
        {
            notes = now.notes;
        }
    }
}

/// Checks that following the files gives the same branches as importing them.
fn same(sessions: &[Claude], ends: &[prop::sample::Index], forgets: u16) {
    let (imported, live) = (Sandbox::new(), Sandbox::new());
    for session in sessions {
        session.import(&imported);
        let text = session.text();
        let lines: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
        let mut ends: Vec<usize> = ends.iter().map(|end| *end.get(&lines)).collect();
        ends.sort_unstable();
        if session.lines[0]["type"] == "mode" {
            // A client writes the copied lines together.
            ends.retain(|end| *end >= lines[8]);
        }
        followed(&live, &session.session, text.as_bytes(), &ends, forgets);
    }
    assert_eq!(live.repo.branches(), imported.repo.branches());
}

/// Turns, some of which follow an older turn, or none.
fn random_session(backs: &[Option<prop::sample::Index>]) -> Claude {
    let (mut session, mut ids) = (Claude::new("s"), Vec::new());
    for (number, back) in backs.iter().enumerate() {
        if let Some(back) = back.filter(|_| !ids.is_empty()) {
            let to: &String = back.get(&ids);
            session.after(to);
            if to == "s0" {
                session.last = None;
            }
        }
        session.prompt(&format!("p{number}")).step(&format!("s{number}"));
        session.answer(&format!("a{number}"));
        ids.extend([format!("s{number}"), format!("a{number}")]);
    }
    session
}

/// The conversation sent to the model at the end: the line of parents, with both results of a step.
fn line_of_parents(session: &Claude) -> Vec<String> {
    let is = |line: &Value, id: &Value| id.is_string() && line["uuid"] == *id;
    let by_id = |id: &Value| session.lines.iter().find(|line| is(line, id));
    let (mut line, mut next) = (Vec::new(), session.last.clone().map(Value::from));
    while let Some(found) = next.as_ref().and_then(by_id) {
        let id = found["uuid"].as_str().unwrap().to_owned();
        next = Some(found["parentUuid"].clone());
        // The result of the first call is not on the line of parents.
        if id.ends_with("c2") && line.last().is_some_and(|last: &String| last.starts_with("done")) {
            line.push(format!("done {}-1", id.trim_end_matches("c2")));
        }
        line.push(view("claude-code", found.to_string().as_bytes()).summary());
    }
    line.reverse();
    line
}

#[test]
fn followed_rewinds_create_the_branches_of_an_import() {
    let ends: Vec<prop::sample::Index> = Vec::new();
    same(&[rewound()], &ends, 0);
    for forgets in [0, u16::MAX, 0b0101_0110] {
        let session = rewound();
        let text = session.text();
        let lines: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
        let (imported, live) = (Sandbox::new(), Sandbox::new());
        session.import(&imported);
        followed(&live, "s", text.as_bytes(), &lines, forgets);
        assert_eq!(live.repo.branches(), imported.repo.branches());
    }
}

#[test]
fn following_two_processes_in_one_file_equals_one_import() {
    let mut session = Claude::new("s");
    session.prompt("one").answer("good").prompt("a").after("good").prompt("b");
    session.after("a").step("wa").after("b").step("wb");
    let copies: Vec<Value> = session.lines[..3].to_vec();
    session.lines.extend(copies);
    session.after("wa").answer("ea").after("wb").answer("eb");
    let text = session.text();
    let lines: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    let imported = Sandbox::new();
    session.import(&imported);
    assert_eq!(imported.repo.branches().len(), 2);
    for forgets in [0, u16::MAX, 0b0101_0110] {
        let live = Sandbox::new();
        followed(&live, "s", text.as_bytes(), &lines, forgets);
        assert_eq!(live.repo.branches(), imported.repo.branches());
    }
}

turntree_properties::properties! {
    cases = 24;

    #[test]
    fn after_any_rewinds_the_context_follows_the_parent_records(
        backs in prop::collection::vec(prop::option::of(any::<prop::sample::Index>()), 1..7),
        ends in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        forgets in any::<u16>(),
    ) {
        let session = random_session(&backs);
        let sandbox = Sandbox::new();
        let report = session.import(&sandbox);
        prop_assert_eq!(said(&sandbox, &report.head), line_of_parents(&session));
        same(&[session], &ends, forgets);
    }
}

#[test]
fn forks_continue_from_their_fork_point() {
    let sandbox = Sandbox::new();
    let base = rewound();
    base.import(&sandbox);
    let copied = ["one", "workc1", "workc2", "workr1", "work", "good", "two", "end"];
    let mut fork = base.fork("f", &copied);
    fork.prompt("new").answer("newer");
    let report = fork.import(&sandbox);
    assert_eq!((report.turns, report.branch.to_string().as_str()), (2, "f/main"));
    assert_eq!(commit(&sandbox, "f~2"), commit(&sandbox, "s"), "the turn that it was forked at");
    let expected =
        [said(&sandbox, &commit(&sandbox, "s")), vec!["prompt new".into(), "answer newer".into()]];
    assert_eq!(said(&sandbox, &report.head), expected.concat());
    fork.prompt("next");
    assert_eq!(fork.import(&sandbox).turns, 1);

    // A fork of an earlier turn, and a fork from the middle of a fork.
    let mut early = base.fork("e", &copied[..6]);
    early.prompt("other").answer("x");
    early.import(&sandbox);
    assert_eq!(commit(&sandbox, "e~2"), commit(&sandbox, "s~2"));
    let mut second = fork.fork("g", &[&copied[..], &["new", "newer"]].concat());
    second.prompt("last").answer("y");
    second.import(&sandbox);
    assert_eq!(commit(&sandbox, "g~2"), commit(&sandbox, "f~1"));
    same(&[base, fork, early, second], &[], 0);
}

#[test]
fn sub_agents_inherit_the_conversation_of_their_caller() {
    let line = |id: &str, kind: &str, text: &str, is_of_agent: bool| {
        let message = json!({"role": kind, "id": format!("m-{id}"), "content": text});
        json!({"type": kind, "uuid": id, "sessionId": "base", "requestSessionId": "base",
            "isSidechain": is_of_agent, "agentId": is_of_agent.then_some("a1"), "message": message})
    };
    let base = [("1", "user"), ("2", "assistant"), ("3", "user"), ("4", "assistant")];
    let base = base.map(|(id, kind)| line(id, kind, &format!("said {id}"), false));
    let called = json!({"type": "fork-context-ref", "agentId": "a1", "parentSessionId": "base",
        "parentLastUuid": "3", "contextLength": 3});
    let mut own = [line("5", "assistant", "I begin", true), line("6", "user", "you are it", true)];
    own[1]["parentUuid"] = "5".into();
    let fork = joined(&[std::slice::from_ref(&called), &own[..]].concat());
    let sandbox = Sandbox::new();
    let alone = sandbox.import("alone-agent-a1", fork.as_bytes()).unwrap();
    assert_eq!(alone.notes.len(), 1, "the caller is not here: {:?}", alone.notes);
    sandbox.import("base", joined(&base).as_bytes()).unwrap();
    sandbox.import("base-agent-a1", fork.as_bytes()).unwrap();
    let tip = commit(&sandbox, "base-agent-a1");
    assert_eq!(said(&sandbox, &tip), ["said 1", "said 2", "said 3", "I begin", "you are it"]);
    assert_eq!(sandbox.source(&tip), fork.as_bytes());
}

#[test]
fn forks_of_a_missing_session_are_imported_alone() {
    let sandbox = Sandbox::new();
    let mut fork = rewound().fork("f", &["one", "workc1", "workc2", "workr1", "work", "good"]);
    fork.prompt("new");
    let report = fork.import(&sandbox);
    assert_eq!(said(&sandbox, &report.head).len(), 7);
}

#[test]
fn compactions_keep_the_messages_of_their_boundary() {
    let mut session = Claude::new("s");
    session.prompt("one").answer("first").prompt("two").answer("second");
    session.last = None;
    session.line(
        "boundary",
        json!({"type": "system", "subtype": "compact_boundary",
        "compactMetadata": {"preservedMessages": {"uuids": ["two", "second"]}}}),
    );
    let summary = json!({"role": "user", "content": "In short."});
    session.line("short", json!({"type": "user", "isCompactSummary": true, "message": summary}));
    session.prompt("three").answer("third");
    // The client may attach the next line to a kept message.
    session.after("second").prompt("four");
    let sandbox = Sandbox::new();
    let report = session.import(&sandbox);
    let compacted = ["In short.", "prompt two", "answer second"];
    assert_eq!(said(&sandbox, &commit(&sandbox, "s/main~1")), compacted);
    assert_eq!(said(&sandbox, &report.head), [&compacted[..], &["prompt four"]].concat());
    let other = said(&sandbox, &commit(&sandbox, "s/main-2"));
    assert_eq!(other, [&compacted[..], &["prompt three", "answer third"]].concat());
    same(&[session], &[], 0);
}

/// A file of lines.
fn joined(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn pi_entry(id: &str, parent: &str, role: &str) -> Value {
    json!({"type": "message", "id": id, "parentId": parent, "timestamp": "2026-11-22T10:00:00.000Z",
        "message": {"role": role, "content": [{"type": "text", "text": format!("{role} {id}")}]}})
}

#[test]
fn entries_of_pi_form_a_tree_and_a_compaction_keeps_its_tail() {
    let header = json!({"type": "session", "version": 3, "id": "x", "timestamp": "2026-11-22T10:00:00.000Z",
        "cwd": "/p"});
    let base = [
        header,
        json!({"type": "model_change", "id": "m", "parentId": null, "modelId": "mock"}),
        pi_entry("1", "m", "user"),
        pi_entry("2", "1", "assistant"),
        pi_entry("3", "2", "user"),
        pi_entry("4", "3", "assistant"),
    ];
    let mut lines = base.to_vec();
    lines.extend([
        json!({"type": "branch_summary", "id": "5", "parentId": "2", "summary": "It was tried."}),
        pi_entry("6", "5", "user"),
        pi_entry("7", "6", "assistant"),
        json!({"type": "compaction", "id": "8", "parentId": "7", "summary": "In short.",
            "firstKeptEntryId": "6"}),
        pi_entry("9", "8", "user"),
    ]);
    let sandbox = Sandbox::new();
    let report = sandbox.import("2026_x", joined(&lines).as_bytes()).unwrap();
    assert!(report.notes.is_empty(), "{:?}", report.notes);
    assert_eq!(said(&sandbox, &report.head), ["In short.", "user 6", "assistant 7", "user 9"]);
    assert_eq!(
        said(&sandbox, &commit(&sandbox, "2026_x~2")),
        ["user 1", "assistant 2", "It was tried.", "user 6", "assistant 7"]
    );
    assert_eq!(
        said(&sandbox, &commit(&sandbox, "2026_x/main-2")),
        ["user 1", "assistant 2", "user 3", "assistant 4"]
    );

    let mut fork = base[..4].to_vec();
    fork[0]["id"] = "y".into();
    fork[0]["parentSession"] = "/h/.pi/agent/sessions/p/2026_x.jsonl".into();
    fork.push(pi_entry("10", "2", "user"));
    let report = sandbox.import("2026_y", joined(&fork).as_bytes()).unwrap();
    assert_eq!(said(&sandbox, &report.head), ["user 1", "assistant 2", "user 10"]);
    assert_eq!(commit(&sandbox, "2026_y~1"), commit(&sandbox, "2026_x/main-2~2"));
    assert!(sandbox.source(&report.head) == joined(&fork).as_bytes());
}

fn codex_line(kind: &str, payload: &Value) -> Value {
    json!({"timestamp": "2026-11-22T10:00:00.000Z", "type": kind, "payload": payload})
}

fn codex_said(role: &str, text: &str) -> Value {
    let part = if role == "user" { "input_text" } else { "output_text" };
    codex_line(
        "response_item",
        &json!({"type": "message", "role": role,
        "content": [{"type": part, "text": text}]}),
    )
}

#[test]
fn codex_forks_have_their_named_history() {
    let base = [
        codex_line("session_meta", &json!({"id": "t-1", "cwd": "/p"})),
        codex_said("user", "one"),
        codex_said("assistant", "first"),
        codex_line("event_msg", &json!({"type": "task_complete"})),
        codex_said("user", "two"),
        codex_said("assistant", "second"),
    ];
    let fork = [
        codex_line(
            "session_meta",
            &json!({"id": "t-2", "cwd": "/p", "history_base":
            {"thread_id": "t-1", "end_ordinal_exclusive": 4, "end_byte_offset": 700}}),
        ),
        codex_said("user", "other"),
        codex_said("assistant", "third"),
    ];
    let sandbox = Sandbox::new();
    sandbox.import("rollout-2026-t-1", joined(&base).as_bytes()).unwrap();
    let report = sandbox.import("rollout-2026-t-2", joined(&fork).as_bytes()).unwrap();
    assert_eq!(said(&sandbox, &report.head), ["one", "first", "other", "third"]);
    assert_eq!(commit(&sandbox, "rollout-2026-t-2~2"), commit(&sandbox, "rollout-2026-t-1~2"));
    assert!(sandbox.source(&report.head) == joined(&fork).as_bytes());
    let again = sandbox.import("rollout-2026-t-2", joined(&fork).as_bytes()).unwrap();
    assert_eq!((again.turns, again.head), (0, report.head));

    let alone = Sandbox::new();
    let report = alone.import("rollout-2026-t-2", joined(&fork).as_bytes()).unwrap();
    assert_eq!(said(&alone, &report.head), ["other", "third"]);
    assert!(report.notes[0].what.contains("t-1"), "{:?}", report.notes);
}

#[test]
fn unknown_record_kinds_are_counted_once() {
    let mut lines = vec![codex_line("session_meta", &json!({"id": "t", "cwd": "/p"}))];
    for _ in 0..4 {
        lines.push(codex_line("novel_record", &json!({})));
        lines.push(codex_line("other_record", &json!({})));
    }
    lines.push(codex_said("user", "one"));
    let sandbox = Sandbox::new();
    let report = sandbox.import("s", joined(&lines).as_bytes()).unwrap();
    assert_eq!(report.notes, []);
    let unread: Vec<_> = report.unread.kinds().collect();
    assert_eq!(unread, [("novel_record", 4), ("other_record", 4)]);
    assert!(sandbox.repo.tip(&BranchName::main("s").unwrap()).is_some());
}

fn opencode_message(id: &str, role: &str, parts: &Value) -> Value {
    json!({"info": {"id": id, "role": role, "sessionID": "ses_1", "finish": "stop"}, "parts": parts})
}

fn opencode_said(id: &str, role: &str) -> Value {
    opencode_message(id, role, &json!([{"type": "text", "text": format!("{role} {id}")}]))
}

fn opencode(messages: &[Value]) -> Vec<u8> {
    let document = json!({"info": {"id": "ses_1", "directory": "/p"}, "messages": messages});
    serde_json::to_vec(&document).unwrap()
}

#[test]
fn opencode_compactions_keep_the_tail_after_the_summary() {
    for (tail, kept) in [(json!(null), &[][..]), (json!("3"), &["user 3", "assistant 4"][..])] {
        let mut summary = opencode_said("6", "assistant");
        summary["info"]["summary"] = true.into();
        let asked = json!([{"type": "compaction", "auto": false, "tail_start_id": tail}]);
        let messages = [
            opencode_said("1", "user"),
            opencode_said("2", "assistant"),
            opencode_said("3", "user"),
            opencode_said("4", "assistant"),
            opencode_message("5", "user", &asked),
            summary,
            opencode_said("7", "user"),
        ];
        let sandbox = Sandbox::new();
        let report = sandbox.import("ses_1", &opencode(&messages)).unwrap();
        let expected = [&["What did we do so far?", "assistant 6"], kept, &["user 7"]].concat();
        assert_eq!(said(&sandbox, &report.head), expected);
    }
}

#[test]
fn reverted_opencode_messages_are_abandoned_from_main() {
    let sandbox = Sandbox::new();
    let mut messages: Vec<Value> =
        (1..=4).map(|at| opencode_said(&at.to_string(), "user")).collect();
    let first = sandbox.import("ses_1", &opencode(&messages)).unwrap();
    messages.truncate(2);
    messages.push(opencode_said("5", "user"));
    let second = sandbox.import("ses_1", &opencode(&messages)).unwrap();
    assert_eq!(second.branch.to_string(), "ses_1/main");
    assert_eq!(said(&sandbox, &second.head), ["user 1", "user 2", "user 5"]);
    assert_eq!(commit(&sandbox, "ses_1/main-2"), first.head);
    assert_eq!(second.others.len(), 1);
    assert_eq!(sandbox.repo.head().unwrap().commit, Some(second.head));
    assert_eq!(sandbox.import("ses_1", &opencode(&messages)).unwrap().head, second.head);
}

/// An event of Copilot CLI, whose id is made of its content.
fn copilot(kind: &str, agent: Option<&str>, data: &Value) -> Value {
    let id = format!("{kind} {agent:?} {data}");
    let mut line = json!({"type": kind, "id": id, "data": data});
    if let Some(agent) = agent {
        line["agentId"] = agent.into();
    }
    line
}

#[test]
fn copilot_sub_agents_and_compactions_are_distinguished() {
    let said_by = |kind, agent, text: &str| copilot(kind, agent, &json!({"content": text}));
    let start = json!({"turnId": "0"});
    let lines = [
        copilot("session.start", None, &json!({"sessionId": "s"})),
        said_by("user.message", None, "go"),
        copilot("assistant.turn_start", None, &start),
        said_by("assistant.message", None, "I call."),
        said_by("user.message", Some("a-1"), "do it"),
        copilot("assistant.turn_start", Some("a-1"), &start),
        said_by("assistant.message", Some("a-1"), "sub done"),
        said_by("assistant.message", None, "Done."),
    ];
    let mut compacted = lines.to_vec();
    compacted.extend([
        copilot(
            "session.compaction_complete",
            None,
            &json!({"success": true, "summaryContent": "In short."}),
        ),
        copilot("session.compaction_complete", None, &json!({"success": false})),
        said_by("user.message", None, "next"),
    ]);
    let sandbox = Sandbox::new();
    let report = sandbox.import("s", joined(&lines).as_bytes()).unwrap();
    assert_eq!(report.turns, 2);
    assert_eq!(said(&sandbox, &report.head), ["go", "I call.", "Done."]);
    let context = sandbox.repo.context(&report.head).unwrap();
    assert_eq!(context.messages(&sandbox.repo, "a-1@main").unwrap().len(), 2);
    let report = sandbox.import("s", joined(&compacted).as_bytes()).unwrap();
    assert_eq!(said(&sandbox, &report.head), ["In short.", "next"]);
}

#[test]
fn cline_command_results_are_shown() {
    let record = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1",
        "content": [{"query": "ls", "result": "a.txt", "success": true}]}]});
    let sent = r#"[{"query":"ls","result":"a.txt","success":true}]"#;
    assert_eq!(view("cline-sdk", record.to_string().as_bytes()).summary(), sent);
}
