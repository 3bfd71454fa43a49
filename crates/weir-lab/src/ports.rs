//! TCP ports of this machine: free ports and the processes of used ones.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::{Ipv4Addr, TcpListener};

use crate::error::{LabError, Result};
pub use crate::port_owner::{Owner, owner};

/// Returns a currently free port of 127.0.0.1.
pub fn free_port() -> io::Result<u16> {
    Ok(free_ports(Ipv4Addr::LOCALHOST, 1)?[0])
}

/// Returns `count` different, currently free ports of `host`.
///
/// They are below the range that the system uses for outgoing connections, so that thousands of
/// clients cannot occupy the port of a broker during its restart.
pub fn free_ports(host: Ipv4Addr, count: usize) -> io::Result<Vec<u16>> {
    let top = first_ephemeral_port().clamp(FIRST_PORT + 1000, u16::MAX);
    let span = u64::from(top - FIRST_PORT);
    let start = RandomState::new().build_hasher().finish() % span;
    let mut bound = Vec::new();
    for step in 0..span {
        if bound.len() == count {
            break;
        }
        let port = FIRST_PORT + u16::try_from((start + step) % span).unwrap_or(0);
        if let Ok(listener) = TcpListener::bind((host, port)) {
            bound.push((port, listener));
        }
    }
    if bound.len() < count {
        let reason = format!("fewer than {count} free ports on {host}");
        return Err(io::Error::new(io::ErrorKind::AddrInUse, reason));
    }
    Ok(bound.into_iter().map(|(port, _)| port).collect())
}

/// Checks that `port` of `host` is free.
pub fn require_free(host: Ipv4Addr, port: u16) -> Result<()> {
    match TcpListener::bind((host, port)) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            Err(LabError::PortTaken(port, owner(port)))
        }
        Err(error) => {
            let (address, reason) = (format!("{host}:{port}"), format!("cannot listen: {error}"));
            Err(LabError::option("port", &address, &reason))
        }
    }
}

fn first_ephemeral_port() -> u16 {
    fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|range| range.split_ascii_whitespace().next()?.parse().ok())
        .unwrap_or(32768)
}

/// Lowest port returned, above those of usual services such as Kafka's 9092.
const FIRST_PORT: u16 = 15_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_differ_and_can_be_bound() {
        let ports = free_ports(Ipv4Addr::LOCALHOST, 6).unwrap();
        let listeners: Vec<_> = ports
            .iter()
            .map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).unwrap())
            .collect();
        assert_eq!(listeners.len(), 6);
    }

    #[test]
    fn used_port_error_names_its_process() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let error = require_free(Ipv4Addr::LOCALHOST, port).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&format!("port {port} is in use")), "{text}");
        assert!(
            text.contains(&format!("(pid {})", std::process::id())),
            "{text}"
        );
    }
}
