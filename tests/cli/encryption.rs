//! An encrypted store at the command line: adding and removing key holders, and the messages for
//! users without access.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use turntree_tests::claude_code;
use turntree_tests::server_process::Server;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// A folder with a store and a home.
struct Desk {
    root: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("session.jsonl"), claude_code(60)).unwrap();
        fs::write(root.path().join("phrase"), "open sesame\n").unwrap();
        Self { root }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Runs the program as the user with the home `home`.
    fn ran_as(&self, home: &str, code: i32, words: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(self.root.path()).env_clear().stdin(Stdio::null());
        command.env("HOME", self.path(home)).env("TURNTREE_MAINTENANCE", "off");
        let output = command.envs(variables.iter().copied()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        output
    }

    fn ran(&self, code: i32, words: &[&str]) -> Output {
        self.ran_as("home", code, words, &[])
    }

    fn said(&self, code: i32, words: &[&str]) -> String {
        String::from_utf8(self.ran(code, words).stderr).unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_slice(&self.ran(0, &[&["--json"], words].concat()).stdout).unwrap()
    }

    /// The public key in a user's identity file.
    fn public_key(&self, home: &str) -> String {
        let path = self.path(home).join(".config/turntree/identity.txt");
        let text = fs::read_to_string(path).unwrap();
        text.lines().next().unwrap().trim_start_matches("# public key: ").to_owned()
    }

    /// Fails if a file of the store contains the session in plaintext.
    fn expect_hidden(&self) {
        let mut folders = vec![self.path(".turntree")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let bytes = fs::read(&path).unwrap();
                for word in ["nightly", "refs/heads", "session.jsonl"] {
                    let found = bytes.windows(word.len()).any(|part| part == word.as_bytes());
                    assert!(!found, "{word} in {}", path.display());
                }
            }
        }
    }

    fn expect_session(&self, home: &str, variables: &[(&str, &str)]) {
        let words = ["export", "nightly", "--format", "source"];
        let exported = self.ran_as(home, 0, &words, variables).stdout;
        assert!(exported == fs::read(self.path("session.jsonl")).unwrap());
    }
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

#[test]
fn a_new_store_is_encrypted_to_a_key_that_is_made_and_opens_by_itself() {
    let desk = Desk::new();
    let said = desk.said(0, &["init", "--encrypt"]);
    assert!(said.contains("identity.txt") && said.contains("keep a copy"), "{said}");
    desk.ran(0, &["import", "session.jsonl", "--session", "nightly"]);
    desk.expect_session("home", &[]);
    desk.expect_hidden();
    desk.ran(0, &["repack", "--archive"]);
    desk.ran(0, &["fsck"]);
    desk.expect_hidden();
    let keys = desk.json(&["key", "ls"]);
    assert_eq!(keys["encrypted"], true);
    assert_eq!(keys["holders"][0]["public"], desk.public_key("home"));
    assert_eq!(keys["holders"][0]["used"], true);

    // Another user has no key, and the error explains how to provide it.
    let said = desk.ran_as("elsewhere", 2, &["log"], &[]).stderr;
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("is encrypted") && said.contains("TURNTREE_IDENTITY"), "{said}");
    let own = desk.path("home/.config/turntree/identity.txt");
    desk.expect_session("elsewhere", &[("TURNTREE_IDENTITY", own.to_str().unwrap())]);
    assert!(desk.said(2, &["init", "--encrypt"]).contains("encrypted already"));
}

#[test]
fn the_key_may_be_in_a_key_store_whose_program_prints_it() {
    let desk = Desk::new();
    let own = desk.path("home/.config/turntree/identity.txt");
    desk.ran(0, &["init", "--encrypt"]);
    desk.ran(0, &["import", "session.jsonl", "--session", "nightly"]);
    // The user moves the key into the key store. From now on it provides the key.
    let kept = desk.path("key store");
    fs::rename(&own, &kept).unwrap();
    let printed = format!("cat '{}'", kept.display());
    desk.expect_session("home", &[("TURNTREE_IDENTITY_COMMAND", printed.as_str())]);

    let refused = |command: &str| {
        let variables = [("TURNTREE_IDENTITY_COMMAND", command)];
        let output = desk.ran_as("home", 6, &["log"], &variables);
        String::from_utf8(output.stderr).unwrap()
    };
    for command in ["exit 3", "true", "no-such-program-anywhere"] {
        let said = refused(command);
        assert!(said.contains("TURNTREE_IDENTITY_COMMAND printed no key"), "{said}");
    }
    let output = desk.ran_as("home", 2, &["log"], &[("TURNTREE_IDENTITY_COMMAND", "echo key")]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("expected age keys"));

    // A second store is encrypted to the same key, and no other key is created.
    let variables = [("TURNTREE_IDENTITY_COMMAND", printed.as_str())];
    desk.ran_as("home", 0, &["--store", "second", "init", "--encrypt"], &variables);
    desk.ran_as("home", 0, &["--store", "second", "key", "ls"], &variables);
    assert!(!own.exists());
}

