//! Ledger of effects: what the tool calls of turns changed outside of the store, so that a
//! person or agent that goes back knows what stays.
//!
//! A rollback reverts the context and the files that snapshots capture. A push, a message or a
//! payment has taken place anyway, and an agent that has forgotten it does it twice. The class of
//! a call is decided by rules for programs and tool names ([`rules`](self)), never by a model.
//!
//! ```text
//! turns after the target ── tool calls ── commands of a script ── rules ── ledger
//! ```

mod rules;
mod shell;

use std::collections::HashMap;
use std::ops::Range;

use turntree::context::MessageEntry;
use turntree::context::sections::is_conversation;
use turntree::error::Result;
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::{LogEntry, Repository, RollbackTarget};

use super::test_runs::{exit_code, script_of};
use super::turn_diff::{repeats, turn_diff};
use crate::formats::view;
use crate::import::rollback::{RESUMED_FROM, RESUMED_PAST};
use crate::model::view::{MessageView, ToolCall, ToolResult};
use crate::secrets::mask_secrets;

/// The newest turns that a ledger reads.
const LEDGER_TURNS: usize = 2_000;

/// The most characters of a call in a ledger.
const MAX_CALL_CHARS: usize = 100;

/// The effect of a tool call, the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Effect {
    /// It only reads files, or notes of the client.
    Reads,
    /// It reads from other machines.
    Network,
    /// It changes files, which snapshots capture.
    Files,
    /// It runs a program whose effects are unknown: a build, a test, a script.
    Process,
    /// It changes something that no rollback reverts.
    Outside(Outside),
}

/// The kind of a change that no rollback reverts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Outside {
    /// The history of a local repository: commits, merges, tags.
    Repository,
    /// Packages, services or accounts of this machine.
    System,
    /// A request with a body, or a tool of a server that changes something.
    Request,
    /// Objects in a storage service.
    Storage,
    /// Another machine, by a remote shell or a copy.
    Machine,
    /// A database.
    Database,
    /// A deployment or cloud resources.
    Deployment,
    /// Pull requests, issues and releases of a forge.
    Forge,
    /// Commits sent to another repository.
    Push,
    /// A published package or image.
    Publication,
    /// A message to a person.
    Message,
    /// A payment, an order or a booking.
    Payment,
}

impl Outside {
    /// Returns the name in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Repository => "repository",
            Self::System => "system",
            Self::Request => "request",
            Self::Storage => "storage",
            Self::Machine => "machine",
            Self::Database => "database",
            Self::Deployment => "deployment",
            Self::Forge => "forge",
            Self::Push => "push",
            Self::Publication => "publication",
            Self::Message => "message",
            Self::Payment => "payment",
        }
    }
}

/// The result of a call, as far as the transcript has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallOutcome {
    /// It returned without an error.
    Done,
    /// It reported an error. Part of its effect may have taken place.
    Failed,
    /// The transcript has no result: it may have taken place.
    Unknown,
}

impl CallOutcome {
    /// Returns the name in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

/// A call with an effect that no rollback reverts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LedgerEntry {
    /// The turn of the call.
    pub turn: u64,
    /// The commit of the turn.
    pub commit: ObjectId,
    /// The name of the tool.
    pub tool: String,
    /// The kind of change.
    pub kind: Outside,
    /// The command, or the tool with its arguments, in one line of at most 100 characters; secrets
    /// are masked.
    pub call: String,
    /// The result.
    pub outcome: CallOutcome,
}

/// The effects of some turns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ledger {
    /// The calls that no rollback reverts, oldest first.
    pub entries: Vec<LedgerEntry>,
    /// Older turns that were not read, and turns whose content expired.
    pub unread: u64,
}

/// Returns the effects of the turns on the line of `tip` that are not ancestors of `target`: those
/// that a rollback from `tip` to `target` does not revert.
///
/// Reads the new messages of the newest 2,000 of these turns.
///
/// # Errors
/// Errors of reading the commits. Turns whose content cannot be read are counted as unread.
pub fn ledger(repo: &Repository, tip: &ObjectId, target: &ObjectId) -> Result<Ledger> {
    let mut ledger = Ledger::default();
    let mut turns = Vec::new();
    for entry in repo.history(&[*tip], &[*target])?.first_parent() {
        let entry = entry?;
        match turns.len() < LEDGER_TURNS {
            true => turns.push(entry),
            false => ledger.unread += 1,
        }
    }
    let mut reader = LedgerReader { ledger, open: HashMap::new() };
    for entry in turns.iter().rev().filter(|entry| !repeats(&entry.commit)) {
        if reader.add_turn(repo, entry).is_err() {
            reader.ledger.unread += 1;
        }
    }
    Ok(reader.ledger)
}

/// The newest turns of a line in which [`return_before`] looks.
const RETURN_TURNS: usize = 50;

/// A return to an earlier turn: by a rollback, or by a session that resumes there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Return {
    /// The snapshot that returns.
    pub commit: ObjectId,
    /// The newest turn before it.
    pub past: ObjectId,
    /// The turn that it returns to.
    pub target: ObjectId,
}

