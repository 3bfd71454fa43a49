//! Connections of the proxy itself to brokers: one blocking request at a time.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use weir_net::proxy_header::ProxyHeader;
use weir_net::tls::ClientTls;
use weir_wire::frame::SIZE_BYTES;

use crate::config::HostPort;

/// Timeout for connecting to a broker and for its response.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum size of a response. Metadata without topics lists brokers only.
const RESPONSE_BYTES_MAX: usize = 4 << 20;
/// Client id in requests.
pub(crate) const CLIENT_ID: &str = "weir-proxy";

/// How the proxy connects to brokers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BrokerAccess<'a> {
    /// `None`: without TLS.
    pub(crate) tls: Option<&'a ClientTls>,
    /// `true` if brokers expect a header of the PROXY protocol.
    pub(crate) sends_proxy_header: bool,
}

trait ReadWrite: Read + Write {}

impl<T: Read + Write> ReadWrite for T {}

/// Open connection.
pub(crate) struct BrokerConnection(Box<dyn ReadWrite>);

impl BrokerConnection {
    /// Connects to the first address of `host` that accepts.
    pub(crate) fn open(host: &HostPort, access: BrokerAccess<'_>) -> io::Result<Self> {
        let mut failed = io::Error::new(io::ErrorKind::NotFound, "host name not found");
        for address in host.resolve() {
            let mut stream = match TcpStream::connect_timeout(&address, TIMEOUT) {
                Ok(stream) => stream,
                Err(error) => {
                    failed = error;
                    continue;
                }
            };
            stream.set_read_timeout(Some(TIMEOUT))?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            stream.set_nodelay(true)?;
            if access.sends_proxy_header {
                stream.write_all(&ProxyHeader::default().to_version_2())?;
            }
            let Some(tls) = access.tls else {
                return Ok(Self(Box::new(stream)));
            };
            let name = ClientTls::server_name(&host.to_string()).map_err(io::Error::other)?;
            let tls = tls.begin(name).map_err(io::Error::other)?;
            return Ok(Self(Box::new(rustls::StreamOwned::new(tls, stream))));
        }
        Err(failed)
    }

    /// Sends a request with a header of version 1 and returns its response, with the size prefix.
    pub(crate) fn exchange(&mut self, key: i16, version: i16, body: &[u8]) -> io::Result<Vec<u8>> {
        let size = 8 + 2 + CLIENT_ID.len() + body.len();
        let request = [
            &(size as i32).to_be_bytes()[..],
            &key.to_be_bytes(),
            &version.to_be_bytes(),
            &i32::from(key).to_be_bytes(), // correlation id
            &(CLIENT_ID.len() as i16).to_be_bytes(),
            CLIENT_ID.as_bytes(),
            body,
        ]
        .concat();
        self.exchange_frame(&request)
    }

    /// Sends a whole request and returns its response, with the size prefix.
    pub(crate) fn exchange_frame(&mut self, request: &[u8]) -> io::Result<Vec<u8>> {
        self.0.write_all(request)?;
        self.0.flush()?;
        let mut prefix = [0; SIZE_BYTES];
        self.0.read_exact(&mut prefix)?;
        let size = usize::try_from(i32::from_be_bytes(prefix)).ok();
        let size = size
            .filter(|size| *size <= RESPONSE_BYTES_MAX)
            .ok_or_else(|| {
                io::Error::other(
                    "the response is not one of Kafka: check that this is a broker's port",
                )
            })?;
        let mut response = vec![0; SIZE_BYTES + size];
        response[..SIZE_BYTES].copy_from_slice(&prefix);
        self.0.read_exact(&mut response[SIZE_BYTES..])?;
        Ok(response)
    }
}
