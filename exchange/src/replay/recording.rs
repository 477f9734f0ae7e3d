//! Reads the conversations of a branch as they were sent: rounds of prompts, an answer, and results.

use std::collections::BTreeMap;

use turntree::context::{Context, JSON_MEDIA, MessageEntry};
use turntree::error::{ErrorKind, Result};
use turntree::object::{ObjectId, ObjectSource};
use turntree::repo::Repository;
use turntree::tree::List;

use super::place::Place;
use super::wording::{self, KnownForms};
use crate::import::turns::{ROOT, fact};
use crate::insight::usage::TokenUsage;
use crate::model::view::ToolCall;
use crate::render::dialogue::{Answer, DialogueMessage, DialogueText, Messages};

/// The conversations of one agent that are kept: a compaction begins another one.
const MAX_CONVERSATIONS: usize = 16;

/// The agent of a person.
const MAIN: &str = "main";

/// Formats of programs that may have sent no tools.
const CHATS: [&str; 4] = ["openai-chat", "anthropic-chat", "tau2", JSON_MEDIA];

/// An answer of the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedAnswer {
    /// The text. Thoughts are left out, since their signatures are not kept.
    pub text: String,
    /// The tool calls in order, each with an id of its own.
    pub calls: Vec<ToolCall>,
    /// The recorded tokens.
    pub usage: Option<TokenUsage>,
}

/// An answer with the prompts before it.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// The words of people, in the form that is compared.
    pub(super) prompts: Vec<String>,
    /// Texts that the client added, which a request may have or not.
    pub(super) added: Vec<String>,
    pub(super) answer: RecordedAnswer,
    /// The text and the arguments of the answer, in the form that is compared.
    pub(super) said: String,
    pub(super) inputs: Vec<String>,
    /// The results of the calls, in the form that is compared.
    pub(super) results: Vec<Option<String>>,
}

/// A conversation of an agent.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) rounds: Vec<Round>,
    /// The summary that continues it, if the client compacted it.
    pub(super) summary: Option<RecordedAnswer>,
}

/// The recorded conversations up to a snapshot. The default one has no answers.
#[derive(Debug, Default)]
pub struct Recording {
    /// That of the main agent and the newest first.
    pub(super) conversations: Vec<Conversation>,
    /// True if each request of a conversation has tools, so that others are side requests.
    pub(super) has_tools: bool,
    pub(super) place: Place,
    pub(super) forms: KnownForms,
    /// Begins the ids of answers.
    pub(super) name: String,
}

impl Recording {
    /// Reads the conversation up to the snapshot `tip`, also before compactions. `here` is the
    /// directory in which the client runs; the recorded directory stands for it.
    ///
    /// Costs a read of each snapshot of the branch and of each message.
    ///
    /// # Errors
    /// `Expired` if the messages are not kept, and the errors of reading.
    pub fn read(repo: &Repository, tip: &ObjectId, here: Option<&str>) -> Result<Self> {
        let (source, context) = (repo.store(), repo.context(tip)?);
        let recorded = match fact(source, &context, "cwd")? {
            Some(recorded) => Some(recorded),
            None => fact(source, &context, ROOT)?,
        };
        let recorded = match recorded {
            Some(recorded) => Some(recorded),
            None => repo.workspace_of(tip)?,
        };
        let place = Place::new(recorded.as_deref(), here);
        let mut agents: BTreeMap<String, Versions> = BTreeMap::new();
        for agent in context.agents(source)? {
            agents.insert(agent, Versions::default());
        }
        for entry in repo.history(&[*tip], &[])?.first_parent() {
            let context = match repo.context(&entry?.id) {
                Ok(context) => context,
                // What is older was not kept.
                Err(error) if error.kind() == ErrorKind::Expired => break,
                Err(error) => return Err(error),
            };
            for (agent, versions) in &mut agents {
                versions.add(source, &context, agent)?;
            }
        }
        let mut recording = Self { place, name: tip.short(16), ..Self::default() };
        if let Some(main) = agents.remove(MAIN) {
            recording.add(source, MAIN, main)?;
        }
        for (agent, versions) in agents {
            recording.add(source, &agent, versions)?;
        }
        Ok(recording)
    }

