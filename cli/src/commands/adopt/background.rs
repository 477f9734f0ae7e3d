//! `adopt install` and `adopt uninstall`: the watch as a service of the system, a unit of systemd
//! or an agent of launchd.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use etcetera::BaseStrategy;
use turntree::workspace::read_regular_text;
use turntree::{Error, ErrorKind};
use turntree_exchange::agents::place_variables;

use super::super::hook::write_difference;
use crate::hook::program::{program, utf8};
use crate::hook::settings::Plan;
use crate::platform::{IS_WINDOWS, real_user};
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Failure, Hint, Result};
use crate::view::json;
use crate::view::output::NAME;

/// The unit of systemd.
const UNIT: &str = "turntree-adopt.service";

/// The name of the agent of launchd.
const LABEL: &str = "dev.turntree.adopt";

/// Stands in every file that is written here, and in no other.
const MARK: &str = "Written by 'turntree adopt install'; 'turntree adopt uninstall' removes it.";

/// Largest file that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Let the system run 'adopt --watch' from login on
///
/// Writes a unit of systemd for this user, or an agent of launchd on macOS, that runs this program with
/// the store and the places of agents as they are set now, and prints the command that starts it. A file
/// of that name that this command did not write stays as it is.
#[derive(Debug, Args)]
pub(super) struct Install {
    /// Only print what would be written
    #[arg(long)]
    dry_run: bool,
    /// Also run the command that starts it
    #[arg(long, conflicts_with = "dry_run")]
    start: bool,
}

/// Remove what 'adopt install' has written
#[derive(Debug, Args)]
pub(super) struct Uninstall {
    /// Only print what would be removed
    #[arg(long)]
    dry_run: bool,
    /// First run the command that stops it
    #[arg(long, conflicts_with = "dry_run")]
    stop: bool,
}

/// What starts programs for a user and looks after them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manager {
    Systemd,
    Launchd,
}

/// A program with its arguments and its environment.
struct Service {
    words: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Install {
    pub(super) fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let manager = Manager::here()?;
        let (path, before) = manager.file()?;
        let after = Some(manager.text(&Service::of(run)?)?);
        let plan = Plan { path, before, after };
        if !self.dry_run && !plan.is_done() {
            plan.apply().hint(ErrorKind::Conflict, "try again")?;
        }
        let commands = manager.commands_to_start(&plan.path);
        if self.start {
            run_all(&commands)?;
        }
        let done =
            Done { dry_run: self.dry_run, verb: "installed", then: "start it", ran: self.start };
        done.write(run, &plan, &commands)
    }
}

impl Uninstall {
    pub(super) fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let manager = Manager::here()?;
        let (path, before) = manager.file()?;
        let plan = Plan { path, before, after: None };
        let commands = if plan.is_done() { Vec::new() } else { manager.commands_to_stop() };
        if self.stop {
            run_all(&commands)?;
        }
        if !self.dry_run && !plan.is_done() {
            plan.apply().hint(ErrorKind::Conflict, "try again")?;
        }
        let done = Done { dry_run: self.dry_run, verb: "removed", then: "stop it", ran: self.stop };
        done.write(run, &plan, &commands)
    }
}

/// The facts that are printed at the end.
struct Done {
    dry_run: bool,
    verb: &'static str,
    then: &'static str,
    ran: bool,
}

impl Done {
    fn write(self, run: &mut Invocation, plan: &Plan, commands: &[Vec<String>]) -> Result<Answer> {
        let Self { dry_run, verb, then, ran } = self;
        let commands: Vec<String> = commands.iter().map(|words| words.join(" ")).collect();
        let commands = commands.join(" && ");
        if run.out.json {
            run.out.record(&json::WatchService {
                path: plan.path.display().to_string(),
                changed: !plan.is_done(),
                dry_run,
                command: Some(commands).filter(|commands| !commands.is_empty()),
                ran,
            })?;
            return Ok(Answer::Yes);
        }
        let path = run.out.paint.paint(NAME, plan.path.display());
        if plan.is_done() {
            let state = if plan.after.is_some() { "is up to date" } else { "is not there" };
            writeln!(run.out, "{path} {state}")?;
        } else if dry_run {
            write_difference(run, &plan.path, plan.before.as_deref(), plan.after.as_deref())?;
        } else {
            writeln!(run.out, "{verb}: {path}")?;
        }
        if !ran && !commands.is_empty() {
            writeln!(run.out, "to {then}: {commands}")?;
        }
        Ok(Answer::Yes)
    }
}

