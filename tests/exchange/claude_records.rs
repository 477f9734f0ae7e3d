//! The kind of each record of Claude Code, its session, and its part in the conversation sent to
//! the model.

use serde_json::{Value, json};
use turntree::object::ObjectId;
use turntree::repo::BranchName;
use turntree_exchange::formats::view;
use turntree_exchange::{ImportReport, PriceTable, UsageBy, UsageQuery, UsageScope, usage_report};
use turntree_tests::Sandbox;

/// A session log under construction. Each line follows the one before by default.
#[derive(Default)]
struct Log {
    lines: Vec<Value>,
    last: Option<String>,
    session: String,
}

impl Log {
    fn new() -> Self {
        Self { session: "s".to_owned(), ..Self::default() }
    }

    fn line(&mut self, id: &str, mut line: Value) -> &mut Self {
        let number = self.lines.len();
        line["uuid"] = id.into();
        if line.get("parentUuid").is_none() {
            line["parentUuid"] = self.last.clone().into();
        }
        line["sessionId"] = self.session.clone().into();
        line["timestamp"] =
            format!("2026-11-20T10:{:02}:{:02}.000Z", number / 60, number % 60).into();
        self.lines.push(line);
        self.last = Some(id.to_owned());
        self
    }

    fn user(&mut self, id: &str, content: impl Into<Value>) -> &mut Self {
        let message = json!({"role": "user", "content": content.into()});
        self.line(id, json!({"type": "user", "message": message}))
    }

    fn block(&mut self, id: &str, block: &Value) -> &mut Self {
        let usage = json!({"input_tokens": 10, "output_tokens": 1});
        let message = json!({"role": "assistant", "id": format!("m-{id}"), "model": "claude-opus-4-5",
            "content": [block], "usage": usage});
        self.line(id, json!({"type": "assistant", "message": message}))
    }

    fn answer(&mut self, id: &str) -> &mut Self {
        self.block(id, &json!({"type": "text", "text": format!("answer {id}")}))
    }

    fn call(&mut self, id: &str) -> &mut Self {
        let call = json!({"type": "tool_use", "id": format!("t-{id}"), "name": "Bash",
            "input": {"command": format!("run {id}")}});
        self.block(id, &call)
    }

    fn result(&mut self, id: &str, call: &str) -> &mut Self {
        let block = json!({"type": "tool_result", "tool_use_id": format!("t-{call}"),
            "content": format!("result {call}")});
        self.user(id, json!([block]))
    }

    fn boundary(&mut self, id: &str, meta: Value) -> &mut Self {
        let logical = self.last.clone();
        self.line(
            id,
            json!({"type": "system", "subtype": "compact_boundary", "parentUuid": null,
                "logicalParentUuid": logical, "compactMetadata": meta}),
        )
    }

    fn summary(&mut self, id: &str) -> &mut Self {
        let message = json!({"role": "user", "content": format!("summary {id}")});
        let line = json!({"type": "user", "isCompactSummary": true,
            "isVisibleInTranscriptOnly": true, "message": message});
        self.line(id, line)
    }

    fn queued(&mut self, id: &str, attachment: &Value, more: &Value) -> &mut Self {
        let mut line = json!({"type": "attachment", "attachment": attachment});
        line["attachment"]["type"] = "queued_command".into();
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.line(id, line)
    }

    fn after(&mut self, id: &str) -> &mut Self {
        self.last = Some(id.to_owned());
        self
    }

    /// Appends earlier lines again.
    fn again(&mut self, ids: &[&str]) -> &mut Self {
        for id in ids {
            let line = self.lines.iter().find(|line| line["uuid"] == **id).unwrap().clone();
            self.lines.push(line);
        }
        self
    }

    fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }

    fn import(&self) -> Imported {
        let sandbox = Sandbox::new();
        let report = sandbox.import("s", self.text().as_bytes()).unwrap();
        assert!(
            sandbox.source(&report.head) == self.text().as_bytes(),
            "the export equals the file"
        );
        Imported { sandbox, report }
    }
}

struct Imported {
    sandbox: Sandbox,
    report: ImportReport,
}

