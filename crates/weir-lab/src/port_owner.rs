//! Processes that listen on ports of this machine.

use procfs::net::{TcpState, tcp, tcp6};
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
    let sockets = tcp()
        .into_iter()
        .flatten()
        .chain(tcp6().into_iter().flatten());
    let inode = sockets
        .filter(|it| it.state == TcpState::Listen && it.local_address.port() == port)
        .map(|it| it.inode)
        .next()?;
    let is_owner = |process: &Process| {
        let mut descriptors = process.fd().into_iter().flatten().flatten();
        descriptors.any(|it| matches!(it.target, FDTarget::Socket(other) if other == inode))
    };
    let process = all_processes().ok()?.flatten().find(is_owner)?;
    Some(Owner {
        pid: process.pid.unsigned_abs(),
        name: process
            .stat()
            .map_or_else(|_| "unknown".to_owned(), |stat| stat.comm),
    })
}
