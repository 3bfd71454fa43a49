//! The inventory: a TOML file that assigns the roles of a test to machines.

use std::collections::BTreeSet;
use std::fmt;

use serde::Deserialize;
use thiserror::Error;

use crate::limits::MachineLimits;

/// InventoryRole of processes in a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InventoryRole {
    /// Kafka brokers.
    Brokers,
    /// Server between brokers and clients: the gateway, or the baseline server in its place.
    Gateway,
    /// Proxy between clients and brokers.
    Proxy,
    /// Processes that write the records.
    Producers,
    /// Plain Kafka consumers.
    Consumers,
    /// Simulated clients of the gateway.
    Clients,
    /// SDK client next to the simulated ones.
    Probe,
}

impl InventoryRole {
    /// All roles, servers first.
    pub const ALL: [Self; 7] = [
        Self::Brokers,
        Self::Gateway,
        Self::Proxy,
        Self::Producers,
        Self::Consumers,
        Self::Clients,
        Self::Probe,
    ];

    /// Returns the name in inventories.
    pub fn name(self) -> &'static str {
        match self {
            Self::Brokers => "brokers",
            Self::Gateway => "gateway",
            Self::Proxy => "proxy",
            Self::Producers => "producers",
            Self::Consumers => "consumers",
            Self::Clients => "clients",
            Self::Probe => "probe",
        }
    }

    /// Returns `true` if several machines can share the role.
    pub fn is_shared(self) -> bool {
        match self {
            Self::Brokers | Self::Producers | Self::Consumers | Self::Clients => true,
            Self::Gateway | Self::Proxy | Self::Probe => false,
        }
    }
}

impl fmt::Display for InventoryRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Error in an inventory file.
#[derive(Debug, Error)]
pub enum InventoryError {
    /// The text is not TOML, or has unknown keys or values.
    #[error("{0}: {1}")]
    Syntax(String, #[source] Box<toml::de::Error>),
    /// The inventory has no machine.
    #[error("{0}: no machine: add a table [[machine]] with name and roles")]
    Empty(String),
    /// Two machines have the same name.
    #[error("{0}: two machines have the name \"{1}\"")]
    SameName(String, String),
    /// A machine has a role twice, or none.
    #[error("{0}: machine \"{1}\": roles must not be empty and name each role once")]
    Roles(String, String),
    /// Several machines have a role that cannot be shared.
    #[error("{0}: role {1} is on several machines: it runs on one")]
    Shared(String, InventoryRole),
    /// A machine has options for `ssh` but no destination.
    #[error("{0}: machine \"{1}\": ssh_options need ssh, the destination")]
    NoDestination(String, String),
    /// A machine is reached in two ways.
    #[error("{0}: machine \"{1}\": has ssh and agent: use one of them")]
    TwoWays(String, String),
    /// A limit is zero, negative or not a number.
    #[error("{0}: machine \"{1}\": {2} must be above 0")]
    Limit(String, String, &'static str),
}

/// Checked inventory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inventory {
    /// Machines in the order of the file. None: all roles run on this machine.
    pub machines: Vec<Machine>,
}

/// Machine of a test.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Unique name, in results and messages.
    pub name: String,
    /// Destination for `ssh`; `None`: this machine, or one that the test does not start.
    pub ssh: Option<String>,
    /// Options for `ssh`.
    #[serde(default)]
    pub ssh_options: Vec<String>,
    /// The user starts an agent there, which connects to the coordinator.
    #[serde(default)]
    pub agent: bool,
    /// Address at which the other machines reach it; `None`: the host of `ssh`, the address of
    /// the agent, or loopback.
    pub address: Option<String>,
    /// Roles whose processes the machine runs; of a shared role it runs an equal share.
    pub roles: Vec<InventoryRole>,
    /// MachineLimits, as far as they are known.
    #[serde(default)]
    pub limits: MachineLimits,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawInventory {
    #[serde(default, rename = "machine")]
    machines: Vec<Machine>,
}

impl Machine {
    /// Returns `true` if the run starts processes there over a connection.
    pub fn is_remote(&self) -> bool {
        self.agent || self.ssh.is_some()
    }
}

impl Inventory {
    /// Parses the text of an inventory file; `file` is its name in errors.
    ///
    /// # Errors
    /// [`InventoryError`] if the text is not a valid inventory.
    pub fn parse(text: &str, file: &str) -> Result<Self, InventoryError> {
        let raw: RawInventory = toml::from_str(text)
            .map_err(|error| InventoryError::Syntax(file.to_owned(), Box::new(error)))?;
        let mut names = BTreeSet::new();
        for machine in &raw.machines {
            let name = || (file.to_owned(), machine.name.clone());
            if !names.insert(&machine.name) {
                let (file, name) = name();
                return Err(InventoryError::SameName(file, name));
            }
            let roles: BTreeSet<InventoryRole> = machine.roles.iter().copied().collect();
            if roles.is_empty() || roles.len() < machine.roles.len() {
                let (file, name) = name();
                return Err(InventoryError::Roles(file, name));
            }
            if !machine.ssh_options.is_empty() && machine.ssh.is_none() {
                let (file, name) = name();
                return Err(InventoryError::NoDestination(file, name));
            }
            if machine.agent && machine.ssh.is_some() {
                let (file, name) = name();
                return Err(InventoryError::TwoWays(file, name));
            }
            if let Some(limit) = machine.limits.invalid() {
                let (file, name) = name();
                return Err(InventoryError::Limit(file, name, limit));
            }
        }
        let inventory = Self {
            machines: raw.machines,
        };
        if inventory.machines.is_empty() {
            return Err(InventoryError::Empty(file.to_owned()));
        }
        let is_shared = |role: &InventoryRole| inventory.with(*role).nth(1).is_some();
        let mut single = InventoryRole::ALL
            .into_iter()
            .filter(|role| !role.is_shared());
        match single.find(is_shared) {
            Some(role) => Err(InventoryError::Shared(file.to_owned(), role)),
            None => Ok(inventory),
        }
    }

