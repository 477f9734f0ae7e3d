//! Fits a context into the current configuration: the result of SwarmSDK's restore.
//!
//! A configuration is never restored. Agents that it does not have are left out and reported;
//! prompts are those of the configuration unless the recorded ones are requested.

use std::collections::BTreeMap;
use std::io::Write;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use turntree::context::Context;
use turntree::context::sections::READS;
use turntree::error::{Error, Result};
use turntree::object::{Kind, ObjectId, ObjectSource};

use super::super::json_writer::{Formatted, Json, quoted};
use super::compat::SwarmCompat;
use super::document::SnapshotVersion;
use super::export::{AgentFacts, Recorded, context_state};

/// The agents of today. As JSON:
///
/// ```json
/// {"type": "swarm", "agents": {"lead": {"system_prompt": "You coordinate reviews."}}}
/// ```
#[derive(Debug, Clone, Deserialize)]
pub struct Configuration {
    /// The version of snapshots that is understood.
    #[serde(default = "newest")]
    pub version: String,
    /// `swarm` or `workflow`.
    #[serde(rename = "type", default = "swarm")]
    pub kind: String,
    /// Agents by their names.
    pub agents: BTreeMap<String, AgentPrompt>,
}

/// An agent of a configuration. Its other fields do not matter here.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct AgentPrompt {
    /// Its system prompt.
    #[serde(default)]
    pub system_prompt: Option<String>,
}

fn newest() -> String {
    SnapshotVersion::V2_1.name().to_owned()
}

fn swarm() -> String {
    "swarm".to_owned()
}

impl Configuration {
    /// Reads a configuration.
    ///
    /// # Errors
    /// `InvalidInput` with line and column.
    pub fn parse(json: &[u8]) -> Result<Self> {
        serde_json::from_slice(json).map_err(|source| {
            let (line, column) = (source.line(), source.column());
            Error::invalid(format!(
                "line {line}, column {column}: expected {{\"agents\": {{NAME: {{\"system_prompt\": TEXT}}}}}}"
            ))
        })
    }

    /// Returns the hash of the inputs of a restore: the type, the agents and their prompts.
    #[must_use]
    pub fn hash(&self) -> ObjectId {
        let prompts = self.agents.iter().map(|(name, agent)| (name, &agent.system_prompt));
        hash_of(&self.kind, &prompts.collect())
    }
}

fn hash_of(kind: &str, prompts: &BTreeMap<&String, &Option<String>>) -> ObjectId {
    let canonical = json!({"agents": prompts, "type": kind}).to_string();
    ObjectId::of(Kind::Blob, canonical.as_bytes())
}

/// The parts that could be restored and those that could not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RestoreResult {
    /// True if all of it could.
    pub success: bool,
    /// True if a part could not.
    pub partial_restore: bool,
    /// The result in a sentence.
    pub summary: String,
    /// The parts that could not, and why.
    pub warnings: Vec<RestoreWarning>,
    /// Names of agents that were left out.
    pub skipped_agents: Vec<String>,
    /// Names of delegation instances that were left out.
    pub skipped_delegations: Vec<String>,
    /// The hash of the configuration.
    pub configuration: String,
    /// The hash of the configuration when the snapshot was made.
    pub recorded_configuration: String,
    /// True if they differ.
    pub configuration_differs: bool,
    /// Agents that are in both, with different prompts.
    pub changed_prompts: Vec<String>,
}

/// Something that could not be restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RestoreWarning {
    /// `agent_not_found` or `delegation_instance_not_restorable`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The delegation instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The reason, as readable text.
    pub message: String,
}

/// A restored agent.
#[derive(Debug, Clone)]
pub struct RestoredAgent {
    /// Its name.
    pub name: String,
    /// Its messages as JSON, the system prompt first.
    pub messages: Vec<Box<RawValue>>,
    /// The prompt of the restored agent.
    pub system_prompt: Option<String>,
    /// Its context state, as JSON.
    pub context_state: String,
    /// Digests of the files that it has read, by path.
    pub reads: BTreeMap<String, String>,
    /// Digests of the memory entries that it has read, by path.
    pub memory_reads: BTreeMap<String, String>,
}

/// The result of a restore.
#[derive(Debug, Clone)]
pub struct RestoredSwarm {
    /// The answer.
    pub result: RestoreResult,
    /// Restored agents and delegation instances.
    pub agents: Vec<RestoredAgent>,
    /// Entries of the scratchpad as JSON, by path.
    pub scratchpad: BTreeMap<String, String>,
    /// The states of plugins for these agents as JSON, by plugin and agent.
    pub plugin_states: BTreeMap<String, BTreeMap<String, String>>,
    kind: String,
}

