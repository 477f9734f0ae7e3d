//! The settings of clients, and our hooks in them.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use shlex::Shlex;
use turntree::platform::canonical;
use turntree::workspace::read_regular;
use turntree::{Error, Result};
use turntree_exchange::agents::hook::Dialect;

use super::edit::SettingsDocument;
use super::program::{PLAIN, is_program};

/// Largest settings file to read, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// The member of the settings that contains hooks.
const HOOKS: &str = "hooks";

/// How long a client waits for a hook, in seconds.
const TIMEOUT: u64 = 10;

/// How long it waits where a prompt may ask for a rollback, which writes files.
const ROLLBACK_TIMEOUT: u64 = 60;

/// The option of the hook command that allows rollbacks by prompt.
pub(crate) const ROLLBACK: &str = " --rollback";

/// Events, with the tools they match; an empty name matches all tools, and `None` means that the
/// event has no matcher.
type Events = &'static [(&'static str, Option<&'static str>)];

const CLAUDE_CODE: Events = &[
    ("SessionStart", None),
    ("UserPromptSubmit", None),
    ("PreToolUse", Some("Bash")),
    ("PostToolUse", Some("*")),
    ("PostToolUseFailure", Some("*")),
    ("PreCompact", None),
    ("SubagentStop", None),
    ("Stop", None),
    ("SessionEnd", None),
];

const CODEX: Events = &[
    ("SessionStart", None),
    ("UserPromptSubmit", None),
    ("PreToolUse", Some("Bash")),
    ("PostToolUse", None),
    ("PreCompact", None),
    ("SubagentStop", None),
    ("Stop", None),
];

const GEMINI: Events = &[
    ("SessionStart", None),
    ("BeforeAgent", None),
    ("BeforeTool", Some("run_shell_command")),
    ("AfterTool", Some("*")),
    ("PreCompress", None),
    ("AfterAgent", None),
    ("SessionEnd", None),
];

/// A settings file before and after a change.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The file to write, with all links resolved.
    pub(crate) path: PathBuf,
    /// Its content; `None` if it does not exist.
    pub(crate) before: Option<String>,
    /// Its content after the change; `None` if it is deleted.
    pub(crate) after: Option<String>,
}

/// Returns true if a client has project settings for one machine alone.
pub(crate) const fn has_local(dialect: Dialect) -> bool {
    matches!(dialect, Dialect::ClaudeCode)
}

/// The path of a client's user settings. `CLAUDE_CONFIG_DIR`, `CODEX_HOME` and `GEMINI_CLI_HOME`
/// move them out of the home directory.
///
/// # Errors
/// `NotFound` when neither the variable of the client nor a home directory is set.
pub(crate) fn path_of_user(dialect: Dialect) -> Result<PathBuf> {
    let moved = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let moved = match dialect {
        Dialect::ClaudeCode => {
            moved("CLAUDE_CONFIG_DIR").map(|dir| PathBuf::from(dir).join("settings.json"))
        }
        Dialect::Codex => moved("CODEX_HOME").map(|dir| PathBuf::from(dir).join("hooks.json")),
        Dialect::Gemini => {
            moved("GEMINI_CLI_HOME").map(|dir| path_of(dialect, Path::new(&dir), false))
        }
    };
    if let Some(path) = moved {
        return Ok(path);
    }
    let home = etcetera::home_dir()
        .map_err(|error| Error::not_found("there is no home directory").with_source(error))?;
    Ok(path_of(dialect, &home, false))
}

/// The path of a client's settings in `base`, a project directory. With `is_local`, the settings
/// for one machine alone, if the client has such.
pub(crate) fn path_of(dialect: Dialect, base: &Path, is_local: bool) -> PathBuf {
    base.join(match dialect {
        Dialect::ClaudeCode if is_local => ".claude/settings.local.json",
        Dialect::ClaudeCode => ".claude/settings.json",
        Dialect::Codex => ".codex/hooks.json",
        Dialect::Gemini => ".gemini/settings.json",
    })
}

