//! The start of an accepted connection, as far as it selects the configuration of the rest: a PROXY
//! header, and the hello of a TLS client with the server name.

use std::io::{self, Read, Write};

use mio::net::TcpStream;
use rustls::server::Acceptor;
use thiserror::Error;

use super::socket::read_some;
use super::{SocketStream, TlsBuffers, TlsStream};
use crate::proxy_header::{HEADER_BYTES_MAX, ProxyHeader, ProxyHeaderError};
use crate::tls::TlsAcceptor;

/// Longest hello in bytes, with its records. Hellos have about 2 KiB, with post-quantum key shares.
const HELLO_BYTES_MAX: usize = 32 * 1024;
/// TLS alerts (RFC 8446, section 6): type, version and length of a record, and the level.
const FATAL_ALERT: [u8; 6] = [21, 3, 3, 0, 2, 2];

/// A start of a connection that ends it.
#[derive(Debug, Error)]
pub enum PrefaceError {
    /// No usable PROXY header.
    #[error(transparent)]
    Header(#[from] ProxyHeaderError),
    /// No usable hello. The client got an alert.
    #[error("TLS hello: {0}")]
    Hello(rustls::Error),
    /// A hello above its limit.
    #[error("TLS hello is longer than {HELLO_BYTES_MAX} bytes")]
    HelloTooLong,
    /// The peer closed the connection.
    #[error("closed by the peer during the first bytes")]
    Closed,
    /// The connection failed.
    #[error(transparent)]
    Socket(#[from] io::Error),
}

/// Reason why a server ends a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandshakeAlert {
    /// No server name, and none is the default.
    MissingName,
    /// A server name that the server does not have.
    UnknownName,
}

/// An accepted connection of which nothing, or a part of the preface, has been read.
#[derive(Debug)]
pub struct Preface {
    socket: TcpStream,
    needs_header: bool,
    header: Option<ProxyHeader>,
    /// `None` if the server name is not needed.
    hello: Option<Box<HelloReader>>,
}

impl Preface {
    /// Creates the preface of `socket`, which begins with a PROXY header or not. With `needs_hello`
    /// it includes the hello of a TLS client.
    pub fn new(socket: TcpStream, needs_header: bool, needs_hello: bool) -> Self {
        Self {
            socket,
            needs_header,
            header: None,
            hello: needs_hello.then(Box::default),
        }
    }

    /// Reads what has arrived, in pieces of any size. Returns `true` when the preface is complete.
    /// Bytes after it stay in the socket, or are part of the stream. `buffer` has at least
    /// [`HEADER_BYTES_MAX`] bytes, whose content is not used.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<bool, PrefaceError> {
        if self.needs_header && self.header.is_none() {
            self.header = read_header(&mut self.socket, buffer)?;
            if self.header.is_none() {
                return Ok(false);
            }
        }
        match &mut self.hello {
            Some(hello) => hello.read(&mut self.socket, buffer),
            None => Ok(true),
        }
    }

    /// Returns the underlying socket.
    pub fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// Returns the PROXY header, once it is complete.
    pub fn header(&self) -> Option<&ProxyHeader> {
        self.header.as_ref()
    }

    /// Returns the server name in the hello, in lower case.
    pub fn server_name(&self) -> Option<&str> {
        self.hello.as_ref()?.server_name.as_deref()
    }

    /// Continues as a stream, with TLS if `tls` is given.
    pub fn into_stream(
        self,
        tls: Option<&TlsAcceptor>,
        buffers: &mut TlsBuffers,
    ) -> io::Result<SocketStream> {
        let Some((tls, hello)) = tls.zip(self.hello) else {
            return SocketStream::accepted(self.socket, tls);
        };
        let session = tls.accept().map_err(io::Error::other)?;
        let stream = TlsStream::with_received(self.socket, session, hello.received, buffers)?;
        Ok(SocketStream::Server(Box::new(stream)))
    }

