//! The story of remotes, played by real processes on a real wire: machines push, race and die, and
//! servers misbehave.
//!
//! The number of a request, not time, determines which process is killed, and when.

use std::fs;

use serde_json::Value;
use turntree_tests::remote::{ObjectServer, SavedObjects, Team, Trouble};
use turntree_tests::sim::Random;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// The turns that the first machine pushes one by one.
const TURNS: u64 = 300;

struct Story {
    server: ObjectServer,
    team: Team,
}

#[test]
fn a_team_works_on_a_session_in_a_bucket_and_nothing_is_lost() {
    let server = ObjectServer::start();
    let team = Team::new(PROGRAM, server.environment());
    let story = Story { server, team };
    story.a_pushes_turn_by_turn();
    let early = story.server.save();
    story.b_clones_lazily_forks_and_pushes();
    story.a_and_c_push_at_the_same_moment();
    story.the_bucket_is_collected_meanwhile();
    story.clients_die_at_every_request();
    story.the_bucket_goes_back_and_everybody_notices(&early);
}

/// Users with a key and a home each, who share an encrypted bucket.
struct Circle {
    server: ObjectServer,
    team: Team,
}

#[test]
fn an_encrypted_bucket_is_read_by_a_new_member_and_not_by_a_removed_one() {
    let server = ObjectServer::start();
    let team = Team::new(PROGRAM, server.environment());
    let circle = Circle { server, team };
    let (bob, carol) = (circle.key_of("bob"), circle.key_of("carol"));
    circle.alice_shares_with(&bob);
    circle.bob_lets_in(&carol);
    circle.whoever_removes_bob_dies_at_every_request(&bob);
    circle.only_members_go_on();
    circle.the_bucket_tells_nothing();
}

impl Circle {
    /// Runs the program as a user in the directory of `machine`.
    fn run(&self, person: &str, machine: &str, words: &[&str]) -> (i32, String) {
        let mut command = self.team.command(machine, words);
        let output =
            command.env("HOME", self.team.path(&format!("home-{person}"))).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8_lossy(&said).into_owned())
    }

    fn ok(&self, person: &str, words: &[&str]) -> String {
        let (code, said) = self.run(person, person, words);
        assert_eq!(code, 0, "{person}, {words:?}: {said}");
        said
    }

    /// Creates a key for a user. Returns its public half.
    fn key_of(&self, person: &str) -> String {
        let own = format!("{person}-own");
        assert_eq!(self.run(person, ".", &["--store", &own, "init", "--encrypt"]).0, 0);
        let file = self.team.path(&format!("home-{person}/.config/turntree/identity.txt"));
        let text = fs::read_to_string(file).unwrap();
        text.lines().find_map(|line| line.strip_prefix("# public key: ")).unwrap().to_owned()
    }

    fn clone_for(&self, person: &str) -> (i32, String) {
        self.run(person, ".", &["clone", "--lazy", &self.server.url("sealed"), person])
    }

    fn has_what_alice_has(&self, person: &str) {
        let tip = |person| self.ok(person, &["rev-parse", "HEAD"]);
        assert_eq!(tip(person), tip("alice"));
    }

    fn alice_shares_with(&self, bob: &str) {
        self.team.machine("alice");
        let url = self.server.url("sealed");
        self.ok("alice", &["remote", "add", "origin", &url, "--encrypt", "--member", bob]);
        for turn in 0..20 {
            self.ok(
                "alice",
                &["snapshot", "-m", "secret plan", "--append-message", &format!("user={turn}")],
            );
            self.ok("alice", &["push"]);
        }
        assert_eq!(self.clone_for("bob").0, 0);
        self.has_what_alice_has("bob");
    }

    fn bob_lets_in(&self, carol: &str) {
        let (code, said) = self.clone_for("carol");
        assert!(code == 2 && said.contains("not for a key that is at hand"), "{code} {said}");
        assert!(!self.team.path("carol/.turntree").exists());
        self.ok("bob", &["remote", "members", "origin", "add", carol]);
        assert_eq!(self.clone_for("carol").0, 0);
        self.has_what_alice_has("carol");
    }

    fn whoever_removes_bob_dies_at_every_request(&self, bob: &str) {
        let Self { server, team } = self;
        let words = ["remote", "members", "origin", "rm", bob];
        team.copy("alice", "before");
        let objects = server.save();
        let before = server.requests();
        self.ok("alice", &words);
        let requests = (server.requests() - before).total();
        assert!(requests >= 4, "keys are written twice, and a head in between: {requests}");
        for hit in 1..=requests {
            for trouble in [Trouble::KilledBefore, Trouble::KilledAfter] {
                team.copy("before", "alice");
                server.restore(&objects);
                let mut number = 0;
                server.plan(move |_| {
                    number += 1;
                    (number == hit).then(|| trouble.clone())
                });
                let mut command = team.command("alice", &words);
                let child = command.env("HOME", team.path("home-alice")).spawn().unwrap();
                server.aim(child.id());
                let output = child.wait_with_output().unwrap();
                server.calm();
                assert_eq!(output.status.code(), None, "killed at request {hit}: {output:?}");
                // If only the last answer was missing, the member has been removed already.
                let (code, said) = self.run("alice", "alice", &words);
                assert!(matches!(code, 0 | 6), "request {hit}: {code} {said}");
                self.ok("alice", &["fetch"]);
                assert_eq!(self.run("bob", "bob", &["fetch"]).0, 2, "request {hit}");
            }
        }
    }

    fn only_members_go_on(&self) {
        self.ok("alice", &["snapshot", "-m", "after bob", "--append-message", "user=after"]);
        self.ok("alice", &["push"]);
        self.ok("carol", &["sync"]);
        self.has_what_alice_has("carol");
        for words in [&["fetch"][..], &["push"], &["sync"], &["remote", "check"]] {
            let (code, said) = self.run("bob", "bob", words);
            assert!(code == 2 && said.contains("not for a key that is at hand"), "{code} {said}");
        }
        self.ok("carol", &["remote", "gc", "--aggressive"]);
        self.ok("alice", &["fetch"]);
        for person in ["alice", "bob", "carol"] {
            self.ok(person, &["fsck"]);
        }
    }

    fn the_bucket_tells_nothing(&self) {
        for (key, bytes) in self.server.objects() {
            for word in ["default", "secret plan", "refs/heads"] {
                let is_seen = bytes.windows(word.len()).any(|part| part == word.as_bytes());
                assert!(!is_seen && !key.contains(word), "{word} in {key}");
            }
        }
    }
}

