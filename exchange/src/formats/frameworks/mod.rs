//! Formats of agent frameworks, each a folder behind a feature of its name.
//!
//! | module | job |
//! |---|---|
//! | [`swarm`] | SwarmSDK: snapshots and event logs |
//! | [`ollm`] | OLLM CLI: context snapshots, transitions, intents |
//! | [`codesign`] | open-codesign: design stores, databases, chats |
//! | [`context_chef`] | ContextChef: snapshots, core memory, payloads |
//! | `iso_millis` | timestamps as JavaScript writes them |
//! | `json_parts` | documents part by part, with the places of errors |
//! | `json_writer` | documents key by key |
//! | [`read_tree`] | the folders in which a framework keeps its files |

#[cfg(feature = "codesign")]
pub mod codesign;
#[cfg(feature = "context-chef")]
pub mod context_chef;
#[cfg(feature = "ollm")]
pub mod ollm;
#[cfg(feature = "swarm")]
pub mod swarm;

#[cfg(any(feature = "codesign", feature = "ollm"))]
mod iso_millis;
#[cfg(any(feature = "codesign", feature = "context-chef", feature = "ollm"))]
#[cfg_attr(
    not(feature = "frameworks"),
    allow(dead_code, reason = "a framework alone uses a part of it")
)]
mod json_parts;
#[cfg(any(feature = "codesign", feature = "context-chef", feature = "ollm", feature = "swarm"))]
#[cfg_attr(
    not(feature = "frameworks"),
    allow(dead_code, reason = "a framework alone uses a part of it")
)]
mod json_writer;
pub(crate) mod read_tree;

/// The entry of a commit's metadata with the tokens of its context, as OLLM CLI counts them.
pub const OLLM_TOKENS: &str = "ollm/tokenCount";