    /// Returns the machines with a role, in the order of the file.
    pub fn with(&self, role: InventoryRole) -> impl Iterator<Item = &Machine> {
        let has_role = move |machine: &&Machine| machine.roles.contains(&role);
        self.machines.iter().filter(has_role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Inventory::parse(text, "machines.toml")
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn machines_have_roles_and_limits() {
        let text = "[[machine]]\nname = \"a\"\nroles = [\"brokers\", \"gateway\"]\n\
                    limits = { cores = 4, mbit_per_s = 1000.5 }\n\
                    [[machine]]\nname = \"b\"\nroles = [\"clients\"]\n\
                    limits = { file_descriptors = 1000, ports = 28000 }\n\
                    [[machine]]\nname = \"c\"\nroles = [\"clients\"]\n";
        let inventory = Inventory::parse(text, "machines.toml").unwrap();
        let [a, b, c] = &inventory.machines[..] else {
            panic!("{inventory:?}");
        };
        assert_eq!(a.limits.cores, Some(4.0));
        assert_eq!(a.limits.mbit_per_s, Some(1000.5));
        assert_eq!(a.limits.file_descriptors, None);
        assert_eq!(b.limits.ports, Some(28_000));
        assert_eq!(
            inventory.with(InventoryRole::Clients).collect::<Vec<_>>(),
            [b, c]
        );
        assert_eq!(inventory.with(InventoryRole::Proxy).count(), 0);
    }

    #[test]
    fn mistakes_name_file_and_machine() {
        let machine = |name: &str, rest: &str| format!("[[machine]]\nname = \"{name}\"\n{rest}\n");
        assert!(error("").contains("machines.toml: no machine"));
        let clients = machine("a", "roles = [\"clients\"]");
        let twice = error(&(clients.clone() + &clients));
        assert_eq!(twice, "machines.toml: two machines have the name \"a\"");
        for roles in ["roles = []", "roles = [\"clients\", \"clients\"]"] {
            assert!(error(&machine("a", roles)).contains("machine \"a\": roles must"));
        }
        let gateway = |name| machine(name, "roles = [\"gateway\"]");
        let two = error(&(gateway("a") + &gateway("b")));
        assert_eq!(
            two,
            "machines.toml: role gateway is on several machines: it runs on one"
        );
        let zero = error(&(clients.clone() + "limits = { cores = 0.0 }"));
        assert_eq!(zero, "machines.toml: machine \"a\": cores must be above 0");
        let options = error(&(clients.clone() + "ssh_options = [\"-4\"]"));
        assert!(options.contains("machine \"a\": ssh_options need ssh"));
        let both = error(&(clients.clone() + "ssh = \"a\"\nagent = true"));
        assert!(both.contains("machine \"a\": has ssh and agent"));
        assert!(error(&(clients + "speed = 1")).contains("unknown field `speed`"));
        assert!(error(&machine("a", "roles = [\"king\"]")).contains("unknown variant `king`"));
    }
}