impl Story {
    fn url(&self) -> String {
        self.server.url("team")
    }

    fn a_pushes_turn_by_turn(&self) {
        let Self { server, team } = self;
        team.machine("a");
        // Large enough that a lazy clone does not download it.
        let mut random = Random(1);
        let text: String = (0..40_000).map(|_| format!("{:016x}", random.draw())).collect();
        fs::create_dir(team.path("a/work")).unwrap();
        fs::write(team.path("a/work/data"), text).unwrap();
        team.ok("a", &["snapshot", "-m", "data", "--workspace", "work"]);
        team.ok("a", &["remote", "add", "origin", &self.url()]);
        team.ok("a", &["push"]);
        for turn in 2..=TURNS {
            team.turn("a", &format!("turn {turn} of a"));
            let before = server.requests();
            team.ok("a", &["push"]);
            assert_eq!((server.requests() - before).total(), 2, "turn {turn}");
        }
        self.is_there("a", "main");
    }

    fn b_clones_lazily_forks_and_pushes(&self) {
        let Self { server, team } = self;
        let before = server.requests();
        team.ok(".", &["clone", "--lazy", &self.url(), "b"]);
        let cost = server.requests() - before;
        assert!(cost.total() <= 12, "{cost:?}");
        assert!(cost.bytes_read < 300_000, "the data is left there: {cost:?}");
        assert_eq!(team.tip("b", "HEAD"), team.tip("a", "HEAD"));
        team.ok("b", &["fork", "idea"]);
        for turn in 0..3 {
            team.turn("b", &format!("idea {turn} of b"));
        }
        team.ok("b", &["push"]);
        self.is_there("b", "idea");
        let read = team.ok("b", &["cat", "HEAD:files/data"]);
        assert_eq!(read, fs::read_to_string(team.path("a/work/data")).unwrap());
    }

