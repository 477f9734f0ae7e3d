//! `hook`: handles the events of an agent, and installs the hooks that send them.

mod check;
mod git;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use similar::TextDiff;
use turntree::{Error, ErrorKind};
use turntree_exchange::agents::hook::Dialect;

use self::check::Check;
use self::git::GitMessage;
use super::Verb;
use crate::hook::event::{self, Behaviour};
use crate::hook::log;
use crate::hook::program::{PLAIN, is_on_path, program, utf8};
use crate::hook::settings::{
    Plan, ROLLBACK, has_local, install, path_of, path_of_user, rollback_command, uninstall,
};
use crate::platform::hook_word;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Failure, Hint, Result};
use crate::view::json;
use crate::view::output::{FAINT, NAME, warn};

/// Take a snapshot at every step of Claude Code, Codex or Gemini CLI
///
/// Without a command it reads one event of a client from standard input and stores the new turns of
/// the transcript, with the files that tools changed. It never fails and never makes an agent wait
/// for long; 'turntree hook log' shows its errors.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree hook install claude-code --dry-run
  turntree hook install claude-code --user --offload 20000 --spiral
  turntree hook install claude-code --rollback
  turntree hook install git
  turntree hook uninstall claude-code --user
  turntree hook check
  turntree hook log
  turntree hook < event.json")]
pub(crate) struct Hook {
    #[command(subcommand)]
    action: Option<HookCommand>,
    /// Client that sends the events; detected from their content by default
    #[arg(long, value_enum, value_name = "CLIENT")]
    dialect: Option<Client>,
    #[command(flatten)]
    flags: Flags,
    /// Run in the background; no client waits
    #[arg(long, hide = true)]
    background: bool,
}

#[derive(Debug, Args)]
struct Flags {
    /// Offload tool outputs with more characters than this (Claude Code)
    #[arg(long, value_name = "N")]
    offload: Option<u64>,
    /// If the agent is in a loop: warn it (the default), or pause it and ask the user
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "warn"
    )]
    spiral: Option<OnLoop>,
    /// Show the agent the lessons of its session
    #[arg(long)]
    lessons: bool,
    /// Roll back if a prompt asks for it, such as '/rollback' or 'undo that': see 'rollback --said'
    #[arg(long)]
    rollback: bool,
    /// Files to store with an event: auto, or off for only files named by tools
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    workspace: Workspace,
}

