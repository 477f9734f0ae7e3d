//! Compatibility: whose rules count where upstream is known to be wrong.

/// Whose rules count where upstream is known to be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compat {
    /// What is right.
    #[default]
    Sound,
    /// What SwarmSDK 2.7.13 does: a result that is an object is shown as Ruby inspects it, and a
    /// `LoadSkill` without arguments is an error.
    Upstream,
    /// What SwarmSDK 2.7.13 does with events whose names are no symbols: it sees none of their
    /// fields.
    StringKeys,
}
