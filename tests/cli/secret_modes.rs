//! Secrets in imported sessions are reported, masked or ignored, and a session continues unchanged
//! after the mode changes. This file contains no secret: each is generated when the test runs.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use turntree::object::ObjectSource;
use turntree_tests::client::Client;
use turntree_tests::{claude_code, github_token};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

const MASK: &str = "[secret: github-token]";

/// A session with a token in a prompt and in the arguments and the output of a call, in every
/// fourth turn.
fn told(turns: usize, token: &str) -> String {
    let text = claude_code(turns);
    let text = text.replace("and say what you find", &format!("with {token} and say what"));
    text.replace("written", &format!("written \\\"{token}\\\""))
}

struct Desk {
    folder: tempfile::TempDir,
    token: String,
}

impl Desk {
    fn new() -> Self {
        let desk = Self { folder: tempfile::tempdir().unwrap(), token: github_token(5) };
        fs::create_dir(desk.path("home")).unwrap();
        fs::create_dir(desk.path("project")).unwrap();
        desk.ok(&["init"]);
        desk
    }

    fn masking() -> Self {
        let desk = Self::new();
        let said = desk.ok(&["secrets", "mode", "mask"]);
        assert!(said.starts_with("mask: "), "{said}");
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(self.path("project")).env_clear().stdin(Stdio::null());
        command.env("HOME", self.path("home")).env("TURNTREE_STORE", self.path("store"));
        command.envs([("TURNTREE_NOW", "2026-11-20T12:00:00Z"), ("TURNTREE_MAINTENANCE", "off")]);
        command.env("TURNTREE_ACTOR", "ann").output().unwrap()
    }

    /// The output of a command, and its stderr.
    fn said(&self, words: &[&str]) -> (String, String) {
        let output = self.run(words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}: {said}");
        assert!(!said.contains(&self.token));
        (String::from_utf8(output.stdout).unwrap(), said)
    }

    fn ok(&self, words: &[&str]) -> String {
        self.said(words).0
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[&["--json"], words].concat())).unwrap()
    }

    fn import(&self, turns: usize) -> Value {
        self.write("session.jsonl", &told(turns, &self.token));
        self.json(&["import", "../session.jsonl", "--session", "work"])
    }

    fn branches(&self) -> usize {
        self.json(&["branch"])["branches"].as_array().unwrap().len()
    }

    fn holds_token(&self) -> bool {
        holds(&self.path("store"), &self.token)
    }
}

/// Returns whether an object of a store contains the token.
fn holds(store: &std::path::Path, token: &str) -> bool {
    let repo = turntree_tests::open_store(store, 7);
    let collection = repo.store().collect().unwrap();
    let inventory = collection.inventory();
    let mut ids = (0..inventory.positions()).filter_map(|at| inventory.entry(at));
    ids.any(|entry| {
        let object = inventory.read(&entry.id).unwrap();
        object.is_some_and(|object| {
            object.bytes.windows(token.len()).any(|window| window == token.as_bytes())
        })
    })
}

#[test]
fn what_comes_in_is_said_once_and_nobody_looks_when_it_is_off() {
    let desk = Desk::new();
    desk.write("session.jsonl", &told(5, &desk.token));
    let import = ["import", "../session.jsonl", "--session", "work"];
    let (_, said) = desk.said(&import);
    assert!(said.contains("1 secret came in: github-token"), "{said}");
    assert!(said.contains("turntree secrets mode mask"), "{said}");
    let (_, said) = desk.said(&import);
    assert_eq!(said, "", "nothing is new");
    assert!(desk.holds_token());
    assert!(desk.json(&["status"]).get("secrets").is_none());

    desk.write("project/notes.txt", &format!("token {}", desk.token));
    let (_, said) = desk.said(&["snapshot", "-m", "notes", "--workspace", "."]);
    assert!(said.contains("1 secret came in: github-token"), "{said}");
    assert!(!desk.said(&["diff"]).1.contains("imported"), "scanned content is not stored");

    assert_eq!(desk.json(&["secrets", "mode", "off"])["mode"], "off");
    assert_eq!(desk.json(&["status"])["secrets"], "off");
    desk.write("session.jsonl", &told(6, &github_token(6)));
    assert_eq!(desk.said(&["import", "../session.jsonl", "--session", "other"]).1, "");
    desk.ok(&["undo"]);
    desk.ok(&["undo"]);
    assert_eq!(desk.json(&["secrets", "mode"])["mode"], "warn");
    desk.ok(&["secrets", "allow", "github-token"]);
    desk.write("session.jsonl", &told(7, &github_token(7)));
    assert_eq!(desk.said(&["import", "../session.jsonl", "--session", "third"]).1, "");
}

