//! Local addresses of outgoing connections. One address has some 28,000 ephemeral ports per server
//! port.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Number below the 28,232 ports of Linux' default range, which leaves some for other processes.
const CONNECTIONS_PER_SOURCE: usize = 20_000;

/// Returns the local address of connection `conn`: for an IPv4 loopback server `127.net.0.1`, `.2`
/// and so on, each for some thousands of connections; `None` leaves the choice to the operating
/// system. Every process uses its own `net`, so ports left in TIME_WAIT by an earlier process do
/// not matter.
pub(super) fn address(server: SocketAddr, conn: usize) -> Option<IpAddr> {
    let IpAddr::V4(ip) = server.ip() else {
        return None;
    };
    // The remainder fits into a byte; 0 and 255 are not used.
    let net = (1 + std::process::id() % 254) as u8;
    ip.is_loopback().then(|| loopback(net, conn).into())
}

fn loopback(net: u8, conn: usize) -> Ipv4Addr {
    let host = 1 + conn / CONNECTIONS_PER_SOURCE;
    let [.., high, low] = (host as u64).to_be_bytes();
    Ipv4Addr::new(127, net, high, low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_address_changes_before_ports_run_out() {
        let at = |conn| loopback(7, conn).to_string();
        assert_eq!(at(0), "127.7.0.1");
        assert_eq!(at(19_999), "127.7.0.1");
        assert_eq!(at(20_000), "127.7.0.2");
        assert_eq!(at(20_000 * 255), "127.7.1.0");
        let of = |server: &str| address(server.parse().unwrap(), 3);
        assert_eq!(of("[::1]:1"), None);
        assert_eq!(of("10.1.2.3:1"), None);
        assert!(of("127.0.0.1:1").is_some());
    }
}
