//! Encrypts connections to a database with `rustls`.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;
use turntree::{Error, Result};

/// A connector that verifies servers by the certificates of the system, or of `SSL_CERT_FILE`.
///
/// # Errors
/// `InvalidInput` if the build has no version of TLS.
pub(super) fn connector() -> Result<MakeRustlsConnect> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::invalid(format!("there is no version of TLS: {error}")))?;
    Ok(MakeRustlsConnect::new(config.with_root_certificates(roots).with_no_client_auth()))
}
