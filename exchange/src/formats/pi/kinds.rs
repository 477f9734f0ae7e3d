//! The kinds of entries that pi and oh-my-pi write.

use crate::model::record_kind::{KindRole, RecordKind};

/// The kinds, as the page of the format lists them.
pub(super) const KINDS: &[RecordKind] = &[
    RecordKind::new("branch_summary", KindRole::Message),
    RecordKind::new("compaction", KindRole::Context),
    RecordKind::new("context_edit", KindRole::Context),
    RecordKind::new("credential_pin", KindRole::Ignored("state of the client")),
    RecordKind::new("custom", KindRole::Ignored("state of extensions, never sent")),
    RecordKind::new("custom_message", KindRole::Message),
    RecordKind::new("label", KindRole::Ignored("a mark for the screen")),
    RecordKind::new("message", KindRole::Message),
    RecordKind::new("mode_change", KindRole::Ignored("state of the client")),
    RecordKind::new("model_change", KindRole::Facts),
    RecordKind::new("model_usage", KindRole::Usage),
    RecordKind::new("reset_boundary", KindRole::Context),
    RecordKind::new("service_tier_change", KindRole::Ignored("settings")),
    RecordKind::new("session", KindRole::Facts),
    RecordKind::new("session_info", KindRole::Facts),
    RecordKind::new("session_init", KindRole::Context),
    RecordKind::new("thinking_level_change", KindRole::Facts),
    RecordKind::new("title", KindRole::Facts),
    RecordKind::new("title_change", KindRole::Facts),
    RecordKind::new("ttsr_injection", KindRole::Ignored("names of rules")),
    RecordKind::new("usage", KindRole::Usage),
];
