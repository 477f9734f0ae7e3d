//! `hook check`: shows which clients run hooks, and when they last did.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use turntree::Error;
use turntree_exchange::agents::hook::Dialect;

use crate::hook::calls;
use crate::hook::plugins::hook_files;
use crate::hook::program::program;
use crate::hook::settings::{has_local, path_of, path_of_user, uninstall};
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};
use crate::view::json;
use crate::view::output::NAME;

/// Show which clients have the hooks, and the last call of each
///
/// Reads the settings of the project in the working directory, those of the user, and the plugins
/// of Claude Code and Gemini CLI. A client that has the hooks but never called them does not run
/// them: it may require trusting them first.
#[derive(Debug, Args)]
pub(crate) struct Check {}

impl Check {
    #[expect(clippy::unused_self, reason = "as every other command")]
    pub(crate) fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = if run.would_create()? { None } else { Some(run.open()?) };
        for dialect in Dialect::ALL {
            let places = installed(dialect)?;
            let called = repo.as_ref().and_then(|repo| calls::last(repo, dialect.name()));
            if run.out.json {
                let (last_called, last_event) = called.unzip();
                let (client, installed) = (dialect.name(), paths(&places));
                run.out.record(&json::HookCheck { client, installed, last_called, last_event })?;
                continue;
            }
            let name = run.out.paint.paint(NAME, dialect.name());
            let places_said = match places.is_empty() {
                true => "not installed".to_owned(),
                false => format!("installed in {}", paths(&places).join(", ")),
            };
            let said = match &called {
                Some((time, event)) => format!("last called {time} at {event}"),
                None => "never called for this store".to_owned(),
            };
            writeln!(run.out, "{name}: {places_said}; {said}")?;
            if let Some((_, is_project)) = places.first().filter(|_| called.is_none()) {
                for (number, step) in dialect.steps_to_trust(*is_project).iter().enumerate() {
                    writeln!(run.out, "  {}. {step}", number + 1)?;
                }
            }
        }
        Ok(Answer::Yes)
    }
}

fn paths(places: &[(String, bool)]) -> Vec<String> {
    places.iter().map(|(path, _)| path.clone()).collect()
}

/// The settings files of a client with our hooks, and whether each belongs to a project.
fn installed(dialect: Dialect) -> Result<Vec<(String, bool)>> {
    let here =
        std::env::current_dir().map_err(|error| Error::io("find the working directory", error))?;
    let program = program()?;
    let local = has_local(dialect).then(|| path_of(dialect, &here, true));
    let shared = path_of(dialect, &here, false);
    let of_project = local.into_iter().chain([shared]).map(|path| (path, true));
    let of_user = path_of_user(dialect).ok().map(|path| (path, false));
    let settings: Vec<(PathBuf, bool)> = of_project.chain(of_user).collect();
    let paths: Vec<PathBuf> = settings.iter().rev().map(|(path, _)| path.clone()).collect();
    let of_plugins = hook_files(dialect, &paths).into_iter().map(|path| (path, false));
    let mut found = Vec::new();
    for (path, is_project) in settings.into_iter().chain(of_plugins) {
        // Invalid settings have no working hooks.
        let is_there = uninstall(&path, &program).is_ok_and(|plan| !plan.is_done());
        if is_there {
            found.push((path.display().to_string(), is_project));
        }
    }
    Ok(found)
}
