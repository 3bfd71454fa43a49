//! Connected machines of a run.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::net::{IpAddr, Ipv4Addr};
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use thiserror::Error;

pub use crate::agents::AgentsError;
use crate::agents::{AgentMachine, AgentSession, AgentsOptions, wait_for_agents};
use crate::clock::{ClockBound, ClockError};
use crate::inventory::{Inventory, InventoryRole, Machine};
use crate::machine_clock::MachineClock;
pub use crate::machine_clock::MachineError;
use crate::role_session::send_request;
pub use crate::role_session::{RoleInput, RoleSession, StartedSession};
use crate::session::{RoleProcessRequest, SessionEvent, SessionRequest};
use crate::ssh::SshMachine;

/// Machines of a run; their sessions end when this is dropped.
#[derive(Debug)]
pub struct Machines {
    connected: Vec<ConnectedMachine>,
    /// Address of this machine at which its gateway serves the others.
    pub listen: IpAddr,
}

/// Machine that can run roles.
#[derive(Debug)]
pub struct ConnectedMachine {
    /// Name in the inventory.
    pub name: String,
    /// Name or IP address at which other machines reach it.
    pub address: String,
    roles: Vec<InventoryRole>,
    clock: MachineClock,
    link: MachineLink,
}

#[derive(Debug)]
enum MachineLink {
    Ssh(SshMachine),
    Agent {
        /// Session that responds to clock exchanges until dropped.
        _clock: AgentSession,
        agent: AgentMachine,
    },
}

