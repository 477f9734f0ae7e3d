//! Imported files are untrusted: they are only read, within limits, and no path in them is opened.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use turntree_tests::claude_code;
use turntree_tests::every_command::Shell;

fn shell() -> Shell {
    Shell::new(Path::new(env!("CARGO_BIN_EXE_turntree-under-test")), "077")
}

/// The exit code of a line, and its stderr.
fn run(shell: &Shell, line: &str) -> (Option<i32>, String) {
    let output = shell.run(line);
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn invalid_transcripts_are_rejected_without_creating_a_store() {
    let shell = shell();
    let _socket = UnixListener::bind(shell.work().join("socket")).unwrap();
    symlink("nowhere", shell.work().join("dangling")).unwrap();
    symlink("loop", shell.work().join("loop")).unwrap();
    for (file, exit, expected) in [
        ("project", 2, "project is a directory"),
        ("socket", 70, "open socket"),
        ("dangling", 6, "dangling does not exist"),
        ("loop", 70, "open loop"),
        ("secret", 2, "unknown format"),
    ] {
        let (code, said) = run(&shell, &format!("turntree import {file}"));
        assert_eq!(code, Some(exit), "{file}: {said}");
        assert!(said.contains(expected), "{file}: {said}");
        assert!(!shell.store_dir().join("superblock").exists(), "{file}");
    }
}

#[test]
fn endless_files_are_rejected_at_their_limits() {
    let shell = shell();
    let (code, said) = run(&shell, "turntree import /dev/null");
    assert!(code == Some(2) && said.contains("is empty"), "{said}");
    let (code, said) = run(&shell, "turntree import /dev/zero");
    assert!(code == Some(2) && said.contains("unknown format"), "{said}");
    // Read as lines, the first line exceeds the limit.
    let (code, said) = run(&shell, "turntree import /dev/zero --format claude-code");
    assert!(code == Some(2) && said.contains("over the limit"), "{said}");
    // An endless input of lines without records is refused too, also in an existing session.
    let head = r#"echo '{"type":"user","uuid":"a","sessionId":"s","message":{"role":"user","content":"b"}}'"#;
    assert_eq!(run(&shell, &format!("{head} | turntree import - --session s")).0, Some(0));
    let refs = shell.run("turntree show-ref").stdout;
    for endless in ["yes ''", "yes y"] {
        let line = format!("({head}; {endless}) | turntree import - --session s");
        let (code, said) = run(&shell, &line);
        assert!(code == Some(2) && said.contains("without a record up to line"), "{said}");
    }
    assert_eq!(shell.run("turntree show-ref").stdout, refs);
}

#[test]
fn pipes_in_a_workspace_are_skipped() {
    let shell = shell();
    assert!(shell.run("mkfifo project/pipe").status.success());
    let (code, said) = run(&shell, "turntree snapshot -m x --workspace project");
    assert!(code == Some(0) && said.contains("neither a file nor a link"), "{said}");
    assert!(shell.run("turntree cat HEAD:files/config | cmp - project/config").status.success());
}

#[test]
fn transcripts_are_read_from_pipes_and_links() {
    let shell = shell();
    symlink("session.jsonl", shell.work().join("link")).unwrap();
    for line in [
        "mkfifo pipe; cat session.jsonl > pipe & turntree import pipe --session a",
        "cat session.jsonl | turntree import /dev/stdin --session b",
        "turntree import link --session c",
    ] {
        let (code, said) = run(&shell, line);
        assert_eq!(code, Some(0), "{line}: {said}");
    }
    for session in ["a", "b", "c"] {
        let line = format!("turntree export {session} --format source | cmp - session.jsonl");
        assert!(shell.run(&line).status.success());
    }
}

/// An import that opened a path of this transcript would block forever, or store a file that was
/// not given.
#[test]
fn import_opens_no_paths_from_a_transcript() {
    let shell = shell();
    assert!(shell.run("mkfifo pipe; mkdir -p src; echo 'not given' > beside").status.success());
    let root = shell.work();
    for name in ["pipe", "beside", "../work/beside"] {
        let path = root.join(name).display().to_string();
        let mut text = claude_code(12);
        for part in 0..5 {
            text = text.replace(&format!("/project/src/part_{part}.rs"), &path);
        }
        text = text.replace("\"cwd\":\"/project\"", &format!("\"cwd\":\"{}\"", root.display()));
        fs::write(root.join("hostile.jsonl"), text).unwrap();
        let (code, said) = run(&shell, "turntree import hostile.jsonl");
        assert_eq!(code, Some(0), "{said}");
    }
    assert_eq!(run(&shell, "turntree repack").0, Some(0));
    let stored = shell.run("turntree ls HEAD:files; turntree cat HEAD:files/beside").stdout;
    assert!(!String::from_utf8(stored).unwrap().contains("not given"));
}
