//! TLS configuration of servers, replaceable at run time.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, UnbufferedServerConnection, WebPkiClientVerifier};
use rustls::{ConfigBuilder, ServerConfig, WantsVerifier};

use super::client::{parse_identity, roots};
use super::expiry::not_after_unix_s;
use super::{TlsError, provider};

/// Authorities whose client certificates a server accepts.
#[derive(Debug, Clone, Copy)]
pub struct ClientAuthorities<'a> {
    /// Their certificates as PEM.
    pub pem: &'a [u8],
    /// Clients without a certificate are accepted, too.
    pub optional: bool,
}

/// A checked certificate chain with its key.
#[derive(Debug)]
pub struct TlsIdentity {
    config: Arc<ServerConfig>,
    not_after_unix_s: Option<i64>,
}

impl TlsIdentity {
    /// Parses a certificate chain and its private key from PEM (key: PKCS#8, PKCS#1 or SEC1), and
    /// the authorities of client certificates, if clients are asked for one.
    pub fn from_pem(
        certificate: &[u8],
        key: &[u8],
        clients: Option<ClientAuthorities<'_>>,
    ) -> Result<Self, TlsError> {
        let (chain, key) = parse_identity(certificate, key)?;
        let Some(first) = chain.first() else {
            return Err(TlsError::Pem {
                what: "certificate",
                reason: "no certificate in the file".to_owned(),
            });
        };
        let not_after_unix_s = not_after_unix_s(first);
        let config = match clients {
            None => builder()?.with_no_client_auth(),
            Some(clients) => builder()?.with_client_cert_verifier(verifier(clients)?),
        };
        let mut config = config
            .with_single_cert(chain, key)
            .map_err(TlsError::Pair)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // Stateless session tickets: clients can resume at any event loop, which saves most of the
        // handshake cost when many reconnect, and the server stores nothing.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        // With a ticket, a client could come back after the end of its certificate.
        if clients.is_none() {
            config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().map_err(TlsError::Pair)?;
            config.send_tls13_tickets = 1;
        }
        Ok(Self {
            config: Arc::new(config),
            not_after_unix_s,
        })
    }

    /// Parses an identity for protocols that have no ALPN name.
    pub fn without_alpn(
        certificate: &[u8],
        key: &[u8],
        clients: Option<ClientAuthorities<'_>>,
    ) -> Result<Self, TlsError> {
        let mut identity = Self::from_pem(certificate, key, clients)?;
        let mut config = ServerConfig::clone(&identity.config);
        config.alpn_protocols = Vec::new();
        identity.config = Arc::new(config);
        Ok(identity)
    }

    /// Returns the end of the certificate's validity in seconds since 1970; `None` if it cannot be
    /// parsed.
    pub fn not_after_unix_s(&self) -> Option<i64> {
        self.not_after_unix_s
    }
}

/// Source of the TLS sessions of new connections.
#[derive(Debug)]
pub struct TlsAcceptor {
    current: RwLock<Arc<TlsIdentity>>,
    handshake_timeout: Duration,
}

impl TlsAcceptor {
    /// Creates an acceptor for `identity` with a timeout for handshakes.
    pub fn new(identity: TlsIdentity, handshake_timeout: Duration) -> Self {
        Self {
            current: RwLock::new(Arc::new(identity)),
            handshake_timeout,
        }
    }

    /// Replaces the identity for new connections.
    pub fn replace(&self, identity: TlsIdentity) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(identity);
    }

    /// Returns the current identity.
    pub fn identity(&self) -> Arc<TlsIdentity> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn handshake_timeout_ms(&self) -> u64 {
        u64::try_from(self.handshake_timeout.as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn accept(&self) -> Result<UnbufferedServerConnection, rustls::Error> {
        UnbufferedServerConnection::new(Arc::clone(&self.identity().config))
    }
}

/// Returns the verifier of client certificates.
fn verifier(clients: ClientAuthorities<'_>) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let roots = Arc::new(roots(clients.pem)?);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
    let verifier = match clients.optional {
        true => verifier.allow_unauthenticated(),
        false => verifier,
    };
    let verifier = verifier.build();
    verifier.map_err(|error| TlsError::Pair(rustls::Error::General(error.to_string())))
}

fn builder() -> Result<ConfigBuilder<ServerConfig, WantsVerifier>, TlsError> {
    ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Pair)
}
