//! Trust: a store that came with a folder is readable, and receives and sends nothing before its
//! user trusts it.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// Two users on one disk: the maker of a project, and its recipient.
struct World(tempfile::TempDir);

impl World {
    fn new() -> Self {
        let world = Self(tempfile::tempdir().unwrap());
        for name in ["maker", "user", "made", "drop"] {
            fs::create_dir(world.path(name)).unwrap();
        }
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn command(&self, program: &str, home: &str, dir: &str, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(words).current_dir(self.path(dir)).stdin(Stdio::null());
        command.env_clear().env("HOME", self.path(home)).env("TURNTREE_ACTOR", home);
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("TURNTREE_MAINTENANCE", "off");
        command.envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_SYSTEM", "/dev/null")]);
        command
    }

    /// Runs a command that must exit with `code`. Returns both its outputs.
    fn exits(&self, code: i32, home: &str, dir: &str, words: &[&str]) -> String {
        let Output { status, stdout, stderr } =
            self.command(PROGRAM, home, dir, words).output().unwrap();
        let [said, errors] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
        assert_eq!(status.code(), Some(code), "{words:?}: {said}{errors}");
        format!("{said}{errors}")
    }

    fn ok(&self, home: &str, dir: &str, words: &[&str]) -> String {
        self.exits(0, home, dir, words)
    }

    fn shell(&self, script: &str) {
        let done = self.command("sh", "maker", ".", &["-ec", script]).output().unwrap();
        assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// A project with a store of the maker, with these remotes and one turn.
    fn make_project(&self, remotes: &[&[&str]]) {
        self.ok("maker", "made", &["init"]);
        for words in remotes {
            self.ok("maker", "made", words);
        }
        self.ok("maker", "made", &["snapshot", "-m", "theirs", "--append-message", "user=theirs"]);
    }

    /// Sends an event of a client in `dir`, whose transcript has one prompt.
    fn hook(&self, dir: &str) {
        let transcript = self.path("s-1.jsonl");
        let line = json!({"type": "user", "uuid": "1", "parentUuid": null, "sessionId": "s-1",
            "timestamp": "2026-01-01T00:00:00Z", "cwd": self.path(dir),
            "message": {"role": "user", "content": "PRIVATE"}});
        fs::write(&transcript, format!("{line}\n")).unwrap();
        let event = json!({"hook_event_name": "Stop", "session_id": "s-1",
            "transcript_path": transcript, "cwd": self.path(dir)});
        let mut hook = self.command(PROGRAM, "user", dir, &["hook"]);
        let mut hook = hook.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        hook.stdin.take().unwrap().write_all(event.to_string().as_bytes()).unwrap();
        assert!(hook.wait().unwrap().success());
    }

    fn sessions(&self, dir: &str, options: &[&str]) -> Vec<String> {
        let said = self.ok("user", dir, &[options, &["sessions", "--json"]].concat());
        let sessions: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
        let names = sessions["sessions"].as_array().unwrap().iter();
        names.map(|it| it["session"].as_str().unwrap().to_owned()).collect()
    }

    /// The files below a directory except those of git.
    fn files(&self, dir: &str) -> Vec<PathBuf> {
        let (mut found, mut left) = (Vec::new(), vec![self.path(dir)]);
        while let Some(dir) = left.pop() {
            for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() && !path.ends_with(".git") {
                    left.push(path.clone());
                }
                found.push(path);
            }
        }
        found.sort();
        found
    }

    /// The user's own store.
    fn own(&self) -> String {
        self.path("user/.local/share/turntree/store").display().to_string()
    }
}

const AUTO: &[&[&str]] =
    &[&["remote", "add", "origin", "../drop/bucket"], &["remote", "set", "origin", "--auto"]];
const BY_HAND: &[&[&str]] = &[&["remote", "add", "origin", "../drop/bucket"]];

/// Checks that a received store is readable, that it receives and sends nothing, and that messages
/// explain how to trust it.
fn expect_untrusted(world: &World, dir: &str, why: &str) {
    assert!(world.ok("user", dir, &["log"]).contains("theirs"));
    let status = world.ok("user", dir, &["status"]);
    assert!(status.contains("not trusted") && status.contains(why), "{status}");
    let turn = ["snapshot", "-m", "x", "--append-message", "user=PRIVATE"];
    let files = || world.files(dir);
    let were = files();
    world.ok("user", dir, &["search", "theirs"]);
    world.ok("user", dir, &["sessions"]);
    for words in [
        &turn[..],
        &["push"],
        &["fetch"],
        &["sync"],
        &["remote", "check"],
        &["gc", "--now", "--yes"],
        &["gc", "--auto", "--push"],
        &["repair"],
        &["init", "--encrypt"],
        &["key", "rotate"],
    ] {
        let said = world.exits(2, "user", dir, words);
        let advice = format!("turntree trust {}", world.path(dir).display());
        assert!(said.contains(&advice) && said.contains(why), "{words:?}: {said}");
    }
    assert_eq!(files(), were, "nothing is left beside it");
    let heads = || fs::read_dir(world.path("drop/bucket")).map_or(0, Iterator::count);
    let before = heads();
    world.hook(dir);
    assert_eq!(world.sessions(dir, &["--store", &world.own()]), ["s-1"], "the user's store has it");
    assert!(!world.sessions(dir, &[]).contains(&"s-1".to_owned()));
    assert_eq!(heads(), before);
}

#[test]
fn a_store_that_came_with_a_clone_or_an_archive_gets_no_turn_and_sends_none() {
    for remotes in [AUTO, BY_HAND] {
        let world = World::new();
        world.make_project(remotes);
        world.shell("cp -r made user/unpacked");
        expect_untrusted(&world, "user/unpacked", "remote origin");
    }
    let world = World::new();
    world.make_project(&[]);
    world.shell(
        "cd made; rm .turntree/.gitignore; git init -q; git add -A; \
         git -c user.name=m -c user.email=m@m commit -qm nice; cd ..; git clone -q made user/cloned",
    );
    expect_untrusted(&world, "user/cloned", "git tracks it");
    // The store is elsewhere in the project, behind a link.
    world.shell(
        "cd made; mv .turntree data; ln -s data .turntree; git add -A; \
         git -c user.name=m -c user.email=m@m commit -qm link; cd ..; git clone -q made user/linked",
    );
    let turn = ["snapshot", "-m", "x", "--append-message", "user=PRIVATE"];
    let said = world.exits(2, "user", "user/linked", &turn);
    assert!(said.contains("git tracks it"), "{said}");
}

#[test]
fn a_folder_in_which_git_tracks_the_place_of_a_store_gets_none() {
    let world = World::new();
    world.shell(
        "cd made; mkdir .turntree; echo '#' > .turntree/.gitignore; git init -q; git add -f .; \
         git -c user.name=m -c user.email=m@m commit -qm x; cd ..; git clone -q made user/cloned",
    );
    let said =
        world.exits(2, "user", "user/cloned", &["snapshot", "-m", "x", "--set", "memory/a=b"]);
    assert!(said.contains("git tracks it"), "{said}");
    world.hook("user/cloned");
    assert_eq!(world.sessions("user", &[]), ["s-1"]);
    assert_eq!(fs::read_dir(world.path("user/cloned/.turntree")).unwrap().count(), 1);
}

#[test]
fn who_trusts_a_store_uses_it_until_it_can_do_more() {
    let world = World::new();
    world.make_project(BY_HAND);
    world.shell("cp -r made user/p");
    let said = world.ok("user", "user/p", &["trust"]);
    assert!(said.contains("is trusted") && said.contains("origin at"), "{said}");
    world.ok("user", "user/p", &["snapshot", "-m", "mine", "--append-message", "user=mine"]);
    world.hook("user/p");
    assert!(world.sessions("user/p", &[]).contains(&"s-1".to_owned()));
    world.ok("user", "user/p", &["push"]);
    let listed = world.ok("user", "user", &["trust", "--list"]);
    assert!(
        listed.contains("user/p/.turntree") && listed.contains("only by 'turntree push'"),
        "{listed}"
    );

    // A change by the maker is detected. A change by the user needs no second confirmation.
    let store = world.path("user/p/.turntree").display().to_string();
    world.ok("maker", ".", &["--store", &store, "remote", "set", "origin", "--auto"]);
    expect_refused(&world, "remote origin");
    world.ok("user", "user/p", &["trust"]);
    world.ok("user", "user/p", &["remote", "set", "origin", "--no-auto"]);
    world.ok("user", "user/p", &["remote", "add", "second", "../../drop/second"]);
    world.ok("user", "user/p", &["snapshot", "-m", "more", "--append-message", "user=more"]);
    world.ok("maker", ".", &["--store", &store, "remote", "set", "origin", "--auto"]);
    expect_refused(&world, "remote origin");
    world.ok("user", "user/p", &["trust"]);
    world.ok("maker", ".", &["--store", &store, "remote", "rm", "second"]);
    world.ok("maker", ".", &["--store", &store, "remote", "add", "second", "drop/third"]);
    expect_refused(&world, "remote second");

    world.ok("user", "user", &["trust", "p"]);
    world.ok("user", "user/p", &["gc", "--now", "--yes"]);
    world.ok("user", "user", &["trust", "--remove", "p"]);
    expect_refused(&world, "remote");
    world.exits(1, "user", "user", &["trust", "--remove", "p"]);
    assert!(world.exits(6, "user", "user", &["trust", "p/../.."]).contains("no store"));
}

fn expect_refused(world: &World, why: &str) {
    let said =
        world.exits(2, "user", "user/p", &["snapshot", "-m", "x", "--append-message", "user=x"]);
    assert!(said.contains(why), "{said}");
}

#[test]
fn a_project_that_was_moved_is_trusted_and_a_copy_is_not() {
    let world = World::new();
    fs::create_dir(world.path("user/p")).unwrap();
    let turn = ["snapshot", "-m", "x", "--append-message", "user=x"];
    world.ok("user", "user/p", &["init"]);
    world.ok("user", "user/p", &["remote", "add", "origin", "../../drop/bucket"]);
    world.shell("cp -r user/p user/copy");
    world.exits(2, "user", "user/copy", &turn);
    world.shell("rm -r user/copy; mv user/p user/moved");
    world.ok("user", "user/moved", &turn);
    world.shell("mkdir user/p; cp -r user/moved/.turntree user/p");
    expect_refused(&world, "remote origin");
}

#[test]
fn another_store_in_the_place_of_a_trusted_one_is_not_trusted() {
    let world = World::new();
    world.make_project(BY_HAND);
    world.shell("cp -r made user/p");
    world.ok("user", "user/p", &["trust"]);
    world.shell("rm -r user/p/.turntree made/.turntree; rm -r drop/bucket");
    world.make_project(BY_HAND);
    world.shell("cp -r made/.turntree user/p");
    expect_refused(&world, "remote origin");
}

#[test]
fn a_store_from_which_nothing_leaves_goes_on_as_before() {
    let world = World::new();
    // Created here, and not recorded.
    world.make_project(&[]);
    world.shell("cp -r made user/p");
    world.hook("user/p");
    assert!(world.sessions("user/p", &[]).contains(&"s-1".to_owned()));
    assert!(!world.ok("user", "user/p", &["status"]).contains("trusted"));
    assert!(world.ok("user", "user", &["trust", "--list"]).contains("user/p/.turntree"));
    world.ok("user", "user/p", &["remote", "add", "origin", "../../drop/bucket"]);
    world.ok("user", "user/p", &["push", "--all"]);
}

#[test]
fn a_pointer_that_came_with_a_folder_leads_nowhere_and_that_of_a_worktree_does() {
    let world = World::new();
    fs::create_dir_all(world.path("user/p/.turntree")).unwrap();
    let target = world.path("drop/theirs");
    fs::write(world.path("user/p/.turntree/elsewhere"), target.as_os_str().as_encoded_bytes())
        .unwrap();
    expect_refused(&world, "elsewhere");
    world.hook("user/p");
    assert_eq!(world.sessions("user", &[]), ["s-1"]);
    assert!(!target.exists(), "no store is made there");
    // A pointer to an existing store.
    world.make_project(&[]);
    let target = world.path("made/.turntree");
    fs::write(world.path("user/p/.turntree/elsewhere"), target.as_os_str().as_encoded_bytes())
        .unwrap();
    assert!(world.ok("user", "user/p", &["log", "default/main"]).contains("theirs"));
    expect_refused(&world, "elsewhere");
    world.ok("user", "user/p", &["trust"]);
    world.ok("user", "user/p", &["snapshot", "--session", "s", "-m", "x", "--set", "memory/a=b"]);

    fs::create_dir(world.path("user/q")).unwrap();
    world.ok("user", "user/q", &["init"]);
    fs::write(world.path("user/q/a"), "1").unwrap();
    world.ok("user", "user/q", &["snapshot", "-m", "a", "--workspace", "."]);
    world.ok("user", "user/q", &["fork", "plan", "--worktree", "../w"]);
    let turn = ["snapshot", "-m", "x", "--workspace", "."];
    world.ok("user", "user/w", &turn);
    // The record was lost.
    fs::remove_dir_all(world.path("user/.local/share/turntree/trust")).unwrap();
    world.ok("user", "user/w", &turn);
}

#[test]
fn a_folder_for_keys_opens_no_store_that_came_to_a_repair() {
    let world = World::new();
    world.make_project(BY_HAND);
    world.shell("mkdir made/.turntree/keys; cp -r made user/p");
    let said = world.exits(2, "user", "user/p", &["repair"]);
    assert!(said.contains("remote origin"), "{said}");
}

#[test]
fn a_link_that_leads_out_of_its_project_is_followed_to_read_until_it_is_trusted() {
    let world = World::new();
    for name in ["user/p", "user/public"] {
        fs::create_dir(world.path(name)).unwrap();
    }
    symlink(world.path("user/public"), world.path("user/p/.turntree")).unwrap();
    expect_refused(&world, "link");
    world.hook("user/p");
    assert_eq!(world.sessions("user", &[]), ["s-1"]);
    assert_eq!(fs::read_dir(world.path("user/public")).unwrap().count(), 0);
    // A link to a store that the maker created there.
    world.shell("rmdir user/public");
    let store = world.path("user/public").display().to_string();
    let turn = ["--store", &store, "snapshot", "-m", "theirs", "--append-message", "user=theirs"];
    world.ok("maker", ".", &turn);
    assert!(world.ok("user", "user/p", &["log", "default/main"]).contains("theirs"));
    expect_refused(&world, "link");
    world.ok("user", "user/p", &["trust"]);
    let turn = ["snapshot", "-m", "x", "--session", "s", "--append-message", "user=x"];
    world.ok("user", "user/p", &turn);
}

#[test]
fn pushes_by_themselves_take_a_record_however_the_store_was_named() {
    let world = World::new();
    world.make_project(AUTO);
    let store = world.path("made/.turntree").display().to_string();
    let unpushed = |name: &str| {
        let said = world.ok("user", "made", &["--store", &store, "remote", "ls", "--json"]);
        let remotes: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
        let mut remotes = remotes["remotes"].as_array().unwrap().iter();
        remotes.find(|it| it["name"] == name).unwrap()["unpushed"].as_u64().unwrap()
    };
    let work = ["--store", &store, "gc", "--auto", "--push"];
    world.ok("user", "made", &work);
    assert_eq!(unpushed("origin"), 1);
    let status = world.ok("user", "made", &["--store", &store, "status"]);
    assert!(status.contains("nothing is pushed automatically"), "{status}");
    // The maker added the remote, and needs no further confirmation.
    world.ok("maker", "made", &work);
    assert_eq!(unpushed("origin"), 0);
    // A user who names the store can push to it by hand.
    world.ok(
        "user",
        "made",
        &["--store", &store, "snapshot", "-m", "x", "--append-message", "user=x"],
    );
    world.ok("user", "made", &["--store", &store, "push"]);
    assert_eq!(unpushed("origin"), 0);
    // A remote that the user adds does not make the maker's remotes trusted.
    let said =
        world.ok("user", "made", &["--store", &store, "remote", "add", "mine", "../drop/mine"]);
    assert!(said.contains("turntree trust"), "{said}");
    world.ok(
        "user",
        "made",
        &["--store", &store, "snapshot", "-m", "z", "--append-message", "user=z"],
    );
    world.ok("user", "made", &work);
    assert_eq!(unpushed("origin"), 1);
    world.ok("user", "made", &["--store", &store, "trust"]);
    world.ok(
        "user",
        "made",
        &["--store", &store, "snapshot", "-m", "y", "--append-message", "user=y"],
    );
    world.ok("user", "made", &work);
    assert_eq!(unpushed("origin"), 0);
}

#[test]
fn what_lies_on_a_remote_alone_is_not_read_there_for_a_store_that_came() {
    let world = World::new();
    world.make_project(BY_HAND);
    // Compressible content would be fetched immediately.
    let mut state = 1_u64;
    let mut number = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        format!("{:x}", state >> 8)
    };
    for name in 0..6 {
        let long: String = (0..10_000).map(|_| number()).collect();
        fs::write(world.path(&format!("made/long-{name}")), &long).unwrap();
        world.ok("maker", "made", &["snapshot", "-m", "long", "--workspace", "."]);
    }
    let long = fs::read_to_string(world.path("made/long-1")).unwrap();
    world.ok("maker", "made", &["push"]);
    world.ok("maker", ".", &["clone", "--lazy", "drop/bucket", "lazy"]);
    world.shell("cp -r lazy user/p; rm -rf user/p/.turntree/distant");
    let all = ["cat", "default/main:files/long-1"];
    let refused = world.command(PROGRAM, "user", "user/p", &all).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("is not trusted"), "{said}");
    world.ok("user", "user/p", &["trust"]);
    assert_eq!(world.ok("user", "user/p", &all), long);
}

