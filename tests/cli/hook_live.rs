//! Several sessions of one project, and rollbacks while a client continues: the branch that each
//! command acts on.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use turntree::repo::BranchName;
use turntree_tests::claude_code;
use turntree_tests::client::{Client, files, line};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

const OFF: &[&str] = &["--workspace", "off"];

/// Sends an event of another session of the same project, whose transcript has these turns.
fn prompt_of(client: &Client, session: &str, turns: usize) {
    let path = client.root.path().join(format!("{session}.jsonl"));
    fs::write(&path, claude_code(turns)).unwrap();
    client.event(OFF, "UserPromptSubmit", json!({"transcript_path": path, "session_id": session}));
}

fn head(client: &Client) -> String {
    client.repo().head().unwrap().branch.to_string()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn head_follows_the_live_session_until_a_person_goes_elsewhere() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    prompt_of(&client, "a", 4);
    prompt_of(&client, "b", 4);
    assert_eq!(head(&client), "b/main");
    prompt_of(&client, "a", 6);
    assert_eq!(head(&client), "a/main");
    text(&client.command(&["switch", "b"]).output().unwrap());
    prompt_of(&client, "a", 8);
    prompt_of(&client, "c", 4);
    assert_eq!(head(&client), "b/main", "where a person went");
}

#[test]
fn a_shell_of_an_agent_acts_on_the_session_of_the_agent() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    prompt_of(&client, "a", 4);
    prompt_of(&client, "b", 4);
    client.write("state.json", "{}");
    let run = |session: &str, words: &[&str]| {
        let mut command = client.command(words);
        text(&command.env("CLAUDE_CODE_SESSION_ID", session).output().unwrap())
    };
    let tip = |branch: &str| client.repo().tip(&branch.parse::<BranchName>().unwrap());
    let (a, b) = (tip("a/main"), tip("b/main"));
    run("a", &["snapshot", "-m", "by the agent of a", "--state", "state.json"]);
    assert!(tip("a/main") != a && tip("b/main") == b);
    assert_eq!(head(&client), "b/main");
    // Explicit arguments and variables take precedence.
    let mut other = client.command(&["log", "--oneline", "-n", "1"]);
    other.envs([("CLAUDE_CODE_SESSION_ID", "a"), ("TURNTREE_BRANCH", "b")]);
    assert!(!text(&other.output().unwrap()).contains("by the agent of a"));
    // A new session without a branch must not write to another session's branch.
    run("new", &["snapshot", "-m", "first", "--state", "state.json"]);
    assert!(tip("new/main").is_some() && tip("b/main") == b);
    // The agent may have switched to another branch of its session.
    run("b", &["fork", "plan", "--switch"]);
    run("b", &["snapshot", "-m", "on the plan", "--state", "state.json"]);
    assert!(tip("b/plan") != b && tip("b/main") == b);
}

#[test]
fn what_a_rollback_took_back_is_not_played_again() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    let lines = claude_code(9);
    let lines: Vec<&str> = lines.lines().collect();
    let write = |count: usize| {
        fs::write(&client.transcript, lines[..count].join("\n") + "\n").unwrap();
    };
    write(9);
    client.event(OFF, "UserPromptSubmit", json!({"prompt": "p"}));
    let before = client.commits();
    text(&client.command(&["switch", "s-1"]).output().unwrap());
    text(&client.command(&["rollback", "--to-turn", "2"]).output().unwrap());
    let (repo, main) = (client.repo(), "s-1/main".parse::<BranchName>().unwrap());
    let went_back = repo.tip(&main).unwrap();
    // Without new content, nothing is committed.
    client.event(OFF, "Stop", json!({}));
    assert_eq!(client.repo().branches(), [(main.clone(), went_back)]);

    write(12);
    let event = client.payload("UserPromptSubmit", json!({"prompt": "p"})).to_string();
    let output = client.give(OFF, event.as_bytes());
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let told = told["systemMessage"].as_str().unwrap();
    assert!(
        told.contains("s-1/main-client") && told.contains("turntree resume s-1/main"),
        "{told}"
    );
    assert!(client.log().contains("continues with rolled-back turns"), "{}", client.log());
    fs::remove_file(client.store_dir().join("hook.log")).unwrap();

    // The message appears once. The client continues on a new branch.
    write(15);
    assert_eq!(client.event(OFF, "UserPromptSubmit", json!({"prompt": "p"})), None);
    let repo = client.repo();
    assert_eq!(repo.tip(&main), Some(went_back), "main stays as it was rolled back");
    let branches = repo.branches();
    assert_eq!(branches.len(), 2, "{branches:?}");
    let tip = repo.tip(&"s-1/main-client".parse().unwrap()).unwrap();
    let line = line(&repo, &tip);
    assert!(line.starts_with(&before) && line.len() > before.len());
    assert_eq!(head(&client), "s-1/main");
}

