//! What a person merges into the branch of a running conversation reaches its agent at the next prompt.

use serde_json::{Value, json};
use turntree_tests::chat::Chat;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");
const FLAGS: &[&str] = &[];

fn begun() -> Chat {
    let mut chat = Chat::begin(PROGRAM, FLAGS, &[("a", "1")]);
    chat.ask("one", "b", "1");
    chat.run(&["fork", "plan-b", "s-1/main"]);
    let append = ["--append-message", "assistant=the cache is never read"];
    chat.run(&[&["snapshot", "-m", "looked", "--branch", "s-1/plan-b"], &append[..]].concat());
    chat.ask("two", "b", "2");
    chat
}

/// The text for the agent in an answer.
fn context(told: Option<Value>) -> String {
    let told = told.unwrap_or_default();
    let context = &told["hookSpecificOutput"]["additionalContext"];
    context.as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_merge_into_a_running_conversation_is_told_once() {
    let mut chat = begun();
    let summary = ["--messages", "summary", "--summary", "the cache is useless"];
    let merge = [&["merge", "s-1/plan-b", "--into", "s-1/main"], &summary[..]].concat();
    chat.run(&merge);
    let told = context(chat.ask("three", "b", "3"));
    assert!(told.contains("merged s-1/plan-b") && told.contains("the cache is useless"), "{told}");
    assert!(!told.contains("never read"), "{told}");
    assert_eq!(context(chat.ask("four", "b", "4")), "");
    // Another client session that begins on the branch has it in its context.
    assert_eq!(context(chat.event("SessionStart", json!({"source": "resume"}))), "");
}

#[test]
fn a_pick_into_a_running_conversation_is_told_with_its_files() {
    let mut chat = begun();
    // In the middle of the work of the agent.
    chat.prompt("three");
    chat.run(&["cherry-pick", "s-1/plan-b", "--into", "s-1/main"]);
    chat.write("b", "3");
    chat.stop("three: done");
    let told = context(chat.ask("four", "b", "4"));
    assert!(told.contains("the cache is never read"), "{told}");
    assert_eq!(context(chat.ask("five", "b", "5")), "");
}
