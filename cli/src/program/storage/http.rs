//! Sends requests of `object_store` with `ureq`: with limits on times and answers, and without
//! redirects.

use std::io::Read as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::BodyExt as _;
use object_store::client::{
    ClientOptions, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpService,
};
use object_store::{ClientConfigKey, HeaderMap};
use turntree::{Error, ErrorKind};
use ureq::config::Config;
use ureq::http::{Request, Response, request};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body, Timeout};

/// Maximum bytes of an answer without a requested length: a listing of a thousand objects,
/// metadata, or an error.
const MAX_ANSWER_BYTES: u64 = 8 << 20;

/// How long connecting may take.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection may be silent.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);

/// Creates clients for `object_store`.
#[derive(Debug)]
pub(super) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let is_true = |value: Option<String>| value.as_deref() == Some("true");
        let allows_http = is_true(options.get_config_value(&ClientConfigKey::AllowHttp));
        // The metadata services of cloud instances answer immediately or do not exist.
        let timeout = options.get_config_value(&ClientConfigKey::ConnectTimeout);
        let is_instance = timeout.as_deref() == Some("1s");
        Ok(HttpClient::new(Client {
            allows_http,
            is_instance,
            plain: OnceLock::new(),
            secure: OnceLock::new(),
        }))
    }
}

/// Sends requests, one at a time on each thread.
#[derive(Debug)]
struct Client {
    allows_http: bool,
    is_instance: bool,
    plain: OnceLock<Agent>,
    secure: OnceLock<Agent>,
}

impl Client {
    fn agent(&self, scheme: Option<&str>) -> Result<&Agent, HttpError> {
        match scheme {
            Some("https") => Ok(self.secure.get_or_init(|| self.make(Some(tls())))),
            Some("http") if self.allows_http => Ok(self.plain.get_or_init(|| self.make(None))),
            _ => {
                let message = "http:// is only for this machine, unless the option insecure=true of the \
                               URL allows it";
                let error = Error::new(ErrorKind::Unsupported, message);
                Err(HttpError::new(HttpErrorKind::Unknown, error))
            }
        }
    }

    fn make(&self, tls: Option<TlsConfig>) -> Agent {
        let connect = if self.is_instance { Duration::from_secs(1) } else { CONNECT_TIMEOUT };
        let mut config = Config::builder()
            .http_status_as_error(false)
            // A signature is valid for one address, and keys must not be sent to a redirect's
            // target.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("turntree/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(Some(connect))
            .timeout_connect(Some(connect))
            .timeout_recv_response(Some(SILENCE_TIMEOUT))
            .timeout_per_read(Some(SILENCE_TIMEOUT))
            .timeout_per_write(Some(SILENCE_TIMEOUT));
        if self.is_instance {
            config = config.proxy(None);
        }
        if let Some(tls) = tls {
            config = config.tls_config(tls);
        }
        config.build().new_agent()
    }

    fn send(&self, parts: request::Parts, body: &[u8]) -> Result<Response<Body>, HttpError> {
        let agent = self.agent(parts.uri.scheme_str())?;
        // PUT and POST need a length, even for an empty body.
        let has_body = matches!(parts.method.as_str(), "PUT" | "POST") || !body.is_empty();
        let sent = if has_body {
            agent.run(Request::from_parts(parts, body))
        } else {
            agent.run(Request::from_parts(parts, ()))
        };
        sent.map_err(|error| HttpError::new(self.kind(&error), error))
    }

    fn kind(&self, error: &ureq::Error) -> HttpErrorKind {
        match (self.is_instance, kind(error)) {
            (true, HttpErrorKind::Connect | HttpErrorKind::Timeout) => HttpErrorKind::Unknown,
            (_, kind) => kind,
        }
    }
}

#[async_trait]
impl HttpService for Client {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let most = asked_bytes(&parts.headers).unwrap_or(MAX_ANSWER_BYTES);
        let (parts, answer) = self.send(parts, &body)?.into_parts();
        // The body of an error is not limited by the requested range.
        let most = if parts.status.is_success() { most } else { most.max(MAX_ANSWER_BYTES) };
        let mut bytes = Vec::new();
        let read = answer.into_reader().take(most.saturating_add(1)).read_to_end(&mut bytes);
        let cut = |error| HttpError::new(HttpErrorKind::Interrupted, error);
        if read.map_err(cut)? as u64 > most {
            let error = Error::limit("bytes of an answer", most, most.saturating_add(1));
            return Err(HttpError::new(HttpErrorKind::Decode, error));
        }
        Ok(HttpResponse::from_parts(parts, bytes.into()))
    }
}

/// The number of bytes in the range of a request.
fn asked_bytes(headers: &HeaderMap) -> Option<u64> {
    let range = headers.get("range")?.to_str().ok()?.strip_prefix("bytes=")?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    last.checked_sub(first)?.checked_add(1)
}

/// Classifies an error by whether the request was sent.
fn kind(error: &ureq::Error) -> HttpErrorKind {
    use std::io::ErrorKind as Io;
    match error {
        ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::ConnectProxyFailed(_)
        | ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => HttpErrorKind::Connect,
        ureq::Error::Timeout(_) => HttpErrorKind::Timeout,
        ureq::Error::Io(error) => match error.kind() {
            Io::ConnectionRefused
            | Io::NetworkUnreachable
            | Io::HostUnreachable
            | Io::AddrNotAvailable => HttpErrorKind::Connect,
            Io::TimedOut => HttpErrorKind::Timeout,
            Io::InvalidData | Io::InvalidInput => HttpErrorKind::Unknown,
            _ => HttpErrorKind::Interrupted,
        },
        ureq::Error::Protocol(_) => HttpErrorKind::Interrupted,
        _ => HttpErrorKind::Unknown,
    }
}

/// The root certificates of the system, or of `SSL_CERT_FILE`.
pub(super) fn tls() -> TlsConfig {
    let found = rustls_native_certs::load_native_certs();
    let roots = found.certs.iter().map(|cert| Certificate::from_der(cert).to_owned());
    TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(roots.collect())))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_says_how_much_may_come() {
        let with = |range: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("range", range.parse().unwrap());
            asked_bytes(&headers)
        };
        assert_eq!(with("bytes=0-0"), Some(1));
        assert_eq!(with("bytes=100-8388707"), Some(8 << 20));
        for odd in
            ["bytes=5-", "bytes=-5", "bytes=5-4", "bytes=0-18446744073709551615", "lines=0-1"]
        {
            assert_eq!(with(odd), None, "{odd}");
        }
    }
}
