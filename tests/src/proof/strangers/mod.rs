//! Directories, bundles and remotes made by another user, and a user who works with them.
//!
//! Random walks over runs of the program: reading and writing commands, hook events, servers,
//! rewinds, pushes, `trust`. In between, stores are moved, copied and replaced, and their remotes
//! change. After each run every file on the disk is checked. The changes, the exit status, and the
//! places with the user's words must be those of the module `rule`: another user's store receives
//! nothing and sends nothing before it is trusted, and no file changes outside the directory that
//! the user works in.

mod rule;
mod world;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::json;

use self::rule::{Allowed, Found, Records};
use self::world::{GIFT, KINDS, Kind, Place, STORE, World, says};
use super::{Effort, Figures, Repeat};
use crate::open_store;
use crate::sim::Random;

/// The walks at scale 1, the steps of each, and the number of directories at the start and at most.
const WALKS: u64 = 8;
const STEPS: usize = 60;
const PLACES: usize = 4;
const MAX_PLACES: usize = 7;

/// The exit code of a command that refuses its job, and those of a failure.
const REFUSED: i32 = 2;
const BROKEN: [i32; 3] = [4, 5, 70];

/// Commands that read, with options that print much.
const READS: [&[&str]; 18] = [
    &["log", "--all"],
    &["status"],
    &["sessions"],
    &["branch"],
    &["remote"],
    &["stats"],
    &["search", "hello"],
    &["grep", "hello"],
    &["show", "gift"],
    &["ls", "gift"],
    &["trust", "--list"],
    &["session", "show", GIFT],
    &["usage", "--all"],
    &["outline", "gift"],
    &["op", "log"],
    &["export", "gift", "--format", "markdown"],
    &["fsck"],
    &["secrets", "scan"],
];

/// Commands that write.
const WRITES: [&[&str]; 13] = [
    &["gc", "--now", "--yes"],
    &["repack"],
    &["repair"],
    &["repair"],
    &["tag", "mark", GIFT],
    &["switch", GIFT],
    &["fork", "plan", GIFT],
    &["session", "rename", GIFT, "title"],
    &["pin", GIFT],
    &["retention", "set", GIFT, "--keep-last", "9"],
    &["redact", "no such words", "--yes"],
    &["lesson", "add", "no such words"],
    &["session", "label", GIFT, "--add", "label"],
];

/// Commands that rewrite the files of a store. They run only on other users' stores.
const SEALINGS: [&[&str]; 3] = [&["init", "--encrypt"], &["key", "rotate"], &["key", "decrypt"]];

/// Restores and rollbacks, each in a session whose snapshots name a directory.
const BACK: [&[&str]; 6] = [
    &["restore", "gift/main~1", "--session", GIFT],
    &["restore", "gift/main~2", "--session", GIFT],
    &["rollback", "--turns", "1", "--session", GIFT],
    &["rollback", "--turns", "1", "--session", "work"],
    &["undo"],
    &["redo"],
];

/// Walks at random.
///
/// # Panics
/// If anything is written, sent or refused against the rule.
#[must_use]
pub fn run(effort: &Effort) -> Figures {
    let mut random = Random(effort.seed);
    let mut counts = Counts::default();
    for _ in 0..WALKS * effort.scale {
        walk(effort, random.draw(), &mut counts);
    }
    let mut figures = Figures::default();
    figures.add("walks", WALKS * effort.scale);
    figures.add("runs of the program", counts.runs);
    let rows = [
        ("turns taken by a store of the directory", counts.taken),
        ("turns refused by a foreign store", counts.refused),
        ("events of hooks kept in the user's own store", counts.own),
        ("pushes that arrived", counts.pushed),
        ("pushes and fetches refused", counts.unsent),
        ("ways back that changed files", counts.back),
        ("stores trusted", counts.trusted),
        ("changes of others", counts.changed),
        ("stores that could be written to, and then not, or again", counts.turned),
    ];
    for (what, count) in rows {
        assert!(count > 0, "nothing was tried: {what}");
        figures.add(what, count);
    }
    figures
}

/// The number of runs and results.
#[derive(Debug, Default)]
struct Counts {
    runs: u64,
    taken: u64,
    refused: u64,
    own: u64,
    pushed: u64,
    unsent: u64,
    back: u64,
    trusted: u64,
    changed: u64,
    turned: u64,
}