    /// The number of recorded answers.
    #[must_use]
    pub fn answers(&self) -> usize {
        self.conversations.iter().map(|conversation| conversation.rounds.len()).sum()
    }

    fn add(&mut self, source: &dyn ObjectSource, agent: &str, versions: Versions) -> Result<()> {
        let mut next: Option<DialogueText> = None;
        for (context, list) in versions.kept {
            if let Some(item) = list.get(source, 0)? {
                let media = MessageEntry::from_item(&item)?.media;
                self.has_tools |= !CHATS.contains(&media.as_str());
            }
            let mut reader =
                Reader { place: &self.place, rounds: Vec::new(), open: Round::default() };
            let mut first = None;
            for message in Messages::of(source, &context, agent)? {
                let message = message?;
                if let (None, DialogueMessage::User(said)) = (&first, &message) {
                    first = Some(said.clone());
                }
                reader.add(message);
            }
            let rounds = reader.rounds;
            self.has_tools |= rounds.iter().any(|round| !round.answer.calls.is_empty());
            let summary = next.take().filter(|said| said.is_added && !said.text.is_empty());
            let summary =
                summary.map(|said| RecordedAnswer { text: said.text, ..RecordedAnswer::default() });
            next = first;
            self.conversations.push(Conversation { rounds, summary });
        }
        Ok(())
    }
}

/// The versions of a conversation that do not continue each other, the newest first.
#[derive(Default)]
struct Versions {
    kept: Vec<(Context, List)>,
    /// The section that was added last.
    last: Option<ObjectId>,
}

impl Versions {
    /// Adds an older version, unless the last one continues it or a rollback left it.
    fn add(&mut self, source: &dyn ObjectSource, context: &Context, agent: &str) -> Result<()> {
        let section =
            turntree::context::agent_section(agent, turntree::context::sections::MESSAGES)?;
        let section = context.section(source, &section)?.map(|section| section.id);
        if section.is_none() || section == self.last || self.kept.len() >= MAX_CONVERSATIONS {
            return Ok(());
        }
        self.last = section;
        let list = context.messages(source, agent)?;
        if let Some((_, newer)) = self.kept.last() {
            let shared = list.len().min(newer.len());
            let at = |list: &List| shared.checked_sub(1).map(|at| list.get(source, at)).transpose();
            if at(&list)?.flatten() == at(newer)?.flatten() {
                return Ok(());
            }
        }
        self.kept.push((context.clone(), list));
        Ok(())
    }
}

/// Collects messages into rounds.
struct Reader<'a> {
    place: &'a Place,
    rounds: Vec<Round>,
    open: Round,
}

impl Reader<'_> {
    fn add(&mut self, message: DialogueMessage) {
        match message {
            DialogueMessage::System(_) => {}
            DialogueMessage::User(said) => {
                // Recorded texts have the recorded directory already.
                let Some(words) = wording::prompt(&said.text, &Place::default()) else { return };
                let texts =
                    if said.is_added { &mut self.open.added } else { &mut self.open.prompts };
                texts.push(words);
            }
            DialogueMessage::Answer(answer) => self.add_answer(answer),
        }
    }

    fn add_answer(&mut self, answer: Answer) {
        let Answer { said, calls, usage, .. } = answer;
        if said.text.trim().is_empty() && calls.is_empty() {
            // Thoughts that were interrupted.
            return;
        }
        let mut round = std::mem::take(&mut self.open);
        round.said = wording::words(&said.text);
        for call in &calls {
            round.inputs.push(wording::input(&call.arguments, &Place::default()));
            let result = call.result.as_ref();
            round.results.push(result.map(|it| wording::result(&it.text, self.place)));
        }
        let calls = calls.into_iter().map(|call| ToolCall {
            id: call.id,
            name: call.name,
            input: call.arguments,
        });
        round.answer = RecordedAnswer { text: said.text, calls: calls.collect(), usage };
        self.rounds.push(round);
    }
}
