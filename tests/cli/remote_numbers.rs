//! The costs of remotes as a table: `just remotes`. The server counts requests and bytes.
//!
//! These are measurements, which a normal test run skips. `TURNTREE_MEASURED` names the measured
//! program, `TURNTREE_LARGE=1` adds slow ones.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use turntree::repo::{BranchName, Repository};
use turntree::store::{OpenOptions, RealIo};
use turntree_tests::remote::{BUCKET, KEY_ID, ObjectServer, Requests, Team};
use turntree_tests::{claude_code, claude_code_of_noise, commit_note, stamp};

fn program() -> String {
    std::env::var("TURNTREE_MEASURED")
        .unwrap_or_else(|_| env!("CARGO_BIN_EXE_turntree-under-test").to_owned())
}

fn is_large() -> bool {
    std::env::var("TURNTREE_LARGE").is_ok_and(|value| value == "1")
}

fn team(server: &ObjectServer) -> Team {
    Team::new(&program(), server.environment())
}

/// The requests at the server during `work`, and the processor seconds of the processes that ended
/// in it.
fn measured(server: &ObjectServer, work: impl FnOnce()) -> (Requests, f64) {
    let (before, used) = (server.requests(), processor_seconds());
    work();
    (server.requests() - before, processor_seconds() - used)
}

/// The processor time of all ended children, which the kernel counts in hundredths of a second.
fn processor_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(13).take(2);
    ticks.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn row(what: &str, figures: &str) {
    println!("| {what} | {figures} |");
}

fn kilobytes(bytes: u64) -> String {
    format!("{:.1} KB", bytes as f64 / 1000.0)
}

/// Prints the header of a group of rows.
fn table() {
    println!("\n| what | figures |\n|---|---|");
}

#[test]
#[ignore = "a measurement: just remotes"]
fn figures_of_one_session() {
    table();
    one_session();
}

#[test]
#[ignore = "a measurement: just remotes"]
fn figures_of_many_machines() {
    table();
    machines_and_sessions(16, 8);
}

#[test]
#[ignore = "a measurement: just remotes"]
fn figures_of_other_tools() {
    table();
    other_tools();
}

#[test]
#[ignore = "a measurement: just remotes"]
fn figures_of_large_sessions() {
    if is_large() {
        table();
        large_and_lazy(1_000);
        large_and_lazy(10_000);
    }
}

#[test]
#[ignore = "a measurement: just remotes"]
fn figures_of_many_sessions() {
    if is_large() {
        table();
        sessions_in_a_bucket(10_000);
    }
}

#[test]
#[ignore = "a measurement: just remotes"]
fn figures_of_a_long_session() {
    if is_large() {
        table();
        turn_by_turn(10_000);
    }
}

fn one_session() {
    let server = ObjectServer::start();
    let team = team(&server);
    turn_by_turn_on(&server, &team, 1_000);
    let (cost, used) = measured(&server, || {
        for _ in 0..20 {
            team.ok("here", &["push"]);
        }
    });
    row(
        "push of nothing new",
        &format!("{} request, {:.1} ms of processor time", cost.total() / 20, used * 50.0),
    );
    team.ok("here", &["bundle", "create", "default", "-o", "all.bundle"]);
    let archive = fs::metadata(team.path("here/all.bundle")).unwrap().len();
    cloned(&server, &team, "clone of those 1,000 turns, pushed one by one", archive);

    let server = ObjectServer::start();
    let team = Team::new(&program(), server.environment());
    team.machine("here");
    fs::write(team.path("here/session.jsonl"), claude_code(1_000)).unwrap();
    team.ok("here", &["import", "session.jsonl", "--session", "work"]);
    team.ok("here", &["remote", "add", "origin", &server.url("team")]);
    let (cost, _) = measured(&server, || drop(team.ok("here", &["push", "work"])));
    let transcript = fs::metadata(team.path("here/session.jsonl")).unwrap().len();
    let figures = format!(
        "{} requests, {} of {}",
        cost.total(),
        kilobytes(cost.bytes_written),
        kilobytes(transcript)
    );
    row("first push of a transcript of 1,000 turns", &figures);
    team.ok("here", &["bundle", "create", "work", "-o", "all.bundle"]);
    let archive = fs::metadata(team.path("here/all.bundle")).unwrap().len();
    cloned(&server, &team, "clone of that", archive);
}