#[test]
fn a_check_tells_who_runs_hooks_and_what_is_left_to_do() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    let installed = text(&client.command(&["hook", "install", "codex"]).output().unwrap());
    assert!(
        installed.contains("trust the project") && installed.contains("then 2."),
        "{installed}"
    );
    let user = text(&client.command(&["hook", "install", "codex", "--user"]).output().unwrap());
    assert!(!user.contains("trust the project") && user.contains("accept the hooks"), "{user}");
    prompt_of(&client, "a", 4);
    let said = text(&client.command(&["hook", "check"]).output().unwrap());
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("claude-code: not installed; last called 2026-11-20"), "{said}");
    assert!(lines[0].ends_with("at UserPromptSubmit"), "{said}");
    assert!(lines[1].contains("hooks.json") && lines[1].ends_with("never called for this store"));
    assert!(lines[2].contains("trust the project"), "{said}");
    let json = text(&client.command(&["--json", "hook", "check"]).output().unwrap());
    let codex: Value = serde_json::from_str(json.lines().nth(1).unwrap()).unwrap();
    assert_eq!(codex["installed"].as_array().unwrap().len(), 2);
    assert!(codex["last_called"].is_null());
}

#[test]
fn a_check_counts_enabled_plugins() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    let home = client.root.path().join("home");
    let write = |path: &str, value: &Value| {
        let path = home.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, value.to_string()).unwrap();
    };
    let checked = |at: usize| {
        let said = text(&client.command(&["--json", "hook", "check"]).output().unwrap());
        let record: Value = serde_json::from_str(said.lines().nth(at).unwrap()).unwrap();
        record["installed"].as_array().unwrap().len()
    };
    let hook = |root: &str, dialect: &str| {
        let command = format!("\"{root}/bin/turntree\" hook --dialect {dialect} --rollback");
        json!({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}})
    };
    let plugin = ".claude/plugins/cache/turntree/turntree/0.1.0";
    write(&format!("{plugin}/hooks/hooks.json"), &hook("${CLAUDE_PLUGIN_ROOT}", "claude-code"));
    let place = json!([{"scope": "user", "installPath": home.join(plugin), "version": "0.1.0"}]);
    let installed = json!({"version": 2, "plugins": {"turntree@turntree": place}});
    write(".claude/plugins/installed_plugins.json", &installed);
    assert_eq!(checked(0), 0, "installed, but not enabled");
    write(".claude/settings.json", &json!({"enabledPlugins": {"turntree@turntree": true}}));
    assert_eq!(checked(0), 1);
    fs::create_dir_all(client.project().join(".claude")).unwrap();
    client.write(".claude/settings.json", r#"{"enabledPlugins": {"turntree@turntree": false}}"#);
    assert_eq!(checked(0), 0, "disabled by the project");

    assert_eq!(checked(2), 0);
    let extension = hook("${extensionPath}", "gemini");
    write(".gemini/extensions/turntree/hooks/hooks.json", &extension);
    assert_eq!(checked(2), 1);
}