/// Returns the newest return among the last 50 turns on the line of `tip`: a conversation at `tip`
/// does not have the turns that it left behind.
///
/// # Errors
/// Errors of reading the commits.
pub fn return_before(repo: &Repository, tip: &ObjectId) -> Result<Option<Return>> {
    for entry in repo.history(&[*tip], &[])?.first_parent().take(RETURN_TURNS) {
        let LogEntry { id, commit, parents } = entry?;
        let metadata = |key| commit.metadata.get(key)?.parse::<ObjectId>().ok();
        let resumed = metadata(RESUMED_FROM).zip(metadata(RESUMED_PAST));
        let rolled_back =
            RollbackTarget::of(&commit).and_then(|it| Some((it.to, *parents.first()?)));
        if let Some((target, past)) = resumed.or(rolled_back) {
            return Ok(Some(Return { commit: id, past, target }));
        }
    }
    Ok(None)
}

/// Reads turns, oldest first, and pairs calls with their results.
struct LedgerReader {
    ledger: Ledger,
    /// The positions of the entries of calls without a result, by their conversation and id.
    open: HashMap<(String, String), Range<usize>>,
}

impl LedgerReader {
    fn add_turn(&mut self, repo: &Repository, entry: &LogEntry) -> Result<()> {
        let Some(turn) = turn_diff(repo, entry)? else {
            self.ledger.unread += 1;
            return Ok(());
        };
        let conversations = turn.changed.iter().filter(|(name, _)| is_conversation(name));
        for (section, diff) in conversations {
            for item in diff.changes.iter().filter_map(|change| change.new.as_ref()) {
                let message = MessageEntry::from_item(item)?;
                let bytes = repo.store().read_as(Kind::Blob, &message.blob)?;
                self.add_message(entry, section, &view(&message.media, &bytes));
            }
        }
        Ok(())
    }

    fn add_message(&mut self, entry: &LogEntry, section: &str, message: &MessageView) {
        let entries = &mut self.ledger.entries;
        for call in &message.tool_calls {
            let begins = entries.len();
            entries.extend(effects_of(call).into_iter().map(|(kind, text)| LedgerEntry {
                turn: entry.commit.turn,
                commit: entry.id,
                tool: call.name.clone(),
                kind,
                call: shown(&text),
                outcome: CallOutcome::Unknown,
            }));
            self.open.insert((section.to_owned(), call.id.clone()), begins..entries.len());
        }
        for result in &message.tool_results {
            let call = self.open.remove(&(section.to_owned(), result.call_id.clone()));
            let found = call.and_then(|positions| entries.get_mut(positions));
            for entry in found.into_iter().flatten() {
                entry.outcome = outcome(result);
            }
        }
    }
}

/// Returns the parts of a call that no rollback reverts: the commands of a script, or the call.
fn effects_of(call: &ToolCall) -> Vec<(Outside, String)> {
    let outside = |effect: Effect| match effect {
        Effect::Outside(kind) => Some(kind),
        _ => None,
    };
    match script_of(call) {
        Some(script) if !is_editor(call) => shell::commands(&script)
            .into_iter()
            .filter_map(|command| Some((outside(rules::of_command(&command))?, command.line())))
            .collect(),
        _ => {
            let text = || format!("{} {}", call.name, call.input);
            outside(rules::of_tool(&call.name)).map(|kind| (kind, text())).into_iter().collect()
        }
    }
}

/// Returns true for tools whose argument `command` is no script.
fn is_editor(call: &ToolCall) -> bool {
    call.name.starts_with("str_replace")
}

/// Returns a call in one short line, without secrets.
fn shown(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let masked = match mask_secrets(line.as_bytes(), &|_| true) {
        Ok(Some(masked)) => String::from_utf8_lossy(&masked).into_owned(),
        Ok(None) => line,
        // A value that cannot be masked is not shown.
        Err(_) => line.split(' ').next().unwrap_or_default().to_owned(),
    };
    match masked.char_indices().nth(MAX_CALL_CHARS) {
        Some((end, _)) => format!("{}…", masked.get(..end).unwrap_or_default()),
        None => masked,
    }
}

