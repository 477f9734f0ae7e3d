//! Every command that a hint, a tip or the help names is one that the program understands, and does
//! what the hint says on a store with content.
//!
//! The commands are those in quotes in the sources: `'turntree log -n 3'`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use turntree_tests::server_process::Place;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// Commands that are not run: why, and the beginning of the hint.
const NOT_RUN: &[(&str, &str)] = &[
    ("waits for changes", "adopt --watch"),
    ("starts a service", "adopt install"),
    ("starts a service", "adopt uninstall"),
    ("serves a page", "view"),
    ("needs a terminal", "ui"),
    ("needs a member of an encrypted remote", "remote members NAME add KEY"),
    ("an option alone", "key rm --keep-key"),
    ("is for a store in which a bisect runs", "cat $TURNTREE_REV"),
    ("waits for another machine", "push --remote"),
    ("needs an exploration", "explore continue"),
    ("needs an exploration", "explore keep"),
    ("needs an exploration", "explore status"),
    ("runs a command", "explore --strategy"),
    ("an option alone", "tag --delete"),
    ("an option alone", "export --partial"),
    ("an option alone", "export --format swarm-snapshot"),
    ("an option alone", "fork --worktree"),
    ("needs a branch with a directory", "branch --delete NAME --worktree"),
    ("needs a branch with a directory", "branch --delete {} --worktree"),
    ("needs a conflict", "cat HEAD:conflicts"),
    ("a topic of the help, which takes no options", "help revisions"),
];

/// Hints whose placeholders stand for something else than elsewhere.
const SPECIAL: &[(&str, &str)] = &[
    ("outline{branch}", "outline work"),
    ("import FILE", "import session.jsonl"),
    ("adopt DIR", "adopt agents"),
    ("bundle unbundle FILE", "bundle unbundle all.bundle"),
    ("bundle verify --repair {name}", "bundle verify --repair all.bundle"),
    ("tag NAME REV -m TEXT", "tag new HEAD -m TEXT"),
    ("fork NAME", "fork new"),
    ("fork NAME [REV]", "fork new HEAD"),
    ("fork NAME --switch", "fork new --switch"),
    ("fork NAME --worktree DIR", "fork new --worktree ../new-directory"),
    ("branch -m OLD NEW", "branch -m plan-b new"),
    ("branch --rename OLD NEW", "branch --rename plan-b new"),
    ("remote add NAME URL", "remote add new ../remote"),
    ("trust DIR", "trust project"),
    ("trust {folder}", "trust project"),
    ("undo {operation}", "undo --dry-run"),
    ("redact --secret {id} --dry-run", "redact --secret all --dry-run"),
    ("redact --secret {id}", "redact --secret all --dry-run"),
    ("secrets allow {id}", "secrets allow github-pat"),
    ("rollback --to-turn {turn}", "rollback --to-turn 1 --no-lesson --only conversation"),
    (
        "restore {branch} --session {} --branch {}",
        "restore plan-b --session work --branch main --only conversation -n",
    ),
    ("rollback --turns 1", "rollback --turns 1 --only conversation"),
    ("merge {label} --into {} --with-files", "merge plan-b --into main --dry-run"),
    ("log {branch}", "log plan-b"),
    ("log {name} --until {time} -n 1", "log main --until today -n 1"),
    ("resolve PATH --take FILE", "resolve --json"),
    ("resolve {path} --take ours", "resolve --json"),
    ("resolve --branch SESSION/BRANCH", "resolve --branch work/main"),
    ("resume {beside}", "resume HEAD --in codex --cwd . --dry-run"),
    ("resume {branch}", "resume HEAD --in codex --cwd . --dry-run"),
    ("resume {id}", "resume HEAD --in codex --cwd . --dry-run"),
    ("resume {}", "resume HEAD --in codex --cwd . --dry-run"),
    ("resume REV", "resume HEAD --in codex --cwd . --dry-run"),
    ("resume SESSION", "resume work --in codex --cwd . --dry-run"),
    ("resume REV --in AGENT", "resume HEAD --in codex --cwd . --dry-run"),
    ("vfs get URI", "vfs ls"),
    (
        r#"snapshot -m \"the rest\" --branch {branch} --workspace {}"#,
        "snapshot -m x --branch plan-b --workspace work",
    ),
    ("snapshot --workspace .", "snapshot --workspace work"),
    ("snapshot --workspace . -m TEXT", "snapshot --workspace work -m TEXT"),
    ("usage --prices FILE", "usage --json"),
    ("show COMMIT", "show HEAD"),
    ("restore HEAD --only files", "restore HEAD --only files --workspace work"),
    ("restore HEAD", "restore HEAD --workspace work"),
    ("restore REV", "restore HEAD --workspace work"),
    ("adopt --watch &", "adopt"),
    ("{back}", "undo"),
    ("branch --delete {} --worktree", "branch --delete plan-b --worktree"),
    ("merge BRANCH --only lessons", "merge plan-b --only scratchpad --dry-run"),
    ("init --encrypt", "version"),
    (
        "export REV --format swarm-snapshot --snapshot-version 2.1.0",
        "export HEAD --format markdown",
    ),
    ("push SESSION", "branch"),
    ("fetch --whole", "branch"),
    ("sync --all", "branch"),
    ("session map OLD=NEW", "session map /old=/new"),
    ("lesson add --note TEXT", "lesson add --note TEXT --branch HEAD"),
    ("search WORDS", "search message"),
    ("grep PATTERN --all", "grep message --all"),
    ("grep TEXT", "grep message"),
    ("grep -iF TEXT --all", "grep -iF message --all"),
];

