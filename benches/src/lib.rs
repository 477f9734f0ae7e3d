//! Deterministic workloads: the turns of an agent, and stores with thousands of them.
//!
//! The same calls give the same bytes on every machine. Text is drawn from a vocabulary with a
//! fixed seed, and compresses about as well as the messages and sources of real sessions.
//!
//! | module | content |
//! |---|---|
//! | [`text`] | words, prose, and lines of a program |
//! | [`session`] | turns: messages, a scratchpad entry, an edit of one file among 300 |
//! | [`transcript`] | a log in the style of Claude Code |
//! | [`swarm`] | a log of events in the style of SwarmSDK |
//! | [`store`] | a store in a temporary folder, with a recorded session |
//! | [`beside`] | the times of snapshots during maintenance of the same store |
//! | [`growth`] | the costs of the program on growing stores, as tables and charts |
//! | [`run`] | the mode of the benches, and the place of recorded sessions |
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
