//! Explorations with a stand-in agent: strategies side by side, checks, limits, kills at every point,
//! and the winner merged.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// A stand-in for an agent: its prompt is what it writes. It notes each run outside of the store,
/// records a turn, and may first be told to do harm.
const AGENT: &str = r#"#!/bin/sh
set -e
echo run >> "$NOTES/$TURNTREE_STRATEGY.runs"
harm() {
  if [ "$(cat "$NOTES/harm" 2>/dev/null)" = "$TURNTREE_STRATEGY $1" ]; then
    rm "$NOTES/harm"
    kill -"$(cat "$NOTES/signal")" $PPID
    # It outlives the program a little, and still writes.
    sleep 0.2
    echo late >> answer.txt
    exit 1
  fi
}
harm begin
printf '%s' "$1" > answer.txt
echo "$TURNTREE_ROUND" >> rounds.txt
harm files
case "$1" in
  hang*) sleep 1000 & sleep 1000 ;;
  fail*) exit 3 ;;
esac
printf '{"role":"assistant","content":"%s","usage":{"input_tokens":%s,"output_tokens":1}}\n' \
  "$TURNTREE_STRATEGY" "${TOKENS:-10}" > "$NOTES/$TURNTREE_STRATEGY.message"
"$TURNTREE" snapshot -m 'a turn' --append "$NOTES/$TURNTREE_STRATEGY.message" > /dev/null
harm end
case "$1" in
  spend*) sleep 1000 ;;
esac
"#;

/// A check that also may do harm, and prints a score.
const CHECK: &str = r#"
if [ "$(cat "$NOTES/harm" 2>/dev/null)" = "$TURNTREE_STRATEGY check" ]; then
  rm "$NOTES/harm"; kill -"$(cat "$NOTES/signal")" $PPID; exit 1
fi
echo checked >> "$NOTES/$TURNTREE_STRATEGY.checks"
grep -q good answer.txt || exit 1
echo "score: $(wc -c < answer.txt)""#;