impl Imported {
    fn said(&self) -> Vec<String> {
        self.said_at(&self.report.head)
    }

    fn said_at(&self, commit: &ObjectId) -> Vec<String> {
        let messages = self.sandbox.messages(commit);
        messages.iter().map(|record| view("claude-code", record.as_bytes()).summary()).collect()
    }

    /// The conversations of all branches, main first.
    fn branches(&self) -> Vec<Vec<String>> {
        let mut branches = self.sandbox.repo.branches();
        branches.sort_by_key(|(name, _): &(BranchName, ObjectId)| name.branch().to_owned());
        branches.iter().map(|(_, tip)| self.said_at(tip)).collect()
    }

    fn answers(&self) -> u64 {
        let prices = PriceTable::built_in();
        let day = |_| String::new();
        let (scope, by) = (UsageScope::Session("s"), UsageBy::Model);
        let query = UsageQuery { scope, by, since: None, prices: &prices, day: &day };
        usage_report(&self.sandbox.repo, &query).unwrap().total.answers
    }

    fn fact(&self, key: &str) -> Option<String> {
        let store = self.sandbox.repo.store();
        let context = self.sandbox.repo.context(&self.report.head).unwrap();
        let item = context.map(store, "meta").unwrap().get(store, key.as_bytes()).unwrap()?;
        let bytes = turntree::object::ObjectSource::read_as(
            store,
            turntree::object::Kind::Blob,
            &item.link.id,
        );
        Some(String::from_utf8(bytes.unwrap().to_vec()).unwrap())
    }
}

/// A prompt, a call with its result, and an answer.
fn started() -> Log {
    let mut log = Log::new();
    log.user("u1", "start").call("c1").result("r1", "c1").answer("a1");
    log
}

#[test]
fn repeated_lines_are_the_same_record() {
    let mut once = started();
    once.user("u2", "more").call("c2").result("r2", "c2").answer("a2");
    let expected = once.import();
    let ids = ["u1", "c1", "r1", "a1", "u2", "c2", "r2", "a2"];

    let mut each = Log::new();
    each.lines = once.lines.iter().flat_map(|line| [line.clone(), line.clone()]).collect();
    let mut whole = started();
    whole.user("u2", "more").call("c2").result("r2", "c2").answer("a2").again(&ids);
    // A repeated record may have no parent.
    let mut rootless = started();
    rootless.user("u2", "more").call("c2").result("r2", "c2").answer("a2");
    let mut copies: Vec<Value> = rootless.lines.clone();
    copies.iter_mut().for_each(|copy| copy["parentUuid"] = Value::Null);
    rootless.lines.extend(copies);

    for (what, log) in [("each line", each), ("the whole file", whole), ("roots", rootless)] {
        let found = log.import();
        assert_eq!(found.said(), expected.said(), "{what}");
        assert_eq!(found.sandbox.repo.branches().len(), 1, "{what}");
        assert_eq!(found.answers(), expected.answers(), "{what}");
        assert_eq!(found.report.turns, expected.report.turns, "{what}");
    }
}

#[test]
fn rewinding_to_a_repeated_record_restores_its_state() {
    let mut log = started();
    log.user("u2", "more").answer("a2").again(&["u1", "c1", "r1", "a1", "u2", "a2"]);
    log.after("a1").user("u3", "other").answer("a3");
    let found = log.import();
    let stem = ["start", "Bash run c1", "result c1", "answer a1"];
    assert_eq!(found.said(), [&stem[..], &["other", "answer a3"]].concat());
    let branches = found.branches();
    assert_eq!(branches.len(), 2);
    assert_eq!(branches[1], [&stem[..], &["more", "answer a2"]].concat());

    let mut within = started();
    within.again(&["u1", "c1", "r1", "a1"]).user("u2", "more").answer("a2");
    within.again(&["u2", "a2"]).after("u2").answer("b2").again(&["b2"]);
    assert_eq!(within.import().said().last().unwrap(), "answer b2");
}