/// Clones fully and lazily, and opens the newest turn in the lazy clone.
fn cloned(server: &ObjectServer, team: &Team, what: &str, archive: u64) {
    let (cost, _) =
        measured(server, || drop(team.ok(".", &["clone", &server.url("team"), "whole"])));
    let ratio = cost.bytes_read as f64 / archive as f64;
    let figures = format!(
        "{} requests, {}: {ratio:.2}x the archive of {}",
        cost.total(),
        kilobytes(cost.bytes_read),
        kilobytes(archive)
    );
    row(what, &figures);
    let clone = ["clone", "--lazy", &server.url("team"), "lazy"];
    let (cost, _) = measured(server, || drop(team.ok(".", &clone)));
    let (open, _) = measured(server, || drop(team.ok("lazy", &["show", "HEAD"])));
    let figures = format!(
        "{} requests, {}; its newest turn is shown with {} more, {}",
        cost.total(),
        kilobytes(cost.bytes_read),
        open.total(),
        kilobytes(open.bytes_read)
    );
    row("the same with `--lazy`", &figures);
    for name in ["whole", "lazy"] {
        fs::remove_dir_all(team.path(name)).unwrap();
    }
}

fn turn_by_turn(turns: u64) {
    let server = ObjectServer::start();
    turn_by_turn_on(&server, &team(&server), turns);
}

/// Pushes a transcript with a kilobyte of incompressible text in most turns, in one push.
fn large_and_lazy(turns: usize) {
    let server = ObjectServer::start();
    let team = team(&server);
    team.machine("here");
    fs::write(team.path("here/session.jsonl"), claude_code_of_noise(turns, 128)).unwrap();
    team.ok("here", &["import", "session.jsonl", "--session", "work"]);
    team.ok("here", &["remote", "add", "origin", &server.url("team")]);
    team.ok("here", &["push", "work"]);
    team.ok("here", &["bundle", "create", "work", "-o", "all.bundle"]);
    let archive = fs::metadata(team.path("here/all.bundle")).unwrap().len();
    cloned(&server, &team, &format!("clone of {turns} turns with a kilobyte each"), archive);
}

/// Pushes each turn separately, and runs the background work after it. A turn is a message of some
/// words.
fn turn_by_turn_on(server: &ObjectServer, team: &Team, turns: u64) {
    team.machine("here");
    team.turn("here", "the first");
    team.ok("here", &["remote", "add", "origin", &server.url("team")]);
    let (first, _) = measured(server, || drop(team.ok("here", &["push"])));
    let (mut requests, mut most, mut sizes, mut seconds) = (0, 0, Vec::new(), 0.0);
    let (mut later, mut folds) = (Requests::default(), 0);
    for turn in 2..=turns {
        let said = format!("turn {turn}: what was found in file {} of the parser", turn * 7 % 113);
        team.turn("here", &said);
        let (cost, used) = measured(server, || drop(team.ok("here", &["push"])));
        requests += cost.total();
        most = most.max(cost.total());
        sizes.push(cost.bytes_written);
        seconds += used;
        // The background work of a push with maintenance enabled.
        let (cost, _) =
            measured(server, || drop(team.ok("here", &["gc", "--auto", "--fold", "origin"])));
        folds += u64::from(cost.total() > 0);
        later = later + cost;
    }
    sizes.sort_unstable();
    let pushes = sizes.len() as u64;
    let figures = format!(
        "{:.2} requests, at most {most} (the first one {}); median {}, mean {}, at most {}; {:.1} ms of processor time",
        requests as f64 / pushes as f64,
        first.total(),
        kilobytes(sizes[sizes.len() / 2]),
        kilobytes(sizes.iter().sum::<u64>() / pushes),
        kilobytes(*sizes.last().unwrap()),
        seconds * 1000.0 / pushes as f64
    );
    row(&format!("push of a turn, {turns} in a row"), &figures);
    let figures = format!(
        "{folds} times, {:.2} requests and {} for each push",
        later.total() as f64 / pushes as f64,
        kilobytes(later.bytes_written / pushes)
    );
    row("background work after it", &figures);
}

/// Machines that push different sessions to one bucket in parallel.
fn machines_and_sessions(machines: usize, rounds: usize) {
    let server = ObjectServer::start();
    let team = team(&server);
    let names: Vec<String> = (0..machines).map(|number| format!("m{number}")).collect();
    for name in &names {
        team.machine(name);
        team.ok(name, &["snapshot", "-m", "begin", "--set", "scratchpad/a=b", "--session", name]);
        team.ok(name, &["switch", name]);
        team.ok(name, &["remote", "add", "origin", &server.url("team")]);
    }
    let push = |name: &str| {
        let fails = |round: &usize| {
            team.turn(name, &format!("round {round}"));
            !team.run(name, &["push"]).status.success()
        };
        (0..rounds).filter(fails).count()
    };
    let (cost, _) = measured(&server, || {
        let lost: usize = thread::scope(|scope| {
            let all: Vec<_> = names.iter().map(|name| scope.spawn(|| push(name))).collect();
            all.into_iter().map(|one| one.join().unwrap()).sum()
        });
        assert_eq!(lost, 0, "no push fails");
    });
    let figures = format!("no push lost, {} requests for {}", cost.total(), machines * rounds);
    row(&format!("{machines} machines, {machines} sessions, {rounds} rounds at once"), &figures);
}