#[test]
fn a_key_that_a_rotation_left_wrapped_is_not_taken_for_the_new_one() {
    let desk = Desk::new();
    desk.ran(0, &["init", "--encrypt"]);
    desk.ran(0, &["import", "session.jsonl", "--session", "nightly"]);
    let text = fs::read_to_string(desk.path("home/.config/turntree/identity.txt")).unwrap();
    let own: age::x25519::Identity = text.lines().nth(1).unwrap().parse().unwrap();
    // The states that a rotation leaves if it is killed after its last file, and before its first.
    for present in ["newest", "previous"] {
        let before = desk.json(&["key", "ls"])["key"].clone();
        let wrapped = fs::read(desk.path(".turntree/keys/own.age")).unwrap();
        let text = String::from_utf8(age::decrypt(&own, &wrapped).unwrap()).unwrap();
        let (title, key) = text.trim_end().split_once("\nnewest ").unwrap();
        // The cipher is in front of the digits, unless it is the first cipher.
        let digits = key.rsplit(' ').next().unwrap();
        let other = key.replace(digits, &"7".repeat(digits.len()));
        let [newest, previous] = if present == "newest" { [key, &other] } else { [&other, key] };
        let both = format!("{title}\nnewest {newest}\nprevious {previous}\n");
        let both = age::encrypt(&own.to_public(), both.as_bytes()).unwrap();
        for name in ["own.age", "own.copy"] {
            fs::write(desk.path(".turntree/keys").join(name), &both).unwrap();
        }
        desk.expect_session("home", &[]);
        assert_eq!(desk.json(&["key", "ls"])["key"], before, "{present}");
        desk.ran(0, &["key", "rotate"]);
        let wrapped = fs::read(desk.path(".turntree/keys/own.age")).unwrap();
        let now = String::from_utf8(age::decrypt(&own, &wrapped).unwrap()).unwrap();
        assert!(!now.contains(key) && !now.contains(&other), "{present}: these keys still open it");
    }
    desk.expect_session("home", &[]);
    desk.expect_hidden();
}

#[test]
fn a_store_that_is_there_is_encrypted_by_a_plan_and_is_plain_again() {
    let desk = Desk::new();
    desk.ran(0, &["init"]);
    desk.ran(0, &["import", "session.jsonl", "--session", "nightly"]);
    let plan = desk.json(&["init", "--encrypt", "--dry-run"]);
    assert!(plan["files"].as_u64().unwrap() > 0 && plan["dry_run"] == true, "{plan}");
    assert!(!desk.path(".turntree/keys").exists() && !desk.path("home/.config").exists());
    let done = desk.json(&["init", "--encrypt", "--passphrase-file", "phrase"]);
    assert_eq!((&done["files"], &done["bytes"]), (&plan["files"], &plan["bytes"]));
    desk.expect_hidden();
    assert!(
        is_empty(&desk.path(".turntree/workspaces")) || !desk.path(".turntree/workspaces").exists()
    );

    assert!(desk.said(2, &["log"]).contains("is encrypted"));
    let phrase = [("TURNTREE_PASSPHRASE", "open sesame")];
    desk.expect_session("home", &phrase);
    desk.ran_as("home", 2, &["log"], &[("TURNTREE_PASSPHRASE", "open barley")]);

    desk.ran_as("home", 0, &["key", "decrypt"], &phrase);
    desk.expect_session("home", &[]);
    assert!(!desk.path(".turntree/keys").exists());
    assert_eq!(desk.json(&["key", "ls"])["encrypted"], false);
}