#[test]
fn recorded_rewinds_remove_the_records_after_their_target() {
    let note = |leaf: Value| {
        let explicit = leaf.is_null();
        json!({"type": "last-prompt", "sessionId": "s", "lastPrompt": "x", "leafUuid": leaf,
            "rewound": !explicit, "explicit": explicit})
    };
    let stem = ["start", "Bash run c1", "result c1", "answer a1"];
    for (leaf, kept) in [(Value::from("a1"), &stem[..]), (Value::Null, &[][..])] {
        let mut log = started();
        log.user("u2", "more").answer("a2");
        log.lines.push(note(leaf.clone()));
        let found = log.import();
        assert_eq!(found.said(), kept);
        assert_eq!(found.branches()[1], [&stem[..], &["more", "answer a2"]].concat());
        log.last = leaf.as_str().map(str::to_owned);
        log.user("u3", "other").answer("a3");
        let found = log.import();
        assert_eq!(found.said(), [kept, &["other", "answer a3"]].concat());
        assert_eq!(found.branches().len(), 2);
    }
    let mut log = started();
    log.lines.push(note("a1".into()));
    log.user("u2", "more");
    assert_eq!(log.import().branches().len(), 1, "nothing came behind it");
}

#[test]
fn repeated_messages_of_a_second_compaction_keep_earlier_turns() {
    let meta = |anchor: &str, kept: &str| {
        json!({"preservedSegment": {"headUuid": kept, "anchorUuid": anchor, "tailUuid": kept},
            "preservedMessages": {"anchorUuid": anchor, "uuids": [kept], "allUuids": [kept]}})
    };
    let mut log = Log::new();
    log.user("u1", "one").answer("a1").user("u2", "two").answer("a2");
    log.boundary("b1", meta("s1", "a2")).summary("s1").user("u3", "three").answer("a3");
    log.again(&["u1", "a1", "u2"]).after("a3");
    log.boundary("b2", meta("s2", "a3")).summary("s2").user("u4", "four").answer("a4");
    let found = log.import();
    assert_eq!(found.said(), ["summary s2", "answer a3", "four", "answer a4"]);
    assert_eq!((found.branches().len(), found.answers()), (1, 4));
}

#[test]
fn two_processes_in_one_file_continue_separate_branches() {
    let mut log = started();
    log.after("a1").user("ua", "for a").after("a1").user("ub", "for b");
    log.after("ua").call("ca").after("ub").call("cb");
    log.after("cb").result("rb", "cb").after("ca").result("ra", "ca");
    log.after("ra").line("na", json!({"type": "system", "subtype": "turn_duration"}));
    log.after("rb").answer("ab").after("na").answer("aa");
    let found = log.import();
    let stem = ["start", "Bash run c1", "result c1", "answer a1"];
    let of = |name: &str| {
        let own = [format!("for {name}"), format!("Bash run c{name}"), format!("result c{name}")];
        let stem = stem.iter().map(|line| (*line).to_owned());
        stem.chain(own).chain([format!("answer a{name}")]).collect::<Vec<_>>()
    };
    assert_eq!(found.branches(), [of("a"), of("b")]);
    assert_eq!(found.answers(), 6);
}

#[test]
fn results_with_a_missing_parent_follow_their_call() {
    let mut log = started();
    log.after("a1").user("ua", "for a").call("ca").after("a1").user("ub", "for b").call("cb");
    log.after("missing").result("ra", "ca").after("missing").result("rb", "cb");
    let found = log.import();
    let last = |line: &Vec<String>| line[line.len() - 2..].to_vec();
    let lines: Vec<_> = found.branches().iter().map(last).collect();
    assert_eq!(lines, [["Bash run cb", "result cb"], ["Bash run ca", "result ca"]]);
}

