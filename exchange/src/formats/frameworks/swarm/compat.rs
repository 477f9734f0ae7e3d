//! Compatibility: whose rules apply where upstream is known to be wrong.

/// The rules that apply where upstream is known to be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SwarmCompat {
    /// The correct rules.
    #[default]
    Sound,
    /// The rules of SwarmSDK 2.7.13: a result that is an object is shown as Ruby inspects it, and
    /// a `LoadSkill` without arguments is an error.
    Upstream,
    /// The rules of SwarmSDK 2.7.13 for events whose keys are strings and not symbols: it sees none
    /// of their fields.
    StringKeys,
}