    /// Ends the connection with an alert.
    pub fn reject(mut self, alert: HandshakeAlert) {
        let code = match alert {
            HandshakeAlert::MissingName => 109,
            HandshakeAlert::UnknownName => 112,
        };
        let record = [&FATAL_ALERT[..], &[code]].concat();
        // A client that does not accept 7 bytes sees the close only.
        let _ = self.socket.write(&record);
    }
}

/// Reads a header if all of it has arrived. The bytes of a part stay in the socket, so that those
/// after the header are never taken.
fn read_header(
    socket: &mut TcpStream,
    buffer: &mut [u8],
) -> Result<Option<ProxyHeader>, PrefaceError> {
    let arrived = match socket.peek(&mut buffer[..HEADER_BYTES_MAX]) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        Ok(0) => return Err(PrefaceError::Closed),
        arrived => arrived?,
    };
    let Some((header, bytes)) = ProxyHeader::parse(&buffer[..arrived])? else {
        return Ok(None);
    };
    socket.read_exact(&mut buffer[..bytes])?;
    Ok(Some(header))
}

/// Reads a hello and stores it for the TLS session.
#[derive(Default)]
struct HelloReader {
    acceptor: Acceptor,
    received: Vec<u8>,
    server_name: Option<Box<str>>,
}

impl std::fmt::Debug for HelloReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HelloReader")
            .field("received", &self.received.len())
            .finish_non_exhaustive()
    }
}

impl HelloReader {
    fn read(&mut self, socket: &mut TcpStream, buffer: &mut [u8]) -> Result<bool, PrefaceError> {
        loop {
            let limit = (HELLO_BYTES_MAX - self.received.len()).min(buffer.len());
            if limit == 0 {
                return Err(PrefaceError::HelloTooLong);
            }
            let piece = match read_some(socket, &mut buffer[..limit])? {
                None => return Ok(false),
                Some(0) => return Err(PrefaceError::Closed),
                Some(count) => &buffer[..count],
            };
            match self.take(piece) {
                Ok(false) => {}
                Ok(true) => return Ok(true),
                Err((error, alert)) => {
                    // A client that does not accept it sees the close only.
                    let _ = socket.write(&alert);
                    return Err(error);
                }
            }
        }
    }

    /// Takes the next bytes. Returns `true` if the hello is complete, or an error with its alert.
    fn take(&mut self, piece: &[u8]) -> Result<bool, (PrefaceError, Vec<u8>)> {
        self.received.extend_from_slice(piece);
        let mut rest = piece;
        while !rest.is_empty() {
            let taken = self.acceptor.read_tls(&mut rest);
            taken.map_err(|error| (PrefaceError::Socket(error), Vec::new()))?;
            match self.acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let hello = accepted.client_hello();
                    let name = hello.server_name().map(str::to_ascii_lowercase);
                    self.server_name = name.map(String::into_boxed_str);
                    return Ok(true);
                }
                Err((error, mut alert)) => {
                    let mut record = Vec::new();
                    // A vector accepts all bytes.
                    let _ = alert.write_all(&mut record);
                    return Err((PrefaceError::Hello(error), record));
                }
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener, TcpStream as StdStream};

    use proptest::prelude::*;
    use rustls::ClientConnection;

    use super::*;
    use crate::tls::ClientTls;

    fn sockets() -> (StdStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let client = StdStream::connect(listener.local_addr().expect("an address"));
        let client = client.expect("a connection");
        client.set_nodelay(true).expect("an option");
        let (server, _) = listener.accept().expect("a connection");
        server.set_nonblocking(true).expect("an option");
        (client, TcpStream::from_std(server))
    }

    fn hello_of(name: &str) -> Vec<u8> {
        let tls = ClientTls::insecure().expect("a configuration");
        let name = ClientTls::server_name(name).expect("a name");
        let mut client: ClientConnection = tls.begin(name).expect("a session");
        let mut hello = Vec::new();
        client.write_tls(&mut hello).expect("a hello");
        hello
    }

