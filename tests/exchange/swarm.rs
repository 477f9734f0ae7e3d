//! Swarms in a store: every moment of a log, a log that continues from a snapshot, and invalid
//! input.

use proptest::prelude::*;
use serde_json::{Value, json};
use turntree::ErrorKind;
use turntree::object::ObjectId;
use turntree::repo::{BranchName, Repository};
use turntree_exchange::formats::swarm::{
    Configuration, ReconstructionOptions, SnapshotOptions, SwarmCompat, export_snapshot,
    reconstruct, restore_swarm,
};
use turntree_tests::Sandbox;

fn exported(repo: &Repository, id: &ObjectId) -> Value {
    let mut out = Vec::new();
    let context = repo.context(id).unwrap();
    let options = SnapshotOptions { moment: "now".into(), ..Default::default() };
    export_snapshot(repo, &context, &options, &mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

fn reconstructed(log: &[u8], base: Option<&[u8]>) -> Value {
    let options = ReconstructionOptions { now: "now".into(), base, ..Default::default() };
    let mut out = Vec::new();
    reconstruct(log, &options).unwrap().write(false, &mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

/// The commits of a branch, oldest first.
fn commits(repo: &Repository, tip: &ObjectId) -> Vec<ObjectId> {
    let mut ids: Vec<_> =
        repo.history(&[*tip], &[]).unwrap().map(|entry| entry.unwrap().id).collect();
    ids.reverse();
    ids
}

fn lines(events: &[Value]) -> String {
    events.iter().map(|event| format!("{event}\n")).collect()
}

/// A time of a small log: seconds in any order, none, or an invalid one.
fn moment() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        8 => (0..30_u32).prop_map(|s| Some(format!("2026-01-01T00:00:{s:02}.000000Z"))),
        1 => (0..3_u32).prop_map(|h| Some(format!("2026-01-01T0{h}:00:10+01:00"))),
        1 => Just(None),
        1 => Just(Some("nonsense".to_owned())),
    ]
}

fn event() -> impl Strategy<Value = Value> {
    let agent = prop::sample::select(vec!["lead", "tester@lead", "a/b%2F", "c@b@a", "main"]);
    let call = (0..4_u8).prop_map(|n| format!("call_{n}"));
    let path = (0..3_u8).prop_map(|n| format!("notes/{n}"));
    (agent, call, path, 0..12_u8, moment(), any::<u8>()).prop_map(
        |(agent, call, path, kind, moment, n)| {
            let mut event = match kind {
                0 => json!({"type": "user_prompt", "metadata": {"prompt": format!("do {n}")}}),
                1 => json!({"type": "user_prompt", "prompt": (if n % 2 == 0 { "" } else { "ask" })}),
                2 => json!({"type": "agent_step", "content": null, "model": "m",
                    "usage": {"input_tokens": n, "output_tokens": null},
                    "tool_calls": [{"id": call, "name": "TodoWrite", "arguments": {"n": n}}]}),
                3 => json!({"type": "agent_stop", "content": format!("said \"{n}\" é")}),
                4 => json!({"type": "tool_result", "tool": "Read", "tool_call_id": call, "result": "x",
                    "metadata": {"read_digest": format!("{n:064x}"), "read_path": path}}),
                5 => json!({"type": "tool_result", "tool": "MemoryRead", "result": {"n": [n]},
                    "metadata": {"read_digest": format!("{n:064x}"), "read_path": path}}),
                6 => json!({"type": "tool_call", "tool": "TodoWrite", "tool_call_id": call}),
                7 => json!({"type": "tool_call", "tool": "ScratchpadWrite",
                    "arguments": {"file_path": path, "content": format!("é{n}"), "title": null}}),
                8 => json!({"type": "tool_call", "tool": "LoadSkill",
                    "arguments": {"file_path": format!("s{n}")}}),
                9 => json!({"type": "context_threshold_hit", "threshold": n % 4}),
                10 => json!({"type": "compression_completed"}),
                _ => match n % 2 {
                    0 => json!({"type": "agent_start"}),
                    _ => json!({"type": "agent_start", "system_prompt": format!("p{n}")}),
                },
            };
            event["agent"] = agent.into();
            event["swarm_id"] = format!("swarm{}", n % 2).into();
            if let Some(moment) = moment {
                event["timestamp"] = moment.into();
            }
            event
        },
    )
}

turntree_properties::properties! {
    cases = 48;

    /// For any order of the events in a log, each turn equals the reconstruction from its prefix.
    #[test]
    fn swarm_turns_equal_the_log_prefix_of_their_time(events in prop::collection::vec(event(), 1..40)) {
        let log = lines(&events);
        let sandbox = Sandbox::new();
        let head = sandbox.import_as("s", "swarm-events", log.as_bytes()).unwrap().head;
        for id in commits(&sandbox.repo, &head) {
            let beginning = sandbox.source(&id);
            prop_assert!(log.as_bytes().starts_with(&beginning));
            prop_assert_eq!(exported(&sandbox.repo, &id), reconstructed(&beginning, None));
        }
        prop_assert_eq!(sandbox.source(&head), log.into_bytes());
    }

    /// A growing log continues from a snapshot.
    #[test]
    fn swarm_logs_continue_from_a_snapshot(
        before in prop::collection::vec(event(), 1..15),
        after in prop::collection::vec(event(), 1..15),
        cut in any::<prop::sample::Index>(),
    ) {
        let base = reconstructed(lines(&before).as_bytes(), None).to_string();
        let (delta, part) = (lines(&after), lines(&after[..cut.index(after.len()) + 1]));
        let sandbox = Sandbox::new();
        let first = sandbox.import_as("s", "swarm-snapshot", base.as_bytes()).unwrap().head;
        for log in [&part, &delta] {
            let report = sandbox.import_as("s", "swarm-events", log.as_bytes()).unwrap();
            prop_assert_eq!(report.branch, BranchName::main("s").unwrap());
            let expected = reconstructed(log.as_bytes(), Some(base.as_bytes()));
            prop_assert_eq!(exported(&sandbox.repo, &report.head), expected);
            prop_assert_eq!(sandbox.source(&report.head), log.as_bytes());
            prop_assert_eq!(commits(&sandbox.repo, &report.head)[0], first);
        }
        let again = sandbox.import_as("s", "swarm-events", delta.as_bytes()).unwrap();
        prop_assert_eq!((again.turns, again.new_bytes), (0, 0));
    }

    /// Excluding later events equals a log without them.
    #[test]
    fn reconstruction_until_a_time_equals_a_filtered_log(events in prop::collection::vec(event(), 0..30), until in 0..30_i64) {
        let micros = 1_767_225_600_000_000 + until * 1_000_000;
        let time = |event: &Value| -> i64 {
            let text = event["timestamp"].as_str().unwrap_or("nonsense");
            let number = |at: usize| text.get(at..at + 2).map_or(0, |n| n.parse::<i64>().unwrap());
            match text {
                "nonsense" => 0,
                _ => 1_767_225_600_000_000 + match text.ends_with("+01:00") {
                    true => (number(11) - 1) * 3_600_000_000 + 10_000_000,
                    false => number(17) * 1_000_000,
                },
            }
        };
        let kept: Vec<Value> = events.iter().filter(|event| time(event) <= micros).cloned().collect();
        let until = turntree::object::Time { micros, offset_minutes: 0 };
        let options = ReconstructionOptions {
            until: Some(until), now: "now".into(), ..Default::default()
        };
        let mut out = Vec::new();
        reconstruct(lines(&events).as_bytes(), &options).unwrap().write(false, &mut out).unwrap();
        let found: Value = serde_json::from_slice(&out).unwrap();
        prop_assert_eq!(found, reconstructed(lines(&kept).as_bytes(), None));
    }
}

/// A snapshot records the position of the last to-do list. A log may show that there is none.
#[test]
fn logs_can_clear_the_to_do_list_position() {
    let todo = |call| json!({"type": "tool_call", "tool": "TodoWrite", "tool_call_id": call, "agent": "lead"});
    let step = json!({"type": "agent_step", "agent": "lead", "content": null,
        "tool_calls": [{"id": "made", "name": "TodoWrite", "arguments": {}}]});
    let base = reconstructed(lines(&[todo("made"), step]).as_bytes(), None);
    let index = |document: &Value| {
        document["agents"]["lead"]["context_state"]["last_todowrite_message_index"].clone()
    };
    assert_eq!(index(&base), 0);
    let sandbox = Sandbox::new();
    sandbox.import_as("s", "swarm-snapshot", base.to_string().as_bytes()).unwrap();
    let further = lines(&[todo("unknown")]);
    let head = sandbox.import_as("s", "swarm-events", further.as_bytes()).unwrap().head;
    assert_eq!(index(&exported(&sandbox.repo, &head)), Value::Null);
}

const SNAPSHOT: &[u8] = include_bytes!("../vectors/swarmsdk/snapshot-2.1.0-swarm.json");

#[test]
fn restored_swarms_report_what_could_not_be_restored() {
    let sandbox = Sandbox::new();
    let head = sandbox.import("review", SNAPSHOT).unwrap().head;
    // Another process, with a configuration that lacks an agent and has another prompt.
    let repo = sandbox.reopened();
    let context = repo.context(&head).unwrap();
    let configuration = br#"{"agents": {"lead": {"system_prompt": "You lead."}, "writer": {}}}"#;
    let configuration = Configuration::parse(configuration).unwrap();
    let restored =
        restore_swarm(&repo, &context, &configuration, false, SwarmCompat::Sound).unwrap();
    let result = &restored.result;
    assert!(result.partial_restore && !result.success && result.configuration_differs);
    assert_eq!(
        result.summary,
        "Snapshot restored with warnings. 0 agents skipped, 1 delegation instances skipped."
    );
    assert_eq!(result.skipped_delegations, ["tester@lead"]);
    assert!(result.skipped_agents.is_empty());
    assert_eq!(result.warnings[0].kind, "delegation_instance_not_restorable");
    assert_eq!(result.changed_prompts, ["lead"]);
    let lead = &restored.agents[0];
    let roles: Vec<String> = lead
        .messages
        .iter()
        .map(|message| serde_json::from_str::<Value>(message.get()).unwrap()["role"].to_string())
        .collect();
    assert_eq!(roles.len(), 6);
    assert_eq!(roles.iter().filter(|role| *role == "\"system\"").count(), 1);
    assert!(lead.messages[0].get().contains("You lead."));
    let mut written = Vec::new();
    restored.write(&mut written).unwrap();
    let written: Value = serde_json::from_slice(&written).unwrap();
    let mut expected = exported(&repo, &head)["plugin_states"].clone();
    for states in expected.as_object_mut().unwrap().values_mut() {
        states.as_object_mut().unwrap().retain(|agent, _| agent == "lead" || agent == "writer");
    }
    assert_eq!(written["plugin_states"], expected);
    assert!(written["agents"]["lead"]["memory_reads"].is_object());

    // With an unchanged configuration nothing is left out and nothing differs.
    let configuration = br#"{"agents": {"lead": {"system_prompt": "You coordinate reviews."}}}"#;
    let mut same = Configuration::parse(configuration).unwrap();
    let result = restore_swarm(&repo, &context, &same, false, SwarmCompat::Sound).unwrap().result;
    assert!(!result.configuration_differs, "the prompts are the same");
    let tester = br#"{"agents": {"tester": {"system_prompt": "You verify claims."}}}"#;
    same.agents.extend(Configuration::parse(tester).unwrap().agents);
    let result = restore_swarm(&repo, &context, &same, false, SwarmCompat::Sound).unwrap().result;
    assert_eq!((result.success, result.warnings.len()), (true, 0));
    assert!(!result.configuration_differs, "a delegate is known by its instances");
    assert_eq!(result.summary, "Snapshot restored successfully. All agents restored.");
}

#[test]
fn newer_swarm_snapshots_add_a_turn_and_older_ones_are_recognized() {
    let sandbox = Sandbox::new();
    let first = sandbox.import("review", SNAPSHOT).unwrap();
    let mut newer: Value = serde_json::from_slice(SNAPSHOT).unwrap();
    let conversation = newer["agents"]["lead"]["conversation"].as_array_mut().unwrap();
    conversation.push(json!({"role": "user", "content": "And now?"}));
    newer["delegation_instances"] = json!({});
    newer["snapshot_at"] = "2026-03-02T10:00:00Z".into();
    let second = sandbox.import("review", newer.to_string().as_bytes()).unwrap();
    assert_eq!((second.turns, &second.branch), (1, &first.branch));
    assert_eq!(exported(&sandbox.repo, &second.head), newer, "removed agents are missing");
    let old = sandbox.import("review", SNAPSHOT).unwrap();
    assert_eq!((old.turns, old.head), (0, second.head));
}

#[test]
fn edited_contexts_export_in_the_documented_swarm_format() {
    let sandbox = Sandbox::new();
    let id = sandbox.import("work", turntree_tests::claude_code(6).as_bytes()).unwrap().head;
    let document = exported(&sandbox.repo, &id);
    let head = sandbox.import_as("again", "swarm-snapshot", document.to_string().as_bytes());
    assert_eq!(head.as_ref().unwrap().notes, []);
    let again = exported(&sandbox.repo, &head.unwrap().head);
    assert_eq!(again, document);
    assert_eq!(document["metadata"]["first_message_sent"], true);
    let messages = document["agents"]["main"]["conversation"].as_array().unwrap();
    assert!(messages.iter().any(|message| message["tool_calls"][0]["arguments"].is_object()));
}

#[test]
fn invalid_swarm_documents_are_rejected_with_their_location() {
    let sandbox = Sandbox::new();
    sandbox.import("other", SNAPSHOT).unwrap();
    let good: Value = serde_json::from_slice(SNAPSHOT).unwrap();
    let cases: [(&str, Value, &str); 12] = [
        ("/version", json!("3.0.0"), "Unsupported snapshot version: 3.0.0"),
        ("/type", json!("node_orchestrator"), "type: expected 'swarm' or 'workflow'"),
        ("/agents", json!([]), "agents: expected an object, found an array"),
        ("/agents/lead", json!(null), "agents.lead: expected an object, found null"),
        ("/agents/lead/conversation", json!({}), "agents.lead.conversation: expected an array"),
        ("/agents/lead/conversation/2", json!(7), "agents.lead.conversation[2]: expected"),
        ("/agents/lead/conversation/2/role", json!("robot"), "conversation[2].role: expected"),
        ("/agents/lead/conversation/2/tool_calls/0/id", json!(1), "tool_calls[0].id: expected"),
        (
            "/agents/lead/context_state/warning_thresholds_hit",
            json!([1.5]),
            "agents.lead.context_state.warning_thresholds_hit: expected an array of integers",
        ),
        ("/agents/lead/system_prompt", json!(1), "agents.lead.system_prompt: expected a string"),
        ("/scratchpad/notes~1retry/content", json!(1), "notes/retry.content: expected a string"),
        ("/read_tracking/lead", json!(1), "read_tracking.lead: expected an object"),
    ];
    let before = sandbox.repo.refs();
    for (place, value, message) in cases {
        let mut bad = good.clone();
        *bad.pointer_mut(place).unwrap() = value;
        let error = sandbox.import("bad", bad.to_string().as_bytes()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{place}");
        assert!(error.to_string().contains(message), "{place}: {error}");
        assert_eq!(sandbox.repo.refs(), before);
    }
    let mut missing = good.clone();
    missing.as_object_mut().unwrap().shift_remove("agents");
    let error = sandbox.import("bad", missing.to_string().as_bytes()).unwrap_err();
    assert!(error.to_string().contains("agents: missing"), "{error}");
}

#[test]
fn tolerated_irregularities_are_reported() {
    let document = br#"{"version":"2.1.0","type":"swarm","agents":{"lead":{"conversation":[
        {"role":"assistant","content":"lone \ud800","tool_calls":[{"id":"1","name":"a","arguments":"x"},{"id":"1","name":"b"}]},
        {"role":"tool","content":null,"tool_call_id":"2"}],"system_prompt":null,
        "context_state":{"last_todowrite_message_index":9}},"lead":{"conversation":[]}},"odd":1,
        "read_tracking":{"lead":{"/p":"abc"}}}"#;
    let sandbox = Sandbox::new();
    let report = sandbox.import_as("s", "swarm-snapshot", document).unwrap();
    assert_eq!(sandbox.source(&report.head), document);
    let notes: Vec<String> =
        report.notes.iter().map(|note| format!("{}: {}", note.line, note.what)).collect();
    for expected in [
        "agents: 'lead' occurs twice",
        "delegation_instances: missing",
        "metadata: missing",
        "64 hex digits",
    ] {
        assert!(notes.iter().any(|note| note.contains(expected)), "{expected}: {notes:#?}");
    }
    assert_eq!(exported(&sandbox.repo, &report.head)["odd"], 1, "unknown fields are kept");
}
