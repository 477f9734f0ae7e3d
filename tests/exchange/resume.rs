//! A turn of any session can be resumed in any agent: the written transcript equals the session,
//! and the agent's new turns are imported to a branch that begins there.

use serde_json::{Value, json};
use turntree::local::random_bytes;
use turntree::object::{ObjectId, Time};
use turntree::repo::BranchName;
use turntree_exchange::agents::{RESUMED_FROM, ResumedSession, resume_place, session_name};
use turntree_exchange::render::export_openai;
use turntree_exchange::render::native::{
    NativeAgent, NativeFacts, NativeTranscript, native_transcript,
};
use turntree_exchange::sessions;
use turntree_tests::{Sandbox, claude_code, recorded_sessions, stamp};

const SESSION: &str = "0c6f4f3e-6f0a-4d3c-8a53-0d4f1f5d2a11";
const CWD: &str = "/srv/elsewhere";

fn facts() -> NativeFacts<'static> {
    facts_in(NativeAgent::ClaudeCode)
}

fn facts_in(agent: NativeAgent) -> NativeFacts<'static> {
    let is_opencode = agent == NativeAgent::Opencode;
    NativeFacts {
        session: if is_opencode { "ses_df8a5bb36ffey2PmalvpdIP9rz" } else { SESSION },
        cwd: CWD,
        now: Time { micros: 1_795_000_000_000_000, offset_minutes: 0 },
        show_time: &|_| "2026-11-18T11:06:40.000Z".to_owned(),
        title: "a title",
    }
}

fn laid_out(sandbox: &Sandbox, agent: NativeAgent, from: &ObjectId) -> NativeTranscript {
    let context = sandbox.repo.context(from).unwrap();
    native_transcript(agent, &sandbox.repo, &context, &facts_in(agent)).unwrap()
}

/// The conversation as it is sent, without instructions, which belong to the agent.
fn sent(sandbox: &Sandbox, head: &ObjectId) -> Vec<Value> {
    let mut out = Vec::new();
    let context = sandbox.repo.context(head).unwrap();
    export_openai(&sandbox.repo, &context, "main", &mut out).unwrap();
    let mut sent: Value = serde_json::from_slice(&out).unwrap();
    let messages = sent["messages"].as_array_mut().unwrap();
    messages.retain(|message| message["role"] != "system");
    for message in messages.iter_mut() {
        forget_form(message);
    }
    std::mem::take(messages)
}

/// Normalizes differences between agents' forms: arguments are compared as values, a text in parts
/// as one text, and surrounding white space is ignored.
fn forget_form(message: &mut Value) {
    if let Some(calls) = message.get_mut("tool_calls").and_then(Value::as_array_mut) {
        for call in calls {
            let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
            let value: Value = serde_json::from_str(arguments).unwrap_or(json!(arguments));
            let value = if value.is_object() { value } else { json!({ "input": value }) };
            call["function"]["arguments"] = value;
        }
    }
    if let Some(text) = message["content"].as_str() {
        message["content"] = text.trim().into();
    }
}

/// Stores the session of `transcript` on a new branch, and returns the branch.
fn begun(
    sandbox: &Sandbox,
    agent: NativeAgent,
    from: &ObjectId,
    transcript: &NativeTranscript,
) -> BranchName {
    let home = |name: &str| (name == "HOME").then(|| "/home/me".into());
    let place = resume_place(agent, &facts_in(agent), &home).unwrap();
    let branch = BranchName::main(&session_name(&place.path)).unwrap();
    let facts = facts_in(agent);
    let resumed =
        ResumedSession { from, past: None, branch: &branch, agent, transcript, facts: &facts };
    let mut change = sandbox.repo.begin();
    resumed.stage(&sandbox.repo, &mut change, &stamp(5)).unwrap();
    change.commit(&stamp(5), "resume").unwrap();
    branch
}

