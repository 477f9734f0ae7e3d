//! Decides which requests are answered, before anything else of a request is read.
//!
//! A foreign web page can send requests to this machine. With a name of its own that resolves to
//! this machine (DNS rebinding) it can even read the answers. The requested name is in `Host`,
//! which no page can set, so a request for any name but ours is refused first. The key is known to
//! the user who started the server, and is sent only by a page that this server served; it is in no
//! cookie.

use hyper::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, ORIGIN, TRANSFER_ENCODING,
};
use hyper::{Method, Request, StatusCode};

use crate::loopback::{Hosts, Refusal, is_same, only, too_large};

/// The header that tells whether a page of another origin sent a request.
const FETCH_SITE: &str = "sec-fetch-site";

/// The media type of a change. A form cannot send it, so a foreign page needs a preflight request.
const JSON: &str = "application/json";

/// The rules for requests to a server.
pub(super) struct Guard {
    hosts: Hosts,
    key: String,
}

impl Guard {
    /// The rules of a server on `port` with the key `key`.
    pub(super) fn new(port: u16, key: String) -> Self {
        Self { hosts: Hosts::new(port), key }
    }

    /// Refuses a request for another name, from a page of another origin, or with a method other
    /// than GET.
    pub(super) fn admit<B>(&self, request: &Request<B>) -> Result<(), Refusal> {
        self.hosts.check(request)?;
        let headers = request.headers();
        if request.method() != Method::GET {
            let message = "this server is read-only: expected GET";
            return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, message));
        }
        let has_body = headers.contains_key(TRANSFER_ENCODING)
            || headers.get_all(CONTENT_LENGTH).iter().any(|length| length != "0");
        if has_body {
            let message = "a GET request has no body";
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        match headers.get_all(ORIGIN).iter().all(|origin| self.hosts.is_own(origin.as_bytes())) {
            true => Ok(()),
            false => Err(foreign()),
        }
    }

    /// Refuses a change for another name, from a page of another origin, without the key, not as
    /// JSON, or of more than `most` bytes. Browsers send the origin of a POST, so a request without
    /// one does not come from a page.
    pub(super) fn admit_change<B>(&self, request: &Request<B>, most: u64) -> Result<(), Refusal> {
        self.hosts.check(request)?;
        let headers = request.headers();
        let origin = only(headers, ORIGIN.as_str());
        if !origin.is_some_and(|origin| self.hosts.is_own(origin.as_bytes())) {
            return Err(foreign());
        }
        self.check_key(headers)?;
        if only(headers, CONTENT_TYPE.as_str()) != Some(JSON) {
            let message = format!("expected a change as {JSON}");
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        match length.is_none_or(|length| length.parse().is_ok_and(|length: u64| length <= most)) {
            true => Ok(()),
            false => Err(too_large(most)),
        }
    }

    /// Refuses a question from a page of another origin, or without the key.
    pub(super) fn check_key(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let sites = headers.get_all(FETCH_SITE);
        if sites.iter().any(|site| site != "same-origin" && site != "none") {
            return Err(foreign());
        }
        let given = only(headers, AUTHORIZATION.as_str());
        let given = given.and_then(|given| given.strip_prefix("Bearer "));
        if given.is_some_and(|given| is_same(given.as_bytes(), self.key.as_bytes())) {
            return Ok(());
        }
        let message = "expected the key of this server: open the address that it printed";
        Err(Refusal::new(StatusCode::UNAUTHORIZED, message))
    }
}