#[test]
fn a_home_directory_that_cannot_be_written_to_leaves_stores_usable() {
    let world = World::new();
    fs::create_dir(world.path("user/p")).unwrap();
    let home = world.path("user");
    fs::write(home.join(".local"), "no folder").unwrap();
    world.ok("user", "user/p", &["init"]);
    world.ok("user", "user/p", &["snapshot", "-m", "x", "--append-message", "user=x"]);
    let said = world.ok("user", "user/p", &["remote", "add", "origin", "../../drop/bucket"]);
    assert!(said.contains("nothing is pushed automatically"), "{said}");
    let said = world.exits(2, "user", "user/p", &["push"]);
    assert!(said.contains("not trusted"), "{said}");
    fs::remove_file(home.join(".local")).unwrap();
    world.ok("user", "user/p", &["trust"]);
    world.ok("user", "user/p", &["push"]);
    let records = home.join(".local/share/turntree/trust");
    assert_eq!(fs::metadata(&records).unwrap().permissions().mode() & 0o077, 0);
}

#[test]
fn servers_are_about_the_store_of_the_hooks() {
    let world = World::new();
    world.make_project(BY_HAND);
    world.shell("cp -r made user/p");
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "sessions", "params": {}});
    let mut serve = world.command(PROGRAM, "user", "user/p", &["serve", "--stdio"]);
    world.hook("user/p");
    let mut serve = serve.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    serve.stdin.take().unwrap().write_all(format!("{request}\n").as_bytes()).unwrap();
    let said = String::from_utf8(serve.wait_with_output().unwrap().stdout).unwrap();
    assert!(said.contains("s-1") && !said.contains("theirs"), "{said}");
}

