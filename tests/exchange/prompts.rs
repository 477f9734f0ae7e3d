//! The numbers of prompts in imported sessions, from metadata and from the messages of turns.

use serde_json::{Value, json};
use turntree::context::{Builder, MAIN_AGENT, MessageEntry, Role};
use turntree::object::{Kind, ObjectSink};
use turntree::repo::{BranchName, LogEntry, Repository, SnapshotDraft};
use turntree_exchange::is_prompt;
use turntree_tests::{Sandbox, recorded_sessions, stamp};

/// The titles and numbers of the prompts of `branch`, oldest first.
fn prompts_of(repo: &Repository, branch: &str) -> Vec<(u64, String)> {
    let tip = repo.resolve(branch).unwrap().commit;
    let mut prompts = repo.prompts(Some(&is_prompt)).unwrap();
    let line = repo.history(&[tip], &[]).unwrap().first_parent();
    let line: Vec<LogEntry> = line.collect::<turntree::Result<_>>().unwrap();
    let number = |entry: LogEntry| {
        let number = prompts.number(&entry).unwrap()?;
        Some((number, entry.commit.message))
    };
    let mut found: Vec<_> = line.into_iter().filter_map(number).collect();
    found.reverse();
    found
}

/// The same turns on another branch, whose commits record no prompts.
fn without_notes(repo: &Repository, branch: &str) {
    let tip = repo.resolve(branch).unwrap().commit;
    let line = repo.history(&[tip], &[]).unwrap().first_parent();
    let mut line: Vec<LogEntry> = line.collect::<turntree::Result<_>>().unwrap();
    line.reverse();
    let mut change = repo.begin();
    let copy = BranchName::main("copy").unwrap();
    for LogEntry { commit, .. } in line {
        let mut draft = SnapshotDraft::new(commit.tree, commit.message, &stamp(1));
        draft.trigger = commit.trigger;
        change.snapshot(&copy, draft).unwrap();
    }
    change.commit(&stamp(1), "copy").unwrap();
}

/// The maximum size of a recording in this test.
const MAX_RECORDING: u64 = 1 << 20;

/// Records that a client and a user write, each with the title of its turn and the number of its
/// prompt.
fn records() -> Vec<(Value, &'static str, Option<u64>)> {
    let user =
        |content: &str| json!({"type": "user", "message": {"role": "user", "content": content}});
    let meta = |content: &str| {
        let mut line = user(content);
        line["isMeta"] = true.into();
        line
    };
    let reply = |id: &str, blocks: Value| json!({"type": "assistant", "message": {"role": "assistant", "id": id, "content": blocks}});
    let call = |name: &str, input: Value| json!([{"type": "tool_use", "id": "t", "name": name, "input": input}]);
    vec![
        (
            user("have we lost a bunch of t.Parallels?\n\nwhy?"),
            "have we lost a bunch of t.Parallels?",
            Some(1),
        ),
        (
            reply("a", json!([{"type": "thinking", "thinking": "Let me think."}])),
            "(thinking)",
            None,
        ),
        (
            reply(
                "b",
                json!([{"type": "text", "text": "## **Yes.** Three of `them` are gone. So"}]),
            ),
            "Yes.",
            None,
        ),
        (
            reply(
                "c",
                call("Bash", json!({"command": "cd /p && cargo test empty", "description": "d"})),
            ),
            "Bash cargo test empty",
            None,
        ),
        (
            reply("d", call("Edit", json!({"file_path": "/p/src/lexer.rs", "old_string": "a"}))),
            "Edit src/lexer.rs",
            None,
        ),
        (
            user(
                "<command-message>review</command-message>\n<command-name>/review</command-name>\n<command-args>90</command-args>",
            ),
            "/review 90",
            Some(2),
        ),
        (reply("e", json!([{"type": "text", "text": "Looking"}])), "Looking", None),
        (
            meta(
                "<local-command-caveat>Caveat: The messages below were generated</local-command-caveat>",
            ),
            "/clear",
            None,
        ),
        (
            user("<command-name>/clear</command-name>\n<command-message>clear</command-message>"),
            "",
            None,
        ),
        (user("<local-command-stdout>\u{1b}[2mdone\u{1b}[22m</local-command-stdout>"), "", None),
        (
            user(
                "<task-notification>\n<summary>Agent \"Fix\" completed</summary>\n</task-notification>",
            ),
            "Agent \"Fix\" completed",
            None,
        ),
        (
            user("<system-reminder>\nbe kind\n</system-reminder>\n\u{1b}[1mgo on\u{1b}[0m"),
            "go on",
            Some(3),
        ),
    ]
}

