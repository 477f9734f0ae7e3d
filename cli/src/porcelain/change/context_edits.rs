//! Options that add to a context: messages to append, entries to set and to unset.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bytes::Bytes;
use clap::Args;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use turntree::Error;
use turntree::context::{MAIN_AGENT, Role};

use crate::program::invocation::{input_name, read_input};
use crate::view::error::Result;

/// Additions to the context of a snapshot; everything else stays the same.
#[derive(Debug, Default, Args)]
pub(crate) struct EditOptions {
    /// Append the messages of this file to the conversation: a JSON object each, or an array of
    /// these; - is standard input
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    append: Vec<PathBuf>,
    /// Append a message, after the messages of files; may be given several times
    #[arg(long, value_name = "ROLE=TEXT", value_parser = message)]
    append_message: Vec<Message>,
    /// The agent to append to; main by default
    #[arg(long, value_name = "AGENT")]
    append_to: Option<String>,
    /// Set an entry, as in scratchpad/todo=TEXT; may be given several times
    #[arg(long, value_name = "PATH=TEXT", value_parser = entry)]
    set: Vec<(String, String)>,
    /// Remove an entry; may be given several times
    #[arg(long, value_name = "PATH")]
    unset: Vec<String>,
}

/// A message given on the command line.
#[derive(Debug, Clone, Serialize)]
struct Message {
    role: String,
    content: String,
}

/// The document of edits for the library. Messages keep their exact bytes.
#[derive(Serialize)]
struct Edits<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    append: Option<Append<'a>>,
    set: Map<String, Value>,
    unset: &'a [String],
}

#[derive(Serialize)]
struct Append<'a> {
    agents: BTreeMap<&'a str, Vec<Box<RawValue>>>,
}

impl EditOptions {
    /// The document of edits; `None` if there are no edits.
    pub(crate) fn document(&self) -> Result<Option<Bytes>> {
        let Self { append, append_message, append_to, set, unset } = self;
        let appends = !append.is_empty() || !append_message.is_empty();
        if append_to.is_some() && !appends {
            let message = "--append-to takes --append or --append-message";
            return Err(Error::invalid(message).into());
        }
        if !appends && set.is_empty() && unset.is_empty() {
            return Ok(None);
        }
        let mut messages: Vec<Box<RawValue>> = Vec::new();
        for file in append {
            let bytes = read_input(file)?;
            messages.extend(read_messages(&bytes, &input_name(file))?);
        }
        let failed = |error| Error::invalid("messages to append").with_source(error);
        for message in append_message {
            messages.push(to_raw_value(message).map_err(failed)?);
        }
        let agent = append_to.as_deref().unwrap_or(MAIN_AGENT);
        let append = appends.then(|| Append { agents: BTreeMap::from([(agent, messages)]) });
        let set = set.iter().map(|(path, text)| (path.clone(), Value::from(text.clone())));
        let document = serde_json::to_vec(&Edits { append, set: set.collect(), unset });
        let document = document.map_err(failed)?;
        Ok(Some(document.into()))
    }
}

/// Parses the messages of a file: a sequence of objects, or of arrays of objects.
fn read_messages(bytes: &[u8], name: &str) -> Result<Vec<Box<RawValue>>> {
    let mut messages = Vec::new();
    for value in serde_json::Deserializer::from_slice(bytes).into_iter::<Box<RawValue>>() {
        let refused = |error: &serde_json::Error| {
            let (line, column) = (error.line(), error.column());
            let expected = "expected messages as JSON objects, one a line";
            Error::invalid(format!("{name}, line {line}, column {column}: {expected}"))
        };
        let value = value.map_err(|error| refused(&error))?;
        match value.get().starts_with('[') {
            true => messages.extend(
                serde_json::from_str::<Vec<Box<RawValue>>>(value.get())
                    .map_err(|error| refused(&error))?,
            ),
            false => messages.push(value),
        }
    }
    Ok(messages)
}

fn message(text: &str) -> Result<Message, Error> {
    let parts = text.split_once('=').filter(|(role, _)| Role::from_name(role) != Role::Other);
    let parts = parts.map(|(role, content)| (role.to_owned(), content.to_owned()));
    let (role, content) = parts.ok_or_else(|| {
        Error::invalid(format!(
            "'{text}': expected user=TEXT, assistant=TEXT, tool=TEXT or system=TEXT"
        ))
    })?;
    Ok(Message { role, content })
}

fn entry(text: &str) -> Result<(String, String), Error> {
    let parts = text.split_once('=').filter(|(path, _)| !path.is_empty());
    let parts = parts.map(|(path, text)| (path.to_owned(), text.to_owned()));
    parts.ok_or_else(|| {
        Error::invalid(format!("'{text}': expected PATH=TEXT, as in scratchpad/todo=TEXT"))
    })
}