/// The values of placeholders.
const PLACEHOLDERS: &[(&str, &str)] = &[
    ("REV~1", "HEAD~1"),
    ("REV", "HEAD"),
    ("A", "HEAD~1"),
    ("B", "HEAD"),
    ("BAD", "HEAD"),
    ("GOOD", "turn:1"),
    ("NAME", "plan-b"),
    ("BRANCH", "plan-b"),
    ("SESSION", "work"),
    ("TITLE", "title"),
    ("PATH", "notes.txt"),
    ("FILE", "new-file"),
    ("DIR", "new-directory"),
    ("TEXT", "text"),
    ("{id}", "HEAD"),
    ("{place}", "HEAD"),
    ("{revision}", "HEAD"),
];

/// The commands in quotes in the sources, without the name of the program.
fn hints() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut hints = BTreeMap::new();
    let mut open: Vec<PathBuf> =
        ["cli/src", "exchange/src", "core/src"].iter().map(|folder| root.join(folder)).collect();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for hint in
            joined(code).split("'turntree ").skip(1).filter_map(|rest| rest.split_once('\''))
        {
            let hint = hint.0.trim();
            if !hint.contains('\n') {
                hints.insert(hint.to_owned(), path.display().to_string());
            }
        }
    }
    hints
}

/// A source with texts and comments of several lines on one.
fn joined(code: &str) -> String {
    let mut whole = String::new();
    for line in code.lines() {
        let line = line.trim();
        let line = line.strip_prefix("///").unwrap_or(line).trim_start();
        match line.strip_suffix('\\') {
            Some(part) => whole.push_str(part),
            None => whole.push_str(&format!("{line} ")),
        }
    }
    whole
}

/// The words of a hint with values for its placeholders.
fn filled(hint: &str) -> Vec<String> {
    let special = SPECIAL.iter().find(|(from, _)| *from == hint);
    let line = special.map_or(hint, |(_, line)| line);
    let word = |word: &str| {
        let value = PLACEHOLDERS.iter().find(|(from, _)| *from == word);
        value.map_or(word, |(_, value)| value).to_owned()
    };
    line.split(' ').map(word).collect()
}

/// Returns true for the name of a command without arguments: a hint names it, and its arguments
/// depend on the case.
fn is_name(words: &[String]) -> bool {
    let mut command = turntree_cli::command();
    words.iter().all(|word| {
        let found = command.get_subcommands().find(|verb| verb.get_name() == word).cloned();
        found.map(|verb| command = verb).is_some()
    })
}

/// A store with content, a bundle of it, and a transcript.
fn sample() -> Place {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(4);
    let _ = place.run(&["snapshot", "-m", "x", "--branch", "plan-b", "--set", "scratchpad/x=1"]);
    let _ = place.run(&["bundle", "create", "work", "-o", "all.bundle", "--allow-secrets"]);
    let _ = place.run(&["lesson", "add", "--note", "keep the tests"]);
    let secret = turntree_tests::github_token(1);
    let said = format!("user=the token is {secret}");
    let _ = place.run(&["snapshot", "-m", "secret", "--append-message", &said]);
    fs::write(place.path().join("session.jsonl"), turntree_tests::claude_code(3)).unwrap();
    fs::create_dir(place.path().join("agents")).unwrap();
    fs::create_dir(place.path().join("home")).unwrap();
    fs::create_dir(place.path().join("project")).unwrap();
    let mut init = Command::new(PROGRAM);
    init.arg("init").current_dir(place.path().join("project")).env("HOME", place.path());
    assert!(init.output().unwrap().status.success());
    place
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

#[test]
fn every_command_in_a_hint_is_understood_and_works() {
    let hints = hints();
    assert!(hints.len() > 150, "only {} hints were found", hints.len());
    let sample = sample();
    let mut wrong = Vec::new();
    for (hint, file) in &hints {
        let is_not_run = NOT_RUN.iter().any(|(_, begins)| hint.starts_with(begins));
        let mut words = filled(hint);
        if is_name(&words) {
            words.push("--help".to_owned());
        } else if is_not_run {
            continue;
        }
        let place = tempfile::tempdir().unwrap();
        // New directories are made beside it.
        let folder = place.path().join("copy");
        copy(sample.path(), &folder);
        let run = |words: &[String]| {
            let mut command = Command::new(PROGRAM);
            command.args(["--store", "store"]).args(words).current_dir(&folder);
            command.env_clear().env("HOME", folder.join("home")).stdin(Stdio::null());
            command.env("PATH", std::env::var_os("PATH").unwrap());
            command.env("TURNTREE_MAINTENANCE", "off").env("TURNTREE_ACTOR", "ann");
            command.output().unwrap()
        };
        // HEAD is by directory, and this is a copy in another one.
        let _ = run(&["switch".to_owned(), "work/main".to_owned()]);
        let output = run(&words);
        if !matches!(output.status.code(), Some(0 | 1)) {
            let error = String::from_utf8_lossy(&output.stderr);
            let error = error.lines().next().unwrap_or_default().to_owned();
            wrong.push(format!("{file}: turntree {hint} ({words:?}): {error}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