impl Flags {
    fn is_any(&self) -> bool {
        let Self { offload, spiral, lessons, rollback, workspace } = self;
        offload.is_some()
            || spiral.is_some()
            || *lessons
            || *rollback
            || *workspace != Workspace::default()
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Workspace {
    #[default]
    Auto,
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnLoop {
    Warn,
    Pause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Client {
    ClaudeCode,
    Codex,
    Gemini,
}

/// Programs with settings or scripts for hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Program {
    ClaudeCode,
    Codex,
    Gemini,
    /// Add the turn to commits made while an agent works
    Git,
}

#[derive(Debug, Subcommand)]
enum HookCommand {
    Install(Install),
    Uninstall(Uninstall),
    Log(HookLog),
    #[command(aliases = ["ls", "list"])]
    Check(Check),
    GitMessage(GitMessage),
}

/// Add the hooks to the settings of a client
///
/// Everything else in the settings stays the same, byte for byte. A repeated installation replaces
/// the previous one. For Claude Code the settings are .claude/settings.local.json, which is for
/// this machine only, and they run this program by its path; with --shared they are
/// .claude/settings.json, which runs plain 'turntree'. Codex and Gemini CLI only have settings that
/// may be shared.
///
/// For git, a line is added to the script prepare-commit-msg of the repository: commits made while
/// an agent works get trailers that name the turn. 'turntree show COMMIT' finds the turn.
#[derive(Debug, Args)]
struct Install {
    #[command(flatten)]
    place: SettingsPlace,
    #[command(flatten)]
    flags: Flags,
}

/// Remove the hooks from the settings of a client
///
/// Without --shared or --user, from all settings of the project.
#[derive(Debug, Args)]
struct Uninstall {
    #[command(flatten)]
    place: SettingsPlace,
}

/// Show the errors of hooks
#[derive(Debug, Args)]
struct HookLog {}

#[derive(Debug, Args)]
struct SettingsPlace {
    /// The client
    #[arg(value_enum, value_name = "CLIENT")]
    program: Program,
    /// Use the settings of the project in the working directory (default): those for this machine
    /// only, if the client has such
    #[arg(long, conflicts_with = "user")]
    project: bool,
    /// Use the project settings that a team shares; they run plain 'turntree'
    #[arg(long, conflicts_with = "user")]
    shared: bool,
    /// Use the user's settings
    #[arg(long)]
    user: bool,
    /// Only print the changes
    #[arg(long)]
    dry_run: bool,
}

impl Verb for Hook {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let is_for_events = self.dialect.is_some() || self.background || self.flags.is_any();
        if self.action.is_some() && is_for_events {
            let message = "these options apply to an event";
            return Err(Error::invalid(message))
                .hint(ErrorKind::InvalidInput, "put installation options after 'install'");
        }
        if !matches!(self.action, Some(HookCommand::Install(_) | HookCommand::Uninstall(_))) {
            // A hook's error is not shown, so an untrusted store is left alone.
            run.avoid_untrusted();
        }
        match &self.action {
            Some(HookCommand::Install(action)) => action.run(run),
            Some(HookCommand::Uninstall(action)) => action.run(run),
            Some(HookCommand::Log(_)) => HookLog::run(run),
            Some(HookCommand::Check(action)) => action.run(run),
            Some(HookCommand::GitMessage(action)) => Ok(action.run(run)),
            None => {
                let behaviour = Behaviour {
                    dialect: self.dialect.map(Into::into),
                    offload: self.flags.offload,
                    spiral: self.flags.spiral.is_some(),
                    pauses: self.flags.spiral == Some(OnLoop::Pause),
                    lessons: self.flags.lessons,
                    rollback: self.flags.rollback,
                    workspace: self.flags.workspace == Workspace::Auto,
                    background: self.background,
                };
                event::take(run, behaviour);
                Ok(Answer::Yes)
            }
        }
    }
}

impl Hook {
    /// Returns true if these arguments are for an event, which never fails, not even on invalid
    /// arguments.
    pub(crate) fn is_event(arguments: &[std::ffi::OsString]) -> bool {
        let mut words = arguments.iter().skip(1).map(|word| word.to_string_lossy());
        let mut verb = words.next();
        while let Some(option) = verb.as_ref().filter(|word| word.starts_with("--")) {
            if matches!(&**option, "--store" | "--at-op" | "--color") {
                words.next();
            }
            verb = words.next();
        }
        let is_hook = verb.is_some_and(|word| word == "hook");
        let asks = |word: &str| {
            matches!(word, "install" | "uninstall" | "log" | "check" | "help" | "--help" | "-h")
        };
        is_hook && !words.any(|word| asks(&word))
    }
}

impl Install {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let Some(client) = self.place.client() else {
            self.place.check_for_git(self.flags.is_any())?;
            let command = self.program(run)? + " hook";
            git::set_up(run, Some(&command), self.place.dry_run)?;
            return Ok(Answer::Yes);
        };
        if self.flags.offload.is_some() && !client.takes_outputs() {
            let error = format!("{} cannot replace the output of a tool", client.name());
            let hint = "leave out --offload, which is for claude-code";
            return Err(Failure::hinted(Error::invalid(error), hint));
        }
        let command = self.command(run, client)?;
        let path = self.place.path(client)?;
        let plan = install(client, &path, &command);
        let steps = client.steps_to_trust(!self.place.user);
        self.place.carry_out(run, (client, &path), plan, "installed", steps)?;
        self.place.arrange_command(run, (client, &path), self.flags.rollback)?;
        for other in self.place.others(client)? {
            if uninstall(&other, PLAIN).is_ok_and(|plan| !plan.is_done()) {
                let other = other.display();
                warn(&format!("{other} has the hooks, too: 'turntree hook uninstall' removes all"));
            }
        }
        Ok(Answer::Yes)
    }

    /// The command for this program with its store. Shared settings contain no path of this
    /// machine.
    fn program(&self, run: &Invocation) -> Result<String> {
        let is_shared = self.place.client().is_some_and(|client| self.place.is_shared(client));
        let mut command = if is_shared { PLAIN.to_owned() } else { hook_word(&program()?) };
        if is_shared && !is_on_path() {
            warn("'turntree' is not in PATH: the client runs it only where it is");
        }
        if let Some(store) = run.named_store() {
            if self.place.shared {
                let error = "a store is on one machine, but these settings are for a team";
                let hint = "leave out --store and TURNTREE_STORE, or --shared";
                return Err(Failure::hinted(Error::invalid(error), hint));
            }
            let store = std::path::absolute(store)
                .map_err(|error| Error::io(format!("find {}", store.display()), error))?;
            command += &format!(" --store {}", hook_word(utf8(&store)?));
        }
        Ok(command)
    }

    /// The command for the settings, which runs at every event.
    fn command(&self, run: &Invocation, client: Dialect) -> Result<String> {
        let mut command = self.program(run)?;
        command += &format!(" hook --dialect {}", client.name());
        if let Some(offload) = self.flags.offload {
            command += &format!(" --offload {offload}");
        }
        match self.flags.spiral {
            Some(OnLoop::Warn) => command += " --spiral",
            Some(OnLoop::Pause) => command += " --spiral=pause",
            None => {}
        }
        if self.flags.lessons {
            command += " --lessons";
        }
        if self.flags.rollback {
            command += ROLLBACK;
        }
        if self.flags.workspace == Workspace::Off {
            command += " --workspace off";
        }
        Ok(command)
    }
}

impl Uninstall {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let Some(client) = self.place.client() else {
            self.place.check_for_git(false)?;
            git::set_up(run, None, self.place.dry_run)?;
            return Ok(Answer::Yes);
        };
        let (named, program) = (self.place.path(client)?, program()?);
        let others = if self.place.shared { Vec::new() } else { self.place.others(client)? };
        let has_hooks =
            |path: &PathBuf| uninstall(path, &program).map_or(true, |plan| !plan.is_done());
        let mut paths: Vec<PathBuf> =
            std::iter::once(named.clone()).chain(others).filter(has_hooks).collect();
        if paths.is_empty() {
            paths.push(named);
        }
        for path in paths {
            let plan = uninstall(&path, &program);
            self.place.carry_out(run, (client, &path), plan, "uninstalled", &[])?;
            self.place.arrange_command(run, (client, &path), false)?;
        }
        Ok(Answer::Yes)
    }
}

