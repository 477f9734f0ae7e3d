//! An export of a long session needs no more memory than one of a short session.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use turntree_tests::{claude_code_of_noise, github_token};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// Bytes that the peaks may differ by.
const MAX_GROWTH: u64 = 8 << 20;

/// Bytes of memory for a training export of any size: less than its document and the caches of a store
/// together.
const MAX_BYTES: u64 = 64 << 20;

fn program(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(words).current_dir(folder).stdin(Stdio::null()).env_clear();
    command.env("HOME", folder.join("home")).env("TURNTREE_MAINTENANCE", "off");
    command
}

/// A folder with a store that has a transcript of `turns` turns of some 100 KB.
fn imported(turns: usize) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let text = claude_code_of_noise(turns, 10_000);
    fs::write(folder.path().join("session.jsonl"), &text).unwrap();
    for words in [&["init"][..], &["import", "session.jsonl", "--session", "work"]] {
        assert!(program(folder.path(), words).output().unwrap().status.success());
    }
    (folder, text)
}

/// Runs the program with its output in the file `stdout`. Returns its peak memory in bytes, without
/// the pages of files that it maps.
fn peak(folder: &Path, words: &[&str]) -> u64 {
    let out = File::create(folder.join("stdout")).unwrap();
    let mut child = program(folder, words).stdout(out).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        let known = fs::read_to_string(&status).unwrap_or_default();
        let line = known.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kilobytes = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
        peak = peak.max(kilobytes.unwrap_or_default() << 10);
        if let Some(ended) = child.try_wait().unwrap() {
            assert!(ended.success(), "{words:?}");
            return peak;
        }
    }
}

#[test]
fn the_memory_of_an_export_does_not_grow_with_the_session() {
    let (short, long) = (imported(168), imported(300));
    for to_file in [false, true] {
        // The scan for secrets reads windows of a fixed size, and takes a minute in a debug build.
        let words =
            ["export", "work", "--format", "source", "--allow-secrets", "-o", "out", "--force"];
        let words = if to_file { &words[..] } else { &words[..5] };
        let peaks = [&short, &long].map(|(folder, _)| peak(folder.path(), words));
        assert!(peaks[1] < peaks[0] + MAX_GROWTH, "to a file: {to_file}: {peaks:?}");
        let name = if to_file { "out" } else { "stdout" };
        let exported = fs::read(long.0.path().join(name)).unwrap();
        assert!(exported == long.1.as_bytes(), "to a file: {to_file}");
    }
}

#[test]
fn a_document_of_a_whole_conversation_is_never_in_memory() {
    let (folder, text) = imported(400);
    // The document is one line, but the scan for secrets reads it message by message.
    let peak = peak(folder.path(), &["export", "work", "--format", "sft"]);
    assert!(peak < MAX_BYTES, "{peak}");
    let exported = fs::metadata(folder.path().join("stdout")).unwrap().len();
    assert!(exported > text.len() as u64 / 2 && exported > MAX_BYTES / 2, "{exported}");
}

#[test]
fn a_secret_anywhere_in_a_long_session_is_found_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let text = claude_code_of_noise(60, 10_000);
    let lines = text.lines().count();
    for at in [0, lines / 2, lines - 1] {
        let token = github_token(7);
        let place = folder.path().join(at.to_string());
        fs::create_dir(&place).unwrap();
        let mut changed: Vec<String> = text.lines().map(str::to_owned).collect();
        changed[at] =
            changed[at].replacen("\"content\":", &format!("\"note\":\"{token}\",\"content\":"), 1);
        fs::write(place.join("session.jsonl"), changed.join("\n") + "\n").unwrap();
        let run = |words: &[&str]| program(&place, words).output().unwrap();
        assert!(run(&["init"]).status.success());
        assert!(run(&["import", "session.jsonl", "--session", "work"]).status.success());
        let export = ["export", "work", "--format", "source", "-o", "out"];
        for words in [&export[..4], &export[..]] {
            let refused = run(words);
            assert_eq!(refused.status.code(), Some(1), "{at}");
            assert!(refused.stdout.is_empty() && !place.join("out").exists(), "{at}");
        }
        let masked = run(&["export", "work", "--format", "source", "--scrub"]);
        assert!(masked.status.success());
        assert!(!String::from_utf8(masked.stdout).unwrap().contains(&token));
    }
}