/// Adds hooks that run `command` to the settings at `path`. They replace the hooks of an earlier
/// installation.
///
/// # Errors
/// `InvalidInput` with line and column for settings that are not JSON.
pub(crate) fn install(dialect: Dialect, path: &Path, command: &str) -> Result<Plan> {
    let (path, before) = read(path)?;
    let mut document = before.clone().map(SettingsDocument::new).transpose()?;
    if let Some(document) = &mut document {
        let program = Shlex::new(command).next().unwrap_or_default();
        remove_ours(document, &program)?;
    }
    // A document that is empty now was created by an earlier installation.
    let mut document = document.filter(|document| !document.is_used_up());
    let events = match dialect {
        Dialect::ClaudeCode => CLAUDE_CODE,
        Dialect::Codex => CODEX,
        Dialect::Gemini => GEMINI,
    };
    for (event, matcher) in events {
        let timeout = match *event {
            "UserPromptSubmit" | "BeforeAgent" if command.contains(ROLLBACK) => ROLLBACK_TIMEOUT,
            _ => TIMEOUT,
        };
        let group = group(dialect, *matcher, command, timeout).to_string();
        let place = [HOOKS, event];
        match &mut document {
            Some(document) => document.append(&place, &group)?,
            None => document = Some(SettingsDocument::made(&place, &group)),
        }
    }
    Ok(Plan { path, before, after: document.map(SettingsDocument::into_text) })
}

/// Removes the hooks of an installation, by `program` or another turntree, from the settings at
/// `path`.
///
/// # Errors
/// The errors of [`install`].
pub(crate) fn uninstall(path: &Path, program: &str) -> Result<Plan> {
    let (path, before) = read(path)?;
    let Some(text) = before.clone() else { return Ok(Plan { path, before: None, after: None }) };
    let mut document = SettingsDocument::new(text)?;
    remove_ours(&mut document, program)?;
    let after = (!document.is_used_up()).then(|| document.into_text());
    Ok(Plan { path, before, after })
}

/// Adds the file that makes `/rollback` known next to the settings at `path` if it `is_wanted`,
/// otherwise deletes it. Returns `None` for a client without such files, and if another file has
/// its name.
///
/// # Errors
/// `InvalidInput` for a file that is not text.
pub(crate) fn rollback_command(
    dialect: Dialect,
    path: &Path,
    is_wanted: bool,
) -> Result<Option<Plan>> {
    let Some((name, content)) = dialect.rollback_command() else { return Ok(None) };
    let (path, before) = read(&path.parent().unwrap_or(Path::new(".")).join(name))?;
    let is_ours = before.as_deref().is_none_or(|before| before == content);
    let after = is_wanted.then(|| content.to_owned());
    Ok(is_ours.then_some(Plan { path, before, after }))
}

/// Copies the settings with our hooks from a project to one of its worktrees, for clients whose
/// settings are not in git. Returns the written files.
///
/// # Errors
/// `Io` when the system refuses.
pub(super) fn carry_over(from: &Path, to: &Path, program: &str) -> Result<Vec<PathBuf>> {
    let mut written = Vec::new();
    for dialect in Dialect::ALL {
        let places = [true, false].map(|is_local| path_of(dialect, Path::new(""), is_local));
        for place in places {
            let (source, target) = (from.join(&place), to.join(&place));
            let has_hooks = uninstall(&source, program).is_ok_and(|plan| !plan.is_done());
            if has_hooks && fs::symlink_metadata(&target).is_err() {
                let (_, text) = read(&source)?;
                Plan { path: target.clone(), before: None, after: text }.apply()?;
                written.push(target);
            }
        }
    }
    Ok(written)
}

impl Plan {
    /// Returns true if there is nothing to do.
    pub(crate) fn is_done(&self) -> bool {
        self.before == self.after
    }

