//! Tests of Claude Code session logs: the events of single lines and of small files.

use serde_json::json;

use super::*;
use crate::formats::testing::told;

fn user(content: &Value) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": content}})
}

fn reply(id: &str, block: &Value) -> Value {
    json!({"type": "assistant", "message": {"id": id, "role": "assistant", "content": [block]}})
}

fn call(id: &str, name: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": {}})
}

fn result(id: &str, did: &Value) -> Value {
    let mut line = user(&json!([{"type": "tool_result", "tool_use_id": id, "content": "ok"}]));
    line["toolUseResult"] = did.clone();
    line
}

#[test]
fn parallel_calls_and_late_results_stay_in_the_turn_of_their_reply() {
    let mut of_next_request = reply("m2", &json!({"type": "text", "text": "Done."}));
    of_next_request["requestId"] = "r".into();
    let lines = [
        user(&json!("look\nat it")),
        reply("m1", &json!({"type": "text", "text": "Sure."})),
        reply("m1", &call("1", "Read")),
        result("1", &Value::Null),
        reply("m1", &call("2", "Bash")),
        user(&json!([{"type": "text", "text": "[Request interrupted by user]"}])),
        result("2", &Value::Null),
        reply("m2", &json!({"type": "thinking", "thinking": "So."})),
        of_next_request,
    ];
    assert_eq!(
        told(&FORMAT, &lines),
        [
            "turn",
            "main User look",
            "turn",
            "main Assistant Sure.",
            "main Assistant [Read]",
            "main Tool ok",
            "main Assistant [Bash]",
            "main User [Request interrupted by user]",
            "main Tool ok",
            "turn",
            "main Assistant So.",
            "turn",
            "main Assistant Done.",
        ]
    );
}

#[test]
fn a_given_title_stays_and_summaries_count_when_their_record_is_here() {
    let title =
        |kind: &str, field: &str, text: &str| json!({"type": kind, field: text, "sessionId": "s"});
    let summary =
        |text: &str, leaf: &str| json!({"type": "summary", "summary": text, "leafUuid": leaf});
    let mut said = user(&json!("go"));
    said["uuid"] = "u-here".into();
    let lines = [
        summary("of another session", "u-other"),
        summary("of this one", "u-here"),
        said,
        title("ai-title", "aiTitle", "made"),
        summary("later, and less", "u-here"),
        title("custom-title", "customTitle", "given\nby hand"),
        title("ai-title", "aiTitle", "made again"),
        title("custom-title", "customTitle", ""),
    ];
    let told = told(&FORMAT, &lines);
    let titles: Vec<_> = told.iter().filter(|line| line.starts_with("title=")).collect();
    assert_eq!(titles, ["title=of this one", "title=made", "title=given"]);
}

#[test]
fn a_command_with_its_caveat_and_output_is_one_turn() {
    let meta = |text: &str| {
        let mut line = user(&json!(text));
        line["isMeta"] = true.into();
        line
    };
    let lines = [
        meta("<local-command-caveat>Not for you"),
        user(&json!("<command-name>/clear</command-name>")),
        user(&json!("<local-command-stdout>cleared</local-command-stdout>")),
        user(&json!("<command-name>/skill</command-name>")),
        meta("Base directory for this skill: /s"),
    ];
    let turns: Vec<_> = told(&FORMAT, &lines).iter().map(|e| e == "turn").collect();
    assert_eq!(turns, [true, false, false, false, true, false, false]);
}

#[test]
fn files_and_todos_come_from_what_tools_did() {
    let edit = |old: &str, all: bool| {
        json!({"filePath": "/p/a", "originalFile": "x y x", "oldString": old,
               "newString": "z", "replaceAll": all})
    };
    let read = |total: u64| {
        json!({"type": "text", "file": {"filePath": "/p/r", "content": "1\n", "startLine": 1,
               "numLines": 1, "totalLines": total}})
    };
    let mut lines = vec![user(&json!("go"))];
    lines[0]["cwd"] = "/p".into();
    for did in [
        json!({"type": "create", "filePath": "/p/src/new", "content": "n"}),
        edit("x", false),
        edit("x", true),
        edit("not there", true),
        read(1),
        read(2),
        json!({"oldTodos": [], "newTodos": [{"content": "rest"}]}),
        json!({"filePath": "/elsewhere", "content": "not a write"}),
        json!("an error"),
        json!({"filePath": "/p/r", "oldString": "1", "newString": "!"}),
    ] {
        lines.push(result("1", &did));
    }
    let done: Vec<_> = told(&FORMAT, &lines)
        .into_iter()
        .filter(|event| event.starts_with("file ") || event.starts_with("pad "))
        .collect();
    assert_eq!(
        done,
        [
            "file src/new: n",
            "file a: z y x",
            "file a: z y z",
            "file a: none",
            "file r: 1\n",
            r#"pad todos: [{"content":"rest"}]"#,
            "file r: !\n",
        ]
    );
}

#[test]
fn a_compaction_is_its_summary_or_empty_when_a_message_without_one_follows() {
    let boundary = json!({"type": "system", "subtype": "compact_boundary"});
    let mut summary = user(&json!("So far: much."));
    summary["isCompactSummary"] = true.into();
    let lines = [boundary.clone(), summary, boundary.clone(), user(&json!("next")), boundary];
    assert_eq!(
        told(&FORMAT, &lines),
        [
            "compact main [main User So far: much.] 0..0",
            "compact main [] 0..0",
            "turn",
            "main User next",
        ],
        "the summary of the last boundary may follow"
    );
}

#[test]
fn sub_agents_have_conversations_of_their_own_inside_the_turn() {
    let progress = json!({"type": "progress", "data": {"type": "agent_progress",
        "agentId": "a/1", "message": reply("m9", &json!({"type": "tool_use", "id": "t",
        "name": "TodoWrite", "input": {"todos": []}}))}});
    let mut sidechain = user(&json!("do it"));
    sidechain["isSidechain"] = true.into();
    sidechain["agentId"] = "b2".into();
    let lines = [
        sidechain.clone(),
        user(&json!("go")),
        reply("m1", &call("1", "Task")),
        progress,
        sidechain,
        reply("m1", &call("2", "Task")),
        json!({"type": "progress", "data": {"type": "bash_progress", "output": "."}}),
    ];
    assert_eq!(
        told(&FORMAT, &lines),
        [
            "turn",
            "b2@main User do it",
            "turn",
            "main User go",
            "turn",
            "main Assistant [Task]",
            "a_1@main Assistant [TodoWrite]",
            "pad todos/a_1@main: []",
            "b2@main User do it",
            "main Assistant [Task]",
        ]
    );
}

#[test]
fn what_the_program_tells_the_model_is_in_the_conversation() {
    let lines = [
        json!({"type": "attachment", "renderedRole": "system", "attachment": {"type": "date"},
               "rendered": [{"content": "Today is Friday."}]}),
        json!({"type": "attachment",
               "attachment": {"type": "prompt_snapshot", "systemPrompt": ["Be", "good."]}}),
        json!({"type": "attachment", "attachment": {"type": "session_context"}}),
        json!({"type": "queue-operation", "operation": "enqueue"}),
        json!({"type": "novelty"}),
    ];
    assert_eq!(
        told(&FORMAT, &lines),
        ["main System Today is Friday.", "prompt main: Be\n\ngood.", "unread: novelty",]
    );
}
