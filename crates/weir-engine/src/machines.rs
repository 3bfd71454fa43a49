//! Connected machines of a run.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use thiserror::Error;

use crate::inventory::{Inventory, InventoryRole};
pub use crate::ssh::{SshError, SshMachine};

/// Machines of a run; their sessions end when this is dropped.
#[derive(Debug)]
pub struct Machines {
    connected: Vec<(SshMachine, Vec<InventoryRole>)>,
    /// Address of this machine at which the gateway serves the others.
    pub listen: IpAddr,
}

/// Inventory that cannot be run.
#[derive(Debug, Error)]
pub enum MachinesError {
    /// A machine has a role that only this machine can run.
    #[error("machine {0}: role {1} runs on this machine only; use an existing one")]
    Role(String, InventoryRole),
    /// A role of ssh machines is on several of them.
    #[error("role {0} is on several machines: the engine ssh runs it on one")]
    Several(InventoryRole),
    /// The gateway's machine, which is this one, has no valid address.
    #[error("machine {0}: address \"{1}\" is not an IP address of this machine")]
    Address(String, String),
    /// A machine cannot be used.
    #[error(transparent)]
    Ssh(#[from] SshError),
}

impl Machines {
    /// Connects to all machines of the inventory that have a destination. `program` is this
    /// program; `note` is called with the progress.
    ///
    /// # Errors
    /// [`MachinesError`] if a role or a machine cannot be used.
    pub fn connect(
        inventory: &Inventory,
        program: &Path,
        note: &mut dyn FnMut(&str),
    ) -> Result<Self, MachinesError> {
        for role in InventoryRole::ALL {
            let mut remote = inventory.with(role).filter(|it| it.ssh.is_some());
            let Some(first) = remote.next() else { continue };
            if !REMOTE.contains(&role) {
                return Err(MachinesError::Role(first.name.clone(), role));
            }
            if inventory.with(role).nth(1).is_some() {
                return Err(MachinesError::Several(role));
            }
        }
        let listen = inventory.with(InventoryRole::Gateway).find_map(|machine| {
            let address = machine.address.as_ref()?;
            let wrong = |_| MachinesError::Address(machine.name.clone(), address.clone());
            Some(address.parse().map_err(wrong))
        });
        let listen = listen.unwrap_or(Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)))?;
        let mut connected = Vec::new();
        for machine in inventory.machines.iter().filter(|it| it.ssh.is_some()) {
            note(&format!("connecting to {}", machine.name));
            connected.push((
                SshMachine::connect(machine, program)?,
                machine.roles.clone(),
            ));
        }
        Ok(Self { connected, listen })
    }

    /// Returns all machines.
    pub fn all(&self) -> impl Iterator<Item = &SshMachine> {
        self.connected.iter().map(|(machine, _)| machine)
    }

    /// Returns the machine that runs a role; `None`: this one.
    pub fn with(&self, role: InventoryRole) -> Option<&SshMachine> {
        let mut machines = self.connected.iter();
        let found = machines.find(|(_, roles)| roles.contains(&role));
        found.map(|(machine, _)| machine)
    }
}

/// Roles that can run on a machine that is reached with ssh.
const REMOTE: [InventoryRole; 3] = [
    InventoryRole::Producers,
    InventoryRole::Consumers,
    InventoryRole::Clients,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        let inventory = Inventory::parse(text, "test").unwrap();
        let connected = Machines::connect(&inventory, Path::new("/weir"), &mut |_| {});
        connected.unwrap_err().to_string()
    }

    #[test]
    fn roles_are_checked_before_connecting() {
        let machine = |name: &str, role: &str| {
            format!("[[machine]]\nname = \"{name}\"\nssh = \"{name}\"\nroles = [\"{role}\"]\n")
        };
        let gateway = error(&machine("gw", "gateway"));
        assert!(gateway.starts_with("machine gw: role gateway runs on this machine only"));
        let two = error(&(machine("a", "clients") + &machine("b", "clients")));
        assert!(two.starts_with("role clients is on several machines"));
    }
}
