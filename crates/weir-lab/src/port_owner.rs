//! Processes that listen on ports of this machine.

use std::fs;

/// A process that listens on a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Process id.
    pub pid: u32,
    /// Name of the program.
    pub name: String,
}

/// Returns the process that listens on `port`, if this user can see it.
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

/// Returns the inode of the socket that listens on `port`, from a `/proc/net/tcp` table.
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
