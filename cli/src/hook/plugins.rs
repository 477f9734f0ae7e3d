//! Finds the hook files of the plugins of clients, which the settings do not name.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use turntree::workspace::read_regular;
use turntree_exchange::agents::hook::Dialect;

use super::settings::path_of_user;

/// The size of the largest file that is read, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// The hook file in the folder of a plugin, or of an extension of Gemini CLI.
const HOOKS: &str = "hooks/hooks.json";

/// The list of installed plugins next to the settings of Claude Code, and the setting with the
/// enabled ones.
const INSTALLED: &str = "plugins/installed_plugins.json";
const ENABLED: &str = "/enabledPlugins";

/// The folder of extensions next to the settings of Gemini CLI.
const EXTENSIONS: &str = "extensions";

/// Returns the hook files of the enabled plugins of a client. `settings` are its settings files, in
/// ascending order of precedence.
pub(crate) fn hook_files(dialect: Dialect, settings: &[PathBuf]) -> Vec<PathBuf> {
    let Some(folder) = path_of_user(dialect).ok().and_then(|path| Some(path.parent()?.to_owned()))
    else {
        return Vec::new();
    };
    let mut found = match dialect {
        Dialect::ClaudeCode => of_plugins(&folder, settings),
        Dialect::Gemini => of_extensions(&folder),
        Dialect::Codex => Vec::new(),
    };
    found.retain(|path| path.is_file());
    found.sort();
    found.dedup();
    found
}

fn of_plugins(folder: &Path, settings: &[PathBuf]) -> Vec<PathBuf> {
    let mut enabled = BTreeMap::new();
    for document in settings.iter().filter_map(|path| read(path)) {
        let plugins = document.pointer(ENABLED).and_then(Value::as_object);
        for (name, is_on) in plugins.into_iter().flatten() {
            enabled.insert(name.clone(), is_on == &Value::Bool(true));
        }
    }
    let Some(installed) = read(&folder.join(INSTALLED)) else { return Vec::new() };
    let installed = installed.get("plugins").and_then(Value::as_object);
    let is_on = |name: &str| enabled.get(name) == Some(&true);
    let places = installed.into_iter().flatten().filter(|(name, _)| is_on(name));
    // Before version 2 of that file a plugin has one place, not a list.
    let places = places.flat_map(|(_, places)| match places {
        Value::Array(places) => places.iter().collect(),
        place => vec![place],
    });
    let folders = places.filter_map(|place| place.get("installPath")?.as_str());
    folders.map(|path| Path::new(path).join(HOOKS)).collect()
}

fn of_extensions(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join(EXTENSIONS)).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path().join(HOOKS))).collect()
}

fn read(path: &Path) -> Option<Value> {
    let bytes = read_regular(path, MAX_BYTES).ok()?;
    serde_json::from_slice(&bytes).ok()
}
