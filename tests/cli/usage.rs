//! `usage` from the user's view: rows, costs, models without a price, and custom price tables.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;
use turntree_tests::claude_code;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// The cost of an answer of [`transcript`] at the list prices of claude-opus-4-5.
const COST: f64 = (10.0 * 5.0 + 200.0 * 6.25 + 3000.0 * 0.5 + 50.0 * 25.0) / 1e6;

/// A session with an answer in three of four turns, all of `model` and with the same counts.
fn transcript(turns: usize, model: &str) -> String {
    let counts = r#"{"input_tokens":10,"cache_creation_input_tokens":200,"cache_read_input_tokens":3000,"output_tokens":50}"#;
    let told = format!(r#""model":"{model}","usage":{counts}"#);
    claude_code(turns).replace(r#""model":"model-1""#, &told)
}

struct Place {
    root: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    fn command(&self, words: &[&str]) -> Command {
        let root = self.root.path();
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(root).env_clear();
        command.env("HOME", root).env("TURNTREE_STORE", root.join("store"));
        command.envs([("TURNTREE_MAINTENANCE", "off"), ("TURNTREE_ACTOR", "ann")]);
        command.envs([("TURNTREE_NOW", "2026-11-20T12:00:00Z"), ("TZ", "UTC"), ("COLUMNS", "100")]);
        command
    }

    fn output(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn run(&self, words: &[&str]) -> String {
        let output = self.output(words);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn import(&self, session: &str, text: &str) {
        fs::write(self.root.path().join("in.jsonl"), text).unwrap();
        self.run(&["import", "in.jsonl", "--session", session]);
    }

    fn usage(&self, words: &[&str]) -> Value {
        let words: Vec<&str> = ["usage", "--json"].iter().chain(words).copied().collect();
        serde_json::from_str(&self.run(&words)).unwrap()
    }
}

fn is_near(value: &Value, expected: f64) -> bool {
    (value.as_f64().unwrap() - expected).abs() < 1e-6
}

#[test]
fn tokens_and_cost_are_summed_up_by_what_is_asked() {
    let place = Place::new();
    place.import("work", &transcript(9, "claude-opus-4-5-20251101"));
    let found = place.usage(&["work"]);
    assert_eq!(found["by"], "model");
    let row = &found["rows"][0];
    assert_eq!(row["name"], "claude-opus-4-5-20251101");
    assert_eq!((&row["answers"], &row["input"]), (&6.into(), &(6 * 3210).into()));
    assert_eq!((&row["cache_read"], &row["cache_write"]), (&18_000.into(), &1200.into()));
    assert_eq!(row["output"], 300);
    assert!(is_near(&row["cost_usd"], 6.0 * COST));
    assert_eq!(row["recorded_cost_usd"], Value::Null);
    assert_eq!(found["prices"]["file"], Value::Null);

    for (by, name) in [
        ("session", "work"),
        ("branch", "work/main"),
        ("agent", "claude-code/main"),
        ("day", "2026-11-20"),
        ("tool", "Write"),
    ] {
        let found = place.usage(&["work", "--by", by]);
        assert_eq!(found["rows"][0]["name"], name, "{by}");
        assert!(is_near(&found["total"]["cost_usd"], 6.0 * COST), "{by}");
    }
    assert_eq!(place.usage(&["work~4"])["total"]["answers"], 3);
    let since = place.usage(&["work", "--since", "2026-11-20T10:00:05Z"]);
    assert_eq!(since["total"]["answers"], 3);
}

#[test]
fn a_day_is_that_of_this_machine_in_rows_and_in_since() {
    let place = Place::new();
    place.import("work", &transcript(9, "claude-opus-4-5"));
    // All answers are at 10:00 UTC on the 20th.
    for (zone, day, before) in [
        ("UTC", "2026-11-20", "2026-11-21"),
        ("XXX-15", "2026-11-21", "2026-11-22"),
        ("XXX11", "2026-11-19", "2026-11-20"),
    ] {
        let answers = |words: &[&str]| {
            let words = [&["usage", "work", "--by", "day", "--json"], words].concat();
            let output = place.command(&words).env("TZ", zone).output().unwrap();
            let found: Value = serde_json::from_slice(&output.stdout).unwrap();
            let row = &found["rows"][0];
            (row["name"].as_str().unwrap_or_default().to_owned(), row["answers"].as_u64())
        };
        assert_eq!(answers(&[]), (day.to_owned(), Some(6)), "{zone}");
        assert_eq!(answers(&["--since", day]), (day.to_owned(), Some(6)), "{zone}");
        assert_eq!(answers(&["--since", before]), (String::new(), None), "{zone}");
    }
}

#[test]
fn a_session_that_grows_and_a_copy_of_it_are_counted_once() {
    let place = Place::new();
    place.import("work", &transcript(5, "claude-opus-4-5"));
    assert_eq!(place.usage(&["--all"])["total"]["answers"], 3);
    assert_eq!(place.usage(&["--all"])["total"]["answers"], 3);
    place.import("work", &transcript(9, "claude-opus-4-5"));
    assert_eq!(place.usage(&["--all"])["total"]["answers"], 6);
    place.import("resumed", &transcript(13, "claude-opus-4-5"));
    let all = place.usage(&["--all"]);
    assert_eq!(all["total"]["answers"], 9);
    assert_eq!(all["rows"].as_array().unwrap().len(), 2);
    assert_eq!(place.usage(&["resumed"])["total"]["answers"], 9);
}

#[test]
fn what_a_session_took_is_not_taken_for_that_of_one_that_begins_in_it() {
    let place = Place::new();
    place.import("work", &transcript(9, "claude-opus-4-5"));
    let there = place.root.path().to_str().unwrap();
    place.run(&["resume", "work^{turn:5}", "--cwd", there]);
    let all = place.usage(&["--all", "--by", "session"]);
    let rows = all["rows"].as_array().unwrap();
    assert_eq!((&rows[0]["name"], &rows[0]["answers"], rows.len()), (&"work".into(), &6.into(), 1));
}

#[test]
fn what_a_rollback_took_back_is_told_apart() {
    let place = Place::new();
    place.import("work", &transcript(9, "claude-opus-4-5"));
    assert_eq!(place.usage(&["work"])["left_behind"]["answers"], 0);
    place.run(&["rollback", "--turns", "3"]);
    let found = place.usage(&["work"]);
    assert_eq!(found["total"]["answers"], 6);
    assert_eq!(found["left_behind"]["answers"], 2);
    assert!(is_near(&found["left_behind"]["cost_usd"], 2.0 * COST));
    assert!(place.run(&["usage", "work"]).contains("left behind by rollbacks and rewinds: "));
    // A branch that continues from there includes them again.
    place.run(&["fork", "kept", "HEAD~1"]);
    assert_eq!(place.usage(&["work"])["left_behind"]["answers"], 0);
}

#[test]
fn a_model_without_a_price_has_no_cost() {
    let place = Place::new();
    place.import("known", &transcript(5, "claude-opus-4-5"));
    let other = transcript(5, "a-model-of-mine").replace("msg-", "other-");
    place.import("own", &other);
    let own = place.usage(&["own"]);
    assert_eq!(own["total"]["cost_usd"], Value::Null);
    assert_eq!(own["unpriced_models"][0], "a-model-of-mine");
    let text = place.run(&["usage", "own"]);
    assert!(text.lines().nth(1).unwrap().trim_end().ends_with(" -"), "{text}");
    let all = place.usage(&["--all"]);
    assert!(is_near(&all["total"]["cost_usd"], 3.0 * COST));
    assert_eq!(all["total"]["unpriced_tokens"], 3 * 3260);
    assert!(place.run(&["usage", "--all"]).contains("no price for 9780 tokens of a-model-of-mine"));
}

#[test]
fn a_table_of_ones_own_replaces_that_of_the_program() {
    let place = Place::new();
    place.import("own", &transcript(5, "a-model-of-mine"));
    let table = "date = '2027-01-01'\n[models.'a-model-*']\ninput = 1\noutput = 2\n\
                 cache_read = 1\ncache_write = 1\n";
    let file = place.root.path().join("mine.toml");
    fs::write(&file, table).unwrap();
    let expected = 3.0 * (3210.0 + 100.0) / 1e6;
    let found = place.usage(&["own", "--prices", "mine.toml"]);
    assert!(is_near(&found["total"]["cost_usd"], expected));
    assert_eq!(found["prices"]["date"], "2027-01-01");
    assert_eq!(found["prices"]["file"], "mine.toml");

    let settings = place.root.path().join(".config/turntree");
    fs::create_dir_all(&settings).unwrap();
    fs::write(settings.join("prices.toml"), table).unwrap();
    assert!(is_near(&place.usage(&["own"])["total"]["cost_usd"], expected));

    fs::write(&file, "[models.m]\ninput = 'much'\n").unwrap();
    let refused = place.output(&["usage", "own", "--prices", "mine.toml"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("mine.toml"));
    let missing = place.output(&["usage", "own", "--prices", "nowhere.toml"]);
    assert_eq!(missing.status.code(), Some(6));
}
