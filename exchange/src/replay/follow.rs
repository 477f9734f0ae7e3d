//! Follows a request along a conversation: to the answer that comes next, or to the first part that
//! differs.

use std::sync::Arc;

use super::recording::{Conversation, Recording, Round};
use super::request::{Located, Part, Request};
use super::wording::Wording;
use crate::model::view::{ToolCall, ToolResult};

/// Characters of a text that are shown before and from the first difference on.
const SHOWN_BEFORE: usize = 24;
const SHOWN: usize = 120;

/// Shown for a part that is not there.
const NOTHING: &str = "nothing";

/// What a difference is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DifferenceKind {
    /// Words of a person.
    Prompt,
    /// The text of an answer.
    Text,
    /// A tool, or the number of calls.
    Call,
    /// The arguments of a call.
    Arguments,
    /// The result of a call.
    Result,
}

/// The first part of a request that is not the recorded one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What it is about.
    pub kind: DifferenceKind,
    /// Where it is in the request, such as `messages[4]`; at the end if the part is missing.
    pub place: String,
    /// The number of answers before it.
    pub answers: usize,
    /// The recorded part, from shortly before the first difference.
    pub expected: String,
    /// The part of the request.
    pub found: String,
}

/// How far a request is the recorded conversation.
#[derive(Debug)]
pub(super) struct Followed {
    /// The number of recorded answers that the request has.
    pub(super) answers: usize,
    pub(super) end: End,
    /// Results of tools that are not the recorded ones.
    pub(super) results: Vec<Difference>,
}

/// What comes after the equal part.
#[derive(Debug)]
pub(super) enum End {
    /// The next answer.
    Next,
    /// The request goes on where the recording ends.
    Beyond,
    Differs(Difference),
}

impl DifferenceKind {
    /// The name in records and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Text => "text",
            Self::Call => "call",
            Self::Arguments => "arguments",
            Self::Result => "result",
        }
    }
}

/// Follows a request along a conversation.
pub(super) fn follow(
    recording: &Recording,
    conversation: &Conversation,
    request: &Request,
) -> Followed {
    let mut walk = Walk { request, recording, answers: 0, results: Vec::new() };
    let end = walk.go(&conversation.rounds).unwrap_or_else(End::Differs);
    Followed { answers: walk.answers, end, results: walk.results }
}

struct Walk<'a> {
    request: &'a Request,
    recording: &'a Recording,
    answers: usize,
    results: Vec<Difference>,
}

/// The assistant's side of a request between two messages of the user.
struct Spoken<'a> {
    at: usize,
    said: String,
    calls: Vec<(usize, &'a ToolCall)>,
}

