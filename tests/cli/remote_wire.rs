//! A remote in object storage over a real connection: requests, lost answers, and wrong servers.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt as _;

use turntree_tests::claude_code_of_noise;
use turntree_tests::remote::{ObjectServer, Request, Team, Trouble};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");
const SIGTERM: i32 = 15;

/// A machine `here` with a turn that is pushed to an S3 remote.
fn pushed() -> (ObjectServer, Team) {
    let server = ObjectServer::start();
    let team = Team::new(PROGRAM, server.environment());
    team.machine("here");
    team.turn("here", "the first");
    team.ok("here", &["remote", "add", "origin", &server.url("team")]);
    team.ok("here", &["push"]);
    (server, team)
}

fn requests(server: &ObjectServer, work: impl FnOnce()) -> u64 {
    let before = server.requests();
    work();
    (server.requests() - before).total()
}

/// The number of bundles in the bucket, including folded ones.
fn bundles(team: &Team) -> u64 {
    let checked = &team.json("here", &["remote", "check"])[0];
    checked["bundles"].as_u64().unwrap() + checked["unlisted"].as_u64().unwrap()
}

/// All later requests have this fault.
fn always(server: &ObjectServer, trouble: Trouble) {
    server.plan(move |_| Some(trouble.clone()));
}

#[test]
fn a_push_of_a_turn_takes_two_requests_on_the_wire_and_a_clone_brings_everything() {
    let (server, team) = pushed();
    for turn in 0..3 {
        team.turn("here", &format!("turn {turn}"));
        assert_eq!(requests(&server, || drop(team.ok("here", &["push"]))), 2);
    }
    assert_eq!(requests(&server, || drop(team.ok("here", &["push"]))), 1);
    assert_eq!(requests(&server, || drop(team.ok("here", &["fetch"]))), 1);
    team.ok(".", &["clone", &server.url("team"), "there"]);
    assert_eq!(team.tip("there", "HEAD"), team.tip("here", "HEAD"));
    team.turn("there", "of there");
    team.ok("there", &["push"]);
    team.ok("here", &["sync"]);
    assert_eq!(team.tip("there", "HEAD"), team.tip("here", "HEAD"));
    assert!(server.objects().keys().all(|key| key.starts_with("team/")));
    assert_eq!(team.json("here", &["remote", "check"])[0]["sessions"], 1);
    assert_eq!(bundles(&team), 5, "one of each push");
}

#[test]
fn a_lazy_clone_of_a_large_session_and_its_newest_turn_take_five_requests() {
    let server = ObjectServer::start();
    let team = Team::new(PROGRAM, server.environment());
    team.machine("here");
    // Incompressible content, so that a lazy clone does not download it.
    fs::write(team.path("here/session.jsonl"), claude_code_of_noise(200, 512)).unwrap();
    team.ok("here", &["import", "session.jsonl", "--session", "work"]);
    team.ok("here", &["remote", "add", "origin", &server.url("team")]);
    team.ok("here", &["push", "work"]);
    let pushed: usize = server.objects().values().map(Vec::len).sum();

    let before = server.requests();
    team.ok(".", &["clone", "--lazy", &server.url("team"), "there"]);
    let cost = server.requests() - before;
    assert!(cost.bytes_read < pushed as u64 / 2, "{cost:?} of {pushed} bytes");
    assert_eq!(cost.total(), 5, "{cost:?}");
    let said = |turn: &str, before: &str| {
        let shown = |machine: &str| team.ok(machine, &["diff", before, turn]);
        requests(&server, || assert_eq!(shown("there"), shown("here")))
    };
    assert_eq!(said("HEAD", "HEAD~1"), 0, "it came with the history");
    assert_eq!(said("HEAD~198", "HEAD~199"), 1);
}

#[test]
fn a_storage_that_writes_over_what_it_was_asked_not_to_is_refused_on_the_spot() {
    let server = ObjectServer::start();
    let team = Team::new(PROGRAM, server.environment());
    team.machine("here");
    server.ignore_conditions(true);
    let (_, said) = team.exits(2, "here", &["remote", "add", "origin", &server.url("team")]);
    assert!(said.contains("conditional writes"), "{said}");
    assert!(server.objects().is_empty(), "{:?}", server.objects());
    assert_eq!(team.json("here", &["remote", "ls"])[0]["remotes"].as_array().unwrap().len(), 0);
}

#[test]
fn an_answer_that_is_lost_is_told_from_a_race_that_is_lost() {
    let (server, team) = pushed();
    let troubles = [Trouble::AnswerLost, Trouble::SentTwice, Trouble::RequestLost];
    for (number, trouble) in troubles.into_iter().enumerate() {
        team.turn("here", &format!("turn {number}"));
        let mut is_first = true;
        server.plan(move |request: &Request| {
            let is_hit = request.is_conditional && std::mem::take(&mut is_first);
            is_hit.then(|| trouble.clone())
        });
        let pushed = team.json("here", &["push"]);
        server.calm();
        assert_eq!(pushed[0]["branches"][0]["change"], "forward");
        assert_eq!(pushed[0]["generation"], number as u64 + 2, "it was done once");
    }
    assert_eq!(bundles(&team), 4, "one of each push");
}

