//! The terminal interface: all sessions of a store, to read, resume and roll back.
//!
//! [`state::State`] holds everything on the screen. Keys, answers and times are its input; actions
//! and cells are its output. It does not know the terminal, the store or the clock. The loop in
//! [`run`] connects it to them. Other threads report keys, signals and changes, and read the store
//! for screens, so a key never waits for the store. A screen asks for the rows it shows and a few
//! more, because a store may be of any size.
//!
//! All text of a session is untrusted. All text becomes cells through one function, which shows
//! control characters and bidirectional marks as text, and measures wide characters.
//!
//! | file | job |
//! |---|---|
//! | `keys`, `text`, `content`, `list`, `screen`, `state`, `help` | the state, and what keys do |
//! | `layout`, `draw` | draws the state into cells |
//! | `read`, `said` | answers from the store |
//! | `acts` | changes of the store: forks, merges, pins and undos |
//! | `event`, `readers` | threads |
//! | `device` | takes and restores the terminal |
//! | `run` | the loop |

mod acts;
mod content;
mod device;
mod draw;
mod event;
mod help;
mod keys;
mod layout;
mod list;
mod read;
mod readers;
mod run;
mod said;
mod screen;
mod state;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use device::check;
pub(crate) use run::{Ending, Host, run};
