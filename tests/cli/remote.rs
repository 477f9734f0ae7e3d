//! Sessions on several machines: the commands, their output, and their JSON.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use turntree_tests::sim::Random;
use turntree_tests::{claude_code, github_token};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// Directories of several machines next to their shared folder.
struct Office(tempfile::TempDir);

impl Office {
    /// One machine, `here`, with a pushed session.
    fn new() -> Self {
        let office = Self(tempfile::tempdir().unwrap());
        fs::create_dir(office.path("here")).unwrap();
        fs::write(office.path("here/session.jsonl"), claude_code(5)).unwrap();
        office.ok("here", &["init"]);
        office.ok("here", &["import", "session.jsonl", "--session", "work"]);
        office.ok("here", &["switch", "work"]);
        office.ok("here", &["remote", "add", "origin", "../shared"]);
        office.ok("here", &["push"]);
        office
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, machine: &str, words: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(self.path(machine)).stdin(Stdio::null());
        command.env_clear().env("HOME", self.path("home"));
        command.envs([("TURNTREE_MAINTENANCE", "off"), ("TURNTREE_ACTOR", machine)]);
        command.output().unwrap()
    }

    fn ok(&self, machine: &str, words: &[&str]) -> String {
        self.exits(0, machine, words).0
    }

    fn exits(&self, code: i32, machine: &str, words: &[&str]) -> (String, String) {
        let output = self.run(machine, words);
        let [said, errors] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}{errors}");
        (said, errors)
    }

    fn json(&self, machine: &str, words: &[&str]) -> Vec<Value> {
        let said = self.ok(machine, &[words, &["--json"]].concat());
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn turn(&self, machine: &str, text: &str) {
        self.ok(machine, &["snapshot", "-m", text, "--append-message", &format!("user={text}")]);
    }

    fn tip(&self, machine: &str, revision: &str) -> String {
        self.ok(machine, &["rev-parse", revision]).trim().to_owned()
    }
}

#[test]
fn another_machine_goes_on_with_a_session_and_the_turns_of_both_come_together() {
    let office = Office::new();
    let cloned = office.json(".", &["clone", "shared", "there"]);
    assert_eq!((&cloned[0]["sessions"], &cloned[0]["branches"]), (&1.into(), &1.into()));
    assert_eq!(office.tip("there", "HEAD"), office.tip("here", "work"));

    office.turn("there", "of there");
    let pushed = office.json("there", &["push"]);
    assert_eq!(pushed[0]["branches"][0]["change"], "forward");
    office.turn("here", "of here");
    let (_, said) = office.exits(3, "here", &["push"]);
    assert!(said.contains("turntree sync"), "{said}");
    assert_eq!(office.tip("here", "origin/main"), office.tip("there", "HEAD"));
    assert!(office.ok("here", &["diff", "main", "origin/work"]).contains("of there"));

    let synced = office.json("here", &["sync"]);
    assert_eq!(synced[0]["followed"][0]["change"], "merged");
    assert_eq!(synced[0]["pushed"][0]["change"], "forward");
    office.ok("there", &["sync"]);
    assert_eq!(office.tip("there", "HEAD"), office.tip("here", "HEAD"));
    let said = office.ok("there", &["log"]);
    assert!(said.contains("of here") && said.contains("of there"), "{said}");
    for machine in ["here", "there"] {
        office.ok(machine, &["fsck"]);
        let remotes = office.json(machine, &["remote", "ls"]);
        assert_eq!(remotes[0]["remotes"][0]["unpushed"], 0);
    }
    let checked = office.json("here", &["remote", "check"]);
    assert_eq!(
        (&checked[0]["sessions"], &checked[0]["missing"]),
        (&1.into(), &Value::Array(vec![]))
    );
}

#[test]
fn a_secret_does_not_go_out_unless_somebody_says_so() {
    let office = Office::new();
    let secret = github_token(1);
    office.turn("here", &format!("use {secret}"));
    let objects = || {
        let folder = office.path("shared/bundles/work");
        fs::read_dir(folder).unwrap().count()
    };
    let before = objects();
    let (_, said) = office.exits(1, "here", &["push"]);
    assert!(said.contains("github-token") && said.contains("--allow-secrets"), "{said}");
    assert!(!said.contains(&secret));
    office.exits(1, "here", &["sync"]);
    assert_eq!(objects(), before);
    office.ok("here", &["push", "--allow-secrets"]);
    assert_eq!(objects(), before + 1);
}

