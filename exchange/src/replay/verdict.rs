//! The verdict on a request: the recorded answer, the end of the recording, or a difference.

use super::follow::{Difference, End, Followed, follow};
use super::recording::{Conversation, RecordedAnswer, Recording};
use super::request::Request;

/// The relation of a request to a recording.
#[derive(Debug)]
pub enum Verdict<'r> {
    /// It is recorded up to an answer.
    Recorded {
        /// The answer.
        answer: &'r RecordedAnswer,
        /// Its number among all recorded answers, from 1 on; `None` for a summary, which is served
        /// to a client that compacts.
        number: Option<usize>,
        /// Results of tools in the request that are not the recorded ones.
        results: Vec<Difference>,
    },
    /// It has everything that is recorded, and goes on.
    Beyond {
        /// As above.
        results: Vec<Difference>,
    },
    /// It is not the recorded one.
    Differs(Difference),
    /// It is none of the conversation: a title, a summary of a web page, a check of a quota.
    Aside,
}

impl Recording {
    /// Decides which answer a request gets.
    ///
    /// A request belongs to the conversation that it shares most answers with. Costs a comparison
    /// of the whole request with each conversation that has its beginning; the forms in which texts
    /// are compared are made once.
    #[must_use]
    pub fn verdict(&self, request: &Request) -> Verdict<'_> {
        let mut before = 0;
        let mut best: Option<((usize, bool), usize, &Conversation, Followed)> = None;
        for conversation in &self.conversations {
            let followed = follow(self, conversation, request);
            let rank = (followed.answers, !matches!(followed.end, End::Differs(_)));
            if best.as_ref().is_none_or(|(held, ..)| rank > *held) {
                best = Some((rank, before, conversation, followed));
            }
            before += conversation.rounds.len();
        }
        let is_aside = self.has_tools && !request.has_tools();
        let Some((_, before, conversation, followed)) = best else {
            return if is_aside { Verdict::Aside } else { Verdict::Beyond { results: Vec::new() } };
        };
        let results = followed.results;
        let next = conversation.rounds.get(followed.answers);
        match (followed.end, next) {
            (End::Next, Some(round)) => {
                let number = Some(before + followed.answers + 1);
                Verdict::Recorded { answer: &round.answer, number, results }
            }
            _ if is_aside => Verdict::Aside,
            (End::Differs(difference), _) => Verdict::Differs(difference),
            (End::Beyond | End::Next, _) => match &conversation.summary {
                Some(answer) => Verdict::Recorded { answer, number: None, results },
                None => Verdict::Beyond { results },
            },
        }
    }
}
