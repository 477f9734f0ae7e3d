//! The URL of a remote in object storage.
//!
//! The form is `s3://BUCKET/PREFIX?region=REGION&endpoint=URL`, and the same with `gs://` and
//! `az://`. A URL is stored and shown in the clear, so it never contains a secret.

use std::collections::BTreeMap;

use turntree::transfer::remote::Key;
use turntree::{Error, Result};

/// The service of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    /// Amazon S3, and compatible services.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage, which calls a bucket a container.
    Azure,
}

impl Service {
    /// The service of a scheme.
    pub(super) fn of(scheme: &str) -> Option<Self> {
        match scheme {
            "s3" => Some(Self::S3),
            "gs" => Some(Self::Gcs),
            "az" => Some(Self::Azure),
            _ => None,
        }
    }

    /// The options that its URLs accept.
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::S3 => &["anonymous", "endpoint", "insecure", "profile", "region", "virtual-host"],
            Self::Gcs => &["anonymous", "endpoint", "insecure"],
            Self::Azure => &["account", "anonymous", "endpoint", "insecure"],
        }
    }
}

/// A location in object storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) service: Service,
    pub(super) bucket: String,
    /// The prefix of every key, without a trailing slash.
    pub(super) prefix: Option<String>,
    options: BTreeMap<String, String>,
}

impl Place {
    /// Parses a URL.
    pub(super) fn parse(url: &str) -> Result<Self> {
        let expected = "expected s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX";
        let invalid = |what: &str| Error::invalid(format!("{url:?} {what}: {expected}"));
        let (scheme, rest) = url.split_once("://").ok_or_else(|| invalid("is not a URL"))?;
        let service = Service::of(scheme).ok_or_else(|| invalid("has another scheme"))?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (bucket, prefix) = path.split_once('/').unwrap_or((path, ""));
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if bucket.is_empty() || bucket.len() > 255 || !bucket.chars().all(is_name) {
            return Err(invalid("names no bucket"));
        }
        let prefix = match prefix.trim_end_matches('/') {
            "" => None,
            prefix => Some(Key::new(prefix)?.to_string()),
        };
        let options = query.split('&').filter(|option| !option.is_empty());
        let options = options.map(|option| Self::option(service, option));
        let options = options.collect::<Result<_>>()?;
        Ok(Self { service, bucket: bucket.to_owned(), prefix, options })
    }

    fn option(service: Service, option: &str) -> Result<(String, String)> {
        let known = service.options();
        match option.split_once('=') {
            Some((name, value)) if known.contains(&name) && !value.is_empty() => {
                Ok((name.to_owned(), value.to_owned()))
            }
            // The value may be a secret, so it is not shown.
            _ => {
                let name = option.split('=').next().unwrap_or_default();
                let known = known.join(", ");
                let message = format!(
                    "the URL of a remote has the option {name:?}: expected NAME=VALUE of {known}"
                );
                Err(Error::invalid(message))
            }
        }
    }

    /// The value of an option.
    pub(super) fn value(&self, option: &str) -> Option<&str> {
        self.options.get(option).map(String::as_str)
    }

    /// True if an option is set to `true`.
    pub(super) fn is_set(&self, option: &str) -> bool {
        self.value(option) == Some("true")
    }

    /// The location for messages.
    pub(super) fn shown(&self) -> String {
        let scheme = match self.service {
            Service::S3 => "s3",
            Service::Gcs => "gs",
            Service::Azure => "az",
        };
        let prefix = self.prefix.iter().map(|prefix| format!("/{prefix}")).collect::<String>();
        format!("{scheme}://{}{prefix}", self.bucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_a_bucket_a_prefix_and_options() {
        let url = "s3://agents/team/a?region=eu-west-1&endpoint=http://127.0.0.1:9000";
        let place = Place::parse(url).unwrap();
        assert_eq!((place.service, place.bucket.as_str()), (Service::S3, "agents"));
        assert_eq!(place.prefix.as_deref(), Some("team/a"));
        assert_eq!(place.value("endpoint"), Some("http://127.0.0.1:9000"));
        assert_eq!(place.shown(), "s3://agents/team/a");
        for url in ["gs://agents", "az://agents/", "s3://agents?"] {
            assert_eq!(Place::parse(url).unwrap().prefix, None, "{url}");
        }
    }

    #[test]
    fn a_url_with_anything_else_is_refused_and_a_secret_is_not_told() {
        let bad = [
            "s3://",
            "s3:///a",
            "s3://key:word@bucket",
            "s3://bucket/../a",
            "s3://bucket//a",
            "s3://bucket/a b",
            "http://bucket",
            "bucket",
            "s3://bucket?secret=hush",
            "s3://bucket?region",
            "s3://bucket?region=",
            "az://bucket?profile=a",
        ];
        for url in bad {
            let error = Place::parse(url).unwrap_err().to_string();
            assert!(!error.contains("hush"), "{error}");
        }
    }
}