#[test]
fn lines_of_other_sessions_are_ignored_unless_copied() {
    let mut log = started();
    let title = |text: &str, session: &str| json!({"type": "custom-title", "customTitle": text, "sessionId": session});
    log.lines.push(title("Of a stranger", "other"));
    log.session = "other".to_owned();
    log.after("elsewhere").user("x1", "a stranger").answer("x2");
    log.lines.push(title("Of a stranger, too", "other"));
    log.session = "s".to_owned();
    log.lines.push(json!({"type": "ai-title", "aiTitle": "My own", "sessionId": "s"}));
    log.after("a1").user("u2", "more").answer("a2");
    let found = log.import();
    let all = ["start", "Bash run c1", "result c1", "answer a1", "more", "answer a2"];
    assert_eq!(found.said(), all);
    assert_eq!(found.fact("session_id").as_deref(), Some("s"));
    assert_eq!(found.fact("title").as_deref(), Some("My own"));

    // Older releases copy the resumed session, and continue with a new id.
    let mut resumed = started();
    resumed.session = "new".to_owned();
    resumed.lines.push(json!({"type": "custom-title", "customTitle": "Named", "sessionId": "new"}));
    resumed.user("u2", "more").answer("a2");
    let found = resumed.import();
    assert_eq!(found.said(), all);
    assert_eq!(found.fact("session_id").as_deref(), Some("new"));
    assert_eq!(found.fact("title").as_deref(), Some("Named"));

    // A line with a missing parent starts no other conversation.
    let mut phantom = started();
    phantom.after("missing").user("u2", "more").answer("a2");
    assert_eq!(phantom.import().branches(), [all.map(str::to_owned).to_vec()]);
}

#[test]
fn compaction_boundaries_place_the_kept_messages() {
    let segment = |head: &str, anchor: &str, tail: &str| json!({"preservedSegment": {"headUuid": head, "anchorUuid": anchor, "tailUuid": tail}});
    let list = |anchor: &str, ids: &[&str]| json!({"preservedMessages": {"anchorUuid": anchor, "uuids": ids, "allUuids": ids}});
    let cases = [
        ("nothing", json!({"trigger": "manual"}), vec!["summary s"]),
        ("a segment", segment("u3", "s", "a3"), vec!["summary s", "three", "answer a3"]),
        ("a segment before", segment("u1", "b", "a1"), vec!["one", "answer a1", "summary s"]),
        ("no way from end to end", segment("u3", "s", "gone"), vec!["summary s"]),
        ("a list", list("s", &["u3", "a3"]), vec!["summary s", "three", "answer a3"]),
        ("a list before", list("b", &["u1", "a1"]), vec!["one", "answer a1", "summary s"]),
        ("gaps", list("s", &["u1", "a3", "u3"]), vec!["summary s", "one", "three", "answer a3"]),
        ("gaps before", list("b", &["a1", "a2"]), vec!["answer a1", "answer a2", "summary s"]),
    ];
    for (what, meta, expected) in cases {
        let mut log = Log::new();
        log.user("u1", "one").answer("a1").user("u2", "two").answer("a2");
        log.user("u3", "three").answer("a3").boundary("b", meta).summary("s");
        log.user("u4", "four").answer("a4");
        let found = log.import();
        assert_eq!(found.said(), [&expected[..], &["four", "answer a4"]].concat(), "{what}");
        // The next compaction finds kept messages by their ids and can list them again.
        if let Some(last) = expected.last().filter(|last| last.starts_with("answer")) {
            let id = last.trim_start_matches("answer ");
            log.boundary("c", list("t", &[id, "a4"])).summary("t").user("u5", "five");
            let again = ["summary t", last, "answer a4", "five"];
            assert_eq!(log.import().said(), again, "{what}, compacted again");
        }
    }
}

#[test]
fn summaries_without_a_boundary_keep_the_conversation() {
    let mut log = started();
    log.summary("s").user("u2", "more");
    let stem = ["start", "Bash run c1", "result c1", "answer a1"];
    assert_eq!(log.import().said(), [&stem[..], &["summary s", "more"]].concat());
    // The first releases start the log with it.
    let mut old = started();
    old.last = None;
    old.summary("s").user("u2", "more");
    assert_eq!(old.import().said(), ["summary s", "more"]);
}

