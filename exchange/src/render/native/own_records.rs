//! Checks if all messages are records of one agent.

use std::collections::BTreeSet;

use serde_json::Value;
use turntree::context::{Context, MAIN_AGENT, MessageEntry};
use turntree::error::Result;
use turntree::object::{Kind, ObjectSource};

use super::NativeAgent;
use crate::formats::view;
use crate::text::json;

/// Returns the records of the main conversation, if all are of `agent` and each result follows its
/// call. A call may lack its result: interrupted agents leave such calls and send a made-up result
/// for them.
pub(super) fn own_records(
    source: &dyn ObjectSource,
    context: &Context,
    agent: NativeAgent,
) -> Result<Option<Vec<Value>>> {
    let list = context.messages(source, MAIN_AGENT)?;
    let (mut records, mut calls) = (Vec::new(), BTreeSet::new());
    for item in list.iter(source, 0..list.len()) {
        let entry = MessageEntry::from_item(&item?)?;
        if ![agent.name(), agent.format()].contains(&entry.media.as_str()) {
            return Ok(None);
        }
        let bytes = source.read_as(Kind::Blob, &entry.blob)?;
        let Some(record) = json::value(&bytes).filter(Value::is_object) else { return Ok(None) };
        let message = view(&entry.media, &bytes);
        // A record may contain calls together with their results.
        calls.extend(message.tool_calls.into_iter().map(|call| call.id));
        if !message.tool_results.iter().all(|result| calls.contains(&result.call_id)) {
            return Ok(None);
        }
        records.push(record);
    }
    Ok(Some(records).filter(|records| !records.is_empty()))
}
