//! Sends a request to the real model, and its answer back while it comes.

use hyper::Response;
#[cfg(feature = "storage")]
use hyper::StatusCode;
use hyper::header::HeaderMap;
use turntree::{Error, Result};
use turntree_exchange::replay::Interface;

use crate::loopback::{Body, Refusal};

/// The addresses of the vendors.
const ANTHROPIC: &str = "https://api.anthropic.com";
const OPENAI: &str = "https://api.openai.com/v1";
const GEMINI: &str = "https://generativelanguage.googleapis.com";

/// The start of paths of OpenAI, which its base address has too.
const OPENAI_PATH: &str = "/v1";

/// Headers that concern one connection, or that the body that is sent on would contradict.
const OF_CONNECTION: [&str; 10] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A request with all of its bytes.
pub(super) struct Arrived {
    pub(super) interface: Interface,
    /// The path and the query after the key.
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

/// Where requests go.
#[derive(Debug)]
pub(crate) struct Upstream {
    /// One address for all interfaces.
    all: Option<String>,
    anthropic: String,
    openai: String,
    gemini: String,
}

impl Upstream {
    /// The address `all`, or those that clients of this environment use, or those of the vendors.
    ///
    /// # Errors
    /// `InvalidInput` if an address is no URL.
    pub(crate) fn of(all: Option<&str>) -> Result<Self> {
        let from = |name: &str, vendor: &str| {
            let set = std::env::var(name).ok().filter(|url| !url.trim().is_empty());
            address(set.as_deref().unwrap_or(vendor))
        };
        Ok(Self {
            all: all.map(address).transpose()?,
            anthropic: from("ANTHROPIC_BASE_URL", ANTHROPIC)?,
            openai: from("OPENAI_BASE_URL", OPENAI)?,
            gemini: from("GOOGLE_GEMINI_BASE_URL", GEMINI)?,
        })
    }

    fn url(&self, interface: Interface, path: &str) -> String {
        match (&self.all, interface) {
            (Some(all), _) => format!("{all}{path}"),
            (None, Interface::Messages) => format!("{}{path}", self.anthropic),
            (None, Interface::Gemini) => format!("{}{path}", self.gemini),
            (None, Interface::Chat | Interface::Responses) => {
                format!("{}{}", self.openai, path.strip_prefix(OPENAI_PATH).unwrap_or(path))
            }
        }
    }
}

fn address(url: &str) -> Result<String> {
    let is_url = ["https://", "http://"].iter().any(|scheme| url.starts_with(scheme));
    if !is_url || url.contains(char::is_whitespace) {
        return Err(Error::invalid(format!("'{url}': expected an address such as {ANTHROPIC}")));
    }
    Ok(url.trim_end_matches('/').to_owned())
}

fn is_passed_on(name: &str) -> bool {
    !OF_CONNECTION.contains(&name) && !name.starts_with("proxy-")
}

/// Sends a request on. The body of the answer is sent while it comes.
#[cfg(feature = "storage")]
pub(super) async fn forward(
    upstream: &Upstream,
    request: Arrived,
) -> std::result::Result<Response<Body>, Refusal> {
    use std::io::Read as _;

    use hyper::header::{HeaderName, HeaderValue};
    use tokio::sync::mpsc::channel;

    use crate::loopback::Part;
    use crate::program::storage::relay::relay;

    /// Bytes that are sent together, and parts that wait for a slow client.
    const CHUNK: usize = 16 << 10;
    const WAITING: usize = 8;

    let url = upstream.url(request.interface, &request.path);
    let failed = |message: String| Refusal::new(StatusCode::BAD_GATEWAY, message);
    let headers = request.headers.iter().filter(|(name, _)| is_passed_on(name.as_str()));
    let headers: Vec<(String, Vec<u8>)> =
        headers.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
    let sent = tokio::task::spawn_blocking(move || relay(&url, &headers, &request.body)).await;
    let relayed = sent
        .map_err(|_| failed("the request could not be sent on".to_owned()))?
        .map_err(|error| failed(crate::view::error::Failure::from(error).message()))?;
    let (sender, parts) = channel(WAITING);
    let mut body = relayed.body;
    tokio::task::spawn_blocking(move || {
        let mut chunk = vec![0; CHUNK];
        while let Ok(read @ 1..) = body.read(&mut chunk) {
            let bytes = chunk.get(..read).unwrap_or_default().to_vec();
            // A client that has left needs no rest.
            if sender.blocking_send(Part::Bytes(bytes.into())).is_err() {
                break;
            }
        }
    });
    let mut response = Response::new(Body::Stream(None, parts));
    *response.status_mut() =
        StatusCode::from_u16(relayed.status).unwrap_or(StatusCode::BAD_GATEWAY);
    for (name, value) in relayed.headers {
        let header = HeaderName::try_from(&name).ok().zip(HeaderValue::from_bytes(&value).ok());
        if let Some((name, value)) = header.filter(|_| is_passed_on(&name)) {
            response.headers_mut().append(name, value);
        }
    }
    Ok(response)
}

/// Without a client for HTTP nothing is forwarded; `Then::of` says so before.
#[cfg(not(feature = "storage"))]
#[expect(clippy::unused_async, reason = "the same signature in every build")]
pub(super) async fn forward(
    upstream: &Upstream,
    request: Arrived,
) -> std::result::Result<Response<Body>, Refusal> {
    let _ = (upstream.url(request.interface, &request.path), request.headers, request.body);
    let message = "this build cannot forward requests";
    Err(Refusal::new(hyper::StatusCode::BAD_GATEWAY, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_interface_has_the_address_that_its_clients_use() {
        let at = |all: Option<&str>| Upstream {
            all: all.map(str::to_owned),
            anthropic: "https://a".into(),
            openai: "https://o/v1".into(),
            gemini: "https://g".into(),
        };
        for (interface, path, url) in [
            (Interface::Messages, "/v1/messages?beta=true", "https://a/v1/messages?beta=true"),
            (Interface::Chat, "/v1/chat/completions", "https://o/v1/chat/completions"),
            (Interface::Responses, "/v1/responses", "https://o/v1/responses"),
            (Interface::Gemini, "/v1beta/models/g:x", "https://g/v1beta/models/g:x"),
        ] {
            assert_eq!(at(None).url(interface, path), url);
            assert_eq!(
                at(Some("https://all/x")).url(interface, path),
                format!("https://all/x{path}")
            );
        }
    }

    #[test]
    fn addresses_are_urls_without_an_end() {
        assert_eq!(address("http://127.0.0.1:9/x/").unwrap(), "http://127.0.0.1:9/x");
        for other in ["", "api.openai.com", "ftp://x", "https://a b"] {
            assert!(address(other).is_err(), "{other}");
        }
    }
}