#[test]
fn replaced_results_change_from_their_replacement_on() {
    let lines = [
        json!({"type": "content-replacement", "sessionId": "s", "replacements":
            [{"kind": "tool-result", "toolUseId": "t-c1", "replacement": "(kept in a file)"}]}),
        json!({"type": "system", "subtype": "microcompact_boundary", "uuid": "m", "sessionId": "s",
            "microcompactMetadata": {"compactedToolIds": ["t-c1"]}}),
    ];
    for (line, now) in
        lines.into_iter().zip(["(kept in a file)", "[Old tool result content cleared]"])
    {
        let mut log = started();
        log.user("u2", "more");
        log.lines.push(line);
        log.answer("a2");
        let found = log.import();
        assert_eq!(found.said(), ["start", "Bash run c1", now, "answer a1", "more", "answer a2"]);
        let before = found.sandbox.repo.resolve("s~2").unwrap().commit;
        assert_eq!(found.said_at(&before)[2], "result c1", "as it was sent until then");
    }
}

#[test]
fn prompts_typed_during_work_count_and_program_messages_do_not() {
    let rendered = |text: &str| {
        json!({"renderedRole": "user", "rendered": [{"type": "text",
        "text": format!("The user sent a new message while you were working:\n{text}\n\nDo it.")}]})
    };
    let typed = |prompt: Value| json!({"prompt": prompt, "commandMode": "prompt"});
    let blocks = json!([{"type": "text", "text": "as well"}]);
    let task = json!({"prompt": "<task-notification>done</task-notification>",
        "commandMode": "task-notification"});
    let peer = json!({"prompt": "hello", "origin": {"kind": "peer"}});
    let human = json!({"prompt": "as well", "origin": {"kind": "human"}});
    let cases = [
        ("older", typed("as well".into()), json!({}), true),
        ("of 1.0", json!({"prompt": "as well"}), json!({}), true),
        ("blocks", typed(blocks), json!({}), true),
        ("rendered", typed("as well".into()), rendered("as well"), true),
        ("a person", human, json!({}), true),
        ("a task", task, json!({}), false),
        ("another session", peer, rendered("hello"), false),
    ];
    for (what, attachment, more, is_typed) in cases {
        let mut log = Log::new();
        log.user("u1", "start").call("c1");
        for operation in ["enqueue", "dequeue"] {
            log.lines.push(json!({"type": "queue-operation", "operation": operation,
                "content": "as well", "sessionId": "s"}));
        }
        log.result("r1", "c1").queued("q1", &attachment, &more).answer("a1");
        let found = log.import();
        let said = found.said();
        assert_eq!(said.len(), 5, "{what}: {said:?}");
        let messages = found.sandbox.messages(&found.report.head);
        let queued = view("claude-code", messages[3].as_bytes());
        assert_eq!(said[3] == "as well", is_typed, "{what}: {said:?}");
        assert_eq!(queued.is_added, !is_typed, "{what}");
        let is_rendered = more.get("rendered").is_some();
        assert_eq!(
            queued.text.contains("Do it."),
            is_rendered,
            "{what}: it is shown as it was sent"
        );
        assert_eq!(found.report.turns, if is_typed { 4 } else { 3 }, "{what}");
    }
}

#[test]
fn dequeued_prompts_are_not_imported() {
    for operation in ["remove", "popAll", "dequeue"] {
        let mut log = Log::new();
        log.user("u1", "start").call("c1");
        for operation in ["enqueue", operation] {
            log.lines.push(json!({"type": "queue-operation", "operation": operation,
                "content": "never mind", "sessionId": "s"}));
        }
        log.result("r1", "c1").answer("a1");
        assert_eq!(log.import().said().len(), 4, "{operation}");
    }
}

#[test]
fn local_commands_join_the_next_request_and_client_errors_do_not() {
    let command = |content: &str| {
        json!({"type": "system", "subtype": "local_command",
        "content": content, "level": "info", "isMeta": false})
    };
    let mut log = started();
    log.line("l1", command("<command-name>/branch</command-name>"));
    log.line("l2", command("<local-command-stdout>Branched</local-command-stdout>"));
    let failed = json!({"type": "assistant", "isApiErrorMessage": true, "message": {
        "role": "assistant", "id": "e", "model": "<synthetic>",
        "content": [{"type": "text", "text": "API Error: 500"}]}});
    log.user("u2", "more").line("e1", failed).user("u3", "again").answer("a3");
    let found = log.import();
    let said = found.said();
    assert_eq!(said[4..], ["/branch", "Branched", "more", "again", "answer a3"]);
    let roles = found.sandbox.messages(&found.report.head);
    let role = view("claude-code", roles[5].as_bytes()).role;
    assert_eq!(role, turntree::context::Role::User);
}

