//! Tests with the recorded vectors of SwarmSDK in `vectors/swarmsdk`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use turntree::ErrorKind;
use turntree::object::ObjectId;
use turntree_exchange::formats::swarm::{
    Configuration, Reconstruction, ReconstructionOptions, SnapshotOptions, SnapshotVersion,
    SwarmCompat, export_snapshot, reconstruct, restore_swarm,
};
use turntree_tests::Sandbox;

const NOW: &str = "2026-11-20T12:00:00Z";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/swarmsdk")
}

fn read(name: &str) -> Vec<u8> {
    fs::read(folder().join(name)).unwrap()
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

fn cases(name: &str) -> Vec<Value> {
    json(&read(name)).as_array().unwrap().clone()
}

fn log_of(events: &[Value]) -> String {
    events.iter().map(|event| format!("{event}\n")).collect()
}

fn reconstructed(log: &[u8], compat: SwarmCompat) -> Reconstruction {
    let options = ReconstructionOptions { now: NOW.into(), compat, ..Default::default() };
    reconstruct(log, &options).unwrap()
}

fn document(state: &Reconstruction) -> Value {
    let mut plain = Vec::new();
    state.write(false, &mut plain).unwrap();
    let mut pretty = Vec::new();
    state.write(true, &mut pretty).unwrap();
    assert_eq!(json(&plain), json(&pretty));
    assert!(!plain.contains(&b'\n'), "a document is one line");
    json(&plain)
}

fn exported(sandbox: &Sandbox, id: &ObjectId) -> Value {
    let options = SnapshotOptions { moment: NOW.into(), ..Default::default() };
    exported_as(sandbox, id, &options)
}

fn exported_as(sandbox: &Sandbox, id: &ObjectId, options: &SnapshotOptions) -> Value {
    let context = sandbox.repo.context(id).unwrap();
    let mut out = Vec::new();
    export_snapshot(&sandbox.repo, &context, options, &mut out).unwrap();
    json(&out)
}

#[test]
fn reconstructed_logs_equal_the_upstream_document() {
    let log = read("event-log.jsonl");
    let expected = json(&read("event-log.reconstructed.json"));
    for compat in [SwarmCompat::Sound, SwarmCompat::Upstream] {
        let state = reconstructed(&log, compat);
        assert_eq!(document(&state), expected);
        assert_eq!((state.events, state.notes.len()), (22, 0));
    }
    // The same events as one array, as databases return them.
    let events: Vec<Value> =
        log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(json).collect();
    let array = serde_json::to_vec_pretty(&events).unwrap();
    assert_eq!(document(&reconstructed(&array, SwarmCompat::Sound)), expected);
}

#[test]
fn reconstruction_edge_cases_match_the_vectors() {
    for case in cases("vectors/reconstruct-edge-cases.json") {
        let (name, events) = (case["name"].as_str().unwrap(), case["events"].as_array().unwrap());
        let mut expected = case["expected"].clone();
        if expected["snapshot_at"] == "<NOW>" {
            expected["snapshot_at"] = NOW.into();
        }
        let log = log_of(events);
        let compat = match case["string_keys"].as_bool().unwrap() {
            true => SwarmCompat::StringKeys,
            false => SwarmCompat::Upstream,
        };
        assert_eq!(document(&reconstructed(log.as_bytes(), compat)), expected, "{name}");
        // In these cases, upstream has the wrong representation of hashes and the wrong kind of
        // names.
        let sound = document(&reconstructed(log.as_bytes(), SwarmCompat::Sound));
        match name {
            "string keys" => assert_eq!(sound["agents"]["a"]["conversation"][0]["content"], "x"),
            "metadata nil" => {
                assert_eq!(sound["agents"]["a"]["conversation"][0]["content"], "{\"a\":1}");
            }
            _ => assert_eq!(sound, expected, "{name}"),
        }
        if !events.is_empty() {
            let sandbox = Sandbox::new();
            let head = sandbox.import_as("log", "swarm-events", log.as_bytes()).unwrap().head;
            assert_eq!(exported(&sandbox, &head), sound, "{name}");
            assert_eq!(sandbox.source(&head), log.as_bytes());
        }
    }
}

#[test]
fn every_swarm_document_round_trips() {
    let mut folders = vec![folder()];
    let mut seen = 0;
    let real = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/formats/real/swarmsdk");
    folders.extend(real.is_dir().then_some(real));
    for folder in folders {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() || name.ends_with(".md") {
                continue;
            }
            let bytes = fs::read(&path).unwrap();
            let sandbox = Sandbox::new();
            let report = sandbox.import("swarm", &bytes).unwrap();
            assert_eq!(sandbox.source(&report.head), bytes, "{name}");
            if report.format == "swarm-snapshot" {
                assert_eq!(report.turns, 1, "{name}");
                assert_eq!(exported(&sandbox, &report.head), json(&bytes), "{name}");
            } else {
                assert_eq!(report.format, "swarm-events");
                assert_eq!(
                    exported(&sandbox, &report.head),
                    json(&read("event-log.reconstructed.json"))
                );
            }
            let again = sandbox.import("swarm", &bytes).unwrap();
            assert_eq!((again.turns, again.new_bytes, again.head), (0, 0, report.head), "{name}");
            seen += 1;
        }
    }
    assert!(seen >= 5, "{seen} documents");
}