#[test]
fn settings_name_the_link_that_was_run_and_those_of_a_team_no_place() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    let link = client.root.path().join("tt");
    std::os::unix::fs::symlink(PROGRAM, &link).unwrap();
    let run = |words: &[&str]| {
        let mut command = Command::new(&link);
        let home = client.root.path().join("home");
        command.args(words).current_dir(client.project()).env_clear().env("HOME", home);
        command.output().unwrap()
    };
    let file = |name: &str| fs::read_to_string(client.project().join(".claude").join(name)).ok();
    let (local, shared) = ("settings.local.json", "settings.json");

    text(&run(&["hook", "install", "claude-code"]));
    let command = format!("'{}' hook --dialect claude-code", link.display());
    assert!(file(local).unwrap().contains(&command) && file(shared).is_none());
    let output = run(&["hook", "install", "claude-code", "--shared", "--spiral"]);
    assert!(text(&output).contains(shared));
    let warned = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(warned.contains("not in PATH") && warned.contains(local), "{warned}");
    let command = "\"command\":\"turntree hook --dialect claude-code --spiral\"";
    assert!(file(shared).unwrap().contains(command));
    let said = text(&run(&["hook", "check"]));
    assert!(said.lines().next().unwrap().contains(&format!("{local}, ")), "{said}");

    let undone = text(&run(&["hook", "uninstall", "claude-code", "--shared"]));
    assert!(undone.contains(shared) && file(shared).is_none() && file(local).is_some());
    text(&run(&["hook", "install", "claude-code", "--shared"]));
    assert_eq!(text(&run(&["hook", "uninstall", "claude-code"])).lines().count(), 2);
    assert!(file(shared).is_none() && file(local).is_none());
    // A store exists only on one machine, so shared settings cannot name it.
    let refused = client.command(&["hook", "install", "claude-code", "--shared"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn gemini_pins_once_before_a_compaction_that_may_come() {
    let client = Client::new(PROGRAM, "session-1.jsonl");
    let mut log = vec![
        json!({"sessionId": "s-1", "projectHash": "h", "startTime": "2026-11-20T10:00:00.000Z"}),
    ];
    for number in 1..6 {
        let kind = if number % 2 == 1 { "user" } else { "gemini" };
        log.push(json!({"id": number.to_string(), "timestamp": "2026-11-20T10:00:00.000Z",
                        "type": kind, "content": format!("part {number}")}));
        let text: String = log.iter().map(|record| format!("{record}\n")).collect();
        fs::write(&client.transcript, text).unwrap();
        let more = json!({"timestamp": "2026-11-20T10:00:02.000Z", "trigger": "auto"});
        client.event(OFF, "PreCompress", more);
        let pins = client.repo().pins().unwrap();
        let [pin] = &pins[..] else { panic!("{pins:?}") };
        assert!(pin.expires_micros.is_some());
    }
}

#[test]
fn what_hooks_do_is_done_by_the_client_and_not_taken_back_for_a_person() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    client.write("a", "one");
    client.event(&[], "SessionStart", json!({"source": "startup"}));
    let repo = client.repo();
    assert_eq!(repo.commit(&client.commits()[0]).unwrap().author.agent, "hook/claude-code");
    let operations: Vec<String> =
        repo.operations().map(|entry| entry.unwrap().operation.actor).collect();
    assert!(operations.iter().all(|actor| actor == "hook/claude-code"), "{operations:?}");
    text(&client.command(&["tag", "mine"]).output().unwrap());
    prompt_of(&client, "b", 4);
    let undone = text(&client.command(&["undo"]).output().unwrap());
    assert!(undone.contains("tag"), "{undone}");
}

#[test]
fn an_agent_that_was_told_its_branch_lands_there_with_its_files() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    fs::write(&client.transcript, claude_code(6)).unwrap();
    client.event(OFF, "UserPromptSubmit", json!({}));
    text(&client.command(&["fork", "plan-1", "s-1"]).output().unwrap());
    let tip = |branch: &str| client.repo().tip(&branch.parse().unwrap()).unwrap();
    let base = tip("s-1/plan-1");

    // Its conversation is a different one, in another directory.
    let worktree = client.root.path().join("plan-1");
    fs::create_dir(&worktree).unwrap();
    let transcript = client.root.path().join("other.jsonl");
    let whole = claude_code(4).replace("/project", worktree.to_str().unwrap());
    let whole = whole.replace("parser", "lexer");
    let event = |name: &str, lines: usize| {
        let part: Vec<&str> = whole.lines().take(lines).collect();
        fs::write(&transcript, part.join("\n") + "\n").unwrap();
        let event = json!({"hook_event_name": name, "session_id": "other", "cwd": worktree,
                           "transcript_path": transcript});
        let mut command = client.command(&["hook"]);
        command.env("TURNTREE_BRANCH", "s-1/plan-1").current_dir(&worktree);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(event.to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty());
        assert_eq!(client.log(), "", "{name}");
    };
    fs::write(worktree.join("begun"), "").unwrap();
    event("SessionStart", 1);
    fs::write(worktree.join("made"), "by the strategy").unwrap();
    event("UserPromptSubmit", 3);
    // Without the hook's notes the whole transcript is compared.
    fs::remove_dir_all(client.store_dir().join("workspaces")).unwrap();
    event("PreCompact", 5);
    event("Stop", 7);

    let repo = client.repo();
    let names: Vec<String> = repo.branches().iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(names, ["s-1/main", "s-1/plan-1"]);
    assert_eq!((head(&client), tip("s-1/main")), ("s-1/main".into(), base));
    let now = tip("s-1/plan-1");
    let turns = line(&repo, &now);
    assert!(turns.contains(&base) && turns.len() > line(&repo, &base).len() + 2, "{turns:?}");
    let files = files(&repo, &now);
    assert_eq!(files["made"], "by the strategy");
    let count = |id| repo.context(id).unwrap().count(&repo, "agents/main/messages").unwrap();
    assert_eq!(count(&now), count(&base) + 7);
    let source =
        text(&client.command(&["export", "s-1/plan-1", "--format", "source"]).output().unwrap());
    assert_eq!(source, whole);
    // An import of the transcript finds the branch.
    let import = ["import", transcript.to_str().unwrap(), "--session", "s-1"];
    text(&client.command(&import).output().unwrap());
    assert_eq!(client.repo().branches(), repo.branches());
}