#[test]
fn turn_titles_come_from_prompts_answers_or_calls() {
    let sandbox = Sandbox::new();
    let mut file = String::new();
    let mut last = Value::Null;
    for (number, (mut line, ..)) in records().into_iter().enumerate() {
        let id = format!("u{number}");
        line["parentUuid"] = std::mem::replace(&mut last, id.clone().into());
        line["uuid"] = id.into();
        line["sessionId"] = "s".into();
        line["cwd"] = "/p".into();
        file += &format!("{line}\n");
    }
    let report = sandbox.import("s", file.as_bytes()).unwrap();
    let line = sandbox.repo.history(&[report.head], &[]).unwrap().first_parent();
    let mut titles: Vec<String> = line.map(|entry| entry.unwrap().commit.message).collect();
    titles.reverse();
    let expected: Vec<_> =
        records().iter().map(|(_, title, _)| *title).filter(|it| !it.is_empty()).collect();
    assert_eq!(titles, expected);
    let asked: Vec<_> = records()
        .into_iter()
        .filter_map(|(_, title, number)| Some((number?, title.to_owned())))
        .collect();
    assert_eq!(prompts_of(&sandbox.repo, "s"), asked);

    without_notes(&sandbox.repo, "s");
    assert_eq!(prompts_of(&sandbox.repo, "copy"), asked);
    for (revision, title) in [("copy^{prompt:2}", "/review 90"), ("s^{prompt:-1}", "go on")] {
        let revision = sandbox.repo.resolve(revision).unwrap();
        assert_eq!(sandbox.repo.commit(&revision.commit).unwrap().message, title);
    }
    let error = sandbox.repo.resolve("s^{prompt:-9}").unwrap_err().to_string();
    assert!(error.contains("cannot go back 9 prompts"), "{error}");
}

#[test]
fn recorded_prompts_equal_the_prompts_of_the_turns() {
    let files = recorded_sessions();
    for file in files.iter().filter(|file| file.metadata().unwrap().len() < MAX_RECORDING) {
        let sandbox = Sandbox::new();
        let Ok(report) = sandbox.import("s", &std::fs::read(file).unwrap()) else { continue };
        let noted = prompts_of(&sandbox.repo, &report.branch.to_string());
        without_notes(&sandbox.repo, &report.branch.to_string());
        assert_eq!(prompts_of(&sandbox.repo, "copy"), noted, "{}", file.display());
    }
}

#[test]
fn open_handles_count_prompts_like_new_handles() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let branch = BranchName::main("talk").unwrap();
    let mut context = Builder::new();
    for turn in 1..12 {
        let mut change = repo.begin();
        // Every third turn is an answer. Its commit does not record that.
        let role = if turn % 3 == 0 { Role::Assistant } else { Role::User };
        let said = format!("{{\"content\":\"{turn}\"}}");
        let blob = change.write(Kind::Blob, said.into()).unwrap();
        let entry = MessageEntry::new(blob, role, "json");
        context.push_message(&mut change, MAIN_AGENT, &entry).unwrap();
        let tree = context.write(&mut change).unwrap();
        change.snapshot(&branch, SnapshotDraft::new(tree, "", &stamp(turn))).unwrap();
        change.commit(&stamp(turn), "turn").unwrap();
        let kept = prompts_of(repo, "talk");
        assert_eq!(kept, prompts_of(&sandbox.reopened(), "talk"), "turn {turn}");
        assert_eq!(kept.len() as i64, turn - turn / 3, "turn {turn}");
    }
}
