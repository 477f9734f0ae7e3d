//! Third-party clients, and those of `examples/`, against the servers. The test of a missing client
//! prints that it is skipped; `.ci/run` installs them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use turntree_tests::server_process::Place;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The path of an npm program, if `.ci/run` has installed it.
fn npm(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("TURNTREE_NODE_MODULES").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| root().join("target/clients/node_modules"));
    Some(folder.join(".bin").join(name)).filter(|path| path.exists())
}

fn runs(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

fn skipped(what: &str) {
    eprintln!("skipped: {what} is not installed");
}

/// The arguments of scripts: the program, the store, the workspace, a payload.
fn told(place: &Place, payload: &str) -> [String; 4] {
    let inside = |name: &str| place.path().join(name).display().to_string();
    [PROGRAM.to_owned(), inside("store"), inside("work"), payload.to_owned()]
}

fn succeeds(command: &mut Command) -> Output {
    let output = command.env("TURNTREE_MAINTENANCE", "off").output().unwrap();
    let said = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said));
    assert!(output.status.success(), "{}\n{}", said[0], said[1]);
    output
}

fn python(script: &str) {
    let place = Place::new(PROGRAM);
    let payload = place.with_turns(3);
    let script = root().join("tests/clients").join(script);
    let mut command = Command::new("python3");
    succeeds(command.arg(script).args(told(&place, &payload)).env("PYTHONDONTWRITEBYTECODE", "1"));
}

#[test]
fn the_official_python_client_uses_every_tool() {
    match runs("python3", &["-c", "import mcp.client.stdio"]) {
        true => python("official_mcp.py"),
        false => skipped("the Python package mcp"),
    }
}

#[test]
fn the_python_client_of_the_examples_works() {
    match runs("python3", &["-c", ""]) {
        true => python("example_client.py"),
        false => skipped("python3"),
    }
}

#[test]
fn the_inspector_lists_and_calls() {
    let Some(inspector) = npm("mcp-inspector") else { return skipped("the MCP inspector") };
    let place = Place::new(PROGRAM);
    let payload = place.with_turns(2);
    let ask = |words: &[&str]| -> Value {
        let [program, store, work, _] = told(&place, &payload);
        let server = ["--cli", &program, "--store", &store, "mcp", "--workspace", &work];
        let mut command = Command::new(&inspector);
        let output = succeeds(command.args(server).args(words).current_dir(place.path()));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let listed = ask(&["--method", "tools/list"]);
    assert!(listed["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "restore"));
    let words = ["--method", "tools/call", "--tool-name", "log", "--tool-arg", "limit=1"];
    let logged = ask(&words);
    assert_eq!(logged["structuredContent"]["snapshots"][0]["turn"], 2, "{logged}");
    let read = ask(&["--method", "resources/read", "--uri", &payload]);
    assert!(read["contents"][0]["text"].as_str().unwrap().starts_with("line ä\n"));
}

#[test]
fn the_typescript_client_of_the_examples_works() {
    let place = Place::new(PROGRAM);
    let folder = place.path().join("client");
    std::fs::create_dir(&folder).unwrap();
    let script = folder.join("example_client.ts");
    let client = root().join("examples/typescript/turntree_client.ts");
    std::fs::copy(client, folder.join("turntree_client.ts")).unwrap();
    std::fs::copy(root().join("tests/clients/example_client.ts"), &script).unwrap();
    std::fs::write(folder.join("package.json"), r#"{"type": "module"}"#).unwrap();
    let mut node = Command::new("node");
    if runs("node", &["--experimental-strip-types", "-e", ""]) {
        node.args(["--no-warnings", "--experimental-strip-types"]).arg(script);
    } else if let Some(tsc) = npm("tsc").filter(|_| runs("node", &["--version"])) {
        let options = ["--noCheck", "--rewriteRelativeImportExtensions", "--target", "es2022"];
        let modules = ["--module", "nodenext"];
        succeeds(Command::new(tsc).args(options).args(modules).arg(&script).current_dir(&folder));
        node.arg(script.with_extension("js"));
    } else {
        return skipped("a node that strips types, or tsc");
    }
    let payload = place.with_turns(3);
    succeeds(node.args(told(&place, &payload)));
}
