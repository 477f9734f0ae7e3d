//! Families of rollouts: forks with copied lines, forks that reference their origin, and forks of
//! those.

use serde_json::{Value, json};
use turntree_exchange::UsageScope;
use turntree_exchange::render::export_openai;
use turntree_tests::Sandbox;

use crate::client_branches::{Rollout, fact, said, usage};

/// A fork with copies of the lines of its origins, and with their metadata lines if `has_metas`.
fn copy(id: &str, of: &str, origin: &Rollout, has_metas: bool) -> Rollout {
    let mut fork = Rollout::new(&json!({"id": id, "forked_from_id": of, "cwd": format!("/{id}")}));
    for line in &origin.lines {
        let kind = line["type"].as_str().unwrap();
        if has_metas || kind != "session_meta" {
            fork.line(kind, &line["payload"]);
        }
    }
    fork
}

#[test]
fn copied_headers_do_not_change_the_identity_of_a_fork() {
    for has_metas in [true, false] {
        let sandbox = Sandbox::new();
        let mut a = Rollout::new(&json!({"id": "a", "cwd": "/a"}));
        a.turn("1");
        let mut b = copy("b", "a", &a, has_metas);
        b.sum_of(&a).turn("2");
        let mut c = copy("c", "b", &b, has_metas);
        c.sum_of(&b).turn("3");
        for (id, rollout) in [("a", &a), ("b", &b), ("c", &c)] {
            sandbox.import(&format!("r-{id}"), rollout.text().as_bytes()).unwrap();
            assert_eq!(fact(&sandbox, &format!("r-{id}"), "session_id").unwrap(), id);
            assert_eq!(fact(&sandbox, &format!("r-{id}"), "cwd").unwrap(), format!("/{id}"));
        }
        assert_eq!(fact(&sandbox, "r-c", "forked_from").unwrap(), "b");
        assert_eq!(said(&sandbox, "r-c").len(), 6);
    }
}

#[test]
fn answers_copied_within_a_family_are_counted_once() {
    for (name, has_metas, id_of_turn) in [
        ("metas are copied", true, "t"),
        ("metas are missing", false, "t"),
        ("ids of turns are unique", false, "019f0000-0000-7000-8000-0000000000"),
    ] {
        let sandbox = Sandbox::new();
        let mut a = Rollout::new(&json!({"id": "a"}));
        a.turn(&format!("{id_of_turn}1"));
        let mut b = copy("b", "a", &a, has_metas);
        b.sum_of(&a).turn(&format!("{id_of_turn}2"));
        let mut c = copy("c", "b", &b, has_metas);
        c.sum_of(&b).turn(&format!("{id_of_turn}3"));
        // A second fork of the first rollout uses as many tokens as the other.
        let mut d = copy("d", "a", &a, has_metas);
        d.sum_of(&a).turn(&format!("{id_of_turn}4"));
        for (id, rollout) in [("a", &a), ("b", &b), ("c", &c), ("d", &d)] {
            sandbox.import(id, rollout.text().as_bytes()).unwrap();
        }
        let found = usage(&sandbox, UsageScope::All);
        assert_eq!((found.total.answers, found.total.tokens.input), (4, 40), "{name}");
        let alone = usage(&sandbox, UsageScope::Session("c"));
        assert_eq!((alone.total.answers, alone.total.tokens.input), (3, 30), "{name}");
    }
}

/// The size of lines in a file.
fn size(lines: &[Value]) -> usize {
    lines.iter().map(|line| line.to_string().len() + 1).sum()
}

/// Three rollouts that reference their bases: `a` with two turns, `b` on the first of them with two
/// more, and `c` on the first of these. `part` removes fields of a base.
fn family(part: fn(&mut Value)) -> [Rollout; 3] {
    let base = |thread: &str, rollout: &Rollout, lines: usize| {
        let end = rollout.lines[lines]["ordinal"].clone();
        let mut base = json!({"thread_id": thread, "end_ordinal_exclusive": end,
            "end_byte_offset": size(&rollout.lines[..lines])});
        part(&mut base);
        base
    };
    let mut a = Rollout::numbered(&json!({"id": "a"}), 0);
    a.turn("1").turn("2");
    let meta = json!({"id": "b", "forked_from_id": "a", "history_base": base("a", &a, 6)});
    let mut b = Rollout::numbered(&meta, 10);
    b.turn("3").turn("4");
    let meta = json!({"id": "c", "forked_from_id": "b", "history_base": base("b", &b, 6)});
    let mut c = Rollout::numbered(&meta, 20);
    c.turn("5");
    [a, b, c]
}