#[test]
fn a_transcript_goes_on_where_it_was_whatever_the_mode_was() {
    let desk = Desk::masking();
    assert_eq!(desk.import(5)["turns"], 5);
    assert!(!desk.holds_token());
    let text = desk.ok(&["cat", "work:agents/main/messages"]);
    assert!(text.contains(MASK) && text.contains(&format!("\\\"{MASK}")), "{text}");

    assert_eq!(desk.import(5)["turns"], 0, "the same");
    assert_eq!(desk.import(9)["turns"], 4, "grown");
    let (_, said) = desk.said(&["secrets", "mode", "mask"]);
    assert!(said.contains("secrets scan"), "{said}");
    assert!(!desk.holds_token());
    // Masked content is recognized if it is imported unmasked, and vice versa.
    desk.ok(&["secrets", "mode", "warn"]);
    assert_eq!(desk.import(9)["turns"], 0);
    assert_eq!(desk.import(13)["turns"], 4);
    assert!(desk.holds_token());
    desk.ok(&["secrets", "mode", "mask"]);
    assert_eq!(desk.import(17)["turns"], 4);
    desk.ok(&["secrets", "allow", "github-token"]);
    assert_eq!(desk.import(21)["turns"], 4);
    desk.ok(&["secrets", "mode", "off"]);
    assert_eq!(desk.import(25)["turns"], 4);
    assert_eq!(desk.branches(), 1);
    assert_eq!(desk.json(&["status"])["turn"], 25);
}

#[test]
fn a_session_without_its_secrets_is_taken_up_and_comes_back_as_a_branch() {
    let desk = Desk::masking();
    desk.import(9);
    let told = desk.json(&["resume", "work^{turn:6}", "--in", "claude-code", "--cwd", "."]);
    let path = told["path"].as_str().unwrap();
    let laid = fs::read_to_string(path).unwrap();
    assert!(laid.contains(MASK) && !laid.contains(&desk.token));
    assert_eq!(desk.json(&["adopt", path])["agents"][0]["turns"], 0);
    // The agent continues with it, and is given the token again.
    let session = told["session_id"].as_str().unwrap();
    let mut records = laid.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let last = records.rfind(|record| record["uuid"].is_string()).unwrap();
    let prompt = json!({"type": "user", "uuid": "u-new", "parentUuid": last["uuid"],
        "sessionId": session, "cwd": desk.path("project"), "timestamp": "2026-11-20T13:00:00.000Z",
        "message": {"role": "user", "content": format!("again: {}", desk.token)}});
    fs::write(path, format!("{laid}{prompt}\n")).unwrap();
    assert_eq!(desk.json(&["adopt", path])["agents"][0]["turns"], 1);
    assert_eq!(desk.branches(), 2);
    assert!(!desk.holds_token());
}

