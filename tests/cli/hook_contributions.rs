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

#[test]
fn a_conversation_without_a_turn_since_the_fork_goes_on_after_a_merge() {
    let mut chat = Chat::begin(PROGRAM, FLAGS, &[("a", "1")]);
    chat.ask("one", "b", "1");
    chat.run(&["fork", "plan-b", "s-1/main"]);
    let own = chat.client.transcript.clone();
    chat.turn_to("s-1/plan-b", "plan-b.jsonl");
    chat.ask("measure", "c", "1");
    let strategy = chat.tip("s-1/plan-b");

    (chat.client.branch, chat.client.transcript) = (None, own);
    chat.run(&["merge", "s-1/plan-b", "--into", "s-1/main"]);
    let told = context(chat.ask("two", "b", "2"));
    assert!(told.contains("merged s-1/plan-b") && told.contains("measure: done"), "{told}");
    assert!(told.contains("files: c"), "{told}");
    let repo = chat.client.repo();
    let branches: Vec<_> = repo.branches().into_iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(branches, ["s-1/main", "s-1/plan-b"]);
    let shown = chat.run(&["export", "s-1/main", "--format", "markdown"]);
    let said = ["one: done", "measure: done", "two: done"].map(|said| shown.find(said).unwrap());
    assert!(said.is_sorted(), "{said:?}");
    assert_eq!(context(chat.ask("three", "b", "3")), "");

    // The client of the other branch records on that branch.
    let main = chat.tip("s-1/main");
    chat.turn_to("s-1/plan-b", "plan-b.jsonl");
    chat.ask("measure again", "c", "2");
    assert_eq!(chat.tip("s-1/main"), main);
    assert_ne!(chat.tip("s-1/plan-b"), strategy);
}

#[test]
fn a_summary_stands_for_the_other_conversation_also_without_a_turn_since_the_fork() {
    let mut chat = Chat::begin(PROGRAM, FLAGS, &[("a", "1")]);
    chat.ask("one", "b", "1");
    chat.run(&["fork", "plan-b", "s-1/main"]);
    let append = ["--append-message", "assistant=the cache is never read"];
    chat.run(&[&["snapshot", "-m", "looked", "--branch", "s-1/plan-b"], &append[..]].concat());
    let summary = ["--messages", "summary", "--summary", "the cache is useless"];
    chat.run(&[&["merge", "s-1/plan-b", "--into", "s-1/main"], &summary[..]].concat());
    let told = context(chat.ask("two", "b", "2"));
    assert!(told.contains("the cache is useless") && !told.contains("never read"), "{told}");
}
