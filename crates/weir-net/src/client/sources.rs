//! Local addresses of outgoing connections. One address has some 28,000 ephemeral ports per server
//! port.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Choice of local addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressSource {
    /// Chosen by the operating system.
    Any,
    /// Addresses `127.net.0.1`, `.2` and so on, each for some thousands of connections. Every
    /// process uses its own `net`, so ports left in TIME_WAIT by an earlier process do not matter.
    Loopback {
        /// Second byte of the addresses.
        net: u8,
    },
    /// Given addresses, in turn.
    List(Vec<IpAddr>),
}

impl AddressSource {
    /// Returns [`AddressSource::Loopback`] for an IPv4 loopback server, otherwise
    /// [`AddressSource::Any`].
    pub fn for_target(server: SocketAddr) -> Self {
        match server.ip() {
            IpAddr::V4(ip) if ip.is_loopback() => Self::Loopback {
                // The remainder fits into a byte; 0 and 255 are not used.
                net: (1 + std::process::id() % 254) as u8,
            },
            _ => Self::Any,
        }
    }

    /// Returns the address of connection `conn`.
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

/// Number below the 28,232 ports of Linux' default range, which leaves some for other processes.
const CONNECTIONS_PER_SOURCE: usize = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_address_changes_before_ports_run_out() {
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
