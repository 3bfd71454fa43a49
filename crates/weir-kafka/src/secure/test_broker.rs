//! A peer for tests: a server on this machine with or without TLS that sends as many bytes as a
//! request asks for.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    RootCertStore, ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion,
};
use weir_security::{ClientIdentity, Roots, Security, StoreFiles, TlsSettings, TlsVersion};

/// Certificate authority of the other two.
pub(crate) const AUTHORITY: &[u8] = include_bytes!("../../../weir-net/tests/tls/ca.pem");
/// Certificate for `localhost` and 127.0.0.1.
pub(crate) const SERVER: &[u8] = include_bytes!("../../../weir-net/tests/tls/server.pem");
const SERVER_KEY: &[u8] = include_bytes!("../../../weir-net/tests/tls/server.key");
/// Another certificate of the authority.
pub(crate) const SECOND: &[u8] = include_bytes!("../../../weir-net/tests/tls/second.pem");
const SECOND_KEY: &[u8] = include_bytes!("../../../weir-net/tests/tls/second.key");

/// Encryption of the server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TestTls {
    pub(crate) version: &'static SupportedProtocolVersion,
    pub(crate) needs_client_certificate: bool,
}

pub(crate) struct TestBroker {
    pub(crate) address: SocketAddr,
    thread: JoinHandle<()>,
}

impl TestBroker {
    /// Serves connections one after the other until `connections` were accepted. Writes at most
    /// `piece_bytes` at a time.
    pub(crate) fn start(tls: Option<TestTls>, connections: usize, piece_bytes: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("address");
        let config = tls.map(server_config);
        let thread = std::thread::spawn(move || {
            for _ in 0..connections {
                let (socket, _) = listener.accept().expect("a connection");
                socket.set_nodelay(true).expect("socket option");
                let socket = PieceWriter {
                    socket,
                    piece_bytes,
                };
                // A rejected or closed connection is part of the tests.
                let _ = match &config {
                    None => serve(socket),
                    Some(config) => {
                        let tls = ServerConnection::new(Arc::clone(config)).expect("valid");
                        serve(StreamOwned::new(tls, socket))
                    }
                };
            }
        });
        Self { address, thread }
    }

    pub(crate) fn join(self) {
        self.thread.join().expect("all connections were served");
    }
}

struct PieceWriter {
    socket: TcpStream,
    piece_bytes: usize,
}

impl Read for PieceWriter {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(buffer)
    }
}

impl Write for PieceWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket
            .write(&bytes[..bytes.len().min(self.piece_bytes)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// Sends the correlation id and as many bytes as the last four bytes of each request state.
fn serve(mut stream: impl Read + Write) -> io::Result<()> {
    loop {
        let mut size = [0; 4];
        stream.read_exact(&mut size)?;
        let size = u32::from_be_bytes(size) as usize;
        if size > 1 << 20 {
            // A client with TLS; a broker without sends nothing that makes sense to it.
            return stream.write_all(b"not TLS");
        }
        let mut request = vec![0; size];
        stream.read_exact(&mut request)?;
        let count = request
            .last_chunk::<4>()
            .map_or(0, |it| u32::from_be_bytes(*it));
        let mut response = (4 + count).to_be_bytes().to_vec();
        response.extend_from_slice(&request[4..8]);
        response.extend((0..count).map(|index| index as u8));
        stream.write_all(&response)?;
        stream.flush()?;
    }
}

fn server_config(tls: TestTls) -> Arc<ServerConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[tls.version])
        .expect("supported");
    let builder = match tls.needs_client_certificate {
        false => builder.with_no_client_auth(),
        true => {
            let mut roots = RootCertStore::empty();
            roots.add(certificate(AUTHORITY)).expect("an authority");
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().expect("roots"))
        }
    };
    let key = PrivateKeyDer::from_pem_slice(SERVER_KEY).expect("a key");
    let config = builder.with_single_cert(vec![certificate(SERVER)], key);
    Arc::new(config.expect("a pair"))
}

pub(crate) fn certificate(pem: &[u8]) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem).expect("a certificate")
}

/// Returns a client certificate that the server accepts.
pub(crate) fn identity() -> ClientIdentity {
    ClientIdentity {
        chain: vec![certificate(SECOND)],
        key: PrivateKeyDer::from_pem_slice(SECOND_KEY).expect("a key"),
    }
}

/// Returns settings of a client that trusts `trusted` (PEM) and verifies host names.
pub(crate) fn trusting(trusted: &[u8]) -> Security {
    Security {
        tls: Some(TlsSettings {
            roots: Roots::Certificates(vec![certificate(trusted)]),
            identity: None,
            verify_hostname: true,
            protocols: vec![TlsVersion::V1_2, TlsVersion::V1_3],
            cipher_suites: Vec::new(),
            files: StoreFiles::default(),
        }),
        sasl: None,
    }
}

/// Writes a request for `count` bytes.
pub(crate) fn request(id: i32, count: u32) -> Vec<u8> {
    let mut bytes = 12_u32.to_be_bytes().to_vec();
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&id.to_be_bytes());
    bytes.extend_from_slice(&count.to_be_bytes());
    bytes
}