#[test]
fn parallel_results_are_exported_in_arrival_order() {
    let mut log = Log::new();
    log.user("u1", "start").call("c1").call("c2");
    log.lines[2]["message"]["id"] = "m-c1".into();
    log.result("r2", "c2").result("r1", "c1");
    let found = log.import();
    let context = found.sandbox.repo.context(&found.report.head).unwrap();
    let mut out = Vec::new();
    let store = found.sandbox.repo.store();
    turntree_exchange::render::export_anthropic(store, &context, "main", &mut out).unwrap();
    let sent: Value = serde_json::from_slice(&out).unwrap();
    let ids = |message: usize, name: &str| {
        let blocks = sent["messages"][message]["content"].as_array().unwrap();
        blocks.iter().map(|block| block[name].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(1, "id"), ["t-c1", "t-c2"]);
    assert_eq!(ids(2, "tool_use_id"), ["t-c2", "t-c1"]);
}

#[test]
fn tool_search_results_are_exported_as_sent() {
    let mut log = Log::new();
    let found = json!([{"type": "tool_result", "tool_use_id": "t-c1",
        "content": [{"type": "tool_reference", "tool_name": "mcp__x__y"}]}]);
    log.user("u1", "start").call("c1").user("r1", found).answer("a1");
    let imported = log.import();
    let messages = imported.sandbox.messages(&imported.report.head);
    let result = view("claude-code", messages[2].as_bytes());
    assert_eq!(
        (result.role, result.text.as_str()),
        (turntree::context::Role::Tool, "Tool loaded.")
    );
}

#[test]
fn client_branches_continue_from_their_fork_turn() {
    let sandbox = Sandbox::new();
    let base = started();
    sandbox.import("s", base.text().as_bytes()).unwrap();
    let mut branch = started();
    branch.session = "b".to_owned();
    for line in &mut branch.lines {
        line["forkedFrom"] = json!({"sessionId": "s", "messageUuid": line["uuid"]});
        line["sessionId"] = "b".into();
    }
    branch.user("u2", "other").answer("a2");
    let report = sandbox.import("b", branch.text().as_bytes()).unwrap();
    assert_eq!(report.turns, 2);
    let at = |revision: &str| sandbox.repo.resolve(revision).unwrap().commit;
    assert_eq!(at("b~2"), at("s"));
    assert_eq!(sandbox.source(&report.head), branch.text().as_bytes());

    // A branch of a branch names its direct origin.
    let mut second = branch;
    second.session = "c".to_owned();
    for line in &mut second.lines {
        line["forkedFrom"] = json!({"sessionId": "b", "messageUuid": line["uuid"]});
        line["sessionId"] = "c".into();
    }
    second.user("u3", "last");
    sandbox.import("c", second.text().as_bytes()).unwrap();
    assert_eq!(at("c~1"), at("b"));
}

#[test]
fn kept_messages_survive_an_import_between_boundary_and_summary() {
    let kept = json!({"preservedMessages": {"anchorUuid": "s", "uuids": ["u2", "a2"]}});
    let mut log = Log::new();
    log.user("u1", "one").answer("a1").user("u2", "two").answer("a2");
    log.boundary("b", kept).summary("s").after("a2").user("u3", "three").answer("a3");
    let expected = log.import().said();
    assert_eq!(expected, ["summary s", "two", "answer a2", "three", "answer a3"]);
    for lines in 1..log.lines.len() {
        let sandbox = Sandbox::new();
        let begun: String = log.lines[..lines].iter().map(|line| format!("{line}\n")).collect();
        sandbox.import("s", begun.as_bytes()).unwrap();
        let report = sandbox.import("s", log.text().as_bytes()).unwrap();
        let found = Imported { sandbox, report };
        assert_eq!(found.said(), expected, "after {lines} lines");
        assert_eq!(found.branches().len(), 1, "after {lines} lines");
    }
}

#[test]
fn a_kept_segment_may_end_at_lines_without_a_message() {
    let segment =
        json!({"preservedSegment": {"headUuid": "t1", "anchorUuid": "s", "tailUuid": "d2"}});
    let reminder = json!({"type": "attachment", "attachment": {"type": "todo_reminder"}});
    let duration = json!({"type": "system", "subtype": "turn_duration"});
    let mut log = started();
    log.line("t1", reminder).user("u2", "more").answer("a2").line("d2", duration);
    log.boundary("b", segment).summary("s").after("d2").user("u3", "next").answer("a3");
    let kept = ["summary s", "more", "answer a2"];
    let found = log.import();
    assert_eq!(found.said(), [&kept[..], &["next", "answer a3"]].concat());
    assert_eq!(found.branches().len(), 1);
    // A rewind to a record inside of the segment stays behind the summary.
    log.after("a2").user("u4", "other").answer("a4");
    assert_eq!(log.import().said(), [&kept[..], &["other", "answer a4"]].concat());
}

/// A fork of a session, with copies of all of its lines.
fn fork_of(log: &Log) -> Log {
    let copy = |line: &Value| {
        let mut line = line.clone();
        line["forkedFrom"] = json!({"sessionId": line["sessionId"], "messageUuid": line["uuid"]});
        line["sessionId"] = "f".into();
        line
    };
    Log {
        lines: log.lines.iter().map(copy).collect(),
        last: log.last.clone(),
        session: "f".to_owned(),
    }
}

#[test]
fn rewinds_in_a_fork_reach_its_copied_records() {
    let mut origin = Log::new();
    origin.user("u1", "one").answer("a1").user("u2", "two").answer("a2");
    let mut at_once = fork_of(&origin);
    at_once.after("a1").user("u3", "other").answer("a3");
    let mut later = fork_of(&origin);
    later.user("u3", "three").answer("a3").after("a1").user("u4", "other").answer("a4");
    let mut forth = fork_of(&origin);
    forth.after("a1").user("u3", "three").answer("a3");
    forth.after("a2").user("u4", "other").answer("a4");
    let mut restarted = fork_of(&origin);
    restarted.user("u3", "three").answer("a3");
    restarted.line(
        "u5",
        json!({"type": "user", "parentUuid": null,
        "message": {"role": "user", "content": "five"}}),
    );
    restarted.answer("a5").after("a2").user("u4", "other").answer("a4");
    let (one, two) = (&["one", "answer a1"][..], &["one", "answer a1", "two", "answer a2"][..]);
    for (what, fork, kept, branches, answers) in [
        ("at once", at_once, one, 1, 3),
        ("later", later, one, 2, 4),
        ("back and forth", forth, two, 2, 4),
        ("after a new beginning", restarted, two, 3, 5),
    ] {
        for cut in [fork.lines.len(), 4, 5, 6] {
            let sandbox = Sandbox::new();
            sandbox.import("s", origin.text().as_bytes()).unwrap();
            let begun: String = fork.lines[..cut].iter().map(|line| format!("{line}\n")).collect();
            sandbox.import("f", begun.as_bytes()).unwrap();
            let report = sandbox.import("f", fork.text().as_bytes()).unwrap();
            assert!(sandbox.source(&report.head) == fork.text().as_bytes(), "{what}, {cut}");
            let found = Imported { sandbox, report };
            let answer = format!("answer {}", fork.last.as_deref().unwrap_or_default());
            let expected = [kept, &["other", &answer]].concat();
            assert_eq!(found.said(), expected, "{what}, {cut}");
            let of_fork = found.sandbox.repo.branches();
            let of_fork = of_fork.iter().filter(|(name, _)| name.session() == "f").count();
            // A file with only copies has a turn too, which a rewind leaves.
            assert!(of_fork == branches || cut == 4, "{what}, {cut}");
            let prices = PriceTable::built_in();
            let day = |_| String::new();
            let (scope, by) = (UsageScope::All, UsageBy::Model);
            let query = UsageQuery { scope, by, since: None, prices: &prices, day: &day };
            let total = usage_report(&found.sandbox.repo, &query).unwrap().total;
            assert_eq!(total.answers, answers, "{what}, {cut}");
        }
    }
}
