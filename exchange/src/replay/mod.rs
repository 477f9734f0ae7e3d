//! Serves a recorded conversation again: which recorded answer a request of a client gets, and that
//! answer in the form of the interface.
//!
//! ```text
//! history   -> Recording: rounds of prompts, an answer, and the results of its calls
//! HTTP body -> Request: the same parts, read by the views of the formats
//! Recording x Request -> Verdict -> Reply
//! ```
//!
//! | file | job |
//! |---|---|
//! | `recording` | reads the conversations of a branch |
//! | `request` | which interface a path belongs to, and what a request says |
//! | `follow` | follows a request along a conversation, to the next answer or the first difference |
//! | `verdict` | the verdict on a request |
//! | `wording` | the form in which texts, arguments and results are compared |
//! | `place` | paths of the recorded directory stand for those of the current one |
//! | `reply` | answers, refusals and counts in the forms of the interfaces |
//!
//! Requests leave nothing behind but known forms of texts: the answers that a request has decide which one is next. So a
//! client may retry, restart, or go back.

mod follow;
mod place;
mod recording;
mod reply;
mod request;
mod verdict;
mod wording;

pub use follow::{Difference, DifferenceKind};
pub use recording::{RecordedAnswer, Recording};
pub use reply::{Reply, models, refusal};
pub use request::{Endpoint, Interface, Purpose, Request};
pub use verdict::Verdict;