fn outcome(result: &ToolResult) -> CallOutcome {
    let code = exit_code(&result.text);
    match result.is_error || code.is_some_and(|code| code != 0) {
        true => CallOutcome::Failed,
        false => CallOutcome::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the strongest effect of a tool call.
    fn effect_of(call: &ToolCall) -> Effect {
        match script_of(call) {
            Some(script) if !is_editor(call) => {
                let effects = shell::commands(&script).into_iter().map(|it| rules::of_command(&it));
                effects.max().unwrap_or(Effect::Process)
            }
            _ => rules::of_tool(&call.name),
        }
    }

    fn effect(tool: &str, input: &serde_json::Value) -> Effect {
        let input = input.to_string();
        effect_of(&ToolCall { id: "1".into(), name: tool.into(), input })
    }

    fn of_script(script: &str) -> Effect {
        effect("Bash", &serde_json::json!({"command": script}))
    }

    #[test]
    fn commands_have_their_effects() {
        use Outside::*;
        for (script, expected) in [
            ("git push origin main", Effect::Outside(Push)),
            ("git -C sub push", Effect::Outside(Push)),
            ("git commit -am wip && git push --dry-run", Effect::Outside(Repository)),
            ("gh pr create --fill", Effect::Outside(Forge)),
            ("gh -R a/b issue comment 3 -b hi", Effect::Outside(Forge)),
            ("gh api repos/a/b/issues -f title=x", Effect::Outside(Forge)),
            ("npm publish", Effect::Outside(Publication)),
            ("docker push a/b", Effect::Outside(Publication)),
            ("kubectl -n prod apply -f a.yaml", Effect::Outside(Deployment)),
            ("terraform apply -auto-approve", Effect::Outside(Deployment)),
            ("aws ec2 terminate-instances --instance-ids i", Effect::Outside(Deployment)),
            ("aws s3 cp a s3://b/c", Effect::Outside(Storage)),
            ("psql -c 'DELETE FROM users'", Effect::Outside(Database)),
            ("psql shop <<'EOF'\nDROP TABLE users;\nEOF", Effect::Outside(Database)),
            ("mysql shop < dump.sql", Effect::Outside(Database)),
            ("mongosh --eval 'db.users.drop()'", Effect::Outside(Database)),
            ("psql -c 'SELECT 1'", Effect::Network),
            ("ssh host <<'EOF'\nrm -rf /srv/a\nEOF", Effect::Outside(Machine)),
            ("npm install -g serve", Effect::Outside(System)),
            ("npm root -g", Effect::Process),
            ("vercel --prod", Effect::Outside(Deployment)),
            ("rails db:migrate", Effect::Outside(Database)),
            ("curl -X POST https://a.example/pay -d '{}'", Effect::Outside(Request)),
            ("curl --data a=b https://a.example", Effect::Outside(Request)),
            ("ssh host 'systemctl restart web'", Effect::Outside(Machine)),
            ("scp a host:b", Effect::Outside(Machine)),
            ("rsync -a . host:/srv", Effect::Outside(Machine)),
            ("echo hi | mail -s hi a@example.org", Effect::Outside(Message)),
            ("sudo apt-get install -y jq", Effect::Outside(System)),
            ("bash -lc 'cd a && git push'", Effect::Outside(Push)),
            ("curl -s https://a.example | jq .", Effect::Network),
            ("curl -X POST http://localhost:3000/a", Effect::Process),
            ("git fetch --all", Effect::Network),
            ("gh pr view 3", Effect::Network),
            ("aws s3 ls", Effect::Network),
            ("kubectl get pods", Effect::Process),
            ("kubectl apply -f a --dry-run=client", Effect::Reads),
            ("git stash list", Effect::Reads),
            ("git status && ls -la", Effect::Reads),
            ("cargo test 2>&1 | tail -5", Effect::Process),
            ("echo x > f", Effect::Files),
            ("rm -rf build", Effect::Files),
            ("sqlite3 a.db 'insert into t values (1)'", Effect::Files),
            ("cat > deploy.sh <<'EOF'\ngit push\nEOF", Effect::Files),
            ("grep -r 'git push' .", Effect::Reads),
        ] {
            assert_eq!(of_script(script), expected, "{script}");
        }
    }

    #[test]
    fn tools_have_the_effects_of_their_names() {
        for (tool, expected) in [
            ("Read", Effect::Reads),
            ("Edit", Effect::Files),
            ("write_file", Effect::Files),
            ("WebFetch", Effect::Network),
            ("TodoWrite", Effect::Reads),
            ("mcp__filesystem__write_file", Effect::Files),
            ("mcp__github__get_issue", Effect::Network),
            ("mcp__github__create_issue", Effect::Outside(Outside::Request)),
            ("mcp__slack__send_message", Effect::Outside(Outside::Message)),
            ("transfer_funds", Effect::Outside(Outside::Payment)),
            ("bookFlight", Effect::Outside(Outside::Payment)),
            ("send_email", Effect::Outside(Outside::Message)),
            ("get_balance", Effect::Reads),
            ("simulate", Effect::Process),
            ("write_stdin", Effect::Process),
            ("submit", Effect::Reads),
        ] {
            assert_eq!(effect(tool, &serde_json::json!({"to": "a"})), expected, "{tool}");
        }
        let editor =
            |command| effect("str_replace_editor", &serde_json::json!({"command": command}));
        assert_eq!(editor("git push"), Effect::Files);
    }

    #[test]
    fn secrets_in_calls_are_masked_and_long_calls_cut() {
        let key = "AKIAZ7QW2NXK5PLMT3RV";
        let line = shown(&format!("aws configure set aws_access_key_id {key} {}", "x".repeat(300)));
        assert!(!line.contains(key) && line.ends_with('…'), "{line}");
        assert_eq!(line.chars().count(), MAX_CALL_CHARS + 1);
    }
}
