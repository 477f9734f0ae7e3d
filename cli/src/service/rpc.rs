//! JSON-RPC 2.0 in lines: a request is one line, its answer is one line, in the same order.
//!
//! Methods are the operations of [`Service`], and `describe`, which lists them. Batches are
//! refused: a client with several requests writes several lines, without waiting for answers.

use std::io::{BufRead, Write};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use turntree::Error;

use crate::service::lines::{Line, next_line, too_long};
use crate::service::{Operation, Service};
use crate::view::error::{Failure, Result};
use crate::view::json::SCHEMA;

/// Error codes of JSON-RPC. The code of a failed operation is [`FAILED`] minus the exit code of the
/// program.
const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const FAILED: i64 = -32000;

const DESCRIBE: &str = "describe";

/// A request; other members are ignored.
#[derive(Deserialize)]
struct Request {
    jsonrpc: String,
    /// A notification has none.
    #[serde(default, deserialize_with = "present")]
    id: Option<Value>,
    method: String,
    #[serde(default)]
    params: Value,
}

/// An answer.
#[derive(Serialize)]
struct Response<'a> {
    jsonrpc: &'static str,
    id: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<RpcError>,
}

/// The error of a request.
#[derive(Serialize)]
struct RpcError {
    code: i64,
    message: String,
    /// The error as `--json` prints it.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
}

/// Answers every request of `input`, until it ends.
pub(crate) fn serve(
    service: &Service,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
) -> Result<()> {
    let failed = |error| Error::io("read standard input", error);
    while let Some(line) = next_line(input).map_err(failed)? {
        let answer = match line {
            Line::Whole(line) => answer(service, &line),
            Line::TooLong { id } => Some(refusal(&id, INVALID_REQUEST, too_long())),
        };
        if let Some(answer) = answer {
            output.write_all(answer.as_bytes())?;
            output.write_all(b"\n")?;
            output.flush()?;
        }
    }
    Ok(())
}

/// The answer to a line; `None` for an empty line and a notification.
pub(crate) fn answer(service: &Service, line: &[u8]) -> Option<String> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return None;
    }
    let value: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(error) => {
            let message = format!("the line is not JSON: column {}", error.column());
            return Some(refusal(&Value::Null, PARSE_ERROR, message));
        }
    };
    let id = value.get("id").filter(|id| is_id(id)).cloned().unwrap_or(Value::Null);
    let request = match check(value) {
        Ok(request) => request,
        Err(message) => return Some(refusal(&id, INVALID_REQUEST, message)),
    };
    let answered = call(service, &request);
    let id = request.id?;
    Some(match answered {
        Ok(result) => {
            write(&Response { jsonrpc: "2.0", id: &id, result: Some(result), error: None })
        }
        Err(error) => {
            write(&Response { jsonrpc: "2.0", id: &id, result: None, error: Some(error) })
        }
    })
}

/// Parses a request, or describes the error.
fn check(value: Value) -> Result<Request, String> {
    if value.is_array() {
        return Err("batches are not supported: write a line for each request".to_owned());
    }
    let request: Request =
        serde_json::from_value(value).map_err(|error| format!("this is not a request: {error}"))?;
    if request.jsonrpc != "2.0" {
        return Err("not a request: \"jsonrpc\": \"2.0\" is missing".to_owned());
    }
    if request.id.as_ref().is_some_and(|id| !is_id(id)) {
        return Err("an id is a string, a number or null".to_owned());
    }
    Ok(request)
}

fn is_id(id: &Value) -> bool {
    matches!(id, Value::String(_) | Value::Number(_) | Value::Null)
}

fn call(service: &Service, request: &Request) -> Result<Value, RpcError> {
    if request.method == DESCRIBE {
        return Ok(describe(service));
    }
    let Some(operation) = service.operation(&request.method) else {
        let message = format!("there is no method '{}'", request.method);
        return Err(RpcError { code: METHOD_NOT_FOUND, message, data: None });
    };
    if !matches!(request.params, Value::Null | Value::Object(_)) {
        let message = "params must be an object".to_owned();
        return Err(RpcError { code: INVALID_PARAMS, message, data: None });
    }
    service.call(operation, request.params.clone(), &|| false).map_err(|failure| {
        let data: Value = serde_json::from_str(&failure.to_json()).unwrap_or_default();
        let message = data.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
        RpcError { code: code(&failure), message, data: Some(data) }
    })
}

fn code(failure: &Failure) -> i64 {
    match failure.is_usage() {
        true => INVALID_PARAMS,
        false => FAILED - i64::from(failure.exit() as u8),
    }
}

/// Lists all methods, with the schemas of their arguments and answers.
fn describe(service: &Service) -> Value {
    let method = |operation: &Operation| {
        json!({
            "name": operation.name,
            "title": operation.title,
            "description": operation.about,
            "params": (operation.input)(),
            "result": (operation.output)(),
        })
    };
    let methods: Vec<Value> = service.operations().map(method).collect();
    json!({
        "name": "turntree",
        "version": env!("CARGO_PKG_VERSION"),
        "schema": SCHEMA,
        "methods": methods,
    })
}

fn refusal(id: &Value, code: i64, message: String) -> String {
    let error = Some(RpcError { code, message, data: None });
    write(&Response { jsonrpc: "2.0", id, result: None, error })
}

/// Serializes a response on one line. This cannot fail: keys are text and numbers are finite.
fn write(response: &Response<'_>) -> String {
    serde_json::to_string(response).unwrap_or_default()
}

/// Deserializes an existing key, even if its value is null.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
