//! Exports without secrets: scans, refusals, masks and allowed secrets. This file contains no
//! secret: each is generated when the test runs.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use turntree::object::ObjectSource;
use turntree_tests::{claude_code, github_token};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// A directory with a store, and a session that contains a token.
struct Desk {
    folder: tempfile::TempDir,
    token: String,
}

impl Desk {
    fn new() -> Self {
        let desk = Self { folder: tempfile::tempdir().unwrap(), token: github_token(1) };
        let prompt = format!("use {} to push", desk.token);
        let call = json!({"command": format!("curl -H \"Authorization: token {}\" x", desk.token)});
        let at = "2026-11-20T10:00:00.000Z";
        let lines = [
            json!({"type": "user", "uuid": "u-99", "sessionId": "s-1", "timestamp": at,
                   "message": {"role": "user", "content": prompt}}),
            json!({"type": "assistant", "uuid": "u-100", "sessionId": "s-1", "timestamp": at,
                   "message": {"role": "assistant", "id": "m-100", "content": [
                       {"type": "tool_use", "id": "t-1", "name": "Bash", "input": call}]}}),
            json!({"type": "user", "uuid": "u-101", "sessionId": "s-1", "timestamp": at,
                   "message": {"role": "user", "content": [
                       {"type": "tool_result", "tool_use_id": "t-1",
                        "content": json!({"sent": desk.token}).to_string()}]}}),
        ];
        let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
        desk.write("session.jsonl", &(claude_code(5) + &lines));
        desk.ok(&["init"]);
        desk.ok(&["import", "session.jsonl", "--session", "work"]);
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(self.folder.path()).stdin(Stdio::null());
        command
            .env_clear()
            .env("HOME", self.path("home"))
            .env("PATH", std::env::var_os("PATH").unwrap());
        command.envs([("TURNTREE_NOW", "2026-11-20T12:00:00Z"), ("TURNTREE_MAINTENANCE", "off")]);
        let output = command.env("TURNTREE_ACTOR", "ann").output().unwrap();
        let said = [&*output.stdout, &*output.stderr].concat();
        let shows = words.first().is_some_and(|verb| ["cat", "export"].contains(verb));
        assert!(shows || !self.holds(&said), "{words:?} says it");
        output
    }

