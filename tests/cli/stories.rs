//! User stories at the command line: runs the commands in `stories/*.md` and compares their output.
//!
//! In a `console` block, a line that begins with `$ ` is given to the shell. The lines after it are
//! its output, including stderr, followed by `[exit N]` unless N is 0. `[..]` matches anything on a
//! line. All commands of a page run in one new directory, in order. `UPDATE_STORIES=1` rewrites the
//! pages to the actual output; lines that match stay unchanged. In a `sh` block every line is a
//! command, which may exit with 0 or, for a negative answer, with 1.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use turntree_tests::claude_code;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// A directory, a home and an environment.
struct Shell {
    root: tempfile::TempDir,
    /// Set if contexts name a directory of this run, so that ids differ from run to run.
    ids_vary: bool,
}

impl Shell {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for folder in ["bin", "home", "work"] {
            fs::create_dir(root.path().join(folder)).unwrap();
        }
        symlink(PROGRAM, root.path().join("bin/turntree")).unwrap();
        Self { root, ids_vary: false }
    }

    fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// Runs a command. Returns its output and its exit code.
    fn run(&self, command: &str) -> String {
        let path = format!("{}:/usr/bin:/bin", self.root.path().join("bin").display());
        let output = Command::new("sh")
            .args(["-c", &format!("exec 2>&1\n{command}")])
            .current_dir(self.work())
            .env_clear()
            .envs([("PATH", path.as_str()), ("LC_ALL", "C.UTF-8"), ("TZ", "UTC")])
            .env("HOME", self.root.path().join("home"))
            .envs([("TURNTREE_NOW", "2026-11-20T12:00:00Z"), ("TURNTREE_ACTOR", "ann")])
            .env("TURNTREE_MAINTENANCE", "off")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let root = self.root.path().to_string_lossy();
        let mut text = String::from_utf8(output.stdout).unwrap().replace(&*root, "[ROOT]");
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        match output.status.code() {
            Some(0) => text,
            code => format!("{text}[exit {}]\n", code.unwrap_or(-1)),
        }
    }
}

/// True if a line matches an expected one, where `[..]` matches anything.
fn fits(expected: &str, line: &str) -> bool {
    let mut parts = expected.split("[..]");
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Replaces abbreviated ids.
fn without_ids(line: &str) -> String {
    let is_end = |c: char| !c.is_ascii_alphanumeric();
    let words = line.split_inclusive(is_end).map(|word| {
        let id = word.trim_end_matches(is_end);
        let is_id = id.len() == 12 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_id { word.replace(id, "............") } else { word.to_owned() }
    });
    words.collect()
}

/// Replays a page: the page with the actual output of its commands.
fn replay(page: &str, shell: &Shell) -> String {
    let mut lines = page.lines().peekable();
    let mut replayed = String::new();
    let (mut in_console, mut in_script) = (false, false);
    while let Some(line) = lines.next() {
        replayed.push_str(line);
        replayed.push('\n');
        if line.starts_with("```") {
            in_console = line == "```console";
            in_script = line == "```sh";
        } else if in_script {
            let output = shell.run(line);
            let is_answer = output.ends_with("[exit 1]\n") || !output.ends_with("]\n");
            let has_error = output.lines().any(|line| line.starts_with("error: "));
            assert!(is_answer && !has_error, "{line}\n{output}");
        }
        let Some(command) = line.strip_prefix("$ ").filter(|_| in_console) else { continue };
        let mut command = command.to_owned();
        // A here-document ends at its END.
        while command.contains("<<'END'") && !command.ends_with("\nEND") {
            let line = lines.next().expect("END after <<'END'");
            command.push('\n');
            command.push_str(line);
            replayed.push_str(line);
            replayed.push('\n');
        }
        let is_output = |line: &&str| !line.starts_with("$ ") && !line.starts_with("```");
        let mut expected = Vec::new();
        while let Some(line) = lines.next_if(is_output) {
            expected.push(line);
        }
        let output = shell.run(&command);
        for (index, line) in output.lines().enumerate() {
            let same = expected.get(index).filter(|expected| match shell.ids_vary {
                true => fits(&without_ids(expected), &without_ids(line)),
                false => fits(expected, line),
            });
            replayed.push_str(same.copied().unwrap_or(line));
            replayed.push('\n');
        }
    }
    replayed
}

/// Compares with a stored file, or rewrites it.
fn check(path: &Path, actual: &str) {
    if std::env::var_os("UPDATE_STORIES").is_some() {
        fs::write(path, actual).unwrap();
        return;
    }
    let expected = fs::read_to_string(path).unwrap();
    let differing = expected.lines().zip(actual.lines()).position(|(a, b)| a != b);
    let line = differing.unwrap_or(expected.lines().count().min(actual.lines().count())) + 1;
    assert!(expected == actual, "{}:{line} is not what happens now:\n{actual}", path.display());
}

fn stories() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("stories")
}

fn play(story: &str) {
    play_page(&stories().join(story));
}