impl Walk<'_> {
    /// Returns the form in which a text of the request is compared.
    fn form(&self, wording: Wording, text: &str) -> Arc<str> {
        self.recording.forms.of(wording, text, &self.recording.place)
    }

    fn go(&mut self, rounds: &[Round]) -> Result<End, Difference> {
        let mut rest = self.request.parts.as_slice();
        loop {
            let (side, after) = split(rest, |part| !is_of_answer(part));
            let Some(round) = rounds.get(self.answers) else { return Ok(End::Beyond) };
            let end = side.last().or(self.request.parts.last()).map_or(0, |it| it.at);
            self.check_prompts(round, side, end)?;
            if let Some(before) = self.answers.checked_sub(1).and_then(|at| rounds.get(at)) {
                self.check_results(before, side, end);
            }
            if after.is_empty() {
                return Ok(End::Next);
            }
            let (spoken, after) = split(after, is_of_answer);
            self.check_answers(rounds, spoken)?;
            rest = after;
        }
    }

    fn check_prompts(&self, round: &Round, side: &[Located], end: usize) -> Result<(), Difference> {
        let prompts = side.iter().filter_map(|it| match &it.part {
            Part::Prompt(text) => Some((it.at, self.form(Wording::Prompt, text))),
            _ => None,
        });
        let is_added = |text: &str| round.added.iter().any(|added| added == text);
        let found: Vec<(usize, Arc<str>)> =
            prompts.filter(|(_, text)| !text.is_empty() && !is_added(text)).collect();
        let texts: Vec<&str> = found.iter().map(|(_, text)| &**text).collect();
        let (expected, is) = (round.prompts.join(" "), texts.join(" "));
        if expected == is {
            return Ok(());
        }
        let differs =
            found.iter().zip(&round.prompts).find(|((_, is), expected)| **is != ***expected);
        let at = differs.map(|((at, _), _)| *at);
        let at = at.or_else(|| found.get(round.prompts.len()).map(|(at, _)| *at)).unwrap_or(end);
        Err(self.difference(DifferenceKind::Prompt, at, &expected, &is))
    }

    /// Compares the answers between two messages of the user: one, or several of which nothing was
    /// said between.
    fn check_answers(&mut self, rounds: &[Round], run: &[Located]) -> Result<(), Difference> {
        let spoken = self.spoken(run);
        let (mut said, mut calls) = (spoken.said.as_str(), spoken.calls.as_slice());
        loop {
            let Some(round) = rounds.get(self.answers) else {
                let (at, found) = match calls.first() {
                    Some((at, call)) if said.is_empty() => (*at, call.name.as_str()),
                    _ => (spoken.at, said),
                };
                return Err(self.difference(DifferenceKind::Text, at, "", found));
            };
            said = match said.strip_prefix(round.said.as_str()) {
                Some(rest) if rest.is_empty() || rest.starts_with(' ') => rest.trim_start(),
                Some(rest) if round.said.is_empty() => rest,
                _ => {
                    return Err(self.difference(
                        DifferenceKind::Text,
                        spoken.at,
                        &round.said,
                        said,
                    ));
                }
            };
            for (index, (expected, input)) in
                round.answer.calls.iter().zip(&round.inputs).enumerate()
            {
                let Some((at, call)) = calls.get(index) else {
                    return Err(self.difference(
                        DifferenceKind::Call,
                        spoken.at,
                        &expected.name,
                        "",
                    ));
                };
                if call.name != expected.name {
                    let (expected, found) = (&expected.name, &call.name);
                    return Err(self.difference(DifferenceKind::Call, *at, expected, found));
                }
                let found = self.form(Wording::Input, &call.input);
                if *found != **input {
                    return Err(self.difference(DifferenceKind::Arguments, *at, input, &found));
                }
            }
            calls = calls.get(round.answer.calls.len()..).unwrap_or_default();
            self.answers += 1;
            if said.is_empty() && calls.is_empty() {
                return Ok(());
            }
            let goes_on = rounds.get(self.answers).is_none_or(|next| next.prompts.is_empty());
            if !goes_on || round.results.iter().any(Option::is_some) {
                let (at, kind, found) = match calls.first() {
                    Some((at, call)) => (*at, DifferenceKind::Call, call.name.as_str()),
                    None => (spoken.at, DifferenceKind::Text, said),
                };
                return Err(self.difference(kind, at, "", found));
            }
        }
    }

    /// Notes the results of an answer that are not the recorded ones.
    fn check_results(&mut self, round: &Round, side: &[Located], end: usize) {
        let mut found: Vec<(usize, &ToolResult)> = Vec::new();
        for it in side {
            if let Part::Result(result) = &it.part {
                found.push((it.at, result));
            }
        }
        for (call, expected) in round.answer.calls.iter().zip(&round.results) {
            let own = found.iter().position(|(_, result)| result.call_id == call.id);
            // Clients of Gemini may leave ids out; the results then are in the order of the calls.
            let own =
                own.or_else(|| found.iter().position(|(_, result)| result.call_id.is_empty()));
            let found = own.map(|own| found.remove(own));
            let Some(expected) = expected else { continue };
            let (at, is) = match found {
                Some((at, result)) => (at, self.form(Wording::Result, &result.text)),
                None => (end, "".into()),
            };
            if *is != **expected {
                let difference = self.difference(DifferenceKind::Result, at, expected, &is);
                self.results.push(difference);
            }
        }
    }

    fn spoken<'r>(&self, run: &'r [Located]) -> Spoken<'r> {
        let at = run.first().map_or(0, |it| it.at);
        let (mut said, mut calls) = (Vec::new(), Vec::new());
        for it in run {
            match &it.part {
                Part::Said(text) => said.push(self.form(Wording::Said, text)),
                Part::Call(call) => calls.push((it.at, call)),
                Part::Prompt(_) | Part::Result(_) => {}
            }
        }
        Spoken { at, said: said.join(" "), calls }
    }

    fn difference(
        &self,
        kind: DifferenceKind,
        at: usize,
        expected: &str,
        found: &str,
    ) -> Difference {
        let start = shared(expected, found).saturating_sub(SHOWN_BEFORE);
        let place = format!("{}[{at}]", self.request.field);
        let answers = self.answers;
        let (expected, found) = (shown(expected, start), shown(found, start));
        Difference { kind, place, answers, expected, found }
    }
}

fn is_of_answer(part: &Part) -> bool {
    matches!(part, Part::Said(_) | Part::Call(_))
}

/// Splits before the first part that is not of a kind.
fn split(parts: &[Located], is: impl Fn(&Part) -> bool) -> (&[Located], &[Located]) {
    let end = parts.iter().position(|it| !is(&it.part)).unwrap_or(parts.len());
    parts.split_at(end)
}

/// The number of characters that two texts share at their start.
fn shared(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count()
}

fn shown(text: &str, start: usize) -> String {
    if text.is_empty() {
        return NOTHING.to_owned();
    }
    let before = if start > 0 { "..." } else { "" };
    let mut chars = text.chars().skip(start);
    let part: String = chars.by_ref().take(SHOWN_BEFORE + SHOWN).collect();
    let after = if chars.next().is_some() { "..." } else { "" };
    format!("{before}{part}{after}")
}