#[test]
fn a_holder_is_added_and_one_who_is_removed_cannot_open_what_comes_after() {
    let desk = Desk::new();
    desk.ran(0, &["init", "--encrypt"]);
    desk.ran(0, &["import", "session.jsonl", "--session", "nightly"]);
    // Another user has a key from another store.
    desk.ran_as("laptop", 0, &["--store", "other", "init", "--encrypt"], &[]);
    let laptop = desk.public_key("laptop");
    desk.ran(0, &["key", "add", "laptop", "--encrypt-to", &laptop]);
    desk.expect_session("laptop", &[]);
    desk.ran(0, &["key", "add", "words", "--passphrase-file", "phrase"]);
    assert!(desk.said(2, &["key", "add", "laptop", "--encrypt-to", &laptop]).contains("already"));
    assert!(desk.said(2, &["key", "add", "../x", "--encrypt-to", &laptop]).contains("cannot name"));
    assert!(desk.said(2, &["key", "add", "missing"]).contains("--encrypt-to"));

    let before = desk.json(&["key", "ls"])["key"].clone();
    // The new key must be wrapped for the passphrase too, which is unknown here.
    assert!(desk.said(2, &["key", "rm", "laptop"]).contains("passphrase"));
    desk.expect_session("laptop", &[]);
    desk.ran(0, &["key", "rm", "laptop", "--passphrase-file", "phrase"]);
    assert_ne!(desk.json(&["key", "ls"])["key"], before);
    desk.ran_as("laptop", 2, &["log"], &[]);
    desk.expect_session("home", &[]);
    desk.expect_session("laptop", &[("TURNTREE_PASSPHRASE", "open sesame")]);
    assert_eq!(desk.json(&["key", "ls"])["holders"].as_array().unwrap().len(), 2);

    desk.ran(6, &["key", "rm", "laptop"]);
    desk.ran(0, &["key", "rm", "words"]);
    assert!(desk.said(2, &["key", "rm", "own"]).contains("the last key"));
    desk.expect_session("home", &[]);
    desk.ran(0, &["fsck"]);
}

#[test]
fn a_lost_superblock_and_hooks_of_a_store_without_its_key_end_as_they_should() {
    let desk = Desk::new();
    desk.ran(0, &["init", "--encrypt"]);
    desk.ran(0, &["import", "session.jsonl", "--session", "nightly"]);
    fs::remove_file(desk.path(".turntree/superblock")).unwrap();
    desk.ran(4, &["log"]);
    desk.ran_as("elsewhere", 2, &["repair"], &[]);
    desk.ran(0, &["repair"]);
    desk.expect_session("home", &[]);
    // A hook never fails, and its log reveals no content of the store.
    desk.ran_as("elsewhere", 0, &["hook"], &[]);
    let said = String::from_utf8(desk.ran(0, &["hook", "log"]).stdout).unwrap();
    assert!(said.contains("- -: read the event: "), "{said}");
    desk.expect_hidden();
}

#[test]
fn keys_are_changed_by_one_at_a_time() {
    let desk = Desk::new();
    desk.ran(0, &["init", "--encrypt"]);
    desk.ran(0, &["import", "session.jsonl", "--session", "nightly"]);
    let other = fs::File::open(desk.path(".turntree")).unwrap();
    other.lock().unwrap();
    let changes: [&[&str]; 4] = [
        &["key", "rotate"],
        &["key", "add", "x", "--passphrase-file", "phrase"],
        &["key", "decrypt"],
        &["init", "--encrypt"],
    ];
    for words in changes {
        let said = desk.said(5, words);
        assert!(said.contains("another command changes the keys"), "{words:?}: {said}");
    }
    // Other commands still work.
    desk.expect_session("home", &[]);
    drop(other);
    desk.ran(0, &["key", "rotate"]);
    desk.expect_session("home", &[]);
}

#[test]
fn a_damaged_key_has_a_copy() {
    let desk = Desk::new();
    desk.ran(0, &["init", "--encrypt"]);
    desk.ran(0, &["import", "session.jsonl", "--session", "nightly"]);
    let keys = desk.path(".turntree/keys");
    for name in ["own.age", "own.copy"] {
        let whole = fs::read(keys.join(name)).unwrap();
        for damaged in [b"".to_vec(), [&whole[..100], b"damage", &whole[106..]].concat()] {
            fs::write(keys.join(name), damaged).unwrap();
            desk.expect_session("home", &[]);
            assert_eq!(desk.json(&["key", "ls"])["holders"].as_array().unwrap().len(), 1);
        }
        fs::remove_file(keys.join(name)).unwrap();
        desk.expect_session("home", &[]);
        fs::write(keys.join(name), whole).unwrap();
    }
    // A rotation rewrites both.
    fs::remove_file(keys.join("own.copy")).unwrap();
    desk.ran(0, &["key", "rotate"]);
    assert_eq!(fs::read(keys.join("own.age")).unwrap(), fs::read(keys.join("own.copy")).unwrap());
}