#[test]
fn old_swarm_documents_convert_like_upstream() {
    let sandbox = Sandbox::new();
    let head = sandbox.import("old", &read("snapshot-1.0.0-swarm.json")).unwrap().head;
    let (old, new) = (SnapshotVersion::V1_0, SnapshotVersion::V2_1);
    let as_version = |version| SnapshotOptions {
        version: Some(version),
        moment: NOW.into(),
        ..Default::default()
    };
    let converted = exported_as(&sandbox, &head, &as_version(new));
    let mut expected = json(&read("snapshot-1.0.0-swarm.json"));
    let fields = expected.as_object_mut().unwrap();
    let metadata = fields.shift_remove("swarm").unwrap();
    let memory = fields.shift_remove("memory_read_tracking").unwrap();
    fields.insert("metadata".into(), metadata);
    fields.insert("version".into(), "2.1.0".into());
    fields.insert("swarm_sdk_version".into(), "2.7.13".into());
    let read_entries = serde_json::json!({"lead": {"read_entries": memory["lead"]}});
    fields.insert("plugin_states".into(), serde_json::json!({"memory": read_entries}));
    assert_eq!(converted, expected);

    let bytes = converted.to_string();
    let head = sandbox.import("new", bytes.as_bytes()).unwrap().head;
    let back = exported_as(&sandbox, &head, &as_version(old));
    assert_eq!(back["memory_read_tracking"], memory);
    assert_eq!(back["swarm"], json(&read("snapshot-1.0.0-swarm.json"))["swarm"]);
}

fn configuration(kind: &str, prompt: Option<&str>) -> Configuration {
    let agents = serde_json::json!({"a": {"system_prompt": prompt}});
    let text = serde_json::json!({"type": kind, "agents": agents}).to_string();
    Configuration::parse(text.as_bytes()).unwrap()
}

/// A snapshot with one agent and the fields of a case.
fn snapshot_of(case: &Value) -> Value {
    let conversation: Vec<Value> = case["conversation"].as_array().map_or(Vec::new(), |messages| {
        let message = |m: &Value| serde_json::json!({"role": m[0], "content": m[1]});
        messages.iter().map(message).collect()
    });
    let mut snapshot = serde_json::json!({
        "version": "2.1.0", "type": "swarm", "metadata": {},
        "agents": {"a": {"conversation": conversation, "context_state": {},
            "system_prompt": case["snapshot_prompt"]}},
        "delegation_instances": {}, "read_tracking": {}, "plugin_states": {}, "scratchpad": {},
    });
    if let Some(fields) = case["snapshot"].as_object() {
        for (name, value) in fields {
            snapshot[name] = value.clone();
        }
    }
    if let Some(size) = case["entry_size"].as_u64() {
        let content = "x".repeat(usize::try_from(size).unwrap());
        snapshot["scratchpad"] = serde_json::json!({"p": {"content": content, "size": size}});
    }
    snapshot
}

#[test]
fn restore_cases_match_the_vectors() {
    for case in cases("vectors/restore-cases.json") {
        let name = case["name"].as_str().unwrap();
        let sandbox = Sandbox::new();
        if name == "bad_input_kind" {
            let error =
                sandbox.import_as("s", "swarm-snapshot", case["input"].to_string().as_bytes());
            let error = error.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains(case["raises"]["message"].as_str().unwrap()));
            continue;
        }
        let bytes = match name {
            "json_string_with_delegations_upstream_bug" => read("snapshot-2.1.0-swarm.json"),
            _ => snapshot_of(&case).to_string().into_bytes(),
        };
        let head = sandbox.import_as("s", "swarm-snapshot", &bytes).unwrap().head;
        let context = sandbox.repo.context(&head).unwrap();
        let target = case["target"].as_str().unwrap_or("swarm");
        let mut configured = configuration(target, case["config_prompt"].as_str());
        if case["upstream_2.7.13"].is_object() {
            for agent in ["lead", "tester"] {
                configured.agents.insert(agent.into(), Default::default());
            }
        }
        let preserve = case["preserve_system_prompts"].as_bool().unwrap_or(false);
        let restored =
            |compat| restore_swarm(&sandbox.repo, &context, &configured, preserve, compat);
        if let Some(message) = case["raises"]["message"].as_str() {
            let error = restored(SwarmCompat::Sound).unwrap_err();
            assert_eq!(
                (error.kind(), error.to_string().as_str()),
                (ErrorKind::InvalidInput, message)
            );
            continue;
        }
        let sound = restored(SwarmCompat::Sound).unwrap();
        assert!(sound.result.success, "{name}: {:?}", sound.result);
        let said = |compat| -> Vec<Value> {
            let agents = restored(compat).unwrap().agents;
            let messages = agents[0].messages.iter().map(|message| json(message.get().as_bytes()));
            messages.map(|m| serde_json::json!([m["role"], m["content"]])).collect()
        };
        if let Some(expected) = case["messages_after"].as_array() {
            assert_eq!(&said(SwarmCompat::Upstream), expected, "{name}");
            let without_stale: Vec<Value> = expected
                .iter()
                .enumerate()
                .filter(|(at, _)| *at != 1)
                .map(|(_, m)| m.clone())
                .collect();
            assert_eq!(said(SwarmCompat::Sound), without_stale, "{name}");
        }
        if let Some(correct) = case["correct"].as_u64() {
            assert_eq!(sound.scratchpad_bytes(), correct);
            let again = restored(SwarmCompat::Sound).unwrap();
            assert_eq!(again.scratchpad_bytes(), correct, "however often it is restored");
        }
    }
}
