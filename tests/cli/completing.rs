//! What the shell offers: paths of entries, titles, agents; and the script of bash, which splits
//! words at colons.

use std::process::Command;

use turntree_tests::server_process::Place;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// The values that a shell offers for the last word.
fn offered(place: &Place, words: &[&str]) -> Vec<String> {
    let mut command = Command::new(PROGRAM);
    command.args(["--", "turntree"]).args(words).current_dir(place.path());
    command.env("COMPLETE", "fish").env("TURNTREE_STORE", place.path().join("store"));
    command.env_remove("TURNTREE_BRANCH").env_remove("CLAUDE_CODE_SESSION_ID");
    let output = command.output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let values = text.lines().map(|line| line.split('\t').next().unwrap().to_owned());
    values.filter(|value| !value.starts_with('-')).collect()
}

fn sample() -> Place {
    let place = Place::new(PROGRAM);
    std::fs::create_dir_all(place.path().join("work/src/deep")).unwrap();
    place.write("src/main.rs", "a");
    place.write("src/deep/lib.rs", "b");
    let _ = place.with_turns(2);
    let _ = place.run(&["session", "rename", "work", "Fix the parser: keep `quotes`"]);
    place
}

#[test]
fn paths_of_entries_follow_a_revision_level_by_level() {
    let place = sample();
    for (words, expected) in [
        (&["show", "HEAD:fi"][..], &["HEAD:files/"][..]),
        (&["cat", "HEAD:files/s"], &["HEAD:files/src/"]),
        (&["cat", "turn:1:files/src/"], &["turn:1:files/src/deep/", "turn:1:files/src/main.rs"]),
        (&["blame", "work:src/m"], &["work:src/main.rs"]),
        (&["restore", "HEAD~1:notes"], &["HEAD~1:notes.txt"]),
        (&["ls", "HEAD:agents/"], &["HEAD:agents/main/"]),
        (&["cat", "src/"], &["src/deep/", "src/main.rs"]),
        (&["log", "--path", "src/d"], &["src/deep/"]),
        (&["restore", "HEAD", "--only", "scr"], &["scratchpad/"]),
        (&["resume", "HEAD", "--in", "co"], &["codex"]),
    ] {
        assert_eq!(offered(&place, words), expected, "{words:?}");
    }
    assert_eq!(
        offered(&place, &["resume", "HEAD", "--in", ""]),
        ["claude-code", "codex", "gemini-cli", "opencode", "pi"]
    );
    assert!(offered(&place, &["show", "nosuch:fi"]).is_empty());
}

#[test]
fn a_title_is_completed_and_names_its_session() {
    let place = sample();
    for typed in ["fix", "Fix the p"] {
        let [title] = &*offered(&place, &["switch", typed]) else { panic!("{typed}: one title") };
        assert!(title.starts_with(typed), "{title}");
        assert_eq!(title.to_lowercase(), "fix the parser: keep `quotes`");
        let _ = place.run(&["switch", title]);
        let _ = place.run(&["log", "--session", title]);
        assert_eq!(offered(&place, &["log", "--session", typed]), std::slice::from_ref(title));
    }
    assert!(offered(&place, &["switch", "Fi"]).is_empty(), "two characters never name a session");
}

/// Runs the script of bash with the words as bash splits them; returns its replies.
#[cfg(unix)]
fn replies(place: &Place, line: &str, words: &[&str], last: &str) -> Option<Vec<String>> {
    let bin = place.path().join("bin");
    let _ = std::fs::create_dir(&bin);
    let _ = std::os::unix::fs::symlink(PROGRAM, bin.join("turntree"));
    let quoted: Vec<String> =
        words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
    let line_word = format!("'{}'", line.replace('\'', "'\\''"));
    let (words_in_line, point, at) = (quoted.join(" "), line.len(), words.len() - 1);
    let script = format!(
        "eval \"$(turntree completions bash)\"\n\
         COMP_LINE={line_word} COMP_POINT={point} COMP_CWORD={at} COMP_TYPE=9\n\
         COMP_WORDS=({words_in_line})\n\
         _turntree turntree '{last}' x\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
    );
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command.args(["--norc", "-c", &script]).current_dir(place.path()).env("PATH", path);
    command.env("TURNTREE_STORE", place.path().join("store")).env_remove("TURNTREE_BRANCH");
    let output = command.output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

#[cfg(unix)]
#[test]
fn bash_completes_words_that_it_splits() {
    let place = sample();
    for (line, words, last, expected) in [
        (
            "turntree show HEAD:",
            &["turntree", "show", "HEAD", ":"][..],
            "",
            &["agents/", "files/", "notes.txt", "scratchpad/", "src/"][..],
        ),
        ("turntree show HEAD:fi", &["turntree", "show", "HEAD", ":", "fi"], "fi", &["files/"]),
        (
            "turntree cat turn:1:files/src/m",
            &["turntree", "cat", "turn", ":", "1", ":", "files/src/m"],
            "files/src/m",
            &["files/src/main.rs"],
        ),
        (
            "turntree resume HEAD --in=co",
            &["turntree", "resume", "HEAD", "--in", "=", "co"],
            "co",
            &["codex"],
        ),
        (
            "turntree switch fix",
            &["turntree", "switch", "fix"],
            "fix",
            &["fix\\ the\\ parser:\\ keep\\ \\`quotes\\`"],
        ),
        (
            "turntree switch 'fix th",
            &["turntree", "switch", "'fix th"],
            "fix th",
            &["fix the parser: keep `quotes`"],
        ),
    ] {
        let Some(replies) = replies(&place, line, words, last) else {
            eprintln!("skipped: there is no bash");
            return;
        };
        assert_eq!(replies, expected, "{line}");
    }
}
