//! Source addresses: one address has some 28,000 ephemeral ports towards one server port.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Which local addresses outgoing connections use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressSource {
    /// The operating system's choice.
    Any,
    /// Addresses `127.net.0.1`, `.2` ... in turn, each for some thousands of connections. A process
    /// takes its own `net`, so that ports left in TIME_WAIT by an earlier one do not matter.
    Loopback {
        /// The second byte.
        net: u8,
    },
    /// These addresses, in turn.
    List(Vec<IpAddr>),
}

impl AddressSource {
    /// [`Sources::Loopback`] for an IPv4 loopback server, otherwise [`Sources::Any`].
    pub fn for_target(server: SocketAddr) -> Self {
        match server.ip() {
            IpAddr::V4(ip) if ip.is_loopback() => Self::Loopback {
                // The remainder fits a byte; 0 and 255 are left out.
                net: (1 + std::process::id() % 254) as u8,
            },
            _ => Self::Any,
        }
    }

    /// The address for connection number `conn`.
    pub(super) fn address(&self, conn: usize) -> Option<IpAddr> {
        match self {
            Self::Any => None,
            Self::Loopback { net } => {
                let host = 1 + conn / CONNECTIONS_PER_SOURCE;
                let [.., high, low] = (host as u64).to_be_bytes();
                Some(Ipv4Addr::new(127, *net, high, low).into())
            }
            Self::List(list) => list.get(conn % list.len().max(1)).copied(),
        }
    }
}

/// Below the 28,232 ports of Linux' default range, with room for other users of the address.
const CONNECTIONS_PER_SOURCE: usize = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_changes_address_before_ports_run_out() {
        let sources = AddressSource::Loopback { net: 7 };
        let at = |conn| sources.address(conn).unwrap().to_string();
        assert_eq!(at(0), "127.7.0.1");
        assert_eq!(at(19_999), "127.7.0.1");
        assert_eq!(at(20_000), "127.7.0.2");
        assert_eq!(at(20_000 * 255), "127.7.1.0");
        assert_eq!(AddressSource::List(Vec::new()).address(3), None);
        assert_eq!(
            AddressSource::for_target("[::1]:1".parse().unwrap()),
            AddressSource::Any
        );
    }
}