/// Runs commands one after the other, up to one that fails.
fn run_all(commands: &[Vec<String>]) -> Result<()> {
    for words in commands {
        let Some((program, arguments)) = words.split_first() else { continue };
        let shown = words.join(" ");
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
        let failed = |error| {
            let hint = "the file stays: start it by hand, or where nothing starts services, run \
                        'turntree adopt --watch &'";
            Failure::hinted(Error::io(format!("run '{shown}'"), error), hint)
        };
        let status = command.status().map_err(failed)?;
        if !status.success() {
            return Err(failed(io::Error::other(status.to_string())));
        }
    }
    Ok(())
}

impl Service {
    /// This program and its places, as they are now.
    fn of(run: &Invocation) -> Result<Self> {
        let mut words = vec![program()?];
        if let Some(store) = run.named_store() {
            let store = std::path::absolute(store)
                .map_err(|error| Error::io(format!("find {}", store.display()), error))?;
            words.extend(["--store".to_owned(), utf8(&store)?.to_owned()]);
        }
        words.extend(["adopt".to_owned(), "--watch".to_owned()]);
        let mut environment = Vec::new();
        for name in place_variables() {
            if let Some(value) = std::env::var_os(&name).filter(|value| !value.is_empty()) {
                environment.push((name, utf8(Path::new(&value))?.to_owned()));
            }
        }
        Ok(Self { words, environment })
    }
}

impl Manager {
    fn here() -> Result<Self> {
        if IS_WINDOWS {
            let error = "services of Windows are not written";
            let hint = "let the Task Scheduler run 'turntree adopt --watch' when you log on";
            return Err(Failure::hinted(Error::new(ErrorKind::Unsupported, error), hint));
        }
        Ok(if cfg!(target_os = "macos") { Self::Launchd } else { Self::Systemd })
    }

    /// Returns the path of the service file, and its content if it exists.
    fn file(self) -> Result<(PathBuf, Option<String>)> {
        let none = |error| Error::not_found("there is no home directory").with_source(error);
        let path = match self {
            Self::Systemd => {
                let base = etcetera::choose_base_strategy().map_err(none)?;
                base.config_dir().join("systemd/user").join(UNIT)
            }
            Self::Launchd => {
                let home = etcetera::home_dir().map_err(none)?;
                home.join("Library/LaunchAgents").join(format!("{LABEL}.plist"))
            }
        };
        let failed = |error| Error::io(format!("read {}", path.display()), error);
        let text = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((path, None)),
            Err(error) => return Err(failed(error).into()),
            Ok(found) if !found.is_file() || found.len() > MAX_BYTES => None,
            Ok(_) => read_regular_text(&path, MAX_BYTES).ok(),
        };
        match text.filter(|text| text.contains(MARK)) {
            Some(text) => Ok((path, Some(text))),
            None => {
                let error = format!("{} is not by 'turntree adopt install'", path.display());
                let hint =
                    "it was left as it is; move it away, or run 'turntree adopt --watch' by it";
                Err(Failure::hinted(Error::invalid(error), hint))
            }
        }
    }

    /// The text of the file.
    fn text(self, service: &Service) -> Result<String> {
        let values = service.environment.iter().map(|(_, value)| value);
        if service.words.iter().chain(values).any(|text| text.chars().any(char::is_control)) {
            let error = "a path with a line end or another control character cannot be put there";
            return Err(Error::invalid(error).into());
        }
        Ok(match self {
            Self::Systemd => unit(service),
            Self::Launchd => property_list(service),
        })
    }

    fn commands_to_start(self, path: &Path) -> Vec<Vec<String>> {
        match self {
            Self::Systemd => {
                ["daemon-reload", "enable", "restart"].map(systemctl).into_iter().collect()
            }
            Self::Launchd => {
                let domain = format!("gui/{}", real_user());
                let path = path.display().to_string();
                vec![vec!["launchctl".to_owned(), "bootstrap".to_owned(), domain, path]]
            }
        }
    }

    fn commands_to_stop(self) -> Vec<Vec<String>> {
        match self {
            Self::Systemd => ["stop", "disable"].map(systemctl).into_iter().collect(),
            Self::Launchd => {
                let name = format!("gui/{}/{LABEL}", real_user());
                vec![vec!["launchctl".to_owned(), "bootout".to_owned(), name]]
            }
        }
    }
}

