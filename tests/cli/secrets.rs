//! Stored content is shown on request, and never in an error, a warning or a log.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use turntree::maintenance::Pattern;
use turntree::object::{Kind, Object};
use turntree_exchange::{Piece, PieceKind};
use turntree_tests::every_command::{SECRET, STEPS, Shell, Step, failing};
use turntree_tests::open_store;
use turntree_tests::sim::Random;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

fn shell() -> Shell {
    Shell::new(Path::new(PROGRAM), "077")
}

fn has_secret(bytes: &[u8]) -> bool {
    bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes())
}

/// Runs a step. Only steps that show content may print the secret, and only on stdout.
fn silent(shell: &Shell, step: &Step) {
    let output = shell.step(step);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!has_secret(&output.stderr), "{} says: {said}", step.line);
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(step.shows_content || !has_secret(&output.stdout), "{} shows: {shown}", step.line);
}

#[test]
fn no_command_shows_what_it_was_not_asked_for() {
    let shell = shell();
    for step in STEPS {
        silent(&shell, step);
    }
    for line in ["turntree log", "turntree cat HEAD:agents/main/messages", "turntree show HEAD"] {
        assert!(!has_secret(&shell.run(line).stdout), "{line} after the redaction");
    }
    assert!(!shell.run(&format!("grep -rlaF {SECRET} .turntree")).status.success());
}

#[test]
fn no_operation_is_recorded_with_what_was_given_to_it() {
    let shell = shell();
    for step in STEPS.iter().take_while(|step| !step.line.contains("redact")) {
        let _ = shell.step(step);
    }
    let repo = open_store(&shell.store_dir(), 3);
    let mut operations = 0;
    for operation in repo.operations() {
        let operation = operation.unwrap();
        assert!(!format!("{operation:?}").contains(SECRET), "{operation:?}");
        operations += 1;
    }
    assert!(operations > 5);
}

#[test]
fn what_cannot_be_read_is_named_by_its_place() {
    let shell = shell();
    silent(&shell, &STEPS[0]);
    for (number, text) in [
        SECRET.to_owned(),
        format!("\"{SECRET}\""),
        format!("[\"{SECRET}\"]"),
        format!("{{\"{SECRET}\": \"{SECRET}\"}}"),
        format!("{{\"api_key\": \"{SECRET}\""),
        format!("{{\"a\": \"{SECRET}\\u12\"}}"),
    ]
    .into_iter()
    .enumerate()
    {
        fs::write(shell.work().join("bad"), &text).unwrap();
        for line in ["turntree import bad", "turntree import - < bad"] {
            let output = shell.run(line);
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(
                output.status.code() == Some(2) && said.contains("error: "),
                "{number}: {said}"
            );
            assert!(!said.contains(SECRET), "{text}: {said}");
        }
        for format in ["claude-code", "codex", "pi", "opencode", "atif", "openai-chat", "cline"] {
            let output = shell.run(&format!("turntree import bad --format {format}"));
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(!said.contains(SECRET), "{text} as {format}: {said}");
        }
        let output = shell.run("turntree snapshot -m bad --state bad");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!said.contains(SECRET), "{text}: {said}");
        for kind in ["commit", "node", "tag", "operation"] {
            let output = shell.run(&format!("turntree hash-object -t {kind} bad"));
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(!output.status.success() && !said.contains(SECRET), "{kind}: {said}");
        }
    }
}

#[test]
fn a_record_in_a_transcript_that_is_not_understood_is_not_repeated() {
    let shell = shell();
    let session = fs::read_to_string(shell.work().join("session.jsonl")).unwrap();
    for record in [
        format!("{{\"type\": \"{SECRET}\", \"uuid\": \"x\"}}"),
        format!("{{\"type\": \"user\", \"message\": \"{SECRET}\" {SECRET}"),
        format!("{SECRET} is not JSON"),
        format!(
            "{{\"type\": \"user\", \"uuid\": \"x\", \"message\": {{\"role\": \"{SECRET}\", \"content\": 7}}}}"
        ),
    ] {
        fs::write(shell.work().join("odd.jsonl"), format!("{session}{record}\n")).unwrap();
        let output = shell.run("turntree import odd.jsonl");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        assert!(!said.contains(SECRET), "{record}: {said}");
    }
}

#[test]
fn a_state_that_is_refused_is_not_repeated() {
    let shell = shell();
    for state in [
        r#"{"agents": "SECRET"}"#,
        r#"{"agents": {"main": "SECRET"}}"#,
        r#"{"agents": {"main": {"messages": "SECRET"}}}"#,
        r#"{"agents": {"main": {"messages": ["SECRET"]}}}"#,
        r#"{"agents": {"main": {"messages": [{"role": ["SECRET"]}]}}}"#,
        r#"{"files": "SECRET"}"#,
        r#"{"files": {"a": ["SECRET"]}}"#,
        r#"{"files": {"a": {"content": "x", "mode": "SECRET"}}}"#,
        r#"{"files": {"a": {"content": 5, "SECRET": "SECRET"}}}"#,
        r#"{"scratchpad": ["SECRET", SECRET]}"#,
        r#"{"scratchpad": {"a": "SECRET"}"#,
    ] {
        fs::write(shell.work().join("state.json"), state.replace("SECRET", SECRET)).unwrap();
        let output = shell.run("turntree snapshot -m bad --state state.json");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{state}: {said}");
        assert!(!said.contains(SECRET), "{state}: {said}");
    }
}

