//! Old spellings of the commands that moved under `swarm` and `ollm`: hidden, with identical
//! behaviour.

use std::path::Path;

use turntree_tests::every_command::Shell;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// The old spelling and the new one.
const PAIRS: [(&str, &str); 5] = [
    ("reads check HEAD --workspace project", "swarm reads HEAD --workspace project"),
    ("events reconstruct session.jsonl", "swarm events session.jsonl"),
    (
        "restore HEAD --for state.json --preserve-system-prompts",
        "swarm restore HEAD state.json --preserve-system-prompts",
    ),
    (
        "snapshot --usage 7900/8192 --auto-at 0.5 --cooldown 1h --state state.json",
        "ollm snapshot 7900/8192 --auto-at 0.5 --cooldown 1h --state state.json",
    ),
    (
        "snapshot --transition planning:developer --task login --active-tool grep",
        "ollm transition planning:developer --task login --active-tool grep",
    ),
];

/// The output and the exit code of a command in a new store.
fn outcome(line: &str) -> (String, String, Option<i32>) {
    let shell = Shell::new(Path::new(PROGRAM), "022");
    let prepared = shell.run("turntree snapshot -m 'a note' --state other.json");
    assert!(prepared.status.success());
    let output = shell.run(&format!("turntree {line}"));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code())
}

#[test]
fn old_spellings_do_the_same_as_the_new_ones() {
    for (old, new) in PAIRS {
        for json in ["", " --json"] {
            let (old, new) = (format!("{old}{json}"), format!("{new}{json}"));
            assert_eq!(outcome(&old), outcome(&new), "{old}");
        }
    }
}

#[test]
fn old_spellings_are_in_no_help() {
    let shell = Shell::new(Path::new(PROGRAM), "022");
    let help =
        |verb: &str| String::from_utf8(shell.run(&format!("turntree {verb}")).stdout).unwrap();
    let (all, snapshot, restore) =
        (help("--help"), help("snapshot --help"), help("restore --help"));
    assert!(!all.contains("\n  reads") && !all.contains("\n  events"), "{all}");
    for option in ["--usage", "--auto-at", "--cooldown", "--transition", "--active-", "--task"] {
        assert!(!snapshot.contains(option), "{snapshot}");
    }
    for option in ["--for", "--preserve", "--compat", "--output"] {
        assert!(!restore.contains(option), "{restore}");
    }
}
