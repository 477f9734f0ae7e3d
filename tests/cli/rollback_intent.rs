//! Undoes a destructive edit of files and chat from the chat. The lesson is carried into the next
//! branch, and into no other session.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use turntree_exchange::{MAX_ROLLBACK_STEPS, RollbackIntent, rollback_intent};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");
const INTENTS: &str = include_str!("../vectors/open-codesign/rollback-intent.json");
const PROPOSED: &str = include_str!("../vectors/open-codesign/turn-snapshots-proposed.json");

/// The exit code of a command, and its output.
struct Answer {
    exit: i32,
    out: String,
    err: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("{} {}", self.out, self.err))
    }

    fn error(&self) -> Value {
        serde_json::from_str(&self.err).unwrap_or_else(|_| panic!("{} {}", self.out, self.err))
    }
}

/// A workspace, a store, and a clock that advances with each command.
struct Chat {
    folder: tempfile::TempDir,
    minute: u32,
    messages: Vec<Value>,
}

impl Chat {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("site")).unwrap();
        Self { folder, minute: 0, messages: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&mut self, arguments: &[&str]) -> Answer {
        self.minute += 1;
        let now = format!("2026-11-20T{:02}:{:02}:00Z", self.minute / 60, self.minute % 60);
        let output = Command::new(PROGRAM)
            .args(arguments)
            .current_dir(self.folder.path())
            .env("TURNTREE_STORE", self.path("store"))
            .envs([("TURNTREE_NOW", now.as_str()), ("TURNTREE_MAINTENANCE", "off")])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let exit = output.status.code().unwrap();
        Answer { exit, out: text(output.stdout), err: text(output.stderr) }
    }

    /// Runs a command that must succeed.
    fn done(&mut self, arguments: &[&str]) -> Answer {
        let answer = self.run(arguments);
        assert_eq!(answer.exit, 0, "{arguments:?}: {}", answer.err);
        answer
    }

    fn say(&mut self, role: &str, content: &str) {
        self.messages.push(json!({"role": role, "content": content}));
    }

    /// Takes a snapshot of chat and files. `more` are further options.
    fn snapshot(&mut self, session: &str, more: &[&str]) -> Value {
        let state = json!({"agents": {"main": {"messages": self.messages}}});
        fs::write(self.path("state.json"), state.to_string()).unwrap();
        let options = ["snapshot", "--json", "-m", "a turn", "--state", "state.json"];
        let place = ["--workspace", "site", "--session", session];
        self.done(&[&options[..], &place, more].concat()).json()
    }

    fn before_tool(&mut self, session: &str, path: &str) -> Value {
        let tool = ["--trigger", "before-tool", "--tool", "fs.replace", "--touches", path];
        self.snapshot(session, &tool)
    }

    fn write(&self, path: &str, content: &str) {
        fs::write(self.path("site").join(path), content).unwrap();
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(self.path("site")).unwrap().map(Result::unwrap);
        let name = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        entries.map(|entry| (name(&entry), fs::read(entry.path()).unwrap())).collect()
    }

    fn conversation(&mut self, revision: &str) -> String {
        self.done(&["export", revision, "--format", "jsonl"]).out
    }
}

