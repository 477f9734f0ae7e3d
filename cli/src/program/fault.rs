//! A fault of the program itself: told in one line, with the exit code that is promised for it.

use std::panic::{self, Location, PanicHookInfo};

use crate::view::error::{Exit, Report};

/// Ends the program at its first panic, whatever thread it is on, with [`Exit::Internal`] and one
/// message on stderr; with [`Exit::Success`] and silently for an agent, which is never to be stopped
/// by its memory.
///
/// Nothing goes on after a panic: an answer that was acknowledged is durable already, locks are the
/// system's to give back, and a server whose request is lost would leave its client waiting.
pub(crate) fn end_on_panic(json: bool, is_of_agent: bool) {
    panic::set_hook(Box::new(move |info| {
        if is_of_agent {
            std::process::exit(Exit::Success as i32);
        }
        Report::internal(message(info)).print(json);
        std::process::exit(Exit::Internal as i32);
    }));
}

/// Returns where a panic was raised, as `file:line`.
pub(crate) fn place(at: Option<&Location<'_>>) -> String {
    at.map(|at| format!("{}:{}", at.file(), at.line())).unwrap_or_default()
}

fn message(info: &PanicHookInfo<'_>) -> String {
    let payload = info.payload();
    let fixed = payload.downcast_ref::<&str>().copied();
    let said = fixed.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let said = said.unwrap_or("no message");
    let at = place(info.location());
    format!(
        "internal error of turntree at {at}: {said}. Acknowledged writes are safe: run the command again, and report this message if it happens again"
    )
}
