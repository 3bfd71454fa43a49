//! Processes that listen on ports of this machine.

use procfs::net::{TcpNetEntry, TcpState, tcp, tcp6};
use procfs::process::{FDTarget, Process, all_processes};

/// A process that listens on a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Process id.
    pub pid: u32,
    /// Name of the program.
    pub name: String,
}

/// Returns the process that listens on `port`, if this user can see it.
pub fn owner(port: u16) -> Option<Owner> {
    let mut sockets = [tcp(), tcp6()].into_iter().flatten().flatten();
    let is_listener =
        |it: &TcpNetEntry| it.state == TcpState::Listen && it.local_address.port() == port;
    let inode = sockets.find(is_listener)?.inode;
    let is_owner = |process: &Process| {
        let mut descriptors = process.fd().into_iter().flatten().flatten();
        descriptors.any(|it| matches!(it.target, FDTarget::Socket(other) if other == inode))
    };
    let process = all_processes().ok()?.flatten().find(is_owner)?;
    let name = process
        .stat()
        .map_or_else(|_| "unknown".to_owned(), |stat| stat.comm);
    let pid = process.pid.unsigned_abs();
    Some(Owner { pid, name })
}
