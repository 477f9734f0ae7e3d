//! Runs every command of the program in a folder whose messages, files, notes and states contain a
//! secret.
//!
//! Tests inspect the files and the output.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::claude_code;

/// A secret that only its owner may see.
pub const SECRET: &str = "sk-canary-7f3a9c51";

/// A command for the shell.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// The line.
    pub line: &'static str,
    /// The exit status.
    pub exit: i32,
    /// True if its output is stored content.
    pub shows_content: bool,
}

const fn step(line: &'static str) -> Step {
    Step { line, exit: 0, shows_content: false }
}

const fn content(line: &'static str) -> Step {
    Step { shows_content: true, ..step(line) }
}

/// A command that fails, or whose answer is negative.
#[must_use]
pub const fn failing(exit: i32, line: &'static str) -> Step {
    Step { exit, ..step(line) }
}

/// Every command at least once, in an order that works.
pub const STEPS: &[Step] = &[
    step("turntree init"),
    step("turntree import session.jsonl --session work"),
    step("turntree import longer.jsonl --session work"),
    step("turntree snapshot -m 'a note' --state state.json"),
    step("turntree snapshot -m 'the files' --workspace project --pin"),
    step(
        "turntree snapshot -m 'the same' --workspace project --time-budget 10s --max-file-size 1MiB",
    ),
    step("turntree fork plan-b HEAD~1"),
    step("turntree switch plan-b"),
    step("turntree snapshot -m 'another note' --state - < other.json"),
    content("turntree branch"),
    content("turntree sessions"),
    step("turntree session rename work 'a title'"),
    step("turntree session label work draft"),
    step("turntree session map /elsewhere=/work"),
    content("turntree session show work"),
    step("turntree snapshot -m checked --check tests=passed"),
    step("turntree compare"),
    step("turntree usage work --by tool"),
    content("turntree usage --all --json"),
    step("turntree edit 'work^{turn:6}' --drop prompt:1 --dry-run"),
    step("turntree edit 'work^{turn:6}' --drop prompt:1 --shorten message:5 --dry-run"),
    step("turntree compact work --offload-over 200 --keep-recent 0 --dry-run"),
    failing(6, "turntree uncompact work"),
    step("turntree compare work plan-b --json"),
    content("turntree compare work plan-b --align"),
    step("turntree explore --from work --strategy trial=x --folder trees --check true -- true"),
    step("turntree explore status --json"),
    step("turntree explore continue"),
    step("turntree explore keep explore trial"),
    step("turntree replay work --from turn:3 -- true"),
    step("turntree adopt --dry-run"),
    step("turntree adopt session.jsonl"),
    step("turntree adopt . --json"),
    step("turntree adopt session.jsonl --reclaim --older-than 1h"),
    step("turntree adopt session.jsonl --reclaim=each --older-than 1h"),
    step("turntree adopt install --dry-run"),
    step("turntree adopt uninstall --json"),
    step("turntree hook install claude-code --dry-run"),
    step("turntree hook install codex --json"),
    step("turntree hook uninstall codex"),
    step(
        r#"printf '{"hook_event_name":"Stop","transcript_path":"%s/session.jsonl","cwd":"%s","tool_input":"sk-canary-7f3a9c51"}' "$PWD" "$PWD/project" | turntree hook"#,
    ),
    step("echo sk-canary-7f3a9c51 | turntree hook"),
    step("turntree hook log"),
    step("turntree tag first HEAD~1"),
    step("turntree tag"),
    step(
        r#"echo '{"scratchpad": {"login": "elsewhere"}}' | turntree snapshot -m x --branch main --state -"#,
    ),
    failing(1, "turntree merge main --dry-run"),
    failing(1, "turntree merge main --into plan-b --messages ours -m 'the other one'"),
    content("turntree resolve"),
    step("turntree resolve --all --take ours"),
    step("turntree cherry-pick main --only files"),
    step("turntree undo"),
    step("turntree redo"),
    step("turntree op log"),
    step("turntree op show 1"),
    step("turntree rollback --workspace project --dry-run"),
    step("turntree rollback --said \"undo $(cat secret)\" --parse"),
    failing(2, "turntree rollback --said \"undo $(cat secret)\""),
    step("turntree rollback 0 --workspace project"),
    step("turntree undo"),
    step("turntree restore HEAD --workspace project --json"),
    step("turntree status"),
    content("turntree log"),
    content("turntree outline"),
    step("turntree resume work --in codex --cwd project --dry-run"),
    content("turntree show HEAD"),
    content("turntree show HEAD:scratchpad/login"),
    step("turntree ls HEAD"),
    step("turntree ls HEAD:files"),
    content("turntree cat HEAD:agents/main/messages"),
    content("turntree diff HEAD~1 HEAD"),
    step("turntree spiral"),
    content(
        r#"turntree serve --stdio <<'END'
{"jsonrpc":"2.0","id":1,"method":"show","params":{"revision":"HEAD:scratchpad/login"}}
{"jsonrpc":"2.0","id":2,"method":"search","params":{"pattern":"canary"}}
{"jsonrpc":"2.0","id":3,"method":"log","params":{"revision":"nowhere"}}
END"#,
    ),
    step("turntree mcp < /dev/null"),
    // The server runs once its address can be read, and ends when it is killed.
    step(
        "turntree view --help; mkfifo pipe; turntree view > pipe & read -r url < pipe; \
         kill $!; wait $!; rm pipe",
    ),
    failing(2, "turntree ui < /dev/null"),
    content("turntree grep canary"),
    content("turntree search canary"),
    content("turntree log --path scratchpad -S canary"),
    content("turntree blame HEAD:scratchpad"),
    content("turntree bisect start main main~4"),
    content("turntree bisect run sh -c 'test $TURNTREE_TURN -lt 1'"),
    step("turntree bisect log"),
    step("turntree bisect reset"),
    step("turntree stats"),
    content("turntree offload longer.jsonl --threshold 100"),
    content("turntree vfs get $(turntree vfs put secret)"),
    step("turntree vfs ls"),
    step("turntree vfs ls HEAD --json"),
    step("turntree vfs evict --max-files 0 --dry-run"),
    step("turntree vfs evict --max-files 1"),
    step("turntree pin HEAD~1 --name keep"),
    step("turntree pins"),
    step("turntree unpin keep"),
    step("turntree retention set --keep-last 3 work"),
    step("turntree retention show"),
    step("turntree init --encrypt --dry-run"),
    step("turntree key ls"),
    step("turntree gc --dry-run"),
    step("turntree gc"),
    step("turntree retention unset work"),
    step("turntree repack"),
    step("turntree shrink session.jsonl --older-than 1h"),
    step("turntree snapshot -m more --state state.json"),
    step("turntree gc --auto"),
    step("turntree fsck"),
    step("turntree repair --dry-run"),
    step("turntree repair"),
    step("turntree hash-object state.json -w"),
    content("turntree cat-object HEAD:scratchpad/login"),
    step("turntree ls-tree HEAD"),
    step("turntree rev-parse HEAD"),
    step("turntree update-ref refs/tags/v1 HEAD"),
    step("turntree show-ref"),
    content("turntree lesson add --mistake \"sent $(cat secret)\" --correct 'leave it out'"),
    content("turntree lesson list"),
    content("turntree lesson inject --tool send"),
    step("turntree lesson export LESSONS.md"),
    failing(2, "turntree lesson import state.json"),
    failing(2, "sed 's/\"pinned\": false/\"pinned\": no/' LESSONS.md | turntree lesson import -"),
    step("turntree lesson import LESSONS.md"),
    content("turntree lesson add --type budget --note 'one message'"),
    content("turntree lesson rm $(turntree lesson list | tail -n 1 | cut -d ' ' -f 1)"),
    failing(6, "turntree lesson pin nothing"),
    step("turntree restore HEAD --to out --dry-run"),
    step("turntree restore HEAD --to out"),
    step("turntree restore HEAD --to out --json"),
    step("turntree export work --format source -o export.jsonl"),
    content("turntree export work --format jsonl"),
    content("turntree export HEAD --format swarm-snapshot"),
    content("turntree export work --format markdown --allow-secrets"),
    content("turntree export work --format html --allow-secrets"),
    step("turntree share work -o shared.html --allow-secrets"),
    content("turntree export work --format json --allow-secrets"),
    content("turntree export work --format openai --allow-secrets"),
    content("turntree export work --format anthropic --allow-secrets"),
    content("turntree export work --format atif --allow-secrets"),
    content("turntree export work --format sft --allow-secrets"),
    content("turntree export work --format dpo --allow-secrets"),
    content("turntree export work --format grpo --allow-secrets"),
    content("turntree export work --format verifiers --allow-secrets"),
    content("turntree export work --format inspect --allow-secrets"),
    failing(6, "turntree export work --format environment -o task"),
    step("turntree swarm restore HEAD state.json --json -o goes-on.json"),
    step("turntree swarm reads HEAD --workspace project"),
    step("turntree swarm events session.jsonl"),
    content("turntree export work --format context-chef --sweep --allow-secrets"),
    failing(1, "turntree bundle create work -o refused.bundle"),
    failing(1, "turntree bundle create work -o refused.bundle --json"),
    failing(1, "turntree export work --format html"),
    failing(1, "turntree share work -o refused.html"),
    failing(1, "turntree git export refused.git"),
    step("turntree bundle create work -o scrubbed.bundle --scrub"),
    step("turntree bundle create work -o work.bundle --allow-secrets"),
    step("turntree bundle create work --not work~1 -o since.bundle --json --allow-secrets"),
    step("turntree bundle show work.bundle"),
    step("turntree bundle show work.bundle --operations"),
    step("turntree bundle verify work.bundle --json"),
    step("turntree bundle unbundle work.bundle --dry-run"),
    step("turntree bundle unbundle work.bundle --session copied"),
    step("turntree remote add origin shared-remote"),
    failing(1, "turntree push work"),
    step("turntree push work --allow-secrets"),
    step("turntree push work --json"),
    step("turntree fetch"),
    step("turntree fetch work --json"),
    step("turntree diff work origin/work"),
    step("turntree sync work --json"),
    step("turntree remote ls --json"),
    step("turntree remote check --json"),
    step("turntree remote set origin --auto --json"),
    step("turntree trust --json"),
    step("turntree trust --list"),
    step("turntree status --json"),
    step("turntree gc --auto"),
    step("turntree remote gc -n"),
    step("turntree remote gc --aggressive --json"),
    step("turntree clone shared-remote cloned --json"),
    step("turntree push --delete work --json"),
    step("turntree remote rm origin --json"),
    step("turntree remote add sealed sealed-remote --encrypt --json"),
    step("turntree push work --allow-secrets --remote sealed --json"),
    step("turntree remote members sealed --json"),
    step("turntree remote rm sealed"),
    step("turntree git export out.git --allow-secrets"),
    step("turntree git import out.git --session copy --json"),
    content("turntree export work --format ollm-context --allow-secrets"),
    content("turntree export work --format ollm-state --allow-secrets"),
    step("turntree ollm snapshot 0.9 --json"),
    step("turntree ollm transition planning:developer --task login"),
    content("turntree export work.modes --format ollm-mode"),
    content("turntree log --all --since yesterday --trigger mode-change"),
    step("turntree demo"),
    step("turntree completions bash"),
    step("turntree manual pages"),
    step("turntree version"),
    failing(1, "turntree secrets scan --all"),
    failing(1, "turntree secrets scan --all --json --allowed"),
    step("turntree secrets allow jwt --json"),
    step("turntree secrets allow --remove jwt"),
    step("turntree secrets rules"),
    step("turntree help import"),
    step("turntree redact - --dry-run < secret"),
    failing(2, "turntree redact - < secret"),
    step("turntree redact - --dry-run --json < secret"),
    step("turntree redact --regex - --dry-run < secret"),
    step("turntree redact - --yes < secret"),
    failing(1, "turntree redact - --yes < secret"),
    step("turntree fsck"),
];

