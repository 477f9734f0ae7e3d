//! Advice on a failure, worded for commands or for operations.

/// Advice for people at a command line, and for agents and programs that call operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Advice {
    for_commands: Option<String>,
    for_calls: Option<String>,
}

impl Advice {
    /// The same advice in both forms: with commands and options, and with operations and arguments.
    pub(crate) fn new(for_commands: impl Into<String>, for_calls: impl Into<String>) -> Self {
        Self { for_commands: Some(for_commands.into()), for_calls: Some(for_calls.into()) }
    }

    /// Advice that names neither commands nor operations.
    pub(crate) fn anyone(advice: &str) -> Self {
        Self::new(advice, advice)
    }

    /// Advice for callers of an operation.
    pub(crate) fn calls(advice: impl Into<String>) -> Self {
        Self { for_commands: None, for_calls: Some(advice.into()) }
    }

    pub(crate) fn for_commands(&self) -> Option<&str> {
        self.for_commands.as_deref()
    }

    pub(crate) fn for_calls(&self) -> Option<&str> {
        self.for_calls.as_deref()
    }
}

/// Advice is attached to an error of the library as its source.
impl std::fmt::Display for Advice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.for_commands.as_deref().or(self.for_calls.as_deref()).unwrap_or_default())
    }
}

impl std::error::Error for Advice {}

/// Advice that names commands; callers of operations get none.
impl From<&str> for Advice {
    fn from(advice: &str) -> Self {
        advice.to_owned().into()
    }
}

impl From<String> for Advice {
    fn from(advice: String) -> Self {
        Self { for_commands: Some(advice), for_calls: None }
    }
}
