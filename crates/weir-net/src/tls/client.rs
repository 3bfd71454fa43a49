//! TLS configuration of clients.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{UnbufferedClientConnection, WantsClientCert};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, ConfigBuilder, DigitallySignedStruct, RootCertStore,
    SignatureScheme,
};

use super::{TlsError, provider};

/// TLS configuration of outgoing connections. Clones share one configuration, also after
/// [`Self::replace`].
#[derive(Debug, Clone)]
pub struct ClientTls {
    current: Arc<RwLock<Arc<ClientConfig>>>,
}

impl ClientTls {
    /// Creates a configuration that trusts the root certificates in `authorities` (PEM).
    pub fn with_roots_pem(authorities: &[u8]) -> Result<Self, TlsError> {
        let config = builder(Some(authorities))?.with_no_client_auth();
        Ok(Self::with_alpn(config))
    }

    /// Creates a configuration that accepts every server certificate, for measurements.
    pub fn insecure() -> Result<Self, TlsError> {
        Ok(Self::with_alpn(builder(None)?.with_no_client_auth()))
    }

    /// Creates a configuration without ALPN, for protocols that have no ALPN name. Without
    /// `authorities` (PEM) it accepts every server certificate. `identity` is a client certificate
    /// with its key, PEM.
    pub fn without_alpn(
        authorities: Option<&[u8]>,
        identity: Option<(&[u8], &[u8])>,
    ) -> Result<Self, TlsError> {
        let config = builder(authorities)?;
        let Some((certificate, key)) = identity else {
            return Ok(Self::new(config.with_no_client_auth()));
        };
        let (chain, key) = parse_identity(certificate, key)?;
        let config = config.with_client_auth_cert(chain, key);
        config.map(Self::new).map_err(TlsError::Pair)
    }

    /// Replaces the configuration by that of `other`, for new connections.
    pub fn replace(&self, other: &Self) {
        let config = other.config();
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = config;
    }

    /// Creates the TLS session of a connection to server `name`, with its own buffers.
    pub fn begin(&self, name: ServerName<'static>) -> Result<ClientConnection, rustls::Error> {
        ClientConnection::new(self.config(), name)
    }

    fn with_alpn(mut config: ClientConfig) -> Self {
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self::new(config)
    }

    fn new(config: ClientConfig) -> Self {
        Self {
            current: Arc::new(RwLock::new(Arc::new(config))),
        }
    }

    fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the host of `address` (`host:port`) as the name that a certificate must have.
    pub fn server_name(address: &str) -> Result<ServerName<'static>, TlsError> {
        let host = match address.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => address,
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        ServerName::try_from(host.to_owned()).map_err(|_| TlsError::Name {
            name: host.to_owned(),
        })
    }

    /// Creates the TLS session of a connection to server `name`. The caller provides the buffers.
    pub(crate) fn connect(
        &self,
        name: ServerName<'static>,
    ) -> Result<UnbufferedClientConnection, rustls::Error> {
        UnbufferedClientConnection::new(self.config(), name)
    }
}

/// Parses root certificates from PEM.
pub(super) fn roots(authorities: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(authorities) {
        let what = "trusted certificates";
        let authority = authority.map_err(|error| TlsError::pem(what, &error))?;
        roots.add(authority).map_err(TlsError::Pair)?;
    }
    if roots.is_empty() {
        return Err(TlsError::NoTrustedRoots);
    }
    Ok(roots)
}

/// Parses a certificate chain and its key from PEM.
pub(super) fn parse_identity(
    certificate: &[u8],
    key: &[u8],
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<_, _>>();
    let chain = chain.map_err(|error| TlsError::pem("certificate", &error))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| TlsError::pem("key", &error))?;
    Ok((chain, key))
}

/// Begins a configuration that trusts `authorities` (PEM), or without them every certificate.
fn builder(
    authorities: Option<&[u8]>,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, TlsError> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Pair)?;
    Ok(match authorities {
        Some(authorities) => config.with_root_certificates(roots(authorities)?),
        None => config
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(NoVerification(provider()))),
    })
}

/// Verifier that accepts every certificate and only checks that the server has the private key.
#[derive(Debug)]
struct NoVerification(Arc<CryptoProvider>);

impl ServerCertVerifier for NoVerification {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_names_are_parsed_from_addresses() {
        let name = |address| ClientTls::server_name(address).map(|name| name.to_str().into_owned());
        assert_eq!(name("push.example.com:443").unwrap(), "push.example.com");
        assert_eq!(name("127.0.0.1:8443").unwrap(), "127.0.0.1");
        assert_eq!(name("[::1]:8443").unwrap(), "::1");
        assert!(matches!(name("a b:1"), Err(TlsError::Name { .. })));
    }

    #[test]
    fn missing_trusted_roots_are_an_error() {
        let none = ClientTls::with_roots_pem(b"");
        assert!(matches!(none, Err(TlsError::NoTrustedRoots)));
    }
}