#[test]
fn a_redaction_never_says_what_it_looks_for() {
    let shell = shell();
    for step in STEPS.iter().take(5) {
        silent(&shell, step);
    }
    let line = |line: &str| line.replace("SECRET", SECRET);
    for (wanted, exit) in [
        ("turntree redact SECRET", 2),
        ("turntree redact SECRET --dry-run", 0),
        ("turntree redact SECRET --dry-run --json", 0),
        ("turntree redact --regex 'SECRET('", 2),
        ("turntree redact --regex 'SECRET[z-a]' --json", 2),
        ("turntree redact --regex 'SECRET|' --yes", 2),
        ("turntree redact --regex '(SECRET){999999999}'", 2),
        ("turntree redact --regex '(?P<SECRET>x)(?P<SECRET>y)'", 2),
        ("turntree redact SECRET --replacement 'not SECRET'", 2),
        ("turntree redact --regex 'SEC\\p{SECRET}'", 2),
        ("turntree redact SECRET --regex x", 2),
    ] {
        let output = shell.run(&line(wanted));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(exit), "{wanted}: {said}");
        assert!(!has_secret(&output.stderr) && !has_secret(&output.stdout), "{wanted}: {said}");
    }
    // An invalid expression is still explained.
    let said = String::from_utf8(shell.run("turntree redact --regex 'a('").stderr).unwrap();
    assert!(said.contains("unclosed group"), "{said}");
}

#[test]
fn a_race_or_an_obstacle_is_told_without_content() {
    let shell = shell();
    for step in STEPS.iter().take(9) {
        silent(&shell, step);
    }
    silent(&shell, &failing(2, "turntree fork plan-b"));
    silent(&shell, &failing(3, "turntree update-ref refs/heads/work/main HEAD~1 HEAD~1"));
    silent(&shell, &failing(6, "turntree cat HEAD:scratchpad/nothing"));
    silent(&shell, &failing(0, "turntree restore HEAD --to out"));
    silent(&shell, &failing(2, "echo changed > out/files/.env; turntree restore HEAD --to out"));
    silent(&shell, &failing(2, "turntree export work --format source -o session.jsonl"));
    silent(&shell, &failing(2, "turntree ls-tree $(turntree rev-parse HEAD:scratchpad/login)"));
    // A policy ref may point to any object.
    let blob = "$(turntree hash-object -w state.json)";
    let line = format!("turntree update-ref refs/retention/work {blob} && turntree gc");
    let output = shell.run(&line);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && !said.contains(SECRET), "{said}");
}

turntree_properties::properties! {
    cases = 4;

    #[test]
    fn damage_of_a_journal_is_told_without_content(seed in any::<u64>()) {
        damage(seed, false)?;
    }

    #[test]
    fn damage_of_packs_is_told_without_content(seed in any::<u64>()) {
        damage(seed, true)?;
    }
}

/// Damages a store, and checks that messages name only the location.
fn damage(seed: u64, pack: bool) -> Result<(), TestCaseError> {
    let shell = shell();
    let mut random = Random(seed);
    let built = STEPS.iter().take(9).filter(|step| !step.line.contains("gc"));
    for step in built {
        silent(&shell, step);
    }
    if pack {
        let _ = shell.run("turntree repack");
    }
    for folder in ["journal", "packs", "."] {
        for entry in fs::read_dir(shell.store_dir().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let Ok(mut bytes) = fs::read(&path) else { continue };
            if bytes.is_empty() || (folder == "." && random.below(4) > 0) {
                continue;
            }
            for _ in 0..=random.below(6) {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
            }
            fs::write(&path, bytes).unwrap();
        }
    }
    for line in [
        "turntree fsck",
        "turntree fsck --json",
        "turntree log",
        "turntree show HEAD",
        "turntree cat HEAD:scratchpad/login",
        "turntree diff HEAD~1 HEAD",
        "turntree restore HEAD --to out",
        "turntree export work --format jsonl",
        "turntree stats",
        "turntree gc",
        "turntree gc --auto; cat .turntree/maintenance.log >&2",
        "turntree repair --dry-run",
        "turntree redact - --yes < secret",
        "turntree repair --accept-loss",
        "turntree fsck",
    ] {
        let output = shell.run(line);
        let said = String::from_utf8_lossy(&output.stderr);
        prop_assert!(!said.contains(SECRET), "{}: {}", line, said);
        prop_assert!(!said.contains("panicked"), "{}: {}", line, said);
    }
    Ok(())
}

#[test]
fn debug_output_shows_lengths_and_no_content() {
    let object = Object { kind: Kind::Blob, bytes: SECRET.into() };
    let pattern = Pattern::literal(SECRET, "gone").unwrap();
    let kind = PieceKind::Record { path: "" };
    let bytes = SECRET.into();
    let piece = Piece { kind, bytes, suffix: SECRET.into(), offset: 0, line: 1, original: None };
    for shown in [format!("{object:?}"), format!("{pattern:?}"), format!("{piece:?}")] {
        assert!(!shown.contains(SECRET), "{shown}");
    }
    assert_eq!(format!("{object:?}"), "Object(blob, 18 bytes)");
}
