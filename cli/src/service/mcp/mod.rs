//! The Model Context Protocol over standard input and output: operations as tools, payloads and
//! snapshots as resources.
//!
//! The SDK implements the protocol. This file declares tools and resources, runs each call on its
//! own thread, and turns failures into tool errors with the same kinds as `--json`.

mod input;

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
    CustomResult, ErrorCode, Implementation, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResult,
    Resource, ResourceContents, ResourceTemplate, ServerCapabilities, ServerConfig, Tool,
    ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;
use turntree::Error;

use self::input::{Input, TOO_LONG};
use crate::service::lines::too_long;
use crate::service::resource::{Content, Contents, TEMPLATES};
use crate::service::schema::outline;
use crate::service::{Effect, Operation, Service};
use crate::view::error::{Failure, Result};

const INSTRUCTIONS: &str = "\
turntree keeps what an agent knows, turn by turn: conversation, notes, memory and files. \
Take a snapshot before anything risky and at the end of each turn. \
When something went wrong, find the turn with log, diff and search, and go back with restore: its first \
call only returns a plan. Fork a branch to try another way, compare, merge its results, and resolve conflicts. \
Long outputs are cited as context://vfs/...: read_vfs reads them in parts. \
An error is a JSON object with its kind and a message.";

/// Serves the client on standard input and output until it closes them.
pub(crate) fn serve(service: Arc<Service>) -> Result<()> {
    let failed = |error| Error::io("start the server", error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let ended = runtime.block_on(async {
        let (_, stdout) = rmcp::transport::stdio();
        let transport = AsyncRwTransport::new_server(Input::stdin(), stdout);
        // The input limits its lines, and reports longer ones.
        let transport = transport.with_max_line_length(usize::MAX);
        // Fails only if the client disconnects before the handshake.
        let Ok(running) = (Server { service }).serve(transport).await else { return Ok(()) };
        running.waiting().await.map(drop)
    });
    // A blocked read of standard input cannot be cancelled.
    runtime.shutdown_background();
    Ok(ended.map_err(|error| Error::io("run the server", error.into()))?)
}

#[derive(Debug, Clone)]
struct Server {
    service: Arc<Service>,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        let mut info = ServerConfig::new(capabilities);
        info.server_info = Implementation::new("turntree", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(INSTRUCTIONS.to_owned());
        info
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = |operation| tool(operation, self.service.read_only);
        Ok(ListToolsResult::with_all_items(self.service.operations().map(tool).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(operation) = self.service.operation(&request.name) else {
            let unknown = format!("there is no tool '{}'", request.name);
            return Err(ErrorData::invalid_params(unknown, None));
        };
        let arguments = request.arguments.map_or(Value::Null, Value::Object);
        let cancelled = context.ct.clone();
        let answer = self
            .apart(move |service| service.call(operation, arguments, &|| cancelled.is_cancelled()));
        let answer = tokio::select! {
            answer = answer => answer?,
            // The client has cancelled the call. Running work ends on its own.
            () = context.ct.cancelled() => return Err(internal("cancelled")),
        };
        Ok(match answer {
            Ok(answer) => success(answer),
            Err(failure) => CallToolResult::error(vec![ContentBlock::text(failure.to_json())]),
        }
        .into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let offset = match request.and_then(|request| request.cursor) {
            None => 0,
            Some(cursor) => {
                cursor.parse().map_err(|_| ErrorData::invalid_params("invalid cursor", None))?
            }
        };
        let listed = self.apart(move |service| service.resources(offset)).await?;
        let (resources, next) = listed.map_err(|failure| refused(&failure))?;
        let resource = |found: crate::service::resource::Resource| {
            let resource = Resource::new(found.uri, found.name).with_description(found.about);
            let resource = resource.with_mime_type(found.media);
            match found.size {
                Some(size) => resource.with_size(size),
                None => resource,
            }
        };
        let mut page =
            ListResourcesResult::with_all_items(resources.into_iter().map(resource).collect());
        page.next_cursor = next.map(|next| next.to_string());
        Ok(page)
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let templates = TEMPLATES.map(|known| {
            ResourceTemplate::new(known.template, known.name).with_description(known.about)
        });
        Ok(ListResourceTemplatesResult::with_all_items(templates.into()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<rmcp::model::ReadResourceResponse, ErrorData> {
        let uri = request.uri.clone();
        let read = self.apart(move |service| service.read_resource(&request.uri)).await?;
        let contents = read.map_err(|failure| refused(&failure))?;
        let contents = contents.into_iter().map(|Contents { media, content }| {
            let contents = match content {
                Content::Text(text) => ResourceContents::text(text, &uri),
                Content::Base64(bytes) => ResourceContents::blob(bytes, &uri),
            };
            contents.with_mime_type(media)
        });
        Ok(ReadResourceResult::new(contents.collect()).into())
    }

    /// Describes a request with an unknown method, or with wrong parameters.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let CustomRequest { method, params, .. } = request;
        let problem = match &*method {
            TOO_LONG => return Err(ErrorData::invalid_request(too_long(), None)),
            "tools/call" => problem::<CallToolRequestParams>(params),
            "resources/read" => problem::<ReadResourceRequestParams>(params),
            _ => return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None)),
        };
        Err(ErrorData::invalid_params(format!("params of {method}: {problem}"), None))
    }
}

impl Server {
    /// Runs `work` on a thread where it may block. It runs to its end even if the call is
    /// cancelled.
    async fn apart<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Service) -> T + Send + 'static,
    ) -> Result<T, ErrorData> {
        let service = Arc::clone(&self.service);
        let done = tokio::task::spawn_blocking(move || work(&service)).await;
        done.map_err(|_| internal("the call ended without an answer"))
    }
}

/// Converts an operation into a tool. The schema of the answer is an outline; `describe` of `serve`
/// has the full one.
pub(super) fn tool(operation: &Operation, read_only: bool) -> Tool {
    let looks = read_only || operation.effect == Effect::Looks;
    let annotations = ToolAnnotations::with_title(operation.title)
        .read_only(looks)
        .destructive(!looks && operation.effect == Effect::MayReplace)
        .idempotent(looks)
        .open_world(operation.effect == Effect::Runs);
    Tool::new(operation.name, operation.about, Arc::new((operation.input)()))
        .with_title(operation.title)
        .with_raw_output_schema(Arc::new(outline((operation.output)())))
        .with_annotations(annotations)
}

/// Converts an answer into text and structured content, with a link to the full resource if the
/// answer is a part.
fn success(answer: Value) -> CallToolResult {
    let mut content = vec![ContentBlock::text(answer.to_string())];
    let part_of = |key: &str| answer.get(key).and_then(Value::as_str);
    let is_part = answer.get("next_offset").is_some_and(|next| !next.is_null());
    let whole = part_of("whole").or_else(|| part_of("uri").filter(|_| is_part));
    if let Some(uri) = whole {
        content.push(ContentBlock::resource_link(Resource::new(uri, uri)));
    }
    let mut result = CallToolResult::success(content);
    result.structured_content = Some(answer);
    result
}

/// Describes why parameters are invalid for a method.
fn problem<T: DeserializeOwned>(params: Option<Value>) -> String {
    let error = serde_json::from_value::<T>(params.unwrap_or_default()).err();
    error.map_or_else(|| "invalid parameters".to_owned(), |error| error.to_string())
}

/// Converts a failure to read a resource into an error of the protocol.
fn refused(failure: &Failure) -> ErrorData {
    let data: Value = serde_json::from_str(&failure.to_json()).unwrap_or_default();
    let message = data.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
    let data = Some(data);
    if failure.is_not_found() {
        return ErrorData::resource_not_found(message, data);
    }
    match failure.is_usage() {
        true => ErrorData::invalid_params(message, data),
        false => ErrorData::internal_error(message, data),
    }
}

fn internal(message: &'static str) -> ErrorData {
    ErrorData::internal_error(message, None)
}
