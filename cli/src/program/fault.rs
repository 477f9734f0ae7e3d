//! Reports a bug of the program (a panic) in one line, with its documented exit code.

use std::panic::{self, Location, PanicHookInfo};

use crate::view::error::{Exit, Report};

/// Ends the program at the first panic on any thread, with [`Exit::Internal`] and one message on
/// stderr. For an agent it ends silently with [`Exit::Success`], because an error of the store must
/// not stop an agent.
///
/// Nothing runs after a panic: acknowledged writes are durable already, the system releases locks,
/// and a server that lost a request would leave its client waiting.
pub(crate) fn end_on_panic(json: bool, is_of_agent: bool) {
    panic::set_hook(Box::new(move |info| {
        if is_of_agent {
            std::process::exit(Exit::Success as i32);
        }
        Report::internal(message(info)).print(json);
        std::process::exit(Exit::Internal as i32);
    }));
}

/// Returns the location of a panic as `file:line`.
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
