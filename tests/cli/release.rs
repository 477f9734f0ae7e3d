//! The parts of a release agree with the program: manual pages, completions, plugins, versions, templates.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use turntree_exchange::agents::hook::Dialect;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn json(path: &str) -> Value {
    serde_json::from_str(&text(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn run(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).current_dir(folder).env("HOME", folder);
    command.env_remove("TURNTREE_STORE");
    let done = command.output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn every_command_has_a_manual_page_with_its_examples() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &["manual", "pages"]);
    let entries = fs::read_dir(folder.path().join("pages")).unwrap();
    let pages: BTreeSet<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let mut expected = BTreeSet::from(["turntree.1".to_owned()]);
    let mut waiting = vec![("turntree".to_owned(), turntree_cli::command())];
    while let Some((name, command)) = waiting.pop() {
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let name = format!("{name}-{}", verb.get_name());
            expected.insert(format!("{name}.1"));
            waiting.push((name, verb.clone()));
        }
    }
    assert_eq!(pages, expected);
    let page = fs::read_to_string(folder.path().join("pages/turntree-log.1")).unwrap();
    assert!(page.contains(".SH EXAMPLES\n.nf\n  turntree log \\-n 5\n"), "{page}");
    assert_eq!(page.matches(".ds Aq \\(aq").count(), 1, "{page}");
    assert!(!page.contains("no\\-pager"), "options of every command are on every page");
    let page = fs::read_to_string(folder.path().join("pages/turntree.1")).unwrap();
    assert!(page.contains(".SH REVISIONS\n.nf\n") && page.contains(".SH ENVIRONMENT\n"), "{page}");
}

#[test]
fn every_shell_has_a_completion_script() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = run(folder.path(), &["completions", shell]);
        assert!(script.contains("COMPLETE"), "{shell}: {script}");
        let packed = text("packaging/contents.py");
        assert!(packed.contains(&format!("\"{shell}\": ")), "archives lack the script of {shell}");
    }
}

#[test]
fn packages_and_plugins_have_the_version_of_the_program() {
    for path in [
        "bindings/node/package.json",
        "packaging/agents/claude-code/.claude-plugin/plugin.json",
        "packaging/agents/codex/.codex-plugin/plugin.json",
        "packaging/agents/gemini/gemini-extension.json",
    ] {
        assert_eq!(json(path)["version"], VERSION, "{path}");
    }
    let manifest = text("Cargo.toml");
    for name in ["turntree", "turntree-cli", "turntree-exchange"] {
        let line = manifest.lines().find(|line| line.starts_with(&format!("{name} = "))).unwrap();
        assert!(line.contains(&format!("version = \"{VERSION}\"")), "{line}");
    }
}

#[test]
fn plugins_have_the_hooks_that_hook_install_writes() {
    for (dialect, plugin) in [
        (Dialect::ClaudeCode, "claude-code"),
        (Dialect::Codex, "codex"),
        (Dialect::Gemini, "gemini"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let client = dialect.name();
        run(folder.path(), &["hook", "install", client, "--shared", "--rollback"]);
        let settings = match dialect {
            Dialect::ClaudeCode => ".claude/settings.json",
            Dialect::Codex => ".codex/hooks.json",
            Dialect::Gemini => ".gemini/settings.json",
        };
        let written = fs::read_to_string(folder.path().join(settings)).unwrap();
        let written: Value = serde_json::from_str(&written).unwrap();
        let packed = json(&format!("packaging/agents/{plugin}/hooks/hooks.json"));
        assert_eq!(packed["hooks"], without_store(written["hooks"].clone()), "{plugin}");
    }
}

/// The hooks without the store that the test names.
fn without_store(mut hooks: Value) -> Value {
    for group in hooks.as_object_mut().unwrap().values_mut() {
        let command = group.pointer_mut("/0/hooks/0/command").unwrap();
        let words = command.as_str().unwrap();
        let from = words.find("hook --dialect").unwrap();
        *command = Value::from(format!("turntree {}", &words[from..]));
    }
    hooks
}

#[test]
fn commands_of_plugins_are_those_of_hook_install() {
    let (_, claude) = Dialect::ClaudeCode.rollback_command().unwrap();
    assert_eq!(text("packaging/agents/claude-code/commands/rollback.md"), claude);
    let (_, gemini) = Dialect::Gemini.rollback_command().unwrap();
    assert_eq!(text("packaging/agents/gemini/commands/turntree/rollback.toml"), gemini);
    let skill = text("packaging/agents/claude-code/skills/turntree/SKILL.md");
    for plugin in ["codex", "gemini"] {
        let copy = text(&format!("packaging/agents/{plugin}/skills/turntree/SKILL.md"));
        assert_eq!(copy, skill, "the skill of {plugin} differs from that of claude-code");
    }
}

#[test]
fn commands_in_the_skill_are_commands_of_the_program() {
    let command = turntree_cli::command();
    let mut pages = vec![text("packaging/agents/claude-code/skills/turntree/SKILL.md")];
    pages.push(text("packaging/agents/claude-code/commands/resume.md"));
    let mut found = 0;
    for part in pages.iter().flat_map(|page| page.split("`turntree ").skip(1)) {
        let line = part.split('`').next().unwrap();
        let name = line.split_whitespace().next().unwrap();
        let Some(verb) = command.find_subcommand(name) else {
            assert_eq!(name, "COMMAND", "{line}");
            continue;
        };
        for option in line.split_whitespace().filter_map(|word| word.strip_prefix("--")) {
            let is_known = verb.get_arguments().any(|arg| arg.get_long() == Some(option));
            assert!(is_known, "turntree {name} has no --{option}");
        }
        found += 1;
    }
    assert!(found > 10, "only {found} commands were found");
}

#[test]
fn manifests_are_json_and_templates_have_known_placeholders() {
    for path in [
        ".claude-plugin/marketplace.json",
        ".agents/plugins/marketplace.json",
        "packaging/agents/claude-code/.mcp.json",
        "packaging/agents/codex/.mcp.json",
        "packaging/templates/mcpb.json",
        "packaging/templates/scoop.json",
        "packaging/templates/server.json",
    ] {
        json(path);
    }
    let makers =
        ["installers", "debian", "plugins"].map(|name| text(&format!("packaging/{name}.py")));
    let placeholders = regex::Regex::new("@([A-Z_]+)@").unwrap();
    for entry in fs::read_dir(root().join("packaging/templates")).unwrap() {
        let path = entry.unwrap().path();
        let template = fs::read_to_string(&path).unwrap();
        for found in placeholders.captures_iter(&template) {
            let key = format!("\"{}\": ", &found[1]);
            let is_filled = makers.iter().any(|maker| maker.contains(&key));
            assert!(is_filled, "{}: {} is not filled", path.display(), &found[0]);
        }
    }
}

#[test]
fn the_workflow_builds_the_targets_of_a_release() {
    let targets = regex::Regex::new(r#"(?m)^    Target\(\s*"([^"]+)""#).unwrap();
    let project = text("packaging/project.py");
    let targets: Vec<&str> =
        targets.captures_iter(&project).map(|found| found.get(1).unwrap().as_str()).collect();
    assert!(targets.len() >= 6, "{targets:?}");
    let workflow = text(".github/workflows/release.yml");
    for target in targets {
        assert!(workflow.contains(&format!("target: {target},")), "{target} is not built");
    }
}