#[test]
fn recordings_keep_their_conversation_in_every_agent_format() {
    for file in recorded_sessions() {
        let bytes = std::fs::read(&file).unwrap();
        if bytes.len() > 700_000 {
            continue;
        }
        let sandbox = Sandbox::new();
        let head = sandbox.import("recorded", &bytes).unwrap().head;
        let expected = sent(&sandbox, &head);
        if expected.is_empty() {
            continue;
        }
        for agent in NativeAgent::ALL {
            let transcript = laid_out(&sandbox, agent, &head);
            let session = format!("in-{}", agent.name());
            let report = sandbox.import_as(&session, agent.format(), &transcript.bytes).unwrap();
            let found = sent(&sandbox, &report.head);
            let differs = expected.iter().zip(&found).position(|(a, b)| a != b);
            assert!(
                found == expected,
                "{} in {}: {} messages of {}, the first that differs is {differs:?}",
                file.display(),
                agent.name(),
                found.len(),
                expected.len(),
            );
        }
    }
}

#[test]
fn turns_of_a_resumed_agent_import_to_a_branch_at_the_turn() {
    let sandbox = Sandbox::new();
    let text = claude_code(12);
    let head = sandbox.import("original", text.as_bytes()).unwrap().head;
    let branch: BranchName = "original/main".parse().unwrap();
    let middle = sandbox.repo.find_turn(&head, 6).unwrap();
    for agent in NativeAgent::ALL {
        let transcript = laid_out(&sandbox, agent, &middle);
        assert_eq!(transcript.is_own, agent == NativeAgent::ClaudeCode);
        let resumed = begun(&sandbox, agent, &middle, &transcript);
        let first = sandbox.repo.tip(&resumed).unwrap();
        let commit = sandbox.repo.commit(&first).unwrap();
        assert_eq!(commit.parents, [middle]);
        assert_eq!(commit.metadata[RESUMED_FROM], middle.to_string());
        assert_eq!(sandbox.messages(&first), sandbox.messages(&middle), "nothing is stored twice");
        assert_eq!(sandbox.source(&first), transcript.bytes);
        let all = sessions(&sandbox.repo).unwrap();
        let found = all.iter().find(|session| session.name == resumed.session()).unwrap();
        assert_eq!(found.agent, agent.format(), "it is a session of that agent");

        // An unchanged file adds nothing, and a longer one continues the branch.
        let again =
            sandbox.import_as(resumed.session(), agent.format(), &transcript.bytes).unwrap();
        assert_eq!((again.turns, again.head), (0, first));
        let longer = longer(agent, &transcript);
        let report = sandbox.import_as(resumed.session(), agent.format(), &longer).unwrap();
        assert_eq!((report.turns, &report.branch), (1, &resumed), "{}", agent.name());
        assert_eq!(sandbox.repo.commit(&report.head).unwrap().parents, [first]);
        let (before, after) = (sent(&sandbox, &middle), sent(&sandbox, &report.head));
        assert!(after.starts_with(&before));
        assert_eq!(after[before.len()..], [json!({"role": "user", "content": "And now?"})]);
    }
    assert_eq!(sandbox.repo.tip(&branch), Some(head), "the original stays where it is");
}

/// The transcript with another prompt, as the agent would append it.
fn longer(agent: NativeAgent, transcript: &NativeTranscript) -> Vec<u8> {
    let text = String::from_utf8(transcript.bytes.clone()).unwrap();
    let lines: Vec<Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let last = |field: &str| {
        lines.iter().rev().find_map(|line| line.get(field).filter(|id| id.is_string())).cloned()
    };
    let time = "2026-11-18T12:00:00.000Z";
    let line = match agent {
        NativeAgent::ClaudeCode => json!({
            "parentUuid": last("uuid"), "type": "user", "uuid": "u-new", "sessionId": SESSION,
            "timestamp": time, "message": {"role": "user", "content": "And now?"},
        }),
        NativeAgent::Codex => json!({"timestamp": time, "type": "response_item", "payload": {
            "type": "message", "role": "user",
            "content": [{"type": "input_text", "text": "And now?"}],
        }}),
        NativeAgent::Gemini => json!({
            "id": "new", "timestamp": time, "type": "user", "content": [{"text": "And now?"}],
        }),
        NativeAgent::Opencode => {
            let message = json!({
                "info": {"role": "user", "time": {"created": 1}, "id": "new", "sessionID": SESSION},
                "parts": [{"type": "text", "text": "And now?"}],
            });
            let mut document: Value = serde_json::from_slice(&transcript.bytes).unwrap();
            document["messages"].as_array_mut().unwrap().push(message);
            return format!("{document:#}\n").into_bytes();
        }
        NativeAgent::Pi => json!({
            "type": "message", "id": "new", "parentId": last("id"), "timestamp": time,
            "message": {"role": "user", "content": [{"type": "text", "text": "And now?"}]},
        }),
    };
    format!("{text}{line}\n").into_bytes()
}

