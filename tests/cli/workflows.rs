//! Everyday workflows, each in its ideal number of commands: with real processes, transcripts as
//! agents write them, and events for hooks.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use turntree_tests::{claude_code, github_token};

use super::person::{Person, laid_out, transcript};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

#[test]
fn an_error_is_found_over_all_sessions_and_its_session_goes_on() {
    let person = Person::with_sessions();
    let found = person.does("project", &["--json", "grep", "--all", "part 8 of the server"]);
    let hit: Value = serde_json::from_str(found.lines().next().unwrap()).unwrap();
    let id = hit["id"].as_str().or(hit["commit"].as_str()).unwrap();
    let said = person.does("project", &["resume", &id[..12]]);
    let (dir, transcript) = laid_out(&person, &said);
    assert_eq!(dir, person.path("server").to_str().unwrap());
    assert!(transcript.contains("part 8 of the server") && !transcript.contains("part 12"));
    person.did(2);
}

#[test]
fn all_since_the_last_prompt_is_taken_back_with_its_files() {
    let person = Person::new();
    person.prepare(&["init"]);
    let text = |turns| transcript(&person.path("project"), turns);
    fs::write(person.path("project/parser.rs"), "good\n").unwrap();
    person.agent("project", "s-1", "SessionStart", &text(1));
    person.agent("project", "s-1", "Stop", &text(4));
    person.waits_for("s-1:files/parser.rs", "good\n");
    // The next prompt, and its changes.
    person.agent("project", "s-1", "UserPromptSubmit", &text(5));
    fs::write(person.path("project/parser.rs"), "bad\n").unwrap();
    fs::write(person.path("project/junk.rs"), "junk\n").unwrap();
    person.agent("project", "s-1", "Stop", &text(7));
    person.waits_for("s-1:files/junk.rs", "junk\n");
    person.waits_for("s-1:files/parser.rs", "bad\n");

    let said = person.does("project", &["rollback"]);
    assert_eq!(person.read("project/parser.rs"), "good\n");
    assert_eq!(person.read("project/junk.rs"), "no project/junk.rs");
    assert!(said.contains("'turntree resume s-1/main'"), "the client is named, too: {said}");
    person.did(1);
}

#[test]
fn three_strategies_are_tried_compared_and_the_best_comes_into_the_workspace() {
    let person = Person::new();
    person.prepare(&["init"]);
    fs::write(person.path("project/parser.rs"), "slow\n").unwrap();
    person.prepare(&["snapshot", "-m", "the task", "--workspace", "."]);

    person.does("project", &["fork", "plan-{1,2,3}", "--worktree", "../plan-{}"]);
    for (plan, turns) in [("plan-1", 3), ("plan-2", 4), ("plan-3", 2)] {
        let text = transcript(&person.path(plan), turns);
        fs::write(person.path(plan).join("parser.rs"), format!("by {plan}\n")).unwrap();
        person.agent(plan, &format!("agent-of-{plan}"), "Stop", &text);
        person.waits_for(&format!("{plan}:files/parser.rs"), &format!("by {plan}\n"));
    }
    person.commands.set(person.commands.get() + 1);
    let compared = person.does("project", &["--json", "compare", "plan-1", "plan-2", "plan-3"]);
    let compared: Value = serde_json::from_str(&compared).unwrap();
    let tools = compared["strategies"].as_array().unwrap().iter().map(|one| &one["tool_calls"]);
    assert_eq!(tools.collect::<Vec<_>>(), [2, 3, 1], "{compared}");
    person.does("project", &["merge", "plan-3", "--with-files"]);
    assert_eq!(person.read("project/parser.rs"), "by plan-3\n");
    let plans = ["branch", "--delete", "plan-1", "plan-2", "plan-3", "--worktree"];
    person.does("project", &plans);
    assert!(!person.path("plan-1").exists() && !person.path("plan-3").exists());
    person.did(5);
}

