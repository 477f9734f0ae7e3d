//! Sends a request of another program on, and reads the answer while it comes.

use std::io::Read;
use std::time::Duration;

use turntree::Error;
use ureq::config::Config;
use ureq::http::Request;

use super::http::{CONNECT_TIMEOUT, tls};

/// How long a model may think before it says anything.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(600);

/// An answer.
pub(crate) struct Relayed {
    /// The status code.
    pub(crate) status: u16,
    /// The headers.
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    /// The body.
    pub(crate) body: Box<dyn Read + Send>,
}

/// Sends a POST request with these headers. Redirects are not followed, since they may lead keys
/// elsewhere.
///
/// # Errors
/// `InvalidInput` if the URL or a header is not valid, `Io` without an answer.
pub(crate) fn relay(
    url: &str,
    headers: &[(String, Vec<u8>)],
    body: &[u8],
) -> Result<Relayed, Error> {
    let mut config = Config::builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_resolve(Some(CONNECT_TIMEOUT))
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_recv_response(Some(SILENCE_TIMEOUT))
        .timeout_per_read(Some(SILENCE_TIMEOUT));
    if url.starts_with("https://") {
        config = config.tls_config(tls());
    }
    let mut request = Request::post(url);
    for (name, value) in headers {
        request = request.header(name, value.as_slice());
    }
    let request = request
        .body(body)
        .map_err(|error| Error::invalid(format!("a request to {url}")).with_source(error))?;
    let failed =
        |error| Error::io(format!("send a request to {url}"), std::io::Error::other(error));
    let (parts, body) = config.build().new_agent().run(request).map_err(failed)?.into_parts();
    let headers = parts.headers.iter();
    Ok(Relayed {
        status: parts.status.as_u16(),
        headers: headers
            .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
            .collect(),
        body: Box::new(body.into_reader()),
    })
}
