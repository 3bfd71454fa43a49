//! What a server shows to its clients, replaceable while it runs.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{
    NoServerSessionStorage, ServerConnection, UnbufferedServerConnection, WebPkiClientVerifier,
};

use super::client::roots;
use super::expiry::not_after_unix_s;
use super::{TlsError, provider};

/// A checked certificate chain with its key, ready to be shown.
#[derive(Debug)]
pub struct TlsIdentity {
    config: Arc<ServerConfig>,
    not_after_unix_s: Option<i64>,
}

impl TlsIdentity {
    /// From PEM: the certificate with those that lead to its issuer, and its private key (PKCS#8,
    /// PKCS#1 or SEC1).
    ///
    /// # Errors
    /// Texts that are no PEM, or a key that is not the certificate's.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate)
            .collect::<Result<_, _>>()
            .map_err(|error| TlsError::pem("certificate", &error))?;
        let Some(first) = chain.first() else {
            return Err(TlsError::Pem {
                what: "certificate",
                reason: "no certificate in the file".to_owned(),
            });
        };
        let not_after_unix_s = not_after_unix_s(first);
        let key =
            PrivateKeyDer::from_pem_slice(key).map_err(|error| TlsError::pem("key", &error))?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Pair)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(TlsError::Pair)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // Resumption is kept by the clients, whichever event loop they come back to: a crowd that
        // reconnects is spared most of the handshakes' cost, and nothing is stored here.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().map_err(TlsError::Pair)?;
        config.send_tls13_tickets = 1;
        Ok(Self {
            config: Arc::new(config),
            not_after_unix_s,
        })
    }

    /// The same for protocols that TLS does not name. With `client_authorities`, PEM, clients must
    /// show a certificate that leads to one of these.
    ///
    /// # Errors
    /// Texts that are no PEM, or a key that is not the certificate's.
    pub fn for_any_protocol(
        certificate: &[u8],
        key: &[u8],
        client_authorities: Option<&[u8]>,
    ) -> Result<Self, TlsError> {
        let mut identity = Self::from_pem(certificate, key)?;
        let mut config = match client_authorities {
            None => ServerConfig::clone(&identity.config),
            Some(authorities) => {
                let roots = Arc::new(roots(authorities)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider())
                    .build()
                    .map_err(|error| TlsError::Pair(rustls::Error::General(error.to_string())))?;
                ServerConfig::builder_with_provider(provider())
                    .with_safe_default_protocol_versions()
                    .map_err(TlsError::Pair)?
                    .with_client_cert_verifier(verifier)
                    .with_cert_resolver(Arc::clone(&identity.config.cert_resolver))
            }
        };
        config.alpn_protocols = Vec::new();
        identity.config = Arc::new(config);
        Ok(identity)
    }

    /// When the certificate ends, in seconds since 1970; `None` if it does not say so in a way
    /// that is understood here.
    pub fn not_after_unix_s(&self) -> Option<i64> {
        self.not_after_unix_s
    }
}

/// Where event loops get the TLS end of a new connection from.
#[derive(Debug)]
pub struct TlsAcceptor {
    current: RwLock<Arc<TlsIdentity>>,
    handshake: Duration,
}

impl TlsAcceptor {
    /// Shows `identity`; a handshake may take as long as `handshake`.
    pub fn new(identity: TlsIdentity, handshake: Duration) -> Self {
        Self {
            current: RwLock::new(Arc::new(identity)),
            handshake,
        }
    }

    /// Shows another certificate to those who connect from now on.
    pub fn replace(&self, identity: TlsIdentity) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(identity);
    }

    /// What is shown now.
    pub fn identity(&self) -> Arc<TlsIdentity> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The TLS end of a new connection, for loops that leave its buffers to it.
    ///
    /// # Errors
    /// When the cryptography fails.
    pub fn begin(&self) -> Result<ServerConnection, rustls::Error> {
        ServerConnection::new(Arc::clone(&self.identity().config))
    }

    pub(crate) fn handshake_ms(&self) -> u64 {
        u64::try_from(self.handshake.as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn accept(&self) -> Result<UnbufferedServerConnection, rustls::Error> {
        UnbufferedServerConnection::new(Arc::clone(&self.identity().config))
    }
}