impl RestoredSwarm {
    /// Bytes of the scratchpad, however often it was restored.
    #[must_use]
    pub fn scratchpad_bytes(&self) -> u64 {
        let size = |entry: &String| {
            let entry: Option<Value> = serde_json::from_str(entry).ok();
            let content = entry.as_ref().and_then(|entry| entry.get("content")?.as_str());
            content.map_or(0, |content| content.len() as u64)
        };
        self.scratchpad.values().map(size).sum()
    }

    /// Writes the restored state as JSON: `type`, `agents` and `delegation_instances` by their
    /// names with `messages`, `context_state`, `system_prompt`, `reads` and `memory_reads`, then
    /// `scratchpad` and `plugin_states`.
    ///
    /// # Errors
    /// `Io` when `out` refuses.
    pub fn write(&self, out: &mut dyn Write) -> Result<()> {
        let mut formatted = Formatted::new(out, true);
        let json = &mut Json::new(&mut formatted);
        json.open(b'{')?;
        json.text("type", &self.kind)?;
        for (name, is_instance) in [("agents", false), ("delegation_instances", true)] {
            json.key(name)?;
            json.open(b'{')?;
            for agent in self.agents.iter().filter(|a| a.name.contains('@') == is_instance) {
                json.key(&agent.name)?;
                json.open(b'{')?;
                json.key("messages")?;
                json.open(b'[')?;
                for message in &agent.messages {
                    json.element(message.get().as_bytes())?;
                }
                json.close(b']')?;
                json.raw("context_state", &agent.context_state)?;
                let prompt = agent.system_prompt.as_deref().map_or("null".to_owned(), quoted);
                json.raw("system_prompt", &prompt)?;
                for (name, digests) in
                    [("reads", &agent.reads), ("memory_reads", &agent.memory_reads)]
                {
                    json.raw(name, &serde_json::to_string(digests).unwrap_or_default())?;
                }
                json.close(b'}')?;
            }
            json.close(b'}')?;
        }
        json.key("scratchpad")?;
        json.open(b'{')?;
        for (path, entry) in &self.scratchpad {
            json.raw(path, entry)?;
        }
        json.close(b'}')?;
        json.key("plugin_states")?;
        json.open(b'{')?;
        for (plugin, states) in &self.plugin_states {
            json.key(plugin)?;
            json.open(b'{')?;
            for (agent, state) in states {
                json.raw(agent, state)?;
            }
            json.close(b'}')?;
        }
        json.close(b'}')?;
        json.close(b'}')
    }
}

/// Fits `context` into `configuration`. Keeps recorded prompts if `preserve_prompts` is set.
///
/// With [`SwarmCompat::Sound`] an agent has one system message; upstream keeps the recorded one
/// after the current one.
///
/// # Errors
/// `InvalidInput`, with upstream's message, for a snapshot of another version or type.
pub fn restore_swarm(
    source: &dyn ObjectSource,
    context: &Context,
    configuration: &Configuration,
    preserve_prompts: bool,
    compat: SwarmCompat,
) -> Result<RestoredSwarm> {
    let recorded = Recorded::of(source, context)?;
    let kind = check(&recorded, configuration)?;
    let memory = recorded.memory_reads(recorded.version())?;
    let mut restore = RestoreRun {
        recorded: &recorded,
        memory: &memory,
        configuration,
        preserve_prompts,
        compat,
        prompts: BTreeMap::new(),
        agents: Vec::new(),
        warnings: Vec::new(),
        skipped: [Vec::new(), Vec::new()],
        changed_prompts: Vec::new(),
    };
    for (name, stored) in &recorded.agents {
        restore.agent(name, stored)?;
    }
    let prompts = restore.prompts.iter().collect();
    let (recorded_hash, hash) = (hash_of(&kind, &prompts), configuration.hash());
    let RestoreRun { agents, warnings, skipped, changed_prompts, .. } = restore;
    let [skipped_agents, skipped_delegations] = skipped;
    let (n, m) = (skipped_agents.len(), skipped_delegations.len());
    let success = warnings.is_empty();
    let summary = match success {
        true => "Snapshot restored successfully. All agents restored.".to_owned(),
        false => format!(
            "Snapshot restored with warnings. {n} agents skipped, {m} delegation instances skipped."
        ),
    };
    let result = RestoreResult {
        success,
        partial_restore: !success,
        summary,
        warnings,
        skipped_agents,
        skipped_delegations,
        configuration: hash.to_string(),
        recorded_configuration: recorded_hash.to_string(),
        configuration_differs: hash != recorded_hash,
        changed_prompts,
    };
    let scratchpad = recorded.entries("")?;
    let mut plugin_states = recorded.plugin_states(&memory, recorded.version());
    for states in plugin_states.values_mut() {
        states.retain(|name, _| agents.iter().any(|agent| agent.name == *name));
    }
    Ok(RestoredSwarm { result, agents, scratchpad, plugin_states, kind })
}