fn foreign() -> Refusal {
    Refusal::new(StatusCode::FORBIDDEN, "pages of other origins are not answered")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::builder().uri("/api/sessions");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    #[test]
    fn only_the_exact_names_of_the_server_are_answered() {
        let guard = Guard::new(4000, "k".into());
        let status = |headers: &[(&str, &str)]| {
            guard.admit(&request(headers)).map_err(|refused| refused.status.as_u16())
        };
        for host in ["127.0.0.1:4000", "localhost:4000"] {
            assert_eq!(status(&[("host", host)]), Ok(()));
        }
        let foreign = [
            "evil.example:4000",
            "127.0.0.1.evil.example:4000",
            "localhost.:4000",
            "127.0.0.1",
            "127.0.0.1:4001",
            "0.0.0.0:4000",
            "[::1]:4000",
            "LOCALHOST:4000",
            "user@localhost:4000",
            "",
        ];
        for host in foreign {
            assert_eq!(status(&[("host", host)]), Err(421), "{host}");
        }
        assert_eq!(status(&[]), Err(421));
        let twice = [("host", "localhost:4000"), ("host", "evil.example")];
        assert_eq!(status(&twice), Err(421));
        let ours = ("host", "localhost:4000");
        assert_eq!(status(&[ours, ("origin", "http://localhost:4000")]), Ok(()));
        for origin in ["null", "http://evil.example", "https://localhost:4000", "http://localhost"]
        {
            assert_eq!(status(&[ours, ("origin", origin)]), Err(403), "{origin}");
        }
        assert_eq!(status(&[ours, ("content-length", "1")]), Err(413));
        assert_eq!(status(&[ours, ("transfer-encoding", "chunked")]), Err(413));
    }

    #[test]
    fn a_change_says_that_it_is_from_a_page_of_this_server() {
        let guard = Guard::new(4000, "0123".into());
        let status = |headers: &[(&str, &str)]| {
            guard.admit_change(&request(headers), 100).map_err(|refused| refused.status.as_u16())
        };
        let (host, key) = (("host", "127.0.0.1:4000"), ("authorization", "Bearer 0123"));
        let (origin, json) =
            (("origin", "http://127.0.0.1:4000"), ("content-type", "application/json"));
        assert_eq!(status(&[host, key, origin, json]), Ok(()));
        assert_eq!(status(&[host, key, origin, json, ("content-length", "100")]), Ok(()));
        assert_eq!(status(&[("host", "evil.example:4000"), key, origin, json]), Err(421));
        for foreign in ["null", "http://evil.example", "https://127.0.0.1:4000", ""] {
            assert_eq!(status(&[host, key, ("origin", foreign), json]), Err(403), "{foreign}");
        }
        assert_eq!(status(&[host, key, json]), Err(403));
        assert_eq!(status(&[host, key, origin, origin, json]), Err(403));
        assert_eq!(status(&[host, key, origin, json, ("sec-fetch-site", "same-site")]), Err(403));
        assert_eq!(status(&[host, origin, json]), Err(401));
        for other in ["text/plain", "application/json; charset=utf-8", "application/x-json"] {
            assert_eq!(status(&[host, key, origin, ("content-type", other)]), Err(415), "{other}");
        }
        assert_eq!(status(&[host, key, origin]), Err(415));
        for length in ["101", "-1", "18446744073709551616"] {
            let length = ("content-length", length);
            assert_eq!(status(&[host, key, origin, json, length]), Err(413), "{length:?}");
        }
    }

    #[test]
    fn only_the_whole_key_opens() {
        let guard = Guard::new(4000, "0123".into());
        let status = |headers: &[(&str, &str)]| {
            guard.check_key(request(headers).headers()).map_err(|refused| refused.status.as_u16())
        };
        let right = ("authorization", "Bearer 0123");
        assert_eq!(status(&[right]), Ok(()));
        for given in ["Bearer 012", "Bearer 01234", "Bearer 0124", "Bearer ", "0123", "Basic 0123"]
        {
            assert_eq!(status(&[("authorization", given)]), Err(401), "{given}");
        }
        assert_eq!(status(&[]), Err(401));
        assert_eq!(status(&[right, right]), Err(401));
        assert_eq!(status(&[right, ("sec-fetch-site", "same-origin")]), Ok(()));
        for site in ["cross-site", "same-site"] {
            assert_eq!(status(&[right, ("sec-fetch-site", site)]), Err(403), "{site}");
        }
    }
}