struct Place {
    root: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { root: tempfile::tempdir().unwrap() };
        for dir in ["home", "project", "notes"] {
            fs::create_dir_all(place.path(dir)).unwrap();
        }
        fs::write(place.path("agent.sh"), AGENT).unwrap();
        fs::set_permissions(place.path("agent.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(place.path("project/answer.txt"), "none yet\n").unwrap();
        fs::write(place.path("project/kept.txt"), "kept\n").unwrap();
        place.ok(&["init"]);
        place.ok(&["snapshot", "-m", "begin", "--append-message", "user=go", "--workspace", "."]);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(self.path("project")).env_clear();
        command.env("HOME", self.path("home")).env("PATH", std::env::var_os("PATH").unwrap());
        command.env("TURNTREE_MAINTENANCE", "off").env("TURNTREE_ACTOR", "ann");
        command.env("NOTES", self.path("notes")).env("TURNTREE", PROGRAM).stdin(Stdio::null());
        command
    }

    fn output(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn must(&self, exit: i32, words: &[&str]) -> String {
        let output = self.output(words);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(exit), "{words:?}\n{out}\n{err}");
        out + &err
    }

    fn ok(&self, words: &[&str]) -> String {
        self.must(0, words)
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[words, &["--json"]].concat())).unwrap()
    }

    /// Explores strategies with these prompts, one at a time.
    fn explore(&self, strategies: &[&str], more: &[&str]) -> Output {
        let agent = self.path("agent.sh");
        let mut words = vec!["explore", "--jobs", "1", "--check", CHECK];
        for strategy in strategies {
            words.extend(["--strategy", strategy]);
        }
        words.extend(more);
        words.extend(["--", agent.to_str().unwrap(), "{prompt}"]);
        self.output(&words)
    }

    fn note(&self, name: &str) -> String {
        fs::read_to_string(self.path("notes").join(name)).unwrap_or_default()
    }

    fn set_note(&self, name: &str, text: &str) {
        fs::write(self.path("notes").join(name), text).unwrap();
    }

    /// The state of an exploration without times and ids.
    fn state(&self) -> Value {
        let mut state = self.json(&["explore", "status"]);
        for trial in state["trials"].as_array_mut().unwrap() {
            for key in ["elapsed_ms", "start", "worktree", "step"] {
                trial.as_object_mut().unwrap().remove(key);
            }
        }
        state.as_object_mut().unwrap().remove("from");
        state
    }

    fn file(&self, branch: &str, path: &str) -> String {
        self.ok(&["cat", &format!("{branch}:files/{path}")])
    }

    fn branches(&self) -> Vec<String> {
        let branches = self.json(&["branch"]);
        let names = branches["branches"].as_array().unwrap().iter();
        let mut names: Vec<String> =
            names.map(|branch| branch["branch"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const THREE: [&str; 3] = ["a=bad", "b=good $(rm -rf /) '\"; {name}", "c=good"];

#[test]
fn the_best_strategy_is_kept_and_the_branches_of_the_others_stay() {
    let place = Place::new();
    let output = place.explore(&THREE, &["--keep", "best"]);
    let (told, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{told}\n{err}");
    assert!(told.contains("b passed, score 27") && told.contains("a failed"), "{told}");
    let kept = fs::read_to_string(place.path("project/answer.txt")).unwrap();
    assert_eq!(kept, "good $(rm -rf /) '\"; {name}", "no shell reads a prompt");
    assert_eq!(fs::read_to_string(place.path("project/kept.txt")).unwrap(), "kept\n");
    assert_eq!(place.branches(), ["a", "b", "c", "main"]);
    assert_eq!(place.file("a", "answer.txt"), "bad");
    for name in ["a", "b", "c"] {
        assert!(!place.path("project-explore").join(name).exists(), "its files are in its branch");
    }
    let state = place.state();
    assert_eq!(state["ranked"], serde_json::json!(["b", "c", "a"]));
    assert_eq!((&state["best"], &state["state"]), (&"b".into(), &"over".into()));
    let compared = place.json(&["compare", "a", "b", "c", "--align"]);
    let checks: Vec<&Value> =
        compared["strategies"].as_array().unwrap().iter().map(|s| &s["checks"]["check"]).collect();
    assert_eq!(checks, [false, true, true]);
    assert_eq!(compared["alignment"]["decision"]["separates"], true);
    // An undo of the merge brings the files back; the exploration stays.
    place.ok(&["undo"]);
    assert_eq!(fs::read_to_string(place.path("project/answer.txt")).unwrap(), "none yet\n");
    assert_eq!(place.state()["best"], "b");
}

#[test]
fn a_kill_at_any_point_is_continued_to_the_same_end() {
    let whole = Place::new();
    assert!(whole.explore(&THREE, &[]).status.success());
    let expected = whole.state();
    for name in ["a", "b", "c"] {
        for moment in ["begin", "files", "end", "check"] {
            let place = Place::new();
            place.set_note("signal", "KILL");
            place.set_note("harm", &format!("{name} {moment}"));
            let output = place.explore(&THREE, &[]);
            assert_eq!(
                output.status.signal(),
                Some(9),
                "{name} {moment}: {}",
                text(&output.stderr)
            );
            let state = place.state();
            assert_eq!(state["state"], "interrupted", "{name} {moment}");
            place.ok(&["explore", "continue"]);
            let mut state = place.state();
            for (trial, was) in state["trials"]
                .as_array_mut()
                .unwrap()
                .iter_mut()
                .zip(expected["trials"].as_array().unwrap())
            {
                // Tokens of an interrupted trial count, so they differ from an undisturbed run.
                trial["tokens"] = was["tokens"].clone();
            }
            state["tokens"] = expected["tokens"].clone();
            assert_eq!(state, expected, "{name} {moment}");
            for other in ["a", "b", "c"] {
                let answer = place.file(other, "answer.txt");
                assert_eq!(answer, whole.file(other, "answer.txt"), "{name} {moment}: {other}");
                assert_eq!(place.file(other, "rounds.txt"), "1\n", "{name} {moment}: {other}");
                let runs = if other == name { "run\nrun\n" } else { "run\n" };
                assert_eq!(place.note(&format!("{other}.runs")), runs, "{name} {moment}: {other}");
                assert_eq!(place.note(&format!("{other}.checks")), "checked\n");
            }
            let history = place.ok(&["log", name]);
            let is_marked = history.contains("starts again");
            assert!(is_marked || moment == "begin", "{name} {moment}: {history}");
            place.ok(&["fsck"]);
        }
    }
}

#[test]
fn a_signal_ends_the_commands_and_the_exploration_continues() {
    let place = Place::new();
    place.set_note("signal", "INT");
    place.set_note("harm", "b files");
    let output = place.explore(&THREE, &[]);
    assert_eq!(output.status.signal(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("'turntree explore continue explore'"));
    let state = place.state();
    let states: Vec<&str> =
        state["trials"].as_array().unwrap().iter().map(|t| t["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["failed", "interrupted", "waiting"]);
    place.ok(&["explore", "continue"]);
    assert_eq!(place.state()["best"], "b");
}

#[test]
fn commands_that_take_too_long_are_ended_and_checked() {
    let place = Place::new();
    let output = place.explore(&["a=hang good"], &["--timeout", "5s"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(place.explore(&["b=fail good", "c=bad"], &[]).status.success());
    let ends = ["explore", "explore-2"].map(|name| place.json(&["explore", "status", name]));
    let ends = ends.iter().flat_map(|state| state["trials"].as_array().unwrap());
    let ends: Vec<(&str, Option<i64>, &str)> = ends
        .map(|t| (t["end"].as_str().unwrap(), t["exit"].as_i64(), t["state"].as_str().unwrap()))
        .collect();
    assert_eq!(
        ends,
        [("timeout", None, "passed"), ("exit", Some(3), "passed"), ("exit", Some(0), "failed")]
    );
    assert_eq!(
        place.file("a", "answer.txt"),
        "hang good",
        "the branch has the files of a command that was ended"
    );
}

#[test]
fn a_spent_budget_ends_commands_and_begins_no_others() {
    let place = Place::new();
    let output = place.explore(&["a=spend good", "b=good"], &["--budget", "10"]);
    assert!(text(&output.stderr).contains("the budget is spent"), "{}", text(&output.stderr));
    let state = place.state();
    assert_eq!(state["trials"][0]["end"], "budget");
    assert_eq!(
        (&state["trials"][1]["state"], &state["state"]),
        (&"waiting".into(), &"interrupted".into())
    );
    place.ok(&["explore", "continue", "--budget", "10k"]);
    let state = place.state();
    assert_eq!((&state["trials"][1]["state"], &state["tokens"]), (&"passed".into(), &22.into()));
    assert_eq!(place.note("a.runs"), "run\n", "a trial that ended is not run again");
}

#[test]
fn later_rounds_continue_the_better_half_or_fork_the_best() {
    let place = Place::new();
    let four = ["a=good", "b=good.", "c=bad", "d=good.."];
    let output = place.explore(&four, &["--search", "halving", "--name", "halves"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let state = place.state();
    let rounds: Vec<(&str, u64)> = state["trials"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| (t["branch"].as_str().unwrap(), t["round"].as_u64().unwrap()))
        .collect();
    assert_eq!(rounds, [("a", 1), ("b", 1), ("c", 1), ("d", 1), ("b", 2), ("d", 2)]);
    assert_eq!(place.file("d", "rounds.txt"), "1\n2\n", "a round continues in the worktree");
    assert_eq!((place.file("a", "rounds.txt"), &state["best"]), ("1\n".to_owned(), &"d".into()));

    let beam = ["e=good", "f=good."];
    let output = place
        .explore(&beam, &["--search", "beam", "--width", "1", "--name", "beam", "--from", "main"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let state = place.state();
    assert_eq!(state["ranked"], serde_json::json!(["f", "f.f", "e", "f.e"]));
    assert_eq!(place.file("f.e", "rounds.txt"), "1\n2\n", "it forks the files of the best");
}

#[test]
fn wrong_explorations_are_refused_before_anything_is_created() {
    let place = Place::new();
    let agent = place.path("agent.sh");
    let agent = agent.to_str().unwrap();
    let refused: [(&[&str], &str); 10] = [
        (&["--strategy", "a=x", "--", "nosuchprogram-7"], "there is no program 'nosuchprogram-7'"),
        (&["--strategy", "a b=x", "--", agent], "no white space"),
        (&["--strategy", "../a=x", "--", agent], "'../a'"),
        (&["--strategy", "-a=x", "--", agent], "-a"),
        (&["--strategy", "a=x", "--strategy", "A=y", "--", agent], "named twice"),
        (&["--strategy", "main=x", "--", agent], "exists already"),
        (&["--", agent], "at least one strategy"),
        (&["--strategy", "a=x", "--budget", "much", "--", agent], "expected tokens"),
        (&["--strategy", "a=x", "--rounds", "3", "--", agent], "best-of has one round"),
        (&["--strategy", "a=x", "--folder", "trees", "--", agent], "is inside the workspace"),
    ];
    for (words, said) in refused {
        let output = place.output(&[&["explore"], words].concat());
        let told = text(&output.stderr);
        assert!(!output.status.success() && told.contains(said), "{words:?}: {told}");
    }
    assert!(!place.path("project/trees").exists());
    fs::create_dir(place.path("locked")).unwrap();
    fs::set_permissions(place.path("locked"), fs::Permissions::from_mode(0o555)).unwrap();
    let is_root = fs::create_dir(place.path("locked/probe")).is_ok();
    if !is_root {
        let folder = place.path("locked/trees");
        let words =
            ["explore", "--strategy", "a=x", "--folder", folder.to_str().unwrap(), "--", agent];
        assert!(place.must(4, &words).contains("locked/trees"));
    }
    assert_eq!(place.branches(), ["main"]);
    assert!(place.must(6, &["explore", "status"]).contains("there is no exploration"));
}

#[test]
fn a_program_that_cannot_be_run_is_an_outcome_of_its_strategy() {
    let place = Place::new();
    fs::write(
        place.path("strategies.toml"),
        format!(
            "[[strategy]]\nname = \"a\"\ncommand = [\"./missing\"]\n\n[[strategy]]\nname = \"b\"\n\
             prompt = \"good\"\ncommand = [\"{}\", \"{{prompt}}\"]\n",
            place.path("agent.sh").display()
        ),
    )
    .unwrap();
    let words = ["explore", "--file", "../strategies.toml", "--check", CHECK, "--", "true"];
    let told = place.ok(&words);
    assert!(told.contains("run './missing'"), "{told}");
    let state = place.state();
    assert_eq!((&state["trials"][0]["end"], &state["best"]), (&"not-started".into(), &"b".into()));
}

#[test]
fn sixty_four_strategies_in_eight_jobs_continue_after_a_kill() {
    let place = Place::new();
    // Each notes its run; one kills the program the first time.
    let agent = r#"echo run >> "$NOTES/$TURNTREE_STRATEGY.runs"
        if [ $TURNTREE_STRATEGY = s30 ] && mkdir "$NOTES/killed" 2>/dev/null; then kill -KILL $PPID; fi
        echo "good $TURNTREE_STRATEGY" > answer.txt"#;
    let names: Vec<String> = (0..64).map(|number| format!("s{number}")).collect();
    let strategies: Vec<String> = names.iter().map(|name| format!("{name}=x")).collect();
    let mut words = vec!["explore", "--jobs", "8", "--check", "grep -q good answer.txt"];
    words.extend(strategies.iter().flat_map(|strategy| ["--strategy", strategy]));
    words.extend(["--", "/bin/sh", "-c", agent]);
    assert_eq!(place.output(&words).status.signal(), Some(9));
    let ended = |state: &Value| {
        let trials = state["trials"].as_array().unwrap().iter();
        trials.filter(|trial| trial["state"] == "passed").count()
    };
    let state = place.state();
    assert_eq!(state["state"], "interrupted");
    let before = ended(&state);
    assert!((20..=31).contains(&before), "{before} had ended when it was killed");
    place.ok(&["explore", "continue"]);
    let state = place.state();
    assert_eq!((&state["state"], ended(&state)), (&"over".into(), 64));
    let mut again = 0;
    for name in &names {
        assert_eq!(place.file(name, "answer.txt"), format!("good {name}\n"));
        again += place.note(&format!("{name}.runs")).lines().count() - 1;
    }
    assert!((1..=8).contains(&again), "{again} of the jobs that ran ran again");
    assert_eq!(place.branches().len(), 65);
}

#[test]
fn two_explorations_at_once_do_not_meet() {
    let place = Place::new();
    let agent = place.path("agent.sh");
    let agent = agent.to_str().unwrap();
    let begun: Vec<_> = ["x", "y"]
        .into_iter()
        .map(|name| {
            let (one, other) = (format!("{name}1=good"), format!("{name}2=bad"));
            let words = [
                "explore",
                "--name",
                name,
                "--check",
                CHECK,
                "--strategy",
                &one,
                "--strategy",
                &other,
                "--",
                agent,
                "{prompt}",
            ];
            place.command(&words).stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut child in begun {
        assert!(child.wait().unwrap().success());
    }
    for name in ["x", "y"] {
        let state = place.json(&["explore", "status", name]);
        assert_eq!(state["ranked"], serde_json::json!([format!("{name}1"), format!("{name}2")]));
    }
    assert_eq!(place.branches(), ["main", "x1", "x2", "y1", "y2"]);
}

#[test]
fn a_worktree_with_files_that_no_snapshot_has_stays() {
    let place = Place::new();
    assert!(place.explore(&["a=bad", "b=good"], &[]).status.success());
    fs::write(place.path("project-explore/a/later.txt"), "mine").unwrap();
    let told = place.ok(&["explore", "keep"]);
    assert!(told.contains("a worktree stays"), "{told}");
    let later = fs::read_to_string(place.path("project-explore/a/later.txt"));
    assert_eq!(later.unwrap(), "mine");
    assert!(!place.path("project-explore/b").exists());
    assert!(place.path("project-explore/b.log").exists(), "the log of its commands stays");
}

#[test]
fn a_process_that_a_command_left_running_can_finish_its_work_and_is_ended_then() {
    let place = Place::new();
    let agent =
        "echo good > answer.txt; (sleep 0.5; echo late > late.txt) & (sleep 60; :) & exit 0";
    let began = std::time::Instant::now();
    let words = ["explore", "--strategy", "a=x", "--check", CHECK, "--", "/bin/sh", "-c", agent];
    place.ok(&words);
    assert!(began.elapsed().as_secs() < 50, "it waits for no process that does not end");
    assert_eq!(place.ok(&["cat", "a:late.txt"]), "late\n");
}

/// A stand-in for Claude Code that resumes a session: it notes how long the transcript is and sends the
/// events of a prompt and of its end.
const RESUMING: &str = r#"#!/bin/sh
set -e
file="$(find "$HOME/.claude/projects" -name "$2.jsonl")"
wc -l < "$file" > "$NOTES/$TURNTREE_STRATEGY.lines"
event() {
  printf '{"hook_event_name":"%s","session_id":"%s","transcript_path":"%s","cwd":"%s","prompt":"go"}' \
    "$1" "$2" "$file" "$PWD" | "$TURNTREE" hook --workspace off
}
printf '{"type":"user","uuid":"u-%s","sessionId":"%s","cwd":"%s","timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"user","content":"try %s"}}\n' \
  "$2" "$2" "$PWD" "$TURNTREE_STRATEGY" >> "$file"
event UserPromptSubmit "$2"
event Stop "$2"
"#;

#[test]
fn an_agent_continues_the_conversation_of_its_branch_and_its_last_turns_are_waited_for() {
    let place = Place::new();
    let agent = place.path("claude");
    fs::write(&agent, RESUMING).unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    let mut words = vec!["explore", "--strategy", "a=x", "--strategy", "b=y", "--check", "true"];
    words.extend(["--", agent.to_str().unwrap(), "--resume", "{session}", "{prompt}"]);
    place.ok(&words);
    for name in ["a", "b"] {
        assert!(place.note(&format!("{name}.lines")).trim().parse::<u32>().unwrap() > 0);
        let words = ["export", name, "--format", "openai"];
        let said: Value = serde_json::from_str(&place.ok(&words)).unwrap();
        let said: Vec<&str> = said["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|message| message["content"].as_str().unwrap_or_default())
            .collect();
        // The branch does not repeat the turns before the fork.
        assert_eq!(said, ["go", &format!("try {name}")], "{name}");
        let log = place.ok(&["log", name, "--json"]);
        let newest: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
        assert_eq!(newest["message"], "the end of its trial", "{log}");
    }
    // Nothing but the branches: a resumed session has none of its own.
    assert_eq!(place.branches(), ["a", "b", "main"]);
}

#[test]
fn agents_find_a_store_that_was_named_by_a_relative_path() {
    let place = Place::new();
    let agent = place.path("agent.sh");
    let words = ["--store", ".turntree", "explore", "--strategy", "one=good", "--check", CHECK];
    place.ok(&[&words[..], &["--", agent.to_str().unwrap(), "{prompt}"]].concat());
    let log = place.ok(&["log", "one", "--oneline"]);
    assert!(log.contains("a turn"), "{log}");
}
