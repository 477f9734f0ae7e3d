//! Deterministic workloads: what an agent does in its turns, and stores with thousands of them.
//!
//! The same calls give the same bytes on every machine: text is drawn from a vocabulary by a
//! generator with a fixed seed, and compresses about as well as the messages and sources of real
//! sessions.
//!
//! | file | makes |
//! |---|---|
//! | [`text`] | words, prose, and lines of a program |
//! | [`session`] | turns: messages, a scratchpad entry, an edit of one file among 300 |
//! | [`transcript`] | a log in the style of Claude Code |
//! | [`swarm`] | a log of events in the style of SwarmSDK |
//! | [`store`] | a store in a folder of its own, with a session recorded in it |
//! | [`beside`] | how long snapshots take while the program maintains the same store |
//! | [`growth`] | what the program costs on stores that grow, as tables and charts |
//! | [`run`] | nothing: whether benches measure or only run, and where recorded sessions are |
//!
//! ```
//! use turntree_benches::session::Agent;
//!
//! let turn = Agent::new().next_turn();
//! assert!(turn.messages.len() >= 3);
//! assert_eq!(turn.files.len(), 300);
//! assert_eq!(turn, Agent::new().next_turn());
//! ```

pub mod beside;
pub mod growth;
pub mod run;
pub mod session;
pub mod store;
pub mod swarm;
pub mod text;
pub mod transcript;