#[test]
fn what_is_missing_for_a_key_is_told_before_there_is_a_store() {
    let desk = Desk::new();
    desk.said(2, &["init", "--encrypt", "--encrypt-to", "missing"]);
    desk.said(70, &["init", "--encrypt", "--passphrase-file", "absent"]);
    assert!(!desk.path(".turntree").exists());
    desk.ran(0, &["init", "--encrypt"]);
    let key = desk.public_key("home");
    let said = desk.said(2, &["init", "--encrypt", "--encrypt-to", &key]);
    assert!(said.contains("has its keys already"), "{said}");
    let said = desk.said(2, &["key", "rotate", "--encrypt-to", &key]);
    assert!(said.contains("keeps the holders of keys"), "{said}");
}

#[test]
fn a_server_asks_for_the_key_once_until_it_is_another_one() {
    let desk = Desk::new();
    desk.ran(0, &["init", "--encrypt"]);
    desk.ran(0, &["import", "session.jsonl", "--session", "nightly"]);
    fs::rename(desk.path("home/.config/turntree/identity.txt"), desk.path("secret")).unwrap();
    let printed =
        format!("echo >> {}; cat {}", desk.path("asked").display(), desk.path("secret").display());
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--stdio", "--session", "nightly"]).current_dir(desk.root.path());
    command.env_clear().env("HOME", desk.path("home")).env("TURNTREE_MAINTENANCE", "off");
    let mut server = Server::start(command.env("TURNTREE_IDENTITY_COMMAND", &printed));
    let asked = || fs::read_to_string(desk.path("asked")).unwrap().lines().count();
    for number in 0..3 {
        server.call("snapshot", &json!({"message": format!("turn {number}")})).unwrap();
        server.call("status", &json!({})).unwrap();
        // The server reopens the store, since files were deleted.
        desk.ran_as("home", 0, &["repack"], &[("TURNTREE_IDENTITY", "secret")]);
        server.call("status", &json!({})).unwrap();
    }
    assert_eq!(asked(), 1);
    desk.ran_as("home", 0, &["key", "rotate"], &[("TURNTREE_IDENTITY", "secret")]);
    server.call("status", &json!({})).unwrap();
    assert_eq!(asked(), 2, "another key is wrapped now");
    assert_eq!(server.end(), (Some(0), String::new()));
}

#[test]
fn commands_beside_a_key_rotation_work_or_ask_to_be_run_again() {
    let desk = Desk::new();
    desk.ran(0, &["init", "--encrypt"]);
    desk.ran(0, &["import", "session.jsonl", "--session", "nightly"]);
    desk.ran(0, &["repack"]);
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for words in [
            &["fsck"][..],
            &["log", "nightly", "-n", "1"],
            &["snapshot", "-m", "x", "--session", "s", "--append-message", "user=x"],
        ] {
            let (desk, is_done) = (&desk, &is_done);
            scope.spawn(move || {
                while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                    let mut command = Command::new(PROGRAM);
                    command.args(words).current_dir(desk.root.path()).env_clear();
                    command.env("HOME", desk.path("home")).env("TURNTREE_MAINTENANCE", "off");
                    let output = command.stdin(Stdio::null()).output().unwrap();
                    let said = String::from_utf8_lossy(&output.stderr);
                    let code = output.status.code();
                    assert!(matches!(code, Some(0 | 3)), "{words:?}: {code:?}, {said}");
                    assert!(!said.contains("damage"), "{words:?}: {said}");
                }
            });
        }
        for _ in 0..12 {
            // A writer may hold the lock for a moment.
            let mut command = Command::new(PROGRAM);
            command.args(["key", "rotate"]).current_dir(desk.root.path()).env_clear();
            command.env("HOME", desk.path("home")).env("TURNTREE_MAINTENANCE", "off");
            let output = command.stdin(Stdio::null()).output().unwrap();
            let code = output.status.code();
            if !matches!(code, Some(0 | 3)) {
                is_done.store(true, std::sync::atomic::Ordering::Relaxed);
                panic!("{code:?}: {}", String::from_utf8_lossy(&output.stderr));
            }
        }
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    desk.ran(0, &["fsck"]);
    desk.expect_session("home", &[]);
}