#[test]
fn hooks_mask_what_they_take_in_and_say_nothing() {
    let token = github_token(5);
    let client = Client::new(PROGRAM, "s-1.jsonl");
    let mode = client.command(&["secrets", "mode", "mask"]).output().unwrap();
    assert!(mode.status.success(), "{}", String::from_utf8_lossy(&mode.stderr));
    let text = told(10, &token);
    let mut written = String::new();
    for (number, line) in text.lines().enumerate() {
        written += &format!("{line}\n");
        if number % 5 == 0 {
            fs::write(&client.transcript, &written).unwrap();
            client.event(&["--workspace", "off"], "UserPromptSubmit", json!({"prompt": token}));
        }
    }
    fs::write(&client.transcript, &written).unwrap();
    client.event(&["--workspace", "off"], "Stop", json!({}));
    let imported = Desk::masking();
    imported.import(10);
    assert_eq!(client.commits().len(), 10);
    let messages = |head: &str, desk: &mut Command| {
        let output = desk.arg("cat").arg(format!("{head}:agents/main/messages")).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let mut there = Command::new(PROGRAM);
    there.args(["--store", imported.path("store").to_str().unwrap()]);
    assert_eq!(messages("s-1", &mut client.command(&[])), messages("work", &mut there));
    assert!(!holds(&client.store_dir(), &token));
}

#[test]
fn a_hook_goes_on_with_the_same_branch_when_the_mode_changes() {
    let token = github_token(5);
    let client = Client::new(PROGRAM, "s-1.jsonl");
    let text = told(12, &token);
    let mut written = String::new();
    for (number, line) in text.lines().enumerate() {
        written += &format!("{line}\n");
        if let Some(mode) = [(6, "mask"), (14, "off")].into_iter().find(|it| it.0 == number) {
            let mut command = client.command(&["secrets", "mode", mode.1]);
            assert!(command.output().unwrap().status.success());
        }
        if ![4, 5, 7, 9, 13, 15].contains(&number) {
            continue;
        }
        fs::write(&client.transcript, &written).unwrap();
        client.event(&["--workspace", "off"], "UserPromptSubmit", json!({"prompt": "p"}));
    }
    fs::write(&client.transcript, &written).unwrap();
    client.event(&["--workspace", "off"], "Stop", json!({}));
    assert_eq!(client.commits().len(), 12);
}

#[test]
fn a_file_with_a_secret_is_left_out_and_left_alone() {
    let desk = Desk::masking();
    desk.write("project/plain.txt", "one");
    desk.write("project/config.py", "nothing yet");
    desk.ok(&["snapshot", "-m", "one", "--workspace", "."]);
    let secret = format!("KEY = {:?}", desk.token);
    desk.write("project/config.py", &secret);
    desk.write("project/.env", &secret);
    desk.write("project/plain.txt", "two");
    let (_, said) = desk.said(&["snapshot", "-m", "two", "--workspace", "."]);
    for name in [".env", "config.py"] {
        assert!(said.contains(&format!("{name} is left out: it contains a secret")), "{said}");
    }
    let files = desk.ok(&["ls-tree", "HEAD:files"]);
    assert!(!files.contains(".env") && files.contains("plain.txt"), "{files}");
    assert_eq!(desk.ok(&["cat", "HEAD:files/config.py"]), "nothing yet", "as it was last");

    desk.ok(&["rollback", "--to-turn", "1"]);
    let read = |name: &str| fs::read_to_string(desk.path(name)).unwrap();
    assert_eq!(read("project/plain.txt"), "one");
    assert_eq!(read("project/config.py"), secret, "no other text is put in its place");
    assert_eq!(read("project/.env"), secret, "and it is not deleted");
    assert!(!desk.holds_token());

    // A file in a state document is stored unchanged or not at all.
    desk.write("state.json", &json!({"files": {"a.py": {"content": secret}}}).to_string());
    let output = desk.run(&["snapshot", "-m", "state", "--state", "../state.json"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("files.a.py: it contains a secret") && !said.contains(&desk.token),
        "{said}"
    );
    desk.write("state.json", &json!({"scratchpad": {"note": secret}}).to_string());
    let (_, said) = desk.said(&["snapshot", "-m", &secret, "--state", "../state.json"]);
    assert!(said.contains("secrets are masked in 1 content: github-token"), "{said}");
    assert!(desk.ok(&["cat", "HEAD:scratchpad/note"]).contains(MASK));
    assert!(desk.ok(&["log"]).contains(MASK) && !desk.holds_token());

    desk.write("project/config.py", "os.environ['KEY']");
    desk.ok(&["secrets", "allow", "github-token"]);
    let (_, said) = desk.said(&["snapshot", "-m", "allowed", "--workspace", "."]);
    assert!(!said.contains("left out"), "{said}");
    assert!(desk.holds_token());
}
