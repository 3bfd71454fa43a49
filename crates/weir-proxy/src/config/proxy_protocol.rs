//! Where connections begin with a header of the PROXY protocol.

use std::fmt;
use std::net::IpAddr;

use serde::Deserialize;
use weir_identity::acl::{AddressRange, AddressRangeError};

/// Connections that must begin with a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ProxyProtocolMode {
    /// All; other peers than the trusted ones are rejected.
    Required,
    /// Those of trusted peers; other peers are clients.
    Trusted,
}

/// Peers whose connections begin with a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyProtocol {
    mode: ProxyProtocolMode,
    trusted: Vec<AddressRange>,
}

/// Keys that do not fit together.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProxyProtocolError {
    #[error("proxy_protocol is set, but not trusted: list the addresses of the load balancers")]
    NoneTrusted,
    #[error("trusted is set, but not proxy_protocol: set it to \"required\" or \"trusted\"")]
    NoMode,
    #[error("trusted: {0}")]
    Address(#[from] AddressRangeError),
}

impl ProxyProtocol {
    /// Checks the keys `proxy_protocol` and `trusted`.
    pub(super) fn new(
        mode: Option<ProxyProtocolMode>,
        trusted: &[String],
    ) -> Result<Option<Self>, ProxyProtocolError> {
        let Some(mode) = mode else {
            return match trusted {
                [] => Ok(None),
                [..] => Err(ProxyProtocolError::NoMode),
            };
        };
        if trusted.is_empty() {
            return Err(ProxyProtocolError::NoneTrusted);
        }
        let trusted = trusted.iter().map(|text| text.parse());
        let trusted = trusted.collect::<Result<_, _>>()?;
        Ok(Some(Self { mode, trusted }))
    }

    /// Returns `true` if a connection of `peer` must begin with a header; `None` if `peer` may not
    /// connect.
    pub(crate) fn needs_header(&self, peer: IpAddr) -> Option<bool> {
        let is_trusted = self.trusted.iter().any(|range| range.contains(peer));
        match (is_trusted, self.mode) {
            (true, _) => Some(true),
            (false, ProxyProtocolMode::Trusted) => Some(false),
            (false, ProxyProtocolMode::Required) => None,
        }
    }
}

impl fmt::Display for ProxyProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trusted: Vec<_> = self.trusted.iter().map(ToString::to_string).collect();
        write!(f, "from {}", trusted.join(", "))?;
        f.write_str(match self.mode {
            ProxyProtocolMode::Required => "; other peers are rejected",
            ProxyProtocolMode::Trusted => "; other peers are clients",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_needed_from_trusted_peers_only() {
        let trusted = ["10.0.0.0/8".to_owned(), "::1".to_owned()];
        let [near, far] = [[10, 1, 2, 3], [11, 0, 0, 1]].map(IpAddr::from);
        let of = |mode| ProxyProtocol::new(Some(mode), &trusted).expect("valid");
        let required = of(ProxyProtocolMode::Required).expect("a mode");
        assert_eq!(required.needs_header(near), Some(true));
        assert_eq!(required.needs_header(far), None);
        let optional = of(ProxyProtocolMode::Trusted).expect("a mode");
        assert_eq!(optional.needs_header(near), Some(true));
        assert_eq!(optional.needs_header(far), Some(false));
        assert!(ProxyProtocol::new(None, &trusted).is_err());
        assert!(ProxyProtocol::new(Some(ProxyProtocolMode::Trusted), &[]).is_err());
    }
}
