//! `secrets`: finds secrets in history, allows findings, and sets the mode for imported secrets.

use std::io::Write;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use clap_complete::ArgValueCompleter;
use turntree::repo::{SecretMode, SecretSettings};
use turntree_exchange::{RULES, SecretFinding, SecretScan};

use super::Verb;
use crate::porcelain::read::search::scopes;
use crate::porcelain::read::secrets::{
    about_mode, record, scan, warn_of_unscanned, write_findings,
};
use crate::program::complete::{revisions, sessions};
use crate::program::invocation::{Invocation, stamp};
use crate::view::error::{Answer, Result};
use crate::view::json;
use crate::view::output::{FAINT, ID, note};
use crate::view::render::{count, size};

/// Find secrets, allow findings, and set the mode for imported secrets
///
/// Finds known token formats, private keys, passwords in URLs, and assignments with random-looking
/// values, in contents, names and messages, with any JSON escaping. A finding is reported by its
/// rule, its places and an id; its value is never shown. docs/guides/secrets.md is a guide.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree secrets scan
  turntree secrets scan --all --json
  turntree secrets allow 9c1d0a77e3b2
  turntree secrets mode mask
  turntree redact --secret 9c1d0a77e3b2 --dry-run")]
pub(crate) struct Secrets {
    #[command(subcommand)]
    action: SecretsCommand,
}

#[derive(Debug, Subcommand)]
enum SecretsCommand {
    Scan(Scan),
    Allow(Allow),
    Mode(Mode),
    Rules(Rules),
}

/// Scan a history for secrets
///
/// Each content is read once. The exit code is 1 if there is a secret that is not allowed.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree secrets scan
  turntree secrets scan nightly~10..nightly
  turntree secrets scan --session nightly --json | jq -r '.secrets[].rule'
  turntree secrets scan --all --allowed")]
struct Scan {
    /// Scan the history of these, or A..B for content added since A; all branches of HEAD's session
    /// by default
    #[arg(value_name = "REV", add = ArgValueCompleter::new(revisions))]
    revisions: Vec<String>,
    /// Scan the branches of every session
    #[arg(long, conflicts_with_all = ["revisions", "session"])]
    all: bool,
    /// Scan the branches of this session
    #[arg(long, value_name = "NAME", conflicts_with = "revisions",
        add = ArgValueCompleter::new(sessions))]
    session: Option<String>,
    /// List allowed findings, too
    #[arg(long)]
    allowed: bool,
}

/// Allow a finding, or all findings of a rule; without arguments, list allowed ones
///
/// Applies to scans and to exports. 'turntree undo' reverts it.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree secrets allow 9c1d0a77e3b2
  turntree secrets allow jwt
  turntree secrets allow --remove jwt
  turntree secrets allow")]
struct Allow {
    /// Ids of findings or of rules
    #[arg(value_name = "ID|RULE")]
    names: Vec<String>,
    /// Do not allow this; may be given several times
    #[arg(long, value_name = "ID|RULE")]
    remove: Vec<String>,
}

/// Set the mode for imported secrets: warn, mask or off; without one, print it
///
/// 'warn' stores them and prints a warning, 'mask' stores '[secret: RULE]' in their place, 'off'
/// does not scan. The mode applies to everything that import, adopt, hook, snapshot and the
/// operations of mcp and serve store from now on. A file with a secret is never stored masked: it
/// is left out of snapshots, and left alone by restore and rollback. 'turntree undo' reverts a
/// change.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree secrets mode
  turntree secrets mode mask")]
struct Mode {
    /// warn, mask or off
    #[arg(value_name = "MODE", value_parser = PossibleValuesParser::new(MODES).map(|mode| {
        mode.parse::<SecretMode>().unwrap_or_default()
    }))]
    mode: Option<SecretMode>,
}

/// List the rules
#[derive(Debug, Args)]
struct Rules {}

/// The values of [`SecretMode`].
const MODES: [&str; 3] = [SecretMode::Warn.name(), SecretMode::Mask.name(), SecretMode::Off.name()];

impl Verb for Secrets {
    fn reads_only(&self) -> bool {
        match &self.action {
            SecretsCommand::Scan(_) | SecretsCommand::Rules(_) => true,
            SecretsCommand::Allow(allow) => allow.names.is_empty() && allow.remove.is_empty(),
            SecretsCommand::Mode(mode) => mode.mode.is_none(),
        }
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        match &self.action {
            SecretsCommand::Scan(scan) => scan.run(run),
            SecretsCommand::Allow(allow) => allow.run(run),
            SecretsCommand::Mode(mode) => mode.run(run),
            SecretsCommand::Rules(_) => list_rules(run),
        }
    }
}