#[test]
fn a_remote_that_is_not_what_it_was_is_refused_and_nothing_changes() {
    let office = Office::new();
    office.ok(".", &["clone", "shared", "there"]);
    office.ok("there", &["fetch"]);
    let head = office.path("shared/heads/work");
    let early = fs::read(&head).unwrap();
    office.turn("here", "later");
    office.ok("here", &["push"]);
    office.ok("there", &["fetch"]);
    let known = office.tip("there", "origin/work");
    fs::write(&head, early).unwrap();
    for words in [&["fetch"][..], &["sync"], &["remote", "check"]] {
        let (_, said) = office.exits(4, "there", words);
        assert!(said.contains("generation 2"), "{words:?}: {said}");
    }
    assert_eq!(office.tip("there", "origin/work"), known);
    fs::remove_dir_all(office.path("shared")).unwrap();
    let output = office.run("there", &["fetch"]);
    assert!(!output.status.success());
    office.ok("there", &["fsck"]);
    office.ok("there", &["remote", "rm", "origin"]);
    office.exits(6, "there", &["rev-parse", "origin/work"]);
}

#[test]
fn wrong_words_are_told_and_leave_everything_as_it_was() {
    let office = Office::new();
    for (code, words) in [
        (2, &["remote", "add", "origin", "../elsewhere"][..]),
        (2, &["remote", "add", "a/b", "../elsewhere"]),
        (2, &["remote", "add", "a b", "../elsewhere"]),
        (6, &["push", "--remote", "nowhere"]),
        (6, &["push", "no-session"]),
        (6, &["fetch", "no-session"]),
        (6, &["sync", "no-session"]),
        (6, &["remote", "rm", "nowhere"]),
        (2, &["clone", "../shared"]),
    ] {
        let output = office.run("here", words);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
    assert!(!office.path("elsewhere").exists());
    let output = office.run(".", &["clone", "nothing-there", "there"]);
    assert!(!output.status.success() && !office.path("there/.turntree").exists());
    let two = ["remote", "ls"];
    assert_eq!(office.json("here", &two)[0]["remotes"].as_array().unwrap().len(), 1);
}

#[test]
fn a_lazy_clone_shows_history_at_once_and_says_what_is_elsewhere() {
    let office = Office::new();
    // Larger than a lazy fetch downloads.
    let mut random = Random(1);
    for note in 0..6 {
        let text: String = (0..8_000).map(|_| format!("{:016x}", random.draw())).collect();
        fs::write(office.path(&format!("here/note-{note}")), text).unwrap();
        office.ok("here", &["snapshot", "-m", "a note", "--workspace", "."]);
    }
    office.ok("here", &["remote", "rm", "origin"]);
    office.ok("here", &["remote", "add", "origin", "../large"]);
    office.ok("here", &["push"]);
    office.ok(".", &["clone", "--lazy", "large", "there"]);
    // As JSON: the relative times for people may change in between.
    assert_eq!(office.json("there", &["log"]), office.json("here", &["log"]));
    assert_eq!(office.json("there", &["remote", "ls"])[0]["remotes"][0]["lazy"], true);

    // The log has cached the messages that it read.
    let _ = fs::remove_dir_all(office.path("there/.turntree/distant"));
    fs::rename(office.path("large"), office.path("away")).unwrap();
    let (_, said) = office.exits(6, "there", &["cat", "HEAD:files/note-1"]);
    assert!(said.contains("the object is only on remote origin"), "{said}");
    assert_eq!(office.json("there", &["log"]).len(), office.json("here", &["log"]).len());
    office.ok("there", &["fsck"]);
    office.ok("there", &["gc"]);
    office.ok("there", &["fsck"]);
    let (_, said) = office.exits(2, "there", &["redact", "a note"]);
    assert!(said.contains("fetch --whole"), "{said}");
    fs::rename(office.path("away"), office.path("large")).unwrap();

    let note = |machine: &str| office.ok(machine, &["cat", "HEAD:files/note-1"]);
    assert_eq!(note("there"), note("here"));
    office.turn("there", "of there");
    office.ok("there", &["push"]);
    let whole = office.json("there", &["fetch", "--whole"]);
    assert_eq!(whole.last().unwrap()["whole"], true);
    fs::rename(office.path("large"), office.path("away")).unwrap();
    fs::remove_dir_all(office.path("there/.turntree/distant")).unwrap();
    assert_eq!(
        office.ok("there", &["cat", "HEAD:files/note-5"]),
        office.ok("here", &["cat", "HEAD:files/note-5"])
    );
    office.ok("there", &["fsck"]);
}

#[test]
fn what_nothing_leads_to_goes_and_a_deleted_session_is_told_to_others() {
    let office = Office::new();
    office.ok(".", &["clone", "shared", "there"]);
    // More than a push merges with the pushed bundle.
    let noise: String = (0..2_000)
        .map(|at: u64| format!("{:016x}", at.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect();
    office.turn("here", &noise);
    office.ok("here", &["push"]);
    for turn in 0..8 {
        office.turn("here", &format!("turn {turn}"));
        office.ok("here", &["push"]);
    }
    let planned = office.json("here", &["remote", "gc", "-n"]);
    assert!(planned[0]["bundles"].as_u64().unwrap() > 0, "{planned:?}");
    let collected = office.json("here", &["remote", "gc"]);
    assert_eq!(collected[0]["bytes"], planned[0]["bytes"]);
    assert_eq!(office.json("here", &["remote", "gc"])[0]["bundles"], 0);
    let checked = office.json("here", &["remote", "check"]);
    assert_eq!((&checked[0]["unlisted"], &checked[0]["sessions"]), (&0.into(), &1.into()));
    assert_eq!(office.json("here", &["remote", "gc", "--aggressive"])[0]["folded"], 1);
    assert_eq!(office.json("here", &["remote", "check"])[0]["bundles"], 1);
    office.exits(3, "there", &["push", "--delete", "work"]);
    office.ok("there", &["sync"]);
    assert_eq!(office.tip("there", "work"), office.tip("here", "work"));

    let deleted = office.json("here", &["push", "--delete", "work"]);
    assert_eq!(
        (&deleted[0]["deleted"], &deleted[0]["branches"][0]["change"]),
        (&true.into(), &"gone".into())
    );
    office.ok("here", &["remote", "gc"]);
    office.turn("there", "late");
    let (_, said) = office.exits(3, "there", &["push"]);
    assert!(said.contains("work was deleted on origin, by here"), "{said}");
    office.ok("there", &["sync"]);
    office.ok("there", &["push", "--all"]);
    assert_eq!(office.json("there", &["remote", "ls"])[0]["remotes"][0]["unpushed"], 0);
    office.exits(6, "there", &["rev-parse", "origin/work"]);
    office.ok("there", &["push", "work"]);
    let fetched = office.json("here", &["fetch"]);
    assert_eq!(fetched[0]["branches"][0]["change"], "new");
    assert_eq!(office.tip("here", "origin/work"), office.tip("there", "work"));
    for machine in ["here", "there"] {
        office.ok(machine, &["fsck"]);
    }
}

#[test]
fn turns_are_pushed_by_themselves_and_a_push_that_failed_is_made_up_later() {
    let office = Office::new();
    let unpushed = || office.json("here", &["remote", "ls"])[0]["remotes"][0]["unpushed"].clone();
    office.turn("here", "before it is set");
    office.ok("here", &["gc", "--auto"]);
    assert_eq!(unpushed(), 1, "no push was requested");
    assert!(office.ok("here", &["status"]).contains("1 branch not pushed to origin"));
    assert_eq!(office.json("here", &["remote", "set", "origin", "--auto"])[0]["auto"], true);
    office.ok("here", &["gc", "--auto"]);
    assert_eq!(unpushed(), 0);
    assert!(office.json("here", &["status"])[0].get("unpushed").is_none());

    fs::rename(office.path("shared"), office.path("away")).unwrap();
    office.turn("here", "while it is away");
    office.ok("here", &["gc", "--auto"]);
    assert_eq!(office.json("here", &["status"])[0]["unpushed"][0]["branches"], 1);
    let log = || fs::read_to_string(office.path("here/.turntree/maintenance.log")).unwrap();
    assert!(log().contains("push to origin"), "{}", log());
    fs::rename(office.path("away"), office.path("shared")).unwrap();
    let secret = github_token(1);
    office.turn("here", &format!("use {secret}"));
    office.ok("here", &["gc", "--auto"]);
    assert!(log().contains("1 secret would go out") && !log().contains(&secret), "{}", log());
    office.ok("here", &["push", "--allow-secrets"]);

    // Automatically: the background process of a turn is not waited for.
    let mut command = Command::new(PROGRAM);
    command.args(["snapshot", "-m", "by itself"]).current_dir(office.path("here"));
    command.env_clear().env("HOME", office.path("home")).stdin(Stdio::null());
    assert!(command.output().unwrap().status.success());
    let end = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while unpushed() != 0 {
        assert!(std::time::Instant::now() < end, "it is pushed");
    }
    assert_eq!(office.json("here", &["remote", "set", "origin", "--no-auto"])[0]["auto"], false);
    office.ok(".", &["clone", "shared", "there"]);
    assert_eq!(office.tip("there", "HEAD"), office.tip("here", "work"));
}

#[test]
fn an_encrypted_remote_is_for_its_members_and_not_for_one_who_was_removed() {
    let office = Office::new();
    // Each machine belongs to a user with a home and a key.
    let run = |person: &str, machine: &str, words: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(office.path(machine)).stdin(Stdio::null());
        command.env_clear().env("HOME", office.path(&format!("home-{person}")));
        command.envs([("TURNTREE_MAINTENANCE", "off"), ("TURNTREE_ACTOR", person)]);
        let output = command.output().unwrap();
        let [said, errors] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code().unwrap(), said, errors)
    };
    let ok = |person: &str, machine: &str, words: &[&str]| {
        let (code, said, errors) = run(person, machine, words);
        assert_eq!(code, 0, "{person} {words:?}: {said}{errors}");
        said
    };
    let key_of = |person: &str| -> String {
        ok(person, ".", &["--store", &format!("{person}-own"), "init", "--encrypt"]);
        let text = office.path(&format!("home-{person}/.config/turntree/identity.txt"));
        let text = fs::read_to_string(text).unwrap();
        text.lines().find_map(|line| line.strip_prefix("# public key: ")).unwrap().to_owned()
    };
    let (bob, carol) = (key_of("bob"), key_of("carol"));
    // The store and its remote were created with another home.
    ok("alice", "here", &["trust"]);
    ok("alice", "here", &["remote", "rm", "origin"]);
    let add = ["remote", "add", "team", "../sealed", "--encrypt", "--member", &bob, "--json"];
    let added: Value = serde_json::from_str(&ok("alice", "here", &add)).unwrap();
    assert_eq!((&added["encrypted"], &added["unpushed"]), (&true.into(), &1.into()));
    ok("alice", "here", &["push"]);

    let clone =
        |person: &str, to: &str| run(person, ".", &["clone", "sealed", to, "--name", "team"]);
    assert_eq!(clone("bob", "bobs").0, 0);
    let (code, _, said) = clone("carol", "carols");
    assert!(code == 2 && said.contains("not for a key that is at hand"), "{code} {said}");
    assert!(!office.path("carols/.turntree").exists());
    ok("bob", "bobs", &["remote", "members", "team", "add", &carol]);
    assert_eq!(clone("carol", "carols").0, 0);
    let tip = |person: &str, machine: &str, what: &str| ok(person, machine, &["rev-parse", what]);
    assert_eq!(tip("carol", "carols", "HEAD"), tip("alice", "here", "work"));

    let members = ["remote", "members", "team", "rm", &bob, "--json"];
    let removed: Value = serde_json::from_str(&ok("alice", "here", &members)).unwrap();
    assert_eq!((&removed["epoch"], &removed["pending"]), (&2.into(), &false.into()));
    assert_eq!(run("alice", "here", &members).0, 6, "there is none of that key");
    ok("alice", "here", &["snapshot", "-m", "after", "--append-message", "user=after"]);
    ok("alice", "here", &["push"]);
    ok("carol", "carols", &["sync"]);
    assert_eq!(tip("carol", "carols", "HEAD"), tip("alice", "here", "work"));
    for words in [&["fetch"][..], &["push"], &["remote", "check"]] {
        let (code, _, said) = run("bob", "bobs", words);
        assert!(code == 2 && said.contains("not for a key that is at hand"), "{code} {said}");
    }
    ok("carol", "carols", &["remote", "gc", "--aggressive"]);
    assert_eq!(run("carol", "carols", &["remote", "check"]).0, 0);

    // Old keys, and forged keys.
    let keys = office.path("sealed/keys");
    let good = fs::read_to_string(&keys).unwrap();
    let forged = good.replacen(&carol, &bob, 1);
    for bad in [forged.as_str(), "{}", &good.replace("\"epoch\":2", "\"epoch\":1")] {
        fs::write(&keys, bad).unwrap();
        let (code, _, said) = run("carol", "carols", &["fetch"]);
        assert_eq!(code, 4, "{said}");
    }
    fs::write(&keys, &good).unwrap();
    ok("carol", "carols", &["fetch"]);
    for path in files_in(&office.path("sealed")) {
        let bytes = fs::read(&path).unwrap();
        for word in ["work", "parser", "refs/heads"] {
            let is_seen = bytes.windows(word.len()).any(|part| part == word.as_bytes());
            assert!(!is_seen && !path.to_string_lossy().contains("/work"), "{}", path.display());
        }
    }
}

/// Every file below a folder.
fn files_in(folder: &std::path::Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => files.extend(files_in(&entry.path())),
            false => files.push(entry.path()),
        }
    }
    files
}