    /// Writes the file atomically: after a crash it is the old or the new one, with its old
    /// permissions.
    ///
    /// # Errors
    /// `Conflict` when it was changed since the plan was made, `Io` when the system
    /// refuses.
    pub(crate) fn apply(&self) -> Result<()> {
        let failed = |error| Error::io(format!("write {}", self.path.display()), error);
        let now = read(&self.path).map_err(|error| error.at(self.path.display()))?;
        if now.1 != self.before {
            let changed = format!("another program has changed {}", self.path.display());
            return Err(Error::new(turntree::ErrorKind::Conflict, changed));
        }
        let Some(after) = &self.after else { return fs::remove_file(&self.path).map_err(failed) };
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(failed)?;
        let mut new = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        // A new file is for its owner alone.
        if let Ok(found) = fs::metadata(&self.path) {
            new.as_file().set_permissions(found.permissions()).map_err(failed)?;
        }
        new.write_all(after.as_bytes()).map_err(failed)?;
        new.as_file().sync_all().map_err(failed)?;
        new.persist(&self.path).map_err(|error| failed(error.error))?;
        Ok(())
    }
}

/// Resolves all links, and reads the file.
fn read(path: &Path) -> Result<(PathBuf, Option<String>)> {
    let failed = |error| Error::io("read it", error);
    let whole = match canonical(path) {
        Ok(whole) => whole,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // Writing would replace a dangling link with a file.
            return match fs::symlink_metadata(path) {
                Ok(_) => Err(Error::invalid("a broken link: expected a file")),
                Err(_) => Ok((path.to_owned(), None)),
            };
        }
        Err(error) => return Err(failed(error)),
    };
    // Reading a pipe would block.
    if !fs::metadata(&whole).map_err(failed)?.is_file() {
        return Err(Error::invalid("expected a file"));
    }
    let text = read_regular(&whole, MAX_BYTES).map_err(failed)?;
    let text = String::from_utf8(text).map_err(|_| Error::invalid("expected UTF-8"))?;
    Ok((whole, Some(text)))
}

/// A group with one hook.
fn group(dialect: Dialect, matcher: Option<&str>, command: &str, seconds: u64) -> Value {
    let timeout = match dialect {
        Dialect::Gemini => seconds * 1000,
        Dialect::ClaudeCode | Dialect::Codex => seconds,
    };
    let hook = match dialect {
        Dialect::Gemini => {
            json!({"name": "turntree", "type": "command", "command": command, "timeout": timeout})
        }
        Dialect::ClaudeCode | Dialect::Codex => {
            json!({"type": "command", "command": command, "timeout": timeout})
        }
    };
    match matcher {
        Some(matcher) => json!({"matcher": matcher, "hooks": [hook]}),
        None => json!({"hooks": [hook]}),
    }
}

fn remove_ours(document: &mut SettingsDocument, program: &str) -> Result<()> {
    for event in document.names(&[HOOKS])? {
        document.remove(&[HOOKS, &event], &|group| is_ours(group, program))?;
    }
    Ok(())
}

