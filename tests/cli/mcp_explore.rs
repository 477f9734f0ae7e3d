//! Explorations that an agent starts over MCP, with the command that its user allowed.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use turntree_tests::server_process::{Place, Server};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// The longest wait for an exploration.
const PATIENCE: Duration = Duration::from_secs(120);

/// A stand-in for an agent: it writes its prompt into a file, or waits.
const AGENT: &str = "case \"$1\" in
  hang) echo runs >> runs.txt; while [ ! -f ../go.txt ]; do sleep 0.1; done ;;
esac
printf '%s' \"$1\" > answer.txt";

fn options() -> Vec<&'static str> {
    let check = "grep -q good answer.txt";
    vec!["--workspace", "work", "--check", check, "--", "sh", "-c", AGENT, "sh", "{prompt}"]
}

/// Waits until an exploration has this state.
fn wait_for(server: &mut Server, state: &str) -> Value {
    let began = Instant::now();
    loop {
        let found = server.tool("explore_status", &json!({})).unwrap();
        if found["state"] == state {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{found}");
        sleep(Duration::from_millis(50));
    }
}

fn has_tool(server: &mut Server, name: &str) -> bool {
    let tools = server.call("tools/list", &json!({})).unwrap();
    tools["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == name)
}

#[test]
fn an_agent_tries_strategies_and_keeps_the_best() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(2);
    let mut server = place.mcp(&options());
    let strategies = json!([
        {"name": "one", "prompt": "a bad way"},
        {"name": "two", "prompt": "a good way; $(touch hacked) {dir}"},
    ]);
    let started = server.tool("explore_start", &json!({"strategies": strategies})).unwrap();
    assert_eq!(started["branches"], json!(["one", "two"]));
    assert_eq!(started["into"], "work/main");
    let found = wait_for(&mut server, "over");
    assert_eq!((&found["best"], &found["ranked"]), (&json!("two"), &json!(["two", "one"])));

    server.tool("merge", &json!({"revision": "two"})).unwrap();
    let plan = server.tool("restore", &json!({"revision": "HEAD"})).unwrap();
    server.tool("restore", &json!({"revision": "HEAD", "plan_id": plan["plan_id"]})).unwrap();
    assert_eq!(place.read("answer.txt").as_deref(), Some("a good way; $(touch hacked) {dir}"));
    assert_eq!(place.read("hacked"), None);
    assert_eq!(server.end(), (Some(0), String::new()));
}

#[test]
fn only_the_user_allows_explorations_and_chooses_what_runs() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(2);
    let mut server = place.mcp(&["--workspace", "work"]);
    assert!(!has_tool(&mut server, "explore_start"));
    drop(server.end());
    let refused = place.command(&["mcp", "--read-only", "--", "true"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));

    let mut server = place.mcp(&options());
    let one = |name: &str, prompt: &str| json!({"strategies": [{"name": name, "prompt": prompt}]});
    let with_command = json!({"name": "one", "prompt": "x", "command": ["true"]});
    for (arguments, kind) in [
        // It would be an option of the agent.
        (one("one", "--yolo"), "invalid-input"),
        (one("one", "a\0b"), "invalid-input"),
        (one("-one", "x"), "invalid-input"),
        (one("plan-b", "x"), "invalid-input"),
        (json!({"strategies": []}), "invalid-input"),
        (json!({"strategies": [with_command]}), "invalid-input"),
        (json!({"strategies": [{"name": "one", "prompt": "x"}], "from": "none"}), "not-found"),
    ] {
        let error = server.tool("explore_start", &arguments).unwrap_err();
        assert_eq!(error["error"], kind, "{arguments}: {error}");
    }
    assert_eq!(server.tool("explore_status", &json!({})).unwrap_err()["error"], "not-found");
    drop(server.end());

    let mut inside = place.command(&[&["mcp"], &*options()].concat());
    let mut inside = Server::start(inside.env("TURNTREE_EXPLORATION", "explore"));
    Place::greet(&mut inside);
    let error = inside.tool("explore_start", &one("one", "x")).unwrap_err();
    assert_eq!(error["error"], "unsupported");
}

#[test]
fn one_exploration_runs_at_a_time_and_ends_with_the_server() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(2);
    let mut server = place.mcp(&options());
    let slow = json!({"strategies": [{"name": "slow", "prompt": "hang"}]});
    let started = server.tool("explore_start", &slow).unwrap();
    let runs = format!("{}/slow/runs.txt", started["folder"].as_str().unwrap());
    let began = Instant::now();
    while fs::metadata(&runs).is_err() {
        assert!(began.elapsed() < PATIENCE);
        sleep(Duration::from_millis(20));
    }
    let other = json!({"strategies": [{"name": "other", "prompt": "x"}]});
    assert_eq!(server.tool("explore_start", &other).unwrap_err()["error"], "locked");
    assert_eq!(server.end(), (Some(0), String::new()));

    let mut server = place.mcp(&options());
    let found = wait_for(&mut server, "interrupted");
    assert_eq!(found["trials"][0]["state"], "interrupted");
    // The user may continue it.
    fs::write(runs.replace("slow/runs.txt", "go.txt"), "").unwrap();
    let output = place.command(&["explore", "continue"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(wait_for(&mut server, "over")["trials"][0]["state"], "failed");
}