/// Checks version and type, in this order, and returns the type.
fn check(recorded: &Recorded<'_>, configuration: &Configuration) -> Result<String> {
    let (version, expected) = (recorded.version(), &configuration.version);
    if version.name() != expected {
        let found = version.name();
        return Err(Error::invalid(format!(
            "Unsupported snapshot version: {found}. Expected: {expected}"
        )));
    }
    let (kind, expected) = (recorded.kind(version), configuration.kind.to_lowercase());
    if kind != expected {
        return Err(Error::invalid(format!(
            "Snapshot type '{kind}' doesn't match orchestration type '{expected}'"
        )));
    }
    Ok(kind)
}

/// A restore in progress.
struct RestoreRun<'a> {
    recorded: &'a Recorded<'a>,
    /// Reads of the memory by each agent, by its stored name.
    memory: &'a BTreeMap<String, BTreeMap<String, String>>,
    configuration: &'a Configuration,
    preserve_prompts: bool,
    compat: SwarmCompat,
    /// Recorded prompts of the agents, by the names of the configuration.
    prompts: BTreeMap<String, Option<String>>,
    agents: Vec<RestoredAgent>,
    warnings: Vec<RestoreWarning>,
    /// Agents, and delegation instances.
    skipped: [Vec<String>; 2],
    changed_prompts: Vec<String>,
}

impl RestoreRun<'_> {
    fn agent(&mut self, name: &str, stored: &str) -> Result<()> {
        let facts = self.recorded.facts(stored)?;
        let mut parts = name.split('@');
        let base = parts.next().unwrap_or_default();
        let delegator = parts.next();
        if delegator.is_none() {
            self.prompts.insert(name.to_owned(), facts.prompt.clone());
        }
        let Some(today) = self.configuration.agents.get(base).cloned() else {
            self.skip(name, delegator.is_some(), base);
            return Ok(());
        };
        // The delegator must be restored too: it is in the snapshot and in the configuration.
        if let Some(delegator) = delegator {
            let is_recorded = self.recorded.agents.iter().any(|(name, _)| name == delegator);
            if !is_recorded || !self.configuration.agents.contains_key(delegator) {
                self.skip(name, true, delegator);
                return Ok(());
            }
        }
        // An agent that only others delegate to is recorded by its instances alone.
        if delegator.is_some() && !self.recorded.agents.iter().any(|(name, _)| name == base) {
            self.prompts.entry(base.to_owned()).or_insert_with(|| facts.prompt.clone());
        }
        if facts.prompt != today.system_prompt {
            self.changed_prompts.push(name.to_owned());
        }
        let restored = self.restored(name, stored, &facts, today.system_prompt)?;
        self.agents.push(restored);
        Ok(())
    }

    fn restored(
        &self,
        name: &str,
        stored: &str,
        facts: &AgentFacts,
        today: Option<String>,
    ) -> Result<RestoredAgent> {
        let system_prompt = if self.preserve_prompts { facts.prompt.clone() } else { today };
        let mut messages = Vec::new();
        if let Some(prompt) = &system_prompt {
            messages.push(json!({"role": "system", "content": prompt}).to_string());
        }
        let is_sound = self.compat == SwarmCompat::Sound;
        let mut is_first = true;
        self.recorded.messages(stored, self.compat, &mut |message| {
            // The prompt is the first message already; later instructions are part of the
            // conversation.
            let is_prompt = is_sound && is_first && is_system(message);
            is_first = false;
            if !is_prompt || system_prompt.is_none() {
                messages.push(String::from_utf8_lossy(message).into_owned());
            }
            Ok(())
        })?;
        let raw = |message: String| {
            RawValue::from_string(message)
                .map_err(|_| Error::invalid(format!("agents/{stored}: a message that is not JSON")))
        };
        Ok(RestoredAgent {
            name: name.to_owned(),
            messages: messages.into_iter().map(raw).collect::<Result<_>>()?,
            system_prompt,
            context_state: context_state(facts),
            reads: self.recorded.digests(stored, READS)?,
            memory_reads: self.memory.get(stored).cloned().unwrap_or_default(),
        })
    }

    fn skip(&mut self, name: &str, is_instance: bool, missing: &str) {
        let [agents, delegations] = &mut self.skipped;
        let named = Some(name.to_owned());
        self.warnings.push(if is_instance {
            delegations.push(name.to_owned());
            RestoreWarning {
                kind: "delegation_instance_not_restorable",
                agent: None,
                instance: named,
                message: format!(
                    "delegation instance '{name}' needs '{missing}', which is missing"
                ),
            }
        } else {
            agents.push(name.to_owned());
            RestoreWarning {
                kind: "agent_not_found",
                agent: named,
                instance: None,
                message: format!("agent '{name}' is not in the configuration"),
            }
        });
    }
}

fn is_system(message: &[u8]) -> bool {
    let message: Option<Value> = serde_json::from_slice(message).ok();
    message.is_some_and(|message| message.get("role").is_some_and(|role| role == "system"))
}