#[test]
fn own_records_of_an_agent_are_relinked_and_otherwise_unchanged() {
    let sandbox = Sandbox::new();
    let text = claude_code(6);
    let head = sandbox.import("original", text.as_bytes()).unwrap().head;
    let transcript = laid_out(&sandbox, NativeAgent::ClaudeCode, &head);
    let laid = String::from_utf8(transcript.bytes).unwrap();
    let laid: Vec<Value> = laid.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (title, laid) = laid.split_last().unwrap();
    assert_eq!(
        (&title["type"], &title["customTitle"]),
        (&json!("custom-title"), &json!("a title"))
    );
    let mut parent = Value::Null;
    for (line, original) in laid.iter().zip(text.lines()) {
        let original: Value = serde_json::from_str(original).unwrap();
        assert_eq!(line["message"], original["message"]);
        assert_eq!(line["uuid"], original["uuid"], "a copy is known by it");
        assert_eq!((&line["sessionId"], &line["cwd"]), (&json!(SESSION), &json!(CWD)));
        assert_eq!(line["parentUuid"], parent);
        if line["type"] == "assistant" {
            assert_eq!(line["requestSessionId"], original["sessionId"]);
        }
        parent = line["uuid"].clone();
    }
    assert_eq!(laid.len(), text.lines().count());
    assert_eq!(laid.last().unwrap()["timestamp"], "2026-11-18T11:06:40.000Z");
}

#[test]
fn omitted_content_is_counted_and_empty_conversations_are_rejected() {
    let sandbox = Sandbox::new();
    let chat = json!({"messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        ]},
        {"role": "assistant", "content": "I look.", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}},
        ]},
    ]});
    let head = sandbox.import("chat", chat.to_string().as_bytes()).unwrap().head;
    let pi = laid_out(&sandbox, NativeAgent::Pi, &head);
    assert_eq!(pi.left_out, [("pictures", 1), ("system messages", 1)].into_iter().collect());
    let text = String::from_utf8(pi.bytes).unwrap();
    assert!(text.contains("no result: the tool call was interrupted"), "{text}");
    let codex = laid_out(&sandbox, NativeAgent::Codex, &head);
    assert!(String::from_utf8(codex.bytes).unwrap().contains("https://example.org/a.png"));

    let alone = json!({"messages": [{"role": "system", "content": "Be brief."}]});
    let head = sandbox.import("alone", alone.to_string().as_bytes()).unwrap().head;
    let context = sandbox.repo.context(&head).unwrap();
    for agent in NativeAgent::ALL {
        let refused = native_transcript(agent, &sandbox.repo, &context, &facts());
        assert!(refused.unwrap_err().to_string().contains("no message"));
    }
}

#[test]
fn gemini_sessions_keep_pictures_and_command_like_prompts() {
    let sandbox = Sandbox::new();
    let picture = "data:image/png;base64,AAAA";
    let chat = json!({"messages": [
        {"role": "user", "content": [
            {"type": "text", "text": "/srv/app crashes:"},
            {"type": "image_url", "image_url": {"url": picture}},
        ]},
        {"role": "assistant", "content": "I see."},
    ]});
    let head = sandbox.import("chat", chat.to_string().as_bytes()).unwrap().head;
    let laid = laid_out(&sandbox, NativeAgent::Gemini, &head);
    assert!(laid.left_out.is_empty(), "{:?}", laid.left_out);
    let again = sandbox.import_as("again", "gemini-cli-log", &laid.bytes).unwrap().head;
    let said = sent(&sandbox, &again);
    assert_eq!(
        said[0]["content"],
        json!([
            {"type": "text", "text": "[prompt]\n/srv/app crashes:"},
            {"type": "image_url", "image_url": {"url": picture}},
        ])
    );
    assert_eq!(said[1]["content"], "I see.");
}