/// Changes one byte in the middle of a file.
fn damage(file: &PathBuf) {
    let mut bytes = fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    fs::write(file, bytes).unwrap();
}

#[test]
fn a_check_finds_what_a_fetch_would_refuse() {
    let office = Office::new();
    fs::create_dir(office.path("new")).unwrap();
    office.ok("new", &["init"]);
    office.ok("new", &["remote", "add", "origin", "../shared"]);
    let (head, bundles) = (office.path("shared/heads/work"), office.path("shared/bundles/work"));
    let bundle = fs::read_dir(&bundles).unwrap().next().unwrap().unwrap().path();
    let (head_bytes, bundle_bytes) = (fs::read(&head).unwrap(), fs::read(&bundle).unwrap());
    office.ok("new", &["remote", "check"]);

    damage(&bundle);
    let (said, _) = office.exits(1, "new", &["remote", "check"]);
    assert!(said.contains("damaged: bundles/work/"), "{said}");
    let (said, _) = office.exits(1, "here", &["remote", "check", "--json"]);
    let checked: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&checked["damaged"].as_array().unwrap().len(), &checked["bundles"]),
        (&1, &1.into())
    );
    office.ok("new", &["remote", "check", "--quick"]);
    office.exits(4, "new", &["fetch"]);

    fs::remove_file(&bundle).unwrap();
    let (said, _) = office.exits(1, "new", &["remote", "check", "--quick"]);
    assert!(said.contains("missing: bundles/work/"), "{said}");
    fs::write(&bundle, &bundle_bytes).unwrap();

    let tip = office.tip("here", "HEAD");
    let text = String::from_utf8(head_bytes.clone()).unwrap();
    let branch = format!("\"id\":\"{tip}\",\"turn\"");
    assert!(text.contains(&branch), "{text}");
    fs::write(&head, text.replace(&branch, &branch.replace(&tip, &"ab".repeat(tip.len() / 2))))
        .unwrap();
    let (said, _) = office.exits(1, "new", &["remote", "check"]);
    assert!(said.contains("lack 1 turn"), "{said}");
    office.exits(4, "new", &["fetch"]);

    fs::remove_file(&head).unwrap();
    let (said, _) = office.exits(1, "here", &["remote", "check"]);
    assert!(said.contains("missing: heads/work"), "{said}");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &head,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    for words in [&["remote", "check"][..], &["fetch"]] {
        let (_, said) = office.exits(4, "new", words);
        assert!(said.contains("a pipe"), "{said}");
    }
    fs::remove_file(&head).unwrap();
    fs::write(&head, head_bytes).unwrap();
    office.ok("here", &["remote", "check"]);
}