#[test]
fn whoever_answers_in_its_place_is_told_and_nothing_changes() {
    let (server, team) = pushed();
    team.ok(".", &["clone", &server.url("team"), "there"]);
    team.turn("here", "the second");
    team.ok("here", &["push"]);
    let known = team.tip("there", "origin/main");
    let refused = || Trouble::Refused(403, "AccessDenied");
    for (trouble, expected) in [
        (Trouble::Page("<html>Sign in to this network</html>"), ""),
        (refused(), "403 Forbidden: AccessDenied"),
        (Trouble::Refused(404, "NoSuchBucket"), "has no bucket"),
        (Trouble::Redirected("http://127.0.0.1:1/"), "the storage redirects"),
        (Trouble::Length(7), ""),
        (Trouble::Length(-3), ""),
        (Trouble::Endless, "bytes of an answer"),
    ] {
        always(&server, trouble.clone());
        for words in [&["fetch"][..], &["push"]] {
            let output = team.run("there", words);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let code = output.status.code();
            assert!(matches!(code, Some(4 | 6 | 70)), "{trouble:?}, {words:?}: {code:?} {said}");
            assert!(said.contains(expected), "{trouble:?}, {words:?}: {said}");
            assert!(said.lines().all(|line| line.len() < 1000), "{said}");
        }
        server.calm();
        assert_eq!(team.tip("there", "origin/main"), known);
    }
    team.ok("there", &["fsck"]);
    team.ok("there", &["fetch"]);
    assert_ne!(team.tip("there", "origin/main"), known);
}

#[test]
fn what_others_put_into_the_bucket_is_no_part_of_the_remote() {
    let (server, team) = pushed();
    for key in
        ["team/other", "team/heads", "team/heads/.hidden", "team/heads/a b", "elsewhere/heads/x"]
    {
        server.set(key, Some(b"of others"));
    }
    team.ok("here", &["fetch"]);
    team.ok("here", &["remote", "check"]);
    // An object with the name of a head, or with a name that points elsewhere, is reported.
    server.set("team/heads/evil", Some(b"{}"));
    team.exits(4, "here", &["fetch"]);
    server.set("team/heads/evil", None);
    server.set("team/heads/../../x", Some(b"{}"));
    let (_, said) = team.exits(70, "here", &["fetch"]);
    assert!(said.contains(".."), "{said}");
    server.set("team/heads/../../x", None);
    team.ok("here", &["fetch"]);
}

#[test]
fn without_a_network_everything_stays_as_it_is_until_there_is_one() {
    let (server, team) = pushed();
    team.turn("here", "on the way");
    let before = server.objects();
    always(&server, Trouble::RequestLost);
    let (_, said) = team.exits(70, "here", &["push"]);
    assert!(said.contains("s3://agents/team"), "{said}");
    server.calm();
    assert_eq!(server.objects(), before);
    team.ok("here", &["fsck"]);
    team.ok("here", &["push"]);
    // Nothing listens on this port.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nowhere = format!("s3://agents/x?endpoint=http://127.0.0.1:{port}");
    let (_, said) = team.exits(70, "here", &["remote", "add", "nowhere", &nowhere]);
    assert!(said.contains("s3://agents/x"), "{said}");
    assert_eq!(team.json("here", &["remote", "ls"])[0]["remotes"].as_array().unwrap().len(), 1);
    let elsewhere = "s3://agents/x?endpoint=http://192.0.2.1";
    let (_, said) = team.exits(70, "here", &["remote", "add", "elsewhere", elsewhere]);
    assert!(said.contains("insecure=true"), "{said}");
}

#[test]
fn a_push_that_is_interrupted_is_made_up_by_the_next_one() {
    let (server, team) = pushed();
    for hit in 1..=2 {
        team.turn("here", &format!("turn {hit}"));
        let mut number = 0;
        server.plan(move |_| {
            number += 1;
            (number == hit).then_some(Trouble::Interrupted)
        });
        let child = team.command("here", &["push"]).spawn().unwrap();
        server.aim(child.id());
        let output = child.wait_with_output().unwrap();
        server.calm();
        assert_eq!(output.status.signal(), Some(SIGTERM), "{output:?}");
        team.ok("here", &["push"]);
        team.ok("here", &["fsck"]);
        let checked = team.json("here", &["remote", "check"]);
        assert_eq!(checked[0]["missing"].as_array().unwrap().len(), 0);
        assert_eq!(team.tip("here", "origin/main"), team.tip("here", "HEAD"));
    }
}