    /// Splits the message of a hello into records of at most `bytes` bytes.
    fn in_records(hello: &[u8], bytes: usize) -> Vec<u8> {
        let record = |part: &[u8]| {
            let length = (part.len() as u16).to_be_bytes();
            [&hello[..3], &length, part].concat()
        };
        hello[5..].chunks(bytes).flat_map(record).collect()
    }

    /// Reads until the preface is complete or fails. The bytes have been sent.
    fn read(preface: &mut Preface, buffer: &mut [u8]) -> Result<(), PrefaceError> {
        while !preface.read(buffer)? {}
        Ok(())
    }

    #[test]
    fn header_is_taken_without_bytes_after_it() {
        let (mut client, server) = sockets();
        let mut preface = Preface::new(server, true, false);
        let mut buffer = vec![0; HEADER_BYTES_MAX];
        let line = b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nmore";
        for byte in &line[..line.len() - 5] {
            client.write_all(&[*byte]).expect("sends");
            assert!(!preface.read(&mut buffer).expect("a part of a header"));
        }
        client.write_all(&line[line.len() - 5..]).expect("sends");
        read(&mut preface, &mut buffer).expect("a header");
        let addresses = preface.header().and_then(|header| header.addresses);
        let from = SocketAddr::from(([192, 0, 2, 1], 1));
        assert_eq!(addresses.map(|(client, _)| client), Some(from));
        drop(client);
        let mut rest = [0; 8];
        let count = preface.socket().read(&mut rest).expect("bytes");
        assert_eq!(rest[..count], *b"more");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn server_name_is_found_in_split_records(
            piece in 1_usize..2_000,
            record in 1_usize..2_000,
        ) {
            let hello = in_records(&hello_of("B7-Orders.example.com"), record);
            let mut reader = HelloReader::default();
            let mut complete = false;
            for piece in hello.chunks(piece) {
                prop_assert!(!complete);
                complete = reader.take(piece).expect("a hello");
            }
            prop_assert!(complete);
            prop_assert_eq!(reader.server_name.as_deref(), Some("b7-orders.example.com"));
            prop_assert_eq!(reader.received, hello);
        }
    }

    #[test]
    fn addresses_are_no_server_names() {
        let mut reader = HelloReader::default();
        assert!(reader.take(&hello_of("127.0.0.1")).expect("a hello"));
        assert_eq!(reader.server_name, None);
    }

    #[test]
    fn other_bytes_get_an_alert() {
        let mut reader = HelloReader::default();
        let (error, alert) = reader.take(b"GET / HTTP/1.1\r\n").expect_err("no hello");
        assert!(matches!(error, PrefaceError::Hello(_)), "{error}");
        assert_eq!(alert[0], FATAL_ALERT[0]);
    }

    #[test]
    fn long_hello_is_rejected() {
        let (mut client, server) = sockets();
        let mut preface = Preface::new(server, false, true);
        let mut buffer = vec![0; HEADER_BYTES_MAX];
        // A hello that announces 64 KiB, in records.
        let message = [&[1, 0, 0xff, 0xf0][..], &[0; 0xfff0]].concat();
        let records = in_records(&[&[22, 3, 1, 0, 0][..], &message].concat(), 16_000);
        client.write_all(&records).expect("sends");
        let error = read(&mut preface, &mut buffer).expect_err("too long");
        assert!(matches!(error, PrefaceError::HelloTooLong), "{error}");
    }

    #[test]
    fn rejection_is_an_alert() {
        let (mut client, server) = sockets();
        Preface::new(server, false, true).reject(HandshakeAlert::UnknownName);
        let mut alert = Vec::new();
        client.read_to_end(&mut alert).expect("an alert");
        assert_eq!(alert, [21, 3, 3, 0, 2, 2, 112]);
    }
}
