//! Stores a long text, and answers with its placeholder.

use schemars::JsonSchema;
use serde::Deserialize;
use turntree::Error;
use turntree_exchange::{OffloadOptions, Tail, named_by_content};

use super::{Effect, Request, ServiceCall};
use crate::porcelain::change::offload::{Offloading, short};
use crate::view::error::Result;
use crate::view::json;

/// Arguments of `offload`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OffloadArguments {
    /// The text
    text: String,
    /// Store only a text longer than this
    threshold: Option<u64>,
    /// Characters shown of its start, in whole lines
    #[serde(default)]
    head_chars: u64,
    /// Characters shown of its end, in whole lines; 2000 by default
    tail_chars: Option<u64>,
    /// Lines shown of its end instead
    tail_lines: Option<u64>,
}

impl Request for OffloadArguments {
    type Answer = json::Offloaded;
    const NAME: &'static str = "offload";
    const TITLE: &'static str = "Put a long text away";
    const ABOUT: &'static str = "Stores a long text, and returns a short stand-in that cites it as \
        context://vfs/..., for the conversation; read_vfs reads it.";
    const EFFECT: Effect = Effect::Adds;

    fn answer(self, call: &ServiceCall<'_>) -> Result<json::Offloaded> {
        call.check_may_change()?;
        let Self { text, threshold, head_chars, tail_chars, tail_lines } = self;
        let default = OffloadOptions::default();
        let tail = match (tail_lines, tail_chars) {
            (Some(_), Some(_)) => {
                return Err(Error::invalid("tail_lines and tail_chars exclude each other").into());
            }
            (Some(lines), None) => Tail::Lines(lines),
            (None, Some(chars)) => Tail::Chars(chars),
            (None, None) => default.tail,
        };
        let threshold = threshold.unwrap_or(default.threshold);
        // An answer must not contain half a character.
        let options = OffloadOptions { threshold, head_chars, tail, whole_characters: true };
        let offloading = Offloading { options, storage_dir: None };
        let new = named_by_content(text.clone().into());
        match offloading.placeholder(&text, &new.uri) {
            None => short(&text),
            Some(shown) => {
                let repo = call.open_or_create()?;
                offloading.store(&repo, &text, &new, shown)?.record(None)
            }
        }
    }
}