#[test]
fn pi_sessions_keep_extension_messages() {
    let sandbox = Sandbox::new();
    let time = "2026-11-18T10:00:00.000Z";
    let message = |id: &str, parent: &str, role: &str, text: &str| {
        json!({"type": "message", "id": id, "parentId": parent, "timestamp": time,
            "message": {"role": role, "content": [{"type": "text", "text": text}]}})
    };
    let told = |id: &str, parent: &str, content: Value| {
        json!({"type": "custom_message", "id": id, "parentId": parent, "timestamp": time,
            "customType": "rules", "content": content, "display": false})
    };
    let lines = [
        json!({"type": "session", "version": 3, "id": "s", "timestamp": time, "cwd": "/p"}),
        told("00000001", "", json!("Use tabs.")),
        message("00000002", "00000001", "user", "Begin."),
        told("00000003", "00000002", json!([{"type": "text", "text": "Two files are open."}])),
        message("00000004", "00000003", "assistant", "Done."),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let head = sandbox.import("pi", text.as_bytes()).unwrap().head;
    let laid = laid_out(&sandbox, NativeAgent::Pi, &head);
    assert!(laid.is_own);
    let again = sandbox.import_as("again", "pi", &laid.bytes).unwrap().head;
    assert_eq!(sent(&sandbox, &again), sent(&sandbox, &head));
    assert_eq!(sent(&sandbox, &head).len(), 4);
    let entries = String::from_utf8(laid.bytes).unwrap();
    assert_eq!(entries.matches(r#""type":"custom_message""#).count(), 2, "both keep their type");
}

#[test]
fn pictures_keep_their_position_in_every_agent_format() {
    let sandbox = Sandbox::new();
    let picture = |data: &str| json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}});
    let chat = json!({"messages": [
        {"role": "user", "content": [{"type": "text", "text": "Compare with this:"}, picture("AAAA")]},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "c1", "name": "shot", "input": {"of": "page"}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "Taken."}, picture("BBBB")]},
        ]},
    ]});
    let head = sandbox.import("chat", chat.to_string().as_bytes()).unwrap().head;
    for agent in NativeAgent::ALL {
        let laid = laid_out(&sandbox, agent, &head);
        let again = sandbox.import_as(agent.name(), agent.format(), &laid.bytes).unwrap().head;
        assert_eq!(sent(&sandbox, &again), sent(&sandbox, &head), "{}", agent.name());
        let text = String::from_utf8(laid.bytes).unwrap();
        assert!(!text.contains("[image]"), "a picture is also text: {text}");
    }
    let laid = laid_out(&sandbox, NativeAgent::Opencode, &head);
    let document: Value = serde_json::from_slice(&laid.bytes).unwrap();
    let parts = &document["messages"][1]["parts"];
    assert_eq!(parts[0]["state"]["attachments"][0]["url"], "data:image/png;base64,BBBB");
}

#[test]
fn session_ids_match_the_format_of_each_agent() {
    let later = Time { micros: facts().now.micros + 1000, offset_minutes: 0 };
    for _ in 0..20 {
        let [older, newer] =
            [facts().now, later].map(|now| NativeAgent::Opencode.session_id(random_bytes(), now));
        assert!(older.starts_with("ses_") && older.len() == 30, "{older}");
        assert!(newer < older, "the newest stands first: {newer} {older}");

        let id = NativeAgent::Codex.session_id(random_bytes(), facts().now);
        let lengths: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
        assert_eq!(id.as_bytes()[14], b'4', "{id}");
        assert!(b"89ab".contains(&id.as_bytes()[19]), "{id}");
    }
}