/// Measures a fetch without news from a bucket with many sessions.
fn sessions_in_a_bucket(sessions: usize) {
    let server = ObjectServer::start();
    let team = team(&server);
    team.machine("here");
    let store = team.path("here/.turntree");
    let repo = Repository::open(Arc::new(RealIo), &store, OpenOptions::new([5; 16])).unwrap();
    for number in 0..sessions {
        let branch = BranchName::main(&format!("s{number:05}")).unwrap();
        commit_note(&repo, &branch, ("a", "b"), &stamp(1));
    }
    drop(repo);
    team.ok("here", &["remote", "add", "origin", &server.url("team")]);
    let (cost, used) = measured(&server, || drop(team.ok("here", &["push", "--all"])));
    row(
        &format!("{sessions} sessions, pushed"),
        &format!("{} requests, {used:.0} s", cost.total()),
    );
    let (cost, used) = measured(&server, || drop(team.ok("here", &["fetch"])));
    row("fetch of nothing new there", &format!("{} requests, {used:.2} s", cost.total()));
    let (cost, used) = measured(&server, || drop(team.ok("here", &["remote", "gc"])));
    let figures = format!("{} listings, {} in all, {used:.2} s", cost.lists, cost.total());
    row("collection with nothing to do there", &figures);
}

/// The costs of the same change with other tools: a file of 300 KB that gets another line.
fn other_tools() {
    let server = ObjectServer::start();
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    fs::create_dir(&work).unwrap();
    let change = |round: u32| {
        let text = claude_code(100);
        fs::write(work.join("session.jsonl"), format!("{text}{{\"round\":{round}}}\n")).unwrap();
    };
    change(0);
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=t", "-c", "user.email=t@example.com"]).args(words);
        runs(command.env("HOME", dir.path()).env("GIT_CONFIG_NOSYSTEM", "1").current_dir(&work))
    };
    if git(&["init", "-q"]) && git(&["init", "-q", "--bare", "../there.git"]) {
        let commit_and_push = || {
            assert!(git(&["add", "session.jsonl"]) && git(&["commit", "-q", "-m", "a turn"]));
            assert!(git(&["push", "-q", "../there.git", "HEAD:main"]));
        };
        commit_and_push();
        let there = || bytes_below(&dir.path().join("there.git/objects"));
        change(1);
        let before = there();
        let (_, used) = measured(&server, commit_and_push);
        let figures = format!(
            "{} more there, {:.0} ms, to a folder",
            kilobytes(there() - before),
            used * 1e3
        );
        row("git, add, commit and push of a changed file", &figures);
        fs::remove_dir_all(work.join(".git")).unwrap();
    }
    let restic = |words: &[&str]| {
        let mut command = Command::new("restic");
        command.args(["-r", &format!("s3:{}/{BUCKET}/restic", server.endpoint())]).args(words);
        command.env("AWS_ACCESS_KEY_ID", KEY_ID).env("AWS_SECRET_ACCESS_KEY", "of tests");
        command.env("RESTIC_PASSWORD", "of tests").env("HOME", dir.path());
        runs(command.current_dir(&work))
    };
    if restic(&["init"]) && restic(&["backup", "."]) {
        change(2);
        let (cost, used) = measured(&server, || assert!(restic(&["backup", "."])));
        row("restic, a backup of a changed file", &told(cost, used));
    } else {
        row("restic", "not installed, or not content with the server");
    }
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/icechunk/bin/python");
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/compare/icechunk_commit.py");
    let icechunk = |what: &str| {
        let mut command = Command::new(&python);
        runs(command.arg(&script).args([&server.endpoint(), BUCKET, KEY_ID, what]))
    };
    if icechunk("create") {
        let (cost, used) = measured(&server, || assert!(icechunk("commit")));
        row("icechunk, open and commit of one chunk", &told(cost, used));
    } else {
        row("icechunk", "not installed, or not content with the server");
    }
}

/// Runs a command. Its errors are shown.
fn runs(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let bytes = |entry: fs::DirEntry| match entry.file_type().unwrap().is_dir() {
        true => bytes_below(&entry.path()),
        false => entry.metadata().unwrap().len(),
    };
    entries.map(bytes).sum()
}

fn told(cost: Requests, used: f64) -> String {
    format!(
        "{} requests, {} sent, {:.0} ms",
        cost.total(),
        kilobytes(cost.bytes_written),
        used * 1000.0
    )
}