fn walk(effort: &Effort, seed: u64, counts: &mut Counts) {
    let mut random = Random(seed);
    let mut world = World::new(&effort.programs.turntree);
    let (mut places, mut records) = (Vec::new(), Records::default());
    for _ in 0..PLACES {
        let kind = KINDS[random.below(KINDS.len())];
        let place = world.make_place(kind);
        if let (Kind::Own | Kind::Pushing, Some(found)) = (kind, world.look_at(&place)) {
            records.trust(&found);
        }
        places.push(place);
    }
    let mut walk = Walk {
        world,
        random,
        places,
        records,
        captured: BTreeSet::new(),
        counts: std::mem::take(counts),
        at: 0,
        is_below: false,
    };
    for step in 1..=STEPS {
        let _repeat = Repeat(format!("the walk of seed {seed}, step {step}"));
        walk.go();
    }
    *counts = walk.counts;
}

struct Walk {
    world: World,
    random: Random,
    places: Vec<Place>,
    records: Records,
    /// The directories that a store has captured.
    captured: BTreeSet<PathBuf>,
    counts: Counts,
    /// The place of this step.
    at: usize,
    /// True if the step runs in a folder below it.
    is_below: bool,
}

impl Walk {
    fn go(&mut self) {
        self.at = self.random.below(self.places.len());
        self.is_below = self.random.below(3) == 0;
        let before = self.found().map(|found| self.records.may_write(&found));
        let at = self.places[self.at].dir.clone();
        match self.random.below(100) {
            0..12 => self.snapshot(),
            12..26 => self.hear(),
            26..34 => self.call(),
            34..44 => self.read(),
            44..54 => self.go_back(),
            54..63 => self.exchange(),
            63..67 => self.look_after(),
            67..69 => self.take_bundle(),
            69..73 => self.change_remotes(),
            73..77 => self.write(),
            77..85 => self.trust(),
            85..88 => self.forget(),
            88..91 => self.name_the_store(),
            91..95 => self.change_remotes_of_others(),
            95..97 => self.replace(),
            97..99 => self.relocate(),
            _ => self.copy(),
        }
        let after = self.found().map(|found| self.records.may_write(&found));
        if self.places[self.at].dir == at && before.is_some() {
            self.counts.turned += u64::from(before != after);
        }
    }

