//! Fuzzes events that clients send to a hook.

use turntree::ErrorKind;
use turntree_exchange::agents::hook::{Dialect, HookEvent, is_destructive};

/// Parses `bytes` as an event of each client.
///
/// # Panics
/// If the short form of an accepted event differs from it, or an answer is not JSON.
pub fn hook_events(bytes: &[u8]) {
    for dialect in Dialect::ALL.into_iter().map(Some).chain([None]) {
        match HookEvent::parse(bytes, dialect) {
            Ok(event) => event_of(&event),
            Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}"),
        }
    }
}

fn event_of(event: &HookEvent) {
    let brief = HookEvent::parse(&event.brief(), Some(event.dialect)).unwrap();
    assert_eq!((brief.name, brief.moment), (event.name, event.moment));
    assert_eq!((&brief.session, &brief.cwd), (&event.session, &event.cwd));
    assert_eq!(brief.transcript, event.transcript);
    let effect = |event: &HookEvent| event.tool.as_ref().map(|tool| tool.effect);
    assert_eq!(effect(&brief), effect(event));
    if let Some(command) = event.tool.as_ref().and_then(|tool| tool.command.as_deref()) {
        let _ = is_destructive(command);
    }
    let mut texts = 0;
    let short = event.shortened(&mut |text| {
        texts += 1;
        (!text.is_empty()).then(String::new)
    });
    assert!(short.is_none() || texts > 0);
    let answer = event.answer(Some("words"), short, Some("more"));
    let is_json = |answer: String| serde_json::from_str::<serde_json::Value>(&answer).is_ok();
    assert!(answer.is_none_or(is_json));
    assert_eq!(event.answer(None, None, None), None);
}