/// The content of a bundle, a clone or an archive does not determine where files are written.
mod directories {
    use super::*;

    /// The maker captures a directory of the user, and exports the session as a bundle.
    fn give(world: &World, victim: &Path) {
        fs::create_dir_all(victim).unwrap();
        fs::write(victim.join("evil"), "evil").unwrap();
        let dir = victim.display().to_string();
        world.ok("maker", "made", &["init"]);
        let words = ["snapshot", "-m", "nice", "--session", "gift", "--workspace", &dir];
        world.ok("maker", "made", &words);
        let more = ["snapshot", "-m", "two", "--session", "gift", "--append-message", "user=hi"];
        world.ok("maker", "made", &more);
        world.ok("maker", "made", &["bundle", "create", "gift", "-o", "../gift.bundle"]);
        fs::remove_file(victim.join("evil")).unwrap();
        fs::write(victim.join("mine"), "mine").unwrap();
    }

    fn expect_left(victim: &Path) {
        assert!(!victim.join("evil").exists());
        assert_eq!(fs::read_to_string(victim.join("mine")).unwrap(), "mine");
    }

    #[test]
    fn a_session_that_came_writes_only_where_a_person_stands_or_says() {
        let world = World::new();
        let victim = world.path("user/.config/autostart");
        give(&world, &victim);
        let dir = victim.display().to_string();
        fs::create_dir(world.path("user/p")).unwrap();
        world.ok("user", "user/p", &["init"]);
        world.ok("user", "user/p", &["bundle", "unbundle", "../../gift.bundle"]);
        world.ok("user", "user/p", &["fork", "mine", "--at", "gift/main~1"]);
        let verbs: &[&[&str]] = &[
            &["restore", "gift/main~1", "--session", "gift"],
            &["restore", "gift/main~1", "--session", "gift", "--dry-run"],
            &["rollback", "--turns", "1", "--session", "gift"],
            &["rollback", "--turns", "1", "--session", "gift", "--only", "files"],
            &["merge", "mine", "--into", "gift/main", "--with-files"],
        ];
        for words in verbs {
            let said = world.exits(2, "user", "user/p", words);
            let named = said.contains(&dir) && said.contains("--workspace");
            assert!(named, "{words:?}: {said}");
            expect_left(&victim);
        }
        // The branch and the conversation are still restored.
        let only = ["restore", "gift/main~1", "--session", "gift", "--only", "conversation"];
        world.ok("user", "user/p", &only);
        let restore = ["restore", "gift/main~2", "--session", "gift"];
        let said = world.ok(
            "user",
            "user/.config/autostart",
            &[
                "--store",
                &world.path("user/p/.turntree").display().to_string(),
                "restore",
                "gift/main~2",
                "--session",
                "gift",
            ],
        );
        assert!(said.starts_with(&format!("workspace {dir}")), "{said}");
        assert!(victim.join("evil").exists());
        // From here on this machine has captured the directory.
        world.ok("user", "user/p", &["undo"]);
        expect_left(&victim);
        world.ok("user", "user/p", &["redo"]);
        world.ok("user", "user/p", &restore);
    }