    fn any<'a>(&mut self, of: &[&'a [&'a str]]) -> &'a [&'a str] {
        of[self.random.below(of.len())]
    }

    fn dir(&self) -> PathBuf {
        let dir = &self.places[self.at].dir;
        if self.is_below { dir.join("sub") } else { dir.clone() }
    }

    fn found(&self) -> Option<Found> {
        self.world.look_at(&self.places[self.at])
    }

    /// The store in the place, and whether it may be written to. The user's own store always may.
    fn standing(&self) -> (Option<Found>, bool) {
        let found = self.found();
        let may_write = found.as_ref().is_none_or(|found| self.records.may_write(found));
        (found, may_write)
    }

    /// The store that a turn is committed to: that of the place, if it may be written to.
    fn target(&self) -> PathBuf {
        match self.standing() {
            (Some(found), true) => found.path,
            _ => self.own_store(),
        }
    }

    fn own_store(&self) -> PathBuf {
        self.world.own().join("store")
    }

    /// The paths that any run may change: the user's data directory, and the store if it may be
    /// written to.
    fn allowed(&self) -> Allowed {
        let own = Some(self.world.own());
        let store = match self.standing() {
            (Some(found), true) => Some(found.path),
            _ => None,
        };
        Allowed { stores: own.into_iter().chain(store).collect(), ..Allowed::default() }
    }

    /// Runs the program, and checks its changes against the allowed ones.
    fn run(&mut self, words: &[&str], input: &str, allowed: &Allowed) -> Run {
        self.counts.runs += 1;
        let (before, dir) = (self.world.look(), self.dir());
        let output = self.world.run(&dir, words, input);
        self.world.wait_for_hooks();
        let after = self.world.look();
        let shown = format!(
            "{words:?} in {} ({:?}): {:?}, {}",
            self.world.shown(&dir),
            self.places[self.at].kind,
            output.status.code(),
            String::from_utf8_lossy(&output.stderr)
        );
        let paths: BTreeSet<&PathBuf> = before.keys().chain(after.keys()).collect();
        let mut changed: BTreeSet<PathBuf> = BTreeSet::new();
        for path in paths.into_iter().filter(|path| before.get(*path) != after.get(*path)) {
            let is_above_allowed = path.is_dir() && self.world.own().starts_with(path);
            let what = self.world.shown(path);
            assert!(allowed.has(path) || is_above_allowed, "{what} changed: {shown}");
            changed.insert(path.clone());
        }
        let code = output.status.code().unwrap_or(-1);
        assert!(!BROKEN.contains(&code) && code >= 0, "{shown}");
        Run { code, shown, changed, output }
    }

    /// Records a change of the store of the place that needed no confirmation.
    fn note_change(&mut self, before: &Option<Found>) {
        match before {
            Some(found) if found.store.is_some() => self.records.change(found),
            Some(_) => self.note_made(),
            None => {}
        }
    }

    /// Records that the user created the store of the place, or changed its remotes.
    fn note_made(&mut self) {
        if let Some(found) = self.found() {
            self.records.trust(&Found { pointer: None, ..found });
        }
    }

    /// New words, and a session for them.
    fn words(&mut self) -> (String, String) {
        let number = self.world.number();
        (format!("turn-{number}"), format!("PRIVATE-{number}-"))
    }

    fn snapshot(&mut self) {
        let ((found, may_write), (mut session, said)) = (self.standing(), self.words());
        let message = format!("user={said}");
        let mut words = vec!["snapshot", "-m", "mine", "--append-message", &message];
        if self.random.below(2) == 0 {
            words.extend(["--workspace", "."]);
            "work".clone_into(&mut session);
        }
        words.extend(["--session", &session]);
        let (target, allowed) = (self.target(), self.allowed());
        let run = self.run(&words, "", &allowed);
        run.expect_if(may_write);
        assert_eq!(says(&target, &session, &said), may_write, "{}", run.shown);
        if may_write {
            self.counts.taken += u64::from(found.is_some());
            self.captured.insert(self.dir());
            self.note_change(&found);
        } else {
            self.counts.refused += 1;
        }
    }

    /// Handles an event of a client.
    fn hear(&mut self) {
        let ((found, may_write), (session, said)) = (self.standing(), self.words());
        let name = ["Stop", "Stop", "UserPromptSubmit"][self.random.below(3)];
        let (target, allowed, dir) = (self.target(), self.allowed(), self.dir());
        let event = self.world.transcript(&dir, &session, &said, name);
        let run = self.run(&["hook"], &event, &allowed);
        run.expect(0);
        assert!(says(&target, &session, &said) || name != "Stop", "{}", run.shown);
        self.captured.insert(dir);
        match may_write {
            true => self.note_change(&found),
            false => self.counts.own += 1,
        }
    }

    /// Commits a turn through a server.
    fn call(&mut self) {
        let ((found, _), (session, said)) = (self.standing(), self.words());
        let (target, allowed) = (self.target(), self.allowed());
        let arguments = json!({"message": "mine", "session": session,
            "append": {"agents": {"main": [{"role": "user", "content": said}]}}});
        let request = |id: u32, method: &str, params: serde_json::Value| {
            json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
        };
        let run = if self.random.below(2) == 0 {
            let line = request(1, "snapshot", arguments) + "\n";
            self.run(&["serve", "--stdio"], &line, &allowed)
        } else {
            let client = json!({"protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {"name": "a test", "version": "1"}});
            let lines = [
                request(1, "initialize", client),
                json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string(),
                request(2, "tools/call", json!({"name": "snapshot", "arguments": arguments})),
            ];
            self.run(&["mcp"], &(lines.join("\n") + "\n"), &allowed)
        };
        run.expect(0);
        let answer = String::from_utf8_lossy(&run.output.stdout);
        assert!(says(&target, &session, &said), "{}: {answer}", run.shown);
        // Commands record an existing store, servers do not.
        if found.is_some_and(|found| found.store.is_none() && found.path == target) {
            self.note_made();
        }
    }

    fn read(&mut self) {
        let (words, allowed) = (self.any(&READS), self.allowed());
        let _ = self.run(words, "", &allowed);
    }

    /// Runs a command that writes. On another user's store also one that would rewrite its files.
    fn write(&mut self) {
        let (found, may_write) = self.standing();
        if found.as_ref().is_some_and(|found| found.store.is_none()) {
            return;
        }
        let words = match !may_write && self.random.below(3) == 0 {
            true => {
                // `init` would create a store in the folder below.
                self.is_below = false;
                self.any(&SEALINGS)
            }
            false => self.any(&WRITES),
        };
        let allowed = self.allowed();
        let run = self.run(words, "", &allowed);
        match may_write {
            true => self.note_opened(&found),
            false => run.expect(REFUSED),
        }
    }

    fn go_back(&mut self) {
        let (found, may_write) = self.standing();
        let (mut words, mut allowed) = (self.any(&BACK).to_vec(), self.allowed());
        let scratch = self.world.root.join("user/scratch");
        let shown = scratch.display().to_string();
        if self.random.below(2) == 0 && words.len() > 1 {
            words.extend(["--workspace", &shown]);
            self.captured.insert(scratch);
        }
        allowed.folders.clone_from(&self.captured);
        allowed.folders.insert(self.places[self.at].dir.clone());
        let run = self.run(&words, "", &allowed);
        if may_write {
            self.note_opened(&found);
            let is_below = |path: &PathBuf| allowed.folders.iter().any(|it| path.starts_with(it));
            let count = run.changed.iter().filter(|path| is_below(path)).count();
            self.counts.back += u64::from(count > 0);
        } else if found.is_some_and(|found| found.store.is_some()) {
            run.expect(REFUSED);
        } else {
            assert_ne!(run.code, 0, "{}", run.shown);
        }
    }

    /// Records that a command has opened the store of the place for a change, even if it failed.
    fn note_opened(&mut self, before: &Option<Found>) {
        if let Some(found) = before.as_ref().filter(|found| found.store.is_some()) {
            self.records.change(found);
        }
    }

    /// Pushes to a remote, fetches from it, or both.
    fn exchange(&mut self) {
        let (Some(found), may_write) = self.standing() else { return };
        if found.store.is_none() {
            return;
        }
        let names: Vec<&String> = found.remotes.keys().collect();
        let name = match names.is_empty() {
            true => "origin",
            false => names[self.random.below(names.len())],
        };
        let verb = ["push", "push", "push", "fetch", "sync"][self.random.below(5)];
        let mut words = vec![verb, "--remote", name];
        words.extend((verb == "push").then_some("--all"));
        let mut allowed = self.allowed();
        if may_write {
            allowed.remotes.extend(found.remotes.get(name).map(|remote| bucket(&remote.0)));
        }
        let run = self.run(&words, "", &allowed);
        if !may_write {
            self.counts.unsent += 1;
            return run.expect(REFUSED);
        }
        self.note_opened(&Some(found.clone()));
        if verb == "push" && run.code == 0 {
            let repo = open_store(&found.path, 7);
            assert!(repo.unpushed(name).is_empty(), "{}", run.shown);
            self.counts.pushed += 1;
        }
    }

    /// Runs the automatic work after a turn.
    fn look_after(&mut self) {
        let (Some(found), may_write) = self.standing() else { return };
        if found.store.is_none() {
            return;
        }
        let shown = found.path.display().to_string();
        let (mut words, mut allowed) = (vec!["gc", "--auto", "--push"], self.allowed());
        let is_named = self.random.below(2) == 0;
        if is_named {
            words.extend(["--store", &shown]);
            allowed.stores.insert(found.path.clone());
        } else if may_write {
            self.note_opened(&Some(found.clone()));
        }
        if self.records.may_push(&found) {
            let remotes = found.remotes.values().filter(|remote| remote.2);
            allowed.remotes.extend(remotes.map(|remote| bucket(&remote.0)));
        }
        let run = self.run(&words, "", &allowed);
        run.expect_if(may_write || is_named);
    }

    fn take_bundle(&mut self) {
        let ((found, may_write), gift) = (self.standing(), self.world.gift());
        let allowed = self.allowed();
        let run = self.run(&["bundle", "unbundle", &gift], "", &allowed);
        match may_write {
            true => self.note_change(&found),
            false => run.expect(REFUSED),
        }
    }

    /// The user changes the remotes of a store.
    fn change_remotes(&mut self) {
        let (Some(found), may_write) = self.standing() else { return };
        let number = self.world.number();
        let (name, url) = (format!("r{number}"), self.world.root.join(format!("backup/{number}")));
        let (mut allowed, shown) = (self.allowed(), url.display().to_string());
        let names: Vec<&String> = found.remotes.keys().collect();
        let run = if names.is_empty() || self.random.below(2) == 0 {
            allowed.remotes.extend(may_write.then_some(url));
            self.run(&["remote", "add", &name, &shown], "", &allowed)
        } else {
            let name = names[self.random.below(names.len())];
            match self.random.below(3) {
                0 => self.run(&["remote", "set", name, "--auto"], "", &allowed),
                1 => self.run(&["remote", "set", name, "--no-auto"], "", &allowed),
                _ => self.run(&["remote", "rm", name], "", &allowed),
            }
        };
        if !may_write {
            return run.expect(REFUSED);
        }
        self.note_change(&Some(found));
        if run.code == 0 {
            self.note_made();
        }
    }

    fn trust(&mut self) {
        let Some(found) = self.found() else { return };
        let (allowed, dir) = (self.allowed(), self.places[self.at].dir.display().to_string());
        let words = if self.random.below(2) == 0 { vec!["trust"] } else { vec!["trust", &dir] };
        let run = self.run(&words, "", &allowed);
        if found.store.is_none() {
            assert_ne!(run.code, 0, "{}", run.shown);
            return;
        }
        run.expect(0);
        self.records.trust(&found);
        assert!(self.records.may_write(&found), "{}", run.shown);
        self.counts.trusted += 1;
    }

    fn forget(&mut self) {
        let Some(found) = self.found() else { return };
        let (allowed, dir) = (self.allowed(), self.places[self.at].dir.display().to_string());
        let run = self.run(&["trust", "--remove", &dir], "", &allowed);
        run.expect(if self.records.forget(&found) { 0 } else { 1 });
    }

    /// A store named by `--store` is trusted.
    fn name_the_store(&mut self) {
        let Some(found) = self.found().filter(|found| found.store.is_some()) else { return };
        let ((session, said), mut allowed) = (self.words(), self.allowed());
        let (shown, message) = (found.path.display().to_string(), format!("user={said}"));
        allowed.stores.insert(found.path.clone());
        let words = ["--store", &shown, "snapshot", "-m", "mine", "--session", &session];
        let run = self.run(&[&words[..], &["--append-message", &message]].concat(), "", &allowed);
        run.expect(0);
        assert!(says(&found.path, &session, &said), "{}", run.shown);
    }

    /// Another user changes the remotes of a store.
    fn change_remotes_of_others(&mut self) {
        let Some(found) = self.found().filter(|found| found.store.is_some()) else { return };
        let (store, number) = (found.path.display().to_string(), self.world.number());
        let bucket = self.world.root.join(format!("drop/bucket-{number}")).display().to_string();
        let name = format!("m{number}");
        let mut names = found.remotes.iter();
        let words = match names.next().filter(|_| self.random.below(3) > 0) {
            None => vec!["remote", "add", &name, &bucket],
            Some((name, (_, _, true))) if self.random.below(2) == 0 => vec!["remote", "rm", name],
            Some((name, (_, _, auto))) => {
                vec!["remote", "set", name, if *auto { "--no-auto" } else { "--auto" }]
            }
        };
        self.world.made("maker", &[&["--store", &store], &words[..]].concat());
        self.counts.changed += 1;
    }

    /// Replaces a store.
    fn replace(&mut self) {
        let place = self.places[self.at].clone();
        if place.kind == Kind::Bare {
            return;
        }
        let store = place.dir.join(STORE);
        match fs::symlink_metadata(&store) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&store).expect("it goes away"),
            _ => fs::remove_file(&store).expect("it goes away"),
        }
        let remote = [None, Some(false), Some(true)][self.random.below(3)];
        self.world.copy_of_made(&place.dir, remote);
        self.counts.changed += 1;
    }

    fn relocate(&mut self) {
        let dir = self.world.new_path("user/p");
        fs::rename(&self.places[self.at].dir, &dir).expect("it is renamed");
        self.places[self.at].dir = dir;
    }

    fn copy(&mut self) {
        if self.places.len() < MAX_PLACES {
            let (place, dir) = (self.places[self.at].clone(), self.world.new_path("user/p"));
            self.world.copy(&place.dir, &dir);
            self.places.push(Place { dir, ..place });
        }
    }
}

/// A run that has ended.
struct Run {
    code: i32,
    shown: String,
    changed: BTreeSet<PathBuf>,
    output: Output,
}

impl Run {
    fn expect(&self, code: i32) {
        assert_eq!(self.code, code, "{}", self.shown);
    }

    /// Asserts that the command succeeded if `done`, or else refused.
    fn expect_if(&self, done: bool) {
        self.expect(if done { 0 } else { REFUSED });
    }
}

/// The folder of a remote.
fn bucket(url: &str) -> PathBuf {
    Path::new(url.strip_prefix("file://").unwrap_or(url)).to_owned()
}
