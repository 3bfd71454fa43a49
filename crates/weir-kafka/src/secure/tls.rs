//! TLS configuration of Weir's own connections to brokers, from cluster settings.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::CertificateDer;
use rustls::{
    ClientConfig, RootCertStore, SupportedCipherSuite, SupportedProtocolVersion, version,
};
use weir_security::{TlsSettings, TlsVersion};

use super::error::SecurityError;
use super::verifier::BrokerVerifier;

/// Creates the configuration that all connections to a cluster share, with a cache of TLS sessions
/// for resumption.
pub(crate) fn client_config(settings: &TlsSettings) -> Result<Arc<ClientConfig>, SecurityError> {
    let versions: Vec<_> = settings.protocols.iter().copied().map(version_of).collect();
    let provider = Arc::new(provider(&settings.cipher_suites, &versions)?);
    let trusted = settings.roots.certificates()?.into_owned();
    let roots = root_store(&trusted)?;
    let verifier = BrokerVerifier::new(
        Arc::clone(&provider),
        roots,
        trusted,
        settings.verify_hostname,
    );
    // The provider has a cipher suite for one of the versions, so this does not fail.
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .map_err(|_| no_suite(&settings.cipher_suites, &versions))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match &settings.identity {
        None => builder.with_no_client_auth(),
        Some(identity) => builder
            .with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())
            .map_err(|error| SecurityError::ClientIdentity {
                reason: error.to_string(),
            })?,
    };
    config.resumption = Resumption::in_memory_sessions(RESUMED_SERVERS_MAX);
    Ok(Arc::new(config))
}

fn root_store(trusted: &[CertificateDer<'static>]) -> Result<RootCertStore, SecurityError> {
    let mut roots = RootCertStore::empty();
    let mut reason = "the list is empty".to_owned();
    for certificate in trusted {
        // The list of a system may contain certificates that rustls does not support.
        if let Err(error) = roots.add(certificate.clone()) {
            reason = error.to_string();
        }
    }
    match roots.is_empty() {
        false => Ok(roots),
        true => Err(SecurityError::Roots {
            count: trusted.len(),
            reason,
        }),
    }
}

fn version_of(version: TlsVersion) -> &'static SupportedProtocolVersion {
    match version {
        TlsVersion::V1_2 => &version::TLS12,
        TlsVersion::V1_3 => &version::TLS13,
    }
}

/// Returns the crypto provider with only these cipher suites; an empty list selects all.
fn provider(
    names: &[String],
    versions: &[&'static SupportedProtocolVersion],
) -> Result<CryptoProvider, SecurityError> {
    let mut provider = aws_lc_rs::default_provider();
    if names.is_empty() {
        return Ok(provider);
    }
    let (known, unknown): (Vec<_>, Vec<_>) = names.iter().partition(|name| {
        let mut suites = provider.cipher_suites.iter();
        suites.any(|suite| iana_name(suite) == **name)
    });
    provider
        .cipher_suites
        .retain(|suite| known.iter().any(|name| iana_name(suite) == **name));
    if !has_suite(&provider, versions) {
        return Err(no_suite(names, versions));
    }
    if !unknown.is_empty() {
        tracing::warn!(?unknown, "ignored cipher suites that are not supported");
    }
    Ok(provider)
}

fn has_suite(provider: &CryptoProvider, versions: &[&'static SupportedProtocolVersion]) -> bool {
    let mut suites = provider.cipher_suites.iter();
    suites.any(|suite| versions.contains(&suite.version()))
}

fn no_suite(names: &[String], versions: &[&'static SupportedProtocolVersion]) -> SecurityError {
    let all = aws_lc_rs::default_provider().cipher_suites;
    let supported = all.iter().filter(|it| versions.contains(&it.version()));
    let supported: Vec<_> = supported.map(iana_name).collect();
    SecurityError::CipherSuites {
        given: names.join(","),
        supported: supported.join(", "),
    }
}

/// Returns the IANA name of a cipher suite, which Java also uses.
fn iana_name(suite: &SupportedCipherSuite) -> String {
    let name = suite.suite().as_str().unwrap_or_default();
    name.replacen("TLS13_", "TLS_", 1)
}

/// Maximum number of brokers whose TLS sessions are stored for resumption.
const RESUMED_SERVERS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_security::{Roots, StoreFiles};

    fn settings(roots: Roots) -> TlsSettings {
        TlsSettings {
            roots,
            identity: None,
            verify_hostname: true,
            protocols: vec![TlsVersion::V1_2, TlsVersion::V1_3],
            cipher_suites: Vec::new(),
            files: StoreFiles::default(),
        }
    }

    fn suites(names: &[&str], versions: &[TlsVersion]) -> Result<Vec<String>, SecurityError> {
        let names: Vec<_> = names.iter().map(|it| (*it).to_owned()).collect();
        let versions: Vec<_> = versions.iter().copied().map(version_of).collect();
        let provider = provider(&names, &versions)?;
        Ok(provider.cipher_suites.iter().map(iana_name).collect())
    }

    #[test]
    fn cipher_suites_have_java_names() {
        use TlsVersion::{V1_2, V1_3};
        let one = suites(&["TLS_AES_256_GCM_SHA384"], &[V1_3]);
        assert_eq!(one, Ok(vec!["TLS_AES_256_GCM_SHA384".to_owned()]));
        let old = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
        // Java supports RSA key exchange, rustls does not.
        let mixed = suites(&["TLS_RSA_WITH_AES_128_CBC_SHA", old], &[V1_2]);
        assert_eq!(mixed, Ok(vec![old.to_owned()]));
        assert!(suites(&[], &[V1_2, V1_3]).is_ok_and(|all| all.len() > 5));
    }

    #[test]
    fn unusable_cipher_suites_are_rejected_with_the_supported_ones() {
        let error = suites(&["TLS_AES_256_GCM_SHA384"], &[TlsVersion::V1_2]);
        let text = error.expect_err("suite of TLS 1.3").to_string();
        let start = "ssl.cipher.suites: none of \"TLS_AES_256_GCM_SHA384\" is supported";
        assert!(text.starts_with(start), "{text}");
        assert!(
            text.contains("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
            "{text}"
        );
    }

    #[test]
    fn unusable_roots_are_rejected() {
        let bad = CertificateDer::from(b"no certificate".to_vec());
        let error = client_config(&settings(Roots::Certificates(vec![bad])));
        let text = error.expect_err("no root").to_string();
        assert!(text.starts_with("none of 1 trusted certificates"), "{text}");
    }
}