/// A folder with something for every command to work on, and a shell in it.
pub struct Shell {
    root: tempfile::TempDir,
    umask: &'static str,
}

impl Shell {
    /// A new folder with `program` in its path as `turntree`.
    ///
    /// # Panics
    /// If the folder cannot be created.
    #[must_use]
    pub fn new(program: &Path, umask: &'static str) -> Self {
        let root = tempfile::tempdir().unwrap();
        for folder in ["bin", "home", "work/project"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        symlink(program, root.path().join("bin/turntree")).unwrap();
        let session = |turns| {
            claude_code(turns)
                .replace("say what", &format!("say {SECRET}"))
                .replace("usize", SECRET)
        };
        let state = |note: &str| {
            format!(
                r#"{{"agents": {{"main": {{"messages": [{{"role": "user", "content": "use {SECRET}"}}]}}}},
                     "scratchpad": {{"login": "{note} {SECRET}"}},
                     "files": {{".env": "KEY={SECRET}\n"}}}}"#
            )
        };
        for (name, text) in [
            ("session.jsonl", session(8)),
            ("longer.jsonl", session(12)),
            ("state.json", state("this is")),
            ("other.json", state("that was")),
            ("secret", format!("{SECRET}\n")),
            ("project/config", format!("token = {SECRET}\n")),
        ] {
            fs::write(root.path().join("work").join(name), text).unwrap();
        }
        Self { root, umask }
    }

    /// Where commands run.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// The store that the commands find there.
    #[must_use]
    pub fn store_dir(&self) -> PathBuf {
        self.work().join(".turntree")
    }

    /// Runs a line.
    ///
    /// # Panics
    /// If there is no shell.
    #[must_use]
    pub fn run(&self, line: &str) -> Output {
        let path = format!("{}:/usr/bin:/bin", self.root.path().join("bin").display());
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("umask {}\n{line}", self.umask)])
            .current_dir(self.work())
            .env_clear()
            .envs([("PATH", path.as_str()), ("LC_ALL", "C.UTF-8"), ("TZ", "UTC")])
            .env("HOME", self.root.path().join("home"))
            .envs([("TURNTREE_NOW", "2026-11-20T12:00:00Z"), ("TURNTREE_ACTOR", "ann")])
            .env("TURNTREE_MAINTENANCE", "off")
            .stdin(Stdio::null());
        shell.output().unwrap()
    }

    /// Runs a step.
    ///
    /// # Panics
    /// If its exit status is not the expected one.
    #[must_use]
    pub fn step(&self, step: &Step) -> Output {
        let output = self.run(step.line);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(step.exit), "{}: {said}", step.line);
        output
    }
}
