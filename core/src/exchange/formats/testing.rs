//! What the tests of document formats share: running a format over a file, and telling its events.

use proptest::prelude::*;

use super::{Content, Event, FORMATS, FormatSpec, PieceKind};

/// The events of `file`, read as `format`. Asserts that its pieces are the file.
pub(super) fn events_of(format: &FormatSpec, file: &[u8]) -> Vec<Event> {
    let mut parser = (format.parser)();
    let (mut events, mut joined) = (Vec::new(), Vec::new());
    for piece in (format.cut)(Box::new(file)) {
        let piece = piece.unwrap();
        joined.extend_from_slice(&piece.bytes);
        joined.extend_from_slice(&piece.suffix);
        parser.piece(&piece, &mut events);
    }
    parser.finish(&mut events);
    assert_eq!(joined, file, "the pieces are the file");
    events
}

/// One line for each event.
pub(super) fn outline(events: &[Event]) -> Vec<String> {
    let text = |content: &Option<Content>| match content {
        Some(Content::Own(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        other => format!("{other:?}"),
    };
    let line = |event: &Event| match event {
        Event::Turn => "turn".to_owned(),
        Event::Message(message) => {
            format!("{} {:?} {}", message.agent, message.role, message.summary)
        }
        Event::Meta { key, value } => format!("{key}={value}"),
        Event::File { path, content } => format!("file {path}: {}", text(content)),
        Event::Scratchpad { key, content } => format!("pad {key}: {}", text(content)),
        Event::SystemPrompt { agent, content } => {
            format!("prompt {agent}: {}", text(&Some(content.clone())))
        }
        other => format!("{other:?}"),
    };
    events.iter().map(line).collect()
}