#[test]
fn all_sessions_go_to_a_new_laptop() {
    let person = Person::with_sessions();
    let bundle = person.path("all.bundle");
    person.does("project", &["bundle", "create", "--all", "-o", bundle.to_str().unwrap()]);
    person.did(1);

    let laptop = person.path("laptop/store");
    let there = ["--store", laptop.to_str().unwrap()];
    let taken = [&there[..], &["bundle", "unbundle", bundle.to_str().unwrap()]].concat();
    fs::create_dir(person.path("laptop")).unwrap();
    person.prepare(&taken);
    for name in ["s-lexer", "s-parser", "s-server"] {
        let here = person.prepare(&["export", name, "--format", "source"]);
        let export = [&there[..], &["export", name, "--format", "source"]].concat();
        assert_eq!(person.prepare(&export), here);
    }
}

#[test]
fn a_copy_of_the_store_is_the_store() {
    let person = Person::with_sessions();
    person.prepare(&["tag", "begin", "s-lexer^{turn:1}"]);
    let store = person.path("home/.local/share/turntree/store");
    let copy = person.path("copy");
    let copied = Command::new("cp").arg("-r").args([&store, &copy]).status().unwrap();
    assert!(copied.success());
    let there = ["--store", copy.to_str().unwrap()];
    person.prepare(&[&there[..], &["fsck"]].concat());
    let operations = |words: &[&str]| person.prepare(&[words, &["op", "log"]].concat());
    assert_eq!(operations(&there), operations(&[]), "operations and HEAD come along");
}

#[test]
fn claude_code_goes_on_from_turn_40() {
    let person = Person::with_sessions();
    let said = person.does("parser", &["resume", "turn:40"]);
    let (dir, transcript) = laid_out(&person, &said);
    assert_eq!(dir, person.path("parser").to_str().unwrap());
    assert!(transcript.contains("part 36 of the parser") && !transcript.contains("part 40"));
    person.did(1);
}

