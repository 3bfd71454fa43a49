//! Header of the PROXY protocol, versions 1 and 2: the addresses of a client whose connection a
//! load balancer forwards. Parses and encodes bytes; reads no socket.

mod content;
pub mod fuzz;
mod version_1;
mod version_2;

pub use content::{ForwardedTls, HEADER_BYTES_MAX, ProxyHeader, ProxyHeaderError};

impl ProxyHeader {
    /// Parses the header at the start of `input`. Returns it with its length, or `None` if more
    /// bytes are needed.
    pub fn parse(input: &[u8]) -> Result<Option<(Self, usize)>, ProxyHeaderError> {
        let begins = |start: &[u8]| {
            let common = start.len().min(input.len());
            input[..common] == start[..common]
        };
        if begins(version_2::SIGNATURE) {
            version_2::parse(input)
        } else if begins(version_1::START) {
            version_1::parse(input)
        } else {
            Err(ProxyHeaderError::Missing)
        }
    }

    /// Encodes the header in version 2, with a checksum.
    pub fn to_version_2(&self) -> Vec<u8> {
        version_2::encode(self)
    }
}

#[cfg(test)]
mod tests;
