//! Creates clients of S3, GCS or Azure from the URL, the environment and profiles.

use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{BackoffConfig, ClientConfigKey, ObjectStore, RetryConfig};
use turntree::{Error, Result};

use super::http::{CONNECT_TIMEOUT, Connector};
use super::place::{Place, Service};
use super::profile::{self, var};

/// Creates a client for a location.
pub(super) fn connect(place: &Place) -> Result<Box<dyn ObjectStore>> {
    let store = match place.service {
        Service::S3 => s3(place)?.build().map(boxed),
        Service::Gcs => gcs(place).build().map(boxed),
        Service::Azure => azure(place).build().map(boxed),
    };
    let refused = |error: object_store::Error| {
        Error::invalid(format!("{} cannot be used", place.shown())).with_source(error)
    };
    store.map_err(refused)
}

fn boxed(store: impl ObjectStore) -> Box<dyn ObjectStore> {
    Box::new(store)
}

/// Retries rate limits and lost connections: four more times, about three seconds with jitter.
fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(2),
            base: 2.0,
        },
        max_retries: 4,
        retry_timeout: Duration::from_secs(60),
    }
}

/// True if requests may be unencrypted: to this machine, or if the user allowed it.
fn allows_http(place: &Place, endpoint: Option<&str>, variable: &str) -> bool {
    let host = |endpoint: &str| {
        let rest = endpoint.strip_prefix("http://")?;
        let authority = rest.split(['/', '?', '#']).next()?;
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        Some(host.trim_matches(['[', ']']).to_owned())
    };
    let is_here = |host: String| {
        host == "localhost"
            || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
    };
    place.is_set("insecure")
        || var(variable).as_deref() == Some("true")
        || endpoint.and_then(host).is_some_and(is_here)
}

/// Uses the keys of the environment, otherwise a role named by the environment, otherwise a
/// profile, otherwise the instance. A profile in the URL comes first.
fn s3(place: &Place) -> Result<AmazonS3Builder> {
    let mut s3 = AmazonS3Builder::from_env().with_bucket_name(&place.bucket);
    let named = place.value("profile");
    let others = [
        AmazonS3ConfigKey::AccessKeyId,
        AmazonS3ConfigKey::WebIdentityTokenFile,
        AmazonS3ConfigKey::ContainerCredentialsRelativeUri,
        AmazonS3ConfigKey::ContainerCredentialsFullUri,
    ];
    let has_others = others.iter().any(|key| s3.get_config_value(key).is_some());
    if named.is_some() || !(has_others || place.is_set("anonymous")) {
        s3 = with_profile(s3, named)?;
    }
    if let Some(region) = place.value("region") {
        s3 = s3.with_region(region);
    }
    if let Some(endpoint) = place.value("endpoint") {
        s3 = s3.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
    }
    let endpoint = s3
        .get_config_value(&AmazonS3ConfigKey::S3Endpoint)
        .or_else(|| s3.get_config_value(&AmazonS3ConfigKey::Endpoint));
    let allows = allows_http(place, endpoint.as_deref(), "AWS_ALLOW_HTTP");
    let client = |key| AmazonS3ConfigKey::Client(key);
    s3 = s3
        .with_config(client(ClientConfigKey::AllowHttp), allows.to_string())
        .with_config(client(ClientConfigKey::ConnectTimeout), timeout())
        .with_retry(retries())
        .with_http_connector(Connector);
    // AWS serves new buckets at a host name of their own.
    if place.is_set("virtual-host") {
        s3 = s3.with_virtual_hosted_style_request(true);
    }
    if place.is_set("anonymous") {
        s3 = s3.with_skip_signature(true);
    }
    Ok(s3)
}

/// Uses keys, region and endpoint of a profile where the environment has none.
fn with_profile(mut s3: AmazonS3Builder, named: Option<&str>) -> Result<AmazonS3Builder> {
    let Some(profile) = profile::load(named)? else { return Ok(s3) };
    let settings = [
        ("aws_access_key_id", AmazonS3ConfigKey::AccessKeyId),
        ("aws_secret_access_key", AmazonS3ConfigKey::SecretAccessKey),
        ("aws_session_token", AmazonS3ConfigKey::Token),
        ("region", AmazonS3ConfigKey::Region),
        ("endpoint_url", AmazonS3ConfigKey::Endpoint),
    ];
    for (setting, key) in settings {
        let is_said = s3.get_config_value(&key).is_some() && named.is_none();
        if let (false, Some(value)) = (is_said, profile.get(setting)) {
            s3 = s3.with_config(key, value);
        }
    }
    Ok(s3)
}

/// Uses a service account of the environment, otherwise the credentials of `gcloud`, otherwise
/// those of the instance.
fn gcs(place: &Place) -> GoogleCloudStorageBuilder {
    let mut gcs = GoogleCloudStorageBuilder::from_env().with_bucket_name(&place.bucket);
    let endpoint = place.value("endpoint");
    if let Some(endpoint) = endpoint {
        gcs = gcs.with_config(GoogleConfigKey::BaseUrl, endpoint);
    }
    if place.is_set("anonymous") {
        gcs = gcs.with_skip_signature(true);
    }
    let allows = allows_http(place, endpoint, "GOOGLE_ALLOW_HTTP");
    let client = |key| GoogleConfigKey::Client(key);
    gcs.with_config(client(ClientConfigKey::AllowHttp), allows.to_string())
        .with_config(client(ClientConfigKey::ConnectTimeout), timeout())
        .with_retry(retries())
        .with_http_connector(Connector)
}

/// Uses the key, token or application of the environment, otherwise the identity of the instance.
fn azure(place: &Place) -> MicrosoftAzureBuilder {
    let mut azure = MicrosoftAzureBuilder::from_env().with_container_name(&place.bucket);
    if let Some(account) = place.value("account") {
        azure = azure.with_account(account);
    }
    let endpoint = place.value("endpoint");
    if let Some(endpoint) = endpoint {
        azure = azure.with_endpoint(endpoint.to_owned());
    }
    if place.is_set("anonymous") {
        azure = azure.with_skip_signature(true);
    }
    let allows = allows_http(place, endpoint, "AZURE_ALLOW_HTTP");
    let client = |key| AzureConfigKey::Client(key);
    azure
        .with_config(client(ClientConfigKey::AllowHttp), allows.to_string())
        .with_config(client(ClientConfigKey::ConnectTimeout), timeout())
        .with_retry(retries())
        .with_http_connector(Connector)
}

fn timeout() -> String {
    format!("{}s", CONNECT_TIMEOUT.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_out_in_the_clear_stays_on_this_machine_unless_somebody_says_so() {
        let allows = |url: &str| {
            let place = Place::parse(url).unwrap();
            allows_http(&place, place.value("endpoint"), "TURNTREE_NO_SUCH_VARIABLE")
        };
        for here in ["http://127.0.0.1:9000", "http://localhost", "http://[::1]:9000/a"] {
            assert!(allows(&format!("s3://b?endpoint={here}")), "{here}");
        }
        let elsewhere = ["http://10.0.0.1", "http://localhost.example", "http://127.0.0.1.example"];
        for elsewhere in elsewhere {
            assert!(!allows(&format!("s3://b?endpoint={elsewhere}")), "{elsewhere}");
            assert!(allows(&format!("s3://b?endpoint={elsewhere}&insecure=true")));
        }
        assert!(!allows("s3://b"));
    }
}