fn systemctl(verb: &str) -> Vec<String> {
    let unit = (verb != "daemon-reload").then_some(UNIT);
    ["systemctl", "--user", verb].into_iter().chain(unit).map(str::to_owned).collect()
}

/// A unit of systemd.
fn unit(service: &Service) -> String {
    // A specifier begins with %, and in a command a variable with $.
    let quoted = |text: &str| {
        let text = text.replace('\\', r"\\").replace('"', "\\\"").replace('%', "%%");
        format!("\"{text}\"")
    };
    let words: Vec<String> =
        service.words.iter().map(|word| quoted(word).replace('$', "$$")).collect();
    let mut text = format!(
        "# {MARK}\n[Unit]\nDescription=turntree: keeps the sessions of agents\n\n[Service]\n\
         ExecStart={}\n",
        words.join(" ")
    );
    for (name, value) in &service.environment {
        text += &format!("Environment={}\n", quoted(&format!("{name}={value}")));
    }
    text += "Restart=on-failure\nRestartSec=60\nNice=10\n\n[Install]\nWantedBy=default.target\n";
    text
}

/// An agent of launchd.
fn property_list(service: &Service) -> String {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let words: String = service
        .words
        .iter()
        .map(|word| format!("        <string>{}</string>\n", escaped(word)))
        .collect();
    let environment: String = service
        .environment
        .iter()
        .map(|(name, value)| {
            format!("        <key>{name}</key>\n        <string>{}</string>\n", escaped(value))
        })
        .collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \
         \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
         <!-- {MARK} -->\n\
         <plist version=\"1.0\">\n<dict>\n    <key>Label</key>\n    <string>{LABEL}</string>\n    \
         <key>ProgramArguments</key>\n    <array>\n{words}    </array>\n    \
         <key>EnvironmentVariables</key>\n    <dict>\n{environment}    </dict>\n    \
         <key>RunAtLoad</key>\n    <true/>\n    \
         <key>KeepAlive</key>\n    <dict>\n        <key>SuccessfulExit</key>\n        <false/>\n    \
         </dict>\n    <key>ThrottleInterval</key>\n    <integer>60</integer>\n    \
         <key>ProcessType</key>\n    <string>Background</string>\n</dict>\n</plist>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(program: &str) -> Service {
        let words = [program, "adopt", "--watch"].map(str::to_owned).to_vec();
        Service { words, environment: vec![("CODEX_HOME".to_owned(), "/h/50% & more".to_owned())] }
    }

    #[test]
    fn a_unit_says_words_as_they_are() {
        let text = Manager::Systemd.text(&service(r#"/opt/a "b" $c\t"#)).unwrap();
        let command = r#"ExecStart="/opt/a \"b\" $$c\\t" "adopt" "--watch""#;
        assert!(text.lines().any(|line| line == command), "{text}");
        assert!(text.contains("\nEnvironment=\"CODEX_HOME=/h/50%% & more\"\n"), "{text}");
        assert!(text.contains(MARK));
    }

    #[test]
    fn an_agent_of_launchd_says_words_as_they_are() {
        let text = Manager::Launchd.text(&service("/opt/a & <b>")).unwrap();
        assert!(text.contains("<string>/opt/a &amp; &lt;b&gt;</string>"), "{text}");
        assert!(text.contains("<key>CODEX_HOME</key>\n        <string>/h/50% &amp; more</string>"));
        assert!(text.contains(MARK));
    }

    #[test]
    fn a_path_that_would_begin_a_line_of_its_own_is_refused() {
        for manager in [Manager::Systemd, Manager::Launchd] {
            assert!(manager.text(&service("/a\nExecStartPre=/b")).is_err());
        }
    }
}