    fn ok(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn refused(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        assert!(!words.contains(&"-o") || words.contains(&"--json") || output.stdout.is_empty());
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    }

    fn scan(&self, words: &[&str]) -> Value {
        let output = self.run(&[&["secrets", "scan", "--json"], words].concat());
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn holds(&self, bytes: &[u8]) -> bool {
        memchr_in(bytes, self.token.as_bytes())
    }
}

fn memchr_in(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// Every object of a store, decompressed.
fn objects_of(store: &std::path::Path) -> Vec<Vec<u8>> {
    let repo = turntree_tests::open_store(store, 7);
    let collection = repo.store().collect().unwrap();
    let inventory = collection.inventory();
    let entries = (0..inventory.positions()).filter_map(|at| inventory.entry(at));
    let read = |id| inventory.read(&id).unwrap().map(|object| object.bytes.to_vec());
    entries.filter_map(|entry| read(entry.id)).collect()
}

#[test]
fn a_scan_names_rule_and_places_and_never_the_value() {
    let desk = Desk::new();
    let text = desk.refused(&["secrets", "scan"]);
    assert!(text.contains("github-token"), "{text}");
    assert!(text.contains("agents/main/messages/"), "{text}");
    assert!(text.contains("turntree redact --secret"), "{text}");
    let scan = desk.scan(&["--all"]);
    let [secret] = scan["secrets"].as_array().unwrap().as_slice() else { panic!("{scan}") };
    assert_eq!((&secret["rule"], &secret["allowed"]), (&json!("github-token"), &json!(false)));
    let fields: Vec<&str> =
        secret["places"].as_array().unwrap().iter().filter_map(|it| it["field"].as_str()).collect();
    for field in
        ["message.content", "message.content[0].input.command", "message.content[0].content"]
    {
        assert!(fields.contains(&field), "{fields:?}");
    }
    let id = secret["id"].as_str().unwrap();
    assert!(!desk.token.contains(id));

    let said = desk.ok(&["secrets", "allow", id]);
    assert!(said.contains(id), "{said}");
    assert!(desk.ok(&["secrets", "scan"]).contains("1 allowed"));
    desk.ok(&["bundle", "create", "work", "-o", "allowed.bundle"]);
    desk.ok(&["undo"]);
    desk.refused(&["secrets", "scan"]);
    desk.ok(&["secrets", "allow", "github-token"]);
    desk.ok(&["secrets", "scan"]);
    desk.ok(&["secrets", "allow", "--remove", "github-token"]);
    desk.refused(&["secrets", "scan"]);
}

#[test]
fn a_secret_is_redacted_by_the_id_of_its_finding() {
    let desk = Desk::new();
    let scan = desk.scan(&[]);
    let id = scan["secrets"][0]["id"].as_str().unwrap();
    desk.ok(&["redact", "--secret", id, "--dry-run"]);
    let output = desk.run(&["redact", "--secret", "nothing", "--yes"]);
    assert_eq!(output.status.code(), Some(6));
    desk.ok(&["redact", "--secret", id, "--yes"]);
    assert!(desk.ok(&["secrets", "scan", "--all"]).contains("no secret in"));
    let messages = desk.ok(&["cat", "work:agents/main/messages"]);
    assert!(messages.contains("use [secret: github-token] to push"), "{messages}");
    assert!(objects_of(&desk.path(".turntree")).iter().all(|bytes| !desk.holds(bytes)));
}

#[test]
fn nothing_goes_out_with_a_secret_unless_it_is_said() {
    let desk = Desk::new();
    for words in [
        &["bundle", "create", "work", "-o", "out"][..],
        &["bundle", "create", "--all", "-o", "out", "--json"],
        &["git", "export", "out"],
        &["export", "work", "--format", "source", "-o", "out"],
        &["share", "work", "-o", "out"],
    ] {
        let said = desk.refused(words);
        assert!(said.contains("github-token"), "{said}");
        assert!(said.contains("--scrub"), "{said}");
        assert!(!desk.path("out").exists());
    }
    for format in ["source", "jsonl", "markdown", "html", "json", "openai", "anthropic", "atif"] {
        let refused = desk.run(&["export", "work", "--format", format]);
        assert_eq!(refused.status.code(), Some(1), "{format}");
        assert!(refused.stdout.is_empty());
        let scrubbed = desk.ok(&["export", "work", "--format", format, "--scrub"]);
        assert!(!desk.holds(scrubbed.as_bytes()), "{format}");
        assert!(scrubbed.contains("[secret: github-token]"), "{format}");
        let whole = desk.ok(&["export", "work", "--format", format, "--allow-secrets"]);
        assert!(desk.holds(whole.as_bytes()), "{format}");
    }
    let scrubbed = desk.ok(&["export", "work~1", "--format", "source", "--scrub"]);
    assert!(scrubbed.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    desk.ok(&["git", "export", "out.git", "--source", "--scrub"]);
    desk.ok(&["git", "export", "out.git", "--source", "--scrub"]);
    let mut log = Command::new("git");
    log.args(["-C", "out.git", "log", "-p", "--all"]).current_dir(desk.folder.path());
    let log = log.output().unwrap();
    assert!(log.status.success() && !desk.holds(&log.stdout));
    assert!(
        desk.holds(desk.ok(&["cat", "work:agents/main/messages"]).as_bytes()),
        "the store stays"
    );
}

#[test]
fn a_scrubbed_bundle_holds_no_form_of_a_secret_and_goes_on() {
    let desk = Desk::new();
    desk.ok(&["tag", "before", "work~1"]);
    desk.ok(&["bundle", "create", "work", "-o", "one.bundle", "--scrub"]);
    let got = desk.path("got");
    let got = got.to_str().unwrap();
    desk.ok(&["--store", got, "bundle", "unbundle", "one.bundle"]);
    let objects = objects_of(&desk.path("got"));
    assert!(objects.iter().all(|bytes| !desk.holds(bytes)));
    assert!(objects.iter().any(|bytes| memchr_in(bytes, b"[secret: github-token]")));
    desk.ok(&["--store", got, "fsck"]);

    // A later increment applies to it: equal secrets are masked to equal turns.
    let longer = fs::read_to_string(desk.path("session.jsonl")).unwrap();
    let later = json!({"type": "user", "uuid": "u-200", "sessionId": "s-1",
                       "timestamp": "2026-11-20T11:00:00.000Z",
                       "message": {"role": "user", "content": "and now tag it"}});
    desk.write("session.jsonl", &format!("{longer}{later}\n"));
    desk.ok(&["import", "session.jsonl", "--session", "work"]);
    desk.ok(&["bundle", "create", "work", "--not", "work~1", "-o", "two.bundle", "--scrub"]);
    let said = desk.ok(&["--store", got, "bundle", "unbundle", "two.bundle"]);
    assert!(said.contains("moves on"), "{said}");
    assert!(objects_of(&desk.path("got")).iter().all(|bytes| !desk.holds(bytes)));
}

/// A record with a GitHub token in another spelling in its prompt, after words that keep it out of
/// the title.
fn spelled(token: &str) -> String {
    let words = "a long first prompt, so that it is not in the preview of the turn. ".repeat(3);
    let line = json!({"type": "user", "uuid": "u-1", "sessionId": "s-2",
                      "timestamp": "2026-11-20T10:00:00.000Z",
                      "message": {"role": "user", "content": format!("{words} the QQ ok")}});
    line.to_string().replace("QQ", token) + "\n"
}

/// The contents of the messages of an export, joined.
fn read_back(text: &str) -> String {
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records.map(|record| record["message"]["content"].as_str().unwrap_or("").to_owned()).collect()
}

#[test]
fn no_spelling_of_a_secret_goes_out_or_stays_when_it_is_redacted() {
    let token = github_token(1);
    let escaped = |at: usize, digits: &str| {
        let (first, rest) = token.split_at(at);
        format!("{first}\\u{digits}{}", &rest[1..])
    };
    let letter = format!("{:04X}", u32::from(token.as_bytes()[9]));
    for spelling in [
        escaped(3, "005F"),
        escaped(9, &letter),
        format!("\\u001b[32m{token}\\u001b[0m"),
        format!("gh\\u001b[1mp_{}", &token[4..]),
    ] {
        let desk = Desk::new();
        desk.ok(&["redact", "--secret", "all", "--yes"]);
        desk.write("other.jsonl", &spelled(&spelling));
        desk.ok(&["import", "other.jsonl", "--session", "other"]);
        desk.refused(&["bundle", "create", "other", "-o", "other.bundle"]);
        desk.refused(&["export", "other", "--format", "source", "-o", "other.out"]);
        desk.ok(&["bundle", "create", "other", "-o", "other.bundle", "--scrub"]);
        let got = desk.path("got");
        let got = got.to_str().unwrap();
        desk.ok(&["--store", got, "bundle", "unbundle", "other.bundle"]);
        desk.ok(&["--store", got, "secrets", "scan", "--all"]);
        for format in ["source", "jsonl"] {
            let text = desk.ok(&["export", "other", "--format", format, "--scrub"]);
            let words = read_back(&text);
            assert!(words.contains("[secret: github-token]"), "{format}: {words}");
        }
        desk.ok(&["redact", "--secret", "github-token", "--yes"]);
        desk.ok(&["secrets", "scan", "--all"]);
    }
}

#[test]
fn a_string_that_grep_finds_is_redacted_as_grep_finds_it() {
    let desk = Desk::new();
    desk.write("other.jsonl", &spelled("hunter2-\\u0053EKRIT-4711"));
    desk.ok(&["import", "other.jsonl", "--session", "other"]);
    let grep = ["grep", "hunter2-SEKRIT-4711", "--all"];
    desk.ok(&grep);
    desk.ok(&["redact", "hunter2-SEKRIT-4711", "--yes"]);
    assert_eq!(desk.run(&grep).status.code(), Some(1));
}

#[test]
fn a_binary_file_with_a_secret_goes_out_in_no_export() {
    let desk = Desk::new();
    desk.ok(&["redact", "--secret", "all", "--yes"]);
    fs::create_dir(desk.path("work")).unwrap();
    for noise in [3, 200] {
        let noise = [0, 255, 254, 128].repeat(noise);
        let bytes = [&noise, desk.token.as_bytes(), &noise].concat();
        fs::write(desk.path("work/dump.bin"), bytes).unwrap();
        let snapshot = ["snapshot", "-m", "x", "--session", "files", "--workspace", "work"];
        desk.ok(&snapshot);
        desk.refused(&["bundle", "create", "files", "-o", "files.bundle"]);
        desk.refused(&["export", "files", "--format", "json", "-o", "files.json"]);
        let text = desk.ok(&["export", "files", "--format", "json", "--scrub"]);
        let document: Value = serde_json::from_str(&text).unwrap();
        let file = document["files"]["dump.bin"]["base64"].as_str().unwrap();
        let bytes = STANDARD.decode(file).unwrap();
        assert!(!desk.holds(&bytes) && memchr_in(&bytes, b"[secret: github-token]"));
    }
}

#[test]
fn a_page_is_not_written_to_a_terminal() {
    let desk = Desk::new();
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped: no 'script' to make a terminal with");
        return;
    }
    let words = format!("{PROGRAM} export work --format html --allow-secrets");
    let output = Command::new("script")
        .args(["-qec", &words, "/dev/null"])
        .current_dir(desk.folder.path())
        .env_clear()
        .envs([
            ("HOME", desk.path("home").into_os_string()),
            ("PATH", std::env::var_os("PATH").unwrap()),
        ])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("not writing a page to a terminal"), "{said}");
    assert!(!said.contains("<html"));
}

#[test]
fn a_large_page_is_compressed_unless_the_options_say_otherwise() {
    let desk = Desk::new();
    desk.write("large.jsonl", &claude_code(1200).replace("\"u-", "\"large-"));
    desk.ok(&["import", "large.jsonl", "--session", "large"]);
    let page = |session: &str, option: &[&str]| {
        let words = ["export", session, "--format", "html", "--allow-secrets"];
        desk.ok(&[&words[..], option].concat())
    };
    let (plain, large) = (page("large", &["--no-compress"]), page("large", &[]));
    assert!(plain.len() > 1_000_000 && large.len() * 2 < plain.len(), "{}", plain.len());
    assert!(large.contains(" data-deflate>") && !plain.contains(" data-deflate>"));
    assert_eq!(page("large", &["--compress"]), large);
    // A small page stays as it is.
    let small = page("work", &[]);
    assert!(small == page("work", &["--no-compress"]) && small.len() < 1_000_000);
    assert!(page("work", &["--compress"]).contains(" data-deflate>"));
}

#[test]
fn a_page_is_opened_by_the_browser_that_the_environment_names() {
    let desk = Desk::new();
    // The test reads from a pipe, since the program does not wait for a browser.
    let made = Command::new("mkfifo").arg(desk.path("seen")).status();
    let script = format!("#!/bin/sh\nprintf %s \"$1\" > '{}'\n", desk.path("seen").display());
    desk.write("browser", &script);
    let may_run = Command::new("chmod").arg("+x").arg(desk.path("browser")).status();
    if !made.is_ok_and(|status| status.success()) || !may_run.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no mkfifo here");
        return;
    }
    let mut command = Command::new(PROGRAM);
    command.args(["--json", "export", "work", "--format", "html", "-o", "page.html", "--open"]);
    command.arg("--allow-secrets").current_dir(desk.folder.path()).stdin(Stdio::null());
    command.env_clear().env("HOME", desk.path("home")).env("BROWSER", desk.path("browser"));
    command.env("PATH", std::env::var_os("PATH").unwrap());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record["opened"], true, "{record}");
    let seen = fs::read_to_string(desk.path("seen")).unwrap();
    assert_eq!(fs::canonicalize(seen).unwrap(), fs::canonicalize(desk.path("page.html")).unwrap());
}
