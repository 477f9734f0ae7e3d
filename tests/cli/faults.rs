//! A fault of the program itself ends it with the promised code, and never stops an agent.

use std::process::{Command, Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// Runs the program in an environment that cannot start threads, which makes the standard library
/// panic.
fn without_threads(arguments: &[&str]) -> Output {
    let home = tempfile::tempdir().unwrap();
    let mut program = Command::new(PROGRAM);
    program.args(arguments).current_dir(home.path()).env("HOME", home.path());
    program.env("RUST_MIN_STACK", (1_u64 << 60).to_string());
    program.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_panic_is_one_message_and_exit_code_70() {
    let plain = without_threads(&["serve", "--stdio"]);
    let said = String::from_utf8(plain.stderr).unwrap();
    assert_eq!(plain.status.code(), Some(70), "{said}");
    assert!(said.starts_with("error: internal error of turntree at "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");

    let json = without_threads(&["--json", "serve", "--stdio"]);
    assert_eq!(json.status.code(), Some(70));
    let record: serde_json::Value = serde_json::from_slice(&json.stderr).unwrap();
    assert_eq!(record["error"], "internal");
}

#[test]
fn a_panic_in_a_hook_is_none_of_the_agents_business() {
    let hook = without_threads(&["hook"]);
    let (stdout, stderr) = (hook.stdout.as_slice(), String::from_utf8_lossy(&hook.stderr));
    assert_eq!((hook.status.code(), stdout, &*stderr), (Some(0), b"".as_slice(), ""));
}
