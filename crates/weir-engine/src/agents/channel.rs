//! Encrypted connection between a coordinator and an agent that share a token.
//!
//! TLS 1.3 with a raw public key (RFC 7250). Both ends derive the key pair of the coordinator from
//! the token, so an agent needs no certificate to detect another server, and sends the token to
//! none.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{Context, SHA256};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs as provider,
    verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, DigitallySignedStruct,
    PeerIncompatible, ServerConfig, ServerConnection, SignatureScheme,
};

/// Secret of a run, and the key pair of its coordinator.
#[derive(Clone)]
pub(super) struct RunToken {
    text: String,
    key: Arc<dyn SigningKey>,
    public_key: Vec<u8>,
}

impl RunToken {
    /// Derives the key pair from a token.
    ///
    /// # Errors
    /// An error if the cryptography library rejects the key.
    pub(super) fn new(text: &str) -> io::Result<Self> {
        let mut context = Context::new(&SHA256);
        context.update(KEY_LABEL);
        context.update(text.as_bytes());
        let document = [PKCS8_PREFIX, context.finish().as_ref()].concat();
        let key = provider::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(document));
        let key = key.map_err(io::Error::other)?;
        let public_key = key.public_key().map(|it| it.as_ref().to_vec());
        Ok(Self {
            text: text.to_owned(),
            key,
            public_key: public_key.unwrap_or_default(),
        })
    }

    /// Returns the token as the peer sends it.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    fn server(&self) -> Result<Connection, rustls::Error> {
        let certified = CertifiedKey::new(
            vec![CertificateDer::from(self.public_key.clone())],
            Arc::clone(&self.key),
        );
        let keys = AlwaysResolvesServerRawPublicKeys::new(Arc::new(certified));
        let mut config = ServerConfig::builder_with_provider(crypto())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(keys));
        config.send_tls13_tickets = 0;
        ServerConnection::new(Arc::new(config)).map(Connection::from)
    }

    fn client(&self) -> Result<Connection, rustls::Error> {
        let provider = crypto();
        let verifier = CoordinatorKey {
            public_key: self.public_key.clone(),
            algorithms: provider.signature_verification_algorithms,
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        // Not checked and not sent to name a server: the key identifies the coordinator.
        let name = ServerName::try_from("weir").map_err(|_| rustls::Error::EncryptError)?;
        ClientConnection::new(Arc::new(config), name).map(Connection::from)
    }
}

fn crypto() -> Arc<CryptoProvider> {
    Arc::new(provider::default_provider())
}

/// Verifier that accepts the coordinator of one token.
#[derive(Debug)]
struct CoordinatorKey {
    public_key: Vec<u8>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for CoordinatorKey {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match key.as_ref() == self.public_key {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerIncompatible::ServerDoesNotSupportTls12Or13.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// Encrypted connection; one thread reads, any number write.
#[derive(Debug)]
pub(super) struct Channel {
    tls: Mutex<Connection>,
    /// Encrypted data of the reading thread that `tls` has not accepted yet.
    encrypted: Mutex<Vec<u8>>,
    socket: TcpStream,
}

impl Channel {
    /// Accepts a connection as the coordinator, until `deadline`.
    pub(super) fn accept(
        socket: TcpStream,
        token: &RunToken,
        deadline: Instant,
    ) -> io::Result<Self> {
        let tls = token.server().map_err(io::Error::other)?;
        Self::handshake(socket, tls, deadline)
    }

    /// Connects as an agent, until `deadline`. The error is `InvalidData` if the server has another
    /// token.
    pub(super) fn connect(
        socket: TcpStream,
        token: &RunToken,
        deadline: Instant,
    ) -> io::Result<Self> {
        let tls = token.client().map_err(io::Error::other)?;
        Self::handshake(socket, tls, deadline)
    }

    fn handshake(socket: TcpStream, mut tls: Connection, deadline: Instant) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(WRITE_TIMEOUT))?;
        let mut limited = UntilDeadline(&socket, deadline);
        while tls.is_handshaking() {
            tls.complete_io(&mut limited)?;
        }
        Ok(Self {
            tls: Mutex::new(tls),
            encrypted: Mutex::default(),
            socket,
        })
    }

    /// Sets the maximum time without data from the peer.
    pub(super) fn set_receive_timeout(&self, silence: Duration) -> io::Result<()> {
        self.socket.set_read_timeout(Some(silence))
    }

    /// Sets the end of the time to read; later reads fail.
    pub(super) fn set_deadline(&self, deadline: Instant) -> io::Result<()> {
        UntilDeadline(&self.socket, deadline).limit()
    }

    /// Reads decrypted data. Returns 0 after `close_notify` of the peer.
    pub(super) fn read(&self, output: &mut [u8]) -> io::Result<usize> {
        let mut encrypted = self
            .encrypted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        loop {
            match self.lock().reader().read(output) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
            if encrypted.is_empty() {
                let mut piece = [0; READ_BYTES];
                // Without the lock of `tls`, so that others can write.
                let count = (&self.socket).read(&mut piece)?;
                if count == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                encrypted.extend_from_slice(&piece[..count]);
            }
            // The decrypted data is read before more is accepted: its buffer has a limit.
            let mut tls = self.lock();
            let accepted = tls.read_tls(&mut encrypted.as_slice())?;
            encrypted.drain(..accepted);
            tls.process_new_packets().map_err(invalid)?;
            self.flush(&mut tls)?;
        }
    }

    /// Encrypts and sends data.
    pub(super) fn write(&self, data: &[u8]) -> io::Result<()> {
        let mut tls = self.lock();
        for piece in data.chunks(WRITE_BYTES) {
            tls.writer().write_all(piece)?;
            self.flush(&mut tls)?;
        }
        Ok(())
    }

    fn flush(&self, tls: &mut Connection) -> io::Result<()> {
        while tls.wants_write() {
            tls.write_tls(&mut &self.socket)?;
        }
        Ok(())
    }

    /// Informs the peer that no data follows.
    pub(super) fn finish(&self) {
        let mut tls = self.lock();
        tls.send_close_notify();
        // Fails only if the peer has closed the connection.
        let _ = self.flush(&mut tls);
    }

    /// Closes the connection in both directions, which ends reads and writes of other threads.
    pub(super) fn close(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Socket whose reads and writes end at a deadline, however slowly the peer sends.
struct UntilDeadline<'a>(&'a TcpStream, Instant);

impl UntilDeadline<'_> {
    fn limit(&self) -> io::Result<()> {
        let left = self.1.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.0.set_read_timeout(Some(left))
    }
}

impl Read for UntilDeadline<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.limit()?;
        self.0.read(buffer)
    }
}

impl Write for UntilDeadline<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.limit()?;
        self.0.write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Separates this use of the token from any other.
const KEY_LABEL: &[u8] = b"weir agent channel 1\n";
/// Private key document of Ed25519 (RFC 8410) up to its 32 bytes.
const PKCS8_PREFIX: &[u8] = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
const READ_BYTES: usize = 4096;
/// Less than the encrypted data that a connection buffers.
const WRITE_BYTES: usize = 16 << 10;
/// Maximum time for the peer to accept data.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