impl Scan {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let scopes = scopes(&repo, &self.revisions, self.session.as_deref(), self.all)?;
        let scan = scan(&repo, &scopes)?;
        let open = scan.open().count() as u64;
        let is_shown = |finding: &&SecretFinding| self.allowed || !finding.is_allowed;
        let shown: Vec<&SecretFinding> = scan.findings.iter().filter(is_shown).collect();
        let allowed = scan.findings.len() as u64 - open;
        if run.out.json {
            let (blobs, bytes, known_clean) = (scan.blobs, scan.bytes, scan.known);
            let secrets = shown.into_iter().map(record).collect();
            run.out.record(&json::SecretScan { secrets, allowed, blobs, bytes, known_clean })?;
        } else {
            run.out.page();
            let paint = run.out.paint;
            let first = shown.iter().find(|finding| !finding.is_allowed).map(|it| it.id.clone());
            write_findings(&mut run.out, paint, shown.into_iter())?;
            warn_of_unscanned(&scan);
            let looked = looked_at(&scan);
            let allowed = match allowed {
                0 => String::new(),
                allowed => format!(", {allowed} allowed"),
            };
            match first {
                None => writeln!(run.out, "no secret in {looked}{allowed}")?,
                Some(id) => {
                    let secrets = count(open, "secret");
                    writeln!(run.out, "{secrets} in {looked}{allowed}")?;
                    writeln!(
                        run.out,
                        "'turntree redact --secret {id} --dry-run' plans its removal from all history; 'turntree secrets allow {id}' allows it if it is not a secret"
                    )?;
                }
            }
        }
        Ok(if open == 0 { Answer::Yes } else { Answer::No })
    }
}

/// The contents that a scan read, and the sessions that it skipped.
fn looked_at(scan: &SecretScan) -> String {
    let read = format!("{} in {}", size(scan.bytes), count(scan.blobs, "content"));
    match (scan.known, scan.blobs) {
        (0, _) => read,
        (known, 0) => {
            format!("{}, unchanged since a scan without findings", count(known, "session"))
        }
        (known, _) => {
            let known = count(known, "session");
            format!("{read}; {known} unchanged since a scan without findings")
        }
    }
}

impl Allow {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let before = repo.secret_settings()?;
        let mut settings = before.clone();
        settings.allowed.extend(self.names.iter().cloned());
        for name in &self.remove {
            if !settings.allowed.remove(name) {
                note(&format!("{name} was not allowed"));
            }
        }
        if settings != before {
            set(run, &settings, "secrets allow")?;
        }
        if run.out.json {
            return record_settings(run, settings);
        }
        if settings.allowed.is_empty() {
            writeln!(run.out, "nothing is allowed")?;
        }
        for name in &settings.allowed {
            let about =
                RULES.iter().find(|rule| rule.id == name).map_or("a finding", |it| it.about);
            let name = run.out.paint.paint(ID, name);
            writeln!(run.out, "{name}  {}", run.out.paint.paint(FAINT, about))?;
        }
        Ok(Answer::Yes)
    }
}

impl Mode {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = if self.mode.is_some() { run.open_or_create()? } else { run.open()? };
        let before = repo.secret_settings()?;
        let mode = self.mode.unwrap_or(before.mode);
        let masked = before.masked || mode == SecretMode::Mask;
        let settings = SecretSettings { mode, masked, ..before.clone() };
        if settings != before {
            set(run, &settings, &format!("secrets mode {mode}"))?;
        }
        if run.out.json {
            return record_settings(run, settings);
        }
        writeln!(run.out, "{mode}: {}", about_mode(mode))?;
        if self.mode == Some(SecretMode::Mask) {
            note("secrets that are already stored stay: 'turntree secrets scan --all' finds them");
        }
        Ok(Answer::Yes)
    }
}

fn set(run: &mut Invocation, settings: &SecretSettings, reason: &str) -> Result<()> {
    let repo = run.open()?;
    let mut change = repo.begin();
    change.set_secret_settings(settings)?;
    change.commit(&stamp()?, reason)?;
    Ok(())
}

fn record_settings(run: &mut Invocation, settings: SecretSettings) -> Result<Answer> {
    let allowed = settings.allowed.into_iter().collect();
    run.out.record(&json::SecretsSet { mode: settings.mode.name(), allowed })?;
    Ok(Answer::Yes)
}

fn list_rules(run: &mut Invocation) -> Result<Answer> {
    if run.out.json {
        let rules = RULES.iter().map(|rule| json::SecretRule { rule: rule.id, about: rule.about });
        run.out.record(&json::SecretRules { rules: rules.collect() })?;
        return Ok(Answer::Yes);
    }
    run.out.page();
    let paint = run.out.paint;
    for rule in RULES {
        let id = paint.paint(ID, rule.id);
        writeln!(run.out, "{id:<26}  {}", rule.about)?;
    }
    Ok(Answer::Yes)
}
