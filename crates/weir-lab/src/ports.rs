//! TCP ports of this machine: free ones, and who holds a taken one.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::{Ipv4Addr, TcpListener};

use crate::error::LabError;

/// A process that listens on a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Process id.
    pub pid: u32,
    /// Name of the program.
    pub name: String,
}

/// A port of 127.0.0.1 that nobody listens on at this moment.
///
/// # Errors
/// When no port can be bound at all.
pub fn free_port() -> io::Result<u16> {
    Ok(free_ports(Ipv4Addr::LOCALHOST, 1)?[0])
}

/// `count` different ports of `host` that nobody listens on at this moment.
///
/// They lie below the range that the system gives to outgoing connections, so that thousands of
/// clients cannot take the port of a broker that is just being restarted.
///
/// # Errors
/// When that many cannot be found.
pub fn free_ports(host: Ipv4Addr, count: usize) -> io::Result<Vec<u16>> {
    let top = first_ephemeral_port().clamp(FIRST_PORT + 1000, u16::MAX);
    let span = u64::from(top - FIRST_PORT);
    let start = RandomState::new().build_hasher().finish() % span;
    let mut held = Vec::new();
    for step in 0..span {
        if held.len() == count {
            break;
        }
        let port = FIRST_PORT + u16::try_from((start + step) % span).unwrap_or(0);
        if let Ok(listener) = TcpListener::bind((host, port)) {
            held.push((port, listener));
        }
    }
    if held.len() < count {
        return Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            format!("fewer than {count} free ports on {host}"),
        ));
    }
    Ok(held.into_iter().map(|(port, _)| port).collect())
}

/// Makes sure that nobody listens on `port` of `host`.
///
/// # Errors
/// [`LabError::PortTaken`], with the process that has it where `/proc` tells.
pub fn require_free(host: Ipv4Addr, port: u16) -> Result<(), LabError> {
    match TcpListener::bind((host, port)) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(LabError::PortTaken {
            port,
            owner: owner(port),
        }),
        Err(error) => Err(LabError::Setting {
            name: "port",
            value: format!("{host}:{port}"),
            reason: format!("cannot be listened on: {error}"),
        }),
    }
}

/// The process that listens on `port`, if this user may see it.
#[must_use]
pub fn owner(port: u16) -> Option<Owner> {
    let inode = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok())
        .find_map(|table| listening_inode(&table, port))?;
    let link = format!("socket:[{inode}]");
    let pids = fs::read_dir("/proc").ok()?;
    pids.filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .find(|pid| has_descriptor(*pid, &link))
        .map(|pid| Owner {
            pid,
            name: fs::read_to_string(format!("/proc/{pid}/comm"))
                .map_or_else(|_| "unknown".to_owned(), |name| name.trim().to_owned()),
        })
}

fn has_descriptor(pid: u32, link: &str) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    descriptors
        .filter_map(Result::ok)
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .any(|target| target.as_os_str() == link)
}

/// The socket in state LISTEN with this local port, in a `/proc/net/tcp` table.
fn listening_inode(table: &str, port: u16) -> Option<String> {
    const LISTEN: &str = "0A";
    let suffix = format!(":{port:04X}");
    table.lines().skip(1).find_map(|line| {
        let mut columns = line.split_ascii_whitespace();
        let local = columns.nth(1)?;
        let state = columns.nth(1)?;
        let inode = columns.nth(5)?;
        (local.ends_with(&suffix) && state == LISTEN).then(|| inode.to_owned())
    })
}

fn first_ephemeral_port() -> u16 {
    fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|range| range.split_ascii_whitespace().next()?.parse().ok())
        .unwrap_or(32768)
}

/// Lowest port given out: above the usual services, Kafka's 9092 among them.
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
    fn a_taken_port_names_its_process() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let error = require_free(Ipv4Addr::LOCALHOST, port).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&format!("port {port} is taken")), "{text}");
        assert!(
            text.contains(&format!("(pid {})", std::process::id())),
            "{text}"
        );
    }
}
