//! Exports of a session: in parts, or as a file of the workspace.

use std::io::Write;
use std::path::{Component, Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use turntree::context::MAIN_AGENT;
use turntree::platform::canonical;
use turntree::repo::HEAD;
use turntree::workspace::save;
use turntree::{Error, ErrorKind};

use super::page::{MAX_TEXT_BYTES, TEXT_BYTES, Window, limit};
use super::snapshot::no_workspace;
use super::{Effect, Request, ServiceCall};
use crate::porcelain::transfer::export::{ExportFormat, ExportRequest};
use crate::porcelain::workspace::rewind::checked;
use crate::view::advice::Advice;
use crate::view::error::{Hint, Result};

/// Arguments of `export`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportArguments {
    /// HEAD by default; several for html
    #[serde(default)]
    revisions: Vec<String>,
    /// markdown, html, jsonl, json, openai, anthropic, atif, source (the imported file) or a
    /// framework's
    format: String,
    /// Agent whose messages to write, for jsonl, openai, anthropic and atif
    agent: Option<String>,
    /// Write to a new workspace file at this path instead
    path: Option<String>,
    /// Begin at this byte
    #[serde(default)]
    offset: u64,
    /// Maximum number of bytes: up to 262144, 16384 by default
    limit: Option<u64>,
}

/// A part of an export, or the written file.
#[derive(Serialize, JsonSchema)]
pub(super) struct ExportAnswer {
    /// The snapshot.
    commit: String,
    /// The file with the export, and its bytes.
    file: Option<String>,
    bytes: Option<u64>,
    /// The part; null if it is not text.
    text: Option<String>,
    /// The part of an export that is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    /// Offset of the next call; null at the end.
    next_offset: Option<u64>,
    /// For source: messages after the import, which jsonl has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    newer_messages: Option<u64>,
}

impl Request for ExportArguments {
    type Answer = ExportAnswer;
    const NAME: &'static str = "export";
    const TITLE: &'static str = "Export a session";
    const ABOUT: &'static str = "Writes a session in another format: in parts (call again with \
        offset = next_offset), or to a new file of the workspace.";
    const EFFECT: Effect = Effect::MayAdd;

    fn answer(self, call: &ServiceCall<'_>) -> Result<ExportAnswer> {
        let limit = limit(self.limit, TEXT_BYTES, MAX_TEXT_BYTES)?;
        let Self { revisions, format, agent, path, offset, .. } = self;
        if path.is_some() {
            call.check_may_change()?;
        }
        let revisions = if revisions.is_empty() { vec![HEAD.to_owned()] } else { revisions };
        let format = ExportFormat::from_str(&format, false).map_err(|_| {
            let known =
                ExportFormat::value_variants().iter().filter_map(ValueEnum::to_possible_value);
            let known: Vec<String> = known.map(|value| value.get_name().to_owned()).collect();
            Error::invalid(format!("format '{format}': expected one of {}", known.join(", ")))
        })?;
        let agent = agent.unwrap_or_else(|| MAIN_AGENT.to_owned());
        let repo = call.open()?;
        let request = ExportRequest::new(revisions, format, agent).expanded(&repo)?;
        let subject = request.subject(&repo)?;
        let commit = subject.id.to_string();
        let mut answer = ExportAnswer {
            commit,
            file: None,
            bytes: None,
            text: None,
            base64: None,
            next_offset: None,
            newer_messages: request.newer_messages(&subject)?,
        };
        if let Some(path) = path {
            let place = place(call, &path)?;
            let write = |out: &mut dyn Write| request.write(&subject, out);
            let taken = Advice::calls("choose another path: an existing file is never overwritten");
            answer.bytes = Some(save(&place, false, write).hint(ErrorKind::InvalidInput, taken)?);
            answer.file = Some(path);
            return Ok(answer);
        }
        let mut window = Window::new(offset, limit);
        let written = request.write(&subject, &mut window);
        if !window.is_full() {
            written?;
        }
        let part = window.into_part();
        answer.next_offset = part.next;
        match String::from_utf8(part.part) {
            Ok(text) => answer.text = Some(text),
            Err(bytes) => answer.base64 = Some(STANDARD.encode(bytes.as_bytes())),
        }
        Ok(answer)
    }
}

/// The path for a new file: inside the workspace, not through a link out of it, and not in a dot
/// directory such as `.git` or `.claude`, whose files programs execute or obey.
fn place(call: &ServiceCall<'_>, path: &str) -> Result<PathBuf> {
    let Some(dir) = call.workspace() else {
        return Err(no_workspace("call it without path: the answer has the export in parts"));
    };
    let dir = checked(dir, false)?;
    let refused = || {
        let expected = "expected a relative one inside the workspace, without '..' and without \
            names that begin with a dot";
        Error::invalid(format!("path '{path}': {expected}"))
    };
    let is_plain = |part: Component<'_>| match part {
        Component::Normal(name) => !name.as_encoded_bytes().starts_with(b"."),
        _ => false,
    };
    let place = Path::new(path);
    let (true, Some(name)) = (place.components().all(is_plain), place.file_name()) else {
        return Err(refused().into());
    };
    let parent = dir.join(place.parent().unwrap_or(Path::new("")));
    let parent = canonical(&parent)
        .map_err(|error| Error::io(format!("find the folder of '{path}'"), error))?;
    // The path may contain links.
    match parent.strip_prefix(&dir) {
        Ok(inside) if inside.components().all(is_plain) => Ok(parent.join(name)),
        _ => Err(refused().into()),
    }
}
