//! The kinds of records that Codex writes.

use crate::model::record_kind::{KindRole, RecordKind};

/// The kinds, as the page of the format lists them.
pub(super) const KINDS: &[RecordKind] = &[
    RecordKind::new("compacted", KindRole::Context),
    RecordKind::new("dynamic_tools_updated", KindRole::Ignored("descriptions of tools")),
    RecordKind::new("event_msg", KindRole::Context),
    RecordKind::new("inter_agent_communication", KindRole::Message),
    RecordKind::new(
        "inter_agent_communication_metadata",
        KindRole::Ignored("repeats an existing message"),
    ),
    RecordKind::new("realtime_item", KindRole::Ignored("of voice")),
    RecordKind::new("response_item", KindRole::Message),
    RecordKind::new("retained_context", KindRole::Ignored("the part that is sent is in items")),
    RecordKind::new("security_risk_score", KindRole::Ignored("of the client")),
    RecordKind::new("session_meta", KindRole::Facts),
    RecordKind::new("token_usage_record", KindRole::Usage),
    RecordKind::new("turn_context", KindRole::Facts),
    RecordKind::new("world_state", KindRole::Ignored("the part that is sent is in items")),
];