/// Inventory that cannot be run.
#[derive(Debug, Error)]
pub enum MachinesError {
    /// A machine has a role that only this machine can run.
    #[error("machine {0}: role {1} runs on this machine only; use an existing one")]
    Role(String, InventoryRole),
    /// A role is on machines of the run and on one whose processes the run does not start.
    #[error("role {0} is on other machines and on {1}, which has neither ssh nor agent: remove it")]
    Mixed(InventoryRole, String),
    /// A machine is reached in another way than the engine uses.
    #[error("machine {0}: has {1}, but this engine uses {2}: change the inventory or --engine")]
    OtherEngine(String, &'static str, &'static str),
    /// No machine of the inventory belongs to the engine.
    #[error("no machine has {0}: without one, all roles run here; use --engine local")]
    NoMachine(&'static str),
    /// The gateway's machine, which is this one, has no valid address.
    #[error("machine {0}: address \"{1}\" is not an IP address of this machine")]
    Address(String, String),
    /// A machine cannot be used.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// Agents do not take part.
    #[error(transparent)]
    Agents(#[from] AgentsError),
}

impl Machines {
    /// Connects with ssh to all machines of the inventory that have a destination. `program` is
    /// this program; `note` is called with the progress.
    ///
    /// # Errors
    /// [`MachinesError`] if a role or a machine cannot be used.
    pub fn connect(
        inventory: &Inventory,
        program: &Path,
        note: &mut dyn FnMut(&str),
    ) -> Result<Self, MachinesError> {
        if let Some(other) = inventory.machines.iter().find(|it| it.agent) {
            return Err(other_engine(other, ["agent", "ssh"]));
        }
        check_roles(inventory)?;
        let listen = listen_address(inventory, None)?;
        let machines = remote(inventory, "ssh")?;
        let names: Vec<&str> = machines.iter().map(|it| it.name.as_str()).collect();
        note(&format!("connecting to {}", names.join(", ")));
        let connected = at_once(machines, |machine| {
            let (ssh, address, clock) = SshMachine::connect(machine, program)?;
            let link = MachineLink::Ssh(ssh);
            Ok(ConnectedMachine::new(machine, address, link, clock))
        })?;
        Ok(Self { connected, listen })
    }

    /// Waits for the agents of all machines of the inventory that have one. `program` is this
    /// program; `note` is called with the progress. `stop` ends the wait.
    ///
    /// # Errors
    /// [`MachinesError`] if a role cannot be used, or an agent does not join.
    pub fn with_agents(
        inventory: &Inventory,
        options: &AgentsOptions,
        program: &Path,
        note: &mut dyn FnMut(&str),
        stop: &AtomicBool,
    ) -> Result<Self, MachinesError> {
        if let Some(other) = inventory.machines.iter().find(|it| it.ssh.is_some()) {
            return Err(other_engine(other, ["ssh", "agents"]));
        }
        check_roles(inventory)?;
        let listen = listen_address(inventory, Some(options.listen.ip()))?;
        let machines = remote(inventory, "agent = true")?;
        let names: Vec<&str> = machines.iter().map(|it| it.name.as_str()).collect();
        let agents = wait_for_agents(options, &names, program, note, stop)?;
        let joined = machines.into_iter().zip(agents).collect();
        let connected = at_once(joined, |(machine, (agent, peer))| {
            let address = machine.address.clone();
            let address = address.unwrap_or_else(|| peer.to_string());
            let (session, clock) = agent_clock(machine, &agent, &address).map_err(|error| {
                // The loss of an agent has other consequences first.
                let lost = agent.lost();
                lost.map_or(error, |reason| {
                    MachineError::Lost(machine.name.clone(), reason)
                })
            })?;
            let link = MachineLink::Agent {
                _clock: session,
                agent,
            };
            Ok(ConnectedMachine::new(machine, address, link, clock))
        })?;
        Ok(Self { connected, listen })
    }

    /// Returns all machines.
    pub fn all(&self) -> impl Iterator<Item = &ConnectedMachine> {
        self.connected.iter()
    }

    /// Returns the machines that run a role, each an equal share; if there are none, this machine
    /// runs it.
    pub fn with(&self, role: InventoryRole) -> impl Iterator<Item = &ConnectedMachine> {
        let has_role = move |machine: &&ConnectedMachine| machine.roles.contains(&role);
        self.connected.iter().filter(has_role)
    }

    /// Returns the reason if an agent was lost, which makes the results of the run invalid.
    pub fn lost(&self) -> Option<String> {
        self.connected.iter().find_map(|machine| {
            let lost = MachineError::Lost(machine.name.clone(), machine.lost()?);
            Some(lost.to_string())
        })
    }
}

impl ConnectedMachine {
    fn new(machine: &Machine, address: String, link: MachineLink, clock: MachineClock) -> Self {
        Self {
            name: machine.name.clone(),
            address,
            roles: machine.roles.clone(),
            clock,
            link,
        }
    }

    /// Returns the bounds of the difference between the machine's clock and this one's in the
    /// latest second.
    ///
    /// # Errors
    /// [`ClockError`] if there are too few exchanges, or a clock was stepped.
    pub fn clock_now(&self) -> Result<ClockBound, ClockError> {
        self.clock.now()
    }

    /// Returns the bounds of the difference between the machine's clock and this one's in a time
    /// span.
    ///
    /// # Errors
    /// [`ClockError`] if there are too few exchanges, or a clock was stepped.
    pub fn clock(&self, from_unix_ns: u64, until_unix_ns: u64) -> Result<ClockBound, ClockError> {
        self.clock.between(from_unix_ns, until_unix_ns)
    }

    /// Starts a process of a role. Its log goes to a file.
    ///
    /// # Errors
    /// The error of starting ssh, or of a lost agent.
    pub fn start(&self, request: RoleProcessRequest, log: File) -> io::Result<StartedSession> {
        let mut started = match &self.link {
            MachineLink::Ssh(ssh) => RoleSession::with_ssh(ssh.role_command(), log),
            MachineLink::Agent { agent, .. } => RoleSession::with_agent(agent, log),
        }?;
        send_request(&mut started.input, &SessionRequest::Role(request))?;
        Ok(started)
    }

    fn lost(&self) -> Option<String> {
        match &self.link {
            // ssh reports the loss with each session.
            MachineLink::Ssh(_) => None,
            MachineLink::Agent { agent, .. } => agent.lost(),
        }
    }
}

/// Connects all machines at the same time, because each takes seconds to measure its clock. Returns
/// them in their order, or the first error.
fn at_once<T: Send>(
    machines: Vec<T>,
    connect: impl Fn(T) -> Result<ConnectedMachine, MachineError> + Sync,
) -> Result<Vec<ConnectedMachine>, MachineError> {
    let connect = &connect;
    let results: Vec<_> = thread::scope(|scope| {
        let machines = machines.into_iter();
        let threads: Vec<_> = machines
            .map(|machine| scope.spawn(move || connect(machine)))
            .collect();
        threads.into_iter().map(ScopedJoinHandle::join).collect()
    });
    results
        .into_iter()
        .map(|result| result.unwrap_or_else(|panic| resume_unwind(panic)))
        .collect()
}

fn other_engine(machine: &Machine, [has, uses]: [&'static str; 2]) -> MachinesError {
    MachinesError::OtherEngine(machine.name.clone(), has, uses)
}

/// Returns the machines on which the engine starts processes.
fn remote<'a>(
    inventory: &'a Inventory,
    key: &'static str,
) -> Result<Vec<&'a Machine>, MachinesError> {
    let remote: Vec<&Machine> = inventory
        .machines
        .iter()
        .filter(|it| it.is_remote())
        .collect();
    match remote.is_empty() {
        true => Err(MachinesError::NoMachine(key)),
        false => Ok(remote),
    }
}

fn check_roles(inventory: &Inventory) -> Result<(), MachinesError> {
    for role in InventoryRole::ALL {
        let Some(first) = inventory.with(role).find(|it| it.is_remote()) else {
            continue;
        };
        if !REMOTE.contains(&role) {
            return Err(MachinesError::Role(first.name.clone(), role));
        }
        let mut others = inventory.with(role).filter(|it| !it.is_remote());
        if let Some(other) = others.next() {
            return Err(MachinesError::Mixed(role, other.name.clone()));
        }
    }
    Ok(())
}

/// Returns this machine's address for the gateway: from the inventory, otherwise the address that
/// agents connect to, otherwise loopback.
fn listen_address(inventory: &Inventory, agents: Option<IpAddr>) -> Result<IpAddr, MachinesError> {
    let gateways = inventory.with(InventoryRole::Gateway);
    let mut here = gateways.filter(|it| !it.is_remote());
    let listen = here.find_map(|machine| {
        let address = machine.address.as_ref()?;
        let wrong = |_| MachinesError::Address(machine.name.clone(), address.clone());
        Some(address.parse().map_err(wrong))
    });
    let agents = agents.filter(|it| !it.is_unspecified());
    let default = agents.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    listen.unwrap_or(Ok(default))
}

/// Starts the session that responds to clock exchanges, and the exchanges with it.
fn agent_clock(
    machine: &Machine,
    agent: &AgentMachine,
    address: &str,
) -> Result<(AgentSession, MachineClock), MachineError> {
    let failed = |reason: String| MachineError::Failed(machine.name.clone(), reason);
    let broken = |error: io::Error| failed(error.to_string());
    let (mut session, output) = agent.open(None).map_err(broken)?;
    let key = rand::random();
    let mut input = session.input();
    send_request(&mut input, &SessionRequest::Machine { key }).map_err(broken)?;
    session.keep_input(input);
    let (sender, lines) = mpsc::sync_channel(1);
    thread::spawn(move || {
        let mut line = String::new();
        // An error gives an incomplete line.
        let _ = BufReader::new(output.take(HELLO_BYTES_MAX)).read_line(&mut line);
        // Fails only after the timeout.
        let _ = sender.send(line);
    });
    let hello = lines.recv_timeout(HELLO_TIMEOUT).unwrap_or_default();
    let Ok(SessionEvent::Hello { clock_port, .. }) = serde_json::from_str(&hello) else {
        return Err(failed("it sent no hello line".to_owned()));
    };
    let clock = MachineClock::start(&machine.name, address, clock_port, key)?;
    Ok((session, clock))
}

/// Roles that can run on another machine.
const REMOTE: [InventoryRole; 5] = [
    InventoryRole::Gateway,
    InventoryRole::Producers,
    InventoryRole::Consumers,
    InventoryRole::Clients,
    InventoryRole::Probe,
];
const HELLO_TIMEOUT: Duration = Duration::from_secs(30);
const HELLO_BYTES_MAX: u64 = 1 << 16;

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
        let proxy = error(&machine("gw", "proxy"));
        assert!(proxy.starts_with("machine gw: role proxy runs on this machine only"));
        let here = "[[machine]]\nname = \"b\"\nroles = [\"clients\"]\n";
        let mixed = error(&(machine("a", "clients") + here));
        assert!(
            mixed.starts_with("role clients is on other machines and on b"),
            "{mixed}"
        );
        let agent = "[[machine]]\nname = \"c\"\nagent = true\nroles = [\"clients\"]\n";
        assert!(error(agent).starts_with("machine c: has agent, but this engine uses ssh"));
        let none = error("[[machine]]\nname = \"d\"\nroles = [\"clients\"]\n");
        assert!(none.starts_with("no machine has ssh"), "{none}");
    }
}
