//! The interface for the terminal: all sessions of a store, to look at, go on from and take back.
//!
//! What is on the screen is a [`state::State`]: keys, answers and times go in, actions and cells come
//! out, and nothing in it knows of a terminal, a store or a clock. The loop in [`run`] is the only one
//! that does: threads tell it of keys, signals and changes, and read what screens ask for, so no key
//! waits for the store. A screen asks for what it shows and a little more: a store may be of any size.
//!
//! Everything that a session says is hostile. It becomes cells by one way, which shows control
//! characters and marks that turn the direction of text, and measures what is wide.
//!
//! | file | job |
//! |---|---|
//! | `keys`, `text`, `content`, `list`, `screen`, `state`, `help` | what there is, and what keys make of it |
//! | `layout`, `draw` | cells of it |
//! | `read`, `said` | answers from the store |
//! | `acts` | forks and undos |
//! | `event`, `readers` | threads |
//! | `device` | the terminal, taken and given back |
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