#[test]
fn circles_of_calls_that_fail_are_told() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    let again = |turn: usize| {
        let call = claude_code(2).lines().skip(1).collect::<Vec<_>>().join("\n");
        let call = call.replace("msg-1", &format!("msg-{turn}"));
        call.replace("call-1", &format!("call-{turn}")) + "\n"
    };
    let text = claude_code(1) + &(1..6).map(again).collect::<String>();
    fs::write(&client.transcript, text).unwrap();
    let failed = json!({"tool_name": "Bash", "tool_input": {"command": "false"}, "error": "1"});
    let answer = client.event(&["--spiral", "--workspace", "off"], "PostToolUseFailure", failed);
    let answer = answer.unwrap();
    let answer = &answer["hookSpecificOutput"];
    assert_eq!(answer["hookEventName"], "PostToolUseFailure");
    assert!(answer["additionalContext"].as_str().unwrap().contains("again and again"));
}

#[test]
fn a_loop_pauses_the_agent_once_and_asks_the_person() {
    let mut client = Client::new(PROGRAM, "s-1.jsonl");
    let again = |turn: usize| {
        let call = claude_code(2).lines().skip(1).collect::<Vec<_>>().join("\n");
        let call = call.replace("msg-1", &format!("msg-{turn}"));
        call.replace("call-1", &format!("call-{turn}")) + "\n"
    };
    let write_to = |path: &Path, turns: usize| {
        let text = claude_code(1) + &(1..turns).map(again).collect::<String>();
        fs::write(path, text).unwrap();
    };
    let transcript = client.transcript.clone();
    let write = |turns: usize| write_to(&transcript, turns);
    let flags = ["--spiral=pause", "--rollback", "--workspace", "off"];
    let bash = || json!({"tool_name": "Bash", "tool_input": {"command": "false"}});
    write(3);
    assert_eq!(client.event(&flags, "PostToolUse", bash()), None);
    write(6);
    // After a failed tool the client does not stop, so the agent is warned now, and stopped before
    // its next command.
    let warned = client.event(&flags, "PostToolUseFailure", bash()).unwrap();
    let warned = &warned["hookSpecificOutput"]["additionalContext"];
    assert!(warned.as_str().unwrap().contains("again and again"), "{warned}");
    let paused = client.event(&flags, "PreToolUse", bash()).unwrap();
    assert_eq!(paused["continue"], false);
    let question = paused["stopReason"].as_str().unwrap();
    assert!(question.contains("How should it go on? '/rollback to 1' goes back"), "{question}");
    // The same loop continues after the user was asked.
    write(8);
    assert_eq!(client.event(&flags, "PostToolUse", bash()), None);
    assert_eq!(client.event(&flags, "PreToolUse", bash()), None);
    // A loop of another agent, on its own branch, is a separate loop.
    text(&client.command(&["fork", "plan", "s-1^{turn:1}"]).output().unwrap());
    client.branch = Some("s-1/plan");
    client.transcript = client.root.path().join("plan.jsonl");
    write_to(&client.transcript, 5);
    let paused = client.event(&flags, "PreToolUse", bash()).unwrap();
    assert_eq!(paused["continue"], false);
}

#[test]
fn kinds_of_records_that_are_not_read_are_logged_once() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    let path = client.root.path().join("a.jsonl");
    let mut text = claude_code(4);
    for _ in 0..3 {
        text += "{\"type\":\"of-next-year\"}\n";
        fs::write(&path, &text).unwrap();
        let event = json!({"transcript_path": path, "session_id": "a"});
        let event = client.payload("UserPromptSubmit", event).to_string();
        assert!(client.give(OFF, event.as_bytes()).status.success());
    }
    let log = self::text(&client.command(&["hook", "log"]).output().unwrap());
    let what = "records of kind of-next-year are not read; they are kept";
    assert_eq!(log.matches(what).count(), 1, "{log}");
}
