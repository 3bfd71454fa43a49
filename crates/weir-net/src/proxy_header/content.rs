//! Content of a header, and what may be wrong with one.

use std::net::SocketAddr;

use thiserror::Error;

/// Longest header in bytes. Version 1 has at most 107.
pub const HEADER_BYTES_MAX: usize = 4096;
/// Longest name of a server, as in DNS.
pub(super) const AUTHORITY_BYTES_MAX: usize = 255;
/// Longest text about TLS.
pub(super) const TEXT_BYTES_MAX: usize = 1024;

/// Content of a header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProxyHeader {
    /// Addresses of the client and of the server that it connected to. `None` if the sender speaks
    /// for itself, as in health checks, or does not know them: those of the socket count.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// Name of the server that the client requested.
    pub authority: Option<Box<str>>,
    /// TLS between client and sender.
    pub tls: Option<ForwardedTls>,
}

/// TLS that a load balancer terminated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForwardedTls {
    /// Version, such as `TLSv1.3`.
    pub version: Option<Box<str>>,
    /// Common name of the client's certificate.
    pub common_name: Option<Box<str>>,
    /// The client presented a certificate, and it was verified.
    pub is_verified: bool,
}

/// A header that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ProxyHeaderError {
    /// Other bytes instead of a header.
    #[error("no PROXY protocol header at the start of the connection")]
    Missing,
    /// A header above its limit.
    #[error("PROXY protocol header is too long")]
    TooLong,
    /// A line of version 1 that is not `PROXY TCP4 SOURCE DESTINATION PORT PORT` or similar.
    #[error("PROXY protocol header of version 1 is not valid")]
    Line,
    /// Another version than 2 after the signature of version 2.
    #[error("PROXY protocol version {0} is not supported")]
    Version(u8),
    /// Neither LOCAL nor PROXY.
    #[error("PROXY protocol command {0} is not known")]
    Command(u8),
    /// Neither TCP over IPv4 nor TCP over IPv6.
    #[error("PROXY protocol address family 0x{0:02x} is not supported")]
    Family(u8),
    /// Addresses or values that are longer or shorter than announced.
    #[error("PROXY protocol header has a wrong length inside")]
    Length,
    /// A checksum that does not match, or more than one.
    #[error("PROXY protocol checksum does not match")]
    Checksum,
    /// A text that is too long, not UTF-8, or has control characters.
    #[error("PROXY protocol header has an unusable text")]
    Text,
}

impl ProxyHeader {
    /// Returns the common name of the client's certificate if the sender verified it.
    pub fn verified_name(&self) -> Option<&str> {
        let tls = self.tls.as_ref().filter(|tls| tls.is_verified)?;
        tls.common_name.as_deref()
    }
}