fn ids(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_is_said_is_understood_as_the_reference_does_and_without_a_store() {
    let cases: Vec<Value> = serde_json::from_str(INTENTS).unwrap();
    assert!(cases.len() >= 16);
    let mut chat = Chat::new();
    for case in cases {
        let (said, intent) = (case["input"].as_str().unwrap(), &case["intent"]);
        let expected = match intent["kind"].as_str() {
            None => Value::Null,
            Some("stepsBack") => json!({"kind": "steps", "steps": intent["stepsBack"]}),
            Some(_) => intent.clone(),
        };
        let parsed = match rollback_intent(said) {
            None => Value::Null,
            Some(RollbackIntent::Steps(steps)) => {
                json!({"kind": "steps", "steps": steps.min(MAX_ROLLBACK_STEPS)})
            }
            Some(RollbackIntent::Turn(turn)) => json!({"kind": "turnId", "turnId": turn}),
        };
        assert_eq!(parsed, expected, "{said}");
        let printed = chat.done(&["rollback", "--said", said, "--parse", "--json"]).out;
        assert_eq!(printed, format!("{expected}\n"), "{said}");
    }
    assert!(!chat.path("store").exists());
}

#[test]
fn a_destructive_edit_is_undone_from_chat_and_the_lesson_goes_on() {
    let mut chat = Chat::new();
    chat.write("index.html", "<main>\r\n  hand written\r\n</main>");
    chat.write("style.css", "main { color: teal }\n");
    chat.say("user", "Make the page nicer");
    chat.before_tool("page", "index.html");
    chat.done(&["switch", "page/main"]);
    let (files, said) = (chat.files(), chat.conversation("HEAD"));

    // The tool breaks both files and creates a third; then the user writes.
    chat.write("index.html", "");
    fs::remove_file(chat.path("site/style.css")).unwrap();
    chat.write("junk.html", "<p>");
    let back = chat.done(&["rollback", "--said", "undo that", "--json"]).json();
    assert_eq!((&back["from_turn"], &back["workspace"]["failed"]), (&json!(1), &json!(0)));
    assert_eq!(chat.files(), files, "both files as a whole, and no third one");
    assert_eq!(chat.conversation("HEAD"), said);
    chat.done(&["undo"]);
    assert_eq!(chat.files()["index.html"], b"", "and forth again");
    chat.done(&["redo"]);
    assert_eq!(chat.files(), files);

    // A strategy that loops on its own branch.
    chat.done(&["fork", "plan-a", "--switch"]);
    for colour in ["red", "blue", "red", "blue", "red"] {
        chat.write("style.css", colour);
        let call = json!({"type": "tool_use", "id": "c", "name": "fs.replace",
            "input": {"path": "style.css", "text": colour}});
        chat.messages.push(json!({"role": "assistant", "content": [call]}));
        chat.snapshot("page", &["--branch", "plan-a", "--trigger", "turn"]);
    }
    let found = chat.run(&["spiral", "plan-a", "--json"]);
    assert_eq!((found.exit, &found.json()["verdict"]), (1, &json!("confirmed")));
    assert_eq!(found.json()["rollback_to"], 2);

    // The next strategy starts with the lesson.
    chat.done(&["fork", "plan-b", "main", "--switch"]);
    let note = ["--note", "ask which colour"];
    let add = ["lesson", "add", "--spiral", "--branch", "plan-a", "--json"];
    let added = chat.done(&[&add[..], &note].concat()).json();
    let lesson = ids(&added["added"]).remove(0);
    let listed = chat.done(&["lesson", "list", "--json"]).json();
    let listed = &listed["lessons"][0];
    assert_eq!(
        (&listed["type"], &listed["abandonedBranch"]),
        (&json!("spiral"), &json!("page/plan-a"))
    );
    assert!(listed["mistakePattern"].as_str().unwrap().contains("style.css swung"), "{listed}");
    let block = chat.done(&["lesson", "inject", "--tool", "fs.replace"]).out;
    assert!(block.starts_with("## Active lessons (auto-injected)\n"), "{block}");
    assert!(block.contains("style.css swung") && block.contains("note: ask which colour"));
    assert!(block.ends_with("## End of lessons\n"));

    // Another branch gets it only by a merge of lessons.
    assert_eq!(chat.done(&["lesson", "inject", "main"]).out, "");
    let content = chat.conversation("main");
    chat.done(&["merge", "plan-b", "--into", "main", "--only", "lessons"]);
    let carried = chat.done(&["lesson", "inject", "main", "--json"]).json();
    assert_eq!(ids(&carried["lessons"]), [lesson]);
    assert_eq!(chat.conversation("main"), content);

    // Another session does not list it, and cannot link to this one.
    chat.snapshot("other", &[]);
    assert_eq!(chat.done(&["lesson", "inject", "other"]).out, "");
    assert_eq!(chat.done(&["lesson", "list", "other", "--all"]).out, "");
    let foreign = ["--note", "x", "--branch", "page/plan-a", "--session", "other"];
    let refused = chat.run(&[&["lesson", "add"], &foreign[..]].concat());
    assert_eq!(refused.exit, 2, "{}", refused.err);
    assert_eq!(chat.done(&["lesson", "list", "other", "--all"]).out, "");
}

#[test]
fn steps_are_turns_and_a_turn_that_changed_nothing_is_one_too() {
    let mut chat = Chat::new();
    for (turn, text) in ["one", "two", "two", "four"].into_iter().enumerate() {
        chat.write("a.txt", text);
        chat.say("user", &format!("message {turn}"));
        chat.before_tool("s", "a.txt");
    }
    chat.done(&["switch", "s/main"]);
    chat.write("a.txt", "broken");
    let text = |chat: &Chat| String::from_utf8(chat.files()["a.txt"].clone()).unwrap();
    let turn_of = |answer: &Answer| answer.json()["from_turn"].clone();

    // The last tool's change is the first step. Two single steps equal one of two.
    let back = |chat: &mut Chat, said: &str| {
        let answer = chat.done(&["rollback", "--said", said, "--json"]);
        (turn_of(&answer), text(chat))
    };
    assert_eq!(back(&mut chat, "undo that"), (json!(4), "four".into()));
    assert_eq!(back(&mut chat, "revert it"), (json!(3), "two".into()));
    chat.done(&["undo"]);
    chat.done(&["undo"]);
    assert_eq!(text(&chat), "broken");
    // A lesson in between is not a turn, and `--keep-lessons` keeps it.
    chat.done(&["lesson", "add", "--note", "careful"]);
    let kept = chat.done(&["rollback", "2", "--keep-lessons", "--json"]);
    assert_eq!((turn_of(&kept), text(&chat)), (json!(3), "two".into()));
    assert!(chat.done(&["lesson", "inject"]).out.contains("careful"));
    chat.done(&["undo"]);
    chat.done(&["undo"]);

    // Turn 3 has the content of turn 2, and is found by its own number.
    let (four, conversation) = (chat.conversation("turn:4"), chat.conversation("turn:3"));
    assert_eq!(back(&mut chat, "/rollback to 3"), (json!(3), "two".into()));
    assert_eq!(chat.conversation("HEAD"), conversation);
    assert_ne!(four, conversation);
    assert_eq!(chat.done(&["rollback", "0", "--json"]).json()["from_turn"], 3, "where it is");

    // With `--audit` the conversation records the rollback, and then continues from there.
    let answer = chat.done(&["rollback", "--said", "undo that", "--audit", "--json"]);
    assert_eq!(turn_of(&answer), 2);
    let said = chat.conversation("HEAD");
    let record: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!((&record["type"], &record["restoredTurn"]), (&json!("rollback"), &json!(2)));
    assert_eq!(said.lines().count(), chat.conversation("turn:2").lines().count() + 1);
    assert_eq!(back(&mut chat, "undo that"), (json!(1), "one".into()));
}

#[test]
fn what_cannot_be_gone_back_to_is_said_so_and_nothing_changes() {
    let mut chat = Chat::new();
    let refused = |chat: &mut Chat, arguments: &[&str], exit: i32, name: &str| {
        let arguments = [&["rollback", "--json"], arguments].concat();
        let answer = chat.run(&arguments);
        assert_eq!(answer.out, "", "{arguments:?}");
        let error = answer.error();
        assert_eq!((answer.exit, error["error"].as_str()), (exit, Some(name)), "{arguments:?}");
        error
    };
    chat.done(&["init"]);
    refused(&mut chat, &[], 6, "no_snapshot");
    refused(&mut chat, &["--said", "undo that"], 6, "no_snapshot");

    let policy = ["retention", "set", "s", "--keep-last", "2"];
    chat.done(&policy);
    for turn in 1..=130 {
        chat.write("a.txt", &turn.to_string());
        let pin: &[&str] = if turn == 4 { &["--pin"] } else { &[] };
        chat.snapshot("s", &[&["--trigger", "turn"], pin].concat());
    }
    chat.done(&["switch", "s/main"]);
    chat.done(&["gc"]);
    let log = chat.done(&["op", "log", "--json"]).out;
    for (arguments, exit, name) in [
        (&["-1"][..], 2, "invalid_args"),
        (&["--to-turn", "-1"], 2, "invalid_args"),
        (&["--to-turn", "0"], 2, "invalid_args"),
        (&["many"], 2, "invalid_args"),
        (&["--said", "what is this?"], 2, "invalid_args"),
        (&["--said", "undo last 0"], 2, "invalid_args"),
        (&["1000"], 6, "snapshot_expired"),
        (&["--to-turn", "9"], 6, "snapshot_expired"),
        (&["--to-turn", "999"], 6, "snapshot_expired"),
        (&["--said", "/rollback turn 9"], 6, "snapshot_expired"),
        // Fifty steps, which the reference implementation reads here, were not requested.
        (&["--said", "/rollback 150"], 6, "snapshot_expired"),
    ] {
        let error = refused(&mut chat, arguments, exit, name);
        if exit == 6 {
            let (oldest, is_pinned) = (&error["oldestAvailable"], &error["oldestAvailablePinned"]);
            assert_eq!((oldest, is_pinned), (&json!(4), &json!(true)), "{arguments:?}");
        }
    }
    assert_eq!(chat.files()["a.txt"], b"130");
    assert_eq!(chat.done(&["op", "log", "--json"]).out, log);
    let pinned = chat.done(&["rollback", "--said", "/rollback to 4", "--json"]).json();
    assert_eq!((&pinned["from_turn"], chat.files()["a.txt"].as_slice()), (&json!(4), &b"4"[..]));
}

#[test]
fn branches_that_learned_the_same_again_are_merged_and_each_time_counts() {
    let mut chat = Chat::new();
    chat.snapshot("s", &[]);
    chat.done(&["switch", "s/main"]);
    let models = ["--type", "infrastructure", "--from-model", "big", "--to-model", "small"];
    let learn = |chat: &mut Chat, branch: &str, options: &[&str]| {
        let add = ["lesson", "add", "--on", branch];
        chat.done(&[&add[..], &models, options].concat());
    };
    learn(&mut chat, "main", &[]);
    chat.done(&["fork", "plan-b"]);
    learn(&mut chat, "main", &[]);
    chat.snapshot("s", &["--branch", "plan-b"]);
    learn(&mut chat, "plan-b", &["--failed-with", "429"]);
    learn(&mut chat, "main", &[]);
    let lesson = |chat: &mut Chat, branch: &str| {
        chat.done(&["lesson", "list", branch, "--json"]).json()["lessons"][0].clone()
    };
    let [ours, theirs] = ["main", "plan-b"].map(|branch| lesson(&mut chat, branch));
    assert_eq!((&ours["count"], &theirs["count"]), (&json!(3), &json!(2)));
    assert!(ours["capturedAt"].as_i64() > theirs["capturedAt"].as_i64());

    chat.done(&["merge", "plan-b", "--into", "main"]);
    assert_eq!(chat.done(&["resolve"]).out, "no conflict is open on s/main\n");
    let merged = lesson(&mut chat, "main");
    assert_eq!((&merged["count"], &merged["failedWith"]), (&json!(4), &json!(429)));
    assert_eq!(merged["capturedAt"], ours["capturedAt"], "the newest one counts");
    assert_eq!(merged["turnId"], ours["turnId"].as_u64().max(theirs["turnId"].as_u64()).unwrap());
}

#[test]
fn lessons_are_edited_by_people_and_each_change_is_one_undo() {
    let mut chat = Chat::new();
    chat.snapshot("s", &[]);
    chat.done(&["switch", "s/main"]);
    let models = ["--type", "infrastructure", "--from-model", "big", "--to-model", "small"];
    let add = |chat: &mut Chat, options: &[&str]| {
        let answer = chat.done(&[&["lesson", "add", "--json"], options].concat()).json();
        (ids(&answer["added"]), ids(&answer["changed"]))
    };
    let (first, _) = add(&mut chat, &["--tool", "edit", "--mistake", "guessing", "--pin"]);
    let (model, _) = add(&mut chat, &[&models[..], &["--failed-with", "429"]].concat());
    assert_eq!(add(&mut chat, &models), (vec![], model.clone()), "folded");
    let listed = |chat: &mut Chat| chat.done(&["lesson", "list", "--all", "--json"]).json();
    let of = |list: &Value, id: &str| {
        let lessons = list["lessons"].as_array().unwrap();
        lessons.iter().find(|lesson| lesson["id"] == id).cloned().unwrap()
    };
    let infrastructure = of(&listed(&mut chat), &model[0]);
    assert_eq!((&infrastructure["count"], &infrastructure["failedWith"]), (&json!(2), &json!(429)));
    assert!(
        chat.done(&["lesson", "inject"])
            .out
            .contains("from big to small: failed with 429, 2 times")
    );

    for change in [
        &["edit", &first[0], "--correct", "look first", "--tool", ""][..],
        &["rm", &first[0][..4], &model[0]],
        &["unpin", &first[0]],
        &["pin", &model[0]],
    ] {
        let before = listed(&mut chat);
        chat.done(&[&["lesson"], change].concat());
        assert_ne!(listed(&mut chat)["lessons"], before["lessons"], "{change:?}");
        chat.done(&["undo"]);
        assert_eq!(listed(&mut chat), before, "{change:?}");
        chat.done(&["redo"]);
    }
    let after = listed(&mut chat);
    assert_eq!(chat.done(&["lesson", "inject"]).out, "");
    assert!(of(&after, &first[0])["toolName"].is_null());
    assert_eq!(
        add(&mut chat, &["--mistake", "guessing", "--correct", "look first"]).1,
        first,
        "again"
    );

    // The file: unchanged it changes nothing, edited it changes lessons, and with an error it
    // changes nothing.
    chat.done(&["lesson", "export", "LESSONS.md"]);
    let text = fs::read_to_string(chat.path("LESSONS.md")).unwrap();
    let log = chat.done(&["op", "log", "--json"]).out;
    let same = chat.done(&["lesson", "import", "LESSONS.md", "--json"]).json();
    assert_eq!(same["commit"], Value::Null);
    let broken = text.replace("\"guessing\"", "\"guessing");
    fs::write(chat.path("LESSONS.md"), &broken).unwrap();
    let refused = chat.run(&["lesson", "import", "LESSONS.md"]);
    let line = text.lines().position(|line| line.contains("guessing")).unwrap() + 1;
    assert_eq!(refused.exit, 2);
    assert!(refused.err.contains(&format!("LESSONS.md: line {line}: ")), "{}", refused.err);
    assert_eq!(chat.done(&["op", "log", "--json"]).out, log);
    assert_eq!(chat.run(&["lesson", "export", "LESSONS.md"]).exit, 2, "it is not replaced");

    let edited = text.replace("look first", "look twice");
    let new = "\n## by-hand\n\n```json\n{\n  \"type\": \"budget\",\n  \"userNote\": \"spend less\"\n}\n```\n";
    fs::write(chat.path("LESSONS.md"), format!("{edited}{new}")).unwrap();
    let changed = chat.done(&["lesson", "import", "LESSONS.md", "--json"]).json();
    assert_eq!((ids(&changed["added"]), ids(&changed["changed"])), (vec!["by-hand".into()], first));
    let block = chat.done(&["lesson", "inject"]).out;
    assert!(block.contains("instead: look twice") && block.contains("note: spend less"), "{block}");
    chat.done(&["undo"]);
    assert!(!chat.done(&["lesson", "inject"]).out.contains("spend less"));
}

#[test]
fn progress_teaches_nothing_and_the_proposed_lesson_is_kept_as_it_is() {
    let mut chat = Chat::new();
    for turn in 1..=4 {
        chat.write("a.txt", &turn.to_string());
        let call =
            json!({"type": "tool_use", "id": "c", "name": "append", "input": {"x": "a.txt"}});
        chat.messages.push(json!({"role": "assistant", "content": [call]}));
        chat.snapshot("s", &["--trigger", "turn"]);
    }
    chat.done(&["switch", "s/main"]);
    assert_eq!(chat.done(&["spiral", "--json"]).json()["verdict"], "false_positive_progress");
    let none = chat.run(&["lesson", "add", "--spiral", "--json"]);
    assert_eq!((none.exit, &none.json()["added"]), (1, &json!([])));
    assert_eq!(chat.done(&["lesson", "list", "--all"]).out, "");

    let proposed: Value = serde_json::from_str(PROPOSED).unwrap();
    let lesson = &proposed["lessons"][0];
    let heading = "# Lessons\n\n<!-- turntree lessons, version 1, written from nothing -->\n";
    let text = format!("{heading}\n## proposed\n\n```json\n{lesson:#}\n```\n");
    fs::write(chat.path("LESSONS.md"), &text).unwrap();
    chat.done(&["lesson", "import", "LESSONS.md"]);
    let (stored, base) = (chat.done(&["lesson", "export"]).out, " written from ");
    let tail = |text: &str| text.split_once(base).unwrap().1.split_once('\n').unwrap().1.to_owned();
    assert_eq!(tail(&stored), tail(&text), "byte for byte, below the line of where it is from");
}

#[test]
fn a_rollback_keeps_what_to_do_differently_and_one_undo_takes_it_back() {
    let mut chat = Chat::new();
    chat.write("a.txt", "by hand");
    chat.snapshot("s", &[]);
    chat.say("user", "make it nicer");
    chat.write("a.txt", "BROKEN");
    chat.snapshot("s", &["--trigger", "turn"]);
    chat.done(&["switch", "s/main"]);
    // A refused rollback adds no lesson.
    let refused = chat.run(&["rollback", "9", "--lesson", "blue"]);
    assert_eq!(refused.exit, 6, "{}", refused.err);
    assert_eq!(chat.done(&["lesson", "list", "--json"]).json()["lessons"], json!([]));
    chat.done(&["rollback", "--lesson", "keep the margins"]);
    assert_eq!(chat.files()["a.txt"], b"by hand");
    let listed = chat.done(&["lesson", "list", "--json"]).json()["lessons"][0].clone();
    assert_eq!(listed["userNote"], "keep the margins");
    assert!(listed["abandonedCommit"].is_string(), "{listed}");
    chat.done(&["undo"]);
    assert_eq!(chat.files()["a.txt"], b"BROKEN");
    assert!(chat.done(&["lesson", "inject"]).out.contains("keep the margins"));

    // A contradicting lesson replaces it.
    let old = listed["id"].as_str().unwrap();
    chat.done(&["lesson", "add", "--note", "no margins", "--replaces", old]);
    let told = chat.done(&["lesson", "inject"]).out;
    assert!(told.contains("no margins") && !told.contains("keep the margins"), "{told}");
    let unknown = chat.run(&["lesson", "add", "--note", "x", "--replaces", "ffffffff"]);
    assert_eq!(unknown.exit, 6, "{}", unknown.err);
}

/// Runs the program on a terminal with typed input.
const ON_A_TERMINAL: &str = "\
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
os.write(fd, sys.argv[1].encode())
said = b''
while True:
    try:
        part = os.read(fd, 4096)
    except OSError:
        break
    if not part:
        break
    said += part
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
sys.stdout.buffer.write(said)
sys.exit(code)
";

#[test]
fn a_person_on_a_terminal_is_asked_and_may_say_nothing() {
    let mut chat = Chat::new();
    for turn in 1..=4 {
        chat.say("user", &format!("prompt {turn}"));
        chat.snapshot("s", &["--trigger", "turn"]);
    }
    chat.done(&["switch", "s/main"]);
    let typed = |chat: &Chat, typed: &str, locale: &str, arguments: &[&str]| {
        let mut command = Command::new("python3");
        command.args(["-c", ON_A_TERMINAL, typed, PROGRAM, "rollback"]).args(arguments);
        command.current_dir(chat.folder.path()).stdin(Stdio::null());
        command.env("TURNTREE_STORE", chat.path("store")).env("LC_ALL", locale);
        command.envs([("TURNTREE_MAINTENANCE", "off"), ("TERM", "dumb")]);
        command.env_remove("CLAUDE_CODE_SESSION_ID").env_remove("CODEX_THREAD_ID");
        // Skip without Python.
        let Ok(output) = command.output() else { return None };
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{said} {}", String::from_utf8_lossy(&output.stderr));
        Some(said)
    };
    let Some(said) = typed(&chat, "\n", "de_DE.UTF-8", &[]) else { return };
    assert!(said.contains("Was soll der Agent diesmal anders machen?"), "{said}");
    assert_eq!(chat.done(&["lesson", "inject"]).out, "");
    let said = typed(&chat, "blau\n", "de_DE.UTF-8", &["--said", "撤销"]).unwrap();
    assert!(said.contains("这一次"), "{said}");
    assert!(chat.done(&["lesson", "inject"]).out.contains("blau"));
    let said = typed(&chat, "", "C", &["--no-lesson"]).unwrap();
    assert!(!said.contains("differently"), "{said}");
}