    #[test]
    fn a_directory_that_the_store_captured_is_written_from_anywhere() {
        let world = World::new();
        fs::create_dir_all(world.path("user/p")).unwrap();
        fs::create_dir_all(world.path("user/q")).unwrap();
        let store = world.path("user/store").display().to_string();
        let run = |dir: &str, words: &[&str]| {
            world.ok("user", dir, &[&["--store", &store], words].concat())
        };
        fs::write(world.path("user/p/a"), "1").unwrap();
        run("user/p", &["snapshot", "-m", "one", "--workspace", "."]);
        fs::write(world.path("user/p/a"), "2").unwrap();
        run("user/p", &["snapshot", "-m", "two", "--workspace", "."]);
        run("user/q", &["rollback", "--turns", "1", "--session", "default"]);
        assert_eq!(fs::read_to_string(world.path("user/p/a")).unwrap(), "1");
        run("user/q", &["undo"]);
        assert_eq!(fs::read_to_string(world.path("user/p/a")).unwrap(), "2");
        // A copy of the store is a different store, as if it was unpacked.
        world.shell("cp -a user/store user/copy");
        let copy = world.path("user/copy").display().to_string();
        let words = ["--store", &copy, "rollback", "--turns", "1", "--session", "default"];
        let said = world.exits(2, "user", "user/q", &words);
        assert!(said.contains("--workspace"), "{said}");
        world.ok("user", "user/p", &words);
    }

    #[test]
    fn a_link_in_the_place_of_a_captured_directory_is_another_directory() {
        let world = World::new();
        fs::create_dir_all(world.path("user/p")).unwrap();
        let (dir, victim) = (world.path("user/p"), world.path("user/victim"));
        fs::write(dir.join("a"), "1").unwrap();
        world.ok("user", "user", &["snapshot", "-m", "one", "--workspace", "p"]);
        fs::write(dir.join("a"), "2").unwrap();
        world.ok("user", "user", &["snapshot", "-m", "two", "--workspace", "p"]);
        fs::rename(&dir, world.path("user/moved")).unwrap();
        fs::create_dir(&victim).unwrap();
        symlink(&victim, &dir).unwrap();
        let words = ["rollback", "--turns", "1", "--session", "p"];
        world.exits(2, "user", "made", &words);
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
    }
}