    fn a_and_c_push_at_the_same_moment(&self) {
        let team = &self.team;
        team.ok(".", &["clone", &self.url(), "c"]);
        team.ok("c", &["switch", "main"]);
        team.turn("a", "of a, at the same moment");
        team.turn("c", "of c, at the same moment");
        let started = ["a", "c"].map(|machine| team.command(machine, &["push"]).spawn().unwrap());
        let codes = started.map(|child| child.wait_with_output().unwrap().status.code().unwrap());
        let mut sorted = codes;
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 3], "one was first, and the other one has a way on");
        for machine in ["a", "c", "a"] {
            team.ok(machine, &["sync"]);
        }
        assert_eq!(team.tip("a", "main"), team.tip("c", "main"));
        let said = team.ok("a", &["log", "main"]);
        assert!(said.contains("of a, at the same") && said.contains("of c, at the same"), "{said}");
        self.is_there("a", "main");
    }

    fn the_bucket_is_collected_meanwhile(&self) {
        let team = &self.team;
        for round in 0..4 {
            team.turn("a", &format!("of a, while c collects, {round}"));
            let started = [("a", &["push"][..]), ("c", &["remote", "gc"])]
                .map(|(machine, words)| team.command(machine, words).spawn().unwrap());
            for child in started {
                let output = child.wait_with_output().unwrap();
                assert!(output.status.success(), "{output:?}");
            }
            self.is_there("a", "main");
        }
        self.nothing_is_left_over();
    }

    /// Checks that a quiet collection leaves exactly the bundles that heads list.
    fn nothing_is_left_over(&self) {
        self.team.ok("c", &["remote", "gc"]);
        let checked = self.team.json("c", &["remote", "check"]);
        assert_eq!(
            (&checked[0]["unlisted"], &checked[0]["missing"]),
            (&0.into(), &Value::Array(vec![])),
            "{checked:?}"
        );
    }

    fn clients_die_at_every_request(&self) {
        let team = &self.team;
        // Each command has its own machine, and a revision that must exist afterwards.
        team.copy("a", "push");
        team.turn("push", "of a push that dies");
        self.dies_everywhere("push", &["push"], 2, "main");
        team.copy("c", "sync");
        team.turn("sync", "of a sync that dies");
        team.ok("a", &["sync"]);
        team.turn("a", "of a, before the sync");
        team.ok("a", &["push"]);
        self.dies_everywhere("sync", &["sync"], 5, "main");
        team.copy("a", "first");
        team.ok("first", &["snapshot", "-m", "new", "--set", "scratchpad/a=b", "--session", "new"]);
        self.dies_everywhere("first", &["push", "new"], 4, "new/main");
        team.copy("b", "fetch");
        self.dies_everywhere("fetch", &["fetch"], 3, "origin/main");
        team.copy("c", "collect");
        self.dies_everywhere("collect", &["remote", "gc"], 2, "main");
        team.ok("a", &["sync"]);
        self.nothing_is_left_over();
    }

    /// Kills a command before and after each of its requests, repeats it, and checks the result.
    fn dies_everywhere(&self, machine: &str, words: &[&str], least: u64, revision: &str) {
        let Self { server, team } = self;
        let saved = format!("{machine}-before");
        team.copy(machine, &saved);
        let objects = server.save();
        let before = server.requests();
        team.ok(machine, words);
        let requests = (server.requests() - before).total();
        assert!(requests >= least, "{words:?} takes {requests} requests");
        let tip = team.tip(machine, revision);
        for hit in 1..=requests {
            for trouble in [Trouble::KilledBefore, Trouble::KilledAfter] {
                team.copy(&saved, machine);
                server.restore(&objects);
                self.kill(machine, words, hit, trouble);
                team.ok(machine, words);
                // A merge contains its time, so a repeated merge has another id.
                if words != ["sync"] {
                    assert_eq!(team.tip(machine, revision), tip, "{words:?}, request {hit}");
                }
                if !words.contains(&"fetch") && !words.contains(&"gc") {
                    self.is_there(machine, revision);
                }
            }
        }
        team.ok(machine, &["fsck"]);
    }

    fn kill(&self, machine: &str, words: &[&str], hit: u64, trouble: Trouble) {
        let mut number = 0;
        self.server.plan(move |_| {
            number += 1;
            (number == hit).then(|| trouble.clone())
        });
        let child = self.team.command(machine, words).spawn().unwrap();
        self.server.aim(child.id());
        let output = child.wait_with_output().unwrap();
        self.server.calm();
        assert_eq!(output.status.code(), None, "killed at request {hit}: {output:?}");
    }

    /// Checks that the remote has the branch as it is here, and whole, so that a new clone gets it.
    fn is_there(&self, machine: &str, revision: &str) {
        let team = &self.team;
        let checked = team.json(machine, &["remote", "check"]);
        assert_eq!(checked[0]["missing"].as_array().map(Vec::len), Some(0), "{checked:?}");
        let there = team.tip(machine, &format!("origin/{revision}"));
        assert_eq!(there, team.tip(machine, revision));
    }

    fn the_bucket_goes_back_and_everybody_notices(&self, early: &SavedObjects) {
        let Self { server, team } = self;
        let now = server.save();
        server.restore(early);
        for machine in ["a", "b", "c"] {
            for words in [&["fetch"][..], &["sync"], &["remote", "check"]] {
                let (_, said) = team.exits(4, machine, words);
                assert!(said.contains("generation"), "{machine}, {words:?}: {said}");
            }
        }
        server.restore(&now);
        for machine in ["a", "b", "c"] {
            team.ok(machine, &["fetch"]);
            team.ok(machine, &["fsck"]);
        }
    }
}
