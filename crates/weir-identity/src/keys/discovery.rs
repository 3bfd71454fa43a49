//! OpenID discovery documents.

use serde_json::Value;
use thiserror::Error;

use crate::json::parse_object;
use crate::url::{SafeUrl, UrlError};

/// Largest discovery document, in bytes.
const DOCUMENT_BYTES_MAX: usize = 256 * 1024;

/// Error in a discovery document. The keys in use stay.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum DiscoveryError {
    #[error("discovery document has {bytes} bytes, at most {DOCUMENT_BYTES_MAX} are allowed")]
    TooLarge { bytes: usize },
    #[error("discovery document is not a JSON object without duplicate members")]
    Malformed,
    #[error("discovery document is for another issuer than the configured one")]
    OtherIssuer,
    #[error("discovery document has no text \"jwks_uri\"")]
    NoKeysUrl,
    #[error("\"jwks_uri\" of the discovery document: {0}")]
    KeysUrl(#[from] UrlError),
    #[error("\"jwks_uri\" of the discovery document uses HTTP, the issuer does not; use HTTPS")]
    InsecureKeysUrl,
}

/// Returns the URL of an issuer's discovery document.
pub fn discovery_url(issuer: &SafeUrl) -> SafeUrl {
    issuer.join("/.well-known/openid-configuration")
}

/// Returns the URL of the key set. The document must be for exactly this issuer, and the URL as
/// secure as that of the issuer.
pub fn discovered_keys_url(document: &[u8], issuer: &str) -> Result<SafeUrl, DiscoveryError> {
    let bytes = document.len();
    if bytes > DOCUMENT_BYTES_MAX {
        return Err(DiscoveryError::TooLarge { bytes });
    }
    let members = parse_object(document).ok_or(DiscoveryError::Malformed)?;
    let text = |name: &str| members.get(name).and_then(Value::as_str);
    if text("issuer") != Some(issuer) {
        return Err(DiscoveryError::OtherIssuer);
    }
    let url = text("jwks_uri").ok_or(DiscoveryError::NoKeysUrl)?;
    let url = SafeUrl::parse(url)?;
    match url.is_https() || !issuer.starts_with("https://") {
        true => Ok(url),
        false => Err(DiscoveryError::InsecureKeysUrl),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUER: &str = "https://id.example.com/realms/prod";

    fn keys_url(document: &str) -> Result<String, DiscoveryError> {
        discovered_keys_url(document.as_bytes(), ISSUER).map(|url| url.as_str().to_owned())
    }

    #[test]
    fn keys_url_comes_from_document_of_issuer() {
        let document = format!(r#"{{"issuer":"{ISSUER}","jwks_uri":"https://id.example.com/k"}}"#);
        assert_eq!(keys_url(&document).unwrap(), "https://id.example.com/k");
        let url = discovery_url(&SafeUrl::parse(ISSUER).unwrap());
        let expected = format!("{ISSUER}/.well-known/openid-configuration");
        assert_eq!(url.as_str(), expected);
    }

    #[test]
    fn other_documents_are_rejected() {
        let with = |issuer: &str, url: &str| {
            keys_url(&format!(r#"{{"issuer":"{issuer}","jwks_uri":"{url}"}}"#))
        };
        let url = "https://id.example.com/k";
        for issuer in [
            "https://id.example.com/realms/prod/",
            "https://ID.example.com/realms/prod",
        ] {
            assert_eq!(with(issuer, url), Err(DiscoveryError::OtherIssuer));
        }
        let insecure = Err(DiscoveryError::KeysUrl(UrlError::Insecure));
        assert_eq!(with(ISSUER, "http://id.example.com/k"), insecure);
        assert_eq!(with(ISSUER, "http://169.254.169.254/latest"), insecure);
        for url in [
            "http://127.0.0.1:80/k",
            "http://localhost/k",
            "http://[::1]/k",
        ] {
            assert_eq!(with(ISSUER, url), Err(DiscoveryError::InsecureKeysUrl));
        }
        let local = "http://127.0.0.1:8080";
        let document = format!(r#"{{"issuer":"{local}","jwks_uri":"{local}/k"}}"#);
        let url = discovered_keys_url(document.as_bytes(), local).unwrap();
        assert_eq!(url.as_str(), "http://127.0.0.1:8080/k");
        assert_eq!(keys_url("[]"), Err(DiscoveryError::Malformed));
        assert_eq!(
            keys_url("{\"issuer\":1,\"issuer\":2}"),
            Err(DiscoveryError::Malformed)
        );
        let no_keys = format!(r#"{{"issuer":"{ISSUER}","jwks_uri":["x"]}}"#);
        assert_eq!(keys_url(&no_keys), Err(DiscoveryError::NoKeysUrl));
        let large = " ".repeat(DOCUMENT_BYTES_MAX + 1);
        assert!(matches!(
            keys_url(&large),
            Err(DiscoveryError::TooLarge { .. })
        ));
    }
}