impl SettingsPlace {
    /// The client of the settings; `None` for git.
    fn client(&self) -> Option<Dialect> {
        match self.program {
            Program::ClaudeCode => Some(Dialect::ClaudeCode),
            Program::Codex => Some(Dialect::Codex),
            Program::Gemini => Some(Dialect::Gemini),
            Program::Git => None,
        }
    }

    /// Refuses options that do not apply to git.
    fn check_for_git(&self, has_flags: bool) -> Result<()> {
        if has_flags || self.project || self.shared || self.user {
            let message = "git has one script in each repository, and no options for it";
            return Err(Failure::hinted(Error::invalid(message), "leave out the options"));
        }
        Ok(())
    }

    /// Returns true for project settings that may be shared with other users.
    fn is_shared(&self, client: Dialect) -> bool {
        self.shared || !self.user && !has_local(client)
    }

    fn path(&self, client: Dialect) -> Result<PathBuf> {
        if self.user {
            return Ok(path_of_user(client)?);
        }
        let is_local = !self.is_shared(client);
        Ok(path_of(client, &working_directory()?, is_local))
    }

    /// The other settings of the project.
    fn others(&self, client: Dialect) -> Result<Vec<PathBuf>> {
        if self.user || !has_local(client) {
            return Ok(Vec::new());
        }
        Ok(vec![path_of(client, &working_directory()?, self.shared)])
    }