#[test]
fn forks_of_forks_have_the_whole_history() {
    type Change = fn(&mut Value);
    let parts: [(&str, Change); 4] = [
        ("both", |_| {}),
        ("numbers alone", |base| drop(base.as_object_mut().unwrap().remove("end_byte_offset"))),
        ("bytes that fit nothing", |base| base["end_byte_offset"] = 7.into()),
        ("numbers that are wrong", |base| base["end_ordinal_exclusive"] = 3.into()),
    ];
    for (name, part) in parts {
        let sandbox = Sandbox::new();
        let mut reports = Vec::new();
        for (id, rollout) in ["a", "b", "c"].iter().zip(&family(part)) {
            let session = format!("rollout-2026-{id}");
            reports.push(sandbox.import(&session, rollout.text().as_bytes()).unwrap());
        }
        assert!(reports.iter().all(|report| report.notes.is_empty()), "{name}: {reports:?}");
        let all = |numbers: &[u8]| -> Vec<String> {
            let turn = |it: &u8| [format!("prompt {it}"), format!("answer {it}")];
            numbers.iter().flat_map(turn).collect()
        };
        assert_eq!(said(&sandbox, "rollout-2026-b"), all(&[1, 3, 4]), "{name}");
        assert_eq!(said(&sandbox, "rollout-2026-c"), all(&[1, 3, 5]), "{name}");
        let found = usage(&sandbox, UsageScope::All);
        assert_eq!((found.total.answers, found.total.tokens.input), (5, 50), "{name}");
    }
}

#[test]
fn missing_fork_origins_are_reported_once() {
    let [a, b, c] = family(|_| {});
    let note = |report: &turntree_exchange::ImportReport| match &report.notes[..] {
        [note] => note.what.clone(),
        other => panic!("{other:?}"),
    };
    let sandbox = Sandbox::new();
    let report = sandbox.import("rollout-c", c.text().as_bytes()).unwrap();
    assert!(note(&report).contains("session b"), "{}", note(&report));
    // The store has a shorter version of an origin than the fork continues from.
    let short: String = b.lines[..3].iter().map(|line| format!("{line}\n")).collect();
    let sandbox = Sandbox::new();
    sandbox.import("rollout-a", a.text().as_bytes()).unwrap();
    sandbox.import("rollout-b", short.as_bytes()).unwrap();
    let report = sandbox.import("rollout-c", c.text().as_bytes()).unwrap();
    assert!(note(&report).contains("session b"), "{}", note(&report));
}

#[test]
fn answers_recorded_twice_are_counted_once() {
    let usage_of = |tokens: u64| json!({"input_tokens": tokens, "output_tokens": 0});
    let record = |id: &str, tokens: u64| json!({"response_id": id, "turn_id": "t", "usage": usage_of(tokens)});
    let mut a = Rollout::new(&json!({"id": "a"}));
    a.said("user", "go").line("token_usage_record", &record("r1", 10)).counted(10);
    a.said("user", "on").line("token_usage_record", &record("r2", 5)).counted(5).counted(0);
    let mut b = copy("b", "a", &a, false);
    b.said("user", "else").line("token_usage_record", &record("r3", 7));
    let sandbox = Sandbox::new();
    for (id, rollout) in [("a", &a), ("b", &b)] {
        let report = sandbox.import(id, rollout.text().as_bytes()).unwrap();
        assert!(report.notes.is_empty(), "{:?}", report.notes);
    }
    let found = usage(&sandbox, UsageScope::All);
    assert_eq!((found.total.answers, found.total.tokens.input), (3, 22));
}

#[test]
fn lost_codex_results_are_exported_as_aborted() {
    let mut rollout = Rollout::new(&json!({"id": "a"}));
    let call = json!({"type": "function_call", "name": "run", "arguments": "{}", "call_id": "c1"});
    rollout.said("user", "go").line("response_item", &call).said("user", "go on");
    let sandbox = Sandbox::new();
    let head = sandbox.import("a", rollout.text().as_bytes()).unwrap().head;
    let mut out = Vec::new();
    let context = sandbox.repo.context(&head).unwrap();
    export_openai(&sandbox.repo, &context, "main", &mut out).unwrap();
    let sent: Value = serde_json::from_slice(&out).unwrap();
    let result = json!({"role": "tool", "tool_call_id": "c1", "content": "aborted"});
    assert_eq!(sent["messages"][2], result);
}

#[test]
fn rollbacks_in_a_fork_reach_the_copied_prompts() {
    for (back, kept) in [(1, 2), (2, 1), (9, 0)] {
        let mut a = Rollout::new(&json!({"id": "a"}));
        a.turn("1").turn("2");
        let mut b = copy("b", "a", &a, true);
        b.sum_of(&a).turn("3");
        b.line("event_msg", &json!({"type": "thread_rolled_back", "num_turns": back}));
        b.turn("4");
        let sandbox = Sandbox::new();
        sandbox.import("r-a", a.text().as_bytes()).unwrap();
        let report = sandbox.import("r-b", b.text().as_bytes()).unwrap();
        let texts = |id: &str| [format!("prompt {id}"), format!("answer {id}")];
        let expected: Vec<String> =
            ["1", "2"][..kept].iter().chain(&["4"]).flat_map(|id| texts(id)).collect();
        assert_eq!(said(&sandbox, "r-b"), expected, "back {back}");
        assert_eq!(said(&sandbox, "r-b/main-2").last().unwrap(), "answer 3");
        assert!(sandbox.source(&report.head) == b.text().as_bytes());
        let total = usage(&sandbox, UsageScope::All).total;
        assert_eq!((total.answers, total.tokens.input), (4, 40), "back {back}");
    }
}
