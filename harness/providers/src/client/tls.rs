//! The TLS configuration for HTTP, including the HTTP versions that a connection may use.

use reqwest::ClientBuilder;
use rustls::ClientConfig;

use harness_core::{error::Error, tls};

/// The TLS configuration of all clients. Clones share the certificates and the sessions.
pub(super) fn shared() -> Result<ClientConfig, Error> {
    let mut config = tls::shared()?;
    config.alpn_protocols = vec!["http/1.1".into()];
    if ClientBuilder::new().http2_adaptive_window(false).has_http2() {
        config.alpn_protocols.insert(0, "h2".into());
    }
    Ok(config)
}

/// Detects whether the program has turned on reqwest's feature `http2`. With the feature, reqwest's builder has its own
/// method `http2_adaptive_window`, and Rust calls that method instead of the method of this trait. There is no other
/// way to detect the feature.
#[allow(dead_code, reason = "not called in a program that has turned on `http2`")]
trait WithoutHttp2 {
    fn http2_adaptive_window(self, on: bool) -> Http1Only;
}

impl WithoutHttp2 for ClientBuilder {
    fn http2_adaptive_window(self, _: bool) -> Http1Only {
        Http1Only
    }
}

#[allow(dead_code, reason = "not made in a program that has turned on `http2`")]
struct Http1Only;

trait SupportsHttp2 {
    fn has_http2(&self) -> bool;
}

impl SupportsHttp2 for Http1Only {
    fn has_http2(&self) -> bool {
        false
    }
}

impl SupportsHttp2 for ClientBuilder {
    fn has_http2(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::shared;

    #[test]
    fn all_providers_share_the_certificates_that_were_read_first() {
        let [one, other] = [shared().unwrap(), shared().unwrap()];
        assert!(Arc::ptr_eq(&one.client_auth_cert_resolver, &other.client_auth_cert_resolver));
    }
}