#[test]
fn what_sessions_cost_is_told_at_once() {
    let person = Person::new();
    for (project, model) in [("lexer", "claude-opus-4-5"), ("parser", "claude-sonnet-4-5")] {
        let took =
            format!(r#""model":"{model}","usage":{{"input_tokens":100,"output_tokens":40}}"#);
        let text = claude_code(9).replace(r#""model":"model-1""#, &took);
        person.keep_session(project, &text.replace("msg-", &format!("msg-{project}-")));
    }
    person.prepare(&["adopt"]);
    let told = person.does("project", &["usage", "--all", "--json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    let of_row =
        |row: &Value| (row["name"].clone(), row["answers"].clone(), row["cost_usd"].clone());
    let rows: Vec<_> = told["rows"].as_array().unwrap().iter().map(of_row).collect();
    assert_eq!(
        rows,
        [(json!("s-lexer"), json!(6), json!(0.009)), (json!("s-parser"), json!(6), json!(0.0054)),]
    );
    assert_eq!(told["total"]["cost_usd"], 0.0144);
    person.did(1);
}

#[test]
fn two_agents_are_compared() {
    let person = Person::with_sessions();
    let told = person.does("project", &["--json", "compare", "s-lexer", "s-parser"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    let turns = told["strategies"].as_array().unwrap().iter().map(|one| &one["turns"]);
    assert_eq!(turns.collect::<Vec<_>>(), [9, 45]);
    person.did(1);
}

#[test]
fn a_session_is_told_by_its_prompts() {
    let person = Person::with_sessions();
    let told = person.does("server", &["outline"]);
    for part in [0, 4, 8, 12] {
        assert!(told.contains(&format!("part {part} of the server")), "{told}");
    }
    person.did(1);
}

#[test]
fn a_budget_is_said_once_and_the_oldest_sessions_go_for_it() {
    let person = Person::new();
    let dir = person.path("project");
    let folder = person.path("home/.claude/projects/project");
    fs::create_dir_all(&folder).unwrap();
    for day in 1..=6 {
        let text = transcript(&dir, 60).replace("2026-11-20", &format!("2026-11-0{day}"));
        let text =
            text.replace("s-1", &format!("s-{day}")).replace("parser", &format!("part{day}"));
        let path = folder.join(format!("s-{day}.jsonl"));
        fs::write(&path, text).unwrap();
        // A new prompt would restore a forgotten session: these files have not changed since.
        let long_ago = fs::File::options().write(true).open(&path).unwrap();
        long_ago.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    }
    person.prepare(&["adopt"]);
    person.does("project", &["retention", "set", "--whole-store", "--budget", "15KB"]);
    person.did(1);

    // The automatic work between turns.
    let collected = person.prepare(&["gc"]);
    let sessions = || -> Vec<String> {
        let told = person.prepare(&["sessions", "--json"]);
        let told: Value = serde_json::from_str(&told).unwrap();
        let name = |session: &Value| session["session"].as_str().unwrap().to_owned();
        told["sessions"].as_array().unwrap().iter().map(name).collect()
    };
    let left = sessions();
    assert!((1..6).contains(&left.len()), "{left:?} {collected}");
    let newest: Vec<String> = (1..=6).rev().map(|day| format!("s-{day}")).collect();
    assert_eq!(left, newest[..left.len()], "the oldest went first");
    assert!(person.prepare(&["adopt"]).contains("forgotten"), "they stay deleted");
    assert_eq!(sessions(), left);
    person.prepare(&["fsck"]);
}

#[test]
fn a_session_goes_to_a_colleague_without_its_secrets() {
    let person = Person::new();
    let token = github_token(3);
    let text = claude_code(9).replace("and say what", &format!("with {token} and say what"));
    person.keep_session("parser", &text);
    person.prepare(&["adopt"]);
    person.does("parser", &["bundle", "create", "s-parser", "-o", "../parser.bundle", "--scrub"]);
    person.did(1);

    let there = person.path("project/store");
    let there = there.to_str().unwrap();
    person.prepare(&["--store", there, "bundle", "unbundle", "../parser.bundle"]);
    let messages = person.prepare(&["--store", there, "cat", "s-parser:agents/main/messages"]);
    assert!(messages.contains("with [secret: github-token] and say what"), "{messages}");
    assert!(!messages.contains(&token));
    person.prepare(&["--store", there, "secrets", "scan", "--all"]);
}

/// The commands of the story in docs/guides/resume.md.
fn story() -> Vec<String> {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guides/resume.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, story) = page.split_once("## A story in commands").unwrap();
    let block = story.split("```").nth(1).unwrap();
    let commands = block.lines().filter(|line| line.starts_with("turntree "));
    commands.map(|line| line.split("  #").next().unwrap().trim().to_owned()).collect()
}

/// Runs the story of docs/guides/resume.md, with the actions of the agents between the commands.
#[test]
fn two_ways_from_turn_12_and_the_better_one_goes_to_another_agent_and_a_colleague() {
    let person = Person::new();
    let bin = person.path("bin");
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(PROGRAM, bin.join("turntree")).unwrap();
    let mut known = std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect::<Vec<_>>();
    known.insert(0, bin);
    let path = std::env::join_paths(known).unwrap();
    let mut ids: Vec<(&str, String)> = Vec::new();
    let mut lines = story().into_iter();
    // The next command, with the ids of this run instead of those of the page.
    let mut next = |ids: &[(&str, String)], exit: i32| -> String {
        let mut line = lines.next().unwrap();
        for (written, id) in ids {
            line = line.replace(written, id);
        }
        let known = person.command("project", &[]);
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).current_dir(person.path("project")).env_clear();
        shell.envs(known.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = shell.env("PATH", &path).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(exit), "{line}: {said}");
        if exit == 0 { String::from_utf8(output.stdout).unwrap() } else { said }
    };
    let token = github_token(4);
    let took = r#""model":"claude-opus-4-5","usage":{"input_tokens":100,"output_tokens":40}"#;
    let text = claude_code(20).replace(r#""model":"model-1""#, took);
    let text = text.replace("part 4 of the parser", &format!("part 4 with {token}"));
    person.keep_session("project", &text);
    person.prepare(&["adopt"]);

    let told = next(&ids, 0);
    assert!(told.contains("#3") && told.contains("part 8"), "{told}");
    // Claude Code in two directories, running at the same time.
    for (written, dir, answers) in [("4f21", "small", 2), ("b07c", "rewrite", 5)] {
        let (cwd, laid) = laid_out(&person, &next(&ids, 0));
        assert_eq!(cwd, person.path(dir).to_str().unwrap());
        assert!(laid.contains("part 8") && !laid.contains("part 12"), "it ends with turn 12");
        let mut records = laid.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let last = records.rfind(|record| record["uuid"].is_string()).unwrap();
        let session = last["sessionId"].as_str().unwrap().to_owned();
        let (mut text, mut parent) = (laid, last["uuid"].clone());
        let mut say = |id: String, kind: &str, message: Value| {
            let record = json!({"type": kind, "uuid": id, "parentUuid": parent, "cwd": cwd,
                "sessionId": session, "timestamp": "2026-11-20T11:00:00.000Z", "message": message});
            text += &format!("{record}\n");
            parent = json!(id);
        };
        say(
            format!("{dir}-0"),
            "user",
            json!({"role": "user", "content": format!("the {dir} way")}),
        );
        for answer in 1..=answers {
            let message = json!({"role": "assistant", "id": format!("{dir}-m{answer}"),
                "model": "claude-opus-4-5", "usage": {"input_tokens": 1000, "output_tokens": 200},
                "content": [{"type": "text", "text": format!("step {answer} of the {dir} way")}]});
            say(format!("{dir}-{answer}"), "assistant", message);
        }
        fs::write(person.path(dir).join("parser.rs"), format!("the {dir} way\n")).unwrap();
        person.agent(dir, &session, "Stop", &text);
        ids.push((written, session[..8].to_owned()));
    }
    next(&ids, 0);
    next(&ids, 0);
    let told = next(&ids, 0);
    // An answer costs a cent.
    let row = |told: &str, way: &str| -> Vec<String> {
        let line = told.lines().find(|line| line.split_whitespace().any(|word| word == way));
        line.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    };
    let has = |told: &str, way: &str, word: &str| row(told, way).iter().any(|it| it == word);
    assert!(has(&told, "small", "$0.02") && has(&told, "rewrite", "$0.05"), "{told}");

    // The better one continues in Codex.
    let told = next(&ids, 0);
    let id = told.lines().find_map(|line| line.split_once("codex resume ")).unwrap().1.to_owned();
    let mut folders = vec![person.path("home/.codex/sessions")];
    let mut rollout = None;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { rollout = Some(path) }
        }
    }
    let rollout = rollout.unwrap();
    let mut text = fs::read_to_string(&rollout).unwrap();
    assert!(text.contains("step 2 of the small way") && !text.contains("rewrite"), "{text}");
    for (role, kind, said) in
        [("user", "input_text", "finish it"), ("assistant", "output_text", "finished by Codex")]
    {
        let payload = json!({"type": "message", "role": role,
                             "content": [{"type": kind, "text": said}]});
        let record = json!({"timestamp": "2026-11-20T11:30:00.000Z", "type": "response_item",
                            "payload": payload});
        text += &format!("{record}\n");
    }
    fs::write(&rollout, text).unwrap();
    ids.push(("9c3e", id[..8].to_owned()));
    next(&ids, 0);

    let told = next(&ids, 1);
    assert!(told.contains("github-token") && told.contains("nothing was written"), "{told}");
    next(&ids, 0);
    next(&ids, 0);
    let told = next(&ids, 0);
    assert!(told.contains("no secret in"), "{told}");
    let there = ["--store", "../colleague", "cat", &format!("{}:agents/main/messages", ids[2].1)];
    let there = person.prepare(&there);
    assert!(there.contains("finished by Codex") && there.contains("[secret: github-token]"));
    assert!(!there.contains(&token));

    let told = next(&ids, 0);
    assert!(has(&told, "small", "$0.02") && has(&told, "rewrite", "$0.05"), "{told}");
    assert_eq!(lines.next(), None, "every command of the page was played");
}