    /// Adds the command `/rollback` to a client if it `is_wanted`, otherwise removes it.
    fn arrange_command(
        &self,
        run: &mut Invocation,
        (client, settings): (Dialect, &Path),
        is_wanted: bool,
    ) -> Result<()> {
        let done = if is_wanted { "installed" } else { "uninstalled" };
        match rollback_command(client, settings, is_wanted) {
            Ok(Some(plan)) if !plan.is_done() => {
                self.carry_out(run, (client, settings), Ok(plan), done, &[])
            }
            Ok(None) if is_wanted && client.rollback_command().is_some() => {
                warn(
                    "another command called /rollback exists and was kept: say 'undo that' to go back",
                );
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn carry_out(
        &self,
        run: &mut Invocation,
        (client, asked): (Dialect, &Path),
        plan: turntree::Result<Plan>,
        done: &str,
        then: &'static [&'static str],
    ) -> Result<()> {
        let plan = plan.map_err(|error| error.at(asked.display())).hint(
            ErrorKind::InvalidInput,
            "nothing was written; fix the file, or add the hooks by hand as in docs/guides/hooks.md",
        )?;
        if !self.dry_run && !plan.is_done() {
            plan.apply().hint(ErrorKind::Conflict, "try again")?;
        }
        if run.out.json {
            run.out.record(&json::HookSettings {
                client: client.name(),
                path: plan.path.display().to_string(),
                changed: !plan.is_done(),
                dry_run: self.dry_run,
                next_steps: then,
            })?;
            return Ok(());
        }
        let path = plan.path.display();
        if plan.is_done() {
            writeln!(run.out, "{} is up to date", run.out.paint.paint(NAME, path))?;
        } else if self.dry_run {
            write_difference(run, &plan.path, plan.before.as_deref(), plan.after.as_deref())?;
        } else {
            writeln!(run.out, "{done}: {}", run.out.paint.paint(NAME, path))?;
        }
        for (number, step) in then.iter().enumerate() {
            writeln!(run.out, "then {}. {step}", number + 1)?;
        }
        Ok(())
    }
}

fn working_directory() -> Result<PathBuf> {
    Ok(std::env::current_dir().map_err(|error| Error::io("find the working directory", error))?)
}

/// Writes the planned changes of a file.
pub(crate) fn write_difference(
    run: &mut Invocation,
    path: &Path,
    before: Option<&str>,
    after: Option<&str>,
) -> Result<()> {
    let path = path.display().to_string();
    let difference = TextDiff::from_lines(before.unwrap_or_default(), after.unwrap_or_default());
    write!(run.out, "{}", difference.unified_diff().context_radius(1).header(&path, &path))?;
    Ok(())
}

impl HookLog {
    fn run(run: &mut Invocation) -> Result<Answer> {
        let entries = log::entries(&run.store_dir()?)?;
        for log::HookError { time, dialect, event, doing, what } in &entries {
            if run.out.json {
                run.out.record(&json::HookLog {
                    time,
                    dialect,
                    event,
                    step: doing,
                    detail: what,
                })?;
            } else {
                let time = run.out.paint.paint(FAINT, time);
                writeln!(run.out, "{time} {dialect} {event}: {doing}: {what}")?;
            }
        }
        if entries.is_empty() && !run.out.json {
            writeln!(run.out, "nothing went wrong")?;
        }
        Ok(Answer::Yes)
    }
}

impl From<Client> for Dialect {
    fn from(client: Client) -> Self {
        match client {
            Client::ClaudeCode => Self::ClaudeCode,
            Client::Codex => Self::Codex,
            Client::Gemini => Self::Gemini,
        }
    }
}