/// Plays a page in a directory with two transcripts. One is a longer version of the other.
fn play_page(path: &Path) {
    let shell = Shell::new();
    fs::write(shell.work().join("session.jsonl"), claude_code(9)).unwrap();
    fs::write(shell.work().join("longer.jsonl"), claude_code(11)).unwrap();
    check(path, &replay(&fs::read_to_string(path).unwrap(), &shell));
}

/// A shell with stubs of other programs and one session of Claude Code.
fn machine(session: &str) -> Shell {
    let shell = Shell::new();
    // Stubs for third-party programs: the page only needs to call them.
    for name in ["cargo", "claude", "launchctl", "make", "systemctl"] {
        let program = shell.root.path().join("bin").join(name);
        fs::write(&program, format!("#!/bin/sh\necho {name} \"$@\"\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let sessions = shell.root.path().join("home/.claude/projects/-project");
    fs::create_dir_all(&sessions).unwrap();
    fs::write(sessions.join("0c6f.jsonl"), session).unwrap();
    shell
}

/// A machine whose working directory has the files and the session of `turntree demo`.
fn machine_of_the_demo() -> Shell {
    let session = fs::read_to_string(root().join("cli/assets/demo.jsonl")).unwrap();
    let shell = Shell { ids_vary: true, ..machine("") };
    let work = shell.work();
    let sessions = shell.root.path().join("home/.claude/projects/-project");
    let session = session.replace("/home/ada/limiter", work.to_str().unwrap());
    fs::write(sessions.join("0c6f.jsonl"), &session).unwrap();
    let seed = "export TURNTREE_STORE=../seed && turntree import ~/.claude/projects/-project/0c6f.jsonl \
        && turntree restore HEAD --only files --to . && mv files/* . && rm -r files ../seed";
    shell.run(seed);
    shell
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn play_in(shell: &Shell, page: &str) {
    let path = root().join(page);
    check(&path, &replay(&fs::read_to_string(&path).unwrap(), shell));
}

#[test]
fn the_commands_of_the_readme() {
    play_in(&machine_of_the_demo(), "README.md");
}

#[test]
fn the_tutorial() {
    play_in(&machine_of_the_demo(), "docs/tutorial.md");
}

#[test]
fn the_guide_of_everyday_commands() {
    play_in(&machine(&claude_code(9)), "docs/guides/everyday.md");
}

#[test]
fn the_page_about_secrets() {
    play_page(&root().join("docs/guides/secrets.md"));
}

#[test]
fn trusting() {
    play("trusting.md");
}

#[test]
fn editing() {
    play("editing.md");
}

#[test]
fn merging() {
    play("merging.md");
}

#[test]
fn keeping_small() {
    play("keeping-small.md");
}

#[test]
fn first_minutes() {
    play("first-minutes.md");
}

#[test]
fn adding_to_a_context() {
    play("adding.md");
}

#[test]
fn a_budget_of_the_store() {
    play("budget.md");
}

#[test]
fn exactly_as_much_as_was_said() {
    play("bounds.md");
}

#[test]
fn forgetting_a_session() {
    play("forgetting.md");
}

#[test]
fn importing() {
    play("importing.md");
}

#[test]
fn several_agents_on_one_session() {
    play("sharing.md");
}

#[test]
fn a_session_as_a_git_repository() {
    play("git.md");
}

#[test]
fn going_in_circles() {
    play("circling.md");
}

#[test]
fn undoing_from_chat_and_learning() {
    play("learning.md");
}

#[test]
fn strategies_side_by_side() {
    play("comparing.md");
}

#[test]
fn strategies_run_by_one_command() {
    play("exploring.md");
}

#[test]
fn forking_and_comparing() {
    play("forking.md");
}

#[test]
fn adopting() {
    play("adopting.md");
}

#[test]
fn inside_an_agent() {
    play("hooking.md");
}

#[test]
fn prompting() {
    play("prompts.md");
}

#[test]
fn asking() {
    play("asking.md");
}

#[test]
fn telling_sessions_apart() {
    play("sessions.md");
}

#[test]
fn naming() {
    play("naming.md");
}

#[test]
fn undoing() {
    play("undoing.md");
}

#[test]
fn workspace() {
    play("workspace.md");
}

#[test]
fn what_it_cost() {
    play("usage.md");
}

#[test]
fn going_back() {
    play("going-back.md");
}

#[test]
fn restoring() {
    play("restoring.md");
}

#[test]
fn a_swarm_goes_on() {
    let (shell, page) = (Shell::new(), stories().join("swarm.md"));
    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/swarmsdk");
    symlink(documents, shell.work().join("swarm")).unwrap();
    check(&page, &replay(&fs::read_to_string(&page).unwrap(), &shell));
}

#[test]
fn designs_come_in() {
    let (shell, page) = (Shell::new(), stories().join("designs.md"));
    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/open-codesign");
    symlink(documents, shell.work().join("open-codesign")).unwrap();
    check(&page, &replay(&fs::read_to_string(&page).unwrap(), &shell));
}

#[test]
fn pinning_and_keeping() {
    play("keeping.md");
}

#[test]
fn changing_modes() {
    play("modes.md");
}

#[test]
fn offloading_before_summarising() {
    play("offloading.md");
}

#[test]
fn exporting() {
    play("exporting.md");
}

#[test]
fn redacting() {
    play("redacting.md");
}

#[test]
fn sessions_in_a_file() {
    play("bundling.md");
}

#[test]
fn plumbing() {
    play("plumbing.md");
}

#[test]
fn damage_and_repair() {
    play("damage.md");
}

#[test]
fn errors() {
    play("errors.md");
}

#[test]
fn paths_where_fingers_type_them() {
    play("paths.md");
}

#[test]
fn words_of_git_and_of_others() {
    play("words.md");
}

#[test]
fn every_story_is_played() {
    let code = include_str!("stories.rs");
    for entry in fs::read_dir(stories()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(code.contains(&format!("\"{name}\"")), "{name} is not played");
    }
}

/// The commands in the help of the program.
fn verbs(overview: &str) -> Vec<&str> {
    let listed = overview.lines().take_while(|line| !line.starts_with("Options of every"));
    let names = listed.filter_map(|line| {
        let line = line.strip_prefix("  ")?;
        line.starts_with(|c: char| c.is_ascii_lowercase()).then(|| line.split(' ').next())?
    });
    names.collect()
}

#[test]
fn every_short_help_fits_on_one_screen() {
    let shell = Shell::new();
    let overview = shell.run("turntree --help");
    let mut too_long = Vec::new();
    for verb in [""].into_iter().chain(verbs(&overview)) {
        // With a store in the environment the help must not show the option as required.
        let help = shell.run(&format!("COLUMNS=80 TURNTREE_STORE=s turntree {verb} -h"));
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
        assert!(!help.contains("--store") && help.contains("'turntree --help' lists"), "{help}");
        let lines = help.lines().count();
        if lines > 40 {
            too_long.push(format!("{verb} {lines}"));
        }
    }
    assert!(too_long.is_empty(), "{too_long:?}: hide rare options with hide_short_help");
}

#[test]
fn help_is_what_it_was() {
    let shell = Shell::new();
    let overview = shell.run("turntree --help");
    let mut help =
        format!("$ turntree -h\n{}\n$ turntree --help\n{overview}", shell.run("turntree -h"));
    for name in verbs(&overview) {
        let command = format!("turntree {name} --help");
        help.push_str(&format!("\n$ {command}\n{}", shell.run(&command)));
    }
    check(&stories().join("help.txt"), &help);
    check(&root().join("docs/reference/cli.md"), &reference(&help));
}

/// The page of all commands: the help of each under a heading.
fn reference(help: &str) -> String {
    let mut page = "# Command line\n\n\
        Generated from the output of `--help`: `UPDATE_STORIES=1 cargo test --workspace --test cli help_is` \
        writes this page, and the same test compares it.\n"
        .to_owned();
    for section in help.split("\n$ ").skip(1) {
        let (command, text) = section.split_once('\n').unwrap();
        let name = command.trim_end_matches(" --help");
        page.push_str(&format!("\n## {name}\n\n```text\n{}\n```\n", text.trim_end()));
    }
    page
}

#[test]
fn a_demo_fits_on_one_screen_and_leaves_nothing_behind() {
    let shell = Shell::new();
    let shown = shell.run("TMPDIR=$PWD turntree demo");
    assert!(shown.lines().count() <= 45, "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    assert!(shown.contains("times smaller"), "{shown}");
    assert_eq!(fs::read_dir(shell.work()).unwrap().count(), 0);
}

#[test]
fn a_reader_that_stops_reading_is_no_error() {
    let shell = Shell::new();
    fs::write(shell.work().join("long.jsonl"), claude_code(200)).unwrap();
    shell.run("turntree import long.jsonl");
    for command in ["log", "cat HEAD:agents/main/messages", "export long --format source"] {
        let shown = shell
            .run(&format!("(turntree {command}; echo ended with $? >&2) | head -n 1 >/dev/null"));
        assert_eq!(shown, "ended with 0\n", "{command}");
    }
}

#[test]
fn the_answer_stands_when_nobody_reads_it() {
    let shell = Shell::new();
    fs::write(shell.work().join("long.jsonl"), claude_code(20)).unwrap();
    shell.run("turntree init; turntree import long.jsonl --no-maintenance");
    shell.run("turntree repack");
    let pack = fs::read_dir(shell.work().join(".turntree/packs")).unwrap().next().unwrap();
    let pack = pack.unwrap().path();
    let mut bytes = fs::read(&pack).unwrap();
    let half = bytes.len() / 2;
    bytes[half..].fill(b'X');
    fs::write(&pack, bytes).unwrap();
    for arguments in [&["fsck"][..], &["fsck", "--json"], &["repair", "--dry-run"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_turntree-under-test"));
        let command = command.args(arguments).current_dir(shell.work()).stdout(writer);
        let ended = command.env_remove("TURNTREE_STORE").output().unwrap();
        assert_eq!(ended.status.code(), Some(1), "{arguments:?}: {ended:?}");
    }
}