/// Returns true if an installation created the group: it has one hook, which runs `program` or
/// another turntree.
fn is_ours(group: &str, program: &str) -> bool {
    let Ok(group) = serde_json::from_str::<Value>(group) else { return false };
    let hooks = group.get(HOOKS).and_then(Value::as_array);
    let Some([hook]) = hooks.map(Vec::as_slice) else { return false };
    hook.get("command").and_then(Value::as_str).is_some_and(|command| {
        let words = shlex::split(command).unwrap_or_default();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ([named, "--store", _, rest @ ..] | [named, rest @ ..]) = &words[..] else {
            return false;
        };
        let name = Path::new(named).file_name().unwrap_or_default().to_string_lossy();
        let is_program = *named == program || name.starts_with(PLAIN) || is_program(named);
        is_program && matches!(rest, ["hook", "--dialect", of, ..] if Dialect::named(of).is_some())
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    use super::*;
    use crate::platform::hook_word;

    const COMMAND: &str = "'/opt/my tools/turntree' hook --dialect claude-code";

    fn installed(dialect: Dialect, text: &str, command: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.json");
        fs::write(&path, text).unwrap();
        install(dialect, &path, command).unwrap().after.unwrap()
    }

    fn uninstalled(text: &str) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.json");
        fs::write(&path, text).unwrap();
        uninstall(&path, "/bin/tt").unwrap().after
    }

    #[test]
    fn hooks_go_behind_those_of_others_and_come_out_again() {
        let text = "{\n    \"model\": \"x\",\n    \"hooks\": {\n        \"Stop\": [\n            {\"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]}\n        ],\n        \"PreCompact\": []\n    },\n    \"end\" : 1.0\n}";
        let with = installed(Dialect::ClaudeCode, text, COMMAND);
        let value: Value = serde_json::from_str(&with).unwrap();
        assert_eq!(value["hooks"]["Stop"].as_array().unwrap().len(), 2);
        assert_eq!(value["hooks"]["Stop"][1]["hooks"][0]["command"], COMMAND);
        assert_eq!(value["hooks"]["PreToolUse"][0]["matcher"], "Bash");
        assert!(with.contains("\"end\" : 1.0") && with.contains("say done"));
        assert_eq!(uninstalled(&with).unwrap(), text);
        let other = installed(Dialect::ClaudeCode, &with, &format!("{COMMAND} --spiral"));
        assert_eq!(other.matches("--spiral").count(), CLAUDE_CODE.len());
        assert_eq!(uninstalled(&other).unwrap(), text);
    }

    #[test]
    fn an_installation_is_known_wherever_the_program_is_and_whatever_it_is_called() {
        let text = "{\"a\": 1}";
        for program in
            ["/my --store x/turntree", "/a hook --dialect b/turntree", "/it's/t", "/bin/tt"]
        {
            for store in ["", " --store '/a hook --dialect codex'"] {
                let command = format!("{}{store} hook --dialect codex", hook_word(program));
                let with = installed(Dialect::Codex, text, &command);
                assert_eq!(installed(Dialect::Codex, &with, &command), with);
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("hooks.json");
                fs::write(&path, &with).unwrap();
                assert_eq!(uninstall(&path, program).unwrap().after.unwrap(), text);
            }
        }
        let other = r#"{"hooks":{"Stop":[{"hooks":[{"command":"git hook --dialect codex"}]}]}}"#;
        assert_eq!(uninstalled(other).unwrap(), other);
    }

    #[test]
    fn what_is_no_file_of_text_is_refused_and_named_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.json");
        let refused = |path: &Path| install(Dialect::Codex, path, COMMAND).unwrap_err().to_string();
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        assert_eq!(refused(&path), "expected a file");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("nowhere", &path).unwrap();
        assert_eq!(refused(&path), "a broken link: expected a file");
        fs::remove_file(&path).unwrap();
        for (bytes, expected) in [
            (&b"{\"a\": \"\xe9\"}"[..], "expected UTF-8"),
            (b"\xef\xbb\xbf{}", "line 1: found a byte order mark: expected JSON"),
        ] {
            fs::write(&path, bytes).unwrap();
            assert_eq!(refused(&path), expected);
        }
    }

    #[test]
    fn a_file_that_was_made_goes_and_one_that_was_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".claude/settings.json");
        let plan = install(Dialect::ClaudeCode, &path, COMMAND).unwrap();
        plan.apply().unwrap();
        assert!(install(Dialect::ClaudeCode, &path, COMMAND).unwrap().is_done());
        let plan = uninstall(&path, "/bin/tt").unwrap();
        assert_eq!(plan.after, None);
        plan.apply().unwrap();
        assert!(!path.exists() && uninstall(&path, "/bin/tt").unwrap().is_done());
        for text in ["{}", "{ }", "{}\n", "{\"hooks\":{}}", "{\"hooks\": {\"Stop\": [ ]} }"] {
            let with = installed(Dialect::ClaudeCode, text, COMMAND);
            assert_eq!(uninstalled(&with).as_deref(), Some(text));
        }
    }

    #[test]
    fn what_is_not_plain_json_is_refused_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.json");
        for (text, expected) in [
            ("{\n  // mine\n  \"a\": 1\n}", "line 2, column 3: found a comment"),
            ("{\"a\": 1 /* x */}", "line 1, column 9: found a comment"),
            ("{\"a\": }", "line 1, column 7: expected JSON"),
            ("[]", "expected a JSON object"),
            ("", "line 1: found nothing"),
            ("{\"hooks\": []}", "hooks: expected a JSON object"),
            ("{\"hooks\": {\"Stop\": {}}}", "hooks.Stop: expected an array"),
            ("{\"hooks\": {}, \"hooks\": {}}", "'hooks' occurs twice"),
        ] {
            fs::write(&path, text).unwrap();
            let error = install(Dialect::ClaudeCode, &path, COMMAND).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn a_link_stays_one_and_permissions_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.json"), folder.path().join("settings.json"));
        fs::write(&real, "{\"a\": 1}").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        install(Dialect::Gemini, &link, COMMAND).unwrap().apply().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::read_to_string(&real).unwrap().contains("run_shell_command"));
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
        let plan = uninstall(&link, "turntree").unwrap();
        fs::write(&real, "{\"a\": 2}").unwrap();
        assert_eq!(plan.apply().unwrap_err().kind(), turntree::ErrorKind::Conflict);
        fs::remove_file(&real).unwrap();
        assert!(install(Dialect::Gemini, &link, COMMAND).is_err());
    }

    fn settings() -> impl Strategy<Value = (Value, bool)> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-z\"\\\\{}\\[\\], ]{0,8}".prop_map(Value::from),
        ];
        let any_value = leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::vec(("[a-c\"]{1,3}", inner), 0..4)
                    .prop_map(|members| members.into_iter().collect::<Value>()),
            ]
        });
        let group = prop_oneof![
            Just(json!({"hooks": []})),
            Just(json!({"matcher": "*", "hooks": [{"type": "command", "command": "x"}]})),
            any_value.clone(),
        ];
        let groups = proptest::collection::vec(group, 0..3).prop_map(Value::from);
        let names = "Stop|PreToolUse|SessionEnd|Mine";
        let hooks = proptest::collection::vec((names, groups), 0..4)
            .prop_map(|events| events.into_iter().collect::<Value>());
        let members = proptest::collection::vec(("[d-f]{1,3}", any_value), 0..4);
        (members, proptest::option::of(hooks), any::<bool>()).prop_map(
            |(mut members, hooks, wide)| {
                members.extend(hooks.map(|hooks| ("hooks".to_owned(), hooks)));
                (members.into_iter().collect::<Value>(), wide)
            },
        )
    }

    turntree_properties::properties! {
        #[test]
        fn whatever_is_there_comes_back((value, wide) in settings(), which in 0_usize..3) {
            let dialect = Dialect::ALL[which];
            let text = if wide {
                serde_json::to_string_pretty(&value).unwrap() + "\n"
            } else {
                value.to_string()
            };
            let with = installed(dialect, &text, COMMAND);
            prop_assert_eq!(&installed(dialect, &with, COMMAND), &with);
            let mut found: Value = serde_json::from_str(&with).unwrap();
            for groups in found["hooks"].as_object_mut().unwrap().values_mut() {
                groups.as_array_mut().unwrap().retain(|group| !is_ours(&group.to_string(), "turntree"));
            }
            for (name, groups) in value.get("hooks").and_then(Value::as_object).into_iter().flatten() {
                prop_assert_eq!(&found["hooks"][name], groups);
            }
            let without = uninstalled(&with);
            prop_assert_eq!(without.as_deref(), Some(text.as_str()));
        }
    }
}
